"""Plans from measured speedups: exact at every measured width, and only on measured ones."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from support_pareto import results

from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import COLUMNS, workload_of
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.methods.registry import METHODS
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.registry import BASELINES
from gpuplan.planner.speedup.registry import load_speedup

START = datetime(2026, 1, 1, tzinfo=UTC)
SUPERLINEAR = {1: 100, 2: 300, 4: 610, 8: 1230}
FROM_FOUR = {4: 400, 8: 600, 16: 900}


@pytest.fixture
def jobs(tmp_path):
    """Twenty jobs of 4,000 s, one an hour."""

    def make(gpus=1.0):
        submit = [START + timedelta(hours=i) for i in range(20)]
        frame = pl.DataFrame({"submit_time": submit}).with_columns(
            duration_s=pl.lit(4000.0), num_gpus=pl.lit(gpus), job_class=pl.lit("a")
        )
        frame.write_parquet(tmp_path / "jobs.parquet")
        return tmp_path / "jobs.parquet"

    return make


@pytest.fixture
def table(tmp_path):
    """Write a table of throughputs of the class a and return its path."""

    def write(throughput):
        lines = ["job_class,num_gpus,throughput", *(f"a,{k},{v}" for k, v in throughput.items())]
        (tmp_path / "speed.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "speed.csv"

    return write


@pytest.mark.parametrize("width", SUPERLINEAR)
@pytest.mark.parametrize("method", METHODS)
def test_a_plan_takes_what_was_measured_at_its_width(gpuplan, jobs, table, width, method):
    # One job an hour of 4,000 s on one GPU: on 2 GPUs, three times as fast, 1,333.33 s and
    # 1,333.33 x 2 / 3,600 = 0.741 GPUs.
    found = results(
        *(gpuplan, jobs(), "--speedup", table(SUPERLINEAR), "--widths", width, "--horizon", "20h"),
        *("--rescale", "0"),
        *("--no-replay", "--method", method, "--budget", "9gpu"),
    )
    (point,) = found["points"]
    seconds = 4000 / (SUPERLINEAR[width] / 100)
    assert point["mean_jct_s"] == pytest.approx(seconds)
    assert point["used_gpus"] == pytest.approx(seconds * width / 3600)


def test_a_replay_of_the_recorded_widths_takes_the_recorded_times(jobs, table, tmp_path):
    # Neither a width between two candidates nor one below all of them changes how long a job ran.
    speedup = load_speedup(str(table(SUPERLINEAR)))
    for gpus in (1.0, 3.0, 4.0, 8.0):
        trace = read_trace(jobs(gpus), columns=COLUMNS)
        for widths in ((2,), (2, 8), None):
            workload = workload_of(trace, speedup, ClassOptions(widths=widths, rescale_s=0))
            run = BASELINES["recorded"].run(
                workload, RentedCluster(provision_s=0, release_s=0), 0.0
            )
            assert run.jct_s == pytest.approx([4000.0] * 20)


def test_no_method_needs_a_concave_curve(jobs, table):
    # A hole at 5 to 7 GPUs and a fall at 16: no method plans them, and exact is never behind.
    measured = {1: 100, 2: 190, 4: 350, 5: 300, 6: 310, 7: 320, 8: 520, 12: 600, 16: 560}
    speedup = load_speedup(str(table(measured)))
    workload = workload_of(read_trace(jobs(4.0), columns=COLUMNS), speedup)
    exact = solve_frontier(workload.classes)
    for budget in np.linspace(exact.min_budget, exact.saturation_budget, 9):
        best = exact.at_budget(budget)
        for method in METHODS.values():
            plan = method.solve(workload.classes).at_budget(budget)
            assert plan.objective_s >= best.objective_s * (1 - 1e-12)
            assert plan.used <= budget * (1 + 1e-9)
        assert not {5.0, 6.0, 7.0, 16.0} & {a.width for a in best.widths}


@pytest.mark.parametrize("choice", [(), ("--widths", "4,8"), ("--widths", "1,2,4,8")])
def test_widths_below_the_least_measured_are_no_candidates(gpuplan, jobs, table, choice):
    # A start of 10 min costs less on fewer GPUs; the job was never measured on those.
    found = results(
        *(gpuplan, jobs(4.0), "--speedup", table(FROM_FOUR), "--horizon", "20h"),
        *("--rescale", "10m", "--no-replay", *choice),
    )
    assert found["min_budget_gpus"] == pytest.approx(4 * (4000 + 600) / 3600)
    assert all(row["width"] >= 4 for point in found["points"] for row in point["widths"])


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (("--widths", "1,2"), "--widths 1,2: the speedup of 'a' was measured from 4 GPUs up"),
        (("--max-width", "2"), "a job of 'a' may get 2 GPUs at most, but the speedup of 'a' was"),
        (("--limit", "a=3"), "a job of 'a' may get 3 GPUs at most"),
        (("--max-gpus", "2"), "a job of 'a' may get 2 GPUs at most"),
    ],
)
def test_choices_that_leave_no_measured_width_are_refused(gpuplan, jobs, table, choice, said):
    replay = () if "--max-gpus" in choice else ("--no-replay",)
    code, _, err = gpuplan("pareto", jobs(4.0), "--speedup", table(FROM_FOUR), *choice, *replay)
    assert code == 2
    assert said in " ".join(err.split()) and "4 GPUs or more" in " ".join(err.split())
