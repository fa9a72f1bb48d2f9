"""Exact margins, dependent values: draw by strata, then arrange the draws by scores.

Every quantity (gaps, sizes, durations, waits) is sampled with one value per stratum of its curve,
so that means and percentiles hardly vary from seed to seed. It is then rearranged to have the ranks
of normal scores that carry the dependence: Iman and Conover, "A distribution-free approach to
inducing rank correlation among input variables", Communications in Statistics 11 (1982). The
scores of successive gaps are a mix of autoregressions of several memories, of which the long ones
may switch between two levels, burst and lull; those of jobs have a part common to their user and a
part common to their run (the two-level random-effects model), and are then bent to the law that
jobs of their crowd have: the times with a similar number of other jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.signal import lfilter
from scipy.special import ndtr, ndtri

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.synth.curve import DurationCurve

MEMORY_JOBS = (2.0, 16.0, 128.0, 1024.0)
LAGS = tuple(2**k for k in range(11))
MOST_SHARED = 0.95
SWITCHING_JOBS = 128.0
"""Memories from this one on switch between burst and lull, where a model has both."""
AROUND_GAPS = 20.0
"""The crowd of a job is the number of submissions in this many mean gaps around its own."""
CROWDS = 20
CROWD_JOBS = 200
CROWD_SCORES = np.linspace(-3.0, 3.0, 25)
GRID = 4001
SHIFT_ROUNDS = 300
SHIFT_CLOSE = 1e-3


@dataclass(frozen=True, slots=True)
class Shared:
    """What scores have in common; each a correlation in [0, 1), together below 1.

    Attributes:
        user: of two jobs of one user.
        run: what two successive jobs of one run have in common beyond that.
        crowd: scores of the jobs in each of equally many crowds, the loneliest first, at the
            quantiles at the normal scores `CROWD_SCORES`; empty if crowds do not matter.
    """

    user: float = 0.0
    run: float = 0.0
    crowd: tuple[tuple[float, ...], ...] = ()


def normal_scores(values: FloatArray) -> FloatArray:
    """Return the normal scores of values, shape (n,); equal values share theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / values.size
    result: FloatArray = ndtri(middle)[inverse]
    return result


def fit_memory(scores: FloatArray) -> tuple[float, ...]:
    """Return the weight of each memory in `MEMORY_JOBS`, >= 0, together at most 0.95.

    Least squares on the autocorrelation at `LAGS`, without negative weights; the rest is noise.
    """
    lags = [lag for lag in LAGS if lag * 8 < scores.size]
    centred = scores - scores.mean() if scores.size else scores
    if not lags or not centred.any():
        return (0.0,) * len(MEMORY_JOBS)
    power = float(centred @ centred)
    seen = [float(centred[:-lag] @ centred[lag:]) / power for lag in lags]
    basis = np.exp(-np.outer(lags, 1 / np.asarray(MEMORY_JOBS)))
    weights, _ = nnls(basis, np.asarray(seen))
    weights *= min(1.0, MOST_SHARED / max(float(weights.sum()), 1e-12))
    return tuple(float(weight) for weight in weights)


def long_weight(weights: tuple[float, ...]) -> float:
    """Return the weight of the memories that switch between burst and lull."""
    pairs = zip(MEMORY_JOBS, weights, strict=True)
    return sum(weight for memory, weight in pairs if memory >= SWITCHING_JOBS)


def memory_scores(
    weights: tuple[float, ...], count: int, rng: np.random.Generator, bursting: float | None = None
) -> FloatArray:
    """Return ``count`` stationary scores of mean 0 and variance 1 with the fitted memory.

    Args:
        weights: of each memory.
        count: scores to return.
        rng: source of randomness.
        bursting: share of the time, counted in jobs, at the lower of the two levels (a burst)
            that the sum of the long memories is cut to; None leaves it as it wanders.
    """
    scores = rng.standard_normal(count)
    scores *= np.sqrt(1 - sum(weights))
    long = np.zeros(count)
    for memory, weight in zip(MEMORY_JOBS, weights, strict=True):
        if weight <= 0:
            continue
        keep = np.exp(-1 / memory)
        noise = rng.standard_normal(count)
        first = keep * rng.standard_normal(1)
        part, _ = lfilter([np.sqrt(1 - keep**2)], [1.0, -keep], noise, zi=first)
        part *= np.sqrt(weight)
        if bursting is None or memory < SWITCHING_JOBS:
            scores += part
        else:
            long += part
    if bursting is not None:
        weight = long_weight(weights)
        lull = long > np.sqrt(weight) * ndtri(bursting)
        scores += np.sqrt(weight / (bursting * (1 - bursting))) * (lull - (1 - bursting))
    return scores


