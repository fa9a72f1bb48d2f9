"""The budget frontier: worked by hand, against slow oracles, and laws for every frontier."""

from dataclasses import replace

import numpy as np
import pytest
import support_boa as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.model.extreme_points import best_path, class_hull, path_totals
from gpuplan.planner.speedup.functions import concave_hull


def two_widths():
    # One job an hour of one hour's work; 1 or 4 GPUs with s(4) = 2: (cost, time) (1, 1), (2, 1/2).
    return JobClass("a", 1.0, np.array([1.0]), np.array([1.0, 4.0]), np.array([[1.0, 2.0]]))


def instances(draw):
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rescale_h = draw(st.sampled_from([0.0, 0.01, 0.3]))
    return [
        oracle.random_class(
            rng,
            f"c{i}",
            epochs=draw(st.integers(1, 4)),
            widths=draw(st.integers(1, 6)),
            rescale_h=rescale_h,
            weight=draw(st.sampled_from([1.0, 0.3, 4.0])),
        )
        for i in range(draw(st.integers(1, 3)))
    ]


workloads = st.composite(instances)()
laws = settings(max_examples=30, deadline=None)


def test_one_class_mixes_its_two_widths():
    plan = solve_frontier([two_widths()]).at_budget(1.25)
    rows = [(1.0, 0.75, True), (4.0, 0.25, False)]
    assert [(a.width, a.share, a.rounded) for a in plan.widths] == rows
    assert plan.to_frame().select("width", "share", "rounded").rows() == rows
    assert plan.mean_jct_s == pytest.approx(3600 * 0.875)
    assert plan.used == pytest.approx(1.25)
    assert plan.multiplier == pytest.approx(0.5)  # half an hour for one more GPU-hour
    assert plan.marginal_jct_s == pytest.approx(1800)
    assert plan.utilization == pytest.approx(0.8)
    assert plan.rounded_mean_jct_s == 3600
    assert plan.rounded_used == 1
    assert plan.rounding_gap_s == pytest.approx(450)
    assert plan.rounded_over_optimal == pytest.approx(8 / 7)


def test_one_more_gpu_saves_what_the_multiplier_says_over_all_arrivals():
    # Ten jobs an hour: a GPU more is a tenth of a GPU-hour more for each.
    busy = JobClass("a", 10.0, np.array([1.0]), np.array([1.0, 4.0]), np.array([[1.0, 2.0]]))
    frontier = solve_frontier([busy])
    plan, richer = frontier.at_budget(12), frontier.at_budget(13)
    assert plan.multiplier == pytest.approx(0.5)
    assert plan.marginal_jct_s == pytest.approx(180)
    assert plan.mean_jct_s - richer.mean_jct_s == pytest.approx(180)


def test_a_weight_moves_the_next_gpu_to_its_class():
    # Both classes go from (cost, time) (1, 1) to (2, 1/2); b counts three times as much.
    a, b = (replace(two_widths(), name=name, weight=w) for name, w in (("a", 1.0), ("b", 3.0)))
    frontier = solve_frontier([a, b])
    np.testing.assert_allclose(frontier.budgets, [2, 3, 4])
    np.testing.assert_allclose(frontier.mean_jct_s, 3600 * np.array([1, 0.75, 0.5]))
    np.testing.assert_allclose(frontier.objective_s, 3600 * np.array([1, 2.5 / 4, 0.5]))
    plan = frontier.at_budget(2.5)
    assert [(w.job_class, w.width) for w in plan.widths] == [("a", 1), ("b", 1), ("b", 4)]
    assert plan.mean_jct_s == pytest.approx(3600 * 7 / 8)
    assert plan.objective_s == pytest.approx(3600 * (1 + 3 * 0.75) / 4)
    assert plan.marginal_jct_s == pytest.approx(3600 * 0.375)
    assert plan.rounding_gap_s == pytest.approx(3600 * (1 - 3.25 / 4))
    assert frontier.at_target_jct(3600 * 3.25 / 4).budget == pytest.approx(2.5)
    with pytest.raises(InfeasibleError, match=r"a weighted mean completion time of 1,799 s"):
        frontier.at_target_jct(1799)


