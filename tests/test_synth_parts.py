"""The parts of the generator: curves, dependent draws, busy time, the gap process."""

from dataclasses import replace

import numpy as np
import pytest
import support_synth
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.analysis.characterize.arrivals import find_bursts, interarrival
from gpuplan.analysis.synth import arrivals as when
from gpuplan.analysis.synth import curve, dependence, week
from gpuplan.analysis.synth import hours as counted_hours
from gpuplan.analysis.synth.fit import zipf_shares
from gpuplan.analysis.synth.model import ArrivalModel

samples = st.lists(st.integers(0, 10**6), min_size=1, max_size=400)


def test_a_curve_runs_log_linearly_through_its_quantiles():
    # Without a step between 1 and 100 the middle of the body is their geometric mean, 10.
    made = curve.curve_through((0.0, 0.5), (1.0, 100.0), 100.0, 60.0, 1e-12)
    assert made.at(np.array([0.0, 0.25, 0.5, 1.0])) == pytest.approx([1, 10, 100, 100])


def test_the_tail_is_a_bounded_pareto():
    # P(X > x) = (x^-1 - 1/10) / (1 - 1/10) on [1, 10]: half of it lies below x = 1 / 0.55.
    made = curve.DurationCurve((0.0, 1e-9), (1.0, 1.0), 10.0, 1.0, 1e-12)
    assert made.at(np.array([0.5])) == pytest.approx([1 / 0.55], rel=1e-6)


@pytest.mark.parametrize("index", [-3.0, 0.0, 1.0, 2.5])
def test_the_mean_in_closed_form_is_the_integral(index):
    made = curve.DurationCurve((0.0, 0.6), (2.0, 50.0), 5000.0, index, 1.0)
    levels = (np.arange(400_000) + 0.5) / 400_000
    assert made.mean_s == pytest.approx(made.at(levels).mean(), rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(samples)
def test_a_fitted_curve_keeps_the_range_and_rises(values):
    sample = np.sort(np.array(values, dtype=float))
    made = curve.fit_curve(sample, 1.0)
    drawn = made.at(np.linspace(0, 1, 500))
    assert (np.diff(drawn) >= -1e-6).all()
    assert drawn[0] == pytest.approx(sample[0], abs=1e-6)
    assert drawn[-1] <= curve.two_digits_up(sample[-1]) * (1 + 1e-9) + 1e-6


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.5])
def test_a_fitted_curve_has_the_mean_of_the_sample(spread):
    sample = np.sort(np.exp(np.random.default_rng(3).normal(5, spread, 5000)))
    assert curve.fit_curve(sample, 1.0).mean_s == pytest.approx(sample.mean(), rel=1e-3)


def test_the_longest_value_is_rounded_up_to_two_digits():
    assert curve.two_digits_up(3_256_045) == 3_300_000
    assert curve.two_digits_up(60) == 60
    assert curve.two_digits_up(0) == 0


def test_quotas_add_up_and_miss_by_less_than_one():
    assert dependence.quotas(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]
    assert dependence.quotas(np.array([1.0, 1.0, 1.0]), 2).tolist() == [1, 1, 0]


def test_scores_of_users_and_runs_have_the_wanted_correlations():
    rng = np.random.default_rng(5)
    user = np.repeat(rng.integers(0, 400, 20_000), 5)  # runs of five jobs of one user
    run = np.repeat(np.arange(20_000), 5)
    crowd = rng.integers(0, 4, 100_000)
    scores = dependence.shared_scores(dependence.Shared(0.3, 0.4), user, run, crowd, rng)
    found = dependence.fit_shared(scores, user, run, crowd, 4, rng)
    assert (found.user, found.run) == pytest.approx((0.3, 0.4), abs=0.04)


def test_a_crowd_is_told_by_the_submissions_around():
    """Mean gap 8.1 s: within 81 s of each of 900 jobs in a second are all of them; else, 16."""
    submit_us = np.sort(np.concatenate([np.arange(100) * 81, 4000 + np.arange(900) / 900]))
    crowd = dependence.crowd_of((submit_us * 1e6).astype(np.int64), 10, np.random.default_rng(0))
    assert np.bincount(crowd).tolist() == [100] * 10
    lonely = np.ones(1000, dtype=bool)
    lonely[(submit_us >= 4000 - 81) & (submit_us <= 4001 + 81)] = False
    assert set(crowd[lonely]) == {0}


