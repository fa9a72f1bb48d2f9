"""The whole characterization of a trace, as one result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.characterize.arrivals import (
    ArrivalStatistics,
    Interarrival,
    arrivals,
    interarrival,
)
from gpuplan.analysis.characterize.clock import is_zone
from gpuplan.analysis.characterize.durations import (
    SHORT_S,
    CdfPoint,
    Spread,
    duration_cdf,
    share_at_most,
    spread,
)
from gpuplan.analysis.characterize.gpu_time import GpuTime, gpu_time
from gpuplan.analysis.characterize.load import Load, load
from gpuplan.analysis.characterize.results import GpuCountRow, StateRow, WorkloadResults
from gpuplan.analysis.characterize.shares import Groups, Share, by_gpu_count, by_name, by_state
from gpuplan.analysis.history.jobs import JobArrays, known_ascending
from gpuplan.analysis.job_table.schema import STATES
from gpuplan.analysis.trace.trace import Trace

NOT_STARTED = STATES.index("not_started")
GROUPED = ("job_class", "user", "group")


@dataclass(frozen=True, slots=True)
class Characterization:
    """The statistics of a workload; None means undefined or not recorded.

    Attributes:
        jobs: jobs in the selection.
        cpu_only_jobs: jobs that started without a GPU; in durations and arrivals, out of GPU
            statistics. A log may not record the GPUs of a job that never started.
        censored_jobs: jobs still running at the snapshot.
        users: distinct users; None if not recorded.
        span_s: time from the first to the last submission.
        first_submit, last_submit: UTC; None if the source has no calendar.
        duration: run times of timed jobs.
        short: share of timed jobs of at most each of `SHORT_S` seconds.
        cdf: distribution function of durations.
        gpu_time: GPU time and its concentration.
        interarrival: gaps between submissions.
        arrivals: daily and weekly pattern, bursts.
        load: GPUs held.
        gpu_counts: part of each GPU count, ascending.
        states: part of each state, in the order of the schema.
        queue: recorded waits.
        groups: column -> its table, for the columns that are recorded.
        notes: caveats for the reader.
    """

    jobs: int
    cpu_only_jobs: int
    censored_jobs: int
    users: int | None
    span_s: float
    first_submit: str | None
    last_submit: str | None
    duration: Spread
    short: tuple[float | None, ...]
    cdf: tuple[CdfPoint, ...]
    gpu_time: GpuTime
    interarrival: Interarrival
    arrivals: ArrivalStatistics
    load: Load
    gpu_counts: tuple[tuple[float, Share], ...]
    states: tuple[tuple[str, Share], ...]
    queue: Spread
    groups: dict[str, Groups]
    notes: tuple[str, ...]

    def results(self) -> WorkloadResults:
        """Return the statistics as JSON has them."""
        short = zip(SHORT_S, self.short, strict=True)
        return WorkloadResults(
            jobs=self.jobs,
            cpu_only_jobs=self.cpu_only_jobs,
            censored_jobs=self.censored_jobs,
            users=self.users,
            span_s=self.span_s,
            first_submit=self.first_submit,
            last_submit=self.last_submit,
            duration_s=self.duration,
            short_jobs={f"under_{limit:.0f}s": share for limit, share in short},
            duration_cdf=self.cdf,
            gpu_time=self.gpu_time,
            interarrival=self.interarrival,
            arrivals=self.arrivals,
            load=self.load,
            gpu_counts=tuple(GpuCountRow(n, **asdict(share)) for n, share in self.gpu_counts),
            states=tuple(StateRow(state, **asdict(share)) for state, share in self.states),
            queue_s=self.queue,
            groups={column: table.results() for column, table in self.groups.items()},
        )

    def summary(self) -> dict[str, Any]:
        """Return the statistics as plain values."""
        found: dict[str, Any] = plain(self.results())
        return found


def characterize(trace: Trace, *, top: int = 10) -> Characterization:
    """Return the statistics of a trace.

    In a period GPU time and load are those of all runs in it; everything else is of the jobs
    submitted in it.

    Args:
        trace: read with at least the columns `COLUMNS`.
        top: rows of each group table and of the list of bursts; the rest is one row.

    Raises:
        InputError: no job is submitted in the period.
        ValueError: ``top`` is below 1.
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    jobs = trace.arrays()
    own = jobs.submitted()
    if not own.jobs:
        raise InputError(
            trace.path,
            "no job is submitted in the period, so there is nothing to describe",
            hint="choose another --from or --to; gpuplan bill shows what ran in it",
        )
    ascending = known_ascending(jobs.duration_s)
    # These sort, which releases the interpreter's lock; two at once limit the memory.
    with ThreadPoolExecutor(max_workers=2) as pool:
        load_part = pool.submit(load, jobs)
        tables = {name: pool.submit(by_name, trace.jobs[name], jobs, top=top) for name in GROUPED}
        cdf_part = pool.submit(duration_cdf, own, ascending)
        gpu_time_part = pool.submit(gpu_time, jobs)
    groups = {name: table for name in GROUPED if (table := tables[name].result()) is not None}
    submit = trace.jobs["submit_time"][jobs.earlier :]
    calendar = not trace.provenance.relative_time
    return Characterization(
        jobs=own.jobs,
        cpu_only_jobs=int(np.count_nonzero((own.num_gpus == 0) & (own.state != NOT_STARTED))),
        censored_jobs=int(np.count_nonzero(own.censored)),
        users=groups["user"].distinct if "user" in groups else None,
        span_s=own.span_s,
        first_submit=submit[0].isoformat() if calendar else None,
        last_submit=submit[-1].isoformat() if calendar else None,
        duration=spread(ascending),
        short=tuple(share_at_most(ascending, limit) for limit in SHORT_S),
        cdf=cdf_part.result(),
        gpu_time=gpu_time_part.result(),
        interarrival=interarrival(own.submit_us),
        arrivals=arrivals(own, trace.provenance, top=top),
        load=load_part.result(),
        gpu_counts=by_gpu_count(jobs),
        states=by_state(jobs),
        queue=spread(known_ascending(own.queue_s)),
        groups=groups,
        notes=_notes(trace, jobs),
    )


def _notes(trace: Trace, jobs: JobArrays) -> tuple[str, ...]:
    """Return what limits the statistics, one sentence each."""
    notes = list(trace.notes)
    if not jobs.timed_jobs:
        notes.append(
            "no job has a duration: durations, GPU time and load are unknown; where the trace "
            "names job classes, gpuplan pareto --speedup profile:... supplies them"
        )
    running, held_h = jobs.running()
    if running:
        notes.append(
            f"{counted(running, 'job')} still running with {held_h:,.0f} GPU-hours so far: in GPU "
            "time and load, not in durations"
        )
    zone = trace.provenance.time_zone
    if trace.provenance.relative_time:
        notes.append("the source has no calendar: arrivals by hour and weekday are left out")
    elif zone is not None and not is_zone(zone):
        notes.append(f"the source's time zone {zone!r} is unknown here: hours and days are in UTC")
    return tuple(notes)
