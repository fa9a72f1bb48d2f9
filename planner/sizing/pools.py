"""The jobs of a trace by GPU type: each type is a pool whose jobs run on no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import LAST_SUBMIT
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.characterize.capacity import (
    PeakAboveNodes,
    TimeAbove,
    peaks_above_nodes,
    time_above,
)
from gpuplan.analysis.characterize.today import Today, today
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.job_table.sampling import scale_arrivals
from gpuplan.analysis.job_table.schema import LAST_INSTANT_US
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.gpus_in_use import GpusInUse, gpus_in_use
from gpuplan.planner.runs.cluster_setting import match_pools
from gpuplan.planner.runs.trace_jobs import TraceJobs, jobs_of
from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool


@dataclass(frozen=True, slots=True)
class JobPool:
    """Jobs that share the GPUs of one type.

    Attributes:
        gpu_type: None where the log names none.
        jobs: to replay, with the growth asked for.
        window_us: length of the window of the log or the period, with that growth.
        demand: GPUs in use in the log or the period, with that growth; None where not requested.
        begin_us: of that window, microseconds since 1970.
        seen: what the log shows of them today.
        shape: of today's GPUs, as given; None where nothing is.
        above: when jobs held more than these; None where they did not.
        impossible: a peak that the nodes in the log cannot have had; None where there is none.
    """

    gpu_type: str | None
    jobs: TraceJobs
    window_us: int
    demand: GpusInUse | None
    begin_us: int
    seen: Today
    shape: GpuPool | None
    above: TimeAbove | None = None
    impossible: PeakAboveNodes | None = None

    @property
    def peak_gpus(self) -> float:
        """The most GPUs held at once, at most those of the nodes that the log names."""
        seen = self.seen.usage.peak_gpus
        return seen if self.impossible is None else float(self.impossible.gpus)

    @property
    def gpus_per_node(self) -> int | None:
        """GPUs of a node; None where nodes do not matter."""
        return None if self.shape is None else self.shape.gpus_per_node


NO_TIME = "all jobs are submitted at one instant and take no time, so no commitment can be sized"


@dataclass(frozen=True, slots=True)
class PoolTerms:
    """How jobs become pools.

    Attributes:
        gpu: the type of jobs that name none.
        shape: today's cluster; None where it is not given.
        growth: of arrivals; 0.2 divides the times between them by 1.2.
        deadlines, deadline_factor: as `jobs_of` takes them.
        include_running: replay jobs that still run as if they had ended.
        seed: of what is random.
        by: what waits are split by, as `jobs_of` takes it.
        demand: whether to return the GPUs in use over time.
        replays: whether sizes are replayed; else every job that holds GPUs counts.
    """

    gpu: str | None
    shape: ClusterShape | None
    growth: float
    deadlines: str | None
    deadline_factor: tuple[float, float] | None
    include_running: bool
    seed: int
    by: tuple[str, ...] = ()
    demand: bool = False
    replays: bool = True


def pools_of(trace: Trace, terms: PoolTerms) -> tuple[tuple[JobPool, ...], Today]:
    """Return the pools of a trace, most GPU-hours first, and what the log shows of all.

    Args:
        trace: with the columns of `today` and those that `jobs_of` reads.
        terms: how.

    Raises:
        InputError: no job can be replayed, or none holds GPUs in the period.
        UsageError: a cluster without one of the types.
    """
    if terms.gpu is not None:
        trace = replace(
            trace, jobs=trace.jobs.with_columns(pl.col("gpu_type").fill_null(terms.gpu))
        )
    grown = _grown(trace, terms.growth)
    arrays = grown.arrays()
    window, counted = arrays.window_us(), pl.Series(arrays.holding())
    del arrays  # the jobs of a long log are there only once
    kinds = trace.jobs["gpu_type"].filter(counted).unique(maintain_order=True).to_list()
    del counted
    peaks = {peak.gpu_type: peak for peak in peaks_above_nodes(trace)}
    if len(kinds) < 2:
        kind = kinds[0] if kinds else None
        shape = _shape_of(kind, terms.shape, kinds)
        pool = _pool(trace, grown, window, kind, terms, shape)
        return (replace(pool, impossible=peaks.get(kind or "")),), pool.seen
    every = _seen(trace)
    usage = {held.gpu_type: held for held in every.gpu_types}
    pools = []
    for kind in kinds:
        of_kind = pl.col("gpu_type").is_null() if kind is None else pl.col("gpu_type") == kind
        shape = _shape_of(kind, terms.shape, kinds)
        alone = replace(trace, jobs=trace.jobs.filter(of_kind))
        grown_alone = alone if grown is trace else replace(grown, jobs=grown.jobs.filter(of_kind))
        pool = _pool(alone, grown_alone, window, kind, terms, shape)
        del alone, grown_alone
        name = UNNAMED if kind is None else kind
        if name in usage:  # over the window of the whole log, so that the types add up
            seen = replace(pool.seen, usage=usage[name], window_s=every.window_s)
            pool = replace(pool, seen=seen)
        pools.append(replace(pool, impossible=peaks.get(kind or "")))
    return tuple(sorted(pools, key=lambda pool: -pool.seen.usage.gpu_h)), every


def without_growth(jobs: TraceJobs, growth: float) -> TraceJobs:
    """Return jobs of a pool at their recorded times, with no window where there is growth."""
    if not growth:
        return jobs
    work = jobs.workload
    submit_us = np.round(work.submit_us * (1 + growth)).astype(np.int64)
    deadline_us = work.deadline_us + (submit_us - work.submit_us)
    grown = replace(work, submit_us=submit_us, deadline_us=deadline_us)
    return replace(jobs, workload=grown, window_us=None)


def _grown(trace: Trace, growth: float) -> Trace:
    """Return the trace with its submissions closer together, and the period with them."""
    if not growth:
        return trace
    factor, period = 1 / (1 + growth), trace.period
    if period is not None:
        first = int(trace.jobs["submit_time"].dt.epoch("us")[0])
        begin, end = (first + round((edge - first) * factor) for edge in period)
        if end > LAST_INSTANT_US:
            raise UsageError(
                f"--growth {growth:.4%}: the period would end after the year "
                f"{LAST_SUBMIT.year}\n  next: an earlier --to"
            )
        period = begin, end
    return replace(trace, jobs=scale_arrivals(trace.jobs, factor), period=period)


def _pool(
    trace: Trace,
    grown: Trace,
    window: PeriodUs,
    kind: str | None,
    terms: PoolTerms,
    shape: GpuPool | None,
) -> JobPool:
    seen = _seen(trace)
    deadlines, _ = np.random.default_rng(terms.seed).spawn(2)  # as every replay draws them
    jobs = jobs_of(
        grown if terms.replays else replace(grown, period=None),
        deadlines,
        terms.deadline_factor,
        deadlines=terms.deadlines,
        include_running=terms.include_running or not terms.replays,
        window_us=window,
        by=terms.by,
    )
    demand, length = None, window[1] - window[0]
    if terms.demand:
        if length <= 0:
            raise InputError(trace.path, NO_TIME)
        runs = grown.arrays().runs()
        start_us, end_us = runs.start_us - window[0], runs.end_us - window[0]
        demand = gpus_in_use(start_us, end_us, runs.gpus, length)
    # No row of a job is shown.
    jobs = replace(jobs, job_id=jobs.job_id.clear(), labels=jobs.labels if terms.by else None)
    above = None
    size = None if shape is None else shape.gpus
    if size is not None and seen.usage.peak_gpus > size:
        above = time_above(trace, np.ones(trace.jobs.height, np.bool_), size)
    return JobPool(kind, jobs, length, demand, window[0], seen, shape, above)


def _seen(trace: Trace) -> Today:
    """Return what the log shows. Raises `InputError` where no job holds a GPU in the period."""
    seen = today(trace)
    if seen is None:
        kinds = trace.jobs["gpu_type"].drop_nulls().unique().to_list()
        what = (
            f"no job holds {f'a GPU of {kinds[0]}' if len(kinds) == 1 else 'a GPU'} in the period"
        )
        hint = "choose another period with --from and --to, or fewer types with --where"
        raise InputError(trace.path, what, hint=hint)
    return seen


def _shape_of(
    kind: str | None, shape: ClusterShape | None, kinds: Sequence[str | None]
) -> GpuPool | None:
    """Return today's GPUs of one of the log's types.

    Raises:
        UsageError: the cluster has none of it, or does not tell it from another.
    """
    if shape is None:
        return None
    for pool in shape.pools:
        if pool.gpu_type is None:
            if len(kinds) > 1 and pool.gpus is not None:
                raise UsageError(
                    f"--cluster {shape}: the log has several GPU types\n"
                    "  next: give the GPUs of each, such as A100=8x4,T4=16, or only the GPUs of a "
                    "node, such as x8"
                )
            return pool
        if kind is None and len(kinds) == 1 and len(shape.pools) == 1:
            return pool  # the option names the GPUs of the log
    pools = match_pools(shape, kinds)
    if kind in pools:
        return pools[kind]
    lacking = [name or "GPUs without a type" for name in kinds if name not in pools]
    raise UsageError(
        f"--cluster {shape}: the log also has jobs on {listed(lacking, 6)}\n"
        "  next: name their GPUs too, or choose jobs with --where"
    )
