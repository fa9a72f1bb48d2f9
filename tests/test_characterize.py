"""The statistics of a workload: hand-worked values, closed forms, a slow twin, laws, real data."""

import math
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_traces import ORIGIN, frame, in_memory

from gpuplan.analysis.characterize import COLUMNS, characterize
from gpuplan.analysis.characterize.arrivals import (
    find_bursts,
    interarrival,
    is_zone,
    poisson_quantile,
)
from gpuplan.analysis.characterize.durations import percentile
from gpuplan.analysis.characterize.gpu_time import gini, longest_share, lorenz
from gpuplan.analysis.characterize.load import (
    MAX_BINS,
    bin_width_s,
    concurrency,
    time_weighted_quantiles,
)
from gpuplan.analysis.schema import Provenance
from gpuplan.analysis.trace import Selection, _scaled, read_trace

HOUR = 3600.0


def summary(jobs, provenance=None, **options):
    return characterize(in_memory(jobs, provenance), **options).summary()


@pytest.fixture(scope="module")
def worked():
    """Four jobs worked by hand; the last is CPU-only, one has no recorded wait.

    job  submit  wait  start  duration  end   GPUs  GPU-s
    0    0       0     0      3600      3600  2     7200
    1    1800    1800  3600   1800      5400  4     7200
    2    1800    -     1800   600       2400  1     600
    3    7200    0     7200   60        7260  0     0
    """
    return frame(
        [0, 1800, 1800, 7200],
        queue_s=[0.0, 1800.0, None, 0.0],
        duration_s=[3600.0, 1800.0, 600.0, 60.0],
        num_gpus=[2.0, 4.0, 1.0, 0.0],
        state=["completed", "failed", "completed", "completed"],
        user=["ann", "bob", "ann", None],
    )


def test_durations_worked_by_hand(worked):
    found = summary(worked)
    assert found["jobs"] == 4
    assert found["cpu_only_jobs"] == 1
    assert found["users"] == 2
    assert found["span_s"] == 7200
    assert found["first_submit"] == "2026-01-05T00:00:00+00:00"
    duration = found["duration_s"]  # 60, 600, 1800, 3600
    assert (duration["jobs"], duration["mean"], duration["p50"]) == (4, 1515, 1200)
    assert duration["p90"] == pytest.approx(1800 + 0.7 * 1800)  # position 2.7
    assert (duration["min"], duration["max"]) == (60, 3600)
    assert found["short_jobs"] == {"under_60s": 0.25, "under_600s": 0.5}  # the limit is included


def test_gpu_time_worked_by_hand(worked):
    found = summary(worked)["gpu_time"]
    assert found["gpu_hours"] == pytest.approx(15000 / HOUR)
    # Of 3 GPU jobs, ceil(0.3) = 1 is the longest tenth: job 0.
    assert found["top10pct_longest_share"] == pytest.approx(7200 / 15000)
    # Pairs of (600, 7200, 7200): mean difference 4 * 6600 / 9 over twice the mean of 5000.
    assert found["gini"] == pytest.approx(4 * 6600 / 9 / (2 * 5000))
    assert [point["share_gpu_hours"] for point in found["lorenz"]] == pytest.approx(
        [0, 600 / 15000, 7800 / 15000, 1]
    )


def test_load_worked_by_hand(worked):
    found = summary(worked)["load"]
    assert found["mean_gpus"] == pytest.approx(15000 / 7200)
    # Held: 2 to 1800, 3 to 2400, 2 to 3600, 4 to 5400, then 0; the last GPU job ends at 5400.
    assert found["peak_gpus"] == 4
    assert found["window_s"] == 5400
    assert found["window_mean_gpus"] == pytest.approx(15000 / 5400)
    assert found["p95_gpus"] == 4 and found["p50_gpus"] == 2
    assert found["unknown_waits"] == 1
    assert found["bin_s"] == 30
    bins = found["timeline"]
    assert len(bins) == 180
    assert [bins[i]["mean_gpus"] for i in (0, 59, 60, 79, 80, 119, 120, 179)] == pytest.approx(
        [2, 2, 3, 3, 2, 2, 4, 4]
    )
    assert [bins[i]["mean_jobs"] for i in (0, 60, 120)] == pytest.approx([1, 2, 1])


