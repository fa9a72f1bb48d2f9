"""The whole characterization of a trace, as one result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import Hidden, plain
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
from gpuplan.analysis.characterize.intervals import Intervals
from gpuplan.analysis.characterize.load import Load, load
from gpuplan.analysis.characterize.shares import (
    GpuCount,
    Groups,
    StateShare,
    by_gpu_count,
    by_name,
    by_state,
)
from gpuplan.analysis.fits.results import TraceFits
from gpuplan.analysis.history.jobs import JobArrays, known_ascending
from gpuplan.analysis.job_table.schema import STATES
from gpuplan.analysis.trace.trace import Trace

NOT_STARTED = STATES.index("not_started")
GROUPED = ("job_class", "user", "group")


@dataclass(frozen=True)
class Characterization:
    """What a workload is; null means undefined or not recorded.

    Attributes:
        jobs: jobs in the selection.
        cpu_only_jobs: jobs that started without a GPU.
        censored_jobs: jobs still running at the snapshot.
        users: distinct users.
        span_s: seconds from the first submission to the last.
        first_submit: the first submission, UTC.
        last_submit: the last submission, UTC.
        duration_s: run times, seconds.
        short_jobs: the share of jobs of at most so many seconds.
        duration_cdf: the distribution function of run times.
        gpu_time: GPU time and its concentration.
        interarrival: gaps between submissions.
        arrivals: daily and weekly pattern, bursts.
        load: GPUs held over time.
        gpu_counts: the jobs by GPU count.
        states: the jobs by state.
        queue_s: recorded waits, seconds.
        groups: the jobs by class, user and group, as far as these are recorded.
        fits: heavy-tailed models, where asked for.
        ci: confidence intervals, where asked for.
        notes: caveats for the reader.
    """

    jobs: int
    cpu_only_jobs: int
    censored_jobs: int
    users: int | None
    span_s: float
    first_submit: str | None
    last_submit: str | None
    duration_s: Spread
    short_jobs: dict[str, float | None]
    duration_cdf: tuple[CdfPoint, ...]
    gpu_time: GpuTime
    interarrival: Interarrival
    arrivals: ArrivalStatistics
    load: Load
    gpu_counts: tuple[GpuCount, ...]
    states: tuple[StateShare, ...]
    queue_s: Spread
    groups: dict[str, Groups]
    notes: Hidden[tuple[str, ...]]
    fits: TraceFits | UnsetType = UNSET
    ci: Intervals | UnsetType = UNSET

    def summary(self) -> dict[str, Any]:
        """Return what is shown of it as plain values."""
        values: dict[str, Any] = plain(self)
        return values


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
    submitted = jobs.submitted()
    if not submitted.jobs:
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
        cdf_part = pool.submit(duration_cdf, submitted, ascending)
        gpu_time_part = pool.submit(gpu_time, jobs)
    groups = {name: table for name in GROUPED if (table := tables[name].result()) is not None}
    submit = trace.jobs["submit_time"][jobs.earlier :]
    calendar = not trace.provenance.relative_time
    return Characterization(
        jobs=submitted.jobs,
        cpu_only_jobs=int(
            np.count_nonzero((submitted.num_gpus == 0) & (submitted.state != NOT_STARTED))
        ),
        censored_jobs=int(np.count_nonzero(submitted.censored)),
        users=groups["user"].distinct if "user" in groups else None,
        span_s=submitted.span_s,
        first_submit=submit[0].isoformat() if calendar else None,
        last_submit=submit[-1].isoformat() if calendar else None,
        duration_s=replace(spread(ascending), max=jobs.longest_run_s()),
        short_jobs={f"under_{limit:.0f}s": share_at_most(ascending, limit) for limit in SHORT_S},
        duration_cdf=cdf_part.result(),
        gpu_time=gpu_time_part.result(),
        interarrival=interarrival(submitted.submit_us),
        arrivals=arrivals(submitted, trace.provenance, top=top),
        load=load_part.result(),
        gpu_counts=by_gpu_count(jobs),
        states=by_state(jobs),
        queue_s=spread(known_ascending(submitted.queue_s)),
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
