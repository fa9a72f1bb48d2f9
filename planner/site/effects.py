"""The effect of a change on the waits of groups of jobs, from pairs of replays, with its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gpuplan.analysis.base.time_units import DAY_S, WEEK_S
from gpuplan.analysis.statistics.bootstrap import student_quantile
from gpuplan.planner.site.replicas import Replica
from gpuplan.planner.twin.workload import ALL_JOBS, SiteWorkload
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.twin.refusals import CANCELLED

LONGER, SHORTER, UNCLEAR = "longer", "shorter", "too small to tell"
NO_CHANGE = "no change"
"""Not one wait differs in any pair."""
QUANTILES = {6: 1.841, 12: 1.661, 18: 1.614, 24: 1.592}
"""Pairs that are replayed -> quantile 15/16 of Student's t with one degree of freedom less."""
CONFIDENCE = 0.875
"""Of the interval between 1/16 and 15/16."""
CLEAR_SHARE = 0.25
"""Pairs are added while the standard error of an effect exceeds so much of it ..."""
SMALL_SHARE = 0.05
"""... and so much of the wait: what a model of a scheduler resolves, too."""
LOST_SHARE = 0.01
"""Of the jobs of a group: if more never start with a change, its effect counts them."""
MOST_LOST = 0.5
"""Of all jobs: if more never start with a change, waits of the others tell nothing."""
LEAST_BLOCKS = 6
"""Blocks of weeks, else of days, of which each is left out in turn; fewer say nothing."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does to one figure of the waits of a group, in seconds.

    Attributes:
        recorded: the figure as recorded, of the same jobs.
        replayed: its mean over the replicas under the rules of today.
        changed: its mean over the replicas with the change.
        spread: standard deviation of changed - replayed over the pairs.
        error: see `error_of`.
        error_of_many: the same for the largest of all figures of the groups.
    """

    recorded: float
    replayed: float
    changed: float
    spread: float
    error: float
    error_of_many: float

    @property
    def effect(self) -> float:
        """Changed - replayed."""
        return self.changed - self.replayed

    @property
    def verdict(self) -> str:
        """``longer``, ``shorter``, ``too small to tell`` or ``no change``."""
        return verdict(self.effect, self.error)

    @property
    def stands_out(self) -> bool:
        """Whether the effect is told even as the largest of many."""
        return abs(self.effect) > self.error_of_many

    @property
    def under(self) -> float | None:
        """What the size of an effect that is too small to tell is below; None where it is told."""
        is_told = self.verdict in (LONGER, SHORTER)
        return None if is_told else abs(self.effect) + self.error


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """The waits of one group under a change, in seconds.

    Attributes:
        name: the group.
        jobs: scored jobs that start in the record and in both replays of a pair, on average.
        lost_jobs: those that start today and never with the change, on average. Where they are over
            1% of the group they count as waiting to the end of the log, else they are left out.
        recorded_mean_wait_s, recorded_p95_wait_s: as recorded, of the same jobs.
        replayed_mean_wait_s, replayed_p95_wait_s: replayed under the rules of today.
        changed_mean_wait_s, changed_p95_wait_s: replayed with the change.
        effect_s, p95_effect_s: changed - replayed.
        noise_s, p95_noise_s: standard deviation of the effect over the pairs.
        error_s, p95_error_s: how far the effect may be from what the change would have done, from
            the pairs, from leaving out each block of days, and from the model, which resolves 5%
            of a wait.
        verdict: ``longer``, ``shorter``, ``too small to tell`` or ``no change``, by the means.
        p95_verdict: the same by the 95th percentiles.
        under_s, p95_under_s: what the size of an effect that is too small to tell is below; null
            where it is told.
        stands_out, p95_stands_out: whether the effect is told even as the largest of all groups'.
    """

    name: str
    jobs: int
    lost_jobs: int
    recorded_mean_wait_s: float
    recorded_p95_wait_s: float
    replayed_mean_wait_s: float
    replayed_p95_wait_s: float
    changed_mean_wait_s: float
    changed_p95_wait_s: float
    effect_s: float
    p95_effect_s: float
    noise_s: float
    p95_noise_s: float
    error_s: float
    p95_error_s: float
    verdict: str
    p95_verdict: str
    under_s: float | None
    p95_under_s: float | None
    stands_out: bool
    p95_stands_out: bool

    @classmethod
    def of(cls, name: str, jobs: int, lost: float, mean: Effect, p95: Effect) -> GroupEffect:
        """Return the effects on the mean and the P95 wait of a group."""
        both = (
            (getattr(mean, figure), getattr(p95, figure))
            for figure in ("recorded", "replayed", "changed", "effect", "spread", "error",
                           "verdict", "under", "stands_out")
        )  # fmt: skip
        return cls(name, jobs, round(lost), *chain.from_iterable(both))

    @property
    def counts_lost(self) -> bool:
        """Whether jobs that never start with the change count."""
        return self.lost_jobs > 0 and self.lost_jobs > LOST_SHARE * self.jobs

    def is_precise(self, pairs: int) -> bool:
        """Return whether more pairs would say little more of either figure."""
        return all(
            spread_s / float(np.sqrt(pairs))
            <= max(CLEAR_SHARE * abs(effect_s), SMALL_SHARE * today_s)
            for effect_s, spread_s, today_s in (
                (self.effect_s, self.noise_s, self.replayed_mean_wait_s),
                (self.p95_effect_s, self.p95_noise_s, self.replayed_p95_wait_s),
            )
        )


