"""The exact budget frontier: time to solve it, against the convex program where that applies."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import cvxpy as cp
import numpy as np

from benchmarks.bars import Row
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier

EPOCHS, WIDTHS = 10, 64
SMALL, LARGE = 6, 1000
EPOCH_CLASSES = 320  # as many as the epochs of the five jobs of Sia's newTrace, each on its own
TYPES = 3
RESCALE_H = 30 / 3600
BUDGETS = 20


def classes_of(
    count: int, *, rescale_h: float, seed: int = 0, epochs: int = EPOCHS
) -> list[JobClass]:
    """Classes whose speedup differs in every epoch: the power law with exponents 0.5 to 0.95."""
    rng = np.random.default_rng(seed)
    widths = np.arange(1.0, WIDTHS + 1)
    return [
        JobClass(
            name=str(i),
            rate_per_h=float(rng.uniform(0.1, 10)),
            work_h=rng.uniform(0.1, 5, epochs),
            widths=widths,
            speedup=widths[None, :] ** rng.uniform(0.5, 0.95, (epochs, 1)),
            rescale_h=rescale_h,
        )
        for i in range(count)
    ]


def on_types(job_class: JobClass) -> JobClass:
    """The class on `TYPES` GPU types, each faster and dearer than the one before."""
    steps = np.arange(1.0, TYPES + 1)
    return replace(
        job_class,
        widths=np.tile(job_class.widths, TYPES),
        speedup=np.concatenate([step * job_class.speedup**0.9 for step in steps], axis=1),
        cost_per_h=np.concatenate([step**1.2 * job_class.widths for step in steps]),
        gpu_types=tuple(f"g{t}" for t in range(TYPES) for _ in range(WIDTHS)),
    )


def median_s(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def convex_jct_h(classes: list[JobClass], budgets: np.ndarray) -> list[float]:
    """Least mean completion time by a convex program in t = 1/s, without rescaling.

    Between its vertices s is straight, so the GPU-hours of an epoch are the largest of linear
    functions of t; one constraint each. Built once, solved per budget.
    """
    work = np.concatenate([c.work_h for c in classes])
    rate = np.repeat([c.rate_per_h for c in classes], EPOCHS)
    s = np.concatenate([c.speedup for c in classes])
    widths = classes[0].widths
    slope = np.diff(s, axis=1) / np.diff(widths)
    offset = s[:, :-1] - slope * widths[:-1]
    t, k_over_s = cp.Variable(work.size), cp.Variable(work.size)
    load = rate * work
    budget = cp.Parameter()
    limits = [load @ k_over_s <= budget, t >= 1 / s[:, -1], t <= 1 / s[:, 0]]
    limits += [
        k_over_s >= cp.multiply(1 / slope[:, i], 1 - cp.multiply(offset[:, i], t))
        for i in range(WIDTHS - 1)
    ]
    problem = cp.Problem(cp.Minimize(load @ t), limits)
    total = sum(c.rate_per_h for c in classes)
    found = []
    for value in budgets:
        budget.value = value
        problem.solve(solver=cp.CLARABEL)
        found.append(float(problem.value) / total)
    return found


def spread(frontier: Frontier) -> np.ndarray:
    low, high = frontier.min_budget, frontier.saturation_budget
    return np.linspace(low + 0.02 * (high - low), high - 0.02 * (high - low), BUDGETS)


def run() -> list[Row]:
    """Measure, after one warm-up that compiles the kernels."""
    small, large = (classes_of(n, rescale_h=RESCALE_H) for n in (SMALL, LARGE))
    free, large_free = (classes_of(n, rescale_h=0.0) for n in (SMALL, LARGE))
    short = classes_of(EPOCH_CLASSES, rescale_h=RESCALE_H, epochs=1)
    typed = [on_types(c) for c in small]
    solve_frontier(small)
    size = f"{EPOCHS} epochs x {WIDTHS} widths"
    frontier = solve_frontier(free)
    budgets = spread(frontier)

    def all_budgets() -> list[float]:
        solved = solve_frontier(free)
        return [solved.at_budget(b).mean_jct_s / 3600 for b in budgets]

    ours_s = median_s(all_budgets, 5)
    started = time.perf_counter()
    reference = np.array(convex_jct_h(free, budgets))
    reference_s = time.perf_counter() - started
    gap = float(np.max(np.abs(np.array(all_budgets()) / reference - 1)))
    rows = [
        (f"frontier, {SMALL} classes x {size}, rescaling", lambda: solve_frontier(small), 20, 0.02),
        (f"frontier, {LARGE} classes x {size}, rescaling", lambda: solve_frontier(large), 3, 2.0),
        (
            f"frontier, {LARGE} classes x {size}, free rescaling",
            lambda: solve_frontier(large_free),
            3,
            2.0,
        ),
        (
            f"frontier, {EPOCH_CLASSES} classes x 1 epoch x {WIDTHS} widths, rescaling",
            lambda: solve_frontier(short),
            20,
            0.1,
        ),
        (
            f"frontier, {SMALL} classes x {EPOCHS} epochs x {TYPES} GPU types x {WIDTHS} widths, "
            "rescaling",
            lambda: solve_frontier(typed),
            20,
            0.02,
        ),
    ]
    measured = [
        {
            "work": work,
            "ours_s": median_s(solve, runs),
            "reference_s": None,
            "ratio": None,
            "bar": f"<= {bar * 1000:g} ms" if bar < 1 else f"<= {bar:g} s",
            "peak_mb": None,
        }
        for work, solve, runs, bar in rows
    ]
    measured.append(
        {
            "work": f"{BUDGETS} budgets, {SMALL} classes x {size}, against cvxpy (Clarabel); "
            f"largest relative difference {gap:.1e}",
            "ours_s": ours_s,
            "reference_s": reference_s,
            "ratio": reference_s / ours_s,
            "bar": "difference <= 1e-6",
            "difference": gap,
            "peak_mb": None,
        }
    )
    return measured


if __name__ == "__main__":
    for row in run():
        print(row)
