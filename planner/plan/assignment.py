"""From shares of classes to the route of each job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.planner.plan.columns import RouteColumns, paths_of
from gpuplan.simkit.apportion import apportion
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

LEAST_SHARE = 1e-6
"""Smaller shares are 0."""


@dataclass(frozen=True, slots=True)
class AssignedJobs:
    """The route of each job, and what it holds there; arrays of the jobs of the plan, shape (n,).

    Attributes:
        column: of the route in `RouteColumns`; -1 for a deferred job.
        fits: whether the route takes the job; one that it does not take runs as recorded.
        time_s, pool_from_s, pool_gpus, outside_s, tau_s: as in `JobPaths`.
    """

    column: IntArray
    fits: BoolArray
    time_s: FloatArray
    pool_from_s: FloatArray
    pool_gpus: FloatArray
    outside_s: FloatArray
    tau_s: FloatArray


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
    fits = np.zeros(size, bool)
    time_s, pool_gpus = jobs.run_s.copy(), jobs.gpus.copy()
    pool_from_s, outside_s = np.zeros((2, size))
    tau_s = np.full(size, np.inf)
    markets = dict(zip(columns.types, columns.markets, strict=True))
    for number, planned in enumerate(columns.classes):
        routes = np.flatnonzero(columns.class_of == number)
        chosen = routes[apportion(share[routes], planned.jobs.size)]
        column[planned.jobs] = chosen
        market = markets[planned.gpu_type]
        paths = dict(paths_of(jobs, planned, market, columns.speedup, columns.settings))
        for route in np.unique(chosen).tolist():
            path = paths[columns.routes[route]]
            is_taken = chosen == route
            rows = planned.jobs[is_taken]
            fits[rows], time_s[rows] = path.fits[is_taken], path.time_s[is_taken]
            pool_from_s[rows], pool_gpus[rows] = (
                path.pool_from_s[is_taken],
                path.pool_gpus[is_taken],
            )
            outside_s[rows], tau_s[rows] = path.outside_s[is_taken], path.tau_s[is_taken]
    return AssignedJobs(column, fits, time_s, pool_from_s, pool_gpus, outside_s, tau_s)