def test_shares_worked_by_hand(worked):
    found = summary(worked)
    assert [(row["num_gpus"], row["jobs"]) for row in found["gpu_counts"]] == [
        (1, 1), (2, 1), (4, 1),
    ]  # fmt: skip
    assert [row["share_jobs"] for row in found["gpu_counts"]] == pytest.approx([1 / 3] * 3)
    assert [row["gpu_hours"] for row in found["gpu_counts"]] == pytest.approx([1 / 6, 2, 2])
    states = {row["state"]: row for row in found["states"]}
    assert {name: row["jobs"] for name, row in states.items()} == {"completed": 3, "failed": 1}
    assert states["failed"]["share_gpu_hours"] == pytest.approx(7200 / 15000)
    users = found["groups"]["user"]
    assert users["distinct"] == 2 and users["others"] is None
    assert [row["name"] for row in users["rows"]] == ["ann", "bob", None]
    ann = users["rows"][0]
    assert (ann["jobs"], ann["share_jobs"], ann["mean_num_gpus"]) == (2, 0.5, 1.5)
    assert ann["gpu_hours"] == pytest.approx(7800 / HOUR)
    assert (ann["median_duration_s"], ann["p90_duration_s"]) == (2100, pytest.approx(3300))
    assert users["rows"][2]["mean_num_gpus"] is None  # only a CPU job
    assert list(found["groups"]) == ["user"]  # what is not recorded has no table


def test_waits_and_gaps_worked_by_hand(worked):
    found = summary(worked)
    assert found["queue_s"]["jobs"] == 3
    assert found["queue_s"]["mean"] == 600 and found["queue_s"]["max"] == 1800
    gaps = found["interarrival"]  # 1800, 0, 5400: mean 2400, variance 5040000
    assert gaps["mean_s"] == 2400
    assert gaps["scv"] == pytest.approx(5_040_000 / 2400**2)
    assert gaps["zero_share"] == pytest.approx(1 / 3)


def test_jobs_still_running_are_out_by_default():
    jobs = frame(
        [0, 10, 20],
        duration_s=[100.0, 5000.0, None],
        num_gpus=[1.0, 8.0, 1.0],
        state=["completed", "running", "not_started"],
    )
    left = characterize(in_memory(jobs))
    found = left.summary()
    assert (found["jobs"], found["censored_jobs"], found["duration_s"]["jobs"]) == (3, 1, 1)
    assert found["gpu_time"]["gpu_hours"] == pytest.approx(100 / HOUR)
    assert {row["state"]: row["gpu_hours"] for row in found["states"]} == {
        "completed": pytest.approx(100 / HOUR),
        "running": None,  # not known: it is not over
        "not_started": 0,
    }
    assert "1 still running, with 11 GPU-hours so far; --include-running" in left.notes[0]
    kept = summary(jobs, include_running=True)
    assert (kept["censored_jobs"], kept["duration_s"]["jobs"]) == (1, 2)
    assert kept["gpu_time"]["gpu_hours"] == pytest.approx(40100 / HOUR)
    assert kept["states"][1]["share_gpu_hours"] == pytest.approx(40000 / 40100)


def test_only_the_top_groups_have_a_row_and_the_rest_is_one():
    jobs = frame(
        range(10),
        duration_s=[100.0, 90, 80, 70, 60, 60, 60, 0, 0, 0],
        num_gpus=[1.0] * 10,
        job_class=["a", "b", "c", "d", "e", "e", "f", "g", "g", "h"],
    )
    table = summary(jobs, top=3)["groups"]["job_class"]
    assert [row["name"] for row in table["rows"]] == ["e", "a", "b"]  # 120, 100, 90
    assert table["distinct"] == 8
    assert table["others"]["names"] == 5 and table["others"]["jobs"] == 6
    assert table["others"]["share_gpu_hours"] == pytest.approx(210 / 520)
    with pytest.raises(ValueError, match="top must be at least 1"):
        characterize(in_memory(jobs), top=0)


def test_equal_names_stand_by_jobs_then_by_name():
    jobs = frame(range(4), duration_s=[None] * 4, num_gpus=[1.0] * 4, user=["z", "b", "a", "z"])
    rows = summary(jobs)["groups"]["user"]["rows"]
    assert [row["name"] for row in rows] == ["z", "a", "b"]
    assert rows[0]["gpu_hours"] is None and rows[0]["median_duration_s"] is None


