"""Plans tried on what they have not seen; caps, waits and losses of spot GPUs, all replayed."""

import json

import numpy as np
import pytest
from support_plan import DAY, HOUR, jobs_from, market, plan_of, program_of, table_speedup, texts_of
from support_traces import write_trace

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.confirmation import failures, prove, slower_classes
from gpuplan.planner.plan.decision import decide
from gpuplan.planner.plan.holdout import hold_out, later_part
from gpuplan.planner.plan.market_use import TimePart, usd_of, weights_in
from gpuplan.planner.plan.program import PlanLimits
from gpuplan.planner.plan.replay import RentingTerms, replay_plan
from gpuplan.planner.plan.targets import (
    TimeTarget,
    parse_target,
    time_above,
    time_text,
    write_target,
)

pytestmark = [pytest.mark.kernels, pytest.mark.usefixtures("few_resamples")]
AT_ONCE = RentingTerms(provision_s=0.0, release_s=0.0, billing_s=1e-6)
BOTH = market(0.9, 1.29)
NOW = TimeTarget("mean_jct", None)


def steps(days, **columns):
    """GPUs in use by hour of a day: 3, 2, 2, 4, then none; classes a and b."""
    submit = [DAY * day + s for day in range(days) for s in (0, 0, 3 * HOUR)]
    columns.setdefault("job_class", ["a", "b", "b"] * days)
    return jobs_from(submit, [4 * HOUR, HOUR, HOUR] * days, [2, 1, 2] * days, **columns)


def held_out(jobs, markets, limits=None, target=None, share=0.5, terms=AT_ONCE, **options):
    program = program_of(jobs, markets, limits=limits, **options)
    return hold_out(program.columns, program.limits, target, terms, share)


def test_a_steady_log_holds_by_hand():
    """Days 11 to 20 as days 1 to 10: no commitment, 11 GPU-hours a day at $1.29."""
    holdout = held_out(steps(20), BOTH, share=0.5)
    window_s = 19 * DAY + 4 * HOUR
    later_s = window_s / 2  # the middle of day 10
    usd = 1.29 * 11 * 10 / (later_s / HOUR) * 730.5
    assert holdout.from_s == later_s
    assert (holdout.fitted_jobs, holdout.jobs, holdout.new_class_jobs) == (30, 30, 0)
    assert holdout.plan.committed_gpus == 0
    for cost in (holdout.plan, holdout.today, holdout.hindsight):
        assert cost.usd_per_month == pytest.approx(usd)
        assert cost.mean_time_s == 2 * HOUR
    assert holdout.plan.p95_wait_s == 0 and holdout.today.p95_wait_s is None
    assert (holdout.lever, holdout.one_lever) == ("commitment", holdout.plan)
    assert failures(holdout, None) == []


def test_a_job_that_runs_on_alone_leaves_the_last_submissions_to_try_a_plan_on():
    """By hand: 20 jobs of a day, and one of them of 80 days more; the tail holds 1 GPU."""
    jobs = jobs_from(np.arange(20) * DAY, [*[DAY] * 19, 80 * DAY], [1] * 20)
    holdout = held_out(jobs, market(None, 1.0), share=0.3)
    assert (holdout.from_s, holdout.to_s) == pytest.approx((0.7 * 19 * DAY, 19 * DAY))
    assert (holdout.fitted_jobs, holdout.jobs) == (14, 6)
    for cost in (holdout.plan, holdout.today, holdout.hindsight):
        assert cost.usd_per_month == pytest.approx(730.5)
    assert holdout.plan.program_usd_per_month == pytest.approx(730.5)
    assert holdout.plan.mean_time_s == (5 * DAY + 80 * DAY) / 6
    assert failures(holdout, None) == []
    steady = held_out(steps(20), BOTH, share=0.3)  # ends with the log
    assert steady.to_s == 19 * DAY + 4 * HOUR


def test_jobs_of_the_first_part_fill_the_pool_of_the_second():
    """A job of 30 h holds a GPU across the cut; what it holds after it counts there."""
    jobs = jobs_from([0, 0, 30 * HOUR], [40 * HOUR, HOUR, 10 * HOUR], [1, 2, 1])
    holdout = held_out(jobs, market(None, 1.0), share=0.5)
    assert holdout.from_s == 20 * HOUR
    assert holdout.plan.usd_per_month == pytest.approx((20 + 10) / 20 * 730.5)
    assert holdout.plan.mean_time_s == 10 * HOUR  # of the last job alone


