"""From shares of classes to the route of each job."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.routes import JobPaths
from gpuplan.simkit.apportion import apportion
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray, distinct

LEAST_SHARE = 1e-6
"""Smaller shares are 0."""


@dataclass(frozen=True, slots=True)
class AssignedJobs(JobPaths):
    """The route of each job, and what it holds there; arrays of the jobs of the plan, shape (n,).

    Attributes:
        column: of the route in `RouteColumns`; -1 for a deferred job.
        kind: of the route; empty for a deferred job.
    """

    column: IntArray
    kind: NDArray[np.str_]

    @property
    def mean_time_s(self) -> float:
        """Mean time of the jobs that are not deferred, without waits; 0 without any."""
        is_planned = self.column >= 0
        return float(self.time_s[is_planned].mean()) if is_planned.any() else 0.0

    def is_on(self, kind: str) -> BoolArray:
        """Return which jobs are on a route of a kind that takes them."""
        result: BoolArray = self.fits & (self.kind == kind)
        return result


def shares_of(columns: RouteColumns, share: FloatArray) -> FloatArray:
    """Return the shares without those that are too small to mean anything; they add up to 1."""
    kept = np.where(share < LEAST_SHARE, 0.0, share)
    total = np.bincount(columns.class_of, kept, len(columns.classes))
    result: FloatArray = kept / total[columns.class_of]
    return result


def assigned_jobs(columns: RouteColumns, share: FloatArray) -> AssignedJobs:
    """Return the route of each job, in order of submission by largest remainder in its class."""
    jobs, size = columns.jobs, columns.jobs.size
    share = shares_of(columns, share)
    column = np.full(size, -1)
    held = JobPaths(
        fits=np.zeros(size, bool),
        time_s=jobs.run_s.copy(),
        pool_from_s=np.zeros(size),
        pool_gpus=jobs.gpus.copy(),
        outside_s=np.zeros(size),
        tau_s=np.full(size, np.inf),
    )
    arrays = [array.name for array in fields(JobPaths)]
    for number, planned in enumerate(columns.classes):
        routes = np.flatnonzero(columns.class_of == number)
        chosen = routes[apportion(share[routes], planned.jobs.size)]
        column[planned.jobs] = chosen
        paths = dict(columns.paths_of(planned))
        for route in distinct(chosen).tolist():
            path, is_taken = paths[columns.routes[route]], chosen == route
            for name in arrays:
                getattr(held, name)[planned.jobs[is_taken]] = getattr(path, name)[is_taken]
    kinds = np.array([route.kind for route in columns.routes] or [""])
    kind = np.where(column >= 0, kinds[column], "")
    return AssignedJobs(**{name: getattr(held, name) for name in arrays}, column=column, kind=kind)
