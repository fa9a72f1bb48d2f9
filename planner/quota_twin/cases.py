"""Replays of a dump's workloads under the quotas of a site, with and without chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.quota_twin.levels import level_jobs, level_site
from gpuplan.planner.quota_twin.log_workload import at_submits
from gpuplan.planner.site.replicas import Chance, Replica
from gpuplan.simkit.arrays import BoolArray, IntArray
from gpuplan.simkit.quota.simulator import QuotaRun, replay_quota
from gpuplan.simkit.quota.site import QuotaJobs, QuotaSite
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.refusals import UNSTARTED
from gpuplan.simkit.twin.simulator import NOT_STARTED

Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class QuotaReplay:
    """What a replay did to the workloads; arrays of shape (n,).

    Attributes:
        run: all runs.
        start: first start of each, seconds after 1970; -1 where it never started.
        submit: when each came.
    """

    run: QuotaRun
    start: IntArray
    submit: IntArray

    @property
    def wait(self) -> IntArray:
        """Seconds from submission to the first start; -1 where it never started."""
        waited: IntArray = np.where(self.start >= 0, self.start - self.submit, NOT_STARTED)
        return waited

    @property
    def never(self) -> BoolArray:
        """Which workloads never started."""
        missing: BoolArray = self.start < 0
        return missing

    def at_least(self, end: int) -> QuotaReplay:
        """Return the replay with workloads that never start as starting at the end of the log."""
        late = np.maximum(end, self.submit)
        return QuotaReplay(self.run, np.where(self.never, late, self.start), self.submit)


def replay_level(
    site: QuotaSite, jobs: QuotaJobs, level: str, progress: Progress = lambda share: None
) -> QuotaReplay:
    """Replay workloads under the rules of a level.

    Raises:
        UsageError: the site cannot be replayed.
    """
    try:
        run = replay_quota(level_site(site, level), level_jobs(jobs, level), progress=progress)
    except ValueError as error:
        raise UsageError(f"the site cannot be replayed: {error}") from error
    start = np.full(jobs.queue.size, np.iinfo(np.int64).max)
    np.minimum.at(start, run.job, run.start_s)
    start[start == np.iinfo(np.int64).max] = NOT_STARTED
    return QuotaReplay(run, start, jobs.submit)


@dataclass(frozen=True, slots=True)
class QuotaCase:
    """A site with quotas to replay.

    Attributes:
        name: what it is called.
        site, level: the quotas, and the rules of them that count.
        quota: the workloads in its queues.
        jobs: when they come.
    """

    name: str
    site: QuotaSite
    level: str
    quota: QuotaJobs
    jobs: SiteJobs

    def replay(self) -> QuotaReplay:
        """Return the replay without chance."""
        return replay_level(self.site, at_submits(self.quota, self.jobs), self.level)

    def replica(self, number: int, chance: Chance, seen: Progress) -> Replica:
        """Return the replica of a number: workloads moved by up to a minute, ties shuffled."""
        jobs = chance.applied(self.jobs, number)
        quota = at_submits(self.quota, jobs, number)
        replay = replay_level(self.site, quota, self.level, seen)
        none = np.zeros(replay.start.size, np.int64)
        return Replica(replay.wait, np.where(replay.never, UNSTARTED, 0), none, none)
