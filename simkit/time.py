"""Time in a simulator: whole microseconds, so that sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.arrays import IntArray

HOUR_S = 3600.0
DAY_S = 86400.0
CENTURY_S = 100 * 365.25 * DAY_S

MICROS = 1_000_000
"""Microseconds in a second: time inside a kernel is whole microseconds, so that sums are exact."""

MICROS_PER_HOUR = HOUR_S * MICROS

FOREVER = 1 << 60
"""A time no simulation reaches, in microseconds (36,000 years), and more rounds than any has."""


class TimeOverflow(ValueError):
    """Times so long that whole microseconds could leave the range of 64 bits.

    Attributes:
        longest: the parameter with the longest times; None if the jobs have them.
    """

    def __init__(self, problem: str, longest: str | None = None) -> None:
        super().__init__(problem)
        self.longest = longest


def to_micros(seconds: Any) -> IntArray:
    """Return seconds as whole microseconds, rounded half up; infinity becomes `FOREVER`."""
    scaled = np.floor(np.asarray(seconds, np.float64) * MICROS + 0.5)
    return np.minimum(scaled, float(FOREVER)).astype(np.int64)
