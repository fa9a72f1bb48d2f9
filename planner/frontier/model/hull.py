"""The efficient choices of a class, also under a cap on its mean time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S

TOLERANCE = 1e-12  # relative; a budget or a cap this little under a vertex is the vertex, rounded
NO_SHARE = 1e-9  # of the jobs of a class: rounding, as where 2x the load is a vertex


@dataclass(frozen=True, slots=True)
class ClassHull:
    """Vertices of the lower convex hull of (cost, time) over all width paths of a class.

    Attributes:
        cost: of a job: its GPU-hours, or dollars (see `JobClass.cost_per_h`); ascending; (P,).
        time_h: hours of a job, descending; shape (P,).
        paths: index of the candidate width in each epoch; shape (P, J).
        mixed: share of the jobs of the first vertex that take the path of the second; above 0
            only where a cap on time falls between two vertices.
        is_capped: whether a cap removed some vertices.
    """

    cost: FloatArray
    time_h: FloatArray
    paths: NDArray[np.int32]
    mixed: float = 0.0
    is_capped: bool = False

    @property
    def is_split(self) -> bool:
        """Return whether the first vertex is a split of two paths."""
        return self.mixed > 0

    def share_of_next(self, vertex: int, along: float) -> float:
        """Return the share of the jobs on the next vertex' path, ``along`` the edge to it."""
        before = self.mixed if vertex == 0 else 0.0
        return before + (1 - before) * along


def capped(hull: ClassHull, cap_h: float, name: str) -> ClassHull:
    """Return the part of a hull with times of at most ``cap_h``.

    The mean time of a class moves along its hull as its jobs split over two neighbouring paths, so
    a cap cuts the hull where the time equals it; the rest is convex and still optimal.

    Raises:
        InfeasibleError: the quickest path takes longer; the message names ``name`` and its time.
    """
    first = int(np.searchsorted(-hull.time_h, -cap_h * (1 + TOLERANCE), side="left"))
    if first == 0:
        return hull
    if first == hull.time_h.size:
        least_s = ceil(36000 * float(hull.time_h[-1])) / 10  # the limit as shown must be feasible
        raise InfeasibleError(
            f"class {name!r} cannot take {HOUR_S * cap_h:,.1f} s or less on average: the least at "
            f"any budget is {least_s:,.1f} s\n"
            f"  next: a cap of at least {least_s:.1f}s, or more GPUs a job (--max-width, --limit)"
        )
    (slow, quick), (low, high) = (
        values[first - 1 : first + 1].tolist() for values in (hull.time_h, hull.cost)
    )
    share = (slow - cap_h) / (slow - quick)
    if share >= 1 - NO_SHARE:
        return ClassHull(hull.cost[first:], hull.time_h[first:], hull.paths[first:], is_capped=True)
    return ClassHull(
        cost=np.append(low + share * (high - low), hull.cost[first:]),
        time_h=np.append(cap_h, hull.time_h[first:]),
        paths=hull.paths[first - 1 :],
        mixed=share,
        is_capped=True,
    )


def total_along(
    edge_class: NDArray[np.int64], factor: FloatArray, values: Sequence[FloatArray]
) -> FloatArray:
    """Return the sum of factor x value over classes at each vertex of a frontier; shape (E + 1,).

    Args:
        edge_class: class that moves to its next vertex along each edge; shape (E,).
        factor: one per class.
        values: a value at each vertex of the hull of each class.
    """
    steps = np.empty(edge_class.size)
    steps[np.argsort(edge_class, kind="stable")] = np.concatenate([np.diff(v) for v in values])
    first = float(np.dot(factor, [v[0] for v in values]))
    return np.cumsum(np.append(first, factor[edge_class] * steps))
