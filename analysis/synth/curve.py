"""A distribution of seconds: a smoothed quantile function with a bounded Pareto tail.

The body runs through quantiles, linear in ``log(x + step)`` between them. Beyond its last quantile
is a Pareto tail truncated at ``cap``,

    P(X > x) = (x^-a - H^-a) / (L^-a - H^-a),  L <= x <= H,

the bounded Pareto of Harchol-Balter, "Performance Modeling and Design of Computer Systems" (2013),
chapter 20. Its index ``a`` is the one that gives the whole curve the mean it is fitted to (a
matched moment: it exists for every sample, and a few long jobs decide the mean). A
negative index is allowed; the tail then thickens towards its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray

SPACING = 0.01
TAIL_SHARE = 0.001
TAIL_VALUES = 10
INDEX_RANGE = (-20.0, 60.0)


@dataclass(frozen=True, slots=True)
class DurationCurve:
    """Seconds by probability.

    Attributes:
        levels: probabilities of the body, ascending from 0; the last one starts the tail.
        values_s: seconds at them, ascending.
        cap_s: end of the tail, at probability 1.
        index: Pareto index of the tail.
        step_s: clock resolution; added inside the logarithm so that 0 has a value.
    """

    levels: tuple[float, ...]
    values_s: tuple[float, ...]
    cap_s: float
    index: float
    step_s: float

    def at(self, levels: FloatArray) -> FloatArray:
        """Return the seconds at probabilities in [0, 1], not rounded; same shape."""
        log_values = np.log(np.asarray(self.values_s) + self.step_s)
        log_s = np.interp(levels, self.levels, log_values)
        start = self.levels[-1]
        beyond = levels > start
        if beyond.any():
            part = (levels[beyond] - start) / (1 - start)
            reach = np.log(self.cap_s + self.step_s) - log_values[-1]
            log_s[beyond] += _tail_log(part, self.index, float(reach))
        result: FloatArray = np.maximum(np.exp(log_s) - self.step_s, 0.0)
        return result

    @property
    def mean_s(self) -> float:
        """Mean of the curve, in closed form."""
        floor, rest = self.values_s[-1] + self.step_s, 1 - self.levels[-1]
        tail = floor * tail_mean(self.index, _reach(floor, self.cap_s + self.step_s)) - self.step_s
        return body_mean(self.levels, self.values_s, self.step_s) + rest * tail


def fit_curve(ascending: FloatArray, step_s: float) -> DurationCurve:
    """Return the curve of a sorted sample, shape (n,), n >= 1, values >= 0.

    The body has a quantile every 1 %, and more of them towards its end (one every 4 values of a
    small sample); the tail holds the largest 0.1 % (the largest 10 values of a small sample, at
    most half of it). The longest value is not stored: the tail ends at its two digits, rounded up.
    """
    count = ascending.size
    start = 1 - min(0.5, max(TAIL_SHARE, TAIL_VALUES / count))
    spacing = max(SPACING, 4 / count)
    finer = 1 - np.geomspace(0.1, TAIL_SHARE, 40)
    levels = np.union1d(np.arange(0, start - spacing / 4, spacing), finer[finer < start])
    levels = np.unique(np.concatenate([[0.0], levels[levels < start - 1e-6], [start]]))
    values = np.quantile(ascending, levels)
    cap = max(two_digits_up(float(ascending[-1])), float(values[-1]))
    return curve_through(levels, values, cap, float(ascending.mean()), step_s)


def curve_through(
    levels: Sequence[float] | FloatArray,
    values_s: Sequence[float] | FloatArray,
    cap_s: float,
    mean_s: float,
    step_s: float,
) -> DurationCurve:
    """Return the curve through quantiles with a tail that gives the mean, as far as possible."""
    levels, values = (tuple(float(x) for x in row) for row in (levels, values_s))
    floor, rest = values[-1] + step_s, 1 - levels[-1]
    wanted = (mean_s - body_mean(levels, values, step_s)) / rest + step_s
    reach = _reach(floor, cap_s + step_s)
    low, high = INDEX_RANGE
    for _ in range(80):  # the mean falls with the index
        middle = (low + high) / 2
        if floor * tail_mean(middle, reach) > wanted:
            low = middle
        else:
            high = middle
    return DurationCurve(levels, values, cap_s, (low + high) / 2, step_s)


def body_mean(levels: Sequence[float], values_s: Sequence[float], step_s: float) -> float:
    """Return the part of the mean below the tail: the integral over ``levels``."""
    ends = np.asarray(values_s) + step_s
    low, high = ends[:-1], ends[1:]
    ratio = np.log(high / low)
    flat = ratio < 1e-9
    middle = np.where(flat, low, (high - low) / np.where(flat, 1.0, ratio))
    return float(np.diff(levels) @ (middle - step_s))


def tail_mean(index: float, reach: float) -> float:
    """Return the mean of a bounded Pareto over its start; ``reach`` is log(end / start)."""
    if reach < 1e-9:
        return 1.0
    index = index + 1e-7 if min(abs(index), abs(index - 1)) < 1e-7 else index
    top, bottom = np.expm1((1 - index) * reach), np.expm1(-index * reach)
    return float(index / (index - 1) * top / bottom)


def two_digits_up(value: float) -> float:
    """Return the least number of two significant digits that is not below ``value`` >= 0."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / unit - 1e-9) * unit)


def _reach(floor: float, end: float) -> float:
    return float(np.log(max(end / floor, 1.0)))


def _tail_log(part: FloatArray, index: float, reach: float) -> FloatArray:
    """Return log(x / L) at a share ``part`` of the tail."""
    if reach < 1e-9:
        return np.zeros_like(part)
    if abs(index) < 1e-7:
        return part * reach
    result: FloatArray = -np.log1p(part * np.expm1(-index * reach)) / index
    return np.clip(result, 0.0, reach)
