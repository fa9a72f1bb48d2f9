"""Other loads, other time limits, another partition: changes of the jobs of a site."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.notation import read_time, slurm_time, split_hosts
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.planner.twin.settings import site_of
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs

LEAST_FACTOR = 0.01
"""Of load and limits: a hundred times the length of the log is far enough."""
LEAST_LIMIT_S = 300
"""A limit that follows the run time is at least this."""
CLIP, CUT, CONTINUE = "clip", "cut", "continue"
LONG_JOBS = (CLIP, CUT, CONTINUE)
EVERY = "all"
PARTS_PER_JOB, MOST_PARTS = 100, 100_000
"""Parts into which a limit may cut all jobs: that many for each, or that many in all."""


def scale_load(factor: float) -> SiteChange:
    """Return the change in which jobs come ``factor`` times as fast; pinned ones stay."""
    if not LEAST_FACTOR <= factor <= 1000:
        raise UsageError(f"--scale-load must be from {LEAST_FACTOR:g} to 1000, got {factor:g}")

    def scale(jobs: SiteJobs) -> SiteJobs:
        free = jobs.pinned == NEVER
        if not free.any():
            return jobs
        origin = int(jobs.submit[free].min())

        def moved(times: IntArray) -> IntArray:
            scaled = origin + np.round((times - origin) / factor).astype(np.int64)
            return np.where(free & (times >= 0), np.maximum(scaled, 0), times)

        submit = moved(jobs.submit)
        ready = submit + (jobs.ready - jobs.submit)
        cancel = np.where(jobs.cancel >= 0, ready + (jobs.cancel - jobs.ready), jobs.cancel)
        return jobs.changed(submit=submit, ready=ready, cancel=cancel)

    return SiteChange(f"scale-load {factor:g}", jobs=scale)


def scale_limits(factor: float) -> SiteChange:
    """Return the change in which every time limit is ``factor`` times as long.

    A limit stays at least the run time: how a job that is cut off would go on is unknown.
    """
    if not LEAST_FACTOR <= factor <= 1000:
        raise UsageError(f"--limits-times must be from {LEAST_FACTOR:g} to 1000, got {factor:g}")

    def scale(jobs: SiteJobs) -> SiteJobs:
        scaled = np.round(jobs.limit * factor).astype(np.int64)
        longest = np.maximum(jobs.limit, 1)
        if factor < 1:
            scaled = np.minimum(np.maximum(scaled, jobs.runtime), longest)
        return jobs.changed(limit=np.maximum(scaled, 1))

    return SiteChange(f"limits-times {factor:g}", jobs=scale)


def limits_run(factor: float) -> SiteChange:
    """Return the change in which no time limit is over ``factor`` times the run time.

    A limit stays at least 5 minutes. Jobs that never ran keep theirs.
    """
    if not 1 <= factor <= 1000:
        raise UsageError(f"--limits-run must be from 1 to 1000, got {factor:g}")

    def follow(jobs: SiteJobs) -> SiteJobs:
        most = np.maximum(np.round(jobs.runtime * factor).astype(np.int64), LEAST_LIMIT_S)
        return jobs.changed(
            limit=np.where(jobs.cancel >= 0, jobs.limit, np.minimum(jobs.limit, most))
        )

    return SiteChange(f"limits-run {factor:g}", jobs=follow)


def max_time(text: str, long_jobs: str = CONTINUE) -> SiteChange:
    """Return the change ``[PARTITION=]TIME``, or several with commas: the longest time limit.

    Limits above it become the new maximum. A job that ran longer is cut there, goes on as a new
    job that queues again and asks for what is left of the limit, or, with ``clip``, runs to its end
    as if it were exempt. Jobs of the warm-up stay as they were.

    Raises:
        UsageError: it is not written so.
    """
    if long_jobs not in LONG_JOBS:
        raise UsageError(f"--long-jobs must be one of {', '.join(LONG_JOBS)}, got {long_jobs!r}")
    wanted = {}
    for part in split_hosts(text) or [text]:
        partition, _, time = part.rpartition("=")
        wanted[partition.strip() or EVERY] = read_time(time.strip(), "--max-time")
    name = f"max-time {text}" + (f" long-jobs {long_jobs}" if long_jobs != CONTINUE else "")

    def settle(document: SiteDocument, log: SiteLog) -> SiteChange:
        names = list(document.tables.get("partition", {}))
        limits: dict[str, int] = {}
        for partition, seconds in wanted.items():
            if partition == EVERY and EVERY not in names:
                limits |= dict.fromkeys(names, seconds)
            else:
                find_named(partition, dict.fromkeys(names), "--max-time", "partition")
                limits[partition] = seconds

        def change(changed: SiteDocument) -> None:
            for partition, seconds in limits.items():
                changed.put(slurm_time(seconds), "partition", partition, "MaxTime")

        return SiteChange(
            name, document=change, jobs=lambda jobs: _shortened(jobs, limits, long_jobs),
            notes=_on_long_jobs(log, limits, long_jobs),
            keys=tuple(("partition", partition, "MaxTime") for partition in limits),
        )  # fmt: skip

    return SiteChange(name, settle=settle)


def _shortened(jobs: SiteJobs, limits: dict[str, int], long_jobs: str) -> SiteJobs:
    most = np.array([limits.get(name, NEVER) for name in jobs.partitions], np.int64)[jobs.partition]
    over = (most >= 0) & (jobs.limit > most) & (jobs.pinned == NEVER)
    limit = np.where(over, most, jobs.limit)
    if long_jobs == CLIP:
        return jobs.changed(limit=limit)
    runtime = np.where(over, np.minimum(jobs.runtime, most), jobs.runtime)
    if long_jobs == CUT:
        return jobs.changed(limit=limit, runtime=runtime)
    # A job that its limit ended ran a little longer than that: the rest counts to the limit.
    rest = np.where(over, np.maximum(np.minimum(jobs.runtime, jobs.limit) - most, 0), 0)
    left = np.where(over, jobs.limit - most, 0)
    if jobs.rest is not None and jobs.rest_limit is not None:
        rest, left = rest + jobs.rest, left + jobs.rest_limit
    shortened = jobs.changed(limit=limit, runtime=runtime, rest=rest, rest_limit=left)
    parts = int(shortened.later_parts.sum())
    if parts > max(MOST_PARTS, PARTS_PER_JOB * jobs.id.size):
        raise UsageError(
            f"--max-time: the limits cut the jobs into {parts:,} parts, each of which waits anew\n"
            "  next: a longer limit, or --long-jobs clip, under which jobs run to their end"
        )
    return shortened


def _on_long_jobs(log: SiteLog, limits: dict[str, int], long_jobs: str) -> tuple[str, ...]:
    most = pl.col("partition").replace_strict(limits, default=None, return_dtype=pl.Int64)
    long = log.jobs.filter(pl.col("run_s") > most).height
    if not long:
        return ()
    what = {
        CLIP: "run to their end",
        CUT: "are cut there",
        CONTINUE: "go on as new jobs",
    }[long_jobs]
    return (f"--max-time: {counted(long, 'job')} of the log ran longer and {what}",)


def move(text: str) -> SiteChange:
    """Return the change ``FROM=TO``: the jobs of a partition go to another one.

    A job that asks for a GPU type which the other partition lacks takes what it has. Jobs of the
    warm-up stay.

    Raises:
        UsageError: it is not written so.
    """
    source, equals, target = (part.strip() for part in text.partition("="))
    if not equals or not source or not target or source == target:
        raise UsageError(f"--move must be FROM=TO with two partitions, got {text!r}")

    def settle(document: SiteDocument, log: SiteLog) -> SiteChange:
        names = dict.fromkeys(document.tables.get("partition", {}))
        for name in (source, target):
            find_named(name, names, "--move", "partition")
        site = site_of(document)
        nodes = site.partition(target).nodes
        types = {node.gpu_type for node in site.nodes if node.name in set(nodes)}
        return SiteChange(f"move {text}", jobs=lambda jobs: _moved(jobs, source, target, types))

    return SiteChange(f"move {text}", settle=settle)


def _moved(jobs: SiteJobs, source: str, target: str, types: set[str]) -> SiteJobs:
    if source not in jobs.partitions:
        return jobs
    those = (jobs.partition == jobs.partitions.index(source)) & (jobs.pinned == NEVER)
    partitions = tuple(dict.fromkeys((*jobs.partitions, target)))
    kinds = tuple(dict.fromkeys((*jobs.gpu_types, "")))
    lacks = np.array([kind not in types for kind in kinds])[jobs.gpu_type]
    return jobs.changed(
        partition=np.where(those, partitions.index(target), jobs.partition),
        partitions=partitions,
        gpu_type=np.where(those & lacks, kinds.index(""), jobs.gpu_type),
        gpu_types=kinds,
    )


def burst(text: str) -> SiteChange:
    """Return the change ``over TIME``: jobs that waited so long start on GPUs on demand.

    Raises:
        UsageError: it is not written so.
    """
    after = read_time(text.strip().removeprefix("over").strip(), "burst over")
    if after < 60:
        raise UsageError(f"burst over {text}: must be at least a minute")

    def leave(jobs: SiteJobs) -> SiteJobs:
        return jobs.changed(patience=np.full(jobs.id.size, after, np.int64))

    return SiteChange(f"burst over {text.strip().removeprefix('over').strip()}", jobs=leave)
