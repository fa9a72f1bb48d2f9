"""Bands around a frontier: against resamples solved one by one, closed forms, and known answers."""

from dataclasses import replace

import numpy as np
import pytest
from support_boa import law_class, random_class
from support_boa_replay import workload_of_jobs

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.statistics.bootstrap import draw_blocks, expanded_tail
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.uncertainty import bootstrap_bands
from gpuplan.planner.frontier.uncertainty.bootstrap_bands import (
    FrontierBand,
    bootstrap_frontier,
    range_band,
)


def workload(classes, jobs=300, seed=0, horizon_h=100.0):
    """Poisson arrivals with exponential sizes; rates and means of the classes are those drawn."""
    rng = np.random.default_rng(seed)
    submit_s = np.sort(rng.uniform(0, 3600 * horizon_h, jobs))
    submit_s[0] = 0
    group = rng.integers(0, len(classes), jobs)
    work_h = rng.exponential(2.0, jobs) * (1 + group)
    drawn = []
    for index, c in enumerate(classes):
        mine = work_h[group == index]
        share = c.work_h / c.work_h.sum()
        drawn.append(replace(c, rate_per_h=mine.size / horizon_h, work_h=mine.mean() * share))
    return workload_of_jobs(drawn, submit_s, group, work_h, horizon_h)


def classes_of(count, rescale_h, epochs=3, seed=1, weight=1.0):
    rng = np.random.default_rng(seed)
    return [
        random_class(
            rng, str(i), epochs=epochs, widths=8, rescale_h=rescale_h, weight=1 + i * weight
        )
        for i in range(count)
    ]


def solved_again(frontier, arrivals, horizon_h, blocks, resample):
    """The frontier of one resample from its jobs, with neither prefix sums nor scaled hulls."""
    at = blocks.positions(resample)
    gap_h = np.diff(arrivals.submit_s, prepend=0) / 3600
    gap_h[0] += horizon_h - arrivals.submit_s[-1] / 3600
    made = []
    for index, c in enumerate(frontier.classes):
        mine = at[arrivals.job_class[at] == index]
        if mine.size:
            share = c.work_h / c.work_h.sum()
            work_h = arrivals.work_h[mine].mean() * share
            made.append(replace(c, rate_per_h=mine.size / gap_h[at].sum(), work_h=work_h))
    return solve_frontier(made)


