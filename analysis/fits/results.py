"""The results of fits, as JSON has them; they need no SciPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.plain import Hidden


@dataclass(frozen=True, slots=True)
class Vuong:
    """Result of a comparison; None where the models agree at every value.

    Attributes:
        z: normalized likelihood ratio, standard normal where both are equally close; above 0
            favors the first.
        p: two-sided probability of a ratio this far from 0 by chance.
    """

    z: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class HillPoint:
    """Hill's index of the largest values: ``1 / mean(log(x / next smaller value))``.

    Attributes:
        share: the largest share of the sample it looks at.
        values: how many values that is.
        index: the estimate; its standard error is ``index / sqrt(values)``.
    """

    share: float
    values: int
    index: float


@dataclass(frozen=True, slots=True)
class ParetoTail:
    """``P(X > x) = (x / threshold_s)^-index`` for x at least the threshold.

    Attributes:
        threshold_s: start of the tail, itself in the sample.
        index: maximum-likelihood index; the mean is infinite up to 1, the variance up to 2.
        index_se: its standard error, ``index / sqrt(values)``.
        values: sample values in the tail.
        share: the same as a share of the positive values.
        ks: Kolmogorov-Smirnov distance in the tail.
        against: the Pareto law against other laws of the same tail; z above 0 favours Pareto.
        hill: Hill's index at fixed shares; if they differ much, no single index fits.
    """

    threshold_s: float
    index: float
    index_se: float
    values: int
    share: float
    ks: float
    against: dict[str, Vuong]
    hill: tuple[HillPoint, ...]


@dataclass(frozen=True, slots=True)
class ModelFit:
    """A model fitted to a sample.

    Attributes:
        model: its name.
        parameters: its parameters by name.
        free_parameters: how many of them were fitted.
        log_likelihood: of the sample under the model.
        aic: Akaike's information criterion.
        delta_aic: that over the best model's.
        ks: greatest distance between the distribution functions of model and sample.
        vuong: Vuong's test against the best model.
        survival: P(X > x) at the values of `Fits.curve_s`.
    """

    model: str
    parameters: dict[str, Any]
    free_parameters: int
    log_likelihood: float
    aic: float
    delta_aic: float
    ks: float
    vuong: Vuong | None
    survival: Hidden[FloatArray]


@dataclass(frozen=True, slots=True)
class Fits:
    """Models of one quantity.

    Attributes:
        values: values above 0.
        zeros: values that are 0.
        distinct: different values above 0.
        reason: why nothing was fitted; null where something was.
        chosen: name of the best model.
        models: the best first.
        tail: the Pareto tail of the largest values.
        curve_s: values for a picture, ascending.
        survival: share of the positive values above each of them.
    """

    values: int
    zeros: int
    distinct: int
    reason: str | None = None
    chosen: str | None = None
    models: tuple[ModelFit, ...] = ()
    tail: ParetoTail | None = None
    curve_s: Hidden[FloatArray | None] = None
    survival: Hidden[FloatArray | None] = None

    @property
    def best(self) -> ModelFit | None:
        """The model of least AIC."""
        return self.models[0] if self.models else None


@dataclass(frozen=True, slots=True)
class TraceFits:
    """Models of a trace.

    Attributes:
        duration_s: models of run times.
        gap_s: models of gaps between submissions.
    """

    duration_s: Fits
    gap_s: Fits
