"""Speedup laws: what ``--speedup NAME:PARAMETERS`` may name, and how one becomes a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpuplan.planner.speedup.functions import Amdahl, Power, SpeedupFunction, Usl

CHECKED_WIDTHS = (1.0, 2.0, 3.0, 8.0, 64.0)

ASSUMED_LAW = "an assumed law"
"""Origin of speedups that nobody measured."""


@dataclass(frozen=True, slots=True)
class SpeedupLaw:
    """A family of speedup functions with parameters.

    Attributes:
        name: what stands before the colon.
        parameters: names of the parameters, in capitals; may be empty.
        make: takes a number for each and returns the function. Raises `UsageError` where one is
            out of range; `functions.check_parameter` does.
        description: a short description, with the formula.
        source: where it comes from.
        as_of: date of the source, as YYYY-MM or YYYY; a dash if unknown.
        example: parameters that may be tried, as they are written.
    """

    name: str
    parameters: tuple[str, ...]
    make: Callable[..., SpeedupFunction]
    description: str
    source: str
    as_of: str = "-"
    example: str = ""

    def written(self, parameters: str) -> str:
        """Return the value of ``--speedup`` with these parameters."""
        return f"{self.name}:{parameters}" if self.parameters else self.name


def checked(law: SpeedupLaw) -> SpeedupLaw:
    """Return a law whose functions are checked when they are made.

    Making one then raises ValueError where it is not a speedup function.
    """
    return replace(law, make=partial(_made_and_checked, law.make))


def _made_and_checked(make: Callable[..., SpeedupFunction], *values: float) -> SpeedupFunction:
    function = make(*values)
    widths = np.array(CHECKED_WIDTHS)
    speedups = np.asarray(function.at(widths), dtype=np.float64)
    if speedups.shape != widths.shape or not np.isfinite(speedups).all() or speedups.min() <= 0:
        raise ValueError(f"at({list(CHECKED_WIDTHS)}) is {speedups}; expected numbers above 0")
    if abs(float(speedups[0]) - 1) > 1e-9:
        raise ValueError(f"s(1) is {speedups[0]:g}; it must be 1")
    candidates = function.candidates(8)
    if candidates.size == 0 or candidates.max() > 8 or (np.diff(candidates) <= 0).any():
        raise ValueError(f"candidates(8) is {candidates}; expected ascending widths up to 8")
    if not 1 <= function.narrowest <= function.widest:
        raise ValueError(f"widths from {function.narrowest} to {function.widest}")
    return function


AMDAHL = SpeedupLaw(
    "amdahl",
    ("SIGMA",),
    Amdahl,
    "s(k) = k / (1 + SIGMA (k - 1)); SIGMA is the serial share",
    "Amdahl, AFIPS 1967",
    "1967",
    "0.05",
)
USL = SpeedupLaw(
    "usl",
    ("SIGMA", "KAPPA"),
    Usl,
    "s(k) = k / (1 + SIGMA (k - 1) + KAPPA k (k - 1)), held at its peak",
    "Gunther, CMG 1993",
    "1993",
    "0.05,0.001",
)
POWER = SpeedupLaw(
    "power",
    ("ALPHA",),
    Power,
    "s(k) = k^ALPHA",
    "an assumption of constant elasticity",
    example="0.8",
)
BUILT_IN = (AMDAHL, USL, POWER)
