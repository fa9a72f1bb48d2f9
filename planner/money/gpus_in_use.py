"""GPUs in use over time: a step function of the log, and the GPU time under any level, exact.

Times are whole microseconds and GPUs whole parts, so that every sum is a whole number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.history.steps import StepFunction

PARTS_PER_GPU = 1_000_000


class LevelTimes:
    """How long each number of GPUs is in use.

    Attributes:
        window_us: the time in all.
        per_gpu: parts of a GPU.
    """

    def __init__(self, parts: IntArray, lasting_us: IntArray, per_gpu: int) -> None:
        """Sort the levels.

        Args:
            parts: in use in each stretch of time; shape (k,).
            lasting_us: its length.
            per_gpu: parts of a GPU.
        """
        order = np.argsort(parts, kind="stable")
        levels, first = np.unique(parts[order], return_index=True)
        lasting = np.add.reduceat(lasting_us[order], first).tolist() if first.size else []
        self._levels: list[int] = levels.tolist()
        self._passed_us = [0, *accumulate(lasting)]
        each = (level * time for level, time in zip(self._levels, lasting, strict=True))
        self._gpu_us = [0, *accumulate(each)]
        self.window_us, self.per_gpu = self._passed_us[-1], per_gpu

    def gpu_us(self, most: int | Fraction | None = None) -> Fraction:
        """Return the GPU time in use, up to ``most`` GPUs at once; exact, in microseconds."""
        if most is None:
            return Fraction(self._gpu_us[-1], self.per_gpu)
        limit = most * self.per_gpu
        below = bisect_right(self._levels, limit)
        over_us = self.window_us - self._passed_us[below]
        return Fraction(self._gpu_us[below] + limit * over_us) / self.per_gpu


@dataclass(frozen=True)
class GpusInUse:
    """GPUs in use over time.

    Attributes:
        edges_us: times at which the number may change, from 0 to the end of the window; (k + 1,).
        parts: in use between two of them; shape (k,).
        per_gpu: parts of a GPU.
    """

    edges_us: IntArray
    parts: IntArray
    per_gpu: int

    @property
    def window_us(self) -> int:
        """The time in which they are observed."""
        return int(self.edges_us[-1])

    @property
    def gpus(self) -> FloatArray:
        """GPUs in use between two edges; shape (k,)."""
        result: FloatArray = self.parts / self.per_gpu
        return result

    @property
    def peak(self) -> int:
        """Whole GPUs that hold the most in use at once."""
        return -(-int(self.parts.max()) // self.per_gpu)

    @cached_property
    def levels(self) -> LevelTimes:
        """How long each number of GPUs is in use."""
        return LevelTimes(self.parts, np.diff(self.edges_us), self.per_gpu)

    def between(self, begin_us: int, end_us: int) -> LevelTimes:
        """Return how long each number of GPUs is in use in a part of the window."""
        first = int(np.searchsorted(self.edges_us, begin_us, side="right")) - 1
        last = int(np.searchsorted(self.edges_us, end_us, side="left"))
        edges = np.clip(self.edges_us[first : last + 1], begin_us, end_us)
        return LevelTimes(self.parts[first:last], np.diff(edges), self.per_gpu)


def gpus_in_use(
    start_us: IntArray, end_us: IntArray, gpus: Sequence[float] | FloatArray, window_us: int
) -> GpusInUse:
    """Return the GPUs in use by runs.

    Args:
        start_us, end_us: of each run, after the begin of the window; shape (n,).
        gpus: of each, fractions to a millionth.
        window_us: length of the window; no run ends later.
    """
    parts = np.rint(np.asarray(gpus, np.float64) * PARTS_PER_GPU).astype(np.int64)
    unit = int(np.gcd.reduce(np.append(parts, PARTS_PER_GPU)))
    # Nothing is in use in a stretch of the whole window, which gives its edges.
    steps = StepFunction.of(
        np.append(start_us, 0), np.append(end_us, window_us), np.append(parts // unit, 0)
    )
    return GpusInUse(steps.time, steps.level[:-1], PARTS_PER_GPU // unit)