def test_jobs_have_the_scores_of_their_crowd():
    """Half of the lonely jobs have the highest scores of all, half of them middling ones."""
    rng = np.random.default_rng(11)
    crowd = np.repeat(np.arange(10), 2000)
    scores = rng.normal(size=20_000)
    scores[crowd == 0] = np.where(rng.random(2000) < 0.5, 4.0, 0.0) + rng.normal(size=2000) / 10
    alone = np.arange(20_000)
    found = dependence.fit_shared(scores, alone, alone, crowd, 10, rng)
    assert (found.user, found.run) == (0, 0)
    assert len(found.crowd) == 10 and {len(law) for law in found.crowd} == {25}
    drawn = dependence.shared_scores(found, alone, alone, crowd, rng)
    for chosen in (crowd == 0, crowd > 0):
        there, here = (
            np.quantile(x[chosen], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9])
            for x in (dependence.normal_scores(scores), drawn)
        )
        assert here == pytest.approx(there, abs=0.1)
    assert (drawn[crowd == 0] > 1.5).mean() == pytest.approx(0.5, abs=0.03)
    assert (drawn[crowd > 0] > 1.7).mean() < 0.02


def test_a_rare_value_of_one_crowd_stays_there_though_most_are_equal():
    """Nine in ten have the value 1, the others come alone: they shall not spread over the day."""
    rng = np.random.default_rng(13)
    crowd = np.repeat(np.arange(10), 500)
    value = np.where(crowd == 0, rng.choice([1.0, 8.0], 5000), 1.0)
    alone = np.arange(5000)
    scores = dependence.normal_scores(value)
    found = dependence.fit_shared(scores, alone, alone, crowd, 10, rng)
    drawn = dependence.shared_scores(found, alone, alone, crowd, rng)
    wide = np.argsort(drawn)[-int((value == 8).sum()) :]
    assert (crowd[wide] == 0).mean() > 0.9


@pytest.mark.parametrize("jobs", [(500, 199), (500, 0)])
def test_crowds_of_few_jobs_tell_nothing(jobs):
    crowd = np.repeat(np.arange(2), jobs)
    alone = np.arange(crowd.size)
    rng = np.random.default_rng(0)
    assert dependence.fit_shared(alone * 1.0, alone, alone, crowd, 2, rng).crowd == ()


def test_memory_is_found_again():
    weights = (0.0, 0.5, 0.0, 0.3)
    scores = dependence.memory_scores(weights, 400_000, np.random.default_rng(6))
    assert scores.std() == pytest.approx(1, abs=0.1)
    assert dependence.fit_memory(scores) == pytest.approx(weights, abs=0.08)
    assert sum(dependence.fit_memory(np.random.default_rng(7).normal(size=50_000))) < 0.03


def test_long_memories_switch_between_two_levels_with_the_same_moments():
    weights, rng = (0.0, 0.0, 0.5, 0.45), np.random.default_rng(14)
    scores = dependence.memory_scores(weights, 400_000, rng, 0.8)
    assert (scores.mean(), scores.std()) == pytest.approx((0, 1), abs=0.1)
    # Lulls stand 0.95^0.5 / (0.8 * 0.2)^0.5 = 2.44 above bursts, where the noise is 0.22.
    burst = scores < (0.8 - 0.5) * 2.44
    assert burst.mean() == pytest.approx(0.8, abs=0.04)
    assert scores[~burst].mean() - scores[burst].mean() == pytest.approx(2.44, abs=0.05)


def test_even_scores_keep_the_order_in_each_part_and_its_mean():
    rng = np.random.default_rng(8)
    part = rng.integers(0, 3, 3000).astype(np.int32)
    scores = rng.normal(size=3000) + part
    shift = np.array([0.0, 1.0, -2.0])
    even = dependence.even_scores(scores, part, shift, rng)
    for code in range(3):
        mine = part == code
        assert (np.argsort(scores[mine]) == np.argsort(even[mine])).all()
        assert even[mine].mean() == pytest.approx(shift[code], abs=0.01)


