"""Distributions made of several: a body with a Pareto tail, and mixtures of exponentials.

A spliced distribution follows one family below a threshold and a power law above it. Mixtures of
exponentials (hyper-exponential distributions) are fitted by expectation-maximization.

Source: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
JRSS B 39, 1977; Feldmann and Whitt, "Fitting mixtures of exponentials to long-tail
distributions", 1998, for why a few phases follow a long tail over many orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.fits.families import Body, Gamma, Lognormal, Weibull
from gpuplan.analysis.fits.pareto import maximize, pareto_log_density
from gpuplan.analysis.fits.results import ParetoTail
from gpuplan.analysis.fits.sample import Sample

LEAST_BODY = 10
LEAST_DISTINCT = 3


@dataclass(frozen=True, slots=True)
class Spliced:
    """``body`` cut off at the threshold with probability ``1 - tail_share``, Pareto above.

    The body is None where the tail is the whole sample.
    """

    body: Body | None
    threshold_s: float
    index: float
    tail_share: float

    @property
    def name(self) -> str:
        """Name with that of the body."""
        return "pareto" if self.body is None else f"{self.body.name}_pareto"

    @property
    def free(self) -> int:
        """Fitted parameters: threshold and index; with a body its own, and the tail's share."""
        return 2 if self.body is None else self.body.free + 3

    def parameters(self) -> dict[str, object]:
        """Return the parameters, those of the body under ``body``."""
        tail: dict[str, object] = {
            "threshold_s": self.threshold_s,
            "index": self.index,
            "tail_share": self.tail_share,
        }
        return tail if self.body is None else {"body": self.body.parameters(), **tail}

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log of the density."""
        split = int(np.searchsorted(x, self.threshold_s, side="left"))
        tail = pareto_log_density(x[split:], self.threshold_s, self.index)
        body = np.full(split, -np.inf)
        if self.body is not None:
            tail = tail + np.log(self.tail_share)
            scale = (1 - self.tail_share) / _below(self.body, self.threshold_s)
            body = self.body.log_density(x[:split]) + np.log(scale)
        return np.concatenate([body, tail])

    def survival(self, x: FloatArray) -> FloatArray:
        """Return P(X > x)."""
        split = int(np.searchsorted(x, self.threshold_s, side="left"))
        tail = self.tail_share * (x[split:] / self.threshold_s) ** -self.index
        body = np.ones(split)
        if self.body is not None:
            upto = self.body.distribution(x[:split]) / _below(self.body, self.threshold_s)
            body = self.tail_share + (1 - self.tail_share) * (1 - upto)
        return np.concatenate([body, tail])


def splice(sample: Sample, tail: ParetoTail, starts: tuple[Body, ...]) -> Spliced | None:
    """Return the splice of greatest likelihood over the families of the body.

    Args:
        sample: the values.
        tail: its Pareto tail.
        starts: models of the whole sample; each family is fitted anew to the body, cut off at
            the threshold, on the grouped body.

    Returns:
        None where the body has too few values to differ from the tail.
    """
    split = int(np.searchsorted(sample.value, tail.threshold_s, side="left"))
    if split == 0:
        return Spliced(None, tail.threshold_s, tail.index, 1.0)
    body = sample.part(0, split)
    if body.size < LEAST_BODY or split < LEAST_DISTINCT:
        return None
    grouped = body.grouped()
    fitted = (_cut_off(grouped, model, tail.threshold_s) for model in starts)
    best = max(fitted, key=lambda model: _mean_log_likelihood(grouped, model, tail.threshold_s))
    return Spliced(best, tail.threshold_s, tail.index, tail.share)


MAKE: dict[str, Callable[[float, float], Body]] = {
    "lognormal": Lognormal,
    "weibull": Weibull,
    "gamma": Gamma,
}


def _cut_off(body: Sample, start: Body, threshold_s: float) -> Body:
    """Return the model of the start's family that fits best below the threshold."""
    make = MAKE[start.name]
    first, second = (float(value) for value in start.parameters().values())  # type: ignore[arg-type]
    unit = np.log([first, second])
    best = maximize(
        lambda at: _mean_log_likelihood(body, make(*np.exp(at).tolist()), threshold_s), unit
    )
    return make(*(float(value) for value in np.exp(best)))


def _mean_log_likelihood(body: Sample, model: Body, threshold_s: float) -> float:
    with np.errstate(all="ignore"):  # a model that never falls below the threshold is just bad
        value = body.average(model.log_density(body.value)) - np.log(_below(model, threshold_s))
    return float(value) if np.isfinite(value) else -np.inf


def _below(model: Body, threshold_s: float) -> float:
    """Return P(X < threshold)."""
    return float(model.distribution(np.array([threshold_s]))[0])


