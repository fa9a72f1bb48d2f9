"""Offers of a marketplace over time: the number of GPUs and their prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import FOREVER

NANOS = 1_000_000_000
"""Prices inside the kernel are whole billionths of a dollar, so that sums are exact."""

MOST_USD = 500.0
"""Highest price of a GPU-hour: 16 million workers at it still add up within int64."""

MOST_OFFERS = 1_000_000
"""Offers that never change; the settings of a run list each of them."""


def price_ladder(
    offers: int, least: float, median: float, most: float, *, kept: int | None = None
) -> tuple[float, ...]:
    """Return one price per offer, ascending, spread evenly below and above the median.

    Offer i of n stands at the quantile (i + 1/2) / n of the distribution that is uniform from
    ``least`` to ``median`` with probability 1/2 and uniform from ``median`` to ``most`` else.
    With ``kept`` only so many of the cheapest are returned. Raises ValueError on a number of offers
    below 0, on more than `MOST_OFFERS` prices, or on prices out of order.
    """
    kept = offers if kept is None else min(kept, offers)
    if kept > MOST_OFFERS:
        raise ValueError(f"offers must be at most {MOST_OFFERS:,}, got {kept:,}")
    if offers < 0 or not 0 <= least <= median <= most:
        raise ValueError(
            "offers must be >= 0 and 0 <= least <= median <= most, "
            f"got {offers} offers at {least:g}, {median:g}, {most:g}"
        )
    at = (np.arange(kept) + 0.5) / max(offers, 1)
    return tuple(np.interp(at, (0.0, 0.5, 1.0), (least, median, most)).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Offers of one GPU each, step by step; the steps begin with the run and repeat.

    Offers include those that the run itself rents: with m of n rented it can rent n - m more.

    Attributes:
        start_us: when each step begins, microseconds; ascending, the first is 0; shape (k,).
        offers: how many there are within each step; shape (k,).
        price: US dollars per GPU-hour of each, step after step, ascending within one; shape
            (offers.sum(),).
        period_us: time after which the steps repeat; `FOREVER` keeps the last one in force.
    """

    start_us: IntArray
    offers: IntArray
    price: FloatArray
    period_us: int = FOREVER

    def __post_init__(self) -> None:
        start, offers = self.start_us, self.offers
        if start.size == 0 or start.shape != offers.shape or start[0] != 0:
            raise ValueError("a market needs steps, the first at 0, and offers for each")
        if (np.diff(start) <= 0).any() or start[-1] >= self.period_us:
            raise ValueError("the steps of a market must ascend, and end before its period")
        if (offers < 0).any() or offers.sum() != self.price.size:
            raise ValueError(f"{offers.sum()} offers, but {self.price.size} prices")
        if not ((self.price >= 0) & (self.price <= MOST_USD)).all():
            raise ValueError(f"marketplace prices must lie between 0 and {MOST_USD:g}")
        within = np.ones(self.price.size, bool)
        within[self.first[:-1][offers > 0]] = False
        if (np.diff(self.price, prepend=0.0)[within] < 0).any():
            raise ValueError("marketplace prices must ascend within each step")

    @property
    def first(self) -> IntArray:
        """Where the prices of each step begin, and the end of all; shape (k + 1,)."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.offers)))

    @property
    def median_usd(self) -> float | None:
        """Median price, each offer weighted by its time; None without offers."""
        end = FOREVER if self.start_us.size == 1 else self.period_us
        lasting = np.diff(np.append(self.start_us, end)).astype(np.float64)
        if not self.price.size:
            return None
        weight = np.repeat(lasting, self.offers)
        order = np.argsort(self.price, kind="stable")
        below = np.cumsum(weight[order])
        low, high = np.searchsorted(below, [below[-1] / 2, np.nextafter(below[-1] / 2, np.inf)])
        return float(self.price[order[[low, min(high, order.size - 1)]]].mean())

    def cheapest(self, most: int | None) -> Market:
        """Return the market without offers beyond the ``most`` cheapest of each step; None: all."""
        if most is None or (self.offers <= most).all():
            return self
        rank = np.arange(self.price.size) - np.repeat(self.first[:-1], self.offers)
        kept = np.minimum(self.offers, most)
        return Market(self.start_us, kept, self.price[rank < most], self.period_us)

    def since(self, at_us: int) -> Market:
        """Return the market as it goes on from a time on, which becomes its beginning."""
        if self.start_us.size == 1 or at_us == 0:
            return self
        at = at_us % self.period_us
        now = int(np.searchsorted(self.start_us, at, side="right")) - 1
        steps, start = np.arange(now, self.start_us.size), self.start_us[now:] - at
        start[0] = 0
        if self.period_us != FOREVER:  # what is left of the period comes after it
            again = np.arange(now + (at > self.start_us[now]))
            steps = np.append(steps, again)
            start = np.append(start, self.start_us[again] + self.period_us - at)
        first = self.first
        prices = [self.price[first[step] : first[step + 1]] for step in steps]
        return Market(start, self.offers[steps], np.concatenate(prices), self.period_us)

    @classmethod
    def constant(cls, prices: Sequence[float]) -> Market:
        """Return a market of constant offers in ascending order of price."""
        return cls(np.zeros(1, np.int64), np.array([len(prices)]), np.array(prices, np.float64))
