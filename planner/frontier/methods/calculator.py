"""The paper's Width Calculator: a heuristic for budgets that pay for rescaling.

Source: BOA, section 4.3. Under a glue configuration every stretch of epochs has one width. The
convex program (1) is solved for a running budget, its widths are rounded to the nearest integers,
and the running budget is lowered until running and rescaling together cost no more than the budget.
The configuration with the least mean completion time wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import log10

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.methods.convex import refuse_caps, refuse_types
from gpuplan.planner.frontier.methods.glue import Glue, all_glues, glue_chain
from gpuplan.planner.frontier.methods.walk import Walks, meet
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.plan import Assignment, ClassPlan, Plan
from gpuplan.simkit.arrays import FloatArray

ALL_BITS = 12  # up to 2 ** 12 configurations are all evaluated


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the rounded widths of one configuration meet a budget.

    Attributes:
        short_gpus: excess of the cheapest widths over the budget; 0 if some fit.
        objective_h: weighted hours per hour of arrivals at the widths found.
        glues: the configuration, by class.
        steps: steps of each class' walk up to them.
        multiplier: slope of the next step.
    """

    short_gpus: float
    objective_h: float
    glues: tuple[Glue, ...]
    steps: tuple[int, ...]
    multiplier: float

    @property
    def rank(self) -> tuple[float, float]:
        """The sort key; the least is the best."""
        return self.short_gpus, self.objective_h


