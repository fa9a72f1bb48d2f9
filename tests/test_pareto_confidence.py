"""Bands and sensitivities in gpuplan pareto."""

import numpy as np
import pytest
from support_docs import undocumented
from support_pareto import results

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.elastic.job_classes import COLUMNS
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.study import PlanRequest, study_frontier
from gpuplan.planner.frontier.uncertainty.bootstrap_bands import bootstrap_frontier
from gpuplan.planner.frontier.uncertainty.confidence import confidence_of, sensitivity_of
from gpuplan.planner.speedup.registry import load_speedup


@pytest.fixture
def study(newtrace):
    read = read_trace(newtrace, columns=COLUMNS)
    request = PlanRequest(cluster=RentedCluster(), targets_s=[1800.0])
    return study_frontier(read, load_speedup("profile:t4"), request=request)


def test_the_bands_are_those_of_the_library(study):
    doubt = confidence_of(study, 80.0, seed=3)
    alone = bootstrap_frontier(
        study.workload, study.frontier, [], [1800.0], level=80.0, rng=np.random.default_rng(3)
    )
    results = doubt.results()
    assert results.load_gpus == alone.load_gpus
    assert [row.band.low for row in results.budget_gpus] == [
        band.low for band in alone.target_budget_gpus
    ]
    assert doubt.grid_gpus[[0, -1]] == pytest.approx(
        [study.frontier.min_budget, study.frontier.saturation_budget]
    )
    for gpus, band in zip(doubt.grid_gpus, doubt.grid, strict=True):
        assert band.value == pytest.approx(study.frontier.at_budget(gpus).mean_jct_s)


def test_the_sensitivity_is_that_of_the_plan_shown(study):
    found = sensitivity_of(study, seed=0)
    assert found.speedup.plan is found.bursts.plan is study.points[0].plan
    assert found.bursts.cluster == study.cluster
    assert plain(found) == plain(sensitivity_of(study, seed=0))


def test_both_in_the_command(gpuplan, newtrace, tmp_path):
    picture = tmp_path / "band.svg"
    asked = (newtrace, "--speedup", "profile:t4", "--budget", "1.2x,2x", "--target-jct", "30m")
    asked += ("--ci", "90", "--sensitivity")
    found = results(gpuplan, *asked, "--plot", picture)
    assert undocumented(found, ["boa-output.md"]) == []
    bands = found["bands"]
    assert bands["level_pct"] == 90
    for row, point in zip(bands["mean_jct_s"], found["points"], strict=False):
        assert row["value"] == pytest.approx(point["mean_jct_s"])
        assert row["low"] <= row["value"]
    (budget,) = bands["budget_gpus"]
    assert budget["value"] == pytest.approx(found["points"][2]["budget_gpus"])
    knee = found["knee"]["budget_gpus"]
    near = min(found["points"], key=lambda point: abs(np.log(point["budget_gpus"] / knee)))
    assert found["sensitivity"]["speedup"]["planned_mean_jct_s"] == near["mean_jct_s"]
    assert "90% confidence" in picture.read_text()
    _, out, err = gpuplan("pareto", "--full", *asked)
    assert "90% band" in out and "GPUs for a JCT of 30 min" in out
    assert "worst mix of both" in out and "burstiness" in out
    assert "they do not cover wrong speedups" in err
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ci", "20"], "--ci must be between 50 and 99.9"),
        (["--ci", "90", "--method", "paper"], "needs --method exact"),
        (["--sensitivity", "--no-replay"], "remove --no-replay"),
        (["--ci", "90", "--gpu", "T4", "--gpu", "A=2", "--price", "T4=1", "--price", "A=2"],
         "with one GPU type"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(gpuplan, newtrace, arguments, said):
    code, _, err = gpuplan("pareto", "--full", newtrace, "--speedup", "profile:t4", *arguments)
    assert (code, said in err) == (2, True), err
