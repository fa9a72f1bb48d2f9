"""Jobs, classes and routes of a plan: worked by hand, and laws for every step function."""

from fractions import Fraction
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_plan import jobs_from, market, program_of, table_speedup

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.planner.plan.classes import MOST_CLASSES, classes_of
from gpuplan.planner.plan.jobs import TimeBins, bins_of
from gpuplan.planner.plan.routes import JobRoute, RouteSettings, job_paths
from gpuplan.planner.speedup.registry import load_speedup

RENT = market(on_demand=2.0)


def test_means_per_bin_worked_out_by_hand():
    # Bins of 60 s. 2 GPUs from 30 to 90, 1 from 60 to 180, 4 from 170 to beyond the end at 180.
    bins = TimeBins(180.0, 3)
    means = bins.means(
        np.array([30.0, 60.0, 170]), np.array([90.0, 180, 999]), np.array([2.0, 1, 4])
    )
    assert means.tolist() == pytest.approx([1.0, 2.0, 1 + 4 / 6])


intervals = st.lists(
    st.tuples(st.floats(0, 1000), st.floats(0, 1500), st.floats(0.1, 64)), min_size=1, max_size=30
)


@given(intervals, st.integers(1, 70))
def test_means_are_the_area_of_each_bin(drawn, count):
    begin, end, gpus = (np.array(column) for column in zip(*drawn, strict=True))
    end = np.maximum(begin, end)
    bins = TimeBins(1000.0, count)
    edges = np.linspace(0, 1000, count + 1)
    inside = np.minimum(end[:, None], edges[1:]) - np.maximum(begin[:, None], edges[:-1])
    area = (np.maximum(inside, 0) * gpus[:, None]).sum(axis=0)
    np.testing.assert_allclose(
        bins.means(begin, end, gpus) * bins.bin_s, area, rtol=1e-9, atol=1e-6
    )


def test_bins_are_minutes_until_there_are_too_many():
    assert bins_of(14400.0) == TimeBins(14400.0, 240)
    assert bins_of(61.0).count == 2
    assert bins_of(1e7) == TimeBins(1e7, 4000)


def test_jobs_that_did_not_run_are_left_out_and_the_window_ends_with_the_last_job():
    jobs = jobs_from(
        [0, 10, 20, 30], [100, 5000, 1, 7], [1, 2, 0, 4],
        queue_s=[None, 20.0, None, None], state=["completed"] * 3 + ["not_started"],
    )  # fmt: skip
    assert (jobs.size, jobs.left_out, jobs.window_s) == (2, 2, 5030.0)
    assert jobs.recorded_s.tolist() == [100.0, 5020.0]


def test_jobs_still_running_are_planned_and_counted():
    jobs = jobs_from([0, 10], [3600, 1800], [1, 4], state=["completed", "running"])
    assert (jobs.size, jobs.still_running) == (2, (1, 2.0))


def test_labels_are_job_classes_or_groups_or_one():
    both = {"job_class": [None, "x"], "group": ["g", "h"]}
    arrays = ([0, 1], [60, 60], [1, 1])
    assert jobs_from(*arrays, **both).label.to_list() == ["none", "x"]
    assert jobs_from(*arrays, group=["g", ""]).label.to_list() == ["g", "none"]
    assert jobs_from(*arrays).label.to_list() == ["all", "all"]
    assert jobs_from(*arrays, by="group", **both).label.to_list() == ["g", "h"]
    assert jobs_from(*arrays, by="all", **both).labelled_by == "all"
    with pytest.raises(UsageError, match="no column 'team'"):
        jobs_from(*arrays, by="team")


def test_classes_are_by_label_type_and_width():
    gpus = [0.5, 1, 1.5, 4, 5, 8, 32, 33]
    jobs = jobs_from(range(8), [60] * 8, gpus, gpu_type=["T4"] * 7 + [None])
    names = [(c.gpu_type, c.width_bucket, c.jobs.tolist()) for c in classes_of(jobs)]
    assert names == [
        ("", "over 32", [7]),
        ("T4", "1", [0, 1]),
        ("T4", "2-4", [2, 3]),
        ("T4", "5-8", [4, 5]),
        ("T4", "9-32", [6]),
    ]


def test_of_many_classes_the_smallest_are_other():
    # 70 labels with 1 GPU, job i runs i + 1 minutes, and one of 8 GPUs recorded as other.
    labels = [f"c{i:02}" for i in range(70)] + ["other"]
    run_s = [60.0 * (i + 1) for i in range(70)] + [1e6]
    jobs = jobs_from(range(71), run_s, [1] * 70 + [8], job_class=labels)
    classes = classes_of(jobs)
    assert len(classes) == MOST_CLASSES
    others = [c for c in classes if c.label == "other"]
    assert [(c.width_bucket, c.jobs.size) for c in others] == [("1", 12), ("5-8", 1)]
    assert {c.label for c in classes} == {*labels[12:70], "other"}
    assert sorted(np.concatenate([c.jobs for c in classes])) == list(range(71))


def test_too_many_types_leave_no_name():
    labels, types = ["a", "b"] * 65, [f"t{i % 65}" for i in range(130)]
    jobs = jobs_from(range(130), [60] * 130, [1] * 130, gpu_type=types, job_class=labels)
    classes = classes_of(jobs)
    assert len(classes) == 65 and {c.label for c in classes} == {"other"}


