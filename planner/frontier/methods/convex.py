"""The convex program without rescaling, and what its plans cost once rescaling is paid for.

Source: BOA, problem (1). Each epoch gets the width that would be best if changes were free. The
program is solved by its dual: the frontier with r = 0 (docs/boa.md). Workloads that it cannot plan
are refused first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.planner.frontier.model.hull import NO_SHARE, TOLERANCE, ClassHull, total_along
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.simkit.time import HOUR_S


def refuse_caps(classes: Sequence[JobClass], method: str) -> None:
    """Raise `UsageError` where a class has a cap on its mean time, which only ``exact`` keeps."""
    if any(c.is_bounded for c in classes):
        raise UsageError(
            f"--method {method} does not support --slower\n"
            "  next: --method exact, or leave out --slower"
        )
    capped = [c.name for c in classes if c.cap_h < float("inf")]
    if capped:
        raise UsageError(
            f"--method {method} does not support --require, set for {capped[0]}\n"
            "  next: --method exact, or leave out --require"
        )


def refuse_types(classes: Sequence[JobClass], method: str) -> None:
    """Raise `UsageError` where a class may choose among several GPU types."""
    if any(len(set(c.gpu_types)) > 1 for c in classes):
        raise UsageError(
            f"--method {method} plans one GPU type, and here are several\n  next: --method exact"
        )


@dataclass(frozen=True, slots=True)
class ConvexProgram:
    """The optima without rescaling, and the same plans charged for it; made by `solve_convex`.

    Attributes:
        free: the frontier without rescaling: budgets are *running* budgets.
        charged: the same vertices and paths with rescaling; neither its budgets nor its times need
            be in order.
    """

    free: Frontier
    charged: Frontier

    def at_budget(self, gpus: float) -> Plan:
        """Return the plan of the largest running budget that costs at most ``gpus``, rescaled.

        The cost moves along straight lines between the vertices, up or down, since on an edge only
        the share of one class' jobs on the second of two paths changes.

        Raises:
            InfeasibleError: no running budget leaves enough for its rescaling.
        """
        cost = self.charged.budgets
        within = np.flatnonzero(cost <= gpus * (1 + TOLERANCE))
        if not within.size:
            raise InfeasibleError(
                f"a budget of {gpus:g} GPUs leaves the convex program no room to rescale: the "
                f"least it can keep is {show_gpus(float(cost.min()))} GPUs on average"
            )
        edge = int(within[-1])
        if edge == cost.size - 1:
            return self.charged.plan_at(gpus, edge, 0.0)
        share = min(1.0, max(0.0, float((gpus - cost[edge]) / (cost[edge + 1] - cost[edge]))))
        return self.charged.plan_at(gpus, edge, share if share > NO_SHARE else 0.0)

    def unaware(self, gpus: float) -> Plan:
        """Return the plan that spends all of ``gpus`` on running, as it turns out.

        What the convex program alone would do: its `Plan.used` is over the budget by what
        the rescaling costs.

        Raises:
            InfeasibleError: the budget is below the load on the narrowest useful widths.
        """
        return self.charged.plan_at(gpus, *self.free.place_of(gpus))


def solve_convex(classes: Sequence[JobClass]) -> ConvexProgram:
    """Solve problem (1) at every running budget, and charge its plans for rescaling.

    Raises:
        UsageError: a class has a cap on its mean time.
    """
    refuse_caps(classes, "convex")
    free = solve_frontier([replace(c, rescale_h=0.0) for c in classes])
    hulls = tuple(_charged(c, hull) for c, hull in zip(classes, free.hulls, strict=True))
    rate = np.array([c.rate_per_h for c in classes])
    weight = np.array([c.weight for c in classes])
    cost, time = (
        total_along(free.edge_class, rate, [getattr(hull, axis) for hull in hulls])
        for axis in ("cost", "time_h")
    )
    weighted = total_along(free.edge_class, rate * weight, [hull.time_h for hull in hulls])
    charged = replace(
        free,
        classes=tuple(classes),
        hulls=hulls,
        budgets=cost,
        mean_jct_s=HOUR_S * time / rate.sum(),
        objective_s=HOUR_S * weighted / np.dot(rate, weight),
    )
    return ConvexProgram(free, charged)


def _charged(job_class: JobClass, hull: ClassHull) -> ClassHull:
    """Return the vertices of a class with the start and every change of width paid for."""
    starts = np.diff(hull.paths, axis=1, prepend=-1) != 0
    hours = job_class.rescale_h * starts
    return ClassHull(
        cost=hull.cost + (hours * job_class.slopes[hull.paths]).sum(axis=1),
        time_h=hull.time_h + hours.sum(axis=1),
        paths=hull.paths,
    )
