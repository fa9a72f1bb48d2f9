"""What other laws of speedup say of the budgets of a study whose law nobody measured."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from gpuplan.analysis.errors import InfeasibleError
from gpuplan.analysis.trace import Trace
from gpuplan.planner.frontier.model.class_options import ClassOptions
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.job_classes import workload_of
from gpuplan.planner.frontier.replay.renting import within_cluster
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
    """

    speedup: SpeedupModel
    frontier: Frontier

    def jct_s(self, budget_gpus: float) -> float | None:
        """Return the least mean completion time at a budget; None where that cannot keep up."""
        if budget_gpus < self.frontier.min_budget * (1 - TOLERANCE):
            return None
        return self.frontier.mean_jct_at(budget_gpus)


@dataclass(frozen=True, slots=True)
class Laws:
    """The section of a study about other laws.

    Attributes:
        assumed: the law of the study.
        others: other laws.
        points: the points of the study to compare at: those asked for, or the knee.
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
    """Return what other laws say of a study: power at two ends, and one of another family.

    Args:
        study: of a law of the same parameters for every job.
        trace: its jobs.
        choices: how it became a workload.

    Raises:
        ValueError: the speedups of the study are no law.
    """
    law = study.speedup.law
    if law is None:
        raise ValueError(f"{study.speedup.name} is no law")
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
    return f"amdahl:{(SAME_AT / speedup - 1) / (SAME_AT - 1):.4g}"
