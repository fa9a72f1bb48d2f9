"""Bootstrap of a series with dependent neighbors, by blocks of consecutive jobs.

Sources: Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of
Statistics 17, 1989 (moving blocks); Politis and Romano, "A circular block-resampling procedure for
stationary data", 1992 (the last job is followed by the first, so all jobs are equally likely).
`gpuplan.analysis.statistics.block_length` chooses the length of the blocks.

Intervals: Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician
69, 2015 (the expanded percentile interval); Götze and Künsch, "Second-order correctness of the
blockwise bootstrap for stationary observations", Annals of Statistics 24, 1996 (studentized by the
blocks of each resample).

Sums over the jobs come from prefix sums, block by block. Statistics that need sorted jobs take the
number of occurrences of each job in a resample, so that nothing is sorted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from gpuplan.analysis.base.arrays import CountArray, FloatArray, IntArray

NORMAL = NormalDist()
AT_ONCE = 256
Smooth = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""A statistic of sums that does not change when all sums double: from sums of shape (k, ...), its
value of shape (...) and its gradient of shape (k, ...); NaN where it is undefined."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Resamples of a series as blocks of it; a block may wrap around from the end to the beginning.

    Attributes:
        size: length of the series, and of every resample.
        starts: first position of each block; shape (resamples, blocks).
        ends: position after the last one of each block, above ``size`` if the block wraps around.
            The last block of a resample is cut so that the resample has the right size.
    """

    size: int
    starts: IntArray
    ends: IntArray

    @property
    def count(self) -> int:
        """Blocks in a resample."""
        return int(self.starts.shape[1])

    def block_sums(self, marks: FloatArray) -> FloatArray:
        """Return the sum of a mark per position over each block; shape (resamples, blocks)."""
        upto = np.zeros(self.size + 1)
        np.cumsum(marks, out=upto[1:])
        wraps = self.ends > self.size
        result: FloatArray = upto[self.ends - wraps * self.size] - upto[self.starts]
        result += wraps * upto[-1]
        return result

    def sums(self, marks: FloatArray) -> FloatArray:
        """Return the sum of a mark per position over each resample; shape (resamples,)."""
        result: FloatArray = self.block_sums(marks).sum(axis=1)
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
        folded[0] += np.count_nonzero(ends >= self.size)  # these wrap around to the beginning
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
    """Return a hint for an error about a level that looks like a share: 0.95 for 95."""
    return f"; in percent, did you mean {100 * level:g}?" if 0 < level < 1 else ""


@dataclass(frozen=True, slots=True)
class Studentized:
    """A smooth statistic over resamples, each with its own standard error.

    Attributes:
        value: of the series itself.
        error: its standard error, from the sums of all blocks of the series.
        values: of the resamples; shape (resamples,).
        errors: standard errors of the resamples, from their blocks; shape (resamples,).
    """

    value: float
    error: float
    values: FloatArray
    errors: FloatArray

    def interval(self, level: float, blocks: int) -> tuple[float, float] | None:
        """Return the studentized interval, widened to the expanded percentile interval.

        A resample of a heavy tail that has few large values also has a small standard error; the
        studentized interval accounts for it and reaches higher than percentiles do. Where all
        values are positive, the lower end is computed on a logarithmic scale to stay positive.
        """
        ends = interval(self.values, level, blocks)
        if ends is None or not self.error > 0 or not (self.errors > 0).all():
            return ends
        tails = np.array([(100 - level) / 2, (100 + level) / 2])
        scores = (self.values - self.value) / self.errors
        low_score, high_score = np.percentile(scores, tails, method="weibull")[::-1]
        low = self.value - low_score * self.error
        high = self.value - high_score * self.error
        if self.value > 0 and (self.values > 0).all():
            scores = np.log(self.values / self.value) * self.values / self.errors
            low_score = np.percentile(scores, tails[1], method="weibull")
            low = self.value * np.exp(-low_score * self.error / self.value)
        return min(ends[0], float(low)), max(ends[1], float(high))


def studentize(blocks: Blocks, marks: FloatArray, statistic: Smooth) -> Studentized:
    """Return a statistic of sums over resamples, with standard errors by the delta method.

    Args:
        blocks: the resamples.
        marks: the values to sum, per position; shape (k, size).
        statistic: of the sums.
    """
    sums = np.stack([_twice(row) for row in marks])
    small = blocks.count / max(blocks.count - 1, 1)
    values, errors = np.empty(len(blocks.starts)), np.empty(len(blocks.starts))
    for begin in range(0, values.size, AT_ONCE):  # all blocks at once could fill the memory
        rows = slice(begin, begin + AT_ONCE)
        parts = sums[:, blocks.ends[rows]] - sums[:, blocks.starts[rows]]
        values[rows], slopes = statistic(parts.sum(axis=2))
        influence = np.einsum("kr,krb->rb", slopes, parts)  # degree 0: they add up to 0
        errors[rows] = np.sqrt(small * np.square(influence).sum(axis=1))
    value, slope = statistic(marks.sum(axis=1))
    length = int((blocks.ends[0] - blocks.starts[0]).max())
    every = slope @ (sums[:, length : length + blocks.size] - sums[:, : blocks.size])
    error = float(np.sqrt(small * np.square(every).mean() * blocks.size / length))
    return Studentized(float(value), error, values, errors)


