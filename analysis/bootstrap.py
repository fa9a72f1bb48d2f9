"""Bootstrap of a series whose neighbours depend on each other, by blocks of consecutive jobs.

Sources: Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of
Statistics 17, 1989 (moving blocks); Politis and Romano, "A circular block-resampling procedure for
stationary data", 1992 (the last job is followed by the first, so that every job is as likely).
What adds up over the jobs is summed from prefix sums, block by block; for what needs an order a
resample is how often each job occurs in it, so that nothing is sorted again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
CountArray = NDArray[np.int32]

LEAST_BLOCKS = 10
SECONDS_PER_DAY = 86400.0


def block_length(jobs: int, span_s: float) -> int:
    """Return the number of consecutive jobs in a block.

    It is the larger of ``n^(1/3)``, the order that is best for the variance of a mean (Künsch),
    and the jobs of an average day, so that what a day ties together stays together; at most a
    tenth of the jobs, and at least one.
    """
    a_day = jobs * SECONDS_PER_DAY / span_s if span_s > 0 else 0.0
    wished = max(np.ceil(jobs ** (1 / 3)), a_day)
    return int(max(1, min(wished, jobs // LEAST_BLOCKS)))


@dataclass(frozen=True, slots=True)
class Blocks:
    """Resamples of a series as blocks of it; a block may run over the end into the beginning.

    Attributes:
        size: length of the series, and of every resample.
        starts: first position of each block; shape (resamples, blocks).
        ends: position after the last; above ``size`` where the block begins again at 0. The
            last block of a resample is cut to the length that is missing.
    """

    size: int
    starts: IntArray
    ends: IntArray

    def sums(self, marks: FloatArray) -> FloatArray:
        """Return the sum of a mark per position over each resample; shape (resamples,)."""
        upto = np.concatenate([[0.0], np.cumsum(np.concatenate([marks, marks]))])
        result: FloatArray = (upto[self.ends] - upto[self.starts]).sum(axis=1)
        return result

    def positions(self, resample: int) -> IntArray:
        """Return the positions of one resample, one block after another; shape (size,)."""
        starts, lengths = self.starts[resample], self.ends[resample] - self.starts[resample]
        before = np.cumsum(lengths) - lengths
        result: IntArray = (np.arange(self.size) + np.repeat(starts - before, lengths)) % self.size
        return result

    def occurrences(self, resample: int) -> CountArray:
        """Return how often each position occurs in one resample; shape (size,)."""
        starts, ends = self.starts[resample], self.ends[resample]
        change = np.zeros(2 * self.size, dtype=np.int32)
        np.add.at(change, starts, 1)
        np.add.at(change, ends[ends < 2 * self.size], -1)
        folded = change[: self.size] + change[self.size :]
        folded[0] += np.count_nonzero(ends >= self.size)  # these go on where the series begins
        return np.cumsum(folded, dtype=np.int32)


def draw_blocks(size: int, block: int, resamples: int, rng: np.random.Generator) -> Blocks:
    """Draw resamples of a series.

    Args:
        size: length of the series, at least 1.
        block: positions in a block, 1 to ``size``.
        resamples: how many.
        rng: draws the first position of every block.
    """
    blocks = -(-size // block)
    starts = rng.integers(0, size, size=(resamples, blocks))
    ends = starts + block
    ends[:, -1] -= blocks * block - size
    return Blocks(size, starts, ends)


def share_hint(level: float) -> str:
    """Return what to add to the refusal of a level that may be meant as a share: 0.95 for 95."""
    return f"; in percent, did you mean {100 * level:g}?" if 0 < level < 1 else ""


def interval(values: FloatArray, level: float) -> tuple[float, float] | None:
    """Return the middle ``level`` percent of resampled values (Efron's percentile interval).

    None where a resample leaves the statistic undefined (NaN).
    """
    if not values.size or np.isnan(values).any():
        return None
    tail = (100 - level) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def at_least(values: FloatArray, level: float) -> tuple[float, None] | None:
    """Return the value that ``level`` percent of the resampled ones reach, and no upper end.

    For a maximum: k blocks drawn from the blocks of a series stay below x as often as k new ones
    would, as far as the blocks tell; above the largest value of the series they tell nothing.
    """
    if not values.size or np.isnan(values).any():
        return None
    return float(np.percentile(values, 100 - level, method="lower")), None
