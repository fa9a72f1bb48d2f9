"""Linear forecasts with a Gaussian error whose width is forecast too (OrgLinear; docs/forecast.md).

The mean is a map over the trend and one over the remainder of the window, plus a constant for each
hour of the day, weekday, holiday and group; so is h, and the standard deviation is softplus(h).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import fft
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from gpuplan.analysis.base.arrays import BoolArray, FloatArray

KERNEL_H = 25
PENALTIES = tuple(10.0**k for k in range(-2, 7))
LEAST_SIGMA = 1e-3  # in units of a series' standard deviation
DAY_H, WEEK_H = 24, 168
STEPS_OF_LIKELIHOOD = 30
SERIES_AT_ONCE = 8
MOST_H = 500.0  # exp of more overflows


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows of length L of several series of equal length T, ready for maps.

    Attributes:
        series: shape (series, T).
        length: L, hours of a window.
        anchored: whether the last value of a window is subtracted from all its values.
        size: length of the transforms.
        spectrum: transform of each series, shape (series, size // 2 + 1).
    """

    series: FloatArray
    length: int
    anchored: bool
    size: int
    spectrum: FloatArray

    @classmethod
    def of(cls, series: FloatArray, length: int, *, anchored: bool) -> Windows:
        """Return the windows of series, shape (series, T) with T >= L."""
        size = fft.next_fast_len(series.shape[1], real=True)  # no window reaches past the end
        return cls(series, length, anchored, size, fft.rfft(series, size, axis=1))

    @property
    def count(self) -> int:
        """Windows of each series, the one after the last hour included."""
        return int(self.series.shape[1]) - self.length + 1

    @property
    def last(self) -> FloatArray:
        """Last value of each window, shape (series, count)."""
        return self.series[:, self.length - 1 :]

    def of_series(self, part: slice) -> Windows:
        """Return the windows of some of the series."""
        return replace(self, series=self.series[part], spectrum=self.spectrum[part])

    def transformed(self, weights: FloatArray) -> FloatArray:
        """Return the transforms of maps, for `apply`."""
        transforms: FloatArray = np.conj(fft.rfft(weights, self.size, axis=1))
        return transforms

    def apply(self, weights: FloatArray, kernels: FloatArray | None = None) -> FloatArray:
        """Return the map of every window; shape (maps, series, count) for weights (maps, L).

        ``kernels`` are `transformed` weights, where several parts of the series share them.
        """
        kernels = self.transformed(weights) if kernels is None else kernels
        values: FloatArray = fft.irfft(self.spectrum * kernels[:, None, :], self.size, axis=2)
        values = values[:, :, : self.count]
        if self.anchored:
            values -= weights.sum(axis=1)[:, None, None] * self.last
        return values

    def adjoint(self, residuals: FloatArray) -> FloatArray:
        """Return the windows summed with weights (maps, series, count); shape (maps, L)."""
        spectra = np.conj(fft.rfft(residuals, self.size, axis=2))
        summed = np.einsum("st,mst->mt", self.spectrum, spectra)
        sums: FloatArray = fft.irfft(summed, self.size, axis=1)[:, : self.length]
        if self.anchored:
            sums = sums - np.einsum("st,mst->m", self.last, residuals)[:, None]
        return sums


def lagged_products(series: FloatArray, length: int, count: int) -> FloatArray:
    """Return ``sum over i < count of x[i + a] x[i + b]`` for all a, b < length, over all series.

    Along a diagonal each entry follows from the one before by one product that enters and one that
    leaves, so the cost is that of the table, not of the windows.

    Args:
        series: shape (series, T) with T >= count + length - 1.
    """
    table = np.empty((length, length))
    for lag in range(length):
        product = series[:, : count + length - 1 - lag] * series[:, lag : count + length - 1]
        sums = product.sum(axis=0).cumsum()
        diagonal = sums[count - 1 :].copy()
        diagonal[1:] -= sums[: diagonal.size - 1]
        index = np.arange(length - lag)
        table[index, index + lag] = table[index + lag, index] = diagonal
    return table


