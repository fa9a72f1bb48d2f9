"""Requests over time: from rates, from arrivals of a log, or drawn from a process."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray

MOST_REQUESTS = 50_000_000
BURST_S, CALM_S = 10, 50  # seconds of a burst, and of the calm after it
PROCESSES = {
    "poisson": ("poisson:RATE", 1),
    "gamma": ("gamma:RATE:CV", 2),
    "gamma-rate": ("gamma-rate:RATE:CV", 2),
    "bursty": ("bursty:RATE:FACTOR", 2),
    "periodic": ("periodic:RATE:PERIOD_S", 2),
}
"""Name -> how it is written, and its numbers.

``gamma`` has independent gaps with this coefficient of variation; ``gamma-rate`` draws the rate of
each second; ``bursty`` multiplies the rate for 10 s of each minute; ``periodic`` swings between 0
and twice the rate.
"""


@dataclass(frozen=True, slots=True)
class RequestProcess:
    """A process that requests are drawn from.

    Attributes:
        name: one of `PROCESSES`.
        rate: mean requests per second, of ``bursty`` that outside bursts; > 0.
        shape: coefficient of variation, factor or period; > 0.
    """

    name: str
    rate: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in PROCESSES:
            raise ValueError(f"expected one of {', '.join(PROCESSES)}, got {self.name!r}")
        if not (0 < self.rate < 1e6 and 0 < self.shape < 1e6):
            raise ValueError(f"expected numbers above 0, got {self.rate:g} and {self.shape:g}")

    def arrivals(self, seconds: int, rng: np.random.Generator) -> FloatArray:
        """Return arrivals within a number of seconds, ascending."""
        if self.name in ("poisson", "gamma"):
            cv = 1.0 if self.name == "poisson" else self.shape
            count = int(seconds * self.rate + 10 * math.sqrt(seconds * self.rate) * (1 + cv) + 10)
            parts, end = [], 0.0
            while end < seconds:
                gaps = rng.gamma(1 / cv**2, cv**2 / self.rate, count)
                parts.append(end + np.cumsum(gaps))
                end = float(parts[-1][-1])
            arrivals = np.concatenate(parts)
            return arrivals[arrivals < seconds]
        at = np.arange(seconds)
        if self.name == "gamma-rate":
            rates = rng.gamma(1 / self.shape**2, self.rate * self.shape**2, seconds)
        elif self.name == "bursty":
            rates = np.where(at % (BURST_S + CALM_S) >= CALM_S, self.rate * self.shape, self.rate)
        else:
            rates = self.rate * (1 + np.sin(2 * np.pi * at / self.shape))
        counts = rng.poisson(rates)
        return np.sort(np.repeat(at, counts) + rng.random(int(counts.sum())))


def even_arrivals(rates: FloatArray, multiplier: float = 1.0) -> FloatArray:
    """Return arrivals of int(rate x multiplier) requests, evenly spread inside each second.

    Raises `ValueError` for more than 50 million requests.
    """
    counts = (rates * multiplier).astype(np.int64)
    if counts.sum() > MOST_REQUESTS:
        raise ValueError(f"{counts.sum():,} requests; expected at most {MOST_REQUESTS:,}")
    second = np.repeat(np.arange(counts.size), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    inside = np.arange(second.size) - first
    return second + inside / np.repeat(counts, counts)