def test_ends_of_the_frontier():
    frontier = solve_frontier([two_widths()])
    assert (frontier.min_budget, frontier.saturation_budget, frontier.load_gpus) == (1, 2, 1)
    rich = frontier.at_budget(50)
    assert (rich.mean_jct_s, rich.used, rich.multiplier) == (1800, 2, 0)
    with pytest.raises(InfeasibleError, match=r"least is 1\.000 GPUs"):
        frontier.at_budget(0.99)
    with pytest.raises(InfeasibleError, match=r"least is 1,800\.0 s"):
        frontier.at_target_jct(1799)
    assert frontier.at_target_jct(99999).budget == 1


def test_rescaling_is_charged_at_the_start_and_at_each_change():
    # Two epochs of one hour; only the second gains from 2 GPUs (s = 2). A start takes 0.1 h.
    # Path 1,1: cost 2.1, time 2.1. 1,2: cost 1.1 + 1.2 = 2.3, time 1.1 + 0.6 = 1.7.
    # 2,2: cost 2 x (1 + 0.5 + 0.1) = 3.2, time 1.6.
    job_class = JobClass(
        "a", 1.0, np.ones(2), np.array([1.0, 2.0]), np.array([[1.0, 1.0], [1.0, 2.0]]), 0.1
    )
    frontier = solve_frontier([job_class])
    np.testing.assert_allclose(frontier.budgets, [2.1, 2.3, 3.2])
    np.testing.assert_allclose(frontier.mean_jct_s, 3600 * np.array([2.1, 1.7, 1.6]))
    assert frontier.one_gpu_jct_s == pytest.approx(3600 * 2.1)
    widths = [[a.width for a in frontier.at_budget(b).widths] for b in frontier.budgets]
    assert widths == [[1, 1], [1, 2], [2, 2]]


def test_costly_rescaling_glues_the_epochs():
    job_class = oracle.law_class("a", work=np.ones(5), alpha=np.linspace(0.3, 0.9, 5))
    free = solve_frontier([job_class]).at_budget(8)
    assert len({a.width for a in free.widths}) > 1
    dear = oracle.law_class("a", work=np.ones(5), alpha=np.linspace(0.3, 0.9, 5), rescale_h=5.0)
    hull = solve_frontier([dear]).hulls[0]
    assert (hull.paths == hull.paths[:, :1]).all()


def test_linear_speedup_costs_nothing():
    frontier = solve_frontier([oracle.law_class("a", rate=3.0, work=[2.0], alpha=1.0)])
    assert frontier.min_budget == frontier.saturation_budget == 6
    assert frontier.at_budget(6).widths[0].width == 64
    assert frontier.knee().budget == 6


def test_class_without_work_is_no_trouble():
    empty = oracle.law_class("empty", work=[0.0])
    frontier = solve_frontier([empty, two_widths()])
    assert frontier.min_budget == 1
    assert frontier.mean_jct_s[-1] == 900  # half of the jobs take no time


@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_one_class_with_a_power_law_has_a_closed_form(alpha):
    # load x k ** (1 - alpha) = budget. At a whole k the grid of widths holds that very point.
    frontier = solve_frontier([oracle.law_class("a", rate=2.0, work=[3.0], alpha=alpha)])
    for k in (1, 2, 7, 16, 63):
        plan = frontier.at_budget(6 * k ** (1 - alpha))
        assert plan.mean_jct_s == pytest.approx(3 * 3600 / k**alpha, rel=1e-12)
        assert max(plan.widths, key=lambda a: a.share).width == k
    between = frontier.at_budget(6 * 2.5 ** (1 - alpha))  # a chord lies over the curve, a little
    exact = 3 * 3600 / 2.5**alpha
    assert exact < between.mean_jct_s < 1.03 * exact


