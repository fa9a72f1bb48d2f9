"""Caps on the mean time of a class: worked by hand, against a linear program, and laws."""

from dataclasses import replace

import numpy as np
import pytest
import support_boa as oracle

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.model.exact import solve_frontier


def two_widths(name="a", **fields):
    # One job an hour of one hour's work; 1 or 4 GPUs with s(4) = 2: (cost, time) (1, 1), (2, 1/2).
    one = JobClass(name, 1.0, np.array([1.0]), np.array([1.0, 4.0]), np.array([[1.0, 2.0]]))
    return replace(one, **fields)


def test_a_cap_splits_its_class_from_the_least_budget_on():
    # 0.8 h on average: 40% of the jobs on 4 GPUs, 1 + 0.4 GPU-hours. b is free.
    frontier = solve_frontier([two_widths(cap_h=0.8), two_widths("b")])
    np.testing.assert_allclose(frontier.budgets, [2.4, 3.0, 4.0])
    np.testing.assert_allclose(frontier.mean_jct_s, 3600 * np.array([0.9, 0.75, 0.5]))
    capped, free = frontier.at_budget(2.4).classes
    assert [(a.width, a.rounded) for a in capped.widths] == [(1, False), (4, True)]
    assert [a.share for a in capped.widths] == pytest.approx([0.6, 0.4])
    assert [(a.width, a.share) for a in free.widths] == [(1, 1)]
    assert (capped.time_h, capped.cost) == pytest.approx((0.8, 1.4))
    # Without a split the cap still holds, at 4 GPUs for all, and the budget does not.
    assert (capped.rounded_time_h, capped.rounded_cost) == (0.5, 2)
    assert frontier.at_budget(2.4).rounded_used == 3


def test_along_the_first_edge_the_share_grows_from_that_of_the_cap():
    frontier = solve_frontier([two_widths(cap_h=0.8)])
    plan = frontier.at_budget(1.7)  # half of the way from 1.4 to 2
    assert [a.share for a in plan.widths] == pytest.approx([0.3, 0.7])
    assert plan.mean_jct_s == pytest.approx(3600 * 0.65)
    assert plan.used == pytest.approx(1.7)


def test_a_cap_at_a_vertex_splits_nothing():
    frontier = solve_frontier([two_widths(cap_h=0.5)])
    (row,) = frontier.at_budget(2).widths
    assert (row.width, row.share, row.rounded) == (4, 1, True)
    assert frontier.min_budget == frontier.saturation_budget == 2


def test_a_cap_that_does_not_bind_changes_nothing():
    for cap_h in (1.0, 7.0):
        frontier = solve_frontier([two_widths(cap_h=cap_h)])
        assert frontier.budgets.tolist() == [1, 2]
        with pytest.raises(InfeasibleError, match=r"with the arrivals: the least"):
            frontier.at_budget(0.5)


def test_what_cannot_be_kept_is_said():
    with pytest.raises(InfeasibleError, match=r"'a' cannot take 1,440\.0 s .* is 1,800\.0 s"):
        solve_frontier([two_widths(cap_h=0.4)])
    frontier = solve_frontier([two_widths(cap_h=0.8), two_widths("b")])
    with pytest.raises(InfeasibleError, match=r"cap on the time of a: the least is 2\.40"):
        frontier.at_budget(2.3)
    with pytest.raises(ValueError, match="cap"):
        two_widths(cap_h=0.0)


def test_random_caps_against_the_linear_program_over_all_paths():
    rng = np.random.default_rng(11)
    bound = 0
    for case in range(60):
        classes = []
        for i in range(rng.integers(1, 4)):
            one = oracle.random_class(
                rng, str(i), epochs=rng.integers(1, 4), widths=rng.integers(1, 5),
                rescale_h=[0.0, 0.05, 0.4][case % 3], weight=float(rng.choice([1.0, 3.0])),
            )  # fmt: skip
            times = oracle.all_paths(one)[:, 1]
            cap_h = times.min() + rng.uniform(0.05, 1.2) * np.ptp(times) + 1e-3
            classes.append(replace(one, cap_h=float(cap_h)))
        frontier = solve_frontier(classes)
        low, high = frontier.min_budget, frontier.saturation_budget
        budgets = np.linspace(low + 1e-6 * (high - low) + 1e-9, high, 4)
        plans = [frontier.at_budget(b) for b in budgets]
        found = [plan.objective_s for plan in plans]
        np.testing.assert_allclose(found, oracle.brute_force_jct_s(classes, budgets), rtol=1e-6)
        for plan, budget in zip(plans, budgets, strict=True):
            assert plan.used == pytest.approx(min(budget, high), rel=1e-9)
            for c, got in zip(classes, plan.classes, strict=True):
                assert got.time_h <= c.cap_h * (1 + 1e-9)
                assert got.rounded_time_h <= c.cap_h * (1 + 1e-9)
        bound += any(hull.is_split for hull in frontier.hulls)
        free = solve_frontier([replace(c, cap_h=float("inf")) for c in classes])
        assert free.min_budget <= low * (1 + 1e-12)
        assert free.at_budget(budgets[1]).objective_s <= found[1] * (1 + 1e-9)
    assert bound > 20  # else this says nothing about splits


def test_shares_of_a_capped_plan_give_its_time_and_cost():
    rng = np.random.default_rng(12)
    for _ in range(30):
        one = oracle.random_class(rng, "a", epochs=1, widths=5, rescale_h=0.1)
        times = oracle.all_paths(one)[:, 1]
        cap_h = float(rng.uniform(times.min(), times.max()))
        frontier = solve_frontier([replace(one, cap_h=cap_h)])
        low, high = frontier.min_budget, frontier.saturation_budget
        for budget in low + np.array([0.0, 0.3, 0.9]) * (high - low):
            plan = frontier.at_budget(budget)
            at = [int(one.widths.searchsorted(a.width)) for a in plan.widths]
            hours = one.work_h[0] / one.speedup[0, at] + one.rescale_h
            share = np.array([a.share for a in plan.widths])
            assert share.sum() == pytest.approx(1)
            assert share @ hours == pytest.approx(plan.classes[0].time_h, rel=1e-9)
            assert share @ (hours * one.widths[at]) == pytest.approx(plan.classes[0].cost, rel=1e-9)
            assert [a.rounded for a in plan.widths].count(True) == 1