def crowd_of(submit_us: IntArray, crowds: int, rng: np.random.Generator) -> IntArray:
    """Return the crowd of each of ascending submissions: a code below ``crowds``, loneliest 0.

    Crowds are equally large: quantiles of the number of submissions within `AROUND_GAPS` mean gaps
    around each, equal numbers in random order.
    """
    span_us = float(submit_us[-1] - submit_us[0])
    half_us = int(span_us / max(submit_us.size - 1, 1) * AROUND_GAPS / 2)
    last = np.searchsorted(submit_us, submit_us + half_us, side="right")
    around = last - np.searchsorted(submit_us, submit_us - half_us) + rng.random(submit_us.size)
    edges = np.quantile(around, np.arange(1, crowds) / crowds)
    result: IntArray = np.searchsorted(edges, around, side="right")
    return result


def fit_crowd(
    scores: FloatArray, crowd: IntArray, crowds: int, rng: np.random.Generator
) -> tuple[tuple[float, ...], ...]:
    """Return `Shared.crowd` of normal scores; empty where a crowd has fewer than `CROWD_JOBS`.

    Ties are broken at random (the distributional transform), so that many jobs of one value in a
    crowd mean low scores or high ones as well.
    """
    jobs = np.bincount(crowd, minlength=crowds)
    if crowds < 2 or jobs.min() < CROWD_JOBS:
        return ()
    untied = np.empty(scores.size)
    untied[np.lexsort((rng.random(scores.size), scores))] = ndtri(
        (np.arange(scores.size) + 0.5) / scores.size
    )
    parts = np.split(untied[np.argsort(crowd, kind="stable")], np.cumsum(jobs)[:-1])
    levels = ndtr(CROWD_SCORES)
    return tuple(tuple(map(float, np.quantile(part, levels).round(3))) for part in parts)


def in_crowd(
    table: tuple[tuple[float, ...], ...], scores: FloatArray, crowd: IntArray
) -> FloatArray:
    """Return normal scores bent to the law of each job's crowd; beyond its ends on a line."""
    law = np.asarray(table)
    place = (scores - CROWD_SCORES[0]) / (CROWD_SCORES[1] - CROWD_SCORES[0])
    low = np.clip(place.astype(np.int64), 0, CROWD_SCORES.size - 2)
    start = law[crowd, low]
    result: FloatArray = start + (place - low) * (law[crowd, low + 1] - start)
    return result


def within(part: IntArray, values: FloatArray) -> FloatArray:
    """Return normal scores within each part >= 0; NaN where the value is."""
    scores = np.full(values.size, np.nan)
    timed = np.flatnonzero(~np.isnan(values) & (part >= 0))
    order = timed[np.argsort(part[timed], kind="stable")]
    if order.size:
        for piece in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
            scores[piece] = normal_scores(values[piece])
    return scores


def fit_shared(
    scores: FloatArray,
    user: IntArray,
    run: IntArray,
    crowd: IntArray,
    crowds: int,
    rng: np.random.Generator,
) -> Shared:
    """Return what normal scores have in common, in the order of submission; arrays of shape (n,).

    Of one user: the mean product over all pairs of its jobs, users weighted by their jobs. Of one
    run: the mean product of successive jobs of a run, less the former. Both of the scores within
    each of the ``crowds`` crowds, if they have enough jobs; ``rng`` breaks ties.
    """
    if scores.size < 3:
        return Shared()
    table = fit_crowd(scores, crowd, crowds, rng)
    if table:
        scores = within(crowd, scores)
    scores = (scores - scores.mean()) / max(float(scores.std()), 1e-12)
    jobs = np.bincount(user).astype(np.float64)
    total, squares = np.bincount(user, scores), np.bincount(user, scores**2)
    several = jobs > 1
    products = (total[several] ** 2 - squares[several]) / (jobs[several] - 1)
    of_user = float(products.sum() / jobs[several].sum()) if several.any() else 0.0
    of_user = min(max(of_user, 0.0), MOST_SHARED)
    same_run = run[1:] == run[:-1]
    of_run = float((scores[1:] * scores[:-1])[same_run].mean()) if same_run.any() else 0.0
    return Shared(of_user, min(max(of_run - of_user, 0.0), MOST_SHARED - of_user), table)