def test_wider_and_narrower_jobs():
    # s(1), s(2), s(4) = 1, 1.8, 3: 4 GPUs for 600 s run 1000 s on 2 and do not fit 8.
    profile = table_speedup(a=[(1, 1.0), (2, 1.8), (4, 3.0)]).of("a")
    run_s, gpus = np.array([600.0, 600.0, 600.0]), np.array([4.0, 2.0, 0.5])
    settings = RouteSettings(rescale_s=60.0)
    half = job_paths(
        JobRoute("width", Fraction(1, 2)), run_s, gpus, settings=settings, profile=profile
    )
    assert half.fits.tolist() == [True, True, False]
    assert half.time_s.tolist() == pytest.approx([1060.0, 600 * 1.8 + 60, 600.0])
    assert half.pool_gpus.tolist() == [2.0, 1.0, 0.5]
    twice = job_paths(
        JobRoute("width", Fraction(2)), run_s, gpus, settings=settings, profile=profile
    )
    assert twice.fits.tolist() == [False, True, False]
    assert twice.time_s[1] == pytest.approx(600 * 1.8 / 3 + 60)
    narrow = RouteSettings(max_width=3)
    assert not job_paths(
        JobRoute("width", Fraction(2)), run_s, gpus, settings=narrow, profile=profile
    ).fits.any()


def test_spot_jobs_checkpoint_as_young_says():
    # One node: tau = sqrt(2 x 30 s x 12 h), overhead = 30 / tau + (tau / 2 + 90) / 12 h.
    tau = sqrt(2 * 30 * 43200)
    overhead = 30 / tau + (tau / 2 + 90) / 43200
    run_s, gpus = np.array([1000.0, 1000.0]), np.array([8.0, 9.0])
    path = job_paths(
        JobRoute("spot"), run_s, gpus, settings=RouteSettings(), may_be_spot=np.ones(2, bool)
    )
    assert path.tau_s.tolist() == pytest.approx([tau, tau / sqrt(2)])
    assert path.time_s[0] == path.outside_s[0] == pytest.approx(1000 * (1 + overhead))
    assert path.pool_from_s[0] == path.time_s[0]
    stormy = RouteSettings(hazard_per_s=1 / 60)
    lost = job_paths(JobRoute("spot"), run_s, gpus, settings=stormy, may_be_spot=np.ones(2, bool))
    assert not lost.fits.any() and lost.time_s.tolist() == run_s.tolist()
    calm = RouteSettings(hazard_per_s=0.0)
    free = job_paths(
        JobRoute("spot"), run_s, gpus, settings=calm, may_be_spot=np.array([True, False])
    )
    assert free.fits.tolist() == [True, False] and free.time_s.tolist() == run_s.tolist()
    assert free.outside_s.tolist() == [1000.0, 0.0]


def test_jobs_leave_containers_after_their_threshold():
    run_s, gpus = np.array([60.0, 61.0]), np.ones(2)
    path = job_paths(JobRoute("serverless", leave_s=60.0), run_s, gpus, settings=RouteSettings())
    assert path.outside_s.tolist() == [60.0, 102.0]
    assert path.time_s.tolist() == [60.0, 145.0]
    assert (path.time_s - path.pool_from_s).tolist() == [0.0, 43.0]  # 42 s to load, 1 s to run
    never = job_paths(JobRoute("serverless", leave_s=inf), run_s, gpus, settings=RouteSettings())
    assert never.outside_s.tolist() == never.time_s.tolist() == run_s.tolist()


def test_routes_exist_only_where_their_input_is():
    jobs = jobs_from([0, 60], [600, 600], [2, 4], job_class=["a", "b"], spot="job_class = 'b'")
    speedup = table_speedup(a=[(1, 1.0), (2, 1.9)])
    prices = market(on_demand=2.0, spot_usd=1.0, serverless_usd=3.0)
    columns = program_of(jobs, prices, speedup=speedup).columns
    containers = [f"serverless {leave}" for leave in ("60", "300", "1800", "never")]
    names = [route.name for route in columns.routes]
    assert names == ["base", "width 0.5", *containers, "base", "spot", *containers]
    law = program_of(jobs, RENT, speedup=load_speedup("power:0.8")).columns
    assert [route.name for route in law.routes][:5] == [
        "base", "width 0.5", "width 2", "width 4", "width 8",
    ]  # fmt: skip


@pytest.mark.parametrize("condition", ["true", "1 = 1"])
def test_a_condition_that_names_no_column_is_of_every_job(condition):
    jobs = jobs_from([0, 9, 9], [60, 60, 60], [1, 1, 2], defer=condition)
    assert jobs.is_deferred.tolist() == [True] * 3
    jobs = jobs_from([0, 9, 9], [60, 60, 60], [1, 1, 2], spot=condition)
    assert (jobs.is_spot.tolist(), jobs.is_deferred.tolist()) == ([True] * 3, [False] * 3)


def test_a_job_of_both_conditions_is_deferred_and_in_no_class():
    jobs = jobs_from(
        [0, 0], [60, 60], [1, 1], job_class=["a", "b"], spot="num_gpus = 1", defer="job_class = 'b'"
    )
    assert jobs.is_spot.tolist() == [True, False]
    assert [c.jobs.tolist() for c in classes_of(jobs)] == [[0]]


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(UsageError, match="--spot 'num_gpus > 8': matches none of the 2 jobs"):
        jobs_from([0, 1], [60, 60], [1, 1], spot="num_gpus > 8")
    with pytest.raises(UsageError, match="--defer"):
        jobs_from([0, 1], [60, 60], [1, 1], defer="nonsense = 3")
    with pytest.raises(InputError, match="no job ran on GPUs"):
        jobs_from([0], [60], [0])
    with pytest.raises(InputError, match="take no time"):
        jobs_from([0, 0], [0, 0], [1, 1])
    with pytest.raises(UsageError, match="V100: no price"):
        program_of(jobs_from([0], [60], [1], gpu_type=["V100"]), market(spot_usd=1.0))
