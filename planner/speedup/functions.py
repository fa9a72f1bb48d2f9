"""Speedup functions s(k): how many times faster a job runs on k GPUs than on one.

s(1) = 1 always. Below one GPU s(g) = g: a fraction of a GPU does that fraction of its work.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.limits import DEFAULT_MAX_WIDTH


class SpeedupFunction(Protocol):
    """The interface of a speedup function."""

    @property
    def narrowest(self) -> float:
        """Least width that a job may get: the least measured; 1 for a law."""

    @property
    def widest(self) -> float:
        """Width up to which the function is known; infinite for a law."""

    def at(self, gpus: FloatArray) -> FloatArray:
        """Return s at each GPU count, which is above 0 and may be fractional; same shape."""

    def candidates(self, max_width: int | None) -> FloatArray:
        """Return the widths to consider, ascending, none above ``max_width``."""


class SpeedupFormula(ABC):
    """Base of the functions of laws: defined everywhere, every whole width is a candidate."""

    __slots__ = ()
    narrowest = 1.0
    widest = float("inf")

    def at(self, gpus: FloatArray) -> FloatArray:
        """Return s at each GPU count."""
        gpus = np.asarray(gpus, dtype=np.float64)
        return np.where(gpus < 1, gpus, self.from_one(np.maximum(gpus, 1.0)))

    def candidates(self, max_width: int | None) -> FloatArray:
        """Return every whole width."""
        return np.arange(1, (max_width or DEFAULT_MAX_WIDTH) + 1, dtype=np.float64)

    @abstractmethod
    def from_one(self, gpus: FloatArray) -> FloatArray:
        """Return s at GPU counts of at least 1."""


@dataclass(frozen=True, slots=True)
class Amdahl(SpeedupFormula):
    """s(k) = k / (1 + sigma (k - 1)): a share sigma of the work is serial (Amdahl 1967)."""

    sigma: float

    def __post_init__(self) -> None:
        check_parameter("amdahl: SIGMA", self.sigma, 0.0, 1.0)

    def from_one(self, gpus: FloatArray) -> FloatArray:
        """Return s at GPU counts of at least 1."""
        return gpus / (1 + self.sigma * (gpus - 1))


@dataclass(frozen=True, slots=True)
class Usl(SpeedupFormula):
    """s(k) = k / (1 + sigma (k - 1) + kappa k (k - 1)), held at its peak beyond it.

    The universal scalability law (Gunther 1993): kappa is the cost of keeping every pair of
    workers coherent, so that s falls beyond k = sqrt((1 - sigma) / kappa).
    """

    sigma: float
    kappa: float

    def __post_init__(self) -> None:
        check_parameter("usl: SIGMA", self.sigma, 0.0, 1.0)
        check_parameter("usl: KAPPA", self.kappa, 0.0, 1.0)

    @property
    def peak(self) -> float:
        """Width with the largest speedup, at least 1."""
        if self.kappa == 0:
            return float("inf")
        return max(1.0, math.sqrt((1 - self.sigma) / self.kappa))

    def from_one(self, gpus: FloatArray) -> FloatArray:
        """Return s at GPU counts of at least 1."""
        k = np.minimum(gpus, self.peak)
        result: FloatArray = k / (1 + self.sigma * (k - 1) + self.kappa * k * (k - 1))
        return result


@dataclass(frozen=True, slots=True)
class Power(SpeedupFormula):
    """s(k) = k ** alpha."""

    alpha: float

    def __post_init__(self) -> None:
        check_parameter("power: ALPHA", self.alpha, 1e-6, 1.0)

    def from_one(self, gpus: FloatArray) -> FloatArray:
        """Return s at GPU counts of at least 1."""
        result: FloatArray = gpus**self.alpha
        return result


@dataclass(frozen=True, slots=True)
class MeasuredSpeedup:
    """A measured speedup: exact at measurements, linear in between, flat beyond the last one.

    It need be neither concave nor monotone. Between two neighbors s(k) is on their chord, so it is
    never below the smaller of the two.

    Attributes:
        widths: GPU counts measured, ascending, >= 1.
        speedups: s at each of them, > 0; the origin is a point too, and not listed.
        narrowest: least GPU count measured; jobs may not fit on fewer.
    """

    widths: tuple[float, ...]
    speedups: tuple[float, ...]
    narrowest: float = 1.0

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.speedups) or not self.widths:
            raise ValueError(f"a curve needs as many speedups as widths, got {self}")

    @property
    def widest(self) -> float:
        """The last measured width."""
        return self.widths[-1]

    def at(self, gpus: FloatArray) -> FloatArray:
        """Return s by linear interpolation.

        Where the first point is beyond one GPU, s(1) = 1 is a point too: a built-in profile that is
        better than linear at first lists only the vertices of its hull, which goes over one GPU.
        """
        widths, speedups = [0.0, *self.widths], [0.0, *self.speedups]
        if self.widths[0] > 1:
            widths.insert(1, 1.0)
            speedups.insert(1, 1.0)
        result: FloatArray = np.interp(gpus, widths, speedups)
        return result

    def candidates(self, max_width: int | None) -> FloatArray:
        """Return every whole width from the least measured to the last, and the other points.

        The vertices of the hull would be enough if starts and changes of width were free. Else its
        cost, in proportion to the width, makes a width between two of them better than any split.
        All are at least the least measured width; there are none if ``max_width`` is below it.
        """
        points = np.array(self.widths)
        if max_width is not None and max_width < self.widest:
            points = np.append(points[points < max_width], float(max_width))
        whole_widths = np.arange(math.ceil(self.narrowest), math.floor(points[-1]) + 1)
        widths = np.union1d(whole_widths.astype(np.float64), points)
        return widths[widths >= self.narrowest]


def measured_curve(gpus: FloatArray, speedup: FloatArray) -> MeasuredSpeedup:
    """Return the curve through measured points.

    Args:
        gpus: GPU counts, ascending and distinct, >= 1; shape (n,).
        speedup: the speedup measured at each; shape (n,), > 0.
    """
    return MeasuredSpeedup(tuple(gpus.tolist()), tuple(speedup.tolist()), narrowest=float(gpus[0]))


def concave_hull(gpus: FloatArray, speedup: FloatArray) -> MeasuredSpeedup:
    """Return the least monotone concave curve from the origin over measured points.

    The built-in profiles are such curves. It is not the speedup of a job: between its vertices it
    may exceed the measurements. Methods that need concavity take the hull of the candidates.

    Args:
        gpus: GPU counts, ascending and distinct, >= 1; shape (n,).
        speedup: the speedup measured at each; shape (n,), > 0.
    """
    top = int(np.argmax(speedup))  # beyond the first maximum the curve is flat
    hull = [(0.0, 0.0)]
    for point in zip(gpus[: top + 1].tolist(), speedup[: top + 1].tolist(), strict=True):
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) >= 0:
            hull.pop()
        hull.append(point)
    widths, speedups = zip(*hull[1:], strict=True)
    return MeasuredSpeedup(widths, speedups, narrowest=float(gpus[0]))


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    """Return a value that is not negative where b is on or under the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def check_parameter(what: str, value: float, low: float, high: float) -> None:
    """Check a parameter of a law, ``what`` being ``law: PARAMETER``.

    Raises:
        UsageError: it is not between ``low`` and ``high``.
    """
    if not low <= value <= high:
        raise UsageError(f"--speedup {what} must be between {low:g} and {high:g}, got {value:g}")
