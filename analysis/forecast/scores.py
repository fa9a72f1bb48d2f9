"""How good forecasts were: errors of the mean, and how often demand kept below the bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.forecast.models import LEVELS, Forecasts, targets


@dataclass(frozen=True, slots=True)
class ModelScore:
    """Errors of a model in the test part, all steps together; GPUs where not said otherwise.

    Attributes:
        name: the model.
        validation_mae: mean absolute error in the validation part, by which models are chosen.
        mae: mean absolute error.
        mse: mean squared error.
        rmse: root of it.
        mape: mean absolute error over the demand, in hours of at least 1 GPU; a fraction.
        pinball_90, pinball_95: pinball loss of the bound.
        coverage_90, coverage_95: share of hours with a demand at or below the bound.
    """

    name: str
    validation_mae: float
    mae: float
    mse: float
    rmse: float
    mape: float
    pinball_90: float
    pinball_95: float
    coverage_90: float
    coverage_95: float


def score(found: Forecasts, series: FloatArray, validation: range, test: range) -> list[ModelScore]:
    """Return the score of a model for each series."""
    steps = found.mean.shape[0]
    early, _ = found.at(validation)
    chosen_by = np.abs(targets(series, validation, steps) - early).mean(axis=(0, 2))
    mean, bounds = found.at(test)
    truth = targets(series, test, steps)
    scores = []
    for one in range(series.shape[0]):
        own, missed = truth[:, one], truth[:, one] - mean[:, one]
        counted = own >= 1
        over = {level: own - bounds[at, :, one] for at, level in enumerate(LEVELS)}
        mse = float((missed**2).mean())
        scores.append(
            ModelScore(
                name=found.name,
                validation_mae=float(chosen_by[one]),
                mae=float(np.abs(missed).mean()),
                mse=mse,
                rmse=mse**0.5,
                mape=float(np.abs(missed[counted] / own[counted]).mean())
                if counted.any()
                else np.nan,
                pinball_90=pinball(over[0.9], 0.9),
                pinball_95=pinball(over[0.95], 0.95),
                coverage_90=float((over[0.9] <= 0).mean()),
                coverage_95=float((over[0.95] <= 0).mean()),
            )
        )
    return scores


def pinball(over: FloatArray, level: float) -> float:
    """Return the mean pinball loss of a quantile, where ``over`` is the demand less the bound."""
    return float(np.maximum(level * over, (level - 1) * over).mean())