def test_knee_is_farthest_under_the_chord():
    frontier = solve_frontier([oracle.law_class("a", alpha=0.5)])
    b, t = frontier.budgets, frontier.mean_jct_s
    chord = t[0] + (b - b[0]) * (t[-1] - t[0]) / (b[-1] - b[0])
    assert frontier.knee().budget == b[np.argmax(chord - t)]
    # b = k ** 0.5 from 1 to 8, t = 1/b: slope -1/b**2 equals the chord's -(7/8)/7 at b = sqrt(8).
    assert frontier.knee().widths[0].width == 8


def test_two_hundred_small_instances_against_enumeration():
    rng = np.random.default_rng(3)
    for case in range(240):
        rescale_h = [0.0, 0.02, 0.2, 1.0][case % 4]
        classes = [
            oracle.random_class(
                rng,
                str(i),
                epochs=rng.integers(1, 5),
                widths=rng.integers(1, 5),
                rescale_h=rescale_h,
                weight=[1.0, 0.2, 5.0][(i + case) % 3] if case % 2 else 1.0,
            )
            for i in range(rng.integers(1, 4))
        ]
        frontier = solve_frontier(classes)
        # Two convex curves are one if their support lines agree in every direction: try those of
        # the frontier's own edges (its bends show there) and others.
        rate = frontier.rate_per_h
        hours = frontier.objective_s / 3600 * sum(c.rate_per_h * c.weight for c in classes)
        for mu in np.concatenate([frontier.edge_slope, 10.0 ** rng.uniform(-4, 4, 8)]):
            expected = oracle.brute_force_dual(classes, mu)
            assert (hours + mu * frontier.budgets).min() == pytest.approx(expected, rel=1e-9)
        cheapest = sum(c.rate_per_h * oracle.all_paths(c)[:, 0].min() for c in classes)
        quickest = [c.rate_per_h * oracle.all_paths(c)[:, 1].min() for c in classes]
        weighted = sum(c.weight * least for c, least in zip(classes, quickest, strict=True))
        assert frontier.min_budget == pytest.approx(cheapest, rel=1e-9)
        assert hours[-1] == pytest.approx(weighted, rel=1e-9)
        assert frontier.mean_jct_s[-1] / 3600 * rate == pytest.approx(sum(quickest), rel=1e-9)


def test_measured_curves_with_dear_starts_against_every_whole_width():
    # On a straight stretch of s the start cost r k is strictly convex: widths between two measured
    # ones beat every split of them.
    rng = np.random.default_rng(5)
    between = 0
    for case in range(60):
        rescale_h, widest = [0.01, 0.1, 0.5][case % 3], int(rng.integers(4, 15))
        measured = [
            np.unique(np.append(rng.integers(1, widest, 2), [1, widest])).astype(float)
            for _ in range(1 + case % 2)
        ]
        curves = [concave_hull(k, k ** rng.uniform(0.3, 0.95)) for k in measured]
        work = rng.uniform(0.2, 4.0, len(curves))
        some = np.unique(np.concatenate([curve.candidates(None) for curve in curves]))
        every = np.arange(1.0, widest + 1)
        ours, truth = (
            JobClass("a", 1.0, work, k, np.stack([c.at(k) for c in curves]), rescale_h)
            for k in (some, every)
        )
        frontier, paths = solve_frontier([ours]), oracle.all_paths(truth)
        for mu in np.concatenate([frontier.edge_slope, 10.0 ** rng.uniform(-3, 2, 20)]):
            found = (frontier.mean_jct_s / 3600 + mu * frontier.budgets).min()
            assert found == pytest.approx((paths @ [mu, 1.0]).min(), rel=1e-9)
        assert frontier.min_budget == pytest.approx(paths[:, 0].min(), rel=1e-9)
        vertices = {k for curve in curves for k in curve.widths}
        between += not set(some[frontier.hulls[0].paths].ravel()) <= vertices
    assert between > 40  # else this says nothing about widths between vertices


def test_a_budget_against_the_linear_program_over_all_paths():
    rng = np.random.default_rng(4)
    for rescale_h in (0.0, 0.1, 0.5):
        classes = [
            oracle.random_class(rng, str(i), epochs=3, widths=4, rescale_h=rescale_h)
            for i in range(3)
        ]
        frontier = solve_frontier(classes)
        budgets = np.linspace(frontier.min_budget * 1.001, frontier.saturation_budget, 7)
        ours = [frontier.at_budget(b).mean_jct_s for b in budgets]
        np.testing.assert_allclose(ours, oracle.brute_force_jct_s(classes, budgets), rtol=1e-7)


