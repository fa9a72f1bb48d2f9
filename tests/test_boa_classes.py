"""Many job classes: planned as few are, or refused with what to group."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.elastic import job_class
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import COLUMNS, workload_of
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.replay.plans import assign_paths
from gpuplan.planner.speedup.registry import load_speedup

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def jobs(tmp_path):
    """Return the path of a trace of some jobs with one class each, of three users."""

    def make(count, classes):
        rng = np.random.default_rng(1)
        frame = pl.DataFrame(
            {
                "submit_time": [START + timedelta(minutes=i) for i in range(count)],
                "duration_s": rng.lognormal(7, 1.5, count),
                "num_gpus": rng.choice([0.5, 1.0, 2.0, 80.0], count),
                "job_class": [f"class {i % classes}" for i in range(count)],
                "user": [f"user {i % 3}" for i in range(count)],
            }
        )
        frame.write_parquet(tmp_path / "jobs.parquet")
        return tmp_path / "jobs.parquet"

    return make


def test_too_many_classes_are_refused_with_what_to_group(gpuplan, jobs):
    count = job_class.MOST_CLASSES + 1
    code, out, err = gpuplan("pareto", jobs(count, count))
    assert (code, out) == (2, "")
    text = " ".join(err.split())
    assert f"--class-by job_class: {count:,} classes among the jobs planned for are too" in text
    for way in ("--class-by user (3 classes)", "--map job_class=COLUMN", "with --where"):
        assert way in text
    assert "--class-by group" not in text  # the trace has none


def test_as_many_classes_as_there_may_be_are_planned(jobs, monkeypatch):
    monkeypatch.setattr(job_class, "MOST_CLASSES", 40)
    speedup = load_speedup("power:0.8")
    assert len(workload_of(read_trace(jobs(90, 40)), speedup).classes) == 40
    with pytest.raises(UsageError, match="41 classes"):
        workload_of(read_trace(jobs(90, 41)), speedup)
    workload_of(read_trace(jobs(90, 41)), speedup, ClassOptions(class_by="user"))


def test_classes_are_what_each_would_be_alone(jobs):
    trace = read_trace(jobs(400, 30), columns=COLUMNS)
    speedup = load_speedup("power:0.8")
    workload = workload_of(trace, speedup, ClassOptions(horizon_s=1e5))
    for number, planned in enumerate(workload.classes):
        rows = trace.jobs.filter(pl.col("job_class") == planned.name)
        gpus, duration_s = rows["num_gpus"].to_numpy(), rows["duration_s"].to_numpy()
        work_h = duration_s * np.where(gpus < 1, gpus, gpus**0.8) / 3600
        assert planned.jobs == rows.height
        assert planned.work_h == pytest.approx([work_h.mean()])
        mine = workload.arrivals.job_class == number
        assert workload.arrivals.work_h[mine] == pytest.approx(work_h)
        assert workload.arrivals.gpus[mine].tolist() == gpus.tolist()
        has_wide = (gpus == 80).any()  # more GPUs than any candidate
        assert (planned.other_widths is not None) == has_wide
        if has_wide:
            assert planned.other_speedup == pytest.approx(np.array([[80**0.8]]))


def test_every_job_follows_a_path_of_its_class(jobs):
    workload = workload_of(read_trace(jobs(400, 30), columns=COLUMNS), load_speedup("power:0.8"))
    frontier = solve_frontier(workload.classes)
    for budget in np.linspace(frontier.min_budget, frontier.saturation_budget, 5):
        plan = frontier.at_budget(budget)
        paths, path_of = assign_paths(workload, plan)
        followed = np.array([path.job_class for path in paths])[path_of]
        assert followed.tolist() == workload.arrivals.job_class.tolist()
        assert frontier.mean_jct_at(budget) == pytest.approx(plan.mean_jct_s, rel=1e-12)
