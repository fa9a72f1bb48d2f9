"""Mixtures of exponentials (hyper-exponential) by expectation-maximization.

Source: Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
JRSS B 39, 1977; Feldmann and Whitt, "Fitting mixtures of exponentials to long-tail
distributions", 1998, for why a few phases follow a long tail over many orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.arrays import FloatArray
from gpuplan.analysis.fits.sample import Sample

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
        (_climb(unit, *start, steps=GROUPED_STEPS) for start in _starts(unit, phases)),
        key=lambda found: found[0],
    )[1]
    if grouped is not sample:
        whole = Sample(sample.value / sample.mean, sample.count)
        best = _climb(whole, *best, steps=WHOLE_STEPS)[1]
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


def _climb(
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
