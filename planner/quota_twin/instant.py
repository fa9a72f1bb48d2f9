"""What a dump of Kueue tells of one instant: what ran, what waited, what had happened."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.planner.quota.model import QuotaModel
from gpuplan.planner.quota_twin.log_workload import QuotaWorkload, quota_workload
from gpuplan.planner.site.instant import first_second, utc
from gpuplan.simkit.arrays import BoolArray

MOST_AFTER_S = HOUR_S
"""An instant may be this long after the last time of a dump."""


@dataclass(frozen=True, slots=True)
class QuotaInstant:
    """The workloads of a site of Kueue at an instant.

    Attributes:
        at: the second.
        first: the first second from which the dump has all workloads.
        jobs: all that had come, in the order of ``work``, in the columns of the dump, as known
            then: ``start`` and ``end`` are null where they lie later; ``queue`` names the
            ClusterQueue, ``class`` the class of its priority.
        work: the same, ready for a replay.
    """

    at: int
    first: int
    jobs: pl.DataFrame
    work: QuotaWorkload

    @property
    def is_running(self) -> BoolArray:
        """Which workloads hold quota."""
        runs = pl.col("start").is_not_null() & pl.col("end").is_null()
        return self.jobs.select(runs).to_series().to_numpy()

    @property
    def is_waiting(self) -> BoolArray:
        """Which workloads wait."""
        return self.jobs["start"].is_null().to_numpy()

    @property
    def is_outlasting(self) -> BoolArray:
        """Which workloads run and have run at least as long as any that ended."""
        longest = int(self.finished.select(pl.col("run_s").max()).item() or 0)
        has_run_long = self.jobs["run_s"].to_numpy() >= max(longest, 1)
        outlasting: BoolArray = self.is_running & has_run_long
        return outlasting

    @property
    def running(self) -> pl.DataFrame:
        """Workloads that hold quota."""
        return self.jobs.filter(pl.Series(self.is_running))

    @property
    def waiting(self) -> pl.DataFrame:
        """Workloads that wait."""
        return self.jobs.filter(pl.Series(self.is_waiting))

    @property
    def finished(self) -> pl.DataFrame:
        """Workloads that had ended."""
        return self.jobs.filter(pl.col("end").is_not_null())


def quota_instant(
    log: KueueLog, document: QuotaDocument, model: QuotaModel, at: int | None = None,
    without: str | None = None,
) -> QuotaInstant:  # fmt: skip
    """Return what a dump tells of an instant; nothing later.

    Args:
        log: the dump.
        document: the site. ``model``: the same as the simulator takes it.
        at: the second; None for the end of the dump.
        without: a workload to leave out.

    Raises:
        InputError: no workload is of the site.
        UsageError: the instant is before the dump tells of all workloads, or after its end.
    """
    moment = log.end if at is None else at
    is_past = pl.col("submit") <= moment
    if without is not None:
        is_past &= pl.col("job_id") != without
    first = first_second(log.jobs)
    if moment < first:
        raise UsageError(f"--at must not lie before the dump begins ({utc(first)} UTC)")
    if moment > log.end + MOST_AFTER_S:
        raise UsageError(
            f"--at must be at most {MOST_AFTER_S // HOUR_S} h after the dump was made "
            f"({utc(log.end)} UTC); make a newer one"
        )
    came = pl.concat([log.jobs, log.waiting]).filter(is_past).sort("submit", "job_id")
    if came.is_empty():
        raise UsageError(f"no workload had come by {utc(moment)} UTC; give a later --at")
    began = (pl.col("start") <= moment).fill_null(False)
    ended = began & (pl.col("end") <= moment).fill_null(False)
    jobs = came.with_columns(
        start=pl.when(began).then("start"),
        admitted=pl.when(pl.col("admitted") <= moment).then("admitted"),
        end=pl.when(ended).then("end"),
        run_s=pl.when(ended).then("run_s").when(began).then(moment - pl.col("start")).otherwise(0),
    )
    filled = jobs.with_columns(
        pl.col("start").fill_null(pl.col("submit")), pl.col("run_s").clip(lower_bound=0)
    )
    work = quota_workload(replace(log, jobs=filled), document, model, 0)
    names = np.array(work.queues, object)[work.quota.queue]
    rows = jobs[work.rows].with_columns(
        queue=pl.Series(names, dtype=pl.String), **{"class": class_of()}
    )
    return QuotaInstant(moment, first, rows, work)


def class_of() -> pl.Expr:
    """Return the class of a workload's priority: its name, else the number."""
    named = pl.col("priority_class").replace("", None)
    return pl.coalesce(named, pl.col("priority").cast(pl.String))
