"""How the budgets of a plan depend on assumed speedups.

With wrong speedups: the true gain of a job from further GPUs, s(k) - 1, is assumed to be larger or
smaller by a share x in every epoch, s'(k) = 1 + (s(k) - 1)(1 +- x). Measurements stay as they are:
durations on the GPUs held, hence a job that ran on g GPUs has s'(g) / s(g) times the work; work
that comes from a profile does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.paths import time_per_work
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.model.plan import Assignment, Plan
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S

ERROR = 0.2


@dataclass(frozen=True, slots=True)
class SpeedupError:
    """A plan under speedups other than those it was made with.

    Attributes:
        job_class: the class with different speedups; None for all.
        error: by which share its gain from further GPUs is more (or less, where negative).
        mean_jct_s: mean completion time.
        used_gpus: GPUs used on average.
        best_jct_s: least mean JCT on these GPUs with known speedups; None for one class.
    """

    job_class: str | None
    error: float
    mean_jct_s: float
    used_gpus: float
    best_jct_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupSensitivity:
    """A plan under speedups that err up and down; made by `speedup_sensitivity`.

    Attributes:
        error: share by which the gains from further GPUs differ.
        planned_mean_jct_s: mean completion time with the speedups of the plan.
        planned_used_gpus: GPUs used on average with these.
        all_less, all_more: where all classes gain less, or more.
        worst_class: where only the class with the most expensive error differs.
        worst_mean_jct_s: where each class errs in the way that is worse for it.
        worst_used_gpus: where each class errs in the way that uses more GPUs.
        plan: the plan.
        rows: all classes less and more, then one class after another.
    """

    error: float
    planned_mean_jct_s: float
    planned_used_gpus: float
    all_less: SpeedupError
    all_more: SpeedupError
    worst_class: SpeedupError
    worst_mean_jct_s: float
    worst_used_gpus: float
    plan: Hidden[Plan]
    rows: Hidden[tuple[SpeedupError, ...]]

    def to_frame(self) -> pl.DataFrame:
        """Return one row per class and sign; the class is null for all together."""
        return pl.DataFrame(
            [asdict(row) for row in self.rows],
            schema={"job_class": pl.String}
            | dict.fromkeys(("error", "mean_jct_s", "used_gpus", "best_jct_s"), pl.Float64),
        )


def speedup_sensitivity(
    workload: ClassWorkload, plan: Plan, error: float = ERROR
) -> SpeedupSensitivity:
    """Return the results of a plan if speedups differ from those it was made with.

    Args:
        workload: the classes the plan was made for, on one GPU type.
        plan: the widths; they stay.
        error: share by which the gain from further GPUs may differ; strictly between 0 and 1.

    Raises:
        UsageError: an error out of range, or a plan over several GPU types.
    """
    if not 0 < error < 1:
        raise UsageError(f"an error of the speedups must be between 0 and 1, got {error:g}")
    if any(row.gpu_type is not None for row in plan.widths):
        raise UsageError("speedup errors need a plan on one GPU type, and this one rents several")
    parts = {part.job_class: part for part in plan.classes}
    signs = (-error, error)
    true = [
        [_with_error(workload, i, sign) for i in range(len(workload.classes))] for sign in signs
    ]
    # (cost and hours of a job, class, sign)
    wrong = np.array(
        [[class_totals(c, parts[c.name].paths) for c in classes] for classes in true]
    ).T
    planned = np.array([class_totals(c, parts[c.name].paths) for c in workload.classes]).T
    rate = np.array([c.rate_per_h for c in workload.classes])

    def row(name: str | None, sign: int, totals: FloatArray, best: float | None) -> SpeedupError:
        used_gpus, hours = (totals @ rate).tolist()
        return SpeedupError(name, signs[sign], HOUR_S * hours / float(rate.sum()), used_gpus, best)

    rows = []
    for sign in (0, 1):
        totals = wrong[:, :, sign]
        rows.append(row(None, sign, totals, _best_s(true[sign], float(totals[0] @ rate))))
    for index, job_class in enumerate(workload.classes):
        for sign in (0, 1):
            totals = planned.copy()
            totals[:, index] = wrong[:, index, sign]
            rows.append(row(job_class.name, sign, totals, None))
    worst_gpus, worst_hours = (wrong.max(axis=2) @ rate).tolist()
    return SpeedupSensitivity(
        error=error,
        planned_mean_jct_s=plan.mean_jct_s,
        planned_used_gpus=plan.used,
        all_less=rows[0],
        all_more=rows[1],
        worst_class=max(rows[2:], key=lambda row: row.mean_jct_s),
        worst_mean_jct_s=HOUR_S * worst_hours / float(rate.sum()),
        worst_used_gpus=worst_gpus,
        plan=plan,
        rows=tuple(rows),
    )


def _with_error(workload: ClassWorkload, index: int, error: float) -> JobClass:
    """Return a class as it is if its gain from further GPUs differs by a share."""
    assumed = workload.classes[index]
    other_speedup = assumed.other_speedup
    true = replace(
        assumed,
        speedup=_off(assumed.speedup, error),
        other_speedup=None if other_speedup is None else _off(other_speedup, error),
    )
    arrivals = workload.arrivals
    if arrivals is None or assumed.name in workload.sized_by_profile or not assumed.load_gpus:
        return true
    of_class = arrivals.job_class == index
    gpus, work_h = arrivals.gpus[of_class], arrivals.work_h[of_class]
    before, after = (time_per_work(c, gpus).sum(axis=0) for c in (assumed, true))
    ratio = np.where(gpus > 1, before / after, 1.0)
    return replace(true, work_h=assumed.work_h * float(np.average(ratio, weights=work_h)))


def _off(speedup: FloatArray, error: float) -> FloatArray:
    """Return speedups with a gain that differs by a share; a flat one cannot differ this way."""
    return speedup + np.where(speedup > 1, (speedup - 1) * error, 0.0)


def class_totals(
    job_class: JobClass, paths: Sequence[tuple[float, Sequence[Assignment]]]
) -> tuple[float, float]:
    """Return the GPU-hours and hours of a job of mean size on some `ClassPlan.paths`."""
    cost = time = 0.0
    for share, rows in paths:
        at = np.searchsorted(job_class.widths, [row.width for row in rows])
        run_h = job_class.work_h / job_class.speedup[np.arange(at.size), at]
        hours = run_h + job_class.rescale_h * (np.diff(at, prepend=-1) != 0)
        time += share * float(hours.sum())
        cost += share * float(np.dot(job_class.slopes[at], hours))
    return cost, time


def _best_s(classes: Sequence[JobClass], gpus: float) -> float:
    """Return the least mean completion time on some GPUs, whatever the caps and bounds."""
    free = [replace(c, cap_h=float("inf"), slower=float("inf")) for c in classes]
    frontier = solve_frontier(free)
    return float(np.interp(gpus, frontier.budgets, frontier.mean_jct_s))
