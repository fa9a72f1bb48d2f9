"""The block bootstrap: against resamples made row by row, coverage, widths, degenerate traces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_traces import frame, in_memory

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.characterize.gpu_time import gini, longest_share
from gpuplan.analysis.characterize.intervals import check_level, intervals, resampled
from gpuplan.analysis.history.jobs import job_arrays
from gpuplan.analysis.statistics.bootstrap import (
    Blocks,
    draw_blocks,
    expanded_tail,
    interval,
    ratio,
    squared_cv,
    student_quantile,
    studentize,
)


def positions(blocks, resample):
    """The rows of a resample, one after another."""
    runs = zip(blocks.starts[resample], blocks.ends[resample], strict=True)
    return [at % blocks.size for start, end in runs for at in range(start, end)]


def slow_statistics(jobs, rows):
    """The statistics of a resample whose jobs are written out."""
    duration, queue, gpus = jobs.duration_s[rows], jobs.queue_s[rows], jobs.num_gpus[rows]
    gap = np.append(np.diff(jobs.submit_us) / 1e6, np.nan)[rows]
    gap = gap[~np.isnan(gap)]
    known, waits = duration[~np.isnan(duration)], queue[~np.isnan(queue)]
    wide = ~np.isnan(duration) & (gpus > 0)
    gpu_s = duration[wide] * gpus[wide]
    found = {}
    for name, sample, percents in (("duration_s", known, (50, 90, 95, 99)),
                                   ("queue_s", waits, (50, 90, 99))):  # fmt: skip
        found[f"{name}.mean"] = sample.mean() if sample.size else np.nan
        for q in percents:
            found[f"{name}.p{q}"] = np.percentile(sample, q) if sample.size else np.nan
    for limit in (60, 600):
        share = (known <= limit).mean() if known.size else np.nan
        found[f"short_jobs.under_{limit}s"] = share
    held = gpu_s.sum()
    some = gpu_s.size and held > 0
    for percent in (10, 1):
        share = longest_share(duration[wide], gpu_s, percent) if some else np.nan
        found[f"gpu_time.top{percent}pct_longest_share"] = share
    found["gpu_time.gini"] = gini(np.sort(gpu_s)) if some else np.nan
    any_gpu = jobs.holding().any()
    found["gpu_time.gpu_hours"] = held / 3600 if any_gpu else np.nan
    found["interarrival.mean_s"] = gap.mean() if gap.size else np.nan
    moving = gap.size and gap.mean() > 0
    found["interarrival.scv"] = gap.var() / gap.mean() ** 2 if moving else np.nan
    found["interarrival.zero_share"] = (gap == 0).mean() if gap.size else np.nan
    found["load.mean_gpus"] = held / gap.sum() if moving and any_gpu else np.nan
    return found


JOBS = st.lists(
    st.tuples(
        st.integers(0, 30),  # submission
        st.one_of(st.none(), st.integers(0, 10)),  # wait
        st.one_of(st.none(), st.integers(0, 900)),  # duration
        st.sampled_from([0.0, 0.25, 1.0, 2.0, 8.0]),  # GPUs
    ),
    min_size=1,
    max_size=20,
)


def arrays(drawn):
    submit, wait, duration, gpus = zip(*sorted(drawn, key=lambda job: job[0]), strict=True)
    jobs = frame(
        submit,
        queue_s=[None if w is None else float(w) for w in wait],
        duration_s=[None if d is None else float(d) for d in duration],
        num_gpus=list(gpus),
    )
    return job_arrays(in_memory(jobs).jobs)


@settings(max_examples=30, deadline=None)
@given(JOBS, st.integers(1, 20), st.integers(0, 99))
def test_resamples_have_the_statistics_of_their_rows(drawn, block, seed):
    jobs = arrays(drawn)
    blocks = draw_blocks(jobs.jobs, min(block, jobs.jobs), 3, np.random.default_rng(seed))
    found = resampled(jobs, blocks)
    for resample in range(3):
        rows = positions(blocks, resample)
        assert len(rows) == jobs.jobs
        occurs = blocks.occurrences(resample)
        assert blocks.positions(resample).tolist() == rows
        assert occurs.tolist() == np.bincount(rows, minlength=jobs.jobs).tolist()
        slow = slow_statistics(jobs, rows)
        assert set(slow) == set(found)
        for name, value in slow.items():
            # Sums come from prefix sums, whose rounding grows with the whole.
            drawn = getattr(found[name], "values", found[name])
            got = drawn[resample]
            assert got == pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True), name


def test_blocks_run_over_the_end_into_the_beginning():
    blocks = Blocks(5, np.array([[3, 1]]), np.array([[6, 3]]))
    assert positions(blocks, 0) == [3, 4, 0, 1, 2]
    assert blocks.occurrences(0).tolist() == [1] * 5
    assert blocks.sums(np.array([1.0, 10, 100, 1000, 10000])).tolist() == [11111]


def test_an_interval_is_the_middle():
    assert interval(np.arange(99.0), 90) == (4, 94)  # the 5th and the 95th of 99
    assert interval(np.array([1.0, np.nan]), 90) is None
    assert interval(np.array([]), 90) is None


def test_few_blocks_widen_an_interval():
    from scipy.stats import norm, t

    for level, blocks in ((90, 20), (95, 2), (99, 3), (50, 1000)):
        tail = 100 * norm.cdf(
            t.ppf((100 - level) / 200, blocks - 1) * (blocks / (blocks - 1)) ** 0.5
        )
        assert expanded_tail(level, blocks) == pytest.approx(tail, rel=2e-3), (level, blocks)
    assert expanded_tail(95) == expanded_tail(95, 1) == pytest.approx(2.5)
    values = np.random.default_rng(0).normal(size=999)
    widths = [np.ptp(interval(values, 95, blocks)) for blocks in (0, 1000, 20, 10)]
    assert widths[0] <= widths[1] < widths[2] < widths[3]


def test_quantiles_of_student():
    from scipy.stats import t

    for freedom in (1, 2, 3, 4, 5, 9, 19, 200, 4095):
        for probability in (0.01, 0.5, 0.6, 0.9, 0.975, 0.9998):
            found = student_quantile(probability, freedom)
            assert found == pytest.approx(t.ppf(probability, freedom), rel=1e-4, abs=1e-9)


def test_a_studentized_statistic_by_hand():
    # Blocks of 2 from 6 values; the resample is values 4 5 | 0 1 | 0 1.
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    blocks = Blocks(6, np.array([[4, 0, 0]]), np.array([[6, 2, 2]]))
    found = studentize(blocks, np.stack([values, np.ones(6)]), ratio)
    assert (found.value, found.values.tolist()) == (10.5, [9.0])
    apart = np.array([48, 3, 3]) - 2 * 9  # sums of the blocks less what the mean makes of them
    assert found.errors[0] == pytest.approx((1.5 * (apart**2).sum()) ** 0.5 / 6)
    every = np.array([3, 6, 12, 24, 48, 33]) - 2 * 10.5
    assert found.error == pytest.approx((1.5 * (every**2).mean() * 3) ** 0.5 / 6)


@pytest.mark.parametrize("statistic", [ratio, squared_cv])
def test_gradients_are_those_of_the_statistics(statistic):
    sums = np.array([7.0, 5.0, 9.0][: 2 if statistic is ratio else 3])
    value, slope = statistic(sums)
    for place in range(sums.size):
        step = np.zeros(sums.size)
        step[place] = 1e-6
        rise = (statistic(sums + step)[0] - statistic(sums - step)[0]) / 2e-6
        assert slope[place] == pytest.approx(rise, rel=1e-6)
    assert slope @ sums == pytest.approx(0, abs=1e-12)  # of degree 0
    assert statistic(2 * sums)[0] == pytest.approx(value)


def test_an_interval_of_a_positive_mean_is_positive_and_reaches_high():
    rng = np.random.default_rng(4)
    values = rng.lognormal(0, 2, 100)
    blocks = draw_blocks(100, 1, 400, rng)
    found = studentize(blocks, np.stack([values, np.ones(100)]), ratio)
    low, high = found.interval(95, 100)
    plain = interval(found.values, 95, 100)
    assert 0 < low <= plain[0] and high > 1.2 * plain[1]
    same = studentize(blocks, np.stack([np.full(100, 3.0), np.ones(100)]), ratio)
    assert same.interval(95, 100) == pytest.approx((3, 3))


def workload(size, seed, *, dependent=False):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=size)
    if dependent:  # an AR(1) series with the same law at every job
        for i in range(1, size):
            noise[i] = 0.7 * noise[i - 1] + 0.51**0.5 * noise[i]
    return in_memory(
        frame(
            np.cumsum(rng.exponential(600, size)),
            duration_s=np.exp(5 + noise),
            num_gpus=rng.choice([1.0, 2.0], size),
        )
    )


def found_in(trace, seed=0, **options):
    options = {"level": 95, "resamples": 200} | options
    return intervals(trace, rng=np.random.default_rng(seed), **options)


def test_the_statistic_itself_is_inside():
    trace = workload(2000, 1)
    summary = characterize(trace).summary()
    result = found_in(trace)
    for name, ends in result.statistics.items():
        value = summary
        for key in name.split("."):
            value = value[key]
        if name == "users" or name.startswith("queue_s"):
            assert ends is None  # no user and no wait is recorded
        elif name.endswith("ly_strength"):
            # No rhythm was put in; two weeks are too few for the interval of the weekly one.
            assert ends is None if name.endswith("weekly_strength") else ends[0] == 0
        elif name == "load.peak_gpus":
            assert ends[0] <= value and ends[1] is None
        elif name == "interarrival.zero_share":
            assert ends == (0, 0)
        else:
            assert ends[0] <= value <= ends[1], name
            assert ends[0] < ends[1] or name.startswith(("arrivals.bursts", "load.p50")), name


@pytest.mark.parametrize(
    ("dependent", "traces"),
    [
        (True, 36),
        pytest.param(False, 100, marks=pytest.mark.slow),
        pytest.param(True, 100, marks=pytest.mark.slow),
    ],
)
def test_intervals_cover_the_truth_about_as_often_as_they_say(dependent, traces):
    truth = {"duration_s.p50": np.exp(5), "duration_s.mean": np.exp(5.5)}
    covered = dict.fromkeys(truth, 0)
    for seed in range(traces):
        result = found_in(workload(800, seed, dependent=dependent), level=90, resamples=100)
        for name, value in truth.items():
            low, high = result.statistics[name]
            covered[name] += low <= value <= high
    # 90% expected; three standard deviations are 9% of 100 traces, 15% of 36.
    three = 3 * (0.9 * 0.1 * traces) ** 0.5
    assert all(abs(count - 0.9 * traces) <= three for count in covered.values()), covered
    assert traces < 100 or max(covered.values()) < traces


def test_independent_resampling_would_not_cover_dependent_jobs():
    trace = workload(3000, 3, dependent=True)
    jobs = job_arrays(trace.jobs)

    def width(block):
        blocks = draw_blocks(jobs.jobs, block, 300, np.random.default_rng(0))
        low, high = interval(resampled(jobs, blocks)["duration_s.mean"].values, 90)
        return high - low

    assert width(150) > 1.5 * width(1)  # in truth about sqrt(1.7 / 0.3) for the logs


@pytest.mark.slow
def test_the_width_falls_with_the_root_of_the_jobs():
    def width(size):
        ends = [found_in(workload(size, seed)).statistics["duration_s.p50"] for seed in range(8)]
        return np.mean([high - low for low, high in ends])

    assert width(500) / width(8000) == pytest.approx(4, rel=0.25)


def test_the_seed_decides():
    trace = workload(300, 2)
    assert plain(found_in(trace)) == plain(found_in(trace))
    assert plain(found_in(trace)) != plain(found_in(trace, seed=1))
    result = found_in(trace, resamples=50)
    assert (result.level, result.resamples, result.medians.shape) == (95, 50, (50,))
    low, high = result.statistics["duration_s.p50"]
    assert (low, high) == interval(result.medians, 95, result.blocks)


def test_a_level_needs_enough_resamples():
    check_level(95, 80)
    check_level(99, 400)
    with pytest.raises(UsageError, match="--resamples 79 is too few for --ci 95; expected 80"):
        check_level(95, 79)
    for level in (0, 100, -3, float("nan")):
        with pytest.raises(UsageError, match="--ci must be"):
            check_level(level, 1000)


def test_a_level_is_in_percent():
    with pytest.raises(UsageError, match=r"got 0\.95; in percent, did you mean 95\?"):
        check_level(0.95, 200)
    with pytest.raises(UsageError, match=r"above 1 and below 100 percent, got 1$"):
        check_level(1, 200)


def test_resamples_are_bounded():
    check_level(99.96, 10_000)
    with pytest.raises(UsageError, match="--resamples 1000000000 is too many; expected 10000"):
        check_level(95, 1_000_000_000)
    with pytest.raises(UsageError, match=r"--ci 99\.99: expected at most 99\.96"):
        check_level(99.99, 200)


def test_jobs_still_running_have_no_duration_in_intervals():
    jobs = in_memory(
        frame([0, 10], duration_s=[60.0, 600.0], num_gpus=[1.0, 1.0],
              state=["completed", "running"])
    )  # fmt: skip
    assert found_in(jobs).statistics["duration_s.mean"] is None  # a resample may have none timed
