"""Time and cost of a class under one glue configuration as its running budget grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.methods.glue import Glue
from gpuplan.planner.frontier.model.extreme_points import class_hull
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.jit import kernel


@dataclass(frozen=True, slots=True)
class Walk:
    """The integer widths that rounding passes through, from the least running budget to the most.

    Attributes:
        slope: weighted hours saved per GPU-hour along the hull edge of each step, descending, as
            without rescaling; shape (S,).
        cost_gpu_h: GPU-hours of a job before and after each step, rescaling included; (S + 1,).
        time_h: its hours, likewise; shape (S + 1,).
        start: candidate width of each stretch before the first step; shape (G,).
        stretch: stretch that changes in each step; shape (S,).
        to: candidate width it changes to; shape (S,).
    """

    slope: FloatArray
    cost_gpu_h: FloatArray
    time_h: FloatArray
    start: IntArray
    stretch: IntArray
    to: IntArray

    def widths_after(self, steps: int) -> IntArray:
        """Return the candidate width of each stretch after some steps."""
        at = self.start.copy()
        at[self.stretch[:steps]] = self.to[:steps]  # the last of several steps of a stretch
        return at


class Walks:
    """The walks of one class under any configuration, cached."""

    def __init__(self, job_class: JobClass) -> None:
        self.job_class = job_class
        run_h = job_class.work_h[:, None] / job_class.speedup
        self._before_h = np.concatenate([np.zeros((1, run_h.shape[1])), np.cumsum(run_h, axis=0)])
        self._edges: dict[tuple[int, int], tuple[FloatArray, IntArray]] = {}
        self._walks: dict[Glue, Walk] = {}

    def under(self, glue: Glue) -> Walk:
        """Return the walk under a configuration."""
        if glue not in self._walks:
            self._walks[glue] = self._walk(glue)
        return self._walks[glue]

    def _walk(self, glue: Glue) -> Walk:
        ends = (*glue[1:], self.job_class.work_h.size)
        edges = [self._edges_of(a, b) for a, b in zip(glue, ends, strict=True)]
        slope = np.concatenate([slope for slope, _ in edges])
        to = np.concatenate([passed[1:] for _, passed in edges])
        stretch = np.repeat(np.arange(len(glue)), [slope.size for slope, _ in edges])
        order = np.argsort(-slope, kind="stable")
        start = np.array([passed[0] for _, passed in edges])
        cost, time = np.empty(slope.size + 1), np.empty(slope.size + 1)
        slopes = np.ascontiguousarray(self.job_class.slopes)
        run_h = self._before_h[list(ends)] - self._before_h[list(glue)]
        rescale_h = self.job_class.rescale_h
        _walk(run_h, slopes, rescale_h, start.copy(), stretch[order], to[order], cost, time)
        return Walk(slope[order], cost, time, start, stretch[order], to[order])

    def _edges_of(self, first: int, end: int) -> tuple[FloatArray, IntArray]:
        """Return the slope of each step of one stretch, and the widths from first to last.

        The hull of a stretch without rescaling is that of its speedup, the work-weighted harmonic
        mean of its epochs', the speedup of one width for all of them. A width between two vertices
        lies on their edge, and rounding passes through all of them.
        """
        if (first, end) not in self._edges:
            run_h = self._before_h[end] - self._before_h[first]
            slopes = np.ascontiguousarray(self.job_class.slopes)
            cost, time, paths = class_hull(run_h[None], (run_h * slopes)[None], slopes, 0.0)
            vertices = paths[:, 0].astype(np.int64)
            slope = self.job_class.weight * -np.diff(time) / np.diff(cost)
            passed = np.arange(vertices[0], vertices[-1] + 1)
            self._edges[first, end] = np.repeat(slope, np.diff(vertices)), passed
        return self._edges[first, end]


@kernel
def _walk(
    run_h: FloatArray,
    slopes: FloatArray,
    rescale_h: float,
    at: IntArray,
    stretch: IntArray,
    to: IntArray,
    cost: FloatArray,
    time: FloatArray,
) -> None:
    """Fill ``cost`` and ``time`` (S + 1,) with the totals of a job before and after each step.

    Stretch g at candidate v runs run_h[g, v] hours at slopes[v] per hour; its start, where it is
    the first or differs from the one before, takes rescale_h hours more. ``at`` (G,) holds the
    candidates before the first step, and is overwritten.
    """
    c = 0.0
    t = 0.0
    for g in range(at.size):
        hours = run_h[g, at[g]]
        if g == 0 or at[g] != at[g - 1]:
            hours += rescale_h
        c += hours * slopes[at[g]]
        t += hours
    cost[0] = c
    time[0] = t
    for step in range(to.size):
        g = stretch[step]
        for sign in (-1.0, 1.0):
            v = at[g]
            hours = run_h[g, v]
            if g == 0 or v != at[g - 1]:
                hours += rescale_h
            c += sign * hours * slopes[v]
            t += sign * hours
            if g + 1 < at.size and at[g + 1] != v:
                c += sign * rescale_h * slopes[at[g + 1]]
                t += sign * rescale_h
            at[g] = to[step]
        cost[step + 1] = c
        time[step + 1] = t


@kernel
def meet(
    slope: FloatArray,
    cost: FloatArray,
    time: FloatArray,
    other_slope: FloatArray,
    other_cost: FloatArray,
    other_time: FloatArray,
    budget: float,
) -> tuple[float, float]:
    """Merge the steps of two walks by slope, and find the last point within a budget.

    Slopes have the shape (S,), descending, costs and times (S + 1,). Returns 0 and the time there;
    where no point is within the budget, the least excess and the time at it.
    """
    time_within = -1.0
    least = np.inf
    time_at_least = np.inf
    i = 0
    j = 0
    while True:
        c = cost[i] + other_cost[j]
        t = time[i] + other_time[j]
        if c <= budget:
            time_within = t
        if c < least:
            least = c
            time_at_least = t
        if i < slope.size and (j == other_slope.size or slope[i] >= other_slope[j]):
            i += 1
        elif j < other_slope.size:
            j += 1
        else:
            break
    if time_within >= 0:
        return 0.0, time_within
    return least - budget, time_at_least
