"""Hourly counts of drawn arrivals, and the week that they follow, over any length of time."""

import numpy as np
import pytest

from gpuplan.analysis.characterize.arrivals import find_bursts, interarrival
from gpuplan.analysis.synth import arrivals as when
from gpuplan.analysis.synth import hours, week

DAY_S = 86400.0
YEAR_S = 365.25 * DAY_S


def rare_bursts(seed, days=60):
    """A steady stream, and 12 bursts of some hundred jobs within minutes."""
    rng = np.random.default_rng(seed)
    steady = rng.uniform(0, days * DAY_S, 12_000)
    starts = rng.uniform(0, (days - 1) * DAY_S, 12)
    bursts = [at + np.cumsum(rng.exponential(4, int(n))) for at, n in
              zip(starts, rng.lognormal(6, 0.7, 12), strict=True)]  # fmt: skip
    return (np.sort(np.concatenate([steady, *bursts])).astype(np.int64)) * 1_000_000


def drawn_like(submit_us, seed, zone=None):
    model = when.fit_arrivals(submit_us, zone, calendar=zone is not None)
    span_s = float(submit_us[-1] - submit_us[0]) / 1e6
    first_s = submit_us[0] / 1e6
    rng = np.random.default_rng(seed)
    return when.draw_submissions(model, submit_us.size, first_s, span_s, rng)


@pytest.mark.parametrize("seed", range(3))
def test_few_strong_bursts_stay_few_and_strong(seed):
    # Gaps with memory alone make twice as many burst hours of half the dispersion.
    submit_us = rare_bursts(seed)
    drawn = drawn_like(submit_us, seed)
    wanted, found = (find_bursts(us, calendar=False, top=1) for us in (submit_us, drawn))
    dispersion = when.hourly_dispersion(submit_us)
    assert when.hourly_dispersion(drawn) == pytest.approx(dispersion, rel=0.05)
    assert found.share_hours == pytest.approx(wanted.share_hours, rel=0.1)
    assert found.share_jobs == pytest.approx(wanted.share_jobs, abs=0.02)
    gaps, before = interarrival(drawn), interarrival(submit_us)
    assert gaps.scv == pytest.approx(before.scv, rel=0.1)
    assert gaps.zero_share == pytest.approx(before.zero_share, abs=0.01)


def test_counts_have_the_sum_and_the_dispersion_of_their_law():
    rng = np.random.default_rng(0)
    law = hours.fit_hours(rare_bursts(1))
    for jobs, count in ((16_000, 1440), (8000, 720), (40_000, 3600)):
        counts = hours.draw_counts(law, jobs, count, rng)
        assert counts.sum() == jobs and counts.min() >= 1 and counts.size <= count
        wanted = 1 + (law.dispersion - 1) * jobs / count / law.mean
        assert hours.dispersion(counts, count) == pytest.approx(wanted, rel=0.05)
    assert hours.draw_counts(law, 1, 5, rng).tolist() == [1]


def test_regrouping_keeps_the_ends_the_order_of_hours_and_every_job():
    rng = np.random.default_rng(2)
    real_s = np.sort(rng.uniform(0, 1439.1 * 3600.0, 16_000))  # the last hour is cut off
    law = hours.fit_hours(rare_bursts(2))
    moved = hours.regroup(real_s, law, None, rng)
    assert moved.size == real_s.size and (np.diff(moved) >= 0).all()
    assert (moved[0], moved[-1]) == (real_s[0], real_s[-1])
    before, after = (
        np.bincount(((x - real_s[0]) // 3600).astype(int), minlength=1440) for x in (real_s, moved)
    )
    assert after[np.argsort(before, kind="stable")[-20:]].min() >= np.sort(after)[-40]


def slow_busy(by_hour, by_weekday, zone, first_s, at_s):
    """Busy time summed hour by hour."""
    whole = np.arange(int(first_s // 3600), int(at_s // 3600) + 1)
    hour, weekday = week.local_hours(whole, zone)
    begin = np.maximum(whole * 3600.0, first_s)
    lasting = np.maximum(np.minimum(whole * 3600.0 + 3600, at_s) - begin, 0)
    return float((lasting * by_hour[hour] * by_weekday[weekday]).sum())


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata", "+08:00", "UTC"])
def test_busy_time_is_the_sum_over_the_hours(zone):
    rng = np.random.default_rng(3)
    by_hour, by_weekday = rng.uniform(0.2, 2, 24), rng.uniform(0.2, 2, 7)
    first_s = 1_500_000_123.0  # 2017-07-14; the summer time ends and begins again
    clock = week.clock_of(zone, first_s, first_s + 1.2 * YEAR_S)
    busy = week.busy_time(clock, np.outer(by_weekday, by_hour), first_s)
    at_s = first_s + np.concatenate([[0.0, 100.0], rng.uniform(0, 1.2 * YEAR_S, 20)])
    found = busy.into(at_s)
    wanted = [slow_busy(by_hour, by_weekday, zone, first_s, at) for at in at_s]
    assert found == pytest.approx(wanted, abs=1e-3)
    assert busy.back(found) == pytest.approx(at_s, abs=1e-3)
    whole, weekday = week.local_hours((at_s // 3600).astype(np.int64), zone)
    assert clock.slots(at_s).tolist() == (24 * weekday + whole).tolist()
    last_s = float(at_s.max())
    flat = np.ones((24, 7)), clock.watched_s(first_s, last_s)
    assert flat[1].sum() == pytest.approx(last_s - first_s)
    assert (flat[1] * np.outer(by_weekday, by_hour)).sum() == pytest.approx(max(wanted))


def one_far_away(years):
    near_us = rare_bursts(5, days=20)[:3000]
    return np.append(near_us, near_us[0] + int(years * YEAR_S) * 1_000_000)


def test_one_job_far_away_takes_no_time_for_the_empty_hours(monkeypatch):
    """No hourly grid over the years: a clock has two stretches a year, counts have used hours."""
    submit_us = one_far_away(100)
    asked = []
    real = week.local_time
    monkeypatch.setattr(
        week, "local_time", lambda us, zone: asked.append(len(us)) or real(us, zone)
    )
    week._clock.cache_clear()
    drawn = drawn_like(submit_us, 0, zone="America/New_York")
    assert drawn.size == submit_us.size and (np.diff(drawn) >= 0).all()
    assert sum(asked) < 100_000  # days, once; its hours are 876,600 in every round
    found, counts = hours.hourly_counts(submit_us)
    assert found.size == counts.size <= submit_us.size


@pytest.mark.parametrize("years", [10, 50])
def test_a_trace_with_one_job_far_away_is_imitated(years):
    submit_us = one_far_away(years)
    drawn = drawn_like(submit_us, 1, zone="UTC")
    span = (submit_us[-1] - submit_us[0]) / 1e6
    assert drawn.size == submit_us.size
    assert (drawn[-1] - drawn[0]) / 1e6 == pytest.approx(span, rel=0.01)
