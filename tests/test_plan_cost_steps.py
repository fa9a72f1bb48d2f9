"""From the program of a plan to its replay: deferred jobs run through, rented GPUs are idle."""

import json
from itertools import pairwise

import numpy as np
import pytest
from support_plan import DAY, HOUR, MONTH_H, jobs_from, market, plan_of
from support_traces import write_trace

from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.levers import COMMITMENT, bought_with
from gpuplan.planner.plan.market_use import cost_steps, market_uses, usd_of
from gpuplan.planner.plan.replay import RentingTerms, deferred_start_s, replay_plan
from gpuplan.planner.plan.uncertainty import PlanDollars, plan_intervals

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
AT_ONCE = RentingTerms(provision_s=0.0, release_s=0.0, billing_s=1e-6)
LATER = "job_class = 'later'"


def busy_by_day(size=500, days=12, seed=4, defer=LATER, **columns):
    """Return jobs of one to eight GPUs, most of them by day; three in ten may wait."""
    rng = np.random.default_rng(seed)
    hour = np.clip(rng.normal(13, 3, size), 0, 23.9)
    submit_s = np.sort(rng.integers(0, days, size) * DAY + hour * HOUR).round()
    label = np.where(rng.random(size) < 0.3, "later", "now").tolist()
    run_s = rng.exponential(1.5 * HOUR, size).round() + 1
    gpus = rng.choice([1, 2, 8], size, p=[0.5, 0.3, 0.2])
    return jobs_from(submit_s, run_s, gpus, job_class=label, defer=defer, **columns)


def test_a_deferred_job_that_runs_goes_on_by_hand():
    """One GPU owned; base jobs in hours 0 to 2, 3 to 6 and 8 to 9; two hours may wait from 1 to 5.

    The program runs one of them from 2 to 3 and the other from 6 on. The job starts at 2 and goes
    on: from 3 to 4 a GPU is rented. In the ninth of the time, for $9 an hour.
    """
    submit_s, run_s = [0, HOUR, 3 * HOUR, 8 * HOUR], [2 * HOUR, 2 * HOUR, 3 * HOUR, HOUR]
    jobs = jobs_from(
        submit_s, run_s, [1] * 4, job_class=["now", "later", "now", "now"], defer=LATER
    )
    plan = plan_of(jobs, market(on_demand=9.0, owned=1), within_s=4 * HOUR)
    columns = plan.program.columns
    assigned = assigned_jobs(columns, plan.whole_nodes.share)
    start_s = deferred_start_s(columns, assigned, plan.whole_nodes.committed)
    assert start_s.tolist() == [0, 2 * HOUR, 3 * HOUR, 8 * HOUR]
    assert plan.whole_nodes.usd_per_h == pytest.approx(0)
    assert usd_of(plan, assigned) == pytest.approx(MONTH_H)
    assert usd_of(plan, assigned, deferred_may_stop=True) == pytest.approx(0)
    run = replay_plan(columns, assigned, plan.whole_nodes.committed, AT_ONCE)
    changes = {step.name: step.change_usd_per_month for step in cost_steps(plan, assigned, run)}
    assert changes.pop("deferred_jobs") == pytest.approx(MONTH_H)
    assert list(changes.values()) == pytest.approx([0] * 5)


@pytest.mark.parametrize("prices", [{"commit": 0.9}, {"owned": 12}])
def test_without_delays_the_replay_costs_what_single_jobs_do(prices):
    jobs = busy_by_day(gpu_type=["A", "B"] * 250)
    plan = plan_of(jobs, market(on_demand=1.4, serverless_usd=1.5, **prices), within_s=6 * HOUR)
    columns = plan.program.columns
    assigned = assigned_jobs(columns, plan.whole_nodes.share)
    run = replay_plan(columns, assigned, plan.whole_nodes.committed, AT_ONCE)
    usd = usd_of(plan, assigned)
    assert run.usd_per_month() == pytest.approx(usd, rel=1e-9)
    assert usd_of(plan, assigned, deferred_may_stop=True) < 0.995 * usd
    assert {use.name for use in market_uses(plan, assigned)} >= {"on_demand"}


