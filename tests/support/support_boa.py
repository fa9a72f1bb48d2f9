"""Slow oracles of the budget frontier, and small instances to try them on."""

from itertools import product

import cvxpy as cp
import numpy as np

from gpuplan.planner.elastic.job_class import JobClass


def law_class(name, *, rate=1.0, work=(1.0,), alpha=0.5, widths=64, rescale_h=0.0):
    """A class with s(k) = k ** alpha in every epoch (or one alpha per epoch)."""
    work = np.asarray(work, dtype=float)
    k = np.arange(1.0, widths + 1)
    powers = np.broadcast_to(np.asarray(alpha, dtype=float), work.shape)
    return JobClass(name, rate, work, k, k[None, :] ** powers[:, None], rescale_h)


def random_class(rng, name, *, epochs, widths, rescale_h, weight=1.0):
    """A class whose speedups are positive and otherwise arbitrary: not monotone, not concave."""
    k = np.sort(rng.choice(np.arange(1, 3 * widths + 1), widths, replace=False)).astype(float)
    speedup = k ** rng.uniform(0.2, 1.0, (epochs, 1)) * rng.uniform(0.6, 1.1, (epochs, widths))
    work = rng.uniform(0.0, 4.0, epochs)
    rate = float(rng.uniform(0.1, 5))
    return JobClass(name, rate, work, k, speedup, rescale_h, weight=weight)


def all_paths(job_class):
    """(cost, hours) of a job on every path of candidate widths, by enumeration."""
    epochs, widths = job_class.speedup.shape
    return np.array([total_of(job_class, p) for p in product(range(widths), repeat=epochs)])


def total_of(job_class, path):
    """(cost, hours) of a job that follows a path of candidate widths, given by their indices."""
    cost = time = 0.0
    before = None
    for j, v in enumerate(path):
        k = job_class.slopes[v]
        run = job_class.work_h[j] / job_class.speedup[j, v]
        start = job_class.rescale_h if v != before else 0.0
        time += run + start
        cost += k * (run + start)
        before = v
    return cost, time


def brute_force_dual(classes, mu):
    """Minimum of sum of rate x (weight x time + mu x cost): the support in direction (mu, 1)."""
    return sum(c.rate_per_h * (all_paths(c) @ np.array([mu, c.weight])).min() for c in classes)


def brute_force_jct_s(classes, budgets):
    """Least weighted mean completion time at each budget: a linear program over mixed paths."""
    points = [all_paths(c) for c in classes]
    shares = [cp.Variable(len(p), nonneg=True) for p in points]
    cost = sum(
        c.rate_per_h * (p[:, 0] @ x) for c, p, x in zip(classes, points, shares, strict=True)
    )
    times = [p[:, 1] @ x for p, x in zip(points, shares, strict=True)]
    factors = [c.rate_per_h * c.weight for c in classes]
    time = sum(factor * hours for factor, hours in zip(factors, times, strict=True))
    limits = [hours <= c.cap_h for c, hours in zip(classes, times, strict=True) if c.cap_h < 1e9]
    limits += [cp.sum(x) == 1 for x in shares]
    budget = cp.Parameter()
    problem = cp.Problem(cp.Minimize(time), [cost <= budget, *limits])
    found = []
    for value in budgets:
        budget.value = value
        problem.solve(solver=cp.HIGHS)
        assert problem.status == cp.OPTIMAL
        found.append(3600 * problem.value / sum(factors))
    return np.array(found)


def convex_jct_s(classes, budgets):
    """The model without rescaling as a convex program in t = 1/s (BOA, Appendix B).

    For s straight between vertices, s = a + b k gives k/s = (1 - a t) / b on each piece: the cost
    of an epoch is the largest of these lines, t between 1/s of the last and first vertex.
    """
    cost, time, limits = 0.0, 0.0, []
    for c in classes:
        assert c.rescale_h == 0
        for work, s in zip(c.work_h, c.speedup, strict=True):
            t = cp.Variable()
            limits += [t >= 1 / s[-1], t <= 1 / s[0]]
            slope = np.diff(s) / np.diff(c.widths)
            offset = s[:-1] - slope * c.widths[:-1]
            lines = [(1 - a * t) / b for a, b in zip(offset, slope, strict=True)]
            cost += c.rate_per_h * work * (cp.maximum(*lines) if len(lines) > 1 else lines[0])
            time += c.rate_per_h * work * t
    budget = cp.Parameter()
    problem = cp.Problem(cp.Minimize(time), [cost <= budget, *limits])
    found = []
    for value in budgets:
        budget.value = value
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        assert problem.status == cp.OPTIMAL
        found.append(3600 * problem.value / sum(c.rate_per_h for c in classes))
    return np.array(found)
