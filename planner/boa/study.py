"""The whole question of ``gpuplan pareto``: a trace, a speedup, some budgets, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.errors import InfeasibleError, UsageError
from gpuplan.analysis.trace import Trace
from gpuplan.planner.boa.frontier import Frontier, solve_frontier
from gpuplan.planner.boa.hull import TOLERANCE
from gpuplan.planner.boa.plan import Plan
from gpuplan.planner.boa.show import show_gpus
from gpuplan.planner.boa.workload import Choices, Workload, workload_of
from gpuplan.planner.speedup.model import SpeedupModel

MONTH_H = 730.0
SWEEP_POINTS = 8
SMALL_STEP = 0.1  # of the least budget; a larger step leaps over half the frontier
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget as asked for.

    Attributes:
        value: average GPUs, or multiples of the load.
        per_load: whether ``value`` counts in loads.
        usd_per_gpu: what a GPU costs in ``period`` where dollars were asked for; else 0.
        period: ``h`` or ``month``.
    """

    value: float
    per_load: bool = False
    usd_per_gpu: float = field(default=0.0, compare=False)
    period: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.value < float("inf"):
            raise UsageError(f"--budget must be above 0, got {self.value:g}")

    def gpus(self, load_gpus: float) -> float:
        """Return average GPUs, given the load."""
        return self.value * load_gpus if self.per_load else self.value

    def plan(self, frontier: Frontier) -> Plan:
        """Return the optimal plan for it.

        Raises:
            InfeasibleError: it is below the least; the message says so in the unit asked for.
        """
        gpus, least = self.gpus(frontier.load_gpus), frontier.min_budget
        try:
            return frontier.at_budget(gpus)
        except InfeasibleError as error:
            enough, asked = f"{show_gpus(least).replace(',', '')}gpu", ""
            if self.usd_per_gpu:
                usd = ceil(100 * float(enough[:-3]) * self.usd_per_gpu) / 100
                asked = f"${self.value * self.usd_per_gpu:,.2f}/{self.period}: "
                enough = f"'${usd:.2f}/{self.period}'"
            elif self.per_load:
                asked = f"{self.value:g}x: "
            raise InfeasibleError(
                f"{asked}{error}\n  next: raise --budget to at least {enough}"
            ) from error


