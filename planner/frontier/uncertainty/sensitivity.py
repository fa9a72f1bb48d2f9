"""How the budgets of a plan depend on speedups that nobody measured.

With wrong speedups: the true gain of a job from further GPUs, s(k) - 1, is assumed to be larger or
smaller by a share x in every epoch, s'(k) = 1 + (s(k) - 1)(1 +- x). Measurements stay as they are:
durations on the GPUs held, hence a job that ran on g GPUs has s'(g) / s(g) times the work; work
that comes from a profile does not change.

With another law: the same jobs are planned again with other common speedup laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.errors import InfeasibleError, UsageError
from gpuplan.analysis.trace import Trace
from gpuplan.planner.frontier.model.class_options import ClassOptions
from gpuplan.planner.frontier.model.exact import Frontier, JobClass, solve_frontier
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.job_classes import ClassWorkload, workload_of
from gpuplan.planner.frontier.model.paths import time_per_work
from gpuplan.planner.frontier.model.plan import Assignment, Plan
from gpuplan.planner.frontier.replay.renting import within_cluster
from gpuplan.planner.frontier.study import FrontierStudy, Point
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel
from gpuplan.planner.speedup.registry import load_speedup
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


@dataclass(frozen=True, slots=True)
class SpeedupSensitivity:
    """A plan under speedups that err up and down; made by `speedup_sensitivity`.

    Attributes:
        plan: the plan.
        error: share by which the gains differ.
        rows: all classes less and more, then one class after another.
        worst_jct_s: mean completion time where each class errs in the way that is worse for it.
        worst_gpus: GPUs used on average where each class errs in the way that uses more.
    """

    plan: Plan
    error: float
    rows: tuple[SpeedupError, ...]
    worst_jct_s: float
    worst_gpus: float

    @property
    def worst_class(self) -> SpeedupError:
        """The class with the most expensive error."""
        return max(self.rows[2:], key=lambda row: row.mean_jct_s)

    def summary(self) -> dict[str, Any]:
        """Return the results of the JSON output; keys are stable and carry their unit."""
        return {
            "error": self.error,
            "planned_mean_jct_s": self.plan.mean_jct_s,
            "planned_used_gpus": self.plan.used_gpus,
            "all_less": asdict(self.rows[0]),
            "all_more": asdict(self.rows[1]),
            "worst_class": asdict(self.worst_class),
            "worst_mean_jct_s": self.worst_jct_s,
            "worst_used_gpus": self.worst_gpus,
        }

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
        raise UsageError("the plan rents several GPU types; an error is taken on one type only")
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
        plan=plan,
        error=error,
        rows=tuple(rows),
        worst_jct_s=HOUR_S * worst_hours / float(rate.sum()),
        worst_gpus=worst_gpus,
    )


def _with_error(workload: ClassWorkload, index: int, error: float) -> JobClass:
    """Return a class as it is if its gain from further GPUs differs by a share."""
    assumed = workload.classes[index]
    others = assumed.other_speedup
    true = replace(
        assumed,
        speedup=_off(assumed.speedup, error),
        other_speedup=None if others is None else _off(others, error),
    )
    arrivals = workload.arrivals
    if arrivals is None or assumed.name in workload.sized_by_profile or not assumed.load_gpus:
        return true
    mine = arrivals.job_class == index
    gpus, work_h = arrivals.gpus[mine], arrivals.work_h[mine]
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
    """Return the least mean completion time on some GPUs, whatever the caps."""
    frontier = solve_frontier([replace(c, cap_h=float("inf")) for c in classes])
    return float(np.interp(gpus, frontier.budget_gpus, frontier.mean_jct_s))


ENDS = ("power:0.6", "power:0.9")
SAME_AT = 8.0  # GPUs on which the law of the other family is as fast


@dataclass(frozen=True, slots=True)
class OtherLaw:
    """A law and its optimum.

    Attributes:
        speedup: the law.
        frontier: the optimum at every budget.
    """

    speedup: SpeedupModel
    frontier: Frontier

    def jct_s(self, budget_gpus: float) -> float | None:
        """Return the least mean completion time at a budget; None if it is below the load."""
        if budget_gpus < self.frontier.min_budget * (1 - TOLERANCE):
            return None
        return self.frontier.mean_jct_at(budget_gpus)


@dataclass(frozen=True, slots=True)
class Laws:
    """The section of a study about other laws.

    Attributes:
        assumed: the law of the study.
        others: other laws.
        points: the points of the study to compare at: the requested ones, or the knee.
        notes: laws left out, and why.
    """

    assumed: OtherLaw
    others: tuple[OtherLaw, ...]
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "laws"

    def summary(self) -> list[dict[str, Any]]:
        """Return one entry per law; keys are stable and carry their unit."""
        return [
            {
                "name": one.speedup.name,
                "load_gpus": one.frontier.load_gpus,
                "min_budget_gpus": one.frontier.min_budget,
                "at": [
                    {
                        "requested": point.requested,
                        "budget_gpus": float(point.plan.budget_gpus),
                        "mean_jct_s": one.jct_s(point.plan.budget_gpus),
                    }
                    for point in self.points
                ],
            }
            for one in (self.assumed, *self.others)
        ]


def laws_of(study: FrontierStudy, trace: Trace, choices: ClassOptions) -> Laws:
    """Return the budgets of a study under other laws: power at two ends, and another family.

    Args:
        study: of a law of the same parameters for every job.
        trace: its jobs.
        choices: how it became a workload.

    Raises:
        ValueError: the speedups of the study are not a law.
    """
    law = study.speedup.law
    if law is None:
        raise ValueError(f"{study.speedup.name} is not a law")
    names = (*ENDS, other_family(study.speedup.name, law))
    others, notes = [], []
    for name in dict.fromkeys(names):
        if name == study.speedup.name:
            continue
        model = load_speedup(name)
        workload = workload_of(trace, model, within_cluster(choices, model, study.cluster))
        try:
            others.append(OtherLaw(model, solve_frontier(workload.classes)))
        except InfeasibleError as error:  # a time that a class must keep
            notes.append(
                f"no plan at all if jobs follow {name}: {str(error).partition(chr(10))[0]}"
            )
    points = study.points if study.by_request else (study.knee,)
    return Laws(OtherLaw(study.speedup, study.frontier), tuple(others), points, tuple(notes))


def other_family(name: str, law: ClassProfile) -> str:
    """Return the law of Amdahl, or for one of his a power, with the same s(`SAME_AT`)."""
    speedup = float(law.at(np.array([SAME_AT]))[0])
    if name.startswith("amdahl"):
        return f"power:{max(log(speedup) / log(SAME_AT), 1e-6):.4g}"
    serial_share = (SAME_AT / speedup - 1) / (SAME_AT - 1)
    return f"amdahl:{min(max(serial_share, 0.0), 1.0):.4g}"  # a law may be better than linear