def test_convex_program_agrees_without_rescaling():
    classes = [
        oracle.law_class("a", rate=2.0, work=[1.0, 0.5], alpha=[0.5, 0.8], widths=12),
        oracle.law_class("b", rate=0.3, work=[6.0], alpha=0.7, widths=12),
    ]
    frontier = solve_frontier(classes)
    budgets = np.linspace(frontier.min_budget * 1.01, frontier.saturation_budget * 0.99, 9)
    ours = [frontier.at_budget(b).mean_jct_s for b in budgets]
    np.testing.assert_allclose(ours, oracle.convex_jct_s(classes, budgets), rtol=1e-6)


@laws
@given(workloads)
def test_frontier_is_convex_and_falls(classes):
    frontier = solve_frontier(classes)
    spent, saved = np.diff(frontier.budgets), -np.diff(frontier.objective_s)
    assert (spent > 0).all() and (saved > 0).all()
    assert (np.diff(frontier.edge_slope) <= 0).all()
    for hull in frontier.hulls:
        inner = np.diff(hull.time_h) / np.diff(hull.cost)
        assert (np.diff(inner) > 0).all() and (inner < 0).all()


@laws
@given(workloads, st.floats(0, 1.2))
def test_plans_keep_the_budget_and_the_certificate_holds(classes, share):
    frontier = solve_frontier(classes)
    low, high = frontier.min_budget, frontier.saturation_budget
    budget = low + share * (high - low)
    plan = frontier.at_budget(budget)
    assert plan.used == pytest.approx(min(budget, high), rel=1e-9)
    assert plan.rounded_used <= budget * (1 + 1e-9)
    for name in ("mean_jct_s", "objective_s"):
        expected = np.interp(budget, frontier.budgets, getattr(frontier, name))
        assert getattr(plan, name) == pytest.approx(expected, rel=1e-9)
    assert plan.rounded_mean_jct_s >= plan.mean_jct_s * (1 - 1e-12)
    split = {a.job_class for a in plan.widths if a.share < 1}
    assert len(split) <= 1
    for c in classes:
        for epoch in range(c.work_h.size):
            shares = [a.share for a in plan.widths if (a.job_class, a.epoch) == (c.name, epoch)]
            assert sum(shares) == pytest.approx(1)
    # The widths marked as rounded are the deterministic plan: its totals follow from them.
    spent = taken = 0.0
    for c in classes:
        before = None
        for a in (a for a in plan.widths if a.job_class == c.name and a.rounded):
            run_h = c.work_h[a.epoch] / c.speedup[a.epoch, c.widths.searchsorted(a.width)]
            hours = c.rate_per_h * (run_h + (c.rescale_h if a.width != before else 0.0))
            spent, taken, before = spent + hours * a.width, taken + hours, a.width
    assert spent == pytest.approx(plan.rounded_used, rel=1e-9)
    assert 3600 * taken / frontier.rate_per_h == pytest.approx(plan.rounded_mean_jct_s, rel=1e-9)
    # The deterministic plan is made of width paths, so no plan in its budget can be better
    # than the frontier there: the gap is a bound.
    cheaper = frontier.at_budget(max(low, plan.rounded_used))
    assert cheaper.objective_s <= (plan.objective_s + plan.rounding_gap_s) * (1 + 1e-9)


@laws
@given(workloads, st.floats(0.01, 100))
def test_more_arrivals_scale_budgets_and_leave_times(classes, factor):
    frontier = solve_frontier(classes)
    busier = solve_frontier([replace(c, rate_per_h=c.rate_per_h * factor) for c in classes])
    np.testing.assert_allclose(busier.budgets, factor * frontier.budgets, rtol=1e-9)
    np.testing.assert_allclose(busier.mean_jct_s, frontier.mean_jct_s, rtol=1e-9)


