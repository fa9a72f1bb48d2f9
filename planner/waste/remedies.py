"""Take the waste out of the jobs of a log: end idle jobs, shrink others, tighten time limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waste.kinds import (
    ALMOST_ALL,
    IDLE,
    LIMIT_RATIO,
    PARTLY_IDLE,
    UNKNOWN,
    column_of,
)
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.twin.job_changes import LEAST_LIMIT_S, limits_run
from gpuplan.planner.twin.site_changes import SiteChange, combined
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs

END, SHRINK, LIMITS = REMEDIES = ("end idle jobs", "shrink to GPUs in use", "tighten limits")
ALL = "all"
"""All waste at once; limits are none, and nobody knows a run time beforehand."""
MOST_TIMES = LIMIT_RATIO
"""Times the run time, the most that a limit is once limits are tightened."""
WHOLE = 0.95
"""Share of a job's GPU-hours that must be known to be idle before all of the job is."""
ROUNDING = 0.1
"""Of a number of idle GPUs, of which some scrapes are missing."""


@dataclass(frozen=True, slots=True)
class JobWaste:
    """What each job of a log could do without; arrays of shape (n,).

    Attributes:
        run_s: its run times together.
        cut_s: how much shorter they are where idle jobs are ended.
        idle_gpus: GPUs that it never used, besides others that it did use; 0 where too few of
            its GPU-hours have figures.
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
        changed[ALL] = changed[END] | changed[SHRINK]
        return int(np.count_nonzero(changed[remedy]))

    def replayed(self) -> tuple[tuple[str, ...], str]:
        """Return the remedies to replay, and the one of them that stands for `ALL`.

        Where a single one takes out waste, all of it is no other replay. Nothing is replayed where
        no remedy changes a job.
        """
        names = tuple(name for name in REMEDIES if self.jobs_of(name))
        of_waste = [name for name in names if name != LIMITS]
        if len(of_waste) == 1:
            return names, of_waste[0]
        return (*names, ALL) if names else (), ALL

    @property
    def kept_share(self) -> FloatArray:
        """Share of each run that is left where idle jobs are ended."""
        some = np.maximum(self.run_s, 1e-9)
        kept: FloatArray = np.clip(1 - self.cut_s / some, 0, 1)
        return kept


def job_waste(
    trace: Trace, kinds: pl.DataFrame, series: pl.DataFrame | None, end_idle_after_s: float
) -> JobWaste:
    """Return what each job could do without.

    A job is idle to the end as long as its GPUs are in the mean. A job that idles at its begin
    works later on, so it is not ended. A job with figures of a part alone may have used its GPUs
    in the rest, so it is not shrunk.

    Args:
        trace: the jobs.
        kinds: of their GPU-hours.
        series: of metrics; None without any.
        end_idle_after_s: when idle jobs are ended.
    """
    held = kinds["held_gpu_h"].to_numpy()
    gpus = trace.jobs["num_gpus"].fill_null(0).to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        run_s = np.where(gpus > 0, held / gpus * HOUR_S, 0.0)
        unused = kinds[column_of(PARTLY_IDLE)].to_numpy() * HOUR_S
        idle_gpus = np.where(run_s > 0, unused / run_s, 0.0)
    is_known = kinds[column_of(UNKNOWN)].to_numpy() <= (1 - ALMOST_ALL) * held
    is_idle = kinds[column_of(IDLE)].to_numpy() >= np.maximum(WHOLE * held, 1e-12)
    idle_s = np.where(is_idle, run_s, 0.0)
    if series is not None:
        ends = trace.jobs.select("job_id").join(
            series.select("job_id", "idle_end_gpu_h"), on="job_id", how="left",
            maintain_order="left",
        )  # fmt: skip
        end_h = ends["idle_end_gpu_h"].fill_null(0.0).to_numpy() / np.maximum(gpus, 1)
        idle_s = np.maximum(idle_s, np.minimum(end_h * HOUR_S, run_s))
    return JobWaste(
        run_s=run_s,
        cut_s=np.maximum(idle_s - end_idle_after_s, 0.0),
        idle_gpus=np.where(is_known, np.floor(idle_gpus + ROUNDING), 0).astype(np.int64),
        loose=kinds["is_long_limit"].fill_null(False).to_numpy(),
    )


def changed_workload(jobs: TraceJobs, waste: JobWaste, rows: IntArray, remedy: str) -> TraceJobs:
    """Return the jobs of a pool without waste.

    Args:
        jobs: of the pool.
        waste: of all jobs.
        rows: place of each job of the pool among all.
        remedy: one of `REMEDIES`, or `ALL`.
    """
    work = jobs.workload
    if remedy == LIMITS and jobs.limit_us is not None:
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
        END: lambda: SiteChange(END, jobs=lambda jobs: _ended(jobs, waste, rows)),
        SHRINK: lambda: SiteChange(SHRINK, jobs=lambda jobs: _shrunk(jobs, waste, rows)),
    }
    if remedy == LIMITS:
        return replace(limits_run(MOST_TIMES), name=remedy)
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
