"""The plans of a study if jobs follow another speedup law than the one assumed.

The same jobs are planned again with other common laws; the plan for one budget is replayed too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.frontier.model.class_options import ClassOptions
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.job_classes import workload_of
from gpuplan.planner.frontier.replay.renting import within_cluster
from gpuplan.planner.frontier.replay.replay import replay_plan
from gpuplan.planner.frontier.study import FrontierStudy, Point
from gpuplan.planner.speedup.model import ClassProfile, SpeedupModel
from gpuplan.planner.speedup.registry import load_speedup

ENDS = ("power:0.6", "power:0.9")
SAME_AT = 8.0  # GPUs on which the law of the other family is as fast


@dataclass(frozen=True, slots=True)
class OtherLaw:
    """A law and its optimum.

    Attributes:
        speedup: the law.
        frontier: the optimum at every budget.
        replayed_jct_s: mean completion time in the replay of its plan for the budget shown first;
            None without replays, or if that budget cannot keep up.
    """

    speedup: SpeedupModel
    frontier: Frontier
    replayed_jct_s: float | None = None

    def jct_s(self, budget_gpus: float) -> float | None:
        """Return the least mean completion time at a budget; None if it is below the load."""
        if budget_gpus < self.frontier.min_budget * (1 - TOLERANCE):
            return None
        return self.frontier.mean_jct_at(budget_gpus)


@dataclass(frozen=True, slots=True)
class LawReplay:
    """A replay under one speedup law, as JSON has it.

    Attributes:
        budget_gpus: average GPUs.
        mean_jct_s: in the replay; null without one, or if the budget is too small for the law.
    """

    budget_gpus: float
    mean_jct_s: float | None


@dataclass(frozen=True, slots=True)
class LawPoint:
    """The optimum of one speedup law at one budget, as JSON has it.

    Attributes:
        requested: the budget as requested; null for the knee of a sweep.
        budget_gpus: average GPUs.
        mean_jct_s: of the optimal plan; null if the budget is too small for the law.
    """

    requested: str | None
    budget_gpus: float
    mean_jct_s: float | None


@dataclass(frozen=True, slots=True)
class LawResults:
    """The optimum if jobs follow one speedup law, as JSON has it.

    Attributes:
        name: of the law.
        load_gpus: GPUs in use if every job runs on one.
        min_budget_gpus: least average GPUs that can sustain the arrivals.
        replayed: the replay of this law's plan for the budget shown first.
        at: the optimum at the requested budgets, or at the knee.
    """

    name: str
    load_gpus: float
    min_budget_gpus: float
    replayed: LawReplay
    at: tuple[LawPoint, ...]


@dataclass(frozen=True, slots=True)
class Laws:
    """The section of a study about other laws.

    Attributes:
        assumed: the law of the study.
        others: other laws.
        points: the points of the study to compare at: the requested ones, or the knee.
        shown: the point shown first, whose budget is replayed under every law.
        notes: laws left out, and why.
    """

    assumed: OtherLaw
    others: tuple[OtherLaw, ...]
    points: tuple[Point, ...]
    shown: Point
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "laws"

    def results(self) -> tuple[LawResults, ...]:
        """Return one entry per law as JSON has it, the assumed one first."""
        shown = float(self.shown.plan.budget_gpus)
        return tuple(
            LawResults(
                name=one.speedup.name,
                load_gpus=one.frontier.load_gpus,
                min_budget_gpus=one.frontier.min_budget,
                replayed=LawReplay(shown, one.replayed_jct_s),
                at=tuple(
                    LawPoint(point.requested, float(budget), one.jct_s(budget))
                    for point in self.points
                    for budget in (point.plan.budget_gpus,)
                ),
            )
            for one in (self.assumed, *self.others)
        )


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
    others, notes, shown = [], [], study.shown
    for name in dict.fromkeys(names):
        if name == study.speedup.name:
            continue
        model = load_speedup(name)
        workload = workload_of(trace, model, within_cluster(choices, model, study.cluster))
        try:
            frontier = solve_frontier(workload.classes)
        except InfeasibleError as error:  # a time that a class must keep
            notes.append(
                f"no plan at all if jobs follow {name}: {str(error).partition(chr(10))[0]}"
            )
            continue
        replayed_s, budget = None, shown.plan.budget_gpus
        if study.cluster is not None and budget >= frontier.min_budget * (1 - TOLERANCE):
            plan = frontier.at_budget(budget)
            replayed_s = replay_plan(workload, plan, study.cluster).mean_jct_s
        others.append(OtherLaw(model, frontier, replayed_s))
    points = study.points if study.by_request else (study.knee,)
    replay = None if shown.replayed is None else shown.replayed.replay.mean_jct_s
    assumed = OtherLaw(study.speedup, study.frontier, replay)
    return Laws(assumed, tuple(others), points, shown, tuple(notes))


def other_family(name: str, law: ClassProfile) -> str:
    """Return the law of Amdahl, or for one of his a power, with the same s(`SAME_AT`)."""
    speedup = float(law.at(np.array([SAME_AT]))[0])
    if name.startswith("amdahl"):
        return f"power:{max(log(speedup) / log(SAME_AT), 1e-6):.4g}"
    serial_share = (SAME_AT / speedup - 1) / (SAME_AT - 1)
    return f"amdahl:{min(max(serial_share, 0.0), 1.0):.4g}"  # a law may be better than linear
