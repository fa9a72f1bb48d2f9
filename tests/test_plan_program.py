"""The program of a plan: worked by hand, special cases with an answer of their own, and laws."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_plan import HOUR, jobs_from, market, plan_of, program_of, share_of, table_speedup
from support_traces import frame, in_memory

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import workload_of
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.money.commitment import CommitmentPlan
from gpuplan.planner.money.commitment_texts import TermOffer
from gpuplan.planner.money.gpus_in_use import gpus_in_use
from gpuplan.planner.plan.levers import with_levers
from gpuplan.planner.plan.optimum import optimum
from gpuplan.planner.plan.partition import around, first_groups, groups_in_a_row, single_bins, turns
from gpuplan.planner.plan.program import PlanLimits, cost_of, plan_program
from gpuplan.planner.plan.purchase import best, gap_share
from gpuplan.planner.plan.routes import RouteSettings
from gpuplan.planner.plan.uncertainty import block_weights, blocks_of, reweighted
from gpuplan.planner.plan.warm_start import ProgramStart
from gpuplan.planner.sweep.ski_rental import ski_rental
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.plan.deferral import run_deferred
from gpuplan.simkit.workload import Workload

PRICES = market(0.9, 1.29)
ALL = market(0.9, 1.29, spot_usd=0.5, serverless_usd=1.6)


def steps():
    # GPUs in use by hour: 3, 2, 2, 4.
    return jobs_from([0, 0, 3 * HOUR], [4 * HOUR, HOUR, HOUR], [2, 1, 2])


def test_a_commitment_worked_out_by_hand():
    # A committed GPU at 0.9 of 1.29 must be busy 70% of the time: the second is, the third half.
    plan = plan_of(steps(), PRICES)
    assert plan.exact.committed.tolist() == pytest.approx([2.0])
    assert plan.exact.usd_per_h == pytest.approx(2 * 0.9 + 1.29 * (1 + 2) / 4)
    assert plan.exact.price.mean() == pytest.approx(0.9)
    by_hour = plan.exact.price[0].reshape(4, 60)
    assert by_hour[[0, 3]].tolist() == pytest.approx(np.full((2, 60), 1.29))
    owned = plan_of(steps(), replace(PRICES, owned=1))
    assert owned.exact.committed.tolist() == pytest.approx([1.0])
    assert owned.exact.usd_per_h == pytest.approx(0.9 + 1.29 * 3 / 4)


def test_without_one_of_the_prices_the_other_pays_for_all():
    rented = plan_of(steps(), market(on_demand=2.0))
    assert (rented.exact.committed[0], rented.exact.usd_per_h) == (0.0, pytest.approx(2 * 11 / 4))
    bought = plan_of(steps(), market(commit=1.0))
    assert bought.exact.committed.tolist() == pytest.approx([4.0])
    assert bought.exact.usd_per_h == pytest.approx(4.0)
    assert plan_of(steps(), market(commit=1.0, owned=5)).exact.usd_per_h == 0.0


def test_of_two_terms_the_cheaper_is_bought():
    both = replace(PRICES, commit_usd={"1y": 0.9, "3y": 0.6})
    assert both.term == "3y"
    assert plan_of(steps(), both).exact.usd_per_h == pytest.approx(
        plan_of(steps(), market(0.6, 1.29)).exact.usd_per_h
    )


def test_commitments_are_whole_nodes_up_or_down_or_at_most_the_cap():
    # 11 GPUs all the time, 40 for a tenth of it: 11 GPUs are 2 nodes or 1 of 8.
    jobs = jobs_from([0, 0], [36000, 3600], [11, 29])
    plan = plan_of(jobs, replace(PRICES, node=8))
    up, down = 16 * 0.9 + 24 * 0.129, 8 * 0.9 + 1.29 * 3 + 29 * 0.129
    assert plan.exact.committed.tolist() == pytest.approx([11.0])
    assert plan.whole_nodes.usd_per_h == pytest.approx(min(up, down)) == pytest.approx(down)
    assert plan.whole_nodes.committed.tolist() == [8.0]
    assert gap_share(plan) == pytest.approx(down / (11 * 0.9 + 29 * 0.129) - 1)
    cheap = plan_of(jobs, market(0.3, 1.29, node=8))
    assert cheap.whole_nodes.committed.tolist() == [16.0]
    capped = plan_of(jobs, market(0.3, 1.29, node=8, cap=20, owned=6))
    assert capped.exact.committed.tolist() == pytest.approx([5.0])
    assert capped.whole_nodes.committed.tolist() == [8.0]
    tight = plan_of(jobs, market(0.3, 1.29, cap=9))
    assert tight.whole_nodes.committed.tolist() == [9.0]


def test_types_are_bought_apart():
    jobs = jobs_from([0, 0, 0], [4 * HOUR, HOUR, 4 * HOUR], [2, 4, 3], gpu_type=["A", "A", "B"])
    plan = plan_of(jobs, {"A": market(1.0, 2.0), "B": market(on_demand=5.0, owned=1)})
    assert plan.exact.committed.tolist() == pytest.approx([2.0, 0.0])
    assert plan.exact.usd_per_h == pytest.approx(2 + 2 * 4 / 4 + 5 * 2)


def test_a_class_may_be_at_most_so_much_slower():
    # 4 GPUs for an hour, or 2 for an hour and a half: 3 GPU-hours in place of 4.
    jobs = jobs_from([0, 0], [HOUR, 4 * HOUR], [4, 1], job_class=["a", "b"])
    options = {
        "speedup": table_speedup(a=[(2, 2.0), (4, 3.0)]),
        "settings": RouteSettings(rescale_s=0.0),
    }
    plan = plan_of(jobs, market(on_demand=1.0), limits=PlanLimits(slower=1.25), **options)
    shares = share_of(plan.program.columns, plan.exact.share)
    assert shares == pytest.approx({"base": 0.5, "width 0.5": 0.5})
    assert plan.exact.usd_per_h == pytest.approx((4 + 3) / 2 / 4 + 1)
    loose = plan_of(jobs, market(on_demand=1.0), **options)
    assert share_of(loose.program.columns, loose.exact.share) == {"width 0.5": 1.0}


def test_spot_takes_at_most_its_share():
    jobs = jobs_from([0, 0], [HOUR, 3 * HOUR], [4, 4], spot="duration_s < 7200")
    spot = market(on_demand=2.0, spot_usd=0.5)
    plan = plan_of(jobs, spot, limits=PlanLimits(spot_max=0.1))
    on_spot = share_of(plan.program.columns, plan.exact.share)["spot"]
    # The two jobs are one class; the first, a quarter of its GPU time, is all that fits spot.
    assert on_spot * 4 == pytest.approx(0.1 * 16)
    free = plan_of(jobs, spot)
    assert share_of(free.program.columns, free.exact.share) == {"spot": 1.0}


def test_a_mean_time_is_met_and_its_price_is_the_dual():
    jobs = jobs_from([0, 0], [HOUR, 4 * HOUR], [2, 1])
    speedup = table_speedup(all=[(1, 1.0), (2, 1.6), (4, 2.4)])
    options = {"speedup": speedup, "settings": RouteSettings(rescale_s=0.0)}

    def at(target_s):
        return plan_of(
            jobs, market(on_demand=1.0), limits=PlanLimits(mean_time_s=target_s), **options
        )

    some, less = at(8000.0), at(7900.0)
    assert some.exact.mean_time_s == pytest.approx(8000)
    assert less.exact.usd_per_h - some.exact.usd_per_h == pytest.approx(
        100 * some.exact.usd_per_h_per_s
    )


def test_a_budget_buys_the_least_mean_time():
    jobs = jobs_from([0, 0], [HOUR, 4 * HOUR], [2, 1])
    speedup = table_speedup(all=[(1, 1.0), (2, 1.6), (4, 2.4)])
    options = {"speedup": speedup, "settings": RouteSettings(rescale_s=0.0)}
    cheapest = plan_of(jobs, market(0.8, 1.0), **options).exact
    budget = cheapest.usd_per_h * 1.1
    bought = plan_of(jobs, market(0.8, 1.0), limits=PlanLimits(usd_per_h=budget), **options)
    assert bought.exact.usd_per_h == pytest.approx(budget, rel=1e-6)
    assert bought.exact.mean_time_s < cheapest.mean_time_s
    back = PlanLimits(mean_time_s=bought.exact.mean_time_s)
    again = plan_of(jobs, market(0.8, 1.0), limits=back, **options)
    assert again.exact.usd_per_h == pytest.approx(budget, rel=1e-6)
    rich = plan_of(jobs, market(0.8, 1.0), limits=PlanLimits(usd_per_h=1e3), **options)
    assert rich.exact.usd_per_h < 1e2  # dollars that buy no time are not spent


def test_deferred_work_fills_what_is_idle_and_runs_when_it_is_due():
    # 2 GPUs busy in the hours 1 and 2 of 5; 2 more jobs of 2 GPUs may start up to 3 h late.
    jobs = jobs_from(
        [0, 0, 0, 0], [2 * HOUR, HOUR, HOUR, 5 * HOUR], [2, 2, 2, 1],
        job_class=["a", "later", "later", "b"], defer="job_class = 'later'",
    )  # fmt: skip
    plan = plan_of(jobs, market(1.0, 2.5), within_s=3 * HOUR)
    assert plan.exact.committed.tolist() == pytest.approx([3.0])
    assert plan.exact.usd_per_h == pytest.approx(3.0)
    by_hour = plan.exact.deferred[0].reshape(5, 60).mean(axis=1)
    assert by_hour.tolist() == pytest.approx([0, 0, 2, 2, 0], abs=1e-9)
    at_once = plan_of(jobs, market(1.0, 2.5), within_s=0.0)
    assert at_once.exact.usd_per_h > 3.0


def test_deferred_work_uses_idle_gpus_first():
    ran = run_deferred(
        np.array([4.0, 4, 6, 6]), np.array([0.0, 1, 1, 6]), np.array([1.0, -2, 3, 0])
    )
    assert ran.tolist() == [1.0, 0.0, 3.0, 2.0]


def test_groups_split_only_where_they_have_both_sides():
    groups = first_groups(np.arange(16.0))
    assert groups.count == 8 and np.bincount(groups.group).tolist() == [2] * 8
    above = np.arange(16) >= 5
    finer = groups.split(above, ~above)
    assert finer.count == 9 and finer.group[4] != finer.group[5]
    assert finer.split(above, ~above) is finer
    halves = np.full(16, 1 / 16)
    np.testing.assert_allclose(
        groups.means(np.arange(16.0)[None], halves)[0], np.arange(8) * 2 + 0.5
    )


job_lists = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 50),
        st.sampled_from([1, 2, 4, 8, 16]),
        st.sampled_from("ab"),
        st.sampled_from(["A", "B"]),
    ),
    min_size=2,
    max_size=12,
)
laws = settings(max_examples=25, deadline=None)


def drawn_program(drawn, defer=None, **options):
    submit, run, gpus, label, types = zip(*sorted(drawn), strict=True)
    jobs = jobs_from(
        [60.0 * s for s in submit], [97.0 * r for r in run], gpus,
        job_class=label, gpu_type=types, spot="num_gpus <= 8", defer=defer,
    )  # fmt: skip
    speedup = table_speedup(a=[(1, 1.0), (2, 1.7), (4, 2.9), (8, 4.4)], b=[(4, 4.0), (8, 7.0)])
    limits = PlanLimits(slower=1.2, spot_max=0.4)
    return program_of(jobs, ALL, speedup=speedup, limits=limits, **options)


@given(job_lists)
@laws
def test_groups_of_bins_are_exact(drawn):
    program = drawn_program(drawn)
    grouped = optimum(program)
    bins = program.columns.bins.count
    each = optimum(program, ProgramStart((single_bins(bins),) * len(program.columns.types)))
    assert grouped.usd_per_h == pytest.approx(each.usd_per_h, rel=2e-9)
    assert cost_of(program, grouped) == pytest.approx(grouped.usd_per_h)


@pytest.mark.slow
@given(
    job_lists, st.sampled_from([None, "job_class = 'b'"]), st.lists(st.integers(0, 19), min_size=2)
)
@laws
def test_where_a_program_begins_never_changes_its_optimum(drawn, defer, draws):
    """Begun at the basis of other limits, other weights, more GPUs, another lever."""
    drawn = [*drawn, (5, 7, 1, "b", "A")]
    program = drawn_program(drawn, defer=defer, within_s=900.0)
    starts = [optimum(program).start]
    loose = replace(program, limits=PlanLimits(slower=2.0))
    starts.append(optimum(loose, starts[0]).start)
    starts.append(
        optimum(program, starts[0], committed=np.full(len(program.columns.types), 3.0)).start
    )
    block = blocks_of(program.columns.bins)
    weights = block_weights(block, np.array(draws) % (block.max() + 1))
    drawn_start = optimum(reweighted(program, weights, block), starts[0]).start
    others = (program, loose, with_levers(program, {"commitment", "widths"}))
    fresh = [optimum(other).usd_per_h for other in others]
    for start in (*starts, drawn_start):
        assert start.has_basis
        for other, usd_per_h in zip(others, fresh, strict=True):
            begun = optimum(other, start)
            assert begun.usd_per_h == pytest.approx(usd_per_h, rel=2e-7, abs=1e-9)


@given(
    job_lists, st.sampled_from([0.0, 40.0, 900.0, 5000.0]), st.lists(st.integers(0, 19), min_size=2)
)
@laws
def test_groups_of_bins_are_exact_with_deferred_work(drawn, within_s, draws):
    drawn = [*drawn, (5, 7, 1, "b", "A")]
    program = drawn_program(drawn, defer="job_class = 'b'", within_s=within_s)
    columns = program.columns
    block = blocks_of(columns.bins)
    draws = np.array(draws) % (block.max() + 1)
    for weighted in (program, reweighted(program, block_weights(block, draws), block)):
        grouped = optimum(weighted)
        each = optimum(
            weighted, ProgramStart((single_bins(columns.bins.count),) * len(columns.types))
        )
        assert grouped.usd_per_h == pytest.approx(each.usd_per_h, rel=2e-7, abs=1e-9)
        assert cost_of(weighted, grouped) == pytest.approx(grouped.usd_per_h)


def test_groups_in_a_row_are_cut_where_bins_change_sides():
    row = groups_in_a_row(8, 2)
    assert row.last.tolist() == [3, 7] and row.is_in_a_row
    side = np.array([1, 0, -1, -1, 1, 1, 0, 1])
    begins = turns(side > 0, side < 0, row)
    assert begins.nonzero()[0].tolist() == [2]  # at 4 a group begins anyway
    assert row.cut(begins).group.tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert row.cut(np.zeros(8, bool)) is row
    assert around(begins, 0).nonzero()[0].tolist() == [2]
    assert around(begins, 1).nonzero()[0].tolist() == [1, 2, 3]
    assert around(begins, 15).all() and around(begins, 15).size == 8


@given(job_lists)
@laws
def test_dominated_routes_never_change_the_optimum(drawn):
    program = drawn_program(drawn)
    kept = drawn_program(drawn, keep_dominated=True)
    assert program.used.size <= kept.used.size
    assert optimum(program).usd_per_h == pytest.approx(optimum(kept).usd_per_h, rel=2e-9)


@given(job_lists)
@laws
def test_a_lever_never_costs_and_the_price_averages_to_the_commitment(drawn):
    program = drawn_program(drawn)
    answer = optimum(program)
    alone = program_of(program.columns.jobs, PRICES)
    assert answer.usd_per_h <= optimum(alone).usd_per_h * (1 + 1e-9)
    for number, committed in enumerate(answer.committed):
        if committed > 1e-6:
            assert answer.price[number].mean() == pytest.approx(0.9)
    total = np.bincount(program.columns.class_of, answer.share)
    assert total == pytest.approx(np.ones(total.size))


@given(job_lists, st.sampled_from([0.3, 0.9, 1.2]))
@laws
def test_commitment_alone_is_the_quantile_of_size(drawn, commit):
    # Times are whole minutes, as bins are, so that the mean of a bin is what is held in it.
    submit, run, gpus = (np.array(column) for column in list(zip(*drawn, strict=True))[:3])
    order = np.argsort(submit, kind="stable")
    submit, run, gpus = submit[order] - submit.min(), run[order], gpus[order]
    jobs = jobs_from(submit * 60, run * 60, gpus)
    plan = plan_of(jobs, market(commit, 1.29))
    end = (submit + run).max()
    minute = 60_000_000
    held = gpus_in_use(submit * minute, (submit + run) * minute, gpus, int(end) * minute)
    term = TermOffer(Fraction(str(commit)))
    size = CommitmentPlan(held, "", (term,), Fraction("1.29"))
    committed = size.optimum(term)
    assert plan.whole_nodes.usd_per_h * 730.5 == pytest.approx(
        float(size.usd_per_month(committed, term))
    )
    assert plan.exact.usd_per_h == pytest.approx(plan.whole_nodes.usd_per_h)


@given(
    st.lists(st.tuples(st.floats(1, 4000), st.sampled_from([1.0])), min_size=1, max_size=30),
    st.sampled_from([1.4, 2.1, 4.0]),
)
@laws
def test_containers_and_one_on_demand_price_are_ski_rental(drawn, serverless):
    run_s, gpus = (np.array(column) for column in zip(*drawn, strict=True))
    run_s = np.round(run_s, 3)
    waits = [None] * (run_s.size - 1) + [1e4]  # nothing is cut at the end of the window
    jobs = jobs_from(np.arange(run_s.size), run_s, gpus, queue_s=waits)
    plan = plan_of(jobs, market(on_demand=1.29, serverless_usd=serverless))
    work = Workload.from_seconds(np.arange(run_s.size), run_s, gpus, run_s)
    terms = Allpass(serverless_price=serverless, checkpoint_s=42.0, restore_s=42.0)
    costs = ski_rental(work, terms, serverful_usd=1.29).cost_usd(np.array([60.0, 300, 1800, 1e9]))
    least = min(costs.min(), run_s.sum() / 3600 * 1.29)
    hours = plan.program.columns.bins.window_s / 3600
    assert plan.exact.usd_per_h * hours == pytest.approx(least)


@pytest.mark.parametrize("seed", range(4))
def test_widths_of_jobs_of_one_gpu_are_those_of_pareto(seed):
    rng = np.random.default_rng(seed)
    count = 60
    submit = np.sort(rng.uniform(0, 2e5, count)).round()
    submit[0] = 0
    run, label = rng.exponential(4000, count).round() + 1, rng.choice(["a", "b", "c"], count)
    curves = {
        name: [(w, w ** rng.uniform(0.4, 0.9)) for w in (1, 2, 4, 8)] for name in ("a", "b", "c")
    }
    speedup = table_speedup(**curves)
    waits = [None] * (count - 1) + [3e5]
    columns = {"job_class": label, "queue_s": waits}
    jobs = jobs_from(submit, run, np.ones(count), **columns)
    trace = in_memory(frame(submit, duration_s=run, num_gpus=np.ones(count), **columns))
    choices = ClassOptions(rescale_s=0.0, widths=(1, 2, 4, 8), horizon_s=jobs.window_s)
    frontier = solve_frontier(workload_of(trace, speedup, choices).classes)
    for budget in frontier.budgets[0] * np.array([1.1, 1.5, 2.0]):
        fastest = frontier.at_budget(budget)
        plan = plan_of(
            jobs,
            market(on_demand=2.0),
            speedup=speedup,
            settings=RouteSettings(rescale_s=0.0),
            limits=PlanLimits(mean_time_s=fastest.mean_jct_s),
        )
        assert plan.exact.usd_per_h == pytest.approx(2.0 * fastest.used, rel=1e-7)


def test_limits_that_no_plan_keeps_are_refused_with_what_can_be_kept():
    jobs = jobs_from([0, 0], [HOUR, 4 * HOUR], [2, 1])
    with pytest.raises(InfeasibleError, match=r"--slower 0.9x: the jobs of all, .* 1 times"):
        plan_of(jobs, PRICES, limits=PlanLimits(slower=0.9))
    with pytest.raises(InfeasibleError, match=r"1 h cannot be met: .* it is 2.5 h"):
        plan_of(jobs, PRICES, limits=PlanLimits(mean_time_s=HOUR))
    least = plan_of(jobs, PRICES).exact.usd_per_h * 730.5
    with pytest.raises(InfeasibleError, match=f"the cheapest plan costs \\${least:,.0f} a month"):
        plan_of(jobs, PRICES, limits=PlanLimits(usd_per_h=1.0))
    with pytest.raises(InfeasibleError, match=r"--cluster 2: .* peak of 3.0 GPUs"):
        plan_of(jobs, market(commit=1.0, cap=2))
    assert plan_of(jobs, market(commit=1.0, cap=3)).whole_nodes.committed.tolist() == [3.0]


def test_a_budget_that_only_fractions_of_nodes_meet_is_refused():
    jobs = jobs_from([0], [HOUR], [3])
    nodes = market(commit=1.0, node=8)
    with pytest.raises(InfeasibleError, match=r"costs \$5,844 a month"):  # 8 GPUs, not 3
        plan_of(jobs, nodes, limits=PlanLimits(usd_per_h=4.0))


def test_weights_of_bins_count_in_every_mean():
    columns = program_of(steps(), PRICES).columns
    weights = np.repeat([0.0, 0.5, 0.5, 0.0], 60) / 60  # only the hours with 2 GPUs
    answer = best(plan_program(columns, PlanLimits(), weights=weights))
    assert answer.committed.tolist() == pytest.approx([2.0])
    assert answer.usd_per_h == pytest.approx(1.8)


def test_a_budget_that_buys_no_time_buys_the_cheaper_number_of_nodes():
    # 9 GPUs all the time: 8 and 1 on demand are $9.29 an hour, 16 are $16; none makes a job faster.
    jobs = jobs_from([0] * 9, [HOUR] * 9, [1] * 9)
    prices = market(1.0, 1.29, node=8)
    plan = plan_of(jobs, prices, limits=PlanLimits(usd_per_h=20.0))
    assert plan.whole_nodes.committed.tolist() == [8.0]
    assert plan.whole_nodes.usd_per_h == pytest.approx(9.29)
