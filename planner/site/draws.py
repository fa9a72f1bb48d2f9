"""What nobody knows at an instant, drawn from the past: run times and later arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import DAY_S, WEEK_S
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

LEAST_SAMPLE = 10
"""Jobs of a class that are enough to draw from; else a wider class counts."""
CLASSES = (
    ("user", "partition", "gpus", "limit"), ("user", "partition", "limit"),
    ("user", "gpus", "limit"), ("partition", "gpus", "limit"), ("user", "limit"),
    ("partition", "limit"), ("user",), ("partition",), (),
)  # fmt: skip
"""What a class has in common, the closest first."""
TAIL_STEPS = 200
"""Quantiles that stand for a run that nothing bounds; the longest is 400 times the elapsed time."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """What each unfinished job may run, in seconds from its start.

    Job ``i`` draws from ``value[first[i]:first[i + 1]]``, each as likely as any other.
    """

    first: IntArray
    value: IntArray

    def draw(self, rng: np.random.Generator) -> IntArray:
        """Return a run time of every job; shape (n,)."""
        count = np.diff(self.first)
        at = self.first[:-1] + (rng.random(count.size) * count).astype(np.int64)
        drawn: IntArray = self.value[at]
        return drawn


def run_times(
    unfinished: pl.DataFrame, finished: pl.DataFrame, at: int,
    is_outlasting: BoolArray | None = None,
) -> RunTimes:  # fmt: skip
    """Return what jobs may run: shares of their limits that jobs of their class did run.

    Only jobs whose limit would have ended before the instant count, where there are enough: among
    the last to start only short ones have ended. Of a job that runs, only longer times count.

    Args:
        unfinished: columns ``user, partition, gpus, limit, elapsed``; times in seconds.
        finished: the same with ``start`` and ``run_s``.
        at: the instant.
        is_outlasting: which unfinished jobs have no limit and have run at least as long as any
            that ended; shape (n,), None for none. See `as_long_again`.
    """
    old_enough = finished.filter(pl.col("start") + pl.col("limit") <= at)
    sample = old_enough if old_enough.height >= LEAST_SAMPLE else finished
    share = (sample["run_s"] / sample["limit"]).to_numpy().clip(0, 1)
    classes = [(share[rows], begin, end) for rows, begin, end in _class_ranges(sample, unfinished)]
    limits = unfinished["limit"].to_numpy()
    elapsed = unfinished["elapsed"].to_numpy()
    first, values = [0], []
    for i in range(limits.size):
        if is_outlasting is not None and is_outlasting[i]:
            drawn = as_long_again(int(elapsed[i]))
        else:
            alike = (shares[begin[i] : end[i]] for shares, begin, end in classes)
            drawn = _longer(alike, limits[i], elapsed[i])
        values.append(drawn)
        first.append(first[-1] + drawn.size)
    flat = np.concatenate([*values, np.empty(0, np.int64)])
    return RunTimes(np.array(first, np.int64), flat)


def as_long_again(elapsed: int) -> IntArray:
    """Return equally likely run times of a job of which only what it has run is known; seconds.

    After ``t`` seconds it goes on for more than ``r`` with probability ``t / (t + r)``, so for a
    median of ``t``. Source: Gott, "Implications of the Copernican principle for our future
    prospects", Nature 363 (1993).
    """
    below = (np.arange(TAIL_STEPS) + 0.5) / TAIL_STEPS
    runs: IntArray = np.maximum(np.round(elapsed / below[::-1]), elapsed + 1).astype(np.int64)
    return runs


def _class_ranges(
    sample: pl.DataFrame, unfinished: pl.DataFrame
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield where the jobs of each unfinished job's class are in the sample, for each of `CLASSES`.

    Yields:
        The rows of the sample sorted by class, and for each unfinished job the begin and the end of
        its class in that order; the same where the sample has none. Nulls are a class of their own.
    """
    names = list(CLASSES[0])
    rows = pl.concat([sample.select(names), unfinished.select(names)])
    code = {
        name: rows[name].rank("dense").fill_null(0).to_numpy().astype(np.int64) for name in names
    }
    for traits in CLASSES:
        number = np.zeros(rows.height, np.int64)
        for name in traits:
            number = number * (code[name].max(initial=0) + 1) + code[name]
        of_sample, wanted = number[: sample.height], number[sample.height :]
        order = np.argsort(of_sample, kind="stable")
        in_order = of_sample[order]
        yield order, np.searchsorted(in_order, wanted), np.searchsorted(in_order, wanted, "right")


def _longer(alike: Iterable[FloatArray], limit: int, elapsed: int) -> IntArray:
    """Return the run times of the closest class with enough that exceed what a job ran.

    Args:
        alike: what jobs of each class ran, in shares of their limits, the closest class first.
        limit, elapsed: of the job, in seconds.
    """
    least = elapsed / limit
    for share in alike:
        if share.size >= LEAST_SAMPLE and elapsed:
            share = share[share > least]
        if share.size >= LEAST_SAMPLE:
            runs: IntArray = np.maximum(np.round(share * limit), elapsed + 1).astype(np.int64)
            return runs
    # Nothing like it ran as long: it may end at any time until its limit.
    return np.linspace(elapsed + 1, max(limit, elapsed + 2), LEAST_SAMPLE).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Jobs of the past that may come again.

    Attributes:
        submit: when each came; ascending, shape (n,), seconds.
        first: the first second of the log.
        at: the instant.
        days: days for which jobs come.
    """

    submit: IntArray
    first: int
    at: int
    days: int

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return positions of jobs and by how much later each comes.

        Every day, of 24 hours from the instant on, repeats the same weekday of a past week, or any
        past day where the log has no whole week.
        """
        chance = rng.random(self.days)
        period = WEEK_S if self.at - self.first >= WEEK_S else DAY_S
        periods = (self.at - self.first) // period
        rows, shifts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for day in range(self.days if periods else 0):
            shift = (day * DAY_S // period + 1 + int(chance[day // 7] * periods)) * period
            begin = self.at + day * DAY_S - shift
            low, high = np.searchsorted(self.submit, [begin, begin + DAY_S], side="right")
            rows.append(np.arange(low, high))
            shifts.append(np.full(high - low, shift))
        return np.concatenate(rows), np.concatenate(shifts)
