"""The workers of a run: a table with one row per rental, and orders of the idle ones by price.

Prices are whole billionths of a dollar per GPU-hour, times whole microseconds.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.heap import insert, pop
from gpuplan.simkit.jit import kernel

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


@kernel
def list_idle(workers: Any, worker: int, cheapest: Any, dearest: Any) -> None:
    """Mark a worker as idle and enter it in both orders of price where it is not yet there.

    Both have room for every worker.
    """
    workers[worker, IDLE] = 1
    if not workers[worker, LISTED_UP]:
        workers[worker, LISTED_UP] = 1
        insert(cheapest, workers[worker, PRICE], worker)
    if not workers[worker, LISTED_DOWN]:
        workers[worker, LISTED_DOWN] = 1
        insert(dearest, -workers[worker, PRICE], -worker)


@kernel
def take_idle(workers: Any, order: Any, listed: int) -> int:
    """Return the first idle worker of an order of price, no longer idle; there must be one."""
    while True:
        worker = abs(order[1, 1])
        pop(order)
        workers[worker, listed] = 0
        if workers[worker, IDLE]:
            workers[worker, IDLE] = 0
            return worker  # type: ignore[no-any-return]


@kernel
def list_anew(workers: Any, cheapest: Any, dearest: Any) -> None:
    """Order the idle workers again after prices have changed."""
    for entry in range(1, dearest[0, 0] + 1):
        workers[-dearest[entry, 1], LISTED_DOWN] = 0
    idle = 0
    for entry in range(1, cheapest[0, 0] + 1):  # every idle worker is in it
        worker = cheapest[entry, 1]
        workers[worker, LISTED_UP] = 0
        if workers[worker, IDLE]:
            idle += 1
            dearest[idle, 1] = worker
    cheapest[0, 0] = dearest[0, 0] = 0
    for entry in range(1, idle + 1):  # which the heap reaches only now
        list_idle(workers, dearest[entry, 1], cheapest, dearest)


@kernel
def charge(workers: Any, bills: Any, worker: int, now: int) -> None:
    """Put the time since the last change of a worker's price on its bill."""
    lasted = now - workers[worker, PRICED]
    bills[worker, 0] += float(workers[worker, PRICE]) * float(lasted)
    workers[worker, PRICED] = now


@kernel
def let_go(workers: Any, bills: Any, worker: int, now: int, holder: Any, offers: Any) -> None:
    """End a rental; its offer goes back to those that nobody holds."""
    charge(workers, bills, worker, now)
    workers[worker, RELEASE] = now
    offer = workers[worker, OFFER]
    if offer >= 0:
        holder[offer] = -1
        insert(offers, offer, offer)
