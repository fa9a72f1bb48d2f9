"""Laws that relate two runs of characterize, bill, pareto, forecast and diff."""

import json

import polars as pl
import pytest
from support_laws import SEEDS, Runs, jobs_of, numbers
from support_traces import write


@pytest.fixture
def runs(gpuplan, tmp_path):
    return Runs(gpuplan, tmp_path)


@pytest.fixture(params=SEEDS)
def jobs(request):
    return jobs_of(request.param)


def without_times(results):
    """Return the numbers of results, without instants."""
    return {
        path: value
        for path, value in numbers(results)
        if "time" not in path and not path.endswith("hour")
    }


COMMANDS = {
    "characterize": (),
    "bill": ("--price", "2.5", "--cluster", "64"),
    "pareto": ("--speedup", "power:0.8", "--budget", "1.5x,3x"),
    "size": ("--target", "mean_wait <= 10m"),
    "forecast": ("--horizon", "2h"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_order_of_rows_does_not_matter(runs, jobs, command):
    mixed = jobs.sample(fraction=1.0, shuffle=True, seed=1)
    assert runs.run(command, jobs, *COMMANDS[command]) == runs.run(
        command, mixed, *COMMANDS[command]
    )


@pytest.mark.parametrize("command", ["characterize", "pareto", "size", "forecast"])
def test_weeks_later_is_the_same_answer(runs, jobs, command):
    later = jobs.with_columns(pl.col("submit_time").dt.offset_by("4w"))
    once, again = (runs.run(command, part, *COMMANDS[command]) for part in (jobs, later))
    assert without_times(once) == without_times(again)


def test_twice_the_price_is_twice_the_bill(runs, jobs):
    once, twice = (
        runs.run("bill", jobs, "--price", price, "--cluster", "64", "--by", "group")
        for price in ("1.25", "2.50")
    )
    assert twice["gpu_h"] == once["gpu_h"]
    assert twice["usd"] == pytest.approx(2 * once["usd"], abs=0.02)
    for row, double in zip(once["groups"], twice["groups"], strict=True):
        assert double["name"] == row["name"]
        assert double["usd"] == pytest.approx(2 * row["usd"], abs=0.02)


def test_a_bill_adds_up_and_groups_part_it(runs, jobs):
    whole = runs.run("bill", jobs, "--price", "1.25", "--cluster", "64")
    assert sum(row["usd"] for row in whole["groups"]) == pytest.approx(whole["usd"], abs=1e-6)
    by_group = {row["name"]: row["gpu_h"] for row in whole["groups"]}
    for name in ("nlp", "speech", "vision"):
        alone = runs.run("bill", jobs, "--price", "1.25", "--where", f"\"group\" = '{name}'")
        assert alone["gpu_h"] == pytest.approx(by_group[name], rel=1e-9)


def test_gpu_time_of_parts_add_up(runs, jobs):
    def gpu_s(*options):
        load = runs.run("characterize", jobs, *options)["load"]
        return load["window_mean_gpus"] * load["window_s"]

    parts = [gpu_s("--where", f"job_class = '{name}'") for name in ("bert", "gpt", "resnet")]
    assert sum(parts) == pytest.approx(gpu_s(), rel=1e-9)


def test_more_budget_never_plans_longer_jobs(runs, jobs):
    points = runs.run("pareto", jobs, "--speedup", "power:0.8", "--budget", "1.1x,1.5x,2x,4x,8x")
    planned = [point["mean_jct_s"] for point in points["points"]]
    assert len(planned) > 2
    assert planned == sorted(planned, reverse=True)


def test_the_same_result_twice_has_no_change(gpuplan, runs, jobs, tmp_path):
    trace = write(tmp_path / "same.parquet", jobs)
    for name in ("a.json", "b.json"):
        assert gpuplan("characterize", trace, "-o", tmp_path / name, "-q")[0] == 0
    code, out, _ = gpuplan(
        "diff", tmp_path / "a.json", tmp_path / "b.json", "--output-format", "json"
    )
    assert code == 0
    assert json.loads(out)["results"]["changed"] == 0
