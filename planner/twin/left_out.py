"""Which jobs of a log a replay of its site does not count, and what its waits are beside those.

Answers tell waits from submission to the first start, of all jobs with GPUs that started. Rules act
on less: on the time from when a job is eligible, of the jobs that came after the warm-up and that
the rules explain.
"""

from __future__ import annotations

import numpy as np

from gpuplan.analysis.base.words import counted, listed
from gpuplan.planner.twin.score import shown_alike
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import BoolArray

MOST_REASONS = 4


def first_started(work: SiteWorkload) -> BoolArray:
    """Return the first runs of the jobs that started; shape (n,)."""
    first = np.zeros(work.recorded_start.size, np.bool_)
    first[np.unique(np.array(work.job_ids, object).astype(str), return_index=True)[1]] = True
    started: BoolArray = first & (work.recorded_start >= 0)
    return started


def left_out_notes(work: SiteWorkload, shown: BoolArray | None = None) -> tuple[str, ...]:
    """Return which waits a study of a site shows, and what those of all jobs were.

    Args:
        work: the jobs.
        shown: the jobs whose waits are shown; None for the scored ones.

    Returns:
        A sentence; none where waits are of all jobs that started, from submission.
    """
    shown = work.scored if shown is None else shown
    every = first_started(work)
    rest = every & ~shown
    if not shown.any() or not (rest.any() or work.held[shown].any()):
        return ()
    in_warmup = int((rest & (work.jobs.submit < work.warmup_until)).sum())
    other = int(rest.sum()) - in_warmup
    reasons = [f"{in_warmup:,} that warm the replay up"] if in_warmup else []
    reasons += [f"{other:,} that its rules do not explain"] if other else []
    waited = work.recorded_wait + work.held
    here, all_jobs = shown_alike(
        float(np.percentile(work.recorded_wait[shown], 95)), float(np.percentile(waited[every], 95))
    )
    without = f", without {listed(reasons, MOST_REASONS)}" if reasons else ""
    return (
        f"waits here are from when a job is eligible, of {counted(int(shown.sum()), 'job')}"
        f"{without}: P95 {here} in the log; from submission, of all {int(every.sum()):,} jobs that "
        f"started, {all_jobs} (gpuplan waits)",
    )