def ratio(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the quotient of two sums, and its gradient; NaN where the divisor is not above 0."""
    over, under = sums
    safe = np.where(under > 0, under, np.nan)
    value = over / safe
    return value, np.stack([1 / safe, -value / safe])


def squared_cv(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return variance over squared mean from sums of 1, x and x^2, and its gradient."""
    count, first, second = sums
    safe = np.where(first > 0, first, np.nan)
    moment = second * count / safe**2
    return np.maximum(moment - 1, 0.0), np.stack(
        [second / safe**2, -2 * moment / safe, count / safe**2]
    )


def interval(values: FloatArray, level: float, blocks: int = 0) -> tuple[float, float] | None:
    """Return the expanded percentile interval of resampled values.

    A percentile is the value below which a further value falls with that probability. With few
    blocks the percentiles are too close to each other, by sqrt((b - 1) / b) and by the ratio of
    Student's quantile to the normal one, so percentiles further out are taken.

    Args:
        values: of the resamples; shape (resamples,).
        level: confidence, percent.
        blocks: blocks in a resample; 0 for no expansion.

    Returns:
        Low and high end; None where a resample leaves the statistic undefined (NaN).
    """
    if not values.size or np.isnan(values).any():
        return None
    tail = expanded_tail(level, blocks)
    low, high = np.percentile(values, [tail, 100 - tail], method="weibull")
    return float(low), float(high)


def share_interval(
    values: FloatArray, share: float, level: float, blocks: int
) -> tuple[float, float] | None:
    """Return an interval of a share that resamples understate because a few jobs decide it.

    The expanded percentile interval, widened to its reflection in the estimate on the logit scale
    (the basic bootstrap interval).

    Args:
        values, level, blocks: as for `interval`.
        share: the estimate.
    """
    ends = interval(values, level, blocks)
    if ends is None or not 0 < ends[0] <= ends[1] < 1 or not 0 < share < 1:
        return ends
    low, high = (share**2 * (1 - end) / end for end in reversed(ends))  # odds, by (1 - share)^2
    rest = (1 - share) ** 2
    return min(ends[0], low / (low + rest)), max(ends[1], high / (high + rest))


def expanded_tail(level: float, blocks: int = 0) -> float:
    """Return the percent of resamples beyond each end of an expanded percentile interval."""
    tail = (100 - level) / 200
    if blocks < 2:
        return 100 * tail
    return 100 * NORMAL.cdf(
        -student_quantile(1 - tail, blocks - 1) * (blocks / (blocks - 1)) ** 0.5
    )


def student_quantile(probability: float, freedom: int) -> float:
    """Return a quantile of Student's law.

    Exact for one and two degrees of freedom; else the expansion of Hill, "Student's t-quantiles",
    Communications of the ACM 13, 1970 (algorithm 396), right to about 1e-4 here.
    """
    double = 2 * min(probability, 1 - probability)
    if freedom == 1:
        quantile = 1 / np.tan(double * np.pi / 2)
    elif freedom == 2:
        quantile = np.sqrt(2 / (double * (2 - double)) - 2)
    else:
        a = 1 / (freedom - 0.5)
        b = 48 / a**2
        c = ((20700 * a / b - 98) * a - 16) * a + 96.36
        d = ((94.5 / (b + c) - 3) / b + 1) * np.sqrt(a * np.pi / 2) * freedom
        x = d * double
        y = x ** (2 / freedom)
        if y > 0.05 + a:
            x = NORMAL.inv_cdf(double / 2)
            y = x**2
            if freedom < 5:
                c += 0.3 * (freedom - 4.5) * (x + 0.6)
            c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
            y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
            y = np.expm1(a * y**2)
        else:
            y = (
                (1 / (((freedom + 6) / (freedom * y) - 0.089 * d - 0.822) * (freedom + 2) * 3)
                 + 0.5 / (freedom + 4)) * y - 1
            ) * (freedom + 1) / (freedom + 2) + 1 / y  # fmt: skip
        quantile = np.sqrt(freedom * y)
    return float(quantile if probability >= 0.5 else -quantile)


def at_least(values: FloatArray, level: float) -> tuple[float, None] | None:
    """Return the value that ``level`` percent of the resampled ones reach, and no upper end.

    For a maximum: k blocks sampled from the blocks of a series stay below x as often as k new ones
    would, as far as the data show; they hold no information above the largest value.
    """
    if not values.size or np.isnan(values).any():
        return None
    return float(np.percentile(values, 100 - level, method="lower")), None


def _twice(marks: FloatArray) -> FloatArray:
    """Return the sums of the marks up to each position of the series repeated twice."""
    return np.concatenate([[0.0], np.cumsum(np.concatenate([marks, marks]))])
