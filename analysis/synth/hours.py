"""Hourly counts of the original: a path of arrivals moved until its hours have their distribution.

Gaps with memory gather into bursts, but how many hours are bursts and how strong they are is then
left to the memory. So the hours of a path are ranked by their submissions and get the counts of
the original in that order (rank mapping, as Iman and Conover do with values; see
`synth.dependence`). Order, and with it how bursts follow each other, stays that of the path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.synth.curve import Curve, FloatArray, fit_curve
from gpuplan.analysis.synth.dependence import IntArray, strata

HOUR_S = 3600.0
SPREADS = (0.05, 20.0)
TAIL_FROM = 0.9
FEW = 10
"""Fewer submissions than this have no pattern for more than twice as many: they spread evenly."""


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
    counts: Curve
    dispersion: float
    mean: float


def hourly_counts(submit_us: IntArray) -> tuple[IntArray, IntArray]:
    """Return the hours with a submission, from the first one (0) on, and their submissions."""
    hour = (submit_us - submit_us[0]) // (int(HOUR_S) * 1_000_000)
    first = np.flatnonzero(np.diff(hour, prepend=-1))
    return hour[first], np.diff(first, append=hour.size)


def dispersion(counts: IntArray, hours: int) -> float:
    """Return variance over mean of hourly counts, of ``hours`` hours in all."""
    some = counts.astype(np.float64)
    return float(np.square(some).sum() / some.sum() - some.sum() / hours)


def fit_hours(submit_us: IntArray) -> Hours:
    """Return the hourly counts of ascending submissions; shape (n,), n >= 1."""
    found, counts = hourly_counts(submit_us)
    hours = int(found[-1]) + 1
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
        found = values * above ** (spread - 1)
        found *= jobs / found.sum()
        if float(found @ found) < square:
            low = spread
        else:
            high = spread
        spread = (low * high) ** 0.5
    upto = np.floor(np.cumsum(found) + rng.random())
    upto[-1] = jobs
    counts = np.diff(upto, prepend=0.0).astype(np.int64)
    return np.sort(counts[counts > 0])


def regroup(real_s: FloatArray, law: Hours, rng: np.random.Generator) -> FloatArray:
    """Return submissions whose hourly counts are drawn from a law, in the ranks of those given.

    Args:
        real_s: ascending submissions in seconds; shape (n,), n >= 2. First and last stay.
        law: of the counts.
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
    beside = np.diff(at) == 1
    near[1:] += np.where(beside, seen[:-1], 0)
    near[:-1] += np.where(beside, seen[1:], 0)
    lacking = counts.size - at.size
    if lacking > 0:
        extra = _shortest_lulls(at, lacking, rng)
        at = np.concatenate([at, extra])
        seen = np.concatenate([seen, np.zeros(extra.size, dtype=np.int64)])
        near = np.concatenate([near, np.zeros(extra.size)])
        first = np.concatenate([first, np.zeros(extra.size, dtype=np.int64)])
    order = np.lexsort((rng.random(at.size), near, seen))
    ends = (at[order] == 0) | (at[order] == hour[-1])  # the first and the last hour stay
    kept = np.ones(at.size, dtype=bool)
    kept[np.flatnonzero(~ends)[: at.size - counts.size]] = False
    order = order[kept]
    place = np.argsort(at[order])
    chosen = order[place]
    return real_s[0] + _filled(offset, at[chosen], first[chosen], seen[chosen], counts[place], rng)


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
    found: IntArray = np.repeat(at[order] + 1, length) + hours
    return found[:lacking]


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
    filled[loose] = HOUR_S * (hour[loose] + rng.random(np.count_nonzero(loose)))
    filled = np.clip(filled, HOUR_S * hour, np.nextafter(HOUR_S * (hour + 1), 0))
    filled.sort()
    filled[0], filled[-1] = 0.0, offset[-1]
    return filled
