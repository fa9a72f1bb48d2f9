"""How sure a plan is: weights of weeks by hand, intervals and regrets with known answers."""

from dataclasses import replace

import numpy as np
import pytest
from support_plan import DAY, HOUR, MONTH_H, jobs_from, market, plan_of, program_of

from gpuplan.planner.plan.assumptions import LOSSES, SPEEDUP, other_assumptions
from gpuplan.planner.plan.growth import grown, growth_steps, plan_growths
from gpuplan.planner.plan.jobs import TimeBins
from gpuplan.planner.plan.levers import COMMITMENT, bought_with, rented_usd_per_h
from gpuplan.planner.plan.optimum import optimum
from gpuplan.planner.plan.program import PlanLimits, plan_program
from gpuplan.planner.plan.uncertainty import (
    block_weights,
    blocks_of,
    plan_intervals,
    reweighted,
)
from gpuplan.planner.speedup.registry import load_speedup

WEEK = 7 * DAY
PRICES = market(0.9, 1.29)


def weekly(gpus):
    """Return jobs that hold so many GPUs for each whole week, each starting with its week."""
    return jobs_from([WEEK * week for week in range(len(gpus))], [WEEK] * len(gpus), gpus)


def test_weights_are_how_often_a_week_is_drawn():
    # 8.5 weeks in 17 bins: bin 2k and 2k + 1 have their middle in week k, the last is half a week.
    block = blocks_of(TimeBins(8.5 * WEEK, 17))
    assert block.tolist() == [*np.repeat(np.arange(8), 2), 8]
    # Weeks 0, 0, 0, 8 and 1 five times: bins weigh 3, 3, 5, 5, 0 ..., 1 of 17.
    weights = block_weights(block, np.array([0, 0, 0, 8, 1, 1, 1, 1, 1]))
    assert weights == pytest.approx([w / 17 for w in (3, 3, 5, 5, *[0] * 12, 1)])
    assert weights.sum() == pytest.approx(1.0)


def test_a_bin_is_of_the_week_of_its_middle():
    # 9 weeks in 6 bins of 1.5 weeks: middles at 0.75, 2.25, 3.75, 5.25, 6.75, 8.25 weeks.
    assert blocks_of(TimeBins(9 * WEEK, 6)).tolist() == [0, 1, 2, 3, 4, 5]
    assert blocks_of(TimeBins(9 * WEEK, 18)).tolist() == np.repeat(np.arange(9), 2).tolist()


@pytest.mark.parametrize(("bins", "sizes"), [(40, {2}), (50, {2, 3}), (7, {1})])
def test_a_short_log_is_cut_into_twenty_parts(bins, sizes):
    block = blocks_of(TimeBins(8 * WEEK - 1, bins))
    assert set(np.bincount(block).tolist()) == sizes
    assert block[-1] + 1 == min(20, bins) and (np.diff(block) >= 0).all()


def test_identical_weeks_leave_no_doubt():
    plan = plan_of(weekly([10] * 10), PRICES)
    intervals = plan_intervals(plan, seed=3, recorded=bought_with(plan.program, {COMMITMENT}))
    assert intervals.is_weeks and (intervals.blocks, intervals.failed) == (10, 0)
    assert intervals.block_s == pytest.approx(WEEK)
    (gpus,) = intervals.committed
    assert (gpus.low_gpus, gpus.high_gpus) == pytest.approx((10.0, 10.0))
    usd = intervals.usd_per_month
    assert (usd.low, usd.high) == pytest.approx((9 * MONTH_H, 9 * MONTH_H))
    saving = intervals.saving_over_on_demand_share
    assert (saving.low, saving.high) == pytest.approx((1 - 0.9 / 1.29,) * 2)
    assert (intervals.saving_share.low, intervals.saving_share.high) == pytest.approx((0.0, 0.0))


