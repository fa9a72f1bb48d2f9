"""Replays of a site under chance: submissions moved by seconds, shuffled ties, users who give up.

What chance does in a replica depends on its number and on the jobs, not on the site or its rules,
so that replays of the same number before and after a change differ by the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Protocol

import numpy as np

from gpuplan.planner.parallel import run_all
from gpuplan.planner.twin.settings import shuffled
from gpuplan.planner.twin.workload import SiteWorkload, jittered, site_run
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.simulator import NOT_STARTED
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster
from gpuplan.simkit.watch import ReplayPace

FOREVER_S = 10**12
"""Nobody is more patient, so that a time stays a number of seconds that a replay takes."""
BYTES_PER_JOB = 2_000
"""About what a replay takes at a time."""
LEAST_GIVEN_UP = 10
"""Jobs given up of which a band of waits has at least so many."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The rate at which waiting jobs are given up, constant within bands of the wait.

    Attributes:
        begin_s: where each band begins, ascending from 0; the last one has no end; shape (k,).
        rate: jobs given up per second of waiting in each band, above 0; shape (k,).
        given_up: jobs of the log that the rates come from.
    """

    begin_s: FloatArray
    rate: FloatArray
    given_up: int

    def waits_s(self, waited_s: FloatArray, draw: FloatArray) -> FloatArray:
        """Return the waits after which jobs are given up that have waited so long already.

        Args:
            waited_s: wait that each job is known to have had patience for; shape (n,).
            draw: from the exponential distribution of mean 1; shape (n,).
        """
        spent = np.concatenate([[0.0], np.cumsum(np.diff(self.begin_s) * self.rate[:-1])])
        band = np.searchsorted(self.begin_s, waited_s, side="right") - 1
        total = spent[band] + (waited_s - self.begin_s[band]) * self.rate[band] + draw
        band = np.searchsorted(spent, total, side="right") - 1
        waits: FloatArray = self.begin_s[band] + (total - spent[band]) / self.rate[band]
        return waits


def patience_of(work: SiteWorkload) -> Patience | None:
    """Return the patience of a log's users; None where too few jobs were given up to tell.

    A rate is the jobs given up over the time waited: by them, and by the jobs that started. Beyond
    the longest wait that ended so it is half a job over the time waited there, or less: a log whose
    longest waits nobody gave up has no such users.
    """
    counts = (work.recorded_start >= 0) | work.gave_up
    counts &= work.jobs.submit >= work.warmup_until
    gave_up = work.gave_up[counts]
    if gave_up.sum() < LEAST_GIVEN_UP:
        return None
    left = np.where(work.gave_up, work.jobs.cancel - work.jobs.ready, work.recorded_wait)[counts]
    waits = np.sort(left[gave_up]).astype(np.float64)
    inner = waits[LEAST_GIVEN_UP : waits.size - LEAST_GIVEN_UP + 1 : LEAST_GIVEN_UP]
    begin = np.unique(np.concatenate([[0.0], inner, [waits[-1] + 1.0]]))
    waited = np.clip(left[:, None], begin, np.append(begin[1:], np.inf)).sum(axis=0)
    waited = np.maximum(waited - begin * left.size, 1.0)
    rate = np.histogram(waits, np.append(begin, np.inf))[0] / waited
    rate[-1] = min(rate[-2], 0.5 / waited[-1])
    return Patience(begin, rate, int(gave_up.sum()))


@dataclass(frozen=True, slots=True)
class SiteCase:
    """A site to replay.

    Attributes:
        name: what it is called.
        site, jobs, config: what is replayed.
    """

    name: str
    site: SiteCluster
    jobs: SiteJobs
    config: SchedulerConfig

    def replica(self, number: int, chance: Chance, seen: Callable[[float], None]) -> Replica:
        """Return the replica of a number; ``seen`` is called with the share done.

        Raises `UsageError`.
        """
        jobs = chance.applied(self.jobs, number)
        run = site_run(self.site, jobs, shuffled(self.config, number + 1), seen)
        logged = jobs.id < chance.waited_s.size
        wait = np.full(chance.waited_s.size, NOT_STARTED, np.int64)
        reason, elsewhere = np.zeros(wait.size, np.int64), np.zeros(wait.size, np.int64)
        ids = jobs.id[logged]
        wait[ids], reason[ids] = run.wait[logged], run.reason_code[logged]
        elsewhere[ids] = run.elsewhere_gpu_s[logged]
        later = np.zeros(wait.size, np.int64)
        later[ids] = run.later_wait[logged]
        return Replica(wait, reason, elsewhere, later)


class ReplayCase(Protocol):
    """A site of any kind to replay."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def jobs(self) -> SiteJobs:
        """What is replayed."""

    def replica(self, number: int, chance: Chance, seen: Callable[[float], None]) -> Replica:
        """Return the replica of a number."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What one replay did to the jobs of the log, in their order; shape (n,).

    Attributes:
        wait: seconds from eligible to start; -1 where the job did not start.
        reason: why it did not, as a position in `REASONS`.
        elsewhere_gpu_s: GPU-seconds that it ran on GPUs elsewhere.
        later_wait: seconds that the jobs waited together which went on with it; 0 without any, -1
            where one of them did not start.
    """

    wait: IntArray
    reason: IntArray
    elsewhere_gpu_s: IntArray
    later_wait: IntArray