def test_busy_time_runs_with_the_local_clock():
    # Work from 8 to 9 in a zone of +08:00 is midnight to 1 in UTC; 1970-01-01 was a Thursday.
    by_hour = tuple(2.0 if hour == 8 else 1.0 for hour in range(24))
    model = ArrivalModel(
        60.0, 1.0, 0.0, None, by_hour=by_hour, by_weekday=(1.0,) * 7, time_zone="+08:00"
    )
    clock = week.busy_time(when.clock_over(model, 0.0, 86400.0), when.rates_of(model), 0.0)
    assert clock.into(np.array([0.0, 1800.0, 3600.0, 7200.0])) == pytest.approx(
        [0, 3600, 7200, 10800]
    )
    assert clock.back(np.array([3600.0])) == pytest.approx([1800.0])


def test_a_local_day_begins_at_local_midnight_in_summer_and_winter():
    assert week.local_midnight_s("1970-01-02", "+08:00") == 16 * 3600
    assert week.local_midnight_s("2017-07-01", "America/Los_Angeles") % 86400 == 7 * 3600
    assert week.local_midnight_s("2017-12-01", "America/Los_Angeles") % 86400 == 8 * 3600
    # The clocks went back at 2 in the morning of 2017-11-05: the day before and the one after.
    assert week.local_midnight_s("2017-11-05", "America/Los_Angeles") % 86400 == 7 * 3600
    assert week.local_midnight_s("2017-11-06", "America/Los_Angeles") % 86400 == 8 * 3600
    assert week.local_day(16 * 3600 - 1, "+08:00") == "1970-01-01"


@pytest.mark.parametrize("kind", ["poisson", "regular", "bursty"])
@pytest.mark.parametrize("jobs", [2000, 30_000])
def test_gaps_have_the_mean_the_scv_and_the_zeros_of_the_original(kind, jobs):
    submit_s = np.floor(getattr(support_synth, kind)(np.random.default_rng(2), 8000))
    submit_us = (submit_s * 1e6).astype(np.int64)
    wanted = interarrival(submit_us)
    model = when.fit_arrivals(submit_us, "UTC", calendar=True)
    span_s = wanted.mean_s * (jobs - 1)
    drawn = when.draw_submissions(model, jobs, 0.0, span_s, np.random.default_rng(4))
    found = interarrival(drawn)
    assert drawn.size == jobs and (np.diff(drawn) >= 0).all() and not (drawn % 1_000_000).any()
    assert found.mean_s == pytest.approx(wanted.mean_s, rel=0.02)
    assert found.scv == pytest.approx(wanted.scv, rel=0.1, abs=0.02)
    assert found.zero_share == pytest.approx(wanted.zero_share, abs=0.01)


def test_short_gaps_follow_short_gaps():
    """Shuffled gaps would spread evenly over the hours; drawn ones gather as recorded ones do.

    The original switches between two rates. Its few bursts hold 93 % of the jobs; drawn from scores
    that wander about instead of switching, such bursts hold 74 %.
    """
    rng = np.random.default_rng(9)
    rate = np.repeat(rng.choice([5.0, 500.0], 200, p=[0.9, 0.1]), 24)  # jobs an hour, by the day
    hours = np.repeat(np.arange(rate.size), rng.poisson(rate))
    submit_us = np.sort((hours * 3600 + rng.random(hours.size) * 3600) * 1e6).astype(np.int64)
    model = when.fit_arrivals(submit_us, None, calendar=False)
    span_s = float(submit_us[-1] - submit_us[0]) / 1e6
    shuffled = np.cumsum(rng.permutation(np.diff(submit_us)))
    wanted = when.hourly_dispersion(submit_us)
    assert wanted > 5 * when.hourly_dispersion(shuffled)

    def jobs_in_bursts(submit_us):
        return find_bursts(submit_us, calendar=False, top=1).share_jobs

    def means(model):
        drawn = [
            when.draw_submissions(model, submit_us.size, 0.0, span_s, np.random.default_rng(seed))
            for seed in range(3)
        ]
        return [
            np.mean([f(path) for path in drawn]) for f in (when.hourly_dispersion, jobs_in_bursts)
        ]

    dispersion, share = means(model)
    assert dispersion == pytest.approx(wanted, rel=0.2)
    assert share == pytest.approx(jobs_in_bursts(submit_us), abs=0.03)
    assert means(replace(model, bursting=None, hours=None))[1] < jobs_in_bursts(submit_us) - 0.1


