"""Linear maps over sliding windows of hourly series, without ever holding the windows.

A window is L hours; a map with weights ``w`` sends it to ``sum(w * (x - x[-1]))`` where windows are
anchored at their last value, else to ``sum(w * x)``. Both directions are correlations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import fft

from gpuplan.analysis.base.arrays import FloatArray


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
        found: FloatArray = np.conj(fft.rfft(weights, self.size, axis=1))
        return found

    def apply(self, weights: FloatArray, kernels: FloatArray | None = None) -> FloatArray:
        """Return the map of every window; shape (maps, series, count) for weights (maps, L).

        ``kernels`` are `transformed` weights, where several parts of the series share them.
        """
        kernels = self.transformed(weights) if kernels is None else kernels
        found: FloatArray = fft.irfft(self.spectrum * kernels[:, None, :], self.size, axis=2)
        found = found[:, :, : self.count]
        if self.anchored:
            found -= weights.sum(axis=1)[:, None, None] * self.last
        return found

    def adjoint(self, residuals: FloatArray) -> FloatArray:
        """Return the windows summed with weights (maps, series, count); shape (maps, L)."""
        spectra = np.conj(fft.rfft(residuals, self.size, axis=2))
        summed = np.einsum("st,mst->mt", self.spectrum, spectra)
        found: FloatArray = fft.irfft(summed, self.size, axis=1)[:, : self.length]
        if self.anchored:
            found = found - np.einsum("st,mst->m", self.last, residuals)[:, None]
        return found


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


def penalty_of_parts(length: int, kernel: int) -> FloatArray:
    """Return P with ``w' P w`` the least sum of squares of trend and remainder maps that make w.

    A map over the trend and one over the remainder of a window (DLinear) add up to one map over the
    window itself; this is the ridge penalty of the two.
    """
    trend = moving_average(length, kernel)
    rest = np.eye(length) - trend
    inverse: FloatArray = np.linalg.inv(trend.T @ trend + rest.T @ rest).astype(np.float64)
    return inverse
