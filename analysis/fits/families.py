"""Distributions of positive times and their maximum-likelihood fits.

Every model gives its log-density and survival function at ascending positive times, and every
``fit_...`` function takes a `Sample` of at least two distinct values. Sources: Johnson, Kotz and
Balakrishnan, "Continuous Univariate Distributions" 1, 1994 (estimating equations); Minka,
"Estimating a Gamma distribution", 2002 (the Newton step of the gamma shape).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammainc, gammaincc, gammaln, ndtr, polygamma

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.fits.sample import Sample

LOG_ROOT_TAU = 0.5 * float(np.log(2 * np.pi))
NEWTON_STEPS = 30
PRECISION = 1e-13


class Distribution(Protocol):
    """A distribution on the positive numbers with its parameters filled in."""

    @property
    def name(self) -> str:
        """Stable name, as in the JSON output."""
        ...

    @property
    def free(self) -> int:
        """Number of fitted parameters."""
        ...

    def parameters(self) -> dict[str, object]:
        """Return the parameters by name, times in seconds."""
        ...

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log of the density at ascending times; shape (n,)."""
        ...

    def survival(self, x: FloatArray) -> FloatArray:
        """Return P(X > x) at ascending times; shape (n,)."""
        ...


class Body(Distribution, Protocol):
    """A model that can be truncated: its distribution function is exact also for tiny values."""

    def distribution(self, x: FloatArray) -> FloatArray:
        """Return P(X <= x) at ascending times; shape (n,)."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """``P(X > x) = exp(-x / mean_s)``."""

    mean_s: float
    name: ClassVar[str] = "exponential"
    free: ClassVar[int] = 1

    def parameters(self) -> dict[str, object]:
        """Return the mean."""
        return asdict(self)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log of the density."""
        result: FloatArray = -x / self.mean_s - np.log(self.mean_s)
        return result

    def survival(self, x: FloatArray) -> FloatArray:
        """Return P(X > x)."""
        result: FloatArray = np.exp(-x / self.mean_s)
        return result


@dataclass(frozen=True, slots=True)
class Lognormal:
    """``log X`` is normal with mean ``log(median_s)`` and standard deviation ``sigma``."""

    median_s: float
    sigma: float
    name: ClassVar[str] = "lognormal"
    free: ClassVar[int] = 2

    def parameters(self) -> dict[str, object]:
        """Return median and sigma."""
        return asdict(self)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log of the density."""
        log = np.log(x)
        result: FloatArray = -0.5 * self._z(log) ** 2 - log - np.log(self.sigma) - LOG_ROOT_TAU
        return result

    def survival(self, x: FloatArray) -> FloatArray:
        """Return P(X > x)."""
        result: FloatArray = ndtr(-self._z(np.log(x)))
        return result

    def distribution(self, x: FloatArray) -> FloatArray:
        """Return P(X <= x)."""
        result: FloatArray = ndtr(self._z(np.log(x)))
        return result

    def _z(self, log: FloatArray) -> FloatArray:
        result: FloatArray = (log - np.log(self.median_s)) / self.sigma
        return result


@dataclass(frozen=True, slots=True)
class Weibull:
    """``P(X > x) = exp(-(x / scale_s)^shape)``; a shape below 1 is heavier than exponential."""

    shape: float
    scale_s: float
    name: ClassVar[str] = "weibull"
    free: ClassVar[int] = 2

    def parameters(self) -> dict[str, object]:
        """Return shape and scale."""
        return asdict(self)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log of the density."""
        log = np.log(x)
        power = self.shape * (log - np.log(self.scale_s))
        result: FloatArray = np.log(self.shape) - log + power - np.exp(power)
        return result

    def survival(self, x: FloatArray) -> FloatArray:
        """Return P(X > x)."""
        result: FloatArray = np.exp(-((x / self.scale_s) ** self.shape))
        return result

    def distribution(self, x: FloatArray) -> FloatArray:
        """Return P(X <= x)."""
        result: FloatArray = -np.expm1(-((x / self.scale_s) ** self.shape))
        return result


