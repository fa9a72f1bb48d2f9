"""The effect of a change on the waits of groups of jobs, from pairs of replays, with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.planner.site.replicas import Replica
from gpuplan.planner.twin.workload import ALL_JOBS, SiteWorkload
from gpuplan.simkit.arrays import FloatArray, IntArray

LONGER, SHORTER, UNCLEAR = "longer", "shorter", "too small to tell"
QUANTILES = {6: 1.841, 12: 1.661, 18: 1.614, 24: 1.592}
"""Pairs that are replayed -> quantile 15/16 of Student's t with one degree of freedom less."""
CLEAR_SHARE = 0.25
"""Pairs are added while the standard error of an effect exceeds so much of it ..."""
SMALL_SHARE = 0.05
"""... and so much of the wait."""
DAY_S = 86400
WEEK_S = 7 * DAY_S
LEAST_BLOCKS = 6
"""Blocks of weeks, else of days, of which each is left out in turn; fewer say nothing."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does to one figure of the waits of a group, in seconds.

    Attributes:
        recorded: the figure as recorded.
        replayed: its mean over the replicas under the rules of today.
        changed: its mean over the replicas with the change.
        spread: standard deviation of changed - replayed over the pairs.
        without: most that the effect moves where one block of days is left out.
        error: see `error_of`.
    """

    recorded: float
    replayed: float
    changed: float
    spread: float
    without: float
    error: float

    @property
    def effect(self) -> float:
        """Changed - replayed."""
        return self.changed - self.replayed

    @property
    def verdict(self) -> str:
        """``longer``, ``shorter`` or ``too small to tell``."""
        return verdict(self.effect, self.error)

    @property
    def under(self) -> float | None:
        """What the size of an effect that is too small to tell is below; None where it is told."""
        return abs(self.effect) + self.error if self.verdict == UNCLEAR else None

    def is_precise(self, pairs: int) -> bool:
        """Return whether more pairs would say little more."""
        least = max(CLEAR_SHARE * abs(self.effect), SMALL_SHARE * self.replayed)
        return self.spread / float(np.sqrt(pairs)) <= least


@dataclass(frozen=True, slots=True)
class PairedWaits:
    """The effects of a change on the mean and the 95th percentile of the waits of a group.

    Attributes:
        name: the group.
        jobs: scored jobs that start in the record and in both replays of a pair, on average.
        mean, p95: the effects.
    """

    name: str
    jobs: int
    mean: Effect
    p95: Effect


def verdict(effect: float, error: float) -> str:
    """Return what an effect with an error says."""
    if abs(effect) <= error:
        return UNCLEAR
    return LONGER if effect > 0 else SHORTER


def error_of(spread: float, pairs: int, without: float, unexplained: float = 0.0) -> float:
    """Return how far an effect may be from what the change would have done to these jobs.

    The site's own history is one more replica: between its effect and the mean of the pairs lies
    the spread, times the quantile of an interval that holds seven of eight such histories. An
    effect that hangs on one block of days is no better than what it moves without that block.

    Args:
        spread: standard deviation of the effects of the pairs.
        pairs: how many there are; a key of `QUANTILES`.
        without: most that the effect moves where one block of days is left out.
        unexplained: error of the replay of today, where the change is of a rule that the
            calibration does not explain; else it is the same in both replays of a pair.
    """
    chance = QUANTILES[pairs] * spread * float(np.sqrt(1 + 1 / pairs))
    return max(chance, without) + unexplained


def blocks_of(submit: IntArray) -> IntArray:
    """Return the block of days in which each job was submitted: weeks, else days, else one."""
    since = submit - submit.min(initial=np.iinfo(np.int64).max) if submit.size else submit
    for length in (WEEK_S, DAY_S):
        whole = int(since.max(initial=0)) // length
        if whole >= LEAST_BLOCKS:  # what is left of the last one belongs to the one before
            return np.minimum(since // length, whole - 1)
    return np.zeros(submit.size, np.int64)


def effects_of(
    work: SiteWorkload,
    today: Sequence[Replica],
    changed: Sequence[Replica],
    by: str,
    *,
    is_explained: bool,
) -> list[PairedWaits]:
    """Return the effects on all jobs, then on the groups by name; groups without a job left out.

    Args:
        work: the jobs.
        today, changed: replicas before and after the change, in pairs.
        by: what groups are.
        is_explained: whether the calibration explains the changed rules.
    """
    names, blocks = work.names(by), np.zeros(work.scored.size, np.int64)
    blocks[work.scored] = blocks_of(work.jobs.submit[work.scored])
    groups = [(ALL_JOBS, work.scored)]
    kinds = sorted(set(names[work.scored]))
    groups += [(str(name), work.scored & (names == name)) for name in kinds]
    effects = (
        _group(name, np.flatnonzero(of), blocks, work, today, changed, is_explained)
        for name, of in groups
    )
    return [effect for effect in effects if effect is not None]


def _group(
    name: str,
    at: IntArray,
    blocks: IntArray,
    work: SiteWorkload,
    today: Sequence[Replica],
    changed: Sequence[Replica],
    is_explained: bool,
) -> PairedWaits | None:
    """Return the effects on the jobs ``at``; None where they do not start in every pair."""
    if not at.size:
        return None
    count, blocks = int(blocks.max()) + 1, blocks[at]
    pairs = len(today)
    # Figures (mean, P95) of each pair before and after, and without each of the blocks.
    figures = np.empty((2, pairs, 2))
    partly = np.zeros((2, count, 2))
    jobs = 0
    for i, runs in enumerate(zip(today, changed, strict=True)):
        both = (runs[0].wait[at] >= 0) & (runs[1].wait[at] >= 0)
        if not both.any():
            return None
        jobs += int(both.sum())
        for side, run in enumerate(runs):
            waits = run.wait[at][both].astype(np.float64)
            figures[side, i] = _figures(waits)
            if count > 1:
                partly[side] += _without_each(waits, blocks[both], count) / pairs
    recorded = _figures(work.recorded_wait[at].astype(np.float64))
    effects = []
    for which in range(2):
        before, after = figures[:, :, which]
        moved = partly[1, :, which] - partly[0, :, which] - (after.mean() - before.mean())
        without = float(np.abs(moved).max()) if count > 1 else 0.0
        spread = float((after - before).std(ddof=1))
        distance = abs(float(before.mean()) - recorded[which])
        error = error_of(spread, pairs, without, 0.0 if is_explained else distance)
        effects.append(
            Effect(
                recorded[which], float(before.mean()), float(after.mean()), spread, without, error
            )
        )
    return PairedWaits(name, round(jobs / pairs), *effects)


def _figures(waits: FloatArray) -> tuple[float, float]:
    return float(waits.mean()), float(np.percentile(waits, 95))


def _without_each(waits: FloatArray, blocks: IntArray, count: int) -> FloatArray:
    """Return mean and P95 without each block; of all where a block has all; shape (count, 2)."""
    order = np.argsort(waits, kind="stable")
    waits, blocks = waits[order], blocks[order]
    total = waits.sum()
    sums = np.bincount(blocks, weights=waits, minlength=count)
    left = waits.size - np.bincount(blocks, minlength=count)
    figures = np.empty((count, 2))
    for block in range(count):
        if not left[block]:
            figures[block] = _figures(waits)
            continue
        place = 0.95 * (left[block] - 1)
        rest = waits[blocks != block] if left[block] < waits.size else waits
        low, part = int(place), place - int(place)
        high = min(low + 1, rest.size - 1)
        p95 = rest[low] + (rest[high] - rest[low]) * part
        figures[block] = (total - sums[block]) / left[block], p95
    return figures
