"""The law of the demand: closed forms, a slow recursion, and replays of Poisson arrivals."""

from math import exp, factorial

import numpy as np
import pytest
from support_boa import law_class
from support_boa_replay import workload_of_jobs

from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.replay.demand import compound_poisson, demand_law, law_of
from gpuplan.planner.frontier.replay.plans import replay_plan


def panjer(width, mean, size):
    """The same law by Panjer's recursion (1981): n P(n) = sum of k m_k P(n - k)."""
    pmf = [exp(-sum(mean))]
    for n in range(1, size):
        pmf.append(sum(k * m * pmf[n - k] for k, m in zip(width, mean, strict=True) if k <= n) / n)
    return np.array(pmf)


def test_one_class_of_width_one_is_poisson():
    least, pmf = compound_poisson(np.array([1]), np.array([3.5]))
    assert least == 0
    expected = [exp(-3.5) * 3.5**n / factorial(n) for n in range(30)]
    assert pmf[:30] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("width", "mean"),
    [([2, 3, 7], [1.5, 0.25, 4.0]), ([1, 64], [20.0, 0.01]), ([5], [0.0]), ([1, 2], [200, 150])],
)
def test_transform_and_recursion_agree(width, mean):
    least, pmf = compound_poisson(np.array(width), np.array(mean))
    assert least == 0
    assert pmf == pytest.approx(panjer(width, mean, pmf.size), abs=1e-14)
    assert pmf.sum() == pytest.approx(1, abs=1e-12) and pmf[-1] < 1e-14
    n = np.arange(pmf.size)
    assert np.dot(n, pmf) == pytest.approx(np.dot(width, mean), abs=1e-9)
    variance = np.dot(n**2, pmf) - np.dot(n, pmf) ** 2
    assert variance == pytest.approx(np.dot(np.square(width), mean), abs=1e-7)


def test_a_law_of_millions_is_the_part_that_is_likely(monkeypatch):
    # Jobs of 3 and 8 GPUs, 40,000 and 9,000 of them: the window holds what the full law holds.
    width, mean = np.array([3, 8]), np.array([40_000.0, 9_000.0])
    least, pmf = compound_poisson(width, mean)
    monkeypatch.setattr("gpuplan.planner.frontier.replay.demand.MOST_FROM_ZERO", 1 << 30)
    zero, full = compound_poisson(width, mean)
    assert zero == 0 and least > 150_000 and least + pmf.size == full.size
    assert full[:least].sum() < 1e-10
    assert pmf == pytest.approx(full[least:], abs=1e-12)
    likely = law_of(width, mean, pmf, least)
    every = law_of(width, mean, full)
    for q in (0.001, 0.5, 0.95, 0.999):
        assert likely.quantile(q) == every.quantile(q)
    for gpus in (-1, 0, least - 1, least, 191_000, 192_000.5, 193_000, full.size):
        assert likely.above(gpus) == pytest.approx(every.above(gpus), abs=1e-9)


def test_a_law_of_many_millions_takes_little_memory():
    least, pmf = compound_poisson(np.array([1, 64]), np.array([1e8, 1e6]))
    assert pmf.size < 1 << 21
    mean = least + np.dot(np.arange(pmf.size), pmf)
    assert mean == pytest.approx(1e8 + 64e6, rel=1e-9)


def two_classes():
    return [
        law_class("a", rate=30, work=(0.4, 0.2), alpha=(0.9, 0.5), widths=8, rescale_h=0.01),
        law_class("b", rate=3, work=(2.0,), alpha=0.8, widths=16, rescale_h=0.02),
    ]


def test_mean_demand_is_the_budget():
    frontier = solve_frontier(two_classes())
    low, high = frontier.min_budget, frontier.saturation_budget
    workload = workload_of_jobs(frontier.classes, [0], [0], [1], 1)
    for gpus in np.linspace(low, high, 7):
        plan = frontier.at_budget(float(gpus))
        law = demand_law(workload, plan)
        assert law.mean_gpus == pytest.approx(plan.used)
        assert demand_law(workload, plan, rounded=True).mean_gpus == pytest.approx(
            plan.rounded_used
        )
        assert law.p95_gpus == law.quantile(0.95)
        q = law.quantile(0.95)
        assert law.above(q) <= 0.05 < law.above(q - 1)
    assert law.above(-1) == 1 and law.above(10**9) == 0
    with pytest.raises(ValueError, match="0 < q < 1"):
        law.quantile(1)


def test_replays_of_poisson_arrivals_follow_the_law():
    # Sizes are exponential, and the law does not depend on it. The first hours, in which the empty
    # system fills, count too; there are few of them among 4,000.
    classes, hours = two_classes(), 4000
    rng = np.random.default_rng(5)
    number = np.repeat([0, 1], [rng.poisson(c.rate_per_h * hours) for c in classes])
    submit_s = rng.uniform(0, hours * 3600, number.size)
    work_h = rng.exponential([float(classes[i].work_h.sum()) for i in number])
    order = np.argsort(submit_s)
    workload = workload_of_jobs(classes, submit_s[order], number[order], work_h[order], hours)
    frontier = solve_frontier(classes)
    plan = frontier.at_budget(0.5 * (frontier.min_budget + frontier.saturation_budget))
    assert any(len(c.widths) > len({a.epoch for a in c.widths}) for c in plan.classes)  # a split
    law = demand_law(workload, plan)
    replay = replay_plan(workload, plan, RentedCluster(provision_s=0, release_s=0))
    share = replay.demand_s / replay.demand_s.sum()
    n = np.arange(share.size)
    mean = np.dot(n, share)
    assert mean == pytest.approx(law.mean_gpus, rel=0.01)
    assert np.sqrt(np.dot(n**2, share) - mean**2) == pytest.approx(law.sd_gpus, rel=0.03)
    for q in (0.5, 0.9, 0.95, 0.99):
        gpus = law.quantile(q)
        assert replay.share_above(gpus) == pytest.approx(law.above(gpus), rel=0.1, abs=0.002)


def test_a_gpu_type_that_the_plan_does_not_use():
    frontier = solve_frontier(two_classes())
    workload = workload_of_jobs(frontier.classes, [0], [0], [1], 1)
    with pytest.raises(ValueError, match="GPU type H100"):
        demand_law(workload, frontier.knee(), gpu_type="H100")