@dataclass(frozen=True, slots=True)
class _Merged:
    """The walks of all classes as one, their steps by slope.

    Attributes:
        slope: of each step, descending; shape (S,).
        owner: the class that takes it; shape (S,).
        cost_gpus: its contribution to the average GPUs; shape (S,).
        time_h: its contribution to the weighted hours per hour; shape (S,).
        first_gpus: average GPUs of each class before its first step; shape (n,).
        first_h: its weighted hours per hour there; shape (n,).
    """

    slope: FloatArray
    owner: NDArray[np.int64]
    cost_gpus: FloatArray
    time_h: FloatArray
    first_gpus: FloatArray
    first_h: FloatArray

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Return average GPUs and weighted hours per hour before and after each step."""
        gpus = np.cumsum(np.append(self.first_gpus.sum(), self.cost_gpus))
        return gpus, np.cumsum(np.append(self.first_h.sum(), self.time_h))

    def without(self, i: int) -> _Merged:
        """Return the walks of the other classes."""
        kept, other_steps = self.owner != i, np.arange(self.first_h.size) != i
        return _Merged(
            self.slope[kept],
            self.owner[kept],
            self.cost_gpus[kept],
            self.time_h[kept],
            self.first_gpus[other_steps],
            self.first_h[other_steps],
        )


class WidthCalculator:
    """The heuristic for some job classes.

    All configurations are evaluated if there are at most 2 ** `ALL_BITS`. Else the search is local:
    each class in turn takes the best of its `glue_chain`, all other classes as they are, until none
    changes; once from one width per class, once from one per epoch.

    Raises:
        UsageError: a class has a cap on its mean time, or several GPU types.
    """

    def __init__(self, classes: Sequence[JobClass]) -> None:
        refuse_caps(classes, "paper")
        refuse_types(classes, "paper")
        self.classes = tuple(classes)
        self._rate = np.array([c.rate_per_h for c in classes])
        self._weight = np.array([c.weight for c in classes])
        self._walks = [Walks(c) for c in classes]
        self._bits = sum(c.work_h.size - 1 for c in classes)
        self._chains = (
            [] if self.is_exhaustive else [glue_chain(c.work_h, c.speedup) for c in classes]
        )

    @property
    def is_exhaustive(self) -> bool:
        """Return whether every glue configuration is evaluated."""
        return self._bits <= ALL_BITS

    @property
    def searched(self) -> str:
        """The configurations evaluated, in one phrase."""
        if self.is_exhaustive:
            return f"all {2**self._bits:,} glue configurations"
        return (
            f"some of the 10^{self._bits * log10(2):.0f} glue configurations: a local search by "
            "class, which joins the most similar epochs first"
        )

    def at_budget(self, gpus: float) -> Plan:
        """Return the plan for a budget of average GPUs, rescaling included.

        Raises:
            InfeasibleError: no evaluated configuration fits the budget.
        """
        best = self._best(gpus)
        if best.short_gpus:
            raise InfeasibleError(
                f"a budget of {gpus:g} GPUs leaves the Width Calculator no room to rescale: the "
                f"least it found is {show_gpus(gpus + best.short_gpus)} GPUs on average"
            )
        return Plan(
            budget=gpus,
            load_gpus=sum(c.load_gpus for c in self.classes),
            multiplier=best.multiplier,
            classes=[
                self._class_plan(i, glue, steps)
                for i, (glue, steps) in enumerate(zip(best.glues, best.steps, strict=True))
            ],
        )

    def _best(self, gpus: float) -> _Found:
        if self.is_exhaustive:
            every = product(*(all_glues(c.work_h.size) for c in self.classes))
            meetings = (self._meet(glues, self._merge(glues), gpus) for glues in every)
        else:
            ends = (tuple(chain[end] for chain in self._chains) for end in (0, -1))
            meetings = (self._descend(glues, gpus) for glues in ends)
        return min(meetings, key=lambda meeting: meeting.rank)

    def _descend(self, glues: tuple[Glue, ...], gpus: float) -> _Found:
        """Change one class at a time until none gets better."""
        merged = self._merge(glues)
        best = self._meet(glues, merged, gpus)
        changed = True
        while changed:
            changed = False
            for i, chain in enumerate(self._chains):
                glue = self._best_of(i, chain, merged, gpus)
                glues = (*best.glues[:i], glue, *best.glues[i + 1 :])
                if glues == best.glues:
                    continue
                changed_walks = self._merge(glues)
                meeting = self._meet(glues, changed_walks, gpus)
                if meeting.rank < best.rank:
                    best, merged, changed = meeting, changed_walks, True
        return best

    def _best_of(self, i: int, chain: list[Glue], merged: _Merged, gpus: float) -> Glue:
        """Return the configuration of one class that is best with all others as they are."""
        if len(chain) == 1:
            return chain[0]
        other_classes = merged.without(i)
        cost, time = other_classes.totals()
        rate, weight = self._rate[i], self._weight[i]
        limit = gpus * (1 + TOLERANCE)

        def result(glue: Glue) -> tuple[float, float]:
            walk = self._walks[i].under(glue)
            own_cost, own_time = rate * walk.cost_gpu_h, rate * weight * walk.time_h
            return meet(walk.slope, own_cost, own_time, other_classes.slope, cost, time, limit)

        return min(chain, key=result)

    def _merge(self, glues: tuple[Glue, ...]) -> _Merged:
        walks = [walks.under(glue) for walks, glue in zip(self._walks, glues, strict=True)]
        slope = np.concatenate([walk.slope for walk in walks])
        order = np.argsort(-slope, kind="stable")  # within a class, in its own order
        owner = np.repeat(np.arange(len(walks)), [walk.slope.size for walk in walks])[order]
        cost = np.concatenate([np.diff(walk.cost_gpu_h) for walk in walks])[order]
        time = np.concatenate([np.diff(walk.time_h) for walk in walks])[order]
        weighted = self._rate * self._weight
        return _Merged(
            slope=slope[order],
            owner=owner,
            cost_gpus=self._rate[owner] * cost,
            time_h=weighted[owner] * time,
            first_gpus=self._rate * np.array([walk.cost_gpu_h[0] for walk in walks]),
            first_h=weighted * np.array([walk.time_h[0] for walk in walks]),
        )

    def _meet(self, glues: tuple[Glue, ...], merged: _Merged, gpus: float) -> _Found:
        """Lower the running budget of one configuration until its whole cost is within ``gpus``."""
        cost, time = merged.totals()
        within = np.flatnonzero(cost <= gpus * (1 + TOLERANCE))
        at = int(within[-1]) if within.size else int(np.argmin(cost))
        return _Found(
            short_gpus=0.0 if within.size else float(cost[at] - gpus),
            objective_h=float(time[at]),
            glues=glues,
            steps=tuple(np.bincount(merged.owner[:at], minlength=len(glues)).tolist()),
            multiplier=float(merged.slope[at]) if at < merged.slope.size else 0.0,
        )

    def _class_plan(self, i: int, glue: Glue, steps: int) -> ClassPlan:
        job_class, walk = self.classes[i], self._walks[i].under(glue)
        lengths = np.diff([*glue, job_class.work_h.size])
        path = np.repeat(walk.widths_after(steps), lengths).tolist()
        types = job_class.gpu_types
        cost, time = float(walk.cost_gpu_h[steps]), float(walk.time_h[steps])
        return ClassPlan(
            job_class=job_class.name,
            rate_per_h=job_class.rate_per_h,
            weight=job_class.weight,
            cost=cost,
            time_h=time,
            rounded_cost=cost,
            rounded_time_h=time,
            widths=tuple(
                Assignment(
                    job_class.name,
                    epoch,
                    float(job_class.widths[v]),
                    1.0,
                    gpu_type=types[v] if types else None,
                )
                for epoch, v in enumerate(path)
            ),
        )
