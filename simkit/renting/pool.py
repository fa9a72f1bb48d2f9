"""The workers of a run: a table with a row per column, and orders of the idle ones by price.

Prices are whole billionths of a dollar per GPU-hour, times whole microseconds.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.heap import insert, new_heap, pop
from gpuplan.simkit.jit import borrowing_helper, helper

(
    OFFER,  # place among the offers, -1 for the conventional cloud
    REQUEST,
    READY,
    RELEASE,  # -1 while it is held
    BUSY,
    ASKED,  # price at its request
    PRICE,  # price in force
    PRICED,  # since when that is
    RECLAIMED,  # 1 where the marketplace took it back
    JOB,
    NEXT,  # the next worker of the same job, -1 for none
    IDLE,
    LISTED_UP,
    LISTED_DOWN,
) = range(14)


MOST_GANG = 100_000
"""Workers of one GPU that a job may take: each is rented, listed and taken one by one."""


class TooWide(ValueError):
    """A job would take more than `MOST_GANG` workers."""


@helper
def free_offers(market_first: Any) -> Any:
    """Return the free offers of the marketplace at the start, as a heap."""
    slots = 0
    for step in range(market_first.size - 1):
        slots = max(slots, market_first[step + 1] - market_first[step])
    offers = new_heap(slots)
    for offer in range(slots):
        insert(offers, offer, offer)
    return offers


@borrowing_helper
def rent(
    workers: Any, bills: Any, worker: int, offer: int, price: int, now: int, ready: int
) -> None:
    """Write the row of a new rental."""
    bills[worker] = 0.0
    workers[OFFER, worker] = offer
    workers[REQUEST, worker] = workers[PRICED, worker] = now
    workers[READY, worker], workers[RELEASE, worker] = ready, -1
    workers[ASKED, worker] = workers[PRICE, worker] = price
    for column in (BUSY, RECLAIMED, IDLE, LISTED_UP, LISTED_DOWN):
        workers[column, worker] = 0


@borrowing_helper
def list_idle(workers: Any, worker: int, cheapest: Any, most_expensive: Any) -> Any:
    """Mark a worker as idle and add it to both heaps by price if it is not there yet.

    Both have space for every worker. The returned value has no meaning: if the last use of an array
    lies in a branch, numba counts references to it, and this is called for each GPU of each job.
    """
    workers[IDLE, worker] = 1
    if not workers[LISTED_UP, worker]:
        workers[LISTED_UP, worker] = 1
        insert(cheapest, workers[PRICE, worker], worker)
    if not workers[LISTED_DOWN, worker]:
        workers[LISTED_DOWN, worker] = 1
        insert(most_expensive, -workers[PRICE, worker], -worker)
    return workers.size + cheapest.size + most_expensive.size


@borrowing_helper
def take_idle(workers: Any, order: Any, listed: int) -> int:
    """Return the first idle worker of an order of price, no longer idle; there must be one."""
    worker = -1
    while worker < 0 or not workers[IDLE, worker]:
        worker = abs(order[1, 1])
        pop(order)
        workers[listed, worker] = 0
    workers[IDLE, worker] = 0
    return worker


@borrowing_helper
def list_anew(workers: Any, cheapest: Any, most_expensive: Any) -> None:
    """Order the idle workers again after prices have changed.

    The rows of ``most_expensive`` hold the list of them meanwhile, to save an array: a heap that is
    refilled never extends beyond the worker read last.
    """
    for entry in range(1, most_expensive[0, 0] + 1):
        workers[LISTED_DOWN, -most_expensive[entry, 1]] = 0
    idle = 0
    for entry in range(1, cheapest[0, 0] + 1):  # every idle worker is in it
        worker = cheapest[entry, 1]
        workers[LISTED_UP, worker] = 0
        if workers[IDLE, worker]:
            idle += 1
            most_expensive[idle, 1] = worker
    cheapest[0, 0] = most_expensive[0, 0] = 0
    for entry in range(1, idle + 1):
        list_idle(workers, most_expensive[entry, 1], cheapest, most_expensive)


@borrowing_helper
def charge(workers: Any, bills: Any, worker: int, now: int) -> None:
    """Bill the time since the last change of a worker's price."""
    lasted = now - workers[PRICED, worker]
    bills[worker] += float(workers[PRICE, worker]) * float(lasted)
    workers[PRICED, worker] = now


@borrowing_helper
def release_all(workers: Any, bills: Any, rentals: int, now: int) -> None:
    """End the rentals that are still held when the run ends."""
    for worker in range(rentals):
        if workers[RELEASE, worker] < 0:
            charge(workers, bills, worker, now)
            workers[RELEASE, worker] = now


@borrowing_helper
def let_go(workers: Any, bills: Any, worker: int, now: int, holder: Any, offers: Any) -> None:
    """End a rental and return its offer to the free ones."""
    charge(workers, bills, worker, now)
    workers[RELEASE, worker] = now
    offer = workers[OFFER, worker]
    if offer >= 0:
        holder[offer] = -1
        insert(offers, offer, offer)