def test_a_class_that_was_not_seen_runs_as_recorded():
    submit = [0, DAY, 2 * DAY, 3 * DAY]
    jobs = jobs_from(submit, [DAY] * 4, [1] * 4, by="job_class", job_class=["a", "a", "a", "c"])
    speedup = table_speedup(a=[(1, 1.0), (2, 1.9)], c=[(1, 1.0), (2, 1.9)])
    limits = PlanLimits(mean_time_s=1.0)
    target = TimeTarget("mean_jct", 0.6 * DAY)
    holdout = held_out(
        jobs, market(None, 1.0), limits=limits, target=target, share=0.5, speedup=speedup
    )
    wide_s = DAY / 1.9 + 60
    assert holdout.new_class_jobs == 1
    assert holdout.value_s == pytest.approx((wide_s + DAY) / 2)
    (line,) = failures(holdout, target)
    assert "mean_jct was" in line and "over 14.4 h" in line


def test_shares_go_on_where_they_were():
    """2 of 3 jobs on other widths in the first part: so they are in the second."""
    jobs = jobs_from(np.arange(60) * 5 * HOUR, [HOUR] * 60, [1] * 60)
    speedup = table_speedup(all=[(1, 1.0), (2, 1.9)])
    wide_s = HOUR / 1.9 + 60
    target = TimeTarget("mean_jct", (HOUR + wide_s) / 2)
    holdout = held_out(jobs, market(None, 1.0), target=target, share=0.5, speedup=speedup)
    assert holdout.value_s == pytest.approx(target.limit_s, rel=1e-6)
    assert failures(holdout, target) == []


def test_the_later_part_has_its_own_weights_and_times():
    program = program_of(steps(20), BOTH)
    columns = program.columns
    window_s = columns.bins.window_s
    weights = weights_in(columns, TimePart(0.7 * window_s, window_s))
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).sum() == pytest.approx(0.3 * columns.bins.count, abs=1)
    later = later_part(columns, DAY * 15)
    assert [planned.jobs.size for planned in later.classes] == [5, 5, 5]
    assert later.now_s == 2 * HOUR


def test_without_delays_the_replay_costs_what_the_assigned_jobs_do():
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 20 * 86400, 500)).astype(float)
    jobs = jobs_from(submit, rng.exponential(9000, 500).round(), rng.choice([1, 2, 8], 500))
    bought = plan_of(
        jobs, market(0.9, 1.29, serverless_usd=1.35), speedup=table_speedup(all=[(1, 1), (16, 12)])
    )
    columns = bought.program.columns
    assigned = assigned_jobs(columns, bought.whole_nodes.share)
    run = replay_plan(columns, assigned, bought.whole_nodes.committed, AT_ONCE)
    assert bought.whole_nodes.committed.sum() > 0
    assert run.usd_per_month() == pytest.approx(usd_of(bought, assigned), rel=1e-6)
    assert run.wait_s.max() == 0
    late = replay_plan(columns, assigned, bought.whole_nodes.committed, RentingTerms())
    assert late.wait_s.max() == 90 and late.usd_per_month() > run.usd_per_month()


def queueing(gpus=(1, 2, 4), size=300):
    rng = np.random.default_rng(5)
    submit = np.sort(rng.integers(0, 10 * 86400, size)).astype(float)
    run_s = rng.exponential(20_000, size).round() + 1
    return jobs_from(submit, run_s, rng.choice(gpus, size))


def test_a_target_of_waits_takes_the_cheapest_cap_that_meets_it():
    program = program_of(queueing(gpus=[1]), BOTH)
    free = decide(program, AT_ONCE)
    assert free.tried == () and free.run.wait_s.max() == 0
    target = TimeTarget("p95_wait", 2 * HOUR)
    decision = decide(program, AT_ONCE, target)
    assert 4 <= len(decision.tried) <= 6
    waits = [row.p95_wait_s for row in decision.tried]
    assert waits[0] > 2 * HOUR and waits[-1] == 0
    met = [row for row in decision.tried if row.p95_wait_s <= 2 * HOUR]
    (chosen,) = [row for row in decision.tried if row.is_chosen]
    assert chosen.usd_per_month == min(row.usd_per_month for row in met)
    assert chosen.usd_per_month < free.run.usd_per_month()
    assert decision.run.measured_s(target) == chosen.p95_wait_s > 0
    late = RentingTerms(provision_s=600.0)
    quick = TimeTarget("p99_wait", 60.0)
    assert decide(program, late, quick).run.measured_s(quick) <= 60  # more are committed to
    rented = program_of(queueing(gpus=[1]), market(None, 1.29))
    with pytest.raises(InfeasibleError, match=r"<= 1 min: the fastest, .* has 10 min in"):
        decide(rented, late, quick)