@dataclass(frozen=True, slots=True)
class Point:
    """An optimal plan for one of the budgets asked for.

    Attributes:
        plan: the plan.
        ends_jct_s: mean completion time at the same budget, in GPUs, with the speedups at the two
            ends of the assumed range; None at an end where the budget cannot keep up.
        target_jct_s: the mean completion time it is the least budget for; None where the budget
            itself was asked for.
    """

    plan: Plan
    ends_jct_s: tuple[float | None, ...] = ()
    target_jct_s: float | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """A frontier and the points asked for.

    Attributes:
        workload: the job classes of the trace.
        speedup: the speedups assumed or measured.
        frontier: the optimum at every budget.
        ends: the frontiers at the two ends of a range of speedups; empty without a range.
        points: by budget, ascending.
        knee: the plan where the frontier bends most.
        price_usd_per_gpu_h: price of a GPU-hour; None where not given.
        by_request: whether the points were asked for, and are no sweep of the frontier.
    """

    workload: Workload
    speedup: SpeedupModel
    frontier: Frontier
    ends: tuple[Frontier, ...]
    points: tuple[Point, ...]
    knee: Plan
    price_usd_per_gpu_h: float | None = None
    by_request: bool = True

    @property
    def has_epochs(self) -> bool:
        """Whether some class has more than one epoch."""
        return any(c.work_h.size > 1 for c in self.frontier.classes)

    @property
    def shown(self) -> Plan:
        """The plan whose widths people see first: the only one asked for, else the knee."""
        return self.points[0].plan if len(self.points) == 1 else self.knee

    def step(self) -> str:
        """Return which of `steps` tells most: the dollars or the GPU, if small beside the least."""
        steps = self.steps(self.frontier.min_budget)
        wanted = "100_usd_month" if "100_usd_month" in steps else "gpu"
        return wanted if steps[wanted] <= SMALL_STEP * self.frontier.min_budget else "1pct"

    def steps(self, gpus: float) -> dict[str, float]:
        """Return the GPUs of each step up from a budget: one, a hundredth, $100 a month."""
        price = self.price_usd_per_gpu_h
        dollars = {} if price is None else {"100_usd_month": 100 / (price * MONTH_H)}
        return {"gpu": 1.0, "1pct": gpus / 100, **dollars}

    def usd_per_month(self, plan: Plan) -> float | None:
        """Return what the GPUs of a plan cost in a month of 730 hours."""
        price = self.price_usd_per_gpu_h
        return None if price is None else plan.used_gpus * price * MONTH_H

    def marginal_s_per_100_usd(self, plan: Plan) -> float | None:
        """Return the seconds of mean completion time that another $100 a month would save."""
        price = self.price_usd_per_gpu_h
        return None if price is None else plan.marginal_jct_s_per_gpu * 100 / (price * MONTH_H)

    def summary(self) -> dict[str, Any]:
        """Return the results of the JSON output; keys are stable and carry their unit."""
        frontier, workload = self.frontier, self.workload
        classes = frontier.classes
        ends = zip(self.speedup.ends or (), self.ends, strict=True)
        rate = frontier.rate_per_h
        return {
            "jobs": workload.jobs,
            "horizon_h": workload.horizon_h,
            "speedup": {"name": self.speedup.name, "origin": self.speedup.origin},
            "rescale": {
                "origin": workload.rescale_origin,
                "mean_s": 3600 * sum(c.rate_per_h * c.rescale_h for c in classes) / rate,
            },
            "price_usd_per_gpu_h": self.price_usd_per_gpu_h,
            "recorded": self.recorded(),
            "max_gpus_per_job": frontier.widest,
            "load_gpus": frontier.load_gpus,
            "min_budget_gpus": frontier.min_budget,
            "saturation_budget_gpus": frontier.saturation_budget,
            "max_mean_jct_s": float(frontier.mean_jct_s[0]),
            "least_mean_jct_s": float(frontier.mean_jct_s[-1]),
            "one_gpu_mean_jct_s": frontier.one_gpu_jct_s,
            "speedup_ends": [
                {
                    "name": model.name,
                    "load_gpus": end.load_gpus,
                    "min_budget_gpus": end.min_budget,
                    "saturation_budget_gpus": end.saturation_budget,
                }
                for model, end in ends
            ],
            "knee": self.row(Point(self.knee)),
            "points": [self.row(point) for point in self.points],
            "classes": [
                {
                    "job_class": c.name,
                    "jobs": c.jobs,
                    "arrivals_per_h": c.rate_per_h,
                    "mean_work_gpu_h": float(c.work_h.sum()),
                    "load_gpus": c.load_gpus,
                    "weight": c.weight,
                    "epochs": int(c.work_h.size),
                    "rescale_s": 3600 * c.rescale_h,
                }
                for c in classes
            ],
        }

    def recorded(self) -> dict[str, Any] | None:
        """Return how the jobs ran as recorded, and what the GPUs they held could give."""
        record = self.workload.record
        if record is None:
            return None
        return {
            "mean_run_s": record.mean_run_s,
            "mean_queue_s": record.mean_queue_s,
            "jobs_with_queue": record.queues,
            "mean_jct_s": record.mean_jct_s,
            "gpus": record.gpus,
            "best_mean_jct_s_at_these_gpus": _mean_jct_s(self.frontier, record.gpus),
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point, class, epoch and width."""
        return pl.concat([point.plan.to_frame() for point in self.points])

    def row(self, point: Point) -> dict[str, Any]:
        """Return all that is known about a point; keys are stable and carry their unit."""
        plan = point.plan
        row = plan.summary()
        row["budget_x_load"] = plan.budget_gpus / plan.load_gpus
        row["mean_jct_over_one_gpu"] = plan.mean_jct_s / self.frontier.one_gpu_jct_s
        for step, more in self.steps(plan.budget_gpus).items():
            row[f"next_{step}_saves_s"] = self.frontier.saved_s(plan.budget_gpus, more)
        if self.price_usd_per_gpu_h is not None:
            row["usd_per_month"] = self.usd_per_month(plan)
            row["marginal_jct_s_per_100_usd_month"] = self.marginal_s_per_100_usd(plan)
        if point.ends_jct_s:
            row["ends_mean_jct_s"] = list(point.ends_jct_s)
        row["target_jct_s"] = point.target_jct_s
        row["widths"] = [asdict(a) for a in plan.widths]
        return row


def study_frontier(
    trace: Trace,
    speedup: SpeedupModel,
    choices: Choices | None = None,
    *,
    budgets: Sequence[Budget] = (),
    targets_s: Sequence[float] = (),
    price_usd_per_gpu_h: float | None = None,
    progress: Progress | None = None,
) -> Study:
    """Find the frontier of a trace and the plans for some budgets or completion times.

    Args:
        trace: the jobs.
        speedup: how they scale; a range of parameters gives the frontiers at its ends too.
        choices: how the trace becomes a workload.
        budgets: budgets to plan for; without any and without targets, a sweep of 8 from the least
            to the saturating one, evenly spaced in ratio.
        targets_s: mean completion times to find the least budget for.
        price_usd_per_gpu_h: price of a GPU-hour.
        progress: called with the share of the frontiers done.

    Raises:
        InfeasibleError: a budget under the least, or a completion time under the least.
        InputError, UsageError: see `workload_of`.
    """
    workloads = [workload_of(trace, one, choices) for one in (speedup, *(speedup.ends or ()))]
    frontier, *ends = (
        solve_frontier(workload.classes, progress=_part(progress, position, len(workloads)))
        for position, workload in enumerate(workloads)
    )
    by_request = bool(budgets or targets_s)
    if not by_request:
        budgets = _sweep(frontier)
    plans: list[tuple[Plan, float | None]] = [(budget.plan(frontier), None) for budget in budgets]
    plans += [(frontier.at_target_jct(seconds), seconds) for seconds in targets_s]
    plans.sort(key=lambda asked: asked[0].budget_gpus)
    return Study(
        workload=workloads[0],
        speedup=speedup,
        frontier=frontier,
        ends=tuple(ends),
        points=tuple(
            Point(plan, tuple(_mean_jct_s(end, plan.budget_gpus) for end in ends), target_s)
            for plan, target_s in plans
        ),
        knee=frontier.knee(),
        price_usd_per_gpu_h=price_usd_per_gpu_h,
        by_request=by_request,
    )


def _part(progress: Progress | None, position: int, parts: int) -> Progress | None:
    """Return what turns the share done of one of some equal parts into that of the whole."""
    return None if progress is None else lambda share: progress((position + share) / parts)


def _sweep(frontier: Frontier) -> list[Budget]:
    low, high = frontier.min_budget, frontier.saturation_budget
    if high <= low:
        return [Budget(low)]
    return [Budget(float(gpus)) for gpus in np.geomspace(low, high, SWEEP_POINTS)]


def _mean_jct_s(frontier: Frontier, gpus: float) -> float | None:
    if gpus < frontier.min_budget * (1 - TOLERANCE):
        return None
    return frontier.at_budget(gpus).mean_jct_s