def test_intervals_of_quiet_and_busy_weeks_are_those_of_the_draws():
    # 20 GPUs in the share p of the weeks drawn, else 10: the second ten pay if p is above 0.9/1.29.
    gpus = np.array([10, 20] * 5)
    seed, count = 11, 200
    intervals = plan_intervals(plan_of(weekly(gpus), PRICES), seed=seed, resamples=count)
    draws = np.random.default_rng(seed).integers(0, 10, (count, 10))
    share = (gpus[draws] == 20).mean(axis=1)
    usd = MONTH_H * (9 + np.minimum(9, 12.9 * share))
    assert [intervals.usd_per_month.low, intervals.usd_per_month.high] == pytest.approx(
        np.percentile(usd, (5, 95))
    )
    committed = np.percentile(np.where(share > 0.9 / 1.29, 20, 10), (5, 95))
    (row,) = intervals.committed
    assert [row.low_gpus, row.high_gpus] == pytest.approx(committed)
    saving = 1 - usd / (MONTH_H * 12.9 * (1 + share))
    over = intervals.saving_over_on_demand_share
    assert [over.low, over.high] == pytest.approx(np.percentile(saving, (5, 95)))
    assert intervals.saving_share is None


def test_resamples_follow_the_seed():
    plan = plan_of(weekly([10, 20, 30, 5, 8] * 2), PRICES)
    first, again, other = (plan_intervals(plan, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.usd_per_month != other.usd_per_month


def test_a_resample_is_the_program_of_its_weights():
    spot = replace(PRICES, spot_usd=0.4)
    jobs = jobs_from(
        [HOUR * at for at in range(40)], [2 * HOUR] * 40, [1, 2] * 20, spot="num_gpus = 2"
    )
    program = program_of(jobs, spot)
    rng = np.random.default_rng(0)
    block = blocks_of(program.columns.bins)
    weights = block_weights(block, rng.integers(0, 20, 20))
    begun = optimum(program).start
    drawn = optimum(reweighted(program, weights, block), begun)
    fresh = plan_program(program.columns, program.limits, weights=weights)
    assert drawn.usd_per_h == pytest.approx(optimum(fresh).usd_per_h, rel=1e-9)
    assert drawn.usd_per_h != pytest.approx(optimum(program).usd_per_h, rel=1e-3)


def test_deferred_work_stays_in_its_block():
    jobs = jobs_from(
        [HOUR * at for at in range(40)], [HOUR] * 40, [1, 3] * 20, defer="num_gpus = 3"
    )
    program = program_of(jobs, PRICES, within_s=30 * HOUR)
    columns, block = program.columns, blocks_of(program.columns.bins)
    draws = np.random.default_rng(5).integers(0, 10, 20)  # the second half is never drawn
    weights = block_weights(block, draws)
    plan = optimum(reweighted(program, weights, block))
    ran = np.bincount(block, plan.deferred[0])
    arrived = np.bincount(block, np.diff(columns.arrived[0], prepend=0.0))
    assert ran == pytest.approx(arrived)
    free = optimum(replace(program, weights=weights))
    assert plan.usd_per_h > free.usd_per_h * 1.05  # else work would hide where nothing costs


def test_a_budget_that_some_weeks_cannot_keep_to_is_counted():
    budget = PlanLimits(usd_per_h=14.0)
    plan = plan_of(weekly([10, 20] * 5), PRICES, limits=replace(budget, usd_per_h=16.0))
    intervals = plan_intervals(plan, seed=0, resamples=60)
    assert 0 < intervals.failed < 60
    assert intervals.usd_per_month.high <= 16.0 * MONTH_H * (1 + 1e-6)


def test_growth_by_hand():
    # 10 GPUs all the time; 5 more are cheaper committed, and 2 fewer need not be paid for.
    plan = plan_of(weekly([10] * 3), PRICES)
    down, none, up = plan_growths(plan, (-0.2, 0.0, 0.5))
    assert none.regret_share == 0.0
    assert none.usd_per_month == pytest.approx(9 * MONTH_H)
    assert down.usd_per_month == pytest.approx(9 * MONTH_H)
    assert down.best_usd_per_month == pytest.approx(0.9 * 8 * MONTH_H)
    assert down.regret_share == pytest.approx(0.25)
    assert up.usd_per_month == pytest.approx((9 + 5 * 1.29) * MONTH_H)
    assert [row.gpus for row in up.best_committed] == [15]
    assert up.regret_share == pytest.approx((9 + 5 * 1.29) / 13.5 - 1)


@pytest.mark.parametrize(
    ("limits", "node"), [(PlanLimits(), 8), (PlanLimits(usd_per_h=10.0), None)]
)
def test_growth_of_nothing_has_no_regret_and_other_growth_none_below_zero(limits, node):
    rng = np.random.default_rng(2)
    submit_s, run_s = np.sort(rng.uniform(0, 20 * DAY, 200)), rng.exponential(6 * HOUR, 200)
    jobs = jobs_from(submit_s, run_s, [1, 2, 4, 8] * 50)
    markets, speedup = replace(PRICES, node=node), load_speedup("power:0.7")
    plan = plan_of(jobs, markets, limits=limits, speedup=speedup)
    rows = plan_growths(plan, growth_steps(-0.3, 0.6))
    regret = {row.growth_share: row.regret_share for row in rows}
    assert regret[0] == pytest.approx(0, abs=1e-9)
    assert min(regret.values()) >= 0 and max(regret.values()) > 0.001
    dollars = [row.usd_per_month for row in rows]
    assert dollars == sorted(dollars)


def test_growth_that_a_commitment_alone_cannot_bear_has_no_dollars():
    plan = plan_of(weekly([10] * 3), market(commit=0.9))
    none, up = plan_growths(plan, (0.0, 0.1))
    assert none.regret_share == 0.0
    assert (up.usd_per_month, up.regret_share) == (None, None)
    assert up.best_usd_per_month == pytest.approx(0.9 * 11 * MONTH_H)


def test_growth_is_more_of_every_job():
    program = program_of(
        jobs_from([0, HOUR], [HOUR, HOUR], [2, 4], defer="num_gpus = 4"), PRICES, within_s=HOUR
    )
    more = grown(program, 0.5).columns
    assert more.pool_gpus == pytest.approx(1.5 * program.columns.pool_gpus)
    assert more.arrived == pytest.approx(1.5 * program.columns.arrived)
    assert more.time_s.tolist() == program.columns.time_s.tolist()


@pytest.mark.parametrize(
    ("ends", "steps"),
    [
        ((-0.2, 0.5), (-0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.5)),
        ((0.05, 0.25), (0, 0.05, 0.1, 0.2, 0.25)),
        ((0.0, 3.0), tuple(0.3 * number for number in range(11))),
        ((0.2,), (0, 0.2)),
        ((-0.2,), (-0.2, 0)),
    ],
)
def test_growth_steps_are_round(ends, steps):
    assert growth_steps(*ends) == pytest.approx(steps)


def test_all_jobs_on_demand_by_hand():
    # 3, 2, 2, 4 GPUs by hour, one of them owned.
    jobs = jobs_from([0, 0, 3 * HOUR], [4 * HOUR, HOUR, HOUR], [2, 1, 2])
    program = program_of(jobs, replace(PRICES, owned=1))
    assert rented_usd_per_h(program, program.weights) == pytest.approx(1.29 * (2 + 1 + 1 + 3) / 4)
    none = program_of(jobs, market(commit=0.9))
    assert rented_usd_per_h(none, none.weights) is None


def test_other_laws_and_losses_keep_the_plan_and_make_it_anew():
    rng = np.random.default_rng(4)
    jobs = jobs_from(
        np.sort(rng.uniform(0, 5 * DAY, 150)),
        rng.exponential(5 * HOUR, 150),
        [1, 4, 8] * 50,
        spot="num_gpus = 4",
    )
    options = {"limits": PlanLimits(slower=1.3)}
    markets = replace(PRICES, spot_usd=0.5)
    plan = plan_of(jobs, markets, speedup=load_speedup("power:0.5..0.9"), **options)
    rows = other_assumptions(plan)
    assert [(row.name, row.value) for row in rows] == [
        (SPEEDUP, "power:0.5"),
        (SPEEDUP, "power:0.9"),
        (LOSSES, "1/24h"),
        (LOSSES, "1/6h"),
    ]
    for row in rows[:2]:  # what is made for a law is what a plan under that law alone is
        alone = plan_of(jobs, markets, speedup=load_speedup(row.value), **options)
        assert row.best_usd_per_month == pytest.approx(alone.exact.usd_per_h * MONTH_H, rel=1e-6)
    assert rows[2].mean_time_s < plan.whole_nodes.mean_time_s < rows[3].mean_time_s
    same = plan_of(jobs, markets, speedup=load_speedup("power:0.7"), **options)
    assert [row.name for row in other_assumptions(same)] == [LOSSES, LOSSES]