def test_steps_lead_from_the_program_to_the_replay():
    plan = plan_of(busy_by_day(), market(0.9, 1.4), within_s=6 * HOUR)
    columns = plan.program.columns
    assigned = assigned_jobs(columns, plan.whole_nodes.share)
    run = replay_plan(columns, assigned, plan.whole_nodes.committed, RentingTerms(release_s=600.0))
    steps = cost_steps(plan, assigned, run)
    assert steps[0].usd_per_month == pytest.approx(plan.exact.usd_per_h * MONTH_H)
    assert steps[-1].usd_per_month == pytest.approx(run.usd_per_month())
    for before, step in pairwise(steps):
        change = step.usd_per_month - before.usd_per_month
        assert step.change_usd_per_month == pytest.approx(change)
    changes = {step.name: step.change_usd_per_month for step in steps}
    assert changes["deferred_jobs"] > 0 and changes["idle_leases"] > 0
    assert abs(changes["waits"]) < 0.2 * changes["idle_leases"]
    # what rented GPUs hold, plus their idle time, is what is billed
    (of_type,) = run.types
    assert of_type.idle_usd_per_h(3 * DAY) < of_type.usd_per_h(0.0, 3 * DAY)["on_demand"]
    at_once = replay_plan(columns, assigned, plan.whole_nodes.committed, AT_ONCE)
    assert at_once.types[0].idle_usd_per_h(columns.bins.window_s) == pytest.approx(0, abs=1e-6)
    assert [step.name for step in cost_steps(plan, assigned, None)] == [
        "program", "whole_nodes", "single_jobs", "deferred_jobs",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("defer", "seed"), [(LATER, 1), ("num_gpus > 0", 2)])
def test_a_saving_lies_in_its_interval_with_deferred_jobs(defer, seed):
    """Blocks are shorter than the jobs may wait, so a resample defers far less than the plan."""
    jobs = busy_by_day(days=3, seed=seed, defer=defer)
    plan = plan_of(jobs, market(0.9, 1.9), within_s=8 * HOUR)
    recorded = bought_with(plan.program, {COMMITMENT})
    usd, recorded_usd = (
        usd_of(of, assigned_jobs(of.program.columns, of.whole_nodes.share))
        for of in (plan, recorded)
    )
    dollars = PlanDollars(usd, recorded_usd)
    options = {"seed": 0, "recorded": recorded, "resamples": 10}
    intervals = plan_intervals(plan, dollars=dollars, **options)
    assert intervals.block_s < 8 * HOUR
    saving = intervals.saving_share
    assert saving.low <= 1 - usd / recorded_usd <= saving.high
    assert intervals.usd_per_month.low <= usd <= intervals.usd_per_month.high
    plain = plan_intervals(plan, **options)
    assert plain.saving_share.high < 1 - usd / recorded_usd  # of the program in blocks


def test_the_answer_says_why_the_replay_costs_more(gpuplan, tmp_path):
    rng = np.random.default_rng(4)
    submit_s = np.sort(rng.integers(0, 24 * HOUR, 250)).astype(float)
    run_s = rng.exponential(HOUR, 250).round() + 1
    label = np.where(rng.random(250) < 0.4, "later", "now").tolist()
    gpus = rng.choice([1.0, 8.0], 250).tolist()
    trace = write_trace(tmp_path / "t.parquet", submit_s, run_s, gpus, job_class=label)
    words = ("plan", trace, "--commit", "0.9", "--on-demand", "1.9", "--defer", f"{LATER}:4h")
    code, out, _ = gpuplan(*words)
    said = " ".join(out.split())
    assert code == 0 and "% more than the program: " in said
    assert "% because deferred jobs cannot stop once started, as the program lets them" in said
    assert "From the program to the replay" not in out
    _, out, _ = gpuplan(*words, "--output-format", "json")
    results = json.loads(out)["results"]
    steps = {step["name"]: step["usd_per_month"] for step in results["cost_steps"]}
    assert steps["program"] == pytest.approx(results["program_usd_per_month"])
    assert steps["deferred_jobs"] == pytest.approx(results["usd_per_month"])
    assert steps["waits"] == pytest.approx(results["replay"]["usd_per_month"])
    at_once = ("--release-delay", "0", "--provision-delay", "0", "--full")
    _, out, _ = gpuplan("plan", trace, "--commit", "0.9", "--on-demand", "1.9", *at_once)
    assert "than the program" not in out and "From the program to the replay" in out
