"""The plans of a study if jobs follow another speedup law than the one assumed.

The same jobs are planned again with other common laws; the plan for one budget is replayed too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.elastic.candidates import within_cluster
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import workload_of
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.points import least_mean_jct_s
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.frontier.study import FrontierStudy
from gpuplan.planner.speedup.model import ClassProfile
from gpuplan.planner.speedup.registry import load_speedup

ENDS = ("power:0.6", "power:0.9")
SAME_AT = 8.0  # GPUs on which the law of the other family is as fast


@dataclass(frozen=True, slots=True)
class LawReplay:
    """A replay under one speedup law.

    Attributes:
        budget_gpus: average GPUs.
        mean_jct_s: in the replay; null without one, or if the budget is too small for the law.
    """

    budget_gpus: float
    mean_jct_s: float | None


@dataclass(frozen=True, slots=True)
class LawPoint:
    """The optimum of one speedup law at one budget.

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
    """The optimum if jobs follow one speedup law.

    Attributes:
        name: of the law.
        load_gpus: GPUs in use if every job runs on one.
        min_budget_gpus: least average GPUs that can sustain the arrivals.
        replayed: the replay of this law's plan for the budget shown first.
        at: the optimum at the requested budgets, or at the knee.
        frontier: the optimum at every budget.
    """

    name: str
    load_gpus: float
    min_budget_gpus: float
    replayed: LawReplay
    at: tuple[LawPoint, ...]
    frontier: Hidden[Frontier]


@dataclass(frozen=True, slots=True)
class Laws:
    """The section of a study about other laws.

    Attributes:
        laws: the assumed one, then the others.
        notes: laws left out, and why.
    """

    laws: tuple[LawResults, ...]
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Its name among the results."""
        return "laws"

    def results(self) -> tuple[LawResults, ...]:
        """Return one entry per law, the assumed one first."""
        return self.laws


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
    shown, notes = study.shown, []
    replay = None if shown.replayed is None else shown.replayed.mean_jct_s
    laws = [_law(study, study.speedup.name, study.frontier, replay)]
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
        replayed_s, budget = None, shown.plan.budget
        if study.cluster is not None and frontier.is_enough(budget):
            plan = frontier.at_budget(budget)
            replayed_s = replay_plan(workload, plan, study.cluster).mean_jct_s
        laws.append(_law(study, model.name, frontier, replayed_s))
    return Laws(tuple(laws), tuple(notes))


def _law(
    study: FrontierStudy, name: str, frontier: Frontier, replayed_jct_s: float | None
) -> LawResults:
    """Return the optimum of a law at the budgets of a study."""
    points = study.points if study.by_request else (study.knee,)
    budgets = [(point.requested, float(point.plan.budget)) for point in points]
    return LawResults(
        name=name,
        load_gpus=frontier.load_gpus,
        min_budget_gpus=frontier.min_budget,
        replayed=LawReplay(float(study.shown.plan.budget), replayed_jct_s),
        at=tuple(
            LawPoint(requested, budget, least_mean_jct_s(frontier, budget))
            for requested, budget in budgets
        ),
        frontier=frontier,
    )


def other_family(name: str, law: ClassProfile) -> str:
    """Return the law of Amdahl, or for one of his a power, with the same s(`SAME_AT`)."""
    speedup = float(law.at(np.array([SAME_AT]))[0])
    if name.startswith("amdahl"):
        return f"power:{max(log(speedup) / log(SAME_AT), 1e-6):.4g}"
    serial_share = (SAME_AT / speedup - 1) / (SAME_AT - 1)
    return f"amdahl:{min(max(serial_share, 0.0), 1.0):.4g}"  # a law may be better than linear
