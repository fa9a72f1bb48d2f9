"""A sample of positive numbers as distinct values with counts, so that ties are cheap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray

BINS = 4096


@dataclass(frozen=True)
class Sample:
    """Positive values, each with its count.

    Attributes:
        value: distinct values, ascending; shape (m,), > 0.
        count: how often each occurs; shape (m,), whole numbers as floats.
    """

    value: FloatArray
    count: FloatArray

    @cached_property
    def log(self) -> FloatArray:
        """Natural logarithm of each value; shape (m,)."""
        return np.log(self.value)

    @cached_property
    def size(self) -> float:
        """Values, each counted as often as it occurs."""
        return float(self.count.sum())

    @cached_property
    def mean(self) -> float:
        """Arithmetic mean."""
        return self.average(self.value)

    @cached_property
    def mean_log(self) -> float:
        """Mean of the logarithms."""
        return self.average(self.log)

    @cached_property
    def std_log(self) -> float:
        """Standard deviation of the logarithms (divisor n)."""
        return float(np.sqrt(self.average((self.log - self.mean_log) ** 2)))

    @cached_property
    def up_to(self) -> FloatArray:
        """How many values are at most each distinct one; shape (m,)."""
        return np.cumsum(self.count)

    def average(self, marks: FloatArray) -> float:
        """Return the mean of a mark per distinct value, weighted by the counts."""
        return float(self.count @ marks) / self.size

    def part(self, start: int, stop: int | None = None) -> Sample:
        """Return the distinct values from position ``start`` to before ``stop``."""
        return Sample(self.value[start:stop], self.count[start:stop])

    def grouped(self, bins: int = BINS) -> Sample:
        """Return the sample with its values in bins of equal width in the logarithm.

        A bin has the geometric mean of its values, which preserves the mean of the logarithms.
        A sample of at most ``bins`` distinct values is returned as it is.
        """
        if self.value.size <= bins:
            return self
        low, high = self.log[0], self.log[-1]
        place = np.minimum(((self.log - low) / (high - low) * bins).astype(np.int64), bins - 1)
        first = np.flatnonzero(np.diff(place, prepend=-1))
        count = np.add.reduceat(self.count, first)
        return Sample(np.exp(np.add.reduceat(self.count * self.log, first) / count), count)


def positive_sample(ascending: FloatArray) -> tuple[Sample, int]:
    """Return the positive values of a sorted sample >= 0 without NaN, and how many are zero."""
    zeros = int(np.searchsorted(ascending, 0.0, side="right"))
    positive = ascending[zeros:]
    first = np.flatnonzero(np.diff(positive, prepend=-1.0))
    count = np.diff(first, append=positive.size).astype(np.float64)
    return Sample(positive[first], count), zeros