def test_a_mean_time_counts_the_waits_of_the_replay():
    speedup = table_speedup(all=[(1, 1.0), (2, 1.9), (4, 3.4), (8, 6.0)])
    jobs, late = queueing(), RentingTerms(provision_s=3600.0, release_s=0.0)
    limit_s = 18_000.0
    limits = PlanLimits(mean_time_s=limit_s)
    program = program_of(jobs, BOTH, speedup=speedup, limits=limits)
    decision = decide(program, late, TimeTarget("mean_jct", limit_s))
    wait_s = decision.bought.program.limits.wait_s
    assert wait_s > 0.02 * limit_s
    assert decision.run.measured_s(TimeTarget("mean_wait", None)) == pytest.approx(
        wait_s, abs=0.02 * limit_s
    )
    assert decision.run.time_s.mean() == pytest.approx(limit_s, rel=0.02)
    short = PlanLimits(mean_time_s=9_000.0)
    met = decide(program_of(jobs, BOTH, speedup=speedup, limits=short), late, NOW)
    assert met.run.time_s.mean() <= 9_000.0
    assert met.bought.whole_nodes.committed.sum() > decision.bought.whole_nodes.committed.sum()


def test_a_class_that_waits_push_over_its_bound_is_named():
    jobs = jobs_from([0, 7200, 14400], [60, 7200, 7200], [1, 1, 1], job_class=["a", "b", "b"])
    program = program_of(jobs, market(None, 1.0), limits=PlanLimits(slower=1.1))
    decision = decide(program, RentingTerms(provision_s=90.0))
    assert slower_classes(decision) == ("a, 1 GPU",)
    assert slower_classes(decide(program, AT_ONCE)) == ()


def on_spot(jobs):
    markets = market(None, 1.29, spot_usd=0.2)
    decision = decide(program_of(jobs, markets), AT_ONCE)
    return prove(decision.bought.program, None, AT_ONCE, 0.0), decision


def test_losses_of_spot_gpus_are_replayed():
    rng = np.random.default_rng(5)
    submit = np.sort(rng.integers(0, 10 * 86400, 300)).astype(float)
    jobs = jobs_from(submit, np.full(300, 30_000.0), [1] * 300, spot="num_gpus = 1")
    proof, decision = on_spot(jobs)
    time_s = decision.run.time_s.mean()
    half, twice, gone = proof.spot_replays
    assert half.mean_time_s < time_s < twice.mean_time_s
    assert time_s == pytest.approx(decision.run.assigned.time_s.mean(), rel=0.02)
    assert gone.mean_time_s > time_s and gone.from_s % HOUR == 0
    again, _ = on_spot(jobs)
    assert again.spot_replays == proof.spot_replays  # the same seed


def test_a_commitment_alone_that_a_gang_does_not_fit_is_not_confirmed():
    jobs = jobs_from([0, 20 * DAY], [10, DAY], [8, 1])
    proof = prove(program_of(jobs, market(0.9)), None, AT_ONCE, 0.3)
    assert proof.decision is None and "a job holds 8 GPUs" in proof.unconfirmed[0]


@pytest.mark.parametrize(
    ("seconds", "text", "above"),
    [
        (59.04, "59 s", "59.1s"),
        (60, "1 min", "1m"),
        (90, "1.5 min", "1.5m"),
        (9000, "2.5 h", "2.5h"),
        (9001, "2.5 h", "2.51h"),
        (360_000, "100 h", "100h"),
        (0, "0 s", "0s"),
    ],
)
def test_times_are_said_in_the_unit_that_fits(seconds, text, above):
    assert (time_text(seconds), time_above(seconds)) == (text, above)
    assert parse_duration(above, "--target") >= seconds


@pytest.mark.parametrize("text", ["mean_jct <= now", "mean_jct <= 10800s", "p95_wait <= 3600s"])
def test_targets_are_written_as_they_are_read(text):
    assert write_target(parse_target(text)) == text


