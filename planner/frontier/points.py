"""Plans for some budgets, in GPUs on one type or in dollars an hour on several."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Generic, Protocol, TypeVar

from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.speedup.model import SpeedupModel


class BudgetedPlan(Protocol):
    """A plan within a budget."""

    @property
    def budget(self) -> float:
        """What it may take on average: GPUs, or dollars an hour on several GPU types."""


P = TypeVar("P", bound=BudgetedPlan)
Replayed = TypeVar("Replayed")
Within = TypeVar("Within")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class BudgetPoint(Generic[P, Replayed, Within]):
    """The plan for one of the requested budgets.

    Attributes:
        plan: the plan.
        target_jct_s: the mean completion time it is the least budget for; None where the budget
            itself was requested.
        replayed: the plan replayed; None without a replay.
        inside: the best smaller budget with a replay within this one; None if this one was not
            requested, its own replay keeps it, or no budget does.
        requested: the budget or completion time as requested; None for a sweep of the frontier.
    """

    plan: P
    target_jct_s: float | None = None
    replayed: Replayed | None = None
    inside: Within | None = None
    requested: str | None = None


Pt = TypeVar("Pt", bound=BudgetPoint[Any, Any, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStudy(Generic[F, Pt]):
    """A frontier and the requested points, on one GPU type or on several.

    Attributes:
        workload: the job classes of the trace.
        speedup: the speedups assumed or measured.
        frontier: the optimum at every budget.
        points: by budget, ascending.
        knee: the optimal plan where the frontier bends most, and its replay.
        by_request: whether the points were requested, and are not a sweep of the frontier.
        cluster: how GPUs of each type were rented in the replays; None without replays.
        notes: caveats for readers of the plans.
        today: what the log shows; None if no job has a run time and GPUs.
    """

    workload: ClassWorkload
    speedup: SpeedupModel
    frontier: F
    points: tuple[Pt, ...]
    knee: Pt
    by_request: bool = True
    cluster: RentedCluster | None = None
    notes: tuple[str, ...] = ()
    today: Today | None = None

    @property
    def now_gpus(self) -> float | None:
        """Today's GPU-hours over the hours in which jobs arrive: the base of budgets and loads."""
        return None if self.today is None else self.today.at_arrival_rate().usage.mean_gpus

    @property
    def shown(self) -> Pt:
        """The point to show first: the requested one closest to the knee, or the knee."""
        if not self.by_request and len(self.points) > 1:
            return self.knee
        at = self.knee.plan.budget
        return min(self.points, key=lambda point: abs(log(point.plan.budget / at)))