GROUPED_STEPS = 3000
WHOLE_STEPS = 4
GAIN = 1e-9
"""Gain in log-likelihood per value at which the iteration stops."""


@dataclass(frozen=True, slots=True)
class HyperExponential:
    """``P(X > x) = sum(weight exp(-x / mean_s))``, phases by ascending mean.

    Attributes:
        weights: probability of each phase; adds up to 1.
        means_s: mean of each phase.
    """

    weights: tuple[float, ...]
    means_s: tuple[float, ...]

    @property
    def name(self) -> str:
        """Name with the number of phases."""
        return f"hyperexponential{len(self.weights)}"

    @property
    def free(self) -> int:
        """Fitted parameters: all means, all weights but one."""
        return 2 * len(self.weights) - 1

    def parameters(self) -> dict[str, object]:
        """Return weights and means."""
        return {"weights": list(self.weights), "means_s": list(self.means_s)}

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return the log of the density."""
        return _phases(x, np.array(self.weights), np.array(self.means_s))[1]

    def survival(self, x: FloatArray) -> FloatArray:
        """Return P(X > x)."""
        result = np.zeros_like(x)
        for weight, mean in zip(self.weights, self.means_s, strict=True):
            result += weight * np.exp(-x / mean)
        return result


def fit_hyperexponential(sample: Sample, phases: int) -> HyperExponential:
    """Return the mixture of ``phases`` exponentials of greatest likelihood.

    EM runs on the grouped sample from two starts (groups of equally many values, and of equal
    sums), then the better one runs on all values. It finds a local maximum.
    """
    grouped = sample.grouped()
    unit = Sample(grouped.value / sample.mean, grouped.count)  # makes the stop free of units
    best = max(
        (_maximize(unit, *start, steps=GROUPED_STEPS) for start in _starts(unit, phases)),
        key=lambda fit: fit[0],
    )[1]
    if grouped is not sample:
        scaled = Sample(sample.value / sample.mean, sample.count)
        best = _maximize(scaled, *best, steps=WHOLE_STEPS)[1]
    weights, means = best
    order = np.argsort(means)
    return HyperExponential(
        tuple(float(w) for w in weights[order]),
        tuple(float(m) * sample.mean for m in means[order]),
    )


def em_step(
    sample: Sample, weights: FloatArray, means: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the mean log-likelihood of a mixture, and the mixture one EM step ahead.

    Args:
        sample: the values.
        weights: shape (k,), adds up to 1.
        means: shape (k,), > 0.
    """
    share, log_density = _phases(sample.value, weights, means)
    mass = share @ sample.count
    total = share @ (sample.count * sample.value)
    alive = mass > 1e-12 * sample.size  # a phase that holds nothing keeps its mean
    moved = np.where(alive, total / np.where(alive, mass, 1), means)
    return sample.average(log_density), mass / mass.sum(), moved


def _phases(x: FloatArray, weights: FloatArray, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the posterior share of each phase, shape (k, n), and the log-density, shape (n,).

    Densities are taken over that of the slowest phase, so that none of them underflows at once.
    """
    slow = float(means.max())
    part = np.empty((means.size, x.size))
    for row, weight, mean in zip(part, weights, means, strict=True):
        np.exp(x * (1 / slow - 1 / mean), out=row)
        row *= weight / mean
    density = part.sum(axis=0)
    part /= density
    return part, np.log(density) - x / slow


def _maximize(
    sample: Sample, weights: FloatArray, means: FloatArray, *, steps: int
) -> tuple[float, tuple[FloatArray, FloatArray]]:
    """Return the mean log-likelihood reached and the mixture."""
    value = -np.inf
    for _ in range(steps):
        reached, new_weights, new_means = em_step(sample, weights, means)
        gain, value = reached - value, reached
        if gain < GAIN:
            break
        weights, means = new_weights, new_means
    return value, (weights, means)


def _starts(sample: Sample, phases: int) -> list[tuple[FloatArray, FloatArray]]:
    """Return weights and means of values cut into groups of equal count and of equal sum."""
    starts = []
    for held in (sample.count, sample.count * sample.value):
        level = (np.cumsum(held) - held / 2) / held.sum()
        group = np.minimum((level * phases).astype(np.int64), phases - 1)
        mass = np.bincount(group, sample.count, minlength=phases)
        total = np.bincount(group, sample.count * sample.value, minlength=phases)
        means = np.where(mass > 0, total / np.maximum(mass, 1), 1.0)
        spread = means * 2.0 ** np.arange(phases)  # equal means would stay equal for ever
        weights = np.maximum(mass, 1) / np.maximum(mass, 1).sum()
        starts.append((weights, means if np.unique(means).size == phases else spread))
    return starts