def shared_scores(
    shared: Shared, user: IntArray, run: IntArray, crowd: IntArray, rng: np.random.Generator
) -> FloatArray:
    """Return scores with a part of the user and a part of the run, as in their crowd.

    Codes count from 0; ``crowd`` has the crowds of ``shared``, and is unused if that has none.
    """
    scores = rng.standard_normal(user.size)
    scores *= np.sqrt(1 - shared.user - shared.run)
    if shared.user:
        scores += np.sqrt(shared.user) * rng.standard_normal(int(user.max()) + 1)[user]
    if shared.run:
        scores += np.sqrt(shared.run) * rng.standard_normal(int(run.max()) + 1)[run]
    return in_crowd(shared.crowd, scores, crowd) if shared.crowd else scores


def even_scores(
    scores: FloatArray, part: NDArray[np.int32], shift: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return scores in the same order within each part, there spread as evenly as a normal law.

    Without it, a rare wide cell with few runs of long durations would distort the GPU time.

    Args:
        scores: shape (n,).
        part: code of each, from 0; shape (n,).
        shift: mean of each part; shape (parts,).
        rng: source of the place within each stratum.
    """
    order = ascending(scores)
    order = order[np.argsort(part[order].astype(np.int16), kind="stable")]
    jobs = np.bincount(part, minlength=shift.size)
    inside = part[order]
    place = np.arange(part.size) - (np.cumsum(jobs) - jobs)[inside]
    result = np.empty(part.size)
    result[order] = ndtri((place + rng.random(part.size)) / jobs[inside]) + shift[inside]
    return result


def fit_shifts(
    curve: DurationCurve, num_gpus: FloatArray, shares: FloatArray, time_shares: FloatArray
) -> FloatArray:
    """Return the shift of each cell on one curve that gives it its share of the GPU time.

    A job's duration is the curve at the rank of a normal score around the shift of its cell, so
    the curve of all jobs is the same for all shifts. They are found by moving each in proportion
    to the logarithm of its shortfall; arrays have shape (cells,).
    """
    shift = np.zeros(num_gpus.size)
    if num_gpus.size == 1:
        return shift
    for _ in range(SHIFT_ROUNDS):
        density, seconds = on_one_curve(curve, shares, shift)
        mean_s = density @ seconds
        held = np.maximum(shares * num_gpus * mean_s, 1e-12)
        lack = np.log(np.maximum(time_shares, 1e-9) / (held / held.sum()))
        if np.abs(lack).max() < SHIFT_CLOSE:
            break
        shift = np.clip(shift + 0.25 * lack, -4.0, 6.0)
    return shift


def on_one_curve(
    curve: DurationCurve, shares: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the law of durations of each cell on a curve they share.

    Returns:
        Probabilities of small pieces of the curve, shape (cells, pieces), and the seconds in the
        middle of each piece, shape (pieces,), ascending.
    """
    below = ndtr(np.linspace(-9, 11, GRID) - shift[:, None])
    seconds = curve.at(np.clip(shares @ below, 0.0, 1.0))
    return np.diff(below, axis=1), (seconds[1:] + seconds[:-1]) / 2


def ascending(scores: FloatArray) -> IntArray:
    """Return the order of scores; single precision sorts faster and ties do not matter."""
    return np.argsort(scores.astype(np.float32), kind="stable")


def strata(count: int, rng: np.random.Generator) -> FloatArray:
    """Return one probability from each of ``count`` equal strata, ascending."""
    return (np.arange(count) + rng.random(count)) / max(count, 1)


def quotas(shares: FloatArray, count: int) -> IntArray:
    """Return whole numbers in proportion to shares that add up to ``count``.

    Largest remainders, so that no part is off by one or more; ties go to the first.
    """
    exact = shares / shares.sum() * count
    counts: IntArray = np.floor(exact).astype(np.int64)
    left = count - int(counts.sum())
    counts[np.argsort(-(exact - counts), kind="stable")[:left]] += 1
    return counts