# Degenerate traces: nothing crashes, what is undefined is None.


def test_one_job():
    found = summary(frame([5], duration_s=[60.0], num_gpus=[2.0]))
    assert found["span_s"] == 0
    assert found["duration_s"]["p50"] == found["duration_s"]["p99"] == 60
    assert found["interarrival"] == {"mean_s": None, "scv": None, "zero_share": None}
    assert found["gpu_time"]["gini"] == 0 and found["gpu_time"]["top10pct_longest_share"] == 1
    assert found["load"]["mean_gpus"] is None  # no span of submissions
    assert (found["load"]["peak_gpus"], found["load"]["p95_gpus"]) == (2, 2)
    assert [(point["duration_s"], point["share_jobs"]) for point in found["duration_cdf"]] == [
        (60, 1)
    ]


def test_all_jobs_at_once():
    found = summary(frame([7, 7, 7], duration_s=[10.0, 20.0, 40.0], num_gpus=[1.0, 1.0, 2.0]))
    assert found["interarrival"] == {"mean_s": 0, "scv": None, "zero_share": 1}
    assert found["load"]["peak_gpus"] == 4
    # 4 GPUs for 10 s, 3 for 10 s, 2 for 20 s: half of the window has 2 or fewer.
    assert (found["load"]["p50_gpus"], found["load"]["p95_gpus"]) == (2, 4)
    assert found["arrivals"]["bursts"]["hours"] == 0


def test_zero_durations():
    found = summary(frame([0, 60], duration_s=[0.0, 0.0], num_gpus=[1.0, 2.0]))
    assert found["duration_s"]["max"] == 0 and found["short_jobs"]["under_60s"] == 1
    assert found["gpu_time"]["gpu_hours"] == 0 and found["gpu_time"]["gini"] is None
    assert found["load"]["mean_gpus"] == 0
    assert found["load"]["peak_gpus"] == 0
    assert found["gpu_counts"][0]["share_gpu_hours"] is None
    assert found["duration_cdf"] == [
        {"duration_s": 0.0, "share_jobs": 1.0, "share_gpu_hours": None}
    ]
    at_once = summary(frame([0, 0], duration_s=[0.0, 0.0], num_gpus=[1.0, 2.0]))["load"]
    assert at_once["peak_gpus"] is None and at_once["timeline"] == []


def test_cpu_jobs_alone():
    found = summary(frame([0, 60], duration_s=[5.0, 10.0], num_gpus=[0.0, 0.0]))
    assert found["cpu_only_jobs"] == 2 and found["duration_s"]["mean"] == 7.5
    assert found["gpu_counts"] == [] and found["load"]["mean_gpus"] is None
    assert found["gpu_time"]["gpu_hours"] == 0


def test_no_durations_as_in_a_trace_of_classes():
    jobs = frame([0, 60, 180], duration_s=[None] * 3, num_gpus=[1.0, 1.0, 4.0])
    result = characterize(in_memory(jobs, Provenance(source_format="sia", relative_time=True)))
    found = result.summary()
    assert found["duration_s"] == {
        "jobs": 0, "mean": None, "p50": None, "p90": None, "p95": None, "p99": None, "max": None,
        "min": None,
    }  # fmt: skip
    assert found["short_jobs"] == {"under_60s": None, "under_600s": None}
    assert found["gpu_time"]["gpu_hours"] is None and found["load"]["peak_gpus"] is None
    assert found["interarrival"]["mean_s"] == 90
    assert [(row["num_gpus"], row["gpu_hours"]) for row in found["gpu_counts"]] == [
        (1, None), (4, None),
    ]  # fmt: skip
    assert "--speedup profile:" in result.notes[0]
    assert found["arrivals"]["by_hour"] is None and found["first_submit"] is None
    assert "no calendar" in result.notes[1]


# Closed forms.


def test_percentiles_agree_with_numpy():
    rng = np.random.default_rng(3)
    for size in (1, 2, 3, 10, 1001):
        sample = np.sort(rng.lognormal(3, 2, size))
        for q in (0, 1, 50, 90, 95, 99, 100):
            assert percentile(sample, q) == pytest.approx(np.percentile(sample, q), rel=1e-12)