def moving_average(length: int, kernel: int) -> FloatArray:
    """Return the matrix that smooths a window of ``length`` hours, reflected at its ends."""
    half = kernel // 2
    matrix = np.zeros((length, length))
    for shift in range(-half, half + 1):
        at = np.abs(np.arange(length) + shift)
        at = np.where(at >= length, 2 * (length - 1) - at, at)
        np.add.at(matrix, (np.arange(length), np.clip(at, 0, length - 1)), 1 / (2 * half + 1))
    return matrix


@cache
def penalty_of_parts(length: int, kernel: int) -> FloatArray:
    """Return P with ``w' P w`` the least sum of squares of trend and remainder maps that make w.

    A map over the trend and one over the remainder of a window (DLinear) add up to one map over the
    window itself; this is the ridge penalty of the two.
    """
    trend = moving_average(length, kernel)
    rest = np.eye(length) - trend
    inverse: FloatArray = np.linalg.inv(trend.T @ trend + rest.T @ rest).astype(np.float64)
    inverse.flags.writeable = False
    return inverse


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted model.

    Attributes:
        length: hours of its window.
        is_full: whether it forecasts the change from the last value, and has columns for hours and
            weekdays.
        scale: standard deviation of each series in training, shape (series,).
        mean, h: weights of the window, shape (steps, L).
        mean_constants, h_constants: of calendar columns, then series, shape (steps, c + series).
        penalty: of the ridge, chosen on validation.
        widening: factor of each series' standard deviation, chosen on validation, shape (series,).
    """

    length: int
    is_full: bool
    scale: FloatArray
    mean: FloatArray
    h: FloatArray
    mean_constants: FloatArray
    h_constants: FloatArray
    penalty: float
    widening: FloatArray

    def forecast(
        self, series: FloatArray, first_hour: int, is_holiday: BoolArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the next hours after every window, in GPUs.

        Args:
            series: shape (series, T); ``first_hour`` is the hour of the week of its first value.
            is_holiday: as the model was fitted with; shape (T + steps,).

        Returns:
            Two arrays of shape (steps, series, T - L + 1); entry i is issued after hour i + L - 1.
        """
        scaled = series / self.scale[:, None]
        windows = Windows.of(scaled, self.length, anchored=self.is_full)
        steps = self.mean.shape[0]
        marks = calendar_marks(windows, first_hour, steps, is_holiday, calendar=self.is_full)
        mean = windows.apply(self.mean) + _constants(self.mean_constants, marks)
        h = windows.apply(self.h) + _constants(self.h_constants, marks)
        if self.is_full:
            mean += windows.last
        scale = self.scale[:, None]
        return mean * scale, self.widening[:, None] * _softplus(h)[0] * scale


def fit_linear(
    series: FloatArray, first_hour: int, length: int, steps: int, train: int, valid: int, *,
    is_full: bool = True, is_holiday: BoolArray | None = None,
) -> LinearModel:  # fmt: skip
    """Fit the model on the hours before ``train`` and choose its penalty on those before ``valid``.

    Args:
        series: GPUs, shape (series, T).
        first_hour: hour of the week of the first value.
        length: L, hours of a window; length + steps <= train.
        steps: hours ahead.
        is_full: subtract the last value of a window, so that the penalty leads to persistence, have
            constants for hours, weekdays and holidays too, not for groups alone, and go on from the
            ridge to the greatest Gaussian likelihood.
        is_holiday: whether each hour is of a holiday, shape (T + steps,); None for no such column.
    """
    scale = series[:, :train].std(axis=1)
    scale = np.where(scale > 0, scale, 1.0)
    scaled = series / scale[:, None]
    windows = Windows.of(scaled[:, :valid], length, anchored=is_full)
    marks = calendar_marks(windows, first_hour, steps, is_holiday, calendar=is_full)
    count = train - length - steps + 1  # windows whose targets all lie in training
    targets = _targets(windows, steps)
    gram, moments = _normal_equations(scaled, marks[:, :count], length, steps, is_full)
    penalties = np.zeros_like(gram)
    penalties[:length, :length] = penalty_of_parts(length, KERNEL_H)
    penalties[np.arange(length, gram.shape[0]), np.arange(length, gram.shape[0])] = 1e-3
    later = slice(train - length, windows.count - steps)  # issued in the validation part
    best: tuple[float, float, FloatArray] | None = None
    for penalty in PENALTIES:
        weights = cho_solve(cho_factor(gram + penalty * penalties), moments).T
        predicted = _predicted(weights, windows, marks, later)
        error = float(np.mean((predicted - targets[:, :, later]) ** 2))
        if best is None or error < best[0]:
            best = error, penalty, weights
    assert best is not None
    _, penalty, weights = best
    now = slice(0, count)
    residual = targets[:, :, now] - _predicted(weights, windows, marks, now)
    sigma = np.maximum(np.sqrt(np.mean(residual**2, axis=(2,))), 2 * LEAST_SIGMA)  # by series too
    h = np.zeros_like(weights)
    h[:, length + marks.shape[0] :] = _inverse_softplus(sigma)
    if is_full:
        weights, h = _most_likely(
            weights, h, windows, marks, targets, now, later, penalty * penalties
        )
    spread = _softplus(_predicted(h, windows, marks, later))[0]
    missed = targets[:, :, later] - _predicted(weights, windows, marks, later)
    widening = np.sqrt(np.mean((missed / spread) ** 2, axis=(0, 2)))
    return LinearModel(
        length, is_full, scale, weights[:, :length], h[:, :length], weights[:, length:],
        h[:, length:], penalty, np.maximum(widening, 1e-3),
    )  # fmt: skip


