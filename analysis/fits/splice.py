"""A body with a Pareto tail: one family below a threshold, a power law above."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.arrays import FloatArray
from gpuplan.analysis.fits.families import Body, Gamma, Lognormal, Weibull
from gpuplan.analysis.fits.likelihood import maximize
from gpuplan.analysis.fits.pareto import pareto_log_density
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
        None where the body has too few values to be told from the tail.
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
