"""Step functions of time: worked by hand, and against counting instant by instant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.history.steps import means_within, sum_between, time_weighted_quantiles
from gpuplan.simkit.steps import mean_and_peak, peak_overlap, time_average, value_at

LEVELS = st.lists(st.integers(0, 9), min_size=1, max_size=20)
STRETCHES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 9)).map(
        lambda one: (min(one[:2]), max(one[:2]), one[2])
    ),
    min_size=1,
    max_size=8,
)


def test_the_average_counts_the_time_before_the_first_change_as_zero():
    assert time_average(np.array([1.0, 3.0]), np.array([2.0, 4.0]), 5.0) == pytest.approx(2.4)
    assert time_average(np.array([]), np.array([]), 5.0) == 0.0


def test_mean_and_peak_worked_by_hand():
    # 4 from 0 on, 0 from 10 on, 7 from 40 on.
    time, value = np.array([0.0, 10.0, 40.0]), np.array([4.0, 0.0, 7.0])
    mean, peak = mean_and_peak(time, value, np.array([-20.0, 0.0, 20.0, 40.0, 50.0]))
    assert mean.tolist() == pytest.approx([0.0, 2.0, 0.0, 7.0])
    assert peak.tolist() == [0.0, 4.0, 0.0, 7.0]


@given(LEVELS, st.integers(1, 5))
def test_mean_and_peak_agree_with_a_list_of_seconds(levels, width):
    time, value = np.arange(len(levels), dtype=float), np.array(levels, float)
    seconds = [*levels, *[levels[-1]] * width]
    edges = np.arange(0, len(seconds) // width + 1, dtype=float) * width
    mean, peak = mean_and_peak(time, value, edges)
    parts = [seconds[i * width : (i + 1) * width] for i in range(edges.size - 1)]
    assert mean.tolist() == pytest.approx([sum(part) / width for part in parts])
    assert peak.tolist() == [max(part) for part in parts]


@given(LEVELS)
def test_a_value_is_the_last_one_up_to_that_instant(levels):
    time = 2.0 * np.arange(len(levels))
    found = value_at(time, np.array(levels), np.concatenate([[-1.0], time, time + 1]))
    assert found.tolist() == [0, *levels, *levels]


def test_intervals_that_touch_do_not_overlap():
    assert peak_overlap(np.array([0, 5, 10]), np.array([10, 7, 20])) == 2
    assert peak_overlap(np.array([0, 10]), np.array([10, 20])) == 1
    assert peak_overlap(np.array([]), np.array([])) == 0


def test_time_weighted_quantiles_are_the_least_levels_held_long_enough():
    level, lasting = np.array([5, 1, 3]), np.array([1, 3, 6])
    assert time_weighted_quantiles(level, lasting, (0.3, 0.31, 0.9, 0.91)) == (1, 3, 3, 5)


@given(STRETCHES)
def test_stretches_that_overlap_add_up(stretches):
    start, end, level = (np.array(column) for column in zip(*stretches, strict=True))
    edges = np.unique(np.concatenate([start, end]))
    total, count = sum_between(edges, start, end, level)
    for i, now in enumerate(edges[:-1]):
        held = (start <= now) & (now < end)
        assert (total[i], count[i]) == (level[held].sum(), held.sum())


def test_means_within_bins_count_only_what_is_covered():
    # 2 over [0, 5) and 4 over [10, 20), in bins of 10 from 0 to 30.
    cover, (mean,) = means_within(
        np.array([0, 10, 20, 30]), np.array([0, 10]), np.array([5, 20]), np.array([2.0, 4.0])
    )
    assert cover.tolist() == [0.5, 1.0, 0.0]
    assert mean[:2].tolist() == [2.0, 4.0] and np.isnan(mean[2])
