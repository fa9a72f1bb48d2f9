"""The statistics of a workload: hand-worked values, degenerate traces, closed forms."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
from support_traces import ORIGIN, frame, in_memory

from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.characterize.arrivals import (
    find_bursts,
    interarrival,
    poisson_quantile,
)
from gpuplan.analysis.characterize.clock import is_zone
from gpuplan.analysis.characterize.durations import percentile
from gpuplan.analysis.characterize.gpu_time import gini, longest_share, lorenz
from gpuplan.analysis.job_table.schema import Provenance

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


def test_jobs_still_running_have_gpu_time_and_no_duration():
    jobs = frame(
        [0, 10, 20],
        duration_s=[100.0, 5000.0, None],
        num_gpus=[1.0, 8.0, 1.0],
        state=["completed", "running", "not_started"],
    )
    left = characterize(in_memory(jobs))
    found = left.summary()
    assert (found["jobs"], found["censored_jobs"], found["duration_s"]["jobs"]) == (3, 1, 1)
    assert found["gpu_time"]["gpu_hours"] == pytest.approx(40100 / HOUR)
    assert {row["state"]: row["gpu_hours"] for row in found["states"]} == {
        "completed": pytest.approx(100 / HOUR),
        "running": pytest.approx(40000 / HOUR),
        "not_started": 0,
    }
    assert "1 job still running with 11 GPU-hours so far" in left.notes[0]
    assert found["load"]["peak_gpus"] == 9


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


def test_a_job_that_never_started_is_not_cpu_only():
    # Philly does not tell the GPUs of such a job.
    jobs = frame(
        [0, 60, 90],
        duration_s=[5.0, None, None],
        num_gpus=[0.0, 0.0, 2.0],
        state=["completed", "not_started", "not_started"],
    )
    found = summary(jobs)
    assert (found["jobs"], found["cpu_only_jobs"]) == (3, 1)
    assert [(row["num_gpus"], row["jobs"]) for row in found["gpu_counts"]] == [(2.0, 1)]


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


def test_the_number_of_longest_jobs_is_rounded_up():
    duration = np.arange(1.0, 12)  # of 11 jobs the tenth is 2, the hundredth 1
    assert longest_share(duration, duration, 10) == pytest.approx((11 + 10) / 66)
    assert longest_share(duration, duration, 1) == pytest.approx(11 / 66)
    assert longest_share(duration[:10], duration[:10], 10) == pytest.approx(10 / 55)


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


def test_an_hour_at_the_bound_is_no_burst():
    # 1 job in each of 100 hours, 4 more in hour 10 and 5 more in hour 50: a mean of 1.09.
    hours = np.sort(np.array([*range(100), *[10] * 4, *[50] * 5]))
    bursts = find_bursts((hours * 3600 * 10**6).astype(np.int64), calendar=False, top=5)
    assert bursts.bound_jobs_per_hour == 5
    assert [(burst.start_s, burst.jobs) for burst in bursts.largest] == [(50 * 3600, 6)]


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