@pytest.mark.parametrize("rescale_h", [0.0, 0.1])
def test_bands_are_those_of_resamples_solved_one_by_one(rescale_h):
    one = workload(classes_of(3, rescale_h), jobs=80)
    frontier = solve_frontier(one.classes)
    budgets = np.array([0.9, 1.1, 1.6]) * frontier.min_budget
    targets = frontier.objective_s[[0, frontier.objective_s.size // 2, -1]] * [1.2, 1, 1.001]
    bands = bootstrap_frontier(
        one, frontier, budgets, targets, level=80, resamples=21, rng=np.random.default_rng(5)
    )
    blocks = draw_blocks(80, bands.block_jobs, 21, np.random.default_rng(5))
    rows = []
    for resample in range(21):
        again = solved_again(frontier, one.arrivals, one.horizon_h, blocks, resample)
        times = np.interp(budgets, again.budgets, again.mean_jct_s)
        needs = np.interp(-targets, -again.objective_s, again.budgets)
        rows.append(
            [
                again.load_gpus,
                again.min_budget,
                *np.where(budgets < again.min_budget, np.inf, times),
                *np.where(targets < again.objective_s[-1], np.inf, needs),
            ]
        )
    drawn = np.sort(rows, axis=0)
    at = expanded_tail(80, blocks.count) / 100 * 22 - 1  # 80% of 21: near the second
    low, high = int(at), int(np.ceil(20 - at))
    found = [bands.load_gpus, bands.min_budget_gpus, *bands.mean_jct_s, *bands.target_budget_gpus]
    for column, band in zip(drawn.T, found, strict=True):
        for value, end in ((column[low], band.low), (column[high], band.high)):
            assert (np.inf if end is None else end) == pytest.approx(value, rel=1e-9)
        assert band.missed_share == pytest.approx(np.isinf(column).mean())
    assert bands.load_gpus.value == pytest.approx(frontier.load_gpus)
    assert bands.min_budget_gpus.value == pytest.approx(frontier.min_budget)
    assert bands.mean_jct_s[0].value is None  # 0.9 of the least budget
    assert bands.mean_jct_s[1].value == pytest.approx(frontier.at_budget(budgets[1]).mean_jct_s)
    least = frontier.at_target_jct(targets[1]).budget
    assert bands.target_budget_gpus[1].value == pytest.approx(least)


def test_without_rescaling_hulls_are_stretched_not_solved_again(monkeypatch):
    one = workload(classes_of(3, 0.0))
    frontier = solve_frontier(one.classes)
    monkeypatch.setattr(bootstrap_bands, "solve_frontier", None)
    bands = bootstrap_frontier(one, frontier, [1e3], rng=np.random.default_rng(0))
    assert bands.mean_jct_s[0].low < bands.mean_jct_s[0].value < bands.mean_jct_s[0].high
    rescaled = workload(classes_of(3, 0.1))
    with pytest.raises(TypeError):
        frontier = solve_frontier(rescaled.classes)
        bootstrap_frontier(rescaled, frontier, rng=np.random.default_rng(0))


def test_what_is_certain_has_no_width():
    # Equal jobs at equal gaps: every resample is the trace.
    classes = [law_class("a", rate=2.0, work=(3.0,), rescale_h=0.01)]
    one = workload_of_jobs(classes, np.arange(100) * 1800, np.zeros(100), np.full(100, 3.0), 50.0)
    frontier = solve_frontier(classes)
    shares = []
    bands = bootstrap_frontier(
        one,
        frontier,
        [8.0],
        [3600.0],
        resamples=50,
        rng=np.random.default_rng(0),
        progress=shares.append,
    )
    assert shares == pytest.approx(np.arange(1, 51) / 50)
    for band in (bands.load_gpus, *bands.mean_jct_s, *bands.target_budget_gpus):
        assert band.low == pytest.approx(band.value) and band.high == pytest.approx(band.value)
    assert bands.load_gpus.value == pytest.approx(6.0)


def test_band_of_the_load_has_the_width_of_its_law():
    # Load = work / time: with n jobs, exponential gaps and sizes, its relative variance is 2/n.
    rng = np.random.default_rng(3)
    n = 4000
    submit_s = np.cumsum(rng.exponential(36, n))
    submit_s -= submit_s[0]
    work_h = rng.exponential(2.0, n)
    horizon_h = submit_s[-1] / 3600 * n / (n - 1)
    classes = [law_class("a", rate=n / horizon_h, work=(work_h.mean(),), alpha=0.8)]
    one = workload_of_jobs(classes, submit_s, np.zeros(n), work_h, horizon_h)
    band = bootstrap_frontier(one, solve_frontier(classes), rng=rng).load_gpus
    assert (band.high - band.low) / band.value == pytest.approx(2 * 1.645 * np.sqrt(2 / n), rel=0.2)


def test_bands_are_the_same_each_time_and_nest():
    one = workload(classes_of(2, 0.05))
    frontier = solve_frontier(one.classes)
    budgets = np.linspace(1.3, 3, 4) * frontier.min_budget

    def run(level, seed=0):
        rng = np.random.default_rng(seed)
        return bootstrap_frontier(one, frontier, budgets, level=level, resamples=99, rng=rng)

    assert run(90).mean_jct_s == run(90).mean_jct_s != run(90, seed=1).mean_jct_s
    for narrow, wide in zip(run(60).mean_jct_s, run(95).mean_jct_s, strict=True):
        assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high
    highs = [band.high for band in run(90).mean_jct_s]
    assert highs == sorted(highs, reverse=True)
    frame = run(90).to_frame()
    assert frame.columns == ["figure", "at", "value", "low", "high", "missed_share"]
    assert frame["figure"].to_list() == ["load_gpus", "min_budget_gpus"] + ["mean_jct_s"] * 4


def test_a_cap_that_some_resamples_cannot_keep():
    classes = [law_class("a", work=(2.0,), alpha=0.5, widths=4)]
    one = workload(classes, jobs=60)
    quickest = solve_frontier(one.classes).hulls[0].time_h[-1]
    capped = replace(one, classes=(replace(one.classes[0], cap_h=quickest * 1.02),))
    frontier = solve_frontier(capped.classes)
    bands = bootstrap_frontier(
        capped, frontier, [frontier.min_budget], resamples=60, rng=np.random.default_rng(0)
    )
    assert 0.2 < bands.min_budget_gpus.missed_share < 0.8
    assert bands.min_budget_gpus.high is None and bands.min_budget_gpus.value is not None
    assert bands.load_gpus.missed_share == 0


def test_a_short_horizon_raises_all_rates_alike():
    one = workload(classes_of(2, 0.0))
    half = replace(
        one,
        horizon_h=50.0,
        classes=tuple(replace(c, rate_per_h=2 * c.rate_per_h) for c in one.classes),
    )
    full, short = (
        bootstrap_frontier(w, solve_frontier(w.classes), rng=np.random.default_rng(0)).load_gpus
        for w in (one, half)
    )
    assert short.value == pytest.approx(2 * full.value)
    assert short.low == pytest.approx(2 * full.low, rel=0.02)


def test_jobs_that_all_come_at_once_tell_no_rate():
    classes = [law_class("a", rate=0.3)]
    one = workload_of_jobs(classes, np.zeros(30), np.zeros(30), np.ones(30), 100.0)
    bands = bootstrap_frontier(
        one, solve_frontier(classes), [10.0], resamples=40, rng=np.random.default_rng(0)
    )
    assert bands.load_gpus.missed_share == pytest.approx((29 / 30) ** 30, abs=0.35)
    assert bands.load_gpus.value == pytest.approx(0.3)


def test_what_is_asked_is_checked():
    one = workload(classes_of(2, 0.0))
    frontier, rng = solve_frontier(one.classes), np.random.default_rng(0)
    for level in (49, 100, float("nan")):
        with pytest.raises(UsageError, match=r"--ci must be between 50 and 99\.9"):
            bootstrap_frontier(one, frontier, level=level, rng=rng)
    with pytest.raises(UsageError, match=r"got 0\.9; in percent, did you mean 90\?"):
        bootstrap_frontier(one, frontier, level=0.9, rng=rng)
    with pytest.raises(ValueError, match="no jobs"):
        bootstrap_frontier(replace(one, arrivals=None), frontier, rng=rng)
    with pytest.raises(ValueError, match="the classes of the workload"):
        bootstrap_frontier(one, solve_frontier(one.classes[:1]), rng=rng)


def test_ends_of_a_range_are_shown_as_bands_are():
    assert range_band(5.0, (7.0, 3.0)) == FrontierBand(5.0, 3.0, 7.0)
    assert range_band(5.0, (None, 3.0)) == FrontierBand(5.0, 3.0, None, 0.5)
    assert range_band(None, (None, None)) == FrontierBand(None, None, None, 1.0)