@dataclass(frozen=True, slots=True)
class Gamma:
    """Density proportional to ``x^(shape - 1) exp(-x / scale_s)``."""

    shape: float
    scale_s: float
    name: ClassVar[str] = "gamma"
    free: ClassVar[int] = 2

    def parameters(self) -> dict[str, object]:
        """Return shape and scale."""
        return asdict(self)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log of the density."""
        z = x / self.scale_s
        constant = gammaln(self.shape) + np.log(self.scale_s)
        result: FloatArray = (self.shape - 1) * np.log(z) - z - constant
        return result

    def survival(self, x: FloatArray) -> FloatArray:
        """Return P(X > x)."""
        result: FloatArray = gammaincc(self.shape, x / self.scale_s)
        return result

    def distribution(self, x: FloatArray) -> FloatArray:
        """Return P(X <= x)."""
        result: FloatArray = gammainc(self.shape, x / self.scale_s)
        return result


def fit_exponential(sample: Sample) -> Exponential:
    """Return the exponential of the same mean."""
    return Exponential(sample.mean)


def fit_lognormal(sample: Sample) -> Lognormal:
    """Return the lognormal with the mean and the standard deviation (divisor n) of the logs."""
    return Lognormal(float(np.exp(sample.mean_log)), sample.std_log)


def fit_weibull(sample: Sample) -> Weibull:
    """Return the Weibull distribution of greatest likelihood.

    The shape k is the one root of ``sum(x^k log x) / sum(x^k) - 1/k - mean(log x)``, which
    ascends with k: bracketed on the grouped sample, then by Newton's method on all values.
    """
    grouped = sample.grouped()
    guess = np.pi / 6**0.5 / sample.std_log  # the logs of a Weibull have this spread over k
    low, high = guess / 2, guess * 2
    while _weibull_slope(grouped, low)[0] > 0:
        low /= 2
    while _weibull_slope(grouped, high)[0] < 0:
        high *= 2
    shape = float(brentq(lambda k: _weibull_slope(grouped, k)[0], low, high, rtol=1e-12))
    for _ in range(NEWTON_STEPS if grouped is not sample else 0):
        slope, rise = _weibull_slope(sample, shape)
        step = slope / rise
        shape -= step
        if abs(step) <= PRECISION * shape:
            break
    top = sample.log[-1]  # x^k over its largest value cannot overflow
    mean_power = sample.average(np.exp(shape * (sample.log - top)))
    return Weibull(shape, float(np.exp(top + np.log(mean_power) / shape)))


def _weibull_slope(sample: Sample, shape: float) -> tuple[float, float]:
    """Return the estimating function of the shape and its derivative."""
    y = sample.log - sample.log[-1]
    weight = sample.count * np.exp(shape * y)
    total = float(weight.sum())
    first = float(weight @ y) / total
    second = float(weight @ (y * y)) / total
    slope = first - 1 / shape - (sample.mean_log - float(sample.log[-1]))
    return slope, second - first**2 + 1 / shape**2


def fit_gamma(sample: Sample) -> Gamma:
    """Return the gamma distribution of greatest likelihood.

    The shape k solves ``log k - digamma(k) = log(mean x) - mean(log x)``; Newton in 1/k.
    """
    gap = float(np.log(sample.mean)) - sample.mean_log
    shape = (3 - gap + ((gap - 3) ** 2 + 24 * gap) ** 0.5) / (12 * gap)
    for _ in range(NEWTON_STEPS):
        excess = float(np.log(shape) - digamma(shape)) - gap
        slope = shape * shape * float(1 / shape - polygamma(1, shape))
        new = 1 / (1 / shape + excess / slope)
        step, shape = abs(new - shape), new
        if step <= PRECISION * shape:
            break
    return Gamma(shape, sample.mean / shape)