def test_a_target_without_a_unit_is_refused():
    with pytest.raises(UsageError, match="--target p95_wait '2': a time needs a unit, such as 2h"):
        parse_target("p95_wait <= 2")


def test_the_command_says_what_held_and_what_a_short_log_does(gpuplan, tmp_path):
    def answer(days, *words, commit="0.1"):
        submit = [DAY * day + s for day in range(days) for s in (0, 0, 3 * HOUR)]
        path = write_trace(
            tmp_path / f"{days}.parquet",
            submit,
            [4 * HOUR, HOUR, HOUR] * days,
            [2.0, 1.0, 2.0] * days,
        )
        prices = ("--commit", commit, "--on-demand", "1.29")
        code, out, err = gpuplan("plan", path, *prices, *words)
        assert code == 0, err
        return " ".join(out.split()), err

    out, err = answer(20)
    assert out.startswith("Commit to 3 GPUs") and ": confirmed." in out
    assert "plan of the first part" in out and "less than two weeks" not in err
    out, _ = answer(20, commit="1.29")
    assert ": confirmed" not in out and "changes nothing, so there is no saving to confirm." in out
    out, err = answer(12)
    assert ": confirmed." in out
    assert "less than two weeks: the plan was tried on the last 3.4" in err
    out, _ = answer(20, "--holdout", "0%")
    assert out.startswith("Not confirmed (nothing was held out (--holdout)): commit to 3 GPUs")
    out, _ = answer(20, "--target", "p95_wait <= 1h")
    assert "With at most so many GPUs, replayed" in out and "this plan" in out
    out, _ = answer(20, "--target", "p95_wait <= 6h")
    assert out.startswith("Commit to 3 GPUs, with at most 3 GPUs in all, for")


def test_json_has_the_replays(gpuplan, tmp_path):
    submit = [DAY * day + s for day in range(20) for s in (0, 0, 3 * HOUR)]
    path = write_trace(tmp_path / "t.parquet", submit, [4 * HOUR, HOUR, HOUR] * 20)
    words = ("--on-demand", "1.29", "--target", "mean_jct <= 3h", "--output-format", "json")
    code, out, err = gpuplan("plan", path, *words)
    assert code == 0, err
    results = json.loads(out)["results"]
    assert results["confirmed"] is True and results["unconfirmed"] == []
    (target,) = results["targets"]
    assert (target["limit_s"], target["value_s"]) == (3 * HOUR, results["replay"]["mean_time_s"])
    assert results["holdout"]["plan"]["p95_wait_s"] == 90


def test_gates_on_a_plan_that_was_not_tried_fail(gpuplan, tmp_path):
    """Nothing held out, or one week only: that is not confirmed, for any gate and document."""
    submit = [DAY * day + s for day in range(20) for s in (0, 0, 3 * HOUR)]
    path = write_trace(tmp_path / "t.parquet", submit, [4 * HOUR, HOUR, HOUR] * 20)
    week = write_trace(tmp_path / "week.parquet", submit[:9], [4 * HOUR, HOUR, HOUR] * 3)
    prices = ("--commit", "0.1", "--on-demand", "1.29")
    assert gpuplan("plan", path, *prices, "--fail-if", "confirmed == false")[0] == 0
    for words in ((path, *prices, "--holdout", "0%"), (week, *prices)):
        for gate in ("confirmed == false", "plan.confirmed != true"):
            code, _, err = gpuplan("plan", *words, "--fail-if", gate, "--allow-unchecked")
            assert code == 1 and "gate tripped" in err and "confirmed is false" in err
        gate = ("--fail-if", "holdout.saved == false")
        code, _, err = gpuplan("plan", *words, *gate)
        assert code == 1 and "gate not checked: holdout.saved == false" in err
        assert "is not checked" in texts_of(gpuplan, *words, *gate, "--allow-unchecked")[1]
    scenario = tmp_path / "scenario.toml"
    scenario.write_text(
        f"[workload]\ntrace = '{week}'\n\n[study.plan]\ncommit = 0.1\non_demand = 1.29\n\n"
        "[gates]\nfail_if = ['plan.confirmed == false']\n"
    )
    code, _, err = gpuplan("run", scenario, "--no-cache")
    assert code == 1 and "gate tripped: plan.confirmed == false" in err
