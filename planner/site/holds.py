"""Waiting jobs that the scheduler does not hold: dependencies, holds, limits of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.twin.refusals import NO_LIMIT


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
