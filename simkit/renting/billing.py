"""What rented workers are billed, and what those cost that are held for a whole run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.renting.market import Market
from gpuplan.simkit.time import MICROS_PER_HOUR, to_micros


@dataclass(frozen=True, slots=True)
class Rent:
    """Workers requested and released together.

    Attributes:
        offers: how many are of the marketplace; they come first, and the rest is conventional.
        metered_usd: price x time held of each; shape (k,).
        billed_usd: the same for the time that is billed.
    """

    offers: int
    metered_usd: FloatArray
    billed_usd: FloatArray


def hold(parameters: Allpass, workers: int, held_us: int) -> Rent:
    """Rent workers as a run begins and hold them, whatever becomes of their offers.

    They are the cheapest offers of the marketplace there are then, and for the rest of the
    conventional cloud, as for the pool of Allpass. Offers of the marketplace are taken first, also
    where they are dearer.
    """
    market = parameters.offers
    offers = min(workers, int(market.offers[0]))
    price = np.full(workers, float(parameters.conventional_price))
    price[:offers] = market.price[:offers]
    metered, last = price * held_us / MICROS_PER_HOUR, price.copy()
    if parameters.pricing == "in-force":
        metered[:offers], last[:offers] = _in_force(market, price[:offers], held_us)
    return Rent(offers, metered, billed_usd(parameters, metered, held_us, last))


def _in_force(market: Market, price: FloatArray, held_us: int) -> tuple[FloatArray, FloatArray]:
    """Return what the cheapest offers of the first step cost, and the price of each at the end.

    All of them are there when the market begins again, so every round is like the first.
    """
    rounds, rest = divmod(held_us, market.period_us)
    lasting = np.diff(np.append(market.start_us, market.period_us))
    within = rounds * lasting + np.clip(rest - market.start_us, 0, lasting)
    final = int(np.searchsorted(market.start_us, rest)) - 1  # -1 is the end of a round
    first, now = market.first, price.copy()
    metered, last = np.zeros(price.size), price
    for step in range(lasting.size if rounds else final + 1):
        there = min(price.size, int(market.offers[step]))
        now[:there] = market.price[first[step] : first[step] + there]
        metered += now * float(within[step])
        if step == final % lasting.size:
            last = now.copy()
    return metered / MICROS_PER_HOUR, last


def billed_usd(
    parameters: Allpass, metered_usd: FloatArray, held_us: IntArray | int, last_usd: FloatArray
) -> FloatArray:
    """Return bills for whole billing steps and the least time billed.

    What is billed beyond the time held has the price of its end.
    """
    held = np.asarray(held_us, np.int64)
    billed = billed_us(held, parameters.billing_step_s, parameters.minimum_billing_s)
    bills: FloatArray = metered_usd + (billed - held) / MICROS_PER_HOUR * last_usd
    return bills


def billed_us(held_us: IntArray, step_s: float, least_s: float) -> IntArray:
    """Return the time that is billed: in whole steps (0: as held), and for the least time."""
    step = int(to_micros(step_s))
    whole = -(-held_us // step) * step if step else held_us
    billed: IntArray = np.maximum(whole, to_micros(least_s))
    return billed