def test_gini_and_lorenz_of_the_uniform_and_exponential_laws():
    n = 100_000
    middle = (np.arange(n) + 0.5) / n
    assert gini(middle) == pytest.approx(1 / 3, abs=1e-4)
    exponential = -np.log(1 - middle)
    assert gini(exponential) == pytest.approx(1 / 2, abs=1e-4)
    curve = lorenz(exponential)
    assert len(curve) == 101
    for point in curve[1:-1]:  # L(p) = p + (1 - p) ln(1 - p)
        p = point.share_jobs
        assert point.share_gpu_hours == pytest.approx(p + (1 - p) * math.log(1 - p), abs=1e-3)


def test_the_longest_share_does_not_depend_on_how_ties_fall():
    # 10 jobs, one place, three tied for it: each counts a third.
    duration = np.array([9.0, 9.0, 9.0, 1, 1, 1, 1, 1, 1, 1])
    gpu_s = duration * np.array([1.0, 2, 6, 1, 1, 1, 1, 1, 1, 1])
    assert longest_share(duration, gpu_s, 10) == pytest.approx(27 / gpu_s.sum())


def test_a_poisson_stream_has_scv_1_and_few_bursts():
    rng = np.random.default_rng(11)
    submit_us = np.cumsum(rng.exponential(120e6, 200_000)).astype(np.int64)
    assert interarrival(submit_us).scv == pytest.approx(1, abs=0.02)
    bursts = find_bursts(submit_us, calendar=False, top=5)
    # 6667 hours at less than 1 in 1000: fewer than 7 expected, 5 standard deviations more is 20.
    assert bursts.hours <= 20


@pytest.mark.parametrize("mean", [0.001, 0.5, 3.0, 30.0, 1e4, 3e6])
def test_the_poisson_quantile_agrees_with_scipy(mean):
    from scipy.stats import poisson

    assert poisson_quantile(mean, 0.999) == int(poisson.ppf(0.999, mean))


def test_bursts_worked_by_hand():
    # 1 job in each of 100 hours, 30 more in hours 10 and 11 and 20 more in hour 50.
    extra = [10] * 30 + [11] * 30 + [50] * 20
    hours = np.sort(np.array([*range(100), *extra]))
    bursts = find_bursts((hours * 3600 * 10**6).astype(np.int64), calendar=True, top=1)
    assert bursts.mean_jobs_per_hour == 1.8
    assert bursts.bound_jobs_per_hour == 7
    assert (bursts.hours, bursts.windows) == (3, 2)
    assert bursts.share_jobs == pytest.approx(83 / 180)
    (largest,) = bursts.largest
    assert (largest.start_s, largest.hours, largest.jobs) == (36000, 2, 62)
    assert largest.start == "1970-01-01T10:00:00+00:00"


# The calendar.


def test_hours_and_days_are_those_of_the_source():
    # Monday 00:30 and 07:59 UTC are Sunday 16:30 and 23:59 in Los Angeles; 08:00 is Monday 00:00.
    jobs = frame([1800, 8 * 3600 - 60, 8 * 3600], duration_s=[1.0] * 3, num_gpus=[1.0] * 3)
    zone = Provenance(source_format="philly", time_zone="America/Los_Angeles")
    found = summary(jobs, zone)["arrivals"]
    assert found["time_zone"] == "America/Los_Angeles"
    assert {hour: n for hour, n in enumerate(found["by_hour"]) if n} == {0: 1, 16: 1, 23: 1}
    assert found["by_weekday"] == [1, 0, 0, 0, 0, 0, 2]
    utc = summary(jobs)["arrivals"]
    assert utc["time_zone"] == "UTC" and utc["by_weekday"][0] == 3


@pytest.mark.parametrize(("zone", "hour"), [("+05:45", 5), ("-0330", 20), ("UTC+01:00", 1)])
def test_an_offset_is_a_zone(zone, hour):
    jobs = frame([600], duration_s=[1.0], num_gpus=[1.0])  # 00:10 UTC
    found = summary(jobs, Provenance(source_format="csv", time_zone=zone))["arrivals"]
    assert found["by_hour"][hour] == 1