@laws
@given(workloads, st.floats(0, 1))
def test_target_is_the_inverse_of_budget(classes, share):
    frontier = solve_frontier(classes)
    slow, quick = frontier.objective_s[0], frontier.objective_s[-1]
    target = quick + share * (slow - quick)
    plan = frontier.at_target_jct(target)
    assert plan.objective_s <= target * (1 + 1e-9)
    assert frontier.at_budget(plan.budget).objective_s == pytest.approx(target, rel=1e-9)
    less = plan.budget * (1 - 1e-6)
    if less > frontier.min_budget:
        assert frontier.at_budget(less).objective_s > target


def test_a_split_of_equal_classes_changes_nothing():
    whole = solve_frontier([oracle.law_class("a", rate=3.0, work=[2.0])])
    halves = solve_frontier(
        [oracle.law_class("a", rate=1.0, work=[2.0]), oracle.law_class("b", rate=2.0, work=[2.0])]
    )
    for budget in np.linspace(whole.min_budget, whole.saturation_budget, 9):
        assert halves.at_budget(budget).mean_jct_s == pytest.approx(
            whole.at_budget(budget).mean_jct_s, rel=1e-12
        )


def test_progress_is_told_per_class():
    told = []
    solve_frontier([oracle.law_class(str(i)) for i in range(4)], progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1]


def test_totals_do_not_drift_over_many_classes():
    rng = np.random.default_rng(0)
    classes = [
        oracle.random_class(rng, str(i), epochs=4, widths=6, rescale_h=0.05) for i in range(300)
    ]
    frontier = solve_frontier(classes)
    last = frontier.at_budget(frontier.saturation_budget * 2)
    assert frontier.saturation_budget == pytest.approx(last.used, rel=1e-13)
    assert frontier.mean_jct_s[-1] == pytest.approx(last.mean_jct_s, rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [{"speedup": np.ones((2, 2))}, {"rate_per_h": 0.0}, {"work_h": np.array([-1.0])},
     {"widths": np.array([0.0, 1.0])}, {"weight": 0.0}],
)  # fmt: skip
def test_a_class_that_cannot_be_is_the_callers_mistake(change):
    fields = {
        "name": "a", "rate_per_h": 1.0, "work_h": np.ones(1), "widths": np.array([1.0, 2.0]),
        "speedup": np.ones((1, 2)),
    }  # fmt: skip
    with pytest.raises(ValueError, match="a: "):
        JobClass(**(fields | change))
    with pytest.raises(ValueError, match="at least one"):
        solve_frontier([])


@pytest.mark.kernels
def test_kernels_agree_with_enumeration():
    rng = np.random.default_rng(7)
    for rescale_h in (0.0, 0.1):
        c = oracle.random_class(rng, "a", epochs=3, widths=5, rescale_h=rescale_h)
        run_h = c.work_h[:, None] / c.speedup
        gpu_h = run_h * c.widths
        paths = oracle.all_paths(c)
        best, came_from = np.empty(5), np.empty((3, 5), np.int32)
        path = np.empty(3, np.int32)
        for mu in (0.0, 0.01, 0.3, 2.0):
            best_path(run_h, gpu_h, c.widths, rescale_h, 1.0, mu, best, came_from, path)
            cost, time = path_totals(run_h, gpu_h, c.widths, rescale_h, path)
            assert time + mu * cost == pytest.approx((paths @ [mu, 1.0]).min(), rel=1e-12)
        cost, time, kept = class_hull(run_h, gpu_h, c.widths, rescale_h)
        assert cost[0] == pytest.approx(paths[:, 0].min())
        assert time[-1] == pytest.approx(paths[:, 1].min())
        assert kept.shape == (cost.size, 3)


@pytest.mark.kernels
def test_kernel_grows_past_its_first_allocation():
    c = oracle.law_class("a", work=np.ones(3), alpha=[0.4, 0.6, 0.8], widths=40)
    run_h = c.work_h[:, None] / c.speedup
    cost, time, _ = class_hull(run_h, run_h * c.widths, c.widths, 0.0)
    assert cost.size > 100
    assert (np.diff(cost) > 0).all() and (np.diff(time) < 0).all()
