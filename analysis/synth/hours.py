"""Hourly counts of the original: a path of arrivals moved until its hours have their distribution.

Gaps with memory gather into bursts, but how many hours are bursts and how strong they are is then
left to the memory. So the hours of a path are ranked by their submissions and get the counts of
the original in that order (rank mapping, as Iman and Conover do with values; see
`synth.dependence`). Order, and with it how bursts follow each other, stays that of the path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US
from gpuplan.analysis.synth.curve import DurationCurve, fit_curve
from gpuplan.analysis.synth.dependence import strata

SPREADS = (0.05, 20.0)
TAIL_FROM = 0.9
RAKED = 40
RAKED_CLOSE = 0.01
RAKING = 0.3
FEW = 10
"""Fewer submissions give no pattern for more than twice as many, which then spread evenly."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Submissions per hour, hours counted from the first submission on.

    Attributes:
        busy: share of the hours that have a submission.
        counts: submissions of these hours.
        dispersion: variance over mean of the counts of all hours.
        mean: submissions per hour, of all hours.
    """

    busy: float
    counts: DurationCurve
    dispersion: float
    mean: float


def hourly_counts(submit_us: IntArray) -> tuple[IntArray, IntArray]:
    """Return the hours with a submission, from the first one (0) on, and their submissions."""
    hour = (submit_us - submit_us[0]) // HOUR_US
    first = np.flatnonzero(np.diff(hour, prepend=-1))
    return hour[first], np.diff(first, append=hour.size)


def dispersion(counts: IntArray, hours: int) -> float:
    """Return variance over mean of hourly counts, of ``hours`` hours in all."""
    some = counts.astype(np.float64)
    return float(np.square(some).sum() / some.sum() - some.sum() / hours)


def fit_hours(submit_us: IntArray) -> Hours:
    """Return the hourly counts of ascending submissions; shape (n,), n >= 1."""
    hours_seen, counts = hourly_counts(submit_us)
    hours = int(hours_seen[-1]) + 1
    return Hours(
        busy=counts.size / hours,
        counts=fit_curve(np.sort(counts).astype(np.float64), 1.0),
        dispersion=dispersion(counts, hours),
        mean=submit_us.size / hours,
    )


def draw_counts(law: Hours, jobs: int, hours: int, rng: np.random.Generator) -> IntArray:
    """Return ascending counts, each at least 1, of the hours with a submission: ``jobs`` in all.

    One value per stratum of the curve; the largest tenth is then spread until the counts of all
    hours have the dispersion of the original, at its rate (at another rate, that of the original
    thinned or multiplied).
    """
    busy = int(np.clip(round(law.busy * hours), 1, min(hours, jobs)))
    values = np.maximum(law.counts.at(strata(busy, rng)), 1e-9)
    mean = jobs / hours
    wanted = 1 + (law.dispersion - 1) * mean / law.mean
    square = jobs * (wanted + mean)  # sum of the squared counts
    pivot = values[int(TAIL_FROM * busy)]
    above = np.maximum(values / pivot, 1.0)
    spread = 1.0
    low, high = SPREADS
    for _ in range(40):
        drawn = values * above ** (spread - 1)
        drawn *= jobs / drawn.sum()
        if float(drawn @ drawn) < square:
            low = spread
        else:
            high = spread
        spread = (low * high) ** 0.5
    upto = np.floor(np.cumsum(drawn) + rng.random())
    upto[-1] = jobs
    counts = np.diff(upto, prepend=0.0).astype(np.int64)
    return np.sort(counts[counts > 0])


@dataclass(frozen=True, slots=True)
class Pattern:
    """The shares of the submissions that each part of the week should have.

    Attributes:
        slot: of some instants (seconds after the first submission), the hour of the week.
        by_hour: share of each hour of the day; shape (24,).
        by_weekday: share of each day of the week; shape (7,); None where a path has too few.
        early: share of each hour after the first submission that is in an hour of the clock with
            its start; the rest is in the next one.
    """

    slot: Callable[[FloatArray], IntArray]
    by_hour: FloatArray
    by_weekday: FloatArray | None
    early: float


def regroup(
    real_s: FloatArray, law: Hours, pattern: Pattern | None, rng: np.random.Generator
) -> FloatArray:
    """Return submissions with hourly counts from a distribution, in the ranks of the given ones.

    Args:
        real_s: ascending submissions in seconds; shape (n,), n >= 2. The ends do not move.
        law: of the counts.
        pattern: weights of the hours of the week; None for no pattern.
        rng: draws the counts, ties and places within hours without a pattern.
    """
    offset = real_s - real_s[0]
    hour = (offset // HOUR_S).astype(np.int64)
    first = np.flatnonzero(np.diff(hour, prepend=-1))
    at, seen = hour[first], np.diff(first, append=hour.size)
    if at.size < 2:
        return real_s
    counts = draw_counts(law, real_s.size, int(hour[-1]) + 1, rng)
    if counts.size < 2:
        counts = np.array([1, real_s.size - 1])
    near = np.zeros(at.size)
    is_next_hour = np.diff(at) == 1
    near[1:] += np.where(is_next_hour, seen[:-1], 0)
    near[:-1] += np.where(is_next_hour, seen[1:], 0)
    if counts.size > at.size:
        extra = _shortest_lulls(at, counts.size - at.size, rng)
        none = np.zeros(extra.size, dtype=np.int64)
        at, seen, first = (
            np.concatenate(pair) for pair in ((at, extra), (seen, none), (first, none))
        )
        near = np.concatenate([near, none])
    # Hours of equal counts are ranked by their neighbors, and then at random.
    weight = np.log(seen + near / (near + 1 + near.max()) + 1e-3 * rng.random(at.size) + 0.1)
    wanted = _in_order_of(
        weight,
        at,
        np.concatenate([np.zeros(at.size - counts.size, dtype=np.int64), counts]),
        pattern,
    )
    for end in np.flatnonzero((at == 0) | (at == hour[-1])):  # these do not move
        if wanted[end] == 0:
            least = np.flatnonzero((wanted > 0) & (at > 0) & (at < hour[-1]))
            other = least[np.argmin(wanted[least])]
            wanted[[end, other]] = wanted[[other, end]]
    chosen = np.flatnonzero(wanted)
    wanted = wanted[chosen]
    order = np.argsort(at[chosen])
    chosen, wanted = chosen[order], wanted[order]
    moved = _filled(offset, at[chosen], first[chosen], seen[chosen], wanted, rng)
    result: FloatArray = real_s[0] + moved
    return result


def _in_order_of(
    weight: FloatArray, at: IntArray, counts: IntArray, pattern: Pattern | None
) -> IntArray:
    """Return ascending counts in the order of weights, turned until the pattern is met.

    Raking: the weights of each part of the week are multiplied by a power of its wanted share over
    the one found (Deming and Stephan, Annals of Mathematical Statistics 11, 1940).
    """
    best = np.empty_like(counts)
    best[np.argsort(weight)] = counts
    if pattern is None:
        return best
    begin_s: FloatArray = np.asarray(at * HOUR_S, dtype=np.float64)
    halves = [
        (pattern.early, pattern.slot(begin_s)),
        (1 - pattern.early, pattern.slot(begin_s + HOUR_S - 1e-3)),
    ]
    parts = [([(share, slot % 24) for share, slot in halves], pattern.by_hour)]
    if pattern.by_weekday is not None:
        parts.append(([(share, slot // 24) for share, slot in halves], pattern.by_weekday))
    weights, candidate, least = weight.copy(), best, np.inf
    for round_ in range(RAKED):
        off = 0.0
        for places, wanted in parts:
            here = (
                sum(
                    share * np.bincount(place, candidate, minlength=wanted.size)
                    for share, place in places
                )
                / counts.sum()
            )
            off = max(off, float(np.abs(here - wanted).sum() / 2))
            lack = RAKING / (1 + round_ / 10) * np.log((wanted + 1e-3) / (here + 1e-3))
            weights += sum(share * lack[place] for share, place in places)
        if off < least:
            best, least = candidate, off
        if off <= RAKED_CLOSE:
            break
        candidate = np.empty_like(counts)
        candidate[np.argsort(weights)] = counts
    return best


def _shortest_lulls(at: IntArray, lacking: int, rng: np.random.Generator) -> IntArray:
    """Return hours without a submission, from the shortest runs of them: long lulls stay."""
    lull = np.diff(at) - 1
    order = np.lexsort((rng.random(lull.size), lull))
    order = order[lull[order] > 0]
    length = np.minimum(lull[order], lacking)
    upto = np.cumsum(length)
    runs = int(np.searchsorted(upto, lacking)) + 1
    order, length, upto = order[:runs], length[:runs], upto[:runs]
    hours = np.arange(int(length.sum())) - np.repeat(upto - length, length)
    hours_of_lulls: IntArray = np.repeat(at[order] + 1, length) + hours
    return hours_of_lulls[:lacking]


def _filled(
    offset: FloatArray,
    at: IntArray,
    first: IntArray,
    seen: IntArray,
    wanted: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return submissions of the wanted number in each hour, in the pattern of those seen there."""
    size = int(wanted.sum())
    inside = np.arange(size) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    free = (seen == 0) | ((seen == 1) & (wanted > 1)) | ((wanted > 2 * seen) & (seen < FEW))
    scale = (seen - 1) / np.maximum(wanted - 1, 1)
    place = np.repeat(first, wanted) + inside * np.repeat(np.where(free, 0.0, scale), wanted)
    low = np.minimum(place.astype(np.int64), offset.size - 1)
    start = offset[low]
    filled = start + (place - low) * (offset[np.minimum(low + 1, offset.size - 1)] - start)
    loose = np.repeat(free, wanted)
    hour = np.repeat(at, wanted)
    begin = HOUR_S * hour
    end = np.minimum(np.nextafter(begin + HOUR_S, 0), offset[-1])
    filled[loose] = begin[loose] + (end - begin)[loose] * rng.random(np.count_nonzero(loose))
    moved: FloatArray = np.clip(filled, begin, end)
    moved.sort()
    moved[0], moved[-1] = 0.0, offset[-1]
    return moved
