"""The tail of a sample: where a power law starts, and its index.

Sources: Hill, "A simple general approach to inference about the tail of a distribution", Annals of
Statistics 3, 1975; Clauset, Shalizi and Newman, "Power-law distributions in empirical data", SIAM
Review 51, 2009 (threshold by least Kolmogorov-Smirnov distance, likelihood ratios on the tail).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.fits.families import LOG_ROOT_TAU
from gpuplan.analysis.fits.results import HillPoint, ParetoTail, Vuong
from gpuplan.analysis.fits.sample import Sample

FIRST_STEP = 0.25
LEAST_TAIL = 50
"""Fewer values are not enough to estimate an index (Clauset et al., section 3.4)."""
LEAST_DISTINCT = 5
CANDIDATES = 200
HILL_SHARES = (0.01, 0.05, 0.1)


def vuong(sample: Sample, first: FloatArray, second: FloatArray) -> Vuong:
    """Compare two models by their log-densities at the distinct values of a sample.

    ``z = sum(m) / (sqrt(n) w)`` with m the differences and w their standard deviation.
    """
    difference = first - second
    mean = sample.average(difference)
    spread = sample.average((difference - mean) ** 2) ** 0.5
    if spread <= 1e-12:
        return Vuong(None, None)
    z = sample.size**0.5 * mean / spread
    return Vuong(z, 2 * float(ndtr(-abs(z))))


def maximize(log_likelihood: Callable[[FloatArray], float], start: FloatArray) -> FloatArray:
    """Return where a function of few variables is greatest, by the simplex of Nelder and Mead.

    The variables are logarithms or the like: the first steps are `FIRST_STEP` in each, so that
    moving the start and the function together moves the result and changes nothing else.
    """

    def cost(at: FloatArray) -> float:
        with np.errstate(all="ignore"):
            value = -log_likelihood(at)
        return value if np.isfinite(value) else np.inf

    corners = np.vstack([start, start + FIRST_STEP * np.eye(start.size)])
    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 400, "initial_simplex": corners}
    best: FloatArray = minimize(cost, start, method="Nelder-Mead", options=options).x
    return best


def fit_tail(sample: Sample) -> ParetoTail | None:
    """Return the Pareto tail of least Kolmogorov-Smirnov distance, None for too small a sample.

    Candidates are the distinct values that leave at least `LEAST_TAIL` values in the tail;
    where they are more than `CANDIDATES`, that many of them, tail sizes in geometric progression.
    """
    tail_size = sample.size - sample.up_to + sample.count  # from each distinct value on
    most = min(
        int(np.searchsorted(-tail_size, -LEAST_TAIL, side="right")),
        sample.value.size - LEAST_DISTINCT + 1,
    )
    if most < 1:
        return None
    candidates = np.arange(most)
    if most > CANDIDATES:
        sizes = np.geomspace(tail_size[0], tail_size[most - 1], CANDIDATES)
        candidates = np.unique(np.searchsorted(-tail_size[:most], -sizes).clip(0, most - 1))
    start = min((int(i) for i in candidates), key=lambda i: tail_distance(sample, i)[0])
    ks, index = tail_distance(sample, start)
    tail = sample.part(start)
    return ParetoTail(
        threshold_s=float(tail.value[0]),
        index=index,
        index_se=index / tail.size**0.5,
        values=int(tail.size),
        share=tail.size / sample.size,
        ks=ks,
        against=_alternatives(tail, index),
        hill=tuple(_hill(sample, share) for share in HILL_SHARES if share * sample.size >= 10),
    )


def tail_distance(sample: Sample, start: int) -> tuple[float, float]:
    """Return the KS distance and the index of the Pareto law from one distinct value on."""
    count = sample.count[start:]
    above = sample.log[start:] - sample.log[start]
    upto = np.cumsum(count)
    size = float(upto[-1])
    index = size / float(count @ above)
    model = -np.expm1(-index * above)
    upto /= size
    after = float((upto - model).max())
    before = float((model[1:] - upto[:-1]).max())  # at the threshold itself the model is 0
    return max(after, before), index


def pareto_log_density(x: FloatArray, threshold_s: float, index: float) -> FloatArray:
    """Return the log-density of the Pareto law at times of at least the threshold."""
    result: FloatArray = np.log(index / x) - index * np.log(x / threshold_s)
    return result


def _hill(sample: Sample, share: float) -> HillPoint:
    """Return Hill's index of the ``ceil(share n)`` largest values; ties count in full."""
    values = int(np.ceil(share * sample.size))
    below = sample.size - values  # so many values are not among the largest
    at = int(np.searchsorted(sample.up_to, below, side="left"))  # where the next smaller one is
    above = sample.log[at:] - sample.log[at]
    return HillPoint(share, values, values / float(sample.count[at:] @ above))


def _alternatives(tail: Sample, index: float) -> dict[str, Vuong]:
    """Compare the Pareto law with an exponential and a lognormal tail above the same threshold."""
    threshold = float(tail.value[0])
    pareto = pareto_log_density(tail.value, threshold, index)
    excess = tail.mean - threshold
    exponential = -np.log(excess) - (tail.value - threshold) / excess
    return {
        "exponential": vuong(tail, pareto, exponential),
        "lognormal": vuong(tail, pareto, _truncated_lognormal(tail)),
    }


def _truncated_lognormal(tail: Sample) -> FloatArray:
    """Return the log-density of the lognormal, cut off below the tail, of greatest likelihood."""
    grouped = tail.grouped()
    least = float(tail.log[0])

    def log_density(log: FloatArray, at: FloatArray) -> FloatArray:
        mean, sigma = at[0], np.exp(at[1])
        body = -0.5 * ((log - mean) / sigma) ** 2 - log - at[1] - LOG_ROOT_TAU
        result: FloatArray = body - log_ndtr((mean - least) / sigma)
        return result

    start = np.array([tail.mean_log, np.log(tail.std_log)])
    best = maximize(lambda at: grouped.average(log_density(grouped.log, at)), start)
    return log_density(tail.log, best)