def calendar_marks(
    windows: Windows, first_hour: int, steps: int, is_holiday: BoolArray | None, *, calendar: bool
) -> FloatArray:
    """Return the calendar columns of every window, 0 or 1; shape (c, count).

    They are the hour of the day (24) and the weekday (7) of the hour after the window. Where
    holidays are known, the last hour of the window and each hour forecast have a column that tells
    whether it is of one: an anchored model forecasts changes, which come with the first and the
    last hour of a holiday.
    """
    if not calendar:
        return np.zeros((0, windows.count))
    hour = (first_hour + windows.length + np.arange(windows.count)) % WEEK_H
    marks = [hour % DAY_H == place for place in range(DAY_H)]
    marks += [hour // DAY_H == place for place in range(WEEK_H // DAY_H)]
    if is_holiday is not None:
        last = windows.length - 1
        marks += [is_holiday[last + at : last + at + windows.count] for at in range(steps + 1)]
    return np.stack(marks).astype(np.float64)


def _constants(constants: FloatArray, marks: FloatArray) -> FloatArray:
    """Return the sum of the constants of each series and window, shape (steps, series, count)."""
    size = marks.shape[0]
    shared = np.einsum("sc,cw->sw", constants[:, :size], marks)
    sums: FloatArray = constants[:, size:, None] + shared[:, None, :]
    return sums


def _targets(windows: Windows, steps: int) -> FloatArray:
    """Return what follows each window, less its last value if anchored; NaN past the end."""
    targets = np.full((steps, windows.series.shape[0], windows.count), np.nan)
    for step in range(steps):
        after = windows.series[:, windows.length + step :]
        targets[step, :, : after.shape[1]] = after
        if windows.anchored:
            targets[step, :, : after.shape[1]] -= windows.last[:, : after.shape[1]]
    return targets


def _predicted(weights: FloatArray, windows: Windows, marks: FloatArray, part: slice) -> FloatArray:
    length = windows.length
    values = windows.apply(weights[:, :length])
    values += _constants(weights[:, length:], marks)
    return values[:, :, part]


def _normal_equations(
    scaled: FloatArray, marks: FloatArray, length: int, steps: int, anchored: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrix of all features and their products with the targets."""
    groups, (columns, count) = scaled.shape[0], marks.shape
    lags = length + steps
    products = lagged_products(scaled, lags, count)
    # A row for each constant: the sum of the windows in which it counts.
    shifted = np.lib.stride_tricks.sliding_window_view(scaled.sum(axis=0), lags)[:count]
    sums = np.concatenate([np.zeros((groups, 1)), scaled.cumsum(axis=1)], axis=1)
    extra = np.concatenate([marks @ shifted, sums[:, count : count + lags] - sums[:, :lags]])
    if anchored:
        last = products[:, length - 1].copy()
        products = products - last[:, None] - last[None, :] + last[length - 1]
        extra = extra - extra[:, length - 1 : length]
    size, of_series = length + columns + groups, length + columns
    gram = np.zeros((size, size))
    gram[:length, :length] = products[:length, :length]
    gram[length:, :length] = extra[:, :length]
    gram[:length, length:] = extra[:, :length].T
    gram[length:of_series, length:of_series] = groups * marks @ marks.T
    often = marks.sum(axis=1)
    gram[length:of_series, of_series:] = often[:, None]
    gram[of_series:, length:of_series] = often[None, :]
    index = np.arange(of_series, size)
    gram[index, index] = count
    moments = np.concatenate([products[:length, length:], extra[:, length:]])
    return gram, moments


def _most_likely(
    weights: FloatArray, h: FloatArray, windows: Windows, marks: FloatArray,
    targets: FloatArray, now: slice, later: slice, penalties: FloatArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Go on to a greater Gaussian likelihood; of all steps the one that validates best is kept."""
    (steps, size), length = weights.shape, windows.length
    groups, count = windows.series.shape[0], now.stop
    begin = length + marks.shape[0]  # of the constants of series
    best_loss, best = [np.inf], [weights, h]
    # A few series at a time, so that what each step works on stays in the cache of the processor.
    parts = [slice(at, at + SERIES_AT_ONCE) for at in range(0, groups, SERIES_AT_ONCE)]
    group_windows = [windows.of_series(part) for part in parts]
    number = steps * groups * count
    number_later = steps * groups * (later.stop - later.start)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        both = flat.reshape(2, steps, size)
        maps = both.reshape(2 * steps, size)
        shared = np.einsum("sc,cw->sw", maps[:, length:begin], marks)
        kernels = windows.transformed(maps[:, :length])
        total = likely = 0.0
        gradient = np.zeros_like(maps)
        for part, group in zip(parts, group_windows, strict=True):
            values = group.apply(maps[:, :length], kernels)
            values += shared[:, None, :]
            values += maps[:, begin:][:, part][:, :, None]
            sigma, slope = _softplus(values[steps:])
            error = targets[:, part] - values[:steps]
            likely += float(_nll(error[:, :, later], sigma[:, :, later]).sum())
            error, sigma, slope = error[:, :, now], sigma[:, :, now], slope[:, :, now]
            scaled = error / sigma
            square = scaled**2
            total += float(np.log(sigma).sum() + 0.5 * square.sum())
            residual = np.zeros_like(values)
            residual[:steps, :, :count] = -scaled / sigma
            residual[steps:, :, :count] = (1 - square) / sigma * slope
            gradient[:, :length] += group.adjoint(residual)
            gradient[:, length:begin] += np.einsum("sw,cw->sc", residual.sum(axis=1), marks)
            gradient[:, begin:][:, part] = residual.sum(axis=2)
        if likely / number_later < best_loss[0]:
            best_loss[0] = likely / number_later
            best[:] = [part_maps.copy() for part_maps in both]
        pull = np.einsum("sf,fg->sg", maps, penalties)  # `@` would start threads for it
        total += 0.5 * float((maps * pull).sum())
        return total / number, (gradient + pull).ravel() / number

    minimize(
        loss, np.stack([weights, h]).ravel(), jac=True, method="L-BFGS-B",
        options={"maxiter": STEPS_OF_LIKELIHOOD, "maxfun": 2 * STEPS_OF_LIKELIHOOD},
    )  # fmt: skip
    return best[0], best[1]


def _nll(error: FloatArray, sigma: FloatArray) -> FloatArray:
    loss: FloatArray = np.log(sigma) + 0.5 * (error / sigma) ** 2
    return loss


def _softplus(h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least deviation plus softplus, and its slope."""
    power = np.exp(np.minimum(h, MOST_H))
    more = 1.0 + power
    return LEAST_SIGMA + np.log(more), power / more


def _inverse_softplus(sigma: FloatArray) -> FloatArray:
    h: FloatArray = np.log(np.expm1(sigma - LEAST_SIGMA))
    return h
