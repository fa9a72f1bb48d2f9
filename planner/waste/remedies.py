"""Take the waste out of the jobs of a log: end idle jobs, shrink others, tighten time limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.twin.job_changes import limits_run
from gpuplan.planner.twin.site_changes import SiteChange, combined
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs

END, SHRINK, LIMITS = REMEDIES = ("end idle jobs", "shrink to GPUs in use", "tighten limits")
ALL = "all"
MOST_TIMES = 3.0
"""Times the run time, the most that a limit is once limits are tightened."""
LEAST_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class JobWaste:
    """What each job of a log could do without; arrays of shape (n,).

    Attributes:
        run_s: its run times together.
        cut_s: how much shorter they are where idle jobs are ended.
        idle_gpus: GPUs that it never used, besides others that it did use.
        loose: whether its time limit is over `MOST_TIMES` its run time.
    """

    run_s: FloatArray
    cut_s: FloatArray
    idle_gpus: IntArray
    loose: BoolArray

    def jobs_of(self, remedy: str) -> int:
        """Return how many jobs a remedy changes."""
        changed = {
            END: self.cut_s > 0,
            SHRINK: self.idle_gpus > 0,
            LIMITS: self.loose,
        }
        changed[ALL] = changed[END] | changed[SHRINK] | changed[LIMITS]
        return int(np.count_nonzero(changed[remedy]))

    @property
    def kept_share(self) -> FloatArray:
        """Share of each run that is left where idle jobs are ended."""
        some = np.maximum(self.run_s, 1e-9)
        kept: FloatArray = np.clip(1 - self.cut_s / some, 0, 1)
        return kept


def changed_workload(jobs: TraceJobs, waste: JobWaste, rows: IntArray, remedy: str) -> TraceJobs:
    """Return the jobs of a pool without waste.

    Args:
        jobs: of the pool.
        waste: of all jobs.
        rows: place of each job of the pool among all.
        remedy: one of `REMEDIES`, or `ALL`.
    """
    work = jobs.workload
    if remedy in (LIMITS, ALL) and jobs.limit_us is not None:
        most = np.maximum(MOST_TIMES * work.service_us, LEAST_LIMIT_S * MICROS).astype(np.int64)
        jobs = replace(jobs, limit_us=np.minimum(jobs.limit_us, most))
    if remedy in (END, ALL):
        kept = waste.kept_share[rows]
        work = replace(work, service_us=np.round(work.service_us * kept).astype(np.int64))
    if remedy in (SHRINK, ALL):
        idle = np.minimum(waste.idle_gpus[rows], work.gpus - 1)
        gpus = work.gpus - idle
        work = replace(work, gpus=gpus, billed_gpus=np.where(idle > 0, gpus, work.billed_gpus))
    return replace(jobs, workload=work)


def site_change(waste: JobWaste, rows: IntArray, remedy: str) -> SiteChange:
    """Return a remedy as a change of the jobs of a site; those of the warm-up stay.

    Args:
        waste: of all jobs.
        rows: place among them of each job of the site, by its id; -1 for one that is not there.
        remedy: one of `REMEDIES`, or `ALL`.
    """
    changes: dict[str, Callable[[], SiteChange]] = {
        LIMITS: lambda: limits_run(MOST_TIMES),
        END: lambda: SiteChange(END, jobs=lambda jobs: _ended(jobs, waste, rows)),
        SHRINK: lambda: SiteChange(SHRINK, jobs=lambda jobs: _shrunk(jobs, waste, rows)),
    }  # limits first: nobody knows beforehand that a job will idle
    chosen = [make() for name, make in changes.items() if remedy in (name, ALL)]
    return replace(combined(chosen), name=remedy)


def _ended(jobs: SiteJobs, waste: JobWaste, rows: IntArray) -> SiteJobs:
    row = rows[jobs.id]
    free = (jobs.pinned == NEVER) & (row >= 0)
    runtime = np.round(jobs.runtime * waste.kept_share[row]).astype(np.int64)
    return jobs.changed(runtime=np.where(free, runtime, jobs.runtime))


def _shrunk(jobs: SiteJobs, waste: JobWaste, rows: IntArray) -> SiteJobs:
    row = rows[jobs.id]
    free = (jobs.pinned == NEVER) & (row >= 0)
    idle = np.where(free, waste.idle_gpus[row], 0)
    used = np.maximum(jobs.total_gpus - idle, 1)
    nodes = np.where(idle > 0, -(-used // jobs.gpus), jobs.nodes)
    gpus = np.where(idle > 0, -(-used // nodes), jobs.gpus)
    billing = jobs.billing * (nodes * gpus) / np.maximum(jobs.total_gpus, 1)
    return jobs.changed(nodes=nodes, gpus=gpus, billing=billing)
