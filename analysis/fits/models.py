"""Fit every model to a sample of times and rank them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.fits.families import (
    Distribution,
    fit_exponential,
    fit_gamma,
    fit_lognormal,
    fit_weibull,
)
from gpuplan.analysis.fits.mixtures import fit_hyperexponential, splice
from gpuplan.analysis.fits.pareto import fit_tail, vuong
from gpuplan.analysis.fits.results import (
    FitResults,
    ModelResults,
    ParetoTail,
    TraceFitResults,
    Vuong,
)
from gpuplan.analysis.fits.sample import Sample, positive_sample
from gpuplan.analysis.history.jobs import known_ascending
from gpuplan.analysis.trace.trace import Trace

LEAST_VALUES = 10
LEAST_DISTINCT = 3
LEAST_SPREAD = 1e-6
"""Standard deviation of the logs below which all values count as equal."""
CURVE_POINTS = 200


@dataclass(frozen=True, slots=True)
class ModelFit:
    """One model, fitted.

    Attributes:
        model: the distribution.
        log_likelihood: sum of the log-density over the positive values, in seconds.
        aic: Akaike's criterion, ``2 (fitted parameters) - 2 log_likelihood``; least is best.
        ks: greatest distance of its distribution function from that of the positive values.
        vuong: the best model against this one; z above 0 favours the best. None for itself.
        survival: P(X > x) at the values of `Fits.curve_s`.
    """

    model: Distribution
    log_likelihood: float
    aic: float
    ks: float
    vuong: Vuong | None
    survival: FloatArray


@dataclass(frozen=True, slots=True)
class Fits:
    """Models of a sample of times.

    Attributes:
        values: positive values, which the models describe.
        zeros: values of 0, which they leave out.
        distinct: distinct positive values.
        fits: by AIC, best first; empty if there is nothing to fit.
        tail: the Pareto tail; None for fewer than 50 values.
        reason: why there are no fits; None if there are.
        curve_s: values for a picture, ascending.
        survival: share of the positive values above each of them.
    """

    values: int
    zeros: int
    distinct: int
    fits: tuple[ModelFit, ...] = ()
    tail: ParetoTail | None = None
    reason: str | None = None
    curve_s: FloatArray | None = None
    survival: FloatArray | None = None

    @property
    def best(self) -> ModelFit | None:
        """The model of least AIC."""
        return self.fits[0] if self.fits else None

    def results(self) -> FitResults:
        """Return the numbers as JSON has them."""
        return FitResults(
            values=self.values,
            zeros=self.zeros,
            distinct=self.distinct,
            reason=self.reason,
            chosen=None if self.best is None else self.best.model.name,
            models=tuple(
                ModelResults(
                    model=fit.model.name,
                    parameters=fit.model.parameters(),
                    free_parameters=fit.model.free,
                    log_likelihood=fit.log_likelihood,
                    aic=fit.aic,
                    delta_aic=fit.aic - self.fits[0].aic,
                    ks=fit.ks,
                    vuong=fit.vuong,
                )
                for fit in self.fits
            ),
            tail=self.tail,
        )


@dataclass(frozen=True, slots=True)
class TraceFits:
    """Models of a trace: of the durations of timed jobs, and of the gaps between submissions."""

    duration: Fits
    gap: Fits

    def results(self) -> TraceFitResults:
        """Return what stands under ``fits`` in the results."""
        return TraceFitResults(duration_s=self.duration.results(), gap_s=self.gap.results())


def fit_trace(trace: Trace) -> TraceFits:
    """Return the models of a trace read with at least the columns of a characterization."""
    jobs = trace.arrays().submitted()
    return TraceFits(
        duration=fit_times(known_ascending(jobs.duration_s)),
        gap=fit_times(np.sort(np.diff(jobs.submit_us)) / MICROS),
    )


def fit_times(ascending: FloatArray) -> Fits:
    """Fit every model to the positive values of a sorted sample >= 0 without NaN; shape (n,)."""
    sample, zeros = positive_sample(ascending)
    values, distinct = ascending.size - zeros, sample.value.size
    reason = _no_fit(sample, values)
    if reason is not None:
        return Fits(values, zeros, distinct, reason=reason)
    bodies = (fit_lognormal(sample), fit_weibull(sample), fit_gamma(sample))
    models: list[Distribution] = [
        fit_exponential(sample),
        *bodies,
        *(fit_hyperexponential(sample, phases) for phases in (2, 3)),
    ]
    tail = fit_tail(sample)
    if tail is not None and (spliced := splice(sample, tail, bodies)) is not None:
        models.append(spliced)
    densities = [model.log_density(sample.value) for model in models]
    likelihoods = [float(sample.count @ density) for density in densities]
    aic = [2 * model.free - 2 * value for model, value in zip(models, likelihoods, strict=True)]
    order = sorted(range(len(models)), key=aic.__getitem__)
    best = densities[order[0]]
    curve_s = np.geomspace(sample.value[0], sample.value[-1], CURVE_POINTS)
    upto = np.append(0, sample.up_to)[np.searchsorted(sample.value, curve_s, side="right")]
    return Fits(
        values,
        zeros,
        distinct,
        fits=tuple(
            ModelFit(
                model=models[i],
                log_likelihood=likelihoods[i],
                aic=aic[i],
                ks=ks_distance(sample, models[i]),
                vuong=None if i == order[0] else vuong(sample, best, densities[i]),
                survival=models[i].survival(curve_s),
            )
            for i in order
        ),
        tail=tail,
        curve_s=curve_s,
        survival=1 - upto / sample.size,
    )


def ks_distance(sample: Sample, model: Distribution) -> float:
    """Return the greatest distance between the distribution functions of sample and model."""
    below = 1 - model.survival(sample.value)
    upto = sample.up_to / sample.size
    before = upto - sample.count / sample.size
    return float(max((upto - below).max(), (below - before).max()))


def _no_fit(sample: Sample, values: int) -> str | None:
    if values < LEAST_VALUES:
        return f"{values} positive values are too few; {LEAST_VALUES} are needed"
    if sample.value.size < LEAST_DISTINCT:
        return f"{sample.value.size} distinct values are too few; {LEAST_DISTINCT} are needed"
    if sample.std_log < LEAST_SPREAD:
        return "the values hardly differ"
    return None
