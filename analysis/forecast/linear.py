"""Linear forecasts with a Gaussian error whose width is forecast too (OrgLinear; docs/forecast.md).

The mean is a map over the trend and one over the remainder of the window, plus a constant for each
hour of the day, weekday and group; so is h, and the standard deviation is softplus(h).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from gpuplan.analysis.arrays import FloatArray, IntArray
from gpuplan.analysis.forecast.windows import Windows, lagged_products, penalty_of_parts

KERNEL_H = 25
PENALTIES = tuple(10.0**k for k in range(-2, 7))
LEAST_SIGMA = 1e-3  # in units of a series' standard deviation
DAY_H, WEEK_H = 24, 168
STEPS_OF_LIKELIHOOD = 30
CALENDAR = DAY_H + 7


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted model.

    Attributes:
        length: hours of its window.
        anchored: whether it forecasts the change from the last value.
        scale: standard deviation of each series in training, shape (series,).
        mean, h: weights of the window, shape (steps, L).
        mean_constants, h_constants: of hours, weekdays and series, shape (steps, 31 + series).
        penalty: of the ridge, chosen on validation.
        widening: factor of each series' standard deviation, chosen on validation, shape (series,).
    """

    length: int
    anchored: bool
    scale: FloatArray
    mean: FloatArray
    h: FloatArray
    mean_constants: FloatArray
    h_constants: FloatArray
    penalty: float
    widening: FloatArray

    def forecast(self, series: FloatArray, first_hour: int) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the next hours after every window, in GPUs.

        Args:
            series: shape (series, T); ``first_hour`` is the hour of the week of its first value.

        Returns:
            Two arrays of shape (steps, series, T - L + 1); entry i is issued after hour i + L - 1.
        """
        scaled = series / self.scale[:, None]
        windows = Windows.of(scaled, self.length, anchored=self.anchored)
        columns = _columns(windows, first_hour)
        mean = windows.apply(self.mean) + _constants(self.mean_constants, columns)
        h = windows.apply(self.h) + _constants(self.h_constants, columns)
        if self.anchored:
            mean += windows.last
        scale = self.scale[:, None]
        return mean * scale, self.widening[:, None] * _softplus(h) * scale


def fit_linear(
    series: FloatArray, first_hour: int, length: int, steps: int, train: int, valid: int, *,
    anchored: bool = True, calendar: bool = True, likelihood: bool = True,
) -> LinearModel:  # fmt: skip
    """Fit the model on the hours before ``train`` and choose its penalty on those before ``valid``.

    Args:
        series: GPUs, shape (series, T).
        first_hour: hour of the week of the first value.
        length: L, hours of a window; length + steps <= train.
        steps: hours ahead.
        anchored: subtract the last value of a window, so that the penalty leads to persistence.
        calendar: constants for hours, weekdays and groups; else one constant.
        likelihood: go on from the ridge to the greatest Gaussian likelihood.
    """
    scale = series[:, :train].std(axis=1)
    scale = np.where(scale > 0, scale, 1.0)
    scaled = series / scale[:, None]
    windows = Windows.of(scaled[:, :valid], length, anchored=anchored)
    columns = _columns(windows, first_hour)
    if not calendar:
        columns = (np.zeros_like(columns[0]), np.zeros_like(columns[1]))
    count = train - length - steps + 1  # windows whose targets all lie in training
    targets = _targets(windows, steps)
    gram, moments = _normal_equations(scaled, columns, length, steps, count, anchored)
    penalties = np.zeros_like(gram)
    penalties[:length, :length] = penalty_of_parts(length, KERNEL_H)
    penalties[np.arange(length, gram.shape[0]), np.arange(length, gram.shape[0])] = 1e-3
    later = slice(train - length, windows.count - steps)  # issued in the validation part
    best: tuple[float, float, FloatArray] | None = None
    for penalty in PENALTIES:
        weights = cho_solve(cho_factor(gram + penalty * penalties), moments).T
        found = _predicted(weights, windows, columns, later)
        error = float(np.mean((found - targets[:, :, later]) ** 2))
        if best is None or error < best[0]:
            best = error, penalty, weights
    assert best is not None
    _, penalty, weights = best
    now = slice(0, count)
    residual = targets[:, :, now] - _predicted(weights, windows, columns, now)
    sigma = np.maximum(np.sqrt(np.mean(residual**2, axis=(2,))), 2 * LEAST_SIGMA)  # by series too
    h = np.zeros_like(weights)
    h[:, length + CALENDAR :] = _inverse_softplus(sigma)
    if likelihood:
        weights, h = _most_likely(
            weights, h, windows, columns, targets, now, later, penalty * penalties, length
        )
    spread = _softplus(_predicted(h, windows, columns, later))
    missed = targets[:, :, later] - _predicted(weights, windows, columns, later)
    widening = np.sqrt(np.mean((missed / spread) ** 2, axis=(0, 2)))
    return LinearModel(
        length, anchored, scale, weights[:, :length], h[:, :length], weights[:, length:],
        h[:, length:], penalty, np.maximum(widening, 1e-3),
    )  # fmt: skip


def _columns(windows: Windows, first_hour: int) -> tuple[IntArray, IntArray]:
    """Return hour of the day and weekday of the hour after each window, shape (count,)."""
    hour = (first_hour + windows.length + np.arange(windows.count)) % WEEK_H
    return hour % DAY_H, hour // DAY_H


def _constants(constants: FloatArray, columns: tuple[IntArray, IntArray]) -> FloatArray:
    """Return the sum of the constants of each series and window, shape (steps, series, count)."""
    hour, weekday = columns
    shared = constants[:, hour] + constants[:, DAY_H + weekday]
    found: FloatArray = constants[:, CALENDAR:, None] + shared[:, None, :]
    return found


def _targets(windows: Windows, steps: int) -> FloatArray:
    """Return what follows each window, less its last value if anchored; NaN past the end."""
    found = np.full((steps, windows.series.shape[0], windows.count), np.nan)
    for step in range(steps):
        after = windows.series[:, windows.length + step :]
        found[step, :, : after.shape[1]] = after
        if windows.anchored:
            found[step, :, : after.shape[1]] -= windows.last[:, : after.shape[1]]
    return found


def _predicted(
    weights: FloatArray, windows: Windows, columns: tuple[IntArray, IntArray], part: slice
) -> FloatArray:
    length = windows.length
    found = windows.apply(weights[:, :length]) + _constants(weights[:, length:], columns)
    return found[:, :, part]


def _normal_equations(
    scaled: FloatArray, columns: tuple[IntArray, IntArray], length: int, steps: int, count: int,
    anchored: bool,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return the Gram matrix of all features and their products with the targets."""
    groups = scaled.shape[0]
    products = lagged_products(scaled, length + steps, count)
    # One row for each constant: the sum of the windows in which it counts.
    hour, weekday = columns[0][:count], columns[1][:count]
    week = hour + DAY_H * weekday
    kinds, kind = np.unique(week, return_inverse=True)
    by_kind = np.zeros((kinds.size, groups, length + steps))
    for at in range(kinds.size):
        rows = np.flatnonzero(kind == at)
        for lag in range(length + steps):
            by_kind[at, :, lag] = scaled[:, rows + lag].sum(axis=1)
    shared = by_kind.sum(axis=1)
    extra = np.zeros((CALENDAR + groups, length + steps))
    np.add.at(extra, kinds % DAY_H, shared)
    np.add.at(extra, DAY_H + kinds // DAY_H, shared)
    extra[CALENDAR:] = by_kind.sum(axis=0)
    if anchored:
        last = products[:, length - 1].copy()
        products = products - last[:, None] - last[None, :] + last[length - 1]
        extra = extra - extra[:, length - 1 : length]
    size = length + CALENDAR + groups
    gram = np.zeros((size, size))
    gram[:length, :length] = products[:length, :length]
    gram[length:, :length] = extra[:, :length]
    gram[:length, length:] = extra[:, :length].T
    often = np.bincount(kind, minlength=kinds.size).astype(np.float64)
    marks = np.zeros((CALENDAR, kinds.size))
    marks[kinds % DAY_H, np.arange(kinds.size)] = 1
    marks[DAY_H + kinds // DAY_H, np.arange(kinds.size)] = 1
    of_calendar = slice(length, length + CALENDAR)
    gram[of_calendar, of_calendar] = groups * (marks * often) @ marks.T
    single = marks @ often
    gram[length : length + CALENDAR, length + CALENDAR :] = single[:, None]
    gram[length + CALENDAR :, length : length + CALENDAR] = single[None, :]
    gram[np.arange(length + CALENDAR, size), np.arange(length + CALENDAR, size)] = count
    moments = np.concatenate([products[:length, length:], extra[:, length:]])
    return gram, moments


def _most_likely(
    weights: FloatArray, h: FloatArray, windows: Windows, columns: tuple[IntArray, IntArray],
    targets: FloatArray, now: slice, later: slice, penalties: FloatArray, length: int,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Go on to a greater Gaussian likelihood; of all steps the one that validates best is kept."""
    steps, size = weights.shape
    groups, count = windows.series.shape[0], now.stop
    wanted = targets[:, :, now]
    hour, weekday = columns[0][:count], columns[1][:count]
    best_loss, best = [np.inf], [weights, h]

    def both(flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        part = flat.reshape(2, steps, size)
        return part[0], part[1]

    def gradient_of(residual: FloatArray) -> FloatArray:
        whole = np.zeros((steps, groups, windows.count))
        whole[:, :, :count] = residual
        found = np.zeros((steps, size))
        found[:, :length] = windows.adjoint(whole)
        shared = residual.sum(axis=1)
        for step in range(steps):
            found[step, length : length + DAY_H] = np.bincount(hour, shared[step], DAY_H)
            found[step, length + DAY_H : length + CALENDAR] = np.bincount(weekday, shared[step], 7)
        found[:, length + CALENDAR :] = residual.sum(axis=2)
        return found

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        mean, spread = both(flat)
        everything = _predicted(mean, windows, columns, slice(None))
        h_all = _predicted(spread, windows, columns, slice(None))
        sigma_all = _softplus(h_all)
        error = targets[:, :, later] - everything[:, :, later]
        likely = float(np.mean(_nll(error, sigma_all[:, :, later])))
        if likely < best_loss[0]:
            best_loss[0] = likely
            best[:] = [mean.copy(), spread.copy()]
        error, sigma, h_now = wanted - everything[:, :, now], sigma_all[:, :, now], h_all[:, :, now]
        total = float(_nll(error, sigma).sum())
        towards = -error / sigma**2
        widen = (1 / sigma - error**2 / sigma**3) / (1 + np.exp(-h_now))
        pull = mean @ penalties, spread @ penalties
        total += 0.5 * float((mean * pull[0]).sum() + (spread * pull[1]).sum())
        gradient = np.stack([gradient_of(towards) + pull[0], gradient_of(widen) + pull[1]])
        return total / wanted.size, gradient.ravel() / wanted.size

    minimize(
        loss, np.stack([weights, h]).ravel(), jac=True, method="L-BFGS-B",
        options={"maxiter": STEPS_OF_LIKELIHOOD, "maxfun": 2 * STEPS_OF_LIKELIHOOD},
    )  # fmt: skip
    return best[0], best[1]


def _nll(error: FloatArray, sigma: FloatArray) -> FloatArray:
    found: FloatArray = np.log(sigma) + 0.5 * (error / sigma) ** 2
    return found


def _softplus(h: FloatArray) -> FloatArray:
    found: FloatArray = LEAST_SIGMA + np.logaddexp(0.0, h)
    return found


def _inverse_softplus(sigma: FloatArray) -> FloatArray:
    found: FloatArray = np.log(np.expm1(sigma - LEAST_SIGMA))
    return found
