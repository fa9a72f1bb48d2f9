"""Load against counting second by second, and laws that hold for every workload."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_traces import frame, in_memory

from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.characterize.load import (
    MAX_BINS,
    bin_width_s,
    changes,
)
from gpuplan.analysis.history.steps import time_weighted_quantiles
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import _scaled

HOUR = 3600.0


def summary(jobs, **options):
    return characterize(in_memory(jobs), **options).summary()


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


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=30, deadline=None)
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
    ((times, held, running),) = changes([(start, end, np.array([2.0, 1.5, 64.0]), None)])
    assert times.tolist() == [0, 10, 30]
    assert held.tolist() == [2_000_000, 1_500_000, 0]
    assert running.tolist() == [1, 1, 0]


def test_time_weighted_quantiles_worked_by_hand():
    level, lasting = np.array([5, 1, 3]), np.array([10, 30, 60])
    assert time_weighted_quantiles(level, lasting, (0.3, 0.31, 0.9, 0.91)) == (1, 3, 3, 5)


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
