"""Replays of a site from an instant on, until a job started."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuplan.planner.site.draws import Arrivals, RunTimes
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.twin.jobs import NEVER
from gpuplan.simkit.twin.refusals import REASONS
from gpuplan.simkit.twin.simulator import NOT_STARTED
from gpuplan.simkit.twin.snapshot import NodesDown, RunningJobs, first_start, selected, with_down
from gpuplan.simkit.twin.state import NO_LIMIT
from gpuplan.simkit.twin.tables import KernelInput

DAYS = 28
"""Days for which jobs arrive; a job that has not started by then is said to wait longer."""
FIRST_DAYS = 2
"""Days tried first: most jobs start within."""


@dataclass(frozen=True, slots=True)
class Holds:
    """Waiting jobs that a dependency or a hold keeps from starting.

    Attributes:
        job: their positions.
        since: when each was submitted.
        length: lengths of holds that the log knows; seconds, ascending.
        at: the instant.
    """

    job: IntArray
    since: IntArray
    length: IntArray
    at: int

    def release(self, ready: IntArray, chance: np.random.Generator) -> None:
        """Set when each becomes eligible: after a hold of the past that lasted longer."""
        drawn = chance.random(self.job.size)
        for job, since, u in zip(self.job, self.since, drawn, strict=True):
            low = int(np.searchsorted(self.length, self.at - since, side="right"))
            count = self.length.size - low
            ready[job] = since + self.length[low + int(u * count)] if count else NO_LIMIT

    def latest(self, ready: IntArray) -> None:
        """Let all of them wait for good."""
        ready[self.job] = NO_LIMIT


@dataclass(frozen=True, slots=True)
class Chains:
    """Tasks of arrays that may run only so many at a time.

    Attributes:
        arrays: per array: positions of its running tasks and of its waiting ones, in order, and
            how many may run at once.
        started: start of each running job.
        at: the instant.
    """

    arrays: tuple[tuple[IntArray, IntArray, int], ...]
    started: IntArray
    at: int

    def release(self, ready: IntArray, runtime: IntArray) -> None:
        """Set when each task may start: when one before it ended, had all started at once."""
        for running, waiting, at_once in self.arrays:
            ends = sorted((self.started[running] + runtime[running]).tolist())
            free = [self.at] * max(at_once - len(ends), 0) + [max(end, self.at) for end in ends]
            for job in waiting:
                begin = free.pop(0)
                ready[job] = max(int(ready[job]), begin) if begin > self.at else ready[job]
                free.append(begin + int(runtime[job]))
                free.sort()


@dataclass(frozen=True, slots=True)
class StartReplays:
    """Everything that replays from one instant share; see `start_replays`.

    Attributes:
        at: the instant.
        tables: the tables of all jobs: those that run, that wait, the new ones, those of the past.
        running, waiting, new: how many there are of each.
        started: second at which each running job started; ``node``: their nodes, one after the
            other.
        ready: second from which each job may start, where nothing holds it.
        held: waiting jobs that a dependency or a hold keeps from starting.
        chains: tasks of arrays of which only some may run at once.
        cancel: when each job of the past was cancelled while it waited; `NEVER` for no time.
        runtime: seconds that each job runs; -1 where that is drawn.
        unfinished: positions of the jobs whose run times are drawn from ``runs``.
        arrivals: jobs of the past that may come again; position 0 is the first of them.
        down: nodes that are down or announced to be.
        down_until: for each of these, seconds to draw its end from; none for the end in ``down``.
        unplaced: running jobs that fit on no node of the site; they are left out.
    """

    at: int
    tables: KernelInput
    running: int
    waiting: int
    new: int
    started: IntArray
    node: IntArray
    ready: IntArray
    held: Holds
    chains: Chains
    cancel: IntArray
    runtime: IntArray
    unfinished: IntArray
    runs: RunTimes
    arrivals: Arrivals
    down: NodesDown
    down_until: tuple[IntArray, ...]
    unplaced: int

    def refusal(self, new: int) -> str:
        """Return why a new job can never start, as Slurm's reason; empty where it can."""
        return REASONS[int(self.tables.jobs.refused[self.running + self.waiting + new])]

    def start(self, new: int, seed: int, draw: int) -> int:
        """Return when a new job starts in a draw; `NOT_STARTED` where it does not in 28 days.

        The draw depends on the seed and its number alone, and is the same for all new jobs.
        """
        chance = np.random.default_rng([seed, draw])
        runtime = self.runtime.copy()
        runtime[self.unfinished] = self.runs.draw(chance)
        rows, shifts = self.arrivals.draw(chance)
        ready = self.ready.copy()
        self.held.release(ready, chance)
        self.chains.release(ready, runtime)
        end = self.down.end.copy()
        for event, until in enumerate(self.down_until):
            if until.size:
                end[event] = until[int(chance.random() * until.size)]
        down = replace(self.down, end=end)
        for days in (FIRST_DAYS, DAYS):
            near = self.arrivals.submit[rows] + shifts <= self.at + days * 86400
            start = self._start(new, ready, runtime, rows[near], shifts[near], down)
            if 0 <= start <= self.at + days * 86400:
                return start
        return NOT_STARTED

    def _start(
        self, new: int, ready: IntArray, runtime: IntArray, rows: IntArray, shifts: IntArray,
        down: NodesDown,
    ) -> int:  # fmt: skip
        present = self.running + self.waiting
        past = present + self.new + rows
        chosen = np.concatenate([np.arange(present), [present + new], past])
        shift = np.concatenate([np.zeros(present + 1, np.int64), shifts])
        cancel = self.cancel[chosen]
        jobs = selected(
            self.tables.jobs, chosen,
            ready=ready[chosen] + shift,
            runtime=runtime[chosen],
            cancel=np.where(cancel >= 0, cancel + shift, NEVER),
            tie=np.arange(chosen.size),
        )  # fmt: skip
        return first_start(
            self.tables, jobs, with_down(self.tables.site, down, self.at),
            RunningJobs(self.started, self.node), self.at, present,
        )  # fmt: skip

    def as_requested(self, new: int) -> int:
        """Return when a new job starts if every job runs to its limit and none comes later."""
        limit = self.tables.jobs.limit
        runtime = limit.copy()
        ready = self.ready.copy()
        self.held.latest(ready)
        self.chains.release(ready, runtime)
        none = np.empty(0, np.int64)
        return self._start(new, ready, runtime, none, none, self.down)
