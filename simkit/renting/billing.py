"""The bill of rented GPUs: metered time, whole billing steps, least time, leases.

Allpass, clusters, width plans, autoscaled baselines and the GPU time of traces are billed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.renting.market import Market
from gpuplan.simkit.run import Leases
from gpuplan.simkit.time import MICROS_PER_HOUR, to_micros

PRICING_RULES = ("request", "in-force")


@dataclass(frozen=True, slots=True)
class RentalTerms:
    """Prices and billing rules of rented GPUs.

    Attributes:
        offers: the marketplace.
        conventional_price: US dollars per GPU-hour where the marketplace has no offer left.
        pricing: ``request`` keeps the price of the request, ``in-force`` follows the market.
        billing_step_s: time a rental is billed in, rounded up; 0 bills the time held.
        minimum_billing_s: least time a rental is billed for.
    """

    offers: Market
    conventional_price: float
    pricing: str
    billing_step_s: float
    minimum_billing_s: float


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


def hold(
    terms: RentalTerms, workers: int, held_us: int, *, begin_us: int = 0, rented: int = 0
) -> Rent:
    """Rent workers together and hold them, even if their offers disappear.

    The cheapest free offers of the marketplace at that time come first, even where they cost more
    than the conventional cloud, which supplies the rest: the rule of the pool of Allpass.

    Args:
        terms: prices and billing rules.
        workers: how many.
        held_us: for how long.
        begin_us: from when on; the market begins at 0.
        rented: workers that are rented already and have the cheapest offers.
    """
    market = terms.offers.since(begin_us)
    offers = min(workers, max(0, int(market.offers[0]) - rented))
    price = np.full(workers, float(terms.conventional_price))
    price[:offers] = market.price[rented : rented + offers]
    metered, last = price * held_us / MICROS_PER_HOUR, price.copy()
    if terms.pricing == "in-force":
        metered[:offers], last[:offers] = _in_force(market, price[:offers], held_us, rented)
    return Rent(offers, metered, billed_usd(terms, metered, held_us, last))


def hold_leases(terms: RentalTerms, leases: Leases, begin_us: int = 0) -> Iterator[Rent]:
    """Yield the rent of each lease of a cluster that grows and shrinks, by its beginning.

    What was rented last goes back first, so that the cheapest offers are held longest. The market
    begins at ``begin_us``.
    """
    order = np.lexsort((-leases.end_us, leases.begin_us))
    open_until: list[tuple[int, int]] = []  # end and GPUs of the leases that others lie upon
    table = (leases.begin_us[order], leases.end_us[order], leases.gpus[order])
    for begin, end, gpus in zip(*(column.tolist() for column in table), strict=True):
        while open_until and open_until[-1][0] <= begin:
            open_until.pop()
        rented = sum(count for _, count in open_until)
        yield hold(terms, gpus, end - begin, begin_us=begin - begin_us, rented=rented)
        open_until.append((end, gpus))


def _in_force(
    market: Market, price: FloatArray, held_us: int, rented: int
) -> tuple[FloatArray, FloatArray]:
    """Return the cost of the cheapest offers of the first step, and the price of each at the end.

    All of them are available when the market repeats, so every period is like the first. The first
    ``rented`` offers are held by others.
    """
    rounds, rest = divmod(held_us, market.period_us)
    lasting = np.diff(np.append(market.start_us, market.period_us))
    within = rounds * lasting + np.clip(rest - market.start_us, 0, lasting)
    final = int(np.searchsorted(market.start_us, rest)) - 1  # -1 is the end of a round
    first, now = market.first, price.copy()
    metered, last = np.zeros(price.size), price
    for step in range(lasting.size if rounds else final + 1):
        free = min(price.size, max(0, int(market.offers[step]) - rented))
        now[:free] = market.price[first[step] + rented : first[step] + rented + free]
        metered += now * float(within[step])
        if step == final % lasting.size:
            last = now.copy()
    return metered / MICROS_PER_HOUR, last


def billed_usd(
    terms: RentalTerms, metered_usd: FloatArray, held_us: IntArray | int, last_usd: FloatArray
) -> FloatArray:
    """Return bills for whole billing steps and the least time billed.

    Time billed beyond the time held has the last price.
    """
    held = np.asarray(held_us, np.int64)
    billed = billed_us(held, terms.billing_step_s, terms.minimum_billing_s)
    bills: FloatArray = metered_usd + (billed - held) / MICROS_PER_HOUR * last_usd
    return bills


def billed_us(held_us: IntArray, step_s: float, least_s: float) -> IntArray:
    """Return the billed time: in whole steps (0: as held), at least the minimum."""
    step = int(to_micros(step_s))
    stepped_us = -(-held_us // step) * step if step else held_us
    billed: IntArray = np.maximum(stepped_us, to_micros(least_s))
    return billed


def billed_gpu_us(held_us: IntArray, gpus: IntArray, step_us: int, free_us: int = 0) -> int:
    """Return the GPU time billed for leases, in GPU x microseconds.

    Args:
        held_us: time held of each lease; shape (k,).
        gpus: its GPUs; shape (k,).
        step_us: time that is billed in, rounded up; >= 1.
        free_us: time at the beginning of each lease that is not billed.
    """
    billed = -(-np.maximum(held_us - free_us, 0) // step_us) * step_us
    return int((billed.astype(object) * gpus).sum())  # Python's integers: steps may be long


def hourly_usd(
    held_gpu_h: FloatArray, usd_per_gpu_h: FloatArray, all_gpu_h: float, usual_usd: float
) -> tuple[float, float]:
    """Return the bill of GPU time at the price of each hour, and the GPU-hours billed so.

    Args:
        held_gpu_h: GPU-hours in each hour whose price is known; shape (k,).
        usd_per_gpu_h: price of each of these hours; shape (k,).
        all_gpu_h: GPU-hours of all hours; what the others have is billed at ``usual_usd``.
        usual_usd: price where that of the hour is not known.
    """
    by_hour = float(held_gpu_h.sum())
    rest = usual_usd * max(0.0, all_gpu_h - by_hour)
    return float(held_gpu_h @ usd_per_gpu_h) + rest, by_hour
