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

from gpuplan.analysis.errors import InfeasibleError
from gpuplan.planner.boa.frontier import JobClass
from gpuplan.planner.boa.hull import TOLERANCE
from gpuplan.planner.boa.methods.glue import Glue, all_glues, glue_chain
from gpuplan.planner.boa.methods.limits import refuse_caps, refuse_types
from gpuplan.planner.boa.methods.walk import Walks
from gpuplan.planner.boa.plan import Assignment, ClassPlan, Plan
from gpuplan.planner.boa.show import show_gpus

FloatArray = NDArray[np.float64]

ALL_BITS = 12  # up to 2 ** 12 configurations are all tried


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the rounded widths of one configuration meet a budget.

    Attributes:
        short_gpus: by how much the cheapest widths exceed the budget; 0 where some fit.
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

    def beats(self, other: _Found) -> bool:
        return (self.short_gpus, self.objective_h) < (other.short_gpus, other.objective_h)


class WidthCalculator:
    """The heuristic for some job classes.

    Every configuration is tried where there are at most 2 ** `ALL_BITS`. Else the search is local:
    from one width per class, each class in turn takes the best of its `glue_chain`, all other
    classes as they are, until none changes.

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
        """Whether every glue configuration is tried."""
        return self._bits <= ALL_BITS

    @property
    def searched(self) -> str:
        """Which configurations are tried, one phrase."""
        if self.is_exhaustive:
            return f"all {2**self._bits:,} glue configurations"
        return (
            f"of the 10^{self._bits * log10(2):.0f} glue configurations, those that a local search "
            "by class meets: one for each number of stretches, the most alike epochs glued first"
        )

    def at_budget(self, gpus: float) -> Plan:
        """Return the plan for a budget of average GPUs, rescaling included.

        Raises:
            InfeasibleError: no configuration tried keeps within the budget.
        """
        found = self._best(gpus)
        if found.short_gpus:
            raise InfeasibleError(
                f"a budget of {gpus:g} GPUs leaves the Width Calculator no room to rescale: the "
                f"least it found is {show_gpus(gpus + found.short_gpus)} GPUs on average"
            )
        return Plan(
            budget_gpus=gpus,
            load_gpus=sum(c.load_gpus for c in self.classes),
            multiplier=found.multiplier,
            classes=[
                self._class_plan(i, glue, steps)
                for i, (glue, steps) in enumerate(zip(found.glues, found.steps, strict=True))
            ],
        )

    def _best(self, gpus: float) -> _Found:
        if self.is_exhaustive:
            every = product(*(all_glues(c.work_h.size) for c in self.classes))
            best = self._try(next(every), gpus)
            for glues in every:
                found = self._try(glues, gpus)
                best = found if found.beats(best) else best
            return best
        best = self._try(tuple((0,) for _ in self.classes), gpus)
        changed = True
        while changed:
            changed = False
            for i, chain in enumerate(self._chains):
                for glue in chain:
                    found = self._try((*best.glues[:i], glue, *best.glues[i + 1 :]), gpus)
                    if found.beats(best):
                        best, changed = found, True
        return best

    def _try(self, glues: tuple[Glue, ...], gpus: float) -> _Found:
        """Lower the running budget of one configuration until its whole cost is within ``gpus``."""
        walks = [walks.under(glue) for walks, glue in zip(self._walks, glues, strict=True)]
        slope = np.concatenate([walk.slope for walk in walks])
        order = np.argsort(-slope, kind="stable")  # within a class, in its own order
        owner = np.repeat(np.arange(len(walks)), [walk.slope.size for walk in walks])[order]

        def along(factor: FloatArray, values: list[FloatArray]) -> FloatArray:
            steps = np.concatenate([np.diff(v) for v in values])[order]
            first = float(np.dot(factor, [v[0] for v in values]))
            return np.cumsum(np.append(first, factor[owner] * steps))

        cost = along(self._rate, [walk.cost_gpu_h for walk in walks])
        time = along(self._rate * self._weight, [walk.time_h for walk in walks])
        within = np.flatnonzero(cost <= gpus * (1 + TOLERANCE))
        at = int(within[-1]) if within.size else int(np.argmin(cost))
        return _Found(
            short_gpus=0.0 if within.size else float(cost[at] - gpus),
            objective_h=float(time[at]),
            glues=glues,
            steps=tuple(np.bincount(owner[:at], minlength=len(walks)).tolist()),
            multiplier=float(slope[order[at]]) if at < order.size else 0.0,
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
            cost_gpu_h=cost,
            time_h=time,
            rounded_cost_gpu_h=cost,
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
