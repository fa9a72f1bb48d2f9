"""The rhythm of arrivals: hand-worked shares, periods put in and found, noise, short traces."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.analysis.characterize.seasonality import explained, find_peak, seasonality

HOUR = 3600
MONDAY_S = 1_767_571_200  # 2026-01-05 00:00 UTC


def submissions(counts, start_s=MONDAY_S):
    """Return the given number of submissions in successive hours, and one in the hour after."""
    hours = np.repeat(np.arange(len(counts)), counts)
    at = start_s + np.append(hours * HOUR, len(counts) * HOUR)
    return (at * 10**6).astype(np.int64)


def test_the_share_explained_worked_by_hand():
    # Means 2 and 6 around 4: between 4 * 4 = 16, within 4 * 1 = 4, whole 20 over 4 values.
    values, labels = np.array([1.0, 3.0, 5.0, 7.0]), np.array([0, 0, 1, 1])
    assert explained(values, labels) == pytest.approx(1 - (4 / 2) / (20 / 3))
    # Equal means explain less than noise: 1 - (20 / 2) / (20 / 3).
    assert explained(values, np.array([0, 1, 1, 0])) == pytest.approx(-0.5)


def test_a_perfect_daily_rhythm_explains_everything():
    day = [1] * 8 + [9] * 10 + [4] * 6
    found = seasonality(submissions(day * 21), None)
    assert found.hours == 21 * 24
    assert found.daily_strength == pytest.approx(1)
    assert found.weekly_strength == 0
    assert found.peak_period_s == pytest.approx(86400, rel=0.01)
    assert found.peak_p < 1e-6


def test_a_working_week_is_weekly():
    week = [6] * 120 + [1] * 48
    found = seasonality(submissions(week * 8), "UTC")
    assert found.weekly_strength == pytest.approx(1)
    assert found.daily_strength == 0
    assert found.peak_period_s == pytest.approx(7 * 86400, rel=0.01)
    # First harmonic of a square wave that is up 5 of 7: 2 (sin(5 pi / 7) / pi)^2 of 5/7 * 2/7.
    share = 2 * (np.sin(5 * np.pi / 7) / np.pi) ** 2 / (10 / 49)
    assert found.peak_share == pytest.approx(share, rel=1e-3)


def test_the_clock_is_that_of_the_source():
    # Jobs arrive from 9 to 17 Berlin time on every day of three weeks around the end of summer
    # time on 2026-10-25: perfect on that clock, blurred on any fixed offset.
    start = 1_791_763_200  # 2026-10-12 00:00 UTC
    stamps = pl.Series((np.arange(21 * 24) * HOUR + start) * 10**6).cast(pl.Datetime("us", "UTC"))
    hour = stamps.dt.convert_time_zone("Europe/Berlin").dt.hour().to_numpy()
    jobs = submissions(np.where((hour >= 9) & (hour < 17), 5, 0), start)
    whole = np.concatenate([[start * 10**6], jobs])
    berlin = seasonality(whole, "Europe/Berlin").daily_strength
    assert berlin > 0.98 > 0.95 > seasonality(whole, "UTC").daily_strength
    assert seasonality(whole, "+01:00").daily_strength < 0.95


def test_noise_has_no_rhythm():
    rng = np.random.default_rng(2)
    at = np.cumsum(rng.exponential(400, 40_000)) + MONDAY_S
    found = seasonality((at * 1e6).astype(np.int64), "UTC")
    assert found.daily_strength < 0.01 and found.weekly_strength < 0.01
    assert found.peak_period_s is None and found.peak_share is None and found.peak_p > 0.01


def test_a_trend_is_no_rhythm():
    found = seasonality(submissions(list(range(0, 400))), None)
    assert found.peak_period_s is None and found.peak_p < 1e-6


def test_fishers_bound_is_seldom_passed_by_noise():
    rng = np.random.default_rng(3)
    passed = sum(find_peak(rng.normal(size=300))[2] < 0.05 for _ in range(400))
    assert 5 <= passed <= 36  # 20 expected where the bound is tight; 4 standard deviations


@pytest.mark.parametrize(
    ("submit_us", "hours"),
    [
        ([0], 0),
        ([5], 0),
        ([0, 10 * HOUR * 10**6], 10),
        ([0, 3_000_000 * HOUR * 10**6], 3_000_000),  # 342 years: a broken clock
    ],
)
def test_what_is_too_short_or_too_long_has_none(submit_us, hours):
    found = seasonality(np.array(submit_us), "UTC")
    assert found.hours == hours
    assert found.daily_strength is None and found.peak_p is None


def test_a_steady_stream_does_not_vary():
    assert seasonality(submissions([3] * 100), None).daily_strength is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=60, max_size=400), st.integers(1, 9))
def test_shares_are_shares_and_the_strength_does_not_depend_on_the_rate(counts, factor):
    one = seasonality(submissions(counts), None)
    if one.daily_strength is None:
        return
    assert 0 <= one.daily_strength <= 1 and 0 <= one.peak_p <= 1
    many = seasonality(submissions([factor * count for count in counts]), None)
    assert many.daily_strength == pytest.approx(one.daily_strength, abs=1e-9)
    assert many.peak_p == pytest.approx(one.peak_p, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("hours", [49, 64, 65, 66, 73, 129])
def test_the_shortest_period_is_no_reason_to_fail(hours):
    """Every other hour is busy: the peak stands at the end of the spectrum, at 2 hours or none."""
    period_h, _, _ = find_peak(np.arange(hours) % 2 * 1.0)
    assert period_h is None or period_h == pytest.approx(2, abs=0.05)