@dataclass(frozen=True, slots=True)
class Chance:
    """What differs between replicas.

    Attributes:
        patience: when users give up; None: never.
        waited_s: wait that each job of the log had in the record; shape (n,).
    """

    patience: Patience | None
    waited_s: IntArray

    @classmethod
    def of(cls, work: SiteWorkload, patience: Patience | None) -> Chance:
        """Return the chance of a log's jobs."""
        return cls(patience, np.maximum(work.recorded_wait, 0))

    def applied(self, jobs: SiteJobs, number: int) -> SiteJobs:
        """Return the jobs of a replica; pinned ones start as recorded.

        A job has the same luck wherever it has the same id. Jobs that the log does not have are
        never given up.
        """
        jobs = jittered(jobs, number)
        if self.patience is not None:
            free, cancel = jobs.pinned == NEVER, jobs.cancel
            draw = np.random.default_rng([number, 1]).exponential(size=self.waited_s.size)
            waits = np.ceil(self.patience.waits_s(self.waited_s.astype(np.float64), draw))
            waits = np.append(np.minimum(waits, FOREVER_S), FOREVER_S).astype(np.int64)
            wait = waits[np.minimum(jobs.id, waits.size - 1)]
            leaves = free & (cancel < 0) & (jobs.runtime > 0) & (wait < FOREVER_S)
            if jobs.patience is not None:  # who moves elsewhere before does not give up
                leaves &= (jobs.patience < 0) | (wait < jobs.patience)
            jobs = jobs.changed(cancel=np.where(leaves, jobs.ready + wait, cancel))
        return jobs


class Replicas:
    """Replays cases side by side, each replica of each once.

    Attributes:
        of: the replicas of each case so far, in order.
    """

    def __init__(self, cases: Sequence[ReplayCase], chance: Chance) -> None:
        self.cases, self.chance = cases, chance
        self.of: list[list[Replica]] = [[] for _ in cases]
        self._pace, self._stopped = ReplayPace(), Event()
        self._done = self._total = 0

    def grow(self, which: Iterable[int], count: int) -> None:
        """Replay the cases at these positions until there are so many replicas of each.

        Raises:
            UsageError: a site or a job is too large for a replay.
        """
        items = [(at, number) for at in which for number in range(len(self.of[at]), count)]
        jobs = max((self._size(at) for at, _ in items), default=0)
        self._total += sum(self._size(at) for at, _ in items)
        try:
            runs = run_all(self._replica, items, bytes_each=BYTES_PER_JOB * jobs)
        finally:
            self._stopped.set()  # ends what an interrupt left running
        self._stopped.clear()
        for (at, _), run in zip(items, runs, strict=True):
            self.of[at].append(run)

    def _size(self, at: int) -> int:
        return int(self.cases[at].jobs.id.size)

    def _replica(self, item: tuple[int, int]) -> Replica:
        """Replay one replica of a case; ``item`` is its position and the number."""
        (at, number), before = item, 0

        def seen(share: float) -> None:
            nonlocal before
            if self._stopped.is_set():
                raise KeyboardInterrupt
            done = round(share * self._size(at))
            self._done, before = self._done + done - before, done
            self._pace.say(self._done, self._total, "jobs replayed")

        return self.cases[at].replica(number, self.chance, seen)