def test_a_summer_time_change_is_followed():
    # 2017-11-05: 08:30 UTC is 01:30 PDT, 09:30 UTC is 01:30 PST.
    submit = [datetime(2017, 11, 5, hour, 30, tzinfo=UTC) for hour in (8, 9)]
    jobs = frame([(at - ORIGIN).total_seconds() for at in submit],
                 duration_s=[1.0] * 2, num_gpus=[1.0] * 2)  # fmt: skip
    zone = Provenance(source_format="philly", time_zone="America/Los_Angeles")
    assert summary(jobs, zone)["arrivals"]["by_hour"][1] == 2


def test_an_unknown_zone_is_told_and_hours_are_utc():
    jobs = frame([600], duration_s=[1.0], num_gpus=[1.0])
    zone = Provenance(source_format="csv", time_zone="Mars/Olympus")
    result = characterize(in_memory(jobs, zone))
    assert result.arrivals.time_zone == "UTC" and "Mars/Olympus" in result.notes[0]
    assert not is_zone("Mars/Olympus") and is_zone("Europe/Paris")


# The concurrency sweep against a slow twin, and laws.

JOBS = st.lists(
    st.tuples(
        st.integers(0, 30),  # submission
        st.one_of(st.none(), st.integers(0, 10)),  # wait
        st.one_of(st.none(), st.integers(0, 20)),  # duration
        st.sampled_from([0.0, 0.25, 0.1, 1.0, 2.0, 8.0]),  # GPUs
    ),
    min_size=1,
    max_size=25,
)


def drawn_frame(drawn):
    submit, wait, duration, gpus = zip(*drawn, strict=True)
    return frame(
        submit,
        queue_s=[None if w is None else float(w) for w in wait],
        duration_s=[None if d is None else float(d) for d in duration],
        num_gpus=list(gpus),
        job_class=[f"class {i % 3}" for i in range(len(drawn))],
    )