def verdict(effect: float, error: float) -> str:
    """Return what an effect with an error says."""
    if effect == error == 0:
        return NO_CHANGE
    if abs(effect) <= error:
        return UNCLEAR
    return LONGER if effect > 0 else SHORTER


def error_of(
    spread: float,
    pairs: int,
    without: float,
    unexplained: float = 0.0,
    *,
    model: float = 0.0,
    figures: int = 1,
) -> float:
    """Return how far an effect may be from what the change would have done to these jobs.

    The site's own history is one more replica: between its effect and the mean of the pairs lies
    the spread, times the quantile of an interval that holds seven of eight such histories. The
    model adds its own: it is another scheduler than the site's, and what it gets wrong with the
    change is not all that it gets wrong today. An effect that hangs on one block of days is no
    better than what it moves without that block.

    Args:
        spread: standard deviation of the effects of the pairs.
        pairs: how many there are.
        without: most that the effect moves where one block of days is left out.
        unexplained: error of the replay of today, where the change is of a rule that the
            calibration does not explain; else it is the same in both replays of a pair.
        model: standard deviation of what the model gets wrong in one replay and not in the other.
        figures: of how many the effect is the largest; the interval then holds all of them in
            seven of eight histories, as if they were independent (Sidak, 1967).
    """
    chance = _quantile(pairs, figures) * float(np.sqrt(spread**2 * (1 + 1 / pairs) + model**2))
    return max(chance, without) + unexplained


def chance_of(spread: float, pairs: int) -> float:
    """Return how far the mean effect of pairs may be from that of any number of pairs.

    Args:
        spread: standard deviation of the effects of the pairs.
        pairs: how many there are.
    """
    return _quantile(pairs) * spread / float(np.sqrt(pairs))


def _quantile(pairs: int, figures: int = 1) -> float:
    """Return the quantile of Student's t for an interval that holds the largest of figures."""
    if figures == 1 and pairs in QUANTILES:
        return QUANTILES[pairs]
    return student_quantile((1 + CONFIDENCE ** (1 / figures)) / 2, pairs - 1)


