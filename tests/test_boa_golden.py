"""The frontier of the built-in T4 profile against published measurements and a reference run."""

from itertools import product

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.speedup import t4
from gpuplan.planner.speedup.functions import concave_hull

# Jobs per application in the first newTrace sample of the Sia artifact, submitted over 48 h.
NEWTRACE_1 = {"cifar10": 484, "deepspeech2": 226, "bert": 208, "yolov3": 36, "imagenet": 6}


def profile_class(name, jobs, horizon_h):
    profile = t4.CLASSES[name]
    widths = profile.epochs[0].candidates(None)
    return JobClass(
        name,
        jobs / horizon_h,
        np.array([profile.work_h]),
        widths,
        profile.epochs[0].at(widths)[None],
    )


def newtrace():
    return solve_frontier([profile_class(name, jobs, 48) for name, jobs in NEWTRACE_1.items()])


def test_newtrace_on_t4():
    # Reference: the same measurements solved as a convex program without rescaling, one width per
    # application, at 1.05, 1.2, 1.5, 2 and 3 times the load on single GPUs.
    frontier = newtrace()
    assert frontier.load_gpus == pytest.approx(94.1024, abs=1e-4)
    assert frontier.min_budget == pytest.approx(93.435, abs=1e-3)  # BERT gains more than 2 from 2
    expected = {1.05: 8598.51, 1.2: 3807.83, 1.5: 2222.34, 2: 1751.42, 3: 1590.34}
    for multiple, jct_s in expected.items():
        plan = frontier.at_budget(multiple * frontier.load_gpus)
        assert plan.mean_jct_s == pytest.approx(jct_s, rel=1e-5)
        assert plan.utilization == pytest.approx(1 / multiple)
    plan = frontier.at_budget(1.2 * frontier.load_gpus)
    assert plan.rounded_mean_jct_s == pytest.approx(1.07376 * 3600, rel=1e-5)
    assert plan.rounded_used == pytest.approx(112.2231, rel=1e-5)
    with pytest.raises(InfeasibleError, match=r"93\.44"):
        frontier.at_budget(10)


def check_against(rows, frontier):
    for row in rows.iter_rows(named=True):
        assert frontier.load_gpus == pytest.approx(row["load_gpus"], rel=1e-4)
        assert frontier.min_budget == pytest.approx(row["min_budget"], rel=1e-4)
        plan = frontier.at_budget(row["mult"] * frontier.load_gpus)
        assert plan.mean_jct_s == pytest.approx(row["avg_jct_s"], rel=1e-4)
        assert plan.used == pytest.approx(row["used"], rel=1e-4)
        if row["mu"] is not None:
            assert plan.multiplier == pytest.approx(row["mu"], rel=1e-3)


def rows_of(shared, **keys):
    table = pl.read_csv(shared / "golden/boa/boa_reference.csv")
    return table.filter(*(pl.col(key) == value for key, value in keys.items()))


WORKLOADS = {
    "newtrace-1": ("sia-workloads/newtrace/workload-1.csv", 48),
    "pollux-1": ("pollux-workloads/workloads/workload-1.csv", 8),
}
every_variant = pytest.mark.parametrize(
    ("workload", "calibrated", "curve"),
    list(product(WORKLOADS, (True, False), ("speedup", "speedup_model"))),
)


def arrivals(shared, workload):
    """Applications of a published workload with their jobs per hour."""
    path, horizon_h = WORKLOADS[workload]
    jobs = pl.read_csv(shared / "data" / path)
    counts = jobs.group_by("application").len().sort("application").iter_rows()
    return {name: count / horizon_h for name, count in counts}


def measured_epochs(shared, name, calibrated, curve):
    """Work of each epoch of an application, GPU counts, and the raw speedup of each at each."""
    table = pl.read_csv(shared / "data/boa-profiles/speedup_epochs_aws.csv.gz")
    parts = table.filter(app=name).sort("epoch", "num_gpus").partition_by("epoch")
    size = "work_hours_1gpu_calibrated" if calibrated else "work_hours_1gpu"
    work = np.array([part[size][0] for part in parts])
    return work, parts[0]["num_gpus"].to_numpy(), np.stack([p[curve].to_numpy() for p in parts])


@every_variant
def test_reference_at_one_width_per_class(shared, workload, calibrated, curve):
    rows = rows_of(shared, workload=workload, curve=curve, calibrated=calibrated, level="class")
    assert rows.height == 8
    classes = []
    for name, rate in arrivals(shared, workload).items():
        work, gpus, speedup = measured_epochs(shared, name, calibrated, curve)
        whole = work.sum() / (work[:, None] / speedup).sum(axis=0)
        hull = concave_hull(gpus, whole)
        widths = np.array(hull.widths)
        classes.append(JobClass(name, rate, work.sum(keepdims=True), widths, hull.at(widths)[None]))
    frontier = solve_frontier(classes)
    check_against(rows, frontier)
    for row in rows.iter_rows(named=True):  # the one split class on its cheaper width
        plan = frontier.at_budget(row["mult"] * frontier.load_gpus)
        assert plan.rounded_mean_jct_s == pytest.approx(3600 * row["int_jct_h"], rel=1e-4)
        assert plan.rounded_used == pytest.approx(row["int_cost"], rel=1e-4)


@every_variant
def test_reference_at_one_width_per_epoch(shared, workload, calibrated, curve):
    rows = rows_of(shared, workload=workload, curve=curve, calibrated=calibrated, level="epoch")
    assert rows.height == 8
    classes = []
    for name, rate in arrivals(shared, workload).items():
        work, gpus, speedup = measured_epochs(shared, name, calibrated, curve)
        hulls = [concave_hull(gpus, row) for row in speedup]
        widths = np.unique(np.concatenate([hull.widths for hull in hulls]))
        classes.append(
            JobClass(name, rate, work, widths, np.stack([hull.at(widths) for hull in hulls]))
        )
    check_against(rows, solve_frontier(classes))


def test_profile_is_the_measured_hull(shared):
    table = pl.read_csv(shared / "data/boa-profiles/boa_class_hulls_aws.csv")
    sizes = pl.read_csv(shared / "data/boa-profiles/job_sizes.csv").filter(gpu_type="aws")
    assert set(table["app"]) == set(t4.CLASSES)
    for (name,), rows in table.group_by("app"):
        profile = t4.CLASSES[name]
        assert profile.epochs[0].widths == tuple(rows["num_gpus"].cast(pl.Float64))
        assert profile.epochs[0].speedups == tuple(rows["hull_speedup"])
        assert profile.work_h == rows["work_hours_1gpu_calibrated"][0]
        assert profile.rescale_s == sizes.filter(app=name)["rescale_time_s"].item()
