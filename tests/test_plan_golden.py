"""Plans against golden programs of an independent implementation; the check names differences."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.market_use import cost_steps, usd_of
from gpuplan.planner.plan.replay import RentingTerms, replay_plan

pytestmark = pytest.mark.kernels


def golden_module():
    path = Path(__file__).with_name("golden_plan.py")
    spec = importlib.util.spec_from_file_location("golden_plan", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        "t1_commit_two_types",
        "t2_slower_spot_max",
        "t3_defer_serverless",
        "p5_two_types",
        "p6_defer",
        "p7_spot_serverless",
        "p8_budget",
        "p4_philly_a",
    ],
)
def test_programs_agree(shared, name):
    assert golden_module().differences(shared / "golden" / "plan" / f"{name}.json") == []


@pytest.mark.parametrize("name", ["r1_pool", "r2_outside", "r3_defer"])
def test_replays_agree(shared, name):
    path = shared / "golden" / "plan" / f"{name}.json"
    golden = json.loads(path.read_text())
    assert golden_module().replay_differences(path, golden) == []


@pytest.mark.parametrize("name", ["p5_two_types", "p6_defer", "p7_spot_serverless", "p8_budget"])
def test_a_plan_costs_in_the_replay_what_it_says_within_two_percent(shared, name):
    """The answer's dollars with the usual delays; the program's without them, but for deferral.

    With p6 both are fixed: the program by its golden value, in which work may stop and go on, and
    the replay by its rules, in which a job that runs goes on. They are 3.5% apart.
    """
    path = shared / "golden" / "plan" / f"{name}.json"
    golden = json.loads(path.read_text())
    _, columns, bought = golden_module().planned(path, golden["options"], golden["trace"])
    assigned = assigned_jobs(columns, bought.whole_nodes.share)
    committed = bought.whole_nodes.committed
    terms = RentingTerms(provision_s=0.0, release_s=0.0, billing_s=1e-6)
    run = replay_plan(columns, assigned, committed, terms, caps={})
    assert run.wait_s[run.is_planned].max() == 0
    usual = replay_plan(columns, assigned, committed, RentingTerms(), caps={})
    answer = usd_of(bought, assigned)
    assert answer == pytest.approx(run.usd_per_month(), rel=5e-4)  # losses of spot GPUs are drawn
    assert answer == pytest.approx(usual.usd_per_month(), rel=0.02)
    steps = {step.name: step for step in cost_steps(bought, assigned, run)}
    lasting = steps["deferred_jobs"].change_usd_per_month if columns.has_deferred else 0.0
    program_usd = bought.whole_nodes.usd_per_h * MONTH_H
    assert (lasting > 0.02 * program_usd) == (name == "p6_defer")
    assert program_usd + lasting == pytest.approx(run.usd_per_month(), rel=0.02)


def test_the_check_names_a_difference(shared, tmp_path, capsys):
    source = shared / "golden" / "plan"
    shutil.copy(source / "t1_commit_two_types.csv", tmp_path)
    golden = json.loads((source / "t1_commit_two_types.json").read_text())
    golden["results"]["program"]["K"]["A"] = 3.0
    path = tmp_path / "t1_commit_two_types.json"
    path.write_text(json.dumps(golden))
    replay = json.loads((source / "r1_pool.json").read_text())
    replay["runs"][3]["wait"] = 1.0
    (tmp_path / "replay.json").write_text(json.dumps(replay))
    assert golden_module().main([str(path), str(tmp_path / "replay.json")]) == 1
    said = capsys.readouterr().out
    assert said.count(": 1 differences") == 2 and "K A: expected 3.0" in said
    assert "job 3 wait: expected 1.0, got" in said