def test_the_dispersion_of_hourly_counts():
    # Counts 3, 0 and 1 in three hours: mean 4/3, variance 10/3 - 16/9 = 14/9, over the mean 7/6.
    at_s = np.array([50.0, 60.0, 70.0, 50.0 + 2.5 * 3600])
    assert when.hourly_dispersion((at_s * 1e6).astype(np.int64)) == pytest.approx(7 / 6)
    assert when.hourly_dispersion(np.zeros(5, dtype=np.int64)) == 0


def test_a_few_bursts_still_come_at_the_usual_hours_and_days(monkeypatch):
    """Of 120 bursts of 100 jobs, placed freely, the shares of hours miss what is wanted by far."""
    rng = np.random.default_rng(12)
    hours = np.arange(24 * 7 * 12)
    rate = np.where((hours % 24 >= 8) & (hours % 24 < 20), 3.0, 1.0)
    rate *= np.where(hours // 24 % 7 >= 5, 0.3, 1.0)
    begin = np.sort(rng.choice(hours, 120, p=rate / rate.sum()))
    submit_s = np.sort((np.repeat(begin, 100) + 0.9 * rng.random(12_000)) * 3600)
    origin_s = week.local_midnight_s("2026-01-05", "UTC")  # a Monday
    submit_us = ((origin_s + submit_s) * 1e6).astype(np.int64) // 1_000_000 * 1_000_000
    model = when.fit_arrivals(submit_us, "UTC", calendar=True)
    span_s = float(submit_us[-1] - submit_us[0]) / 1e6

    def mean_off():
        off = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            drawn = when.draw_submissions(model, 12_000, origin_s, span_s, rng)
            off.append(when.ArrivalShape(model, drawn[0] / 1e6, drawn[-1] / 1e6).off(drawn))
        return np.mean(off)

    turned = mean_off()
    monkeypatch.setattr(when, "ROUNDS", 1)
    monkeypatch.setattr(counted_hours, "RAKED", 0)
    assert turned < 0.05 and 2 * turned < mean_off()


def test_the_day_and_the_week_come_back():
    rng = np.random.default_rng(10)
    hours = np.arange(24 * 7 * 20)
    rate = np.where((hours % 24 >= 9) & (hours % 24 < 18), 40, 5)
    rate = np.where(hours // 24 % 7 >= 5, rate // 5, rate)
    at = np.repeat(hours, rng.poisson(rate))
    origin_s = week.local_midnight_s("2026-01-05", "+08:00")  # a Monday
    submit_us = np.sort((origin_s + at * 3600 + rng.random(at.size) * 3600) * 1e6).astype(np.int64)
    model = when.fit_arrivals(submit_us, "+08:00", calendar=True)
    day = np.array(model.by_hour)
    assert day[9:18].min() > 4 * day[[*range(9), *range(18, 24)]].max()
    assert min(model.by_weekday[:5]) > 3 * max(model.by_weekday[5:])
    drawn = when.draw_submissions(model, 20_000, origin_s, 20 * 7 * 86400.0, rng)
    hour, weekday = week.local_hours(drawn // 3_600_000_000, "+08:00")
    busy = ((hour >= 9) & (hour < 18)).mean()
    assert busy == pytest.approx(((at % 24 >= 9) & (at % 24 < 18)).mean(), abs=0.02)
    assert (weekday >= 5).mean() == pytest.approx((at // 24 % 7 >= 5).mean(), abs=0.02)


def test_zipf_shares():
    assert zipf_shares(3, 1.0) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert zipf_shares(4, 0.0) == pytest.approx([0.25] * 4)
