"""What to say of workloads that evict each other again and again, or never finish."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.analysis.base.words import counted, listed
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.quota.kai_simulator import KaiRun
from gpuplan.simkit.quota.simulator import LOOP_EVICTIONS, QuotaRun

MOST_NAMED = 5


def loop_notes(
    run: QuotaRun | KaiRun, names: Sequence[str], queues: Sequence[str]
) -> tuple[str, ...]:
    """Return what to say of a loop of evictions; nothing without one."""
    loop = run.loop()
    if loop is None:
        return ()
    worst, often = names[int(loop.jobs[0])], int(loop.evictions[0])
    of = listed([queues[int(at)] for at in loop.queues][:MOST_NAMED])
    return (
        f"a loop of evictions: {counted(loop.jobs.size, 'job')} of {of} evicted more than "
        f"{LOOP_EVICTIONS} times, job {worst} {often:,} times; under these preemption policies "
        "queues take turns in evicting each other",
    )


def unfinished_notes(unfinished: IntArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return what to say of jobs that the quotas never let finish."""
    if not unfinished.size:
        return ()
    some = listed([names[int(at)] for at in unfinished[:MOST_NAMED]])
    return (
        f"{counted(int(unfinished.size), 'job')} never finish under these quotas ({some}); they "
        "count with the time until they were given up",
    )