def blocks_of(submit: IntArray) -> IntArray:
    """Return the block of days in which each job was submitted: weeks, else days, else one."""
    since = submit - submit.min(initial=np.iinfo(np.int64).max) if submit.size else submit
    for length in (WEEK_S, DAY_S):
        blocks = int(since.max(initial=0)) // length
        if blocks >= LEAST_BLOCKS:  # what is left of the last one belongs to the one before
            return np.minimum(since // length, blocks - 1)
    return np.zeros(submit.size, np.int64)


def effects_of(
    work: SiteWorkload,
    today: Sequence[Replica],
    changed: Sequence[Replica],
    by: str,
    *,
    is_explained: bool,
    all_parts: bool = False,
    in_doubt: bool = False,
    held: BoolArray | None = None,
) -> list[GroupEffect]:
    """Return the effects on all jobs, then on the groups by name; groups without a job left out.

    Args:
        today, changed: replicas before and after the change, in pairs.
        by: what groups are.
        is_explained: whether the calibration explains the changed rules.
        all_parts: whether the wait of a job that goes on as new ones is that of all its parts.
        in_doubt: whether the rules explain nothing, so that unchanged waits say nothing either.
        held: jobs that count besides the scored ones, with the waits that they had; None for none.
    """
    held = np.zeros(work.scored.size, np.bool_) if held is None else held
    names, counts = work.names(by), work.scored | held
    blocks = np.zeros(counts.size, np.int64)
    blocks[counts] = blocks_of(work.jobs.submit[counts])
    groups = [(ALL_JOBS, counts)]
    kinds = sorted(set(names[counts]))
    groups += [(str(name), counts & (names == name)) for name in kinds]
    pairs = [
        _Pair.of(work, before, after, all_parts, held)
        for before, after in zip(today, changed, strict=True)
    ]
    effects = (
        _group(
            name,
            np.flatnonzero(of),
            blocks,
            work.recorded_wait,
            pairs,
            is_explained,
            2 * len(kinds),
            in_doubt,
        )
        for name, of in groups
    )
    return [effect for effect in effects if effect is not None]


def effect_on_all(
    submit: IntArray, recorded_wait: IntArray, pairs: Sequence[tuple[IntArray, IntArray]]
) -> GroupEffect | None:
    """Return the effect on all jobs of pairs of replays; None where no job starts in each.

    Args:
        submit: when each job came, in seconds; shape (n,).
        recorded_wait: as recorded.
        pairs: waits before and after the change, in seconds, -1 where a job did not start.
    """
    nobody = np.zeros(submit.size, np.bool_)
    replayed = [_Pair(before, after, nobody, after) for before, after in pairs]
    everybody = np.arange(submit.size)
    blocks = blocks_of(submit)
    return _group(ALL_JOBS, everybody, blocks, recorded_wait, replayed, True, 1)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Waits of the jobs in one pair of replays, in seconds; arrays of shape (n,).

    Attributes:
        before, after: under the rules of today and with the change; -1 where a job did not start.
        lost: which jobs start today and not with the change, given up in neither.
        at_least: what those wait at least: to the end of the log.
    """

    before: IntArray
    after: IntArray
    lost: BoolArray
    at_least: IntArray

    @classmethod
    def of(
        cls,
        work: SiteWorkload,
        today: Replica,
        changed: Replica,
        all_parts: bool,
        held: BoolArray,
    ) -> _Pair:
        before, after = (
            np.where(held & (run.wait >= 0), work.recorded_wait, run.wait)
            for run in (today, changed)
        )
        if all_parts:
            has_all = (after >= 0) & (changed.later_wait >= 0)
            after = np.where(has_all, after + changed.later_wait, -1)
        lost = (before >= 0) & (after < 0) & (changed.reason != CANCELLED)
        end = int(max(work.recorded_start.max(initial=0), work.jobs.submit.max(initial=0)))
        least = np.maximum(np.maximum(end - work.jobs.ready, before), 0)
        return cls(before, after, lost, least)


def _group(
    name: str,
    at: IntArray,
    blocks: IntArray,
    recorded_wait: IntArray,
    replayed: Sequence[_Pair],
    is_explained: bool,
    figures_of_groups: int,
    in_doubt: bool = False,
) -> GroupEffect | None:
    """Return the effects on the jobs ``at``; None where they do not start in every pair."""
    if not at.size:
        return None
    count, blocks = int(blocks.max()) + 1, blocks[at]
    pairs = len(replayed)
    lost = sum(int(pair.lost[at].sum()) for pair in replayed)
    is_lost = lost > LOST_SHARE * sum(int((pair.before[at] >= 0).sum()) for pair in replayed)
    # Figures (mean, P95) as recorded, and of each pair before and after; without each block.
    figures = np.empty((3, pairs, 2))
    partly = np.zeros((2, count, 2))
    jobs, differs = 0, False
    for i, pair in enumerate(replayed):
        before, after = pair.before[at], pair.after[at]
        if is_lost:
            after = np.where(pair.lost[at], pair.at_least[at], after)
        both = (before >= 0) & (after >= 0)
        if not both.any():
            return None
        jobs += int(both.sum())
        differs = differs or bool((before[both] != after[both]).any())
        figures[2, i] = _figures(recorded_wait[at][both].astype(np.float64))
        for side, wait_s in enumerate((before[both], after[both])):
            waits = wait_s.astype(np.float64)
            figures[side, i] = _figures(waits)
            if count > 1:
                partly[side] += _without_each(waits, blocks[both], count) / pairs
    effects = []
    for which in range(2):
        before, after = figures[:2, :, which]
        recorded, today, changed = (float(figures[i, :, which].mean()) for i in (2, 0, 1))
        moved = partly[1, :, which] - partly[0, :, which] - (changed - today)
        without = float(np.abs(moved).max()) if count > 1 else 0.0
        spread = float((after - before).std(ddof=1))
        counts = in_doubt or (differs and not is_explained)
        unexplained = abs(today - recorded) if counts else 0.0
        model = SMALL_SHARE * today if differs else 0.0
        errors = (
            error_of(spread, pairs, without, unexplained, model=model, figures=many)
            for many in (1, figures_of_groups)
        )
        effects.append(Effect(recorded, today, changed, spread, *errors))
    return GroupEffect.of(name, round(jobs / pairs), lost / pairs, *effects)


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