@settings(max_examples=60, deadline=None)
@given(JOBS)
def test_load_agrees_with_counting_second_by_second(drawn):
    found = summary(drawn_frame(drawn))["load"]
    first = min(job[0] for job in drawn)
    spans = [
        (submit - first + (wait or 0), submit - first + (wait or 0) + duration, gpus)
        for submit, wait, duration, gpus in drawn
        if duration is not None and gpus > 0
    ]
    window = max((end for _, end, _ in spans), default=0)
    if not window:
        assert found["peak_gpus"] is None
        return
    held = [sum(g for start, end, g in spans if start <= t < end) for t in range(window)]
    assert found["window_s"] == window
    assert found["peak_gpus"] == pytest.approx(max(held))
    assert found["window_mean_gpus"] == pytest.approx(sum(held) / window)
    until = max(job[0] for job in drawn) - first or window
    ordered = sorted((held + [0] * until)[:until])  # after the window nothing is held
    for name, share in (("p50_gpus", 0.5), ("p95_gpus", 0.95)):
        assert found[name] == pytest.approx(ordered[math.ceil(share * until - 1e-9) - 1])
    assert found["bin_s"] == 1 and len(found["timeline"]) == window
    assert [b["mean_gpus"] for b in found["timeline"]] == pytest.approx(held, abs=1e-9)
    running = [sum(start <= t < end for start, end, _ in spans) for t in range(window)]
    assert [b["mean_jobs"] for b in found["timeline"]] == pytest.approx(running, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(JOBS)
def test_laws_of_shares(drawn):
    found = summary(drawn_frame(drawn), top=2)
    total = found["gpu_time"]["gpu_hours"] or 0
    classes = found["groups"]["job_class"]
    others = [classes["others"]] if classes["others"] else []
    for rows, jobs in (
        (found["gpu_counts"], found["jobs"] - found["cpu_only_jobs"]),
        (found["states"], found["jobs"]),
        (classes["rows"] + others, found["jobs"]),
    ):
        assert sum(row["jobs"] for row in rows) == jobs
        if jobs:
            assert sum(row["share_jobs"] for row in rows) == pytest.approx(1)
        if total:
            assert sum(row["share_gpu_hours"] for row in rows) == pytest.approx(1)
            assert sum(row["gpu_hours"] for row in rows) == pytest.approx(total)
    if total:
        assert 0 <= found["gpu_time"]["gini"] < 1
        curve = [point["share_gpu_hours"] for point in found["gpu_time"]["lorenz"]]
        assert curve[0] == 0 and curve[-1] == pytest.approx(1)
        steps = np.diff(curve)
        assert (steps >= -1e-12).all()
        assert (np.diff(steps) >= -1e-12).all()  # a Lorenz curve is convex
        cdf = [point["share_gpu_hours"] for point in found["duration_cdf"]]
        assert cdf == sorted(cdf) and cdf[-1] == pytest.approx(1)
    load = found["load"]
    if load["window_s"]:
        assert load["window_mean_gpus"] * load["window_s"] == pytest.approx(total * HOUR)
        assert load["p50_gpus"] <= load["p95_gpus"] <= load["peak_gpus"]
    assert sum(found["arrivals"]["by_hour"]) == found["jobs"]


@settings(max_examples=30, deadline=None)
@given(JOBS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(drawn, random):
    jobs = drawn_frame(drawn)
    mixed = jobs[random.sample(range(jobs.height), jobs.height)]
    assert_alike(summary(jobs), summary(mixed))


def assert_alike(one, other):
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_alike(a, b)
    else:
        assert one == (pytest.approx(other, abs=1e-12) if isinstance(one, float) else other)


@settings(max_examples=30, deadline=None)
@given(JOBS, st.sampled_from([0.5, 3.0]))
def test_scaling_laws(drawn, factor):
    jobs = in_memory(drawn_frame(drawn)).jobs
    plain = summary(jobs)
    longer = summary(_scaled(jobs, Selection(scale_duration=factor)))
    slower = summary(_scaled(jobs, Selection(scale_interarrival=factor)))
    for name in ("mean", "p50", "p99", "max"):
        if plain["duration_s"][name] is not None:
            assert longer["duration_s"][name] == pytest.approx(factor * plain["duration_s"][name])
            assert slower["duration_s"][name] == pytest.approx(plain["duration_s"][name])
    assert longer["gpu_time"]["gini"] == pytest.approx(plain["gpu_time"]["gini"])
    assert slower["span_s"] == pytest.approx(factor * plain["span_s"])
    assert slower["interarrival"]["scv"] == pytest.approx(plain["interarrival"]["scv"])
    if plain["load"]["mean_gpus"]:
        offered = plain["load"]["mean_gpus"]
        assert longer["load"]["mean_gpus"] == pytest.approx(factor * offered)
        assert slower["load"]["mean_gpus"] == pytest.approx(offered / factor)


def test_an_end_and_a_start_at_one_instant_do_not_overlap():
    start, end = np.array([0, 10, 10]), np.array([10, 30, 10])
    times, held, running = concurrency(start, end, np.array([2.0, 1.5, 64.0]))
    assert times.tolist() == [0, 10, 30]
    assert held.tolist() == [2_000_000, 1_500_000, 0]
    assert running.tolist() == [1, 1, 0]


def test_time_weighted_quantiles_worked_by_hand():
    level, times = np.array([5, 1, 3]), np.array([0, 10, 40, 100])  # 5: 10 s, 1: 30 s, 3: 60 s
    assert time_weighted_quantiles(level, times, (0.3, 0.31, 0.9, 0.91)) == (1, 3, 3, 5)


def test_bins_are_round_and_never_too_many():
    assert [bin_width_s(w) for w in (1, 200, 201, 9_175_375)] == [1, 1, 2, 86400]
    for window in np.geomspace(0.1, 1e13, 300):
        assert window / bin_width_s(window) <= MAX_BINS


def test_one_long_job_does_not_turn_the_percentiles_into_its_own():
    # 10 GPUs are held for the hour in which jobs arrive; one job then runs on for a year.
    submit = [60.0 * i for i in range(61)]
    jobs = frame([0.0, *submit], duration_s=[3.15e7] + [60.0] * 61, num_gpus=[1.0] + [9.0] * 61)
    found = summary(jobs)["load"]
    assert (found["p50_gpus"], found["p95_gpus"]) == (10, 10)
    assert found["window_mean_gpus"] < 1.01


# Real data.


def philly(shared, tmp_path, zone):
    """The Philly table with its times read as wall clock of ``zone``."""
    raw = pl.read_csv(shared / "data/philly/philly_jobs_a.csv.gz").drop_nulls("timestamp")
    submit = pl.col("timestamp").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us")
    path = tmp_path / "philly.parquet"
    raw.select(
        submit.dt.replace_time_zone(zone, ambiguous="earliest")
        .dt.convert_time_zone("UTC")
        .alias("submit_time"),
        pl.col("duration").alias("duration_s"),
        pl.col("num_gpus").cast(pl.Float64),
        pl.col("cluster").alias("group"),
    ).write_parquet(path)
    return characterize(read_trace(path, columns=COLUMNS)).summary()


def test_philly_prints_its_published_statistics(shared, tmp_path):
    found = philly(shared, tmp_path, "UTC")  # wall-clock gaps, as in the folder's README
    assert found["jobs"] == 55009
    duration = {name: round(value, 1) for name, value in found["duration_s"].items()}
    assert duration == {
        "jobs": 55009, "mean": 12117.8, "p50": 1800.0, "p90": 11350.6, "p95": 31199.8,
        "p99": 212958.6, "max": 3256045.0, "min": 1.0,
    }  # fmt: skip
    assert round(found["short_jobs"]["under_600s"], 4) == 0.3100
    assert round(found["gpu_time"]["top10pct_longest_share"], 4) == 0.9327
    assert round(found["gpu_time"]["gpu_hours"], 1) == 492097.9
    assert round(found["interarrival"]["mean_s"], 1) == 166.7
    assert round(found["interarrival"]["scv"], 1) == 163.0
    assert round(found["interarrival"]["zero_share"], 4) == 0.0687
    assert found["span_s"] == 9171736
    assert {row["num_gpus"]: row["jobs"] for row in found["gpu_counts"]} == {
        1: 52281, 4: 1238, 8: 1110, 2: 232, 16: 111, 32: 16, 12: 7, 64: 6, 24: 5, 128: 3,
    }  # fmt: skip
    groups = found["groups"]["group"]["rows"]
    assert {row["name"]: row["jobs"] for row in groups} == {
        "6214e9": 41226, "6c71a0": 9953, "103959": 1934, "ee9e8c": 1511, "e13805": 374,
        "23dbec": 8, "925e2b": 3,
    }  # fmt: skip
    assert found["load"]["mean_gpus"] == pytest.approx(492097.865 * 3600 / 9171736)


def test_philly_in_its_own_zone_lasts_the_hour_longer_that_it_did(shared, tmp_path):
    # The clocks went back on 2017-11-05 inside the trace: 3600 s more passed than the wall shows.
    found = philly(shared, tmp_path, "America/Los_Angeles")
    assert found["span_s"] == 9171736 + 3600
    assert round(found["interarrival"]["mean_s"], 1) == 166.8
    assert round(found["interarrival"]["scv"], 1) == 162.9


def test_openb_has_fractional_gpus_and_cpu_jobs(shared, tmp_path):
    raw = pl.read_csv(shared / "data/alibaba-openb-v2023/openb_pod_list_default.csv.gz")
    gpus = pl.col("num_gpu") * pl.col("gpu_milli") / 1000
    jobs = raw.select(
        (pl.from_epoch(pl.col("creation_time"), time_unit="s")).alias("submit_time"),
        (pl.col("deletion_time") - pl.col("creation_time")).cast(pl.Float64).alias("duration_s"),
        gpus.fill_null(0).cast(pl.Float64).alias("num_gpus"),
    ).filter(pl.col("duration_s").is_null() | (pl.col("duration_s") >= 0))
    path = tmp_path / "openb.parquet"
    jobs.write_parquet(path)
    found = characterize(read_trace(path, columns=COLUMNS)).summary()
    assert found["cpu_only_jobs"] == jobs.filter(pl.col("num_gpus") == 0).height > 0
    assert any(row["num_gpus"] % 1 for row in found["gpu_counts"])
    held = float((jobs["duration_s"] * jobs["num_gpus"]).sum())
    assert found["gpu_time"]["gpu_hours"] == pytest.approx(held / HOUR)
    load = found["load"]
    assert load["window_mean_gpus"] * load["window_s"] == pytest.approx(held)
