"""Likelihoods: where one of few parameters is greatest, and which of two models is closer.

Source of the comparison: Vuong, "Likelihood ratio tests for model selection and non-nested
hypotheses", Econometrica 57, 1989.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.fits.results import Vuong
from gpuplan.analysis.fits.sample import Sample

FIRST_STEP = 0.25


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
