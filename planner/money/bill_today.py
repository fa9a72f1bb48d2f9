"""What a log costs a month today under a price book: one answer for every study that names dollars.

A book whose types have one price each, without pools, is that price times the GPUs in use. Every
other one is the ledger: what each run paid at its time, and pools whether they are used or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.base.words import listed, price_text
from gpuplan.analysis.characterize.group_bill import priced_groups, with_bills
from gpuplan.analysis.characterize.shares import Groups
from gpuplan.analysis.characterize.today import GpuUsage, Today, TypeUsage
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.bill import NO_LABEL, bill_cells, month_usd
from gpuplan.planner.money.book_options import check_dated, complete_book
from gpuplan.planner.money.held_runs import EXACT_MONTH_US, billed_runs, paid_period
from gpuplan.planner.money.ledger import Ledger, ledger
from gpuplan.planner.money.price_book import Prices

MOST_NAMED = 8
"""Prices that a note lists."""
U = TypeVar("U", bound=GpuUsage)
MonthUsd = Mapping[tuple[str, str, bool], Fraction]
"""Dollars of a month by label, GPU type of the book, and whether they pay for idle GPUs."""


@dataclass(frozen=True, slots=True)
class TodaysBill:
    """The bill of a month under a book, by one column of a log.

    Attributes:
        usd: of a month.
        ledger: which GPU types of the log are which of the book.
    """

    usd: MonthUsd
    ledger: Ledger

    def of_labels(self) -> dict[str | None, float]:
        """Return what each label pays for GPUs in use."""
        bills: dict[str | None, Fraction] = {}
        for (label, _, is_idle), usd in self.usd.items():
            if not is_idle:
                bills[label] = bills.get(label, Fraction(0)) + usd
        return {label: float(usd) for label, usd in bills.items()}

    @property
    def idle_usd(self) -> dict[str, float]:
        """What idle GPUs cost, by GPU type of the book."""
        return {kind: float(usd) for (_, kind, is_idle), usd in self.usd.items() if is_idle}


def at_book(trace: Trace, now: Today | None, prices: Prices) -> Today | None:
    """Return what a log shows with its bill of a month, in all and by type.

    Idle GPUs of a pool are of its type; a type that no job used has a row of its own.

    Args:
        trace: with the columns of `today`.
        now: what it shows.
        prices: the price book.

    Raises:
        UsageError: types without a price; the message names them.
    """
    if now is None:
        return None
    types = [None if usage.gpu_type == UNNAMED else usage.gpu_type for usage in now.gpu_types]
    prices.check(types)
    if prices.is_flat(types) or not now.window_s:
        return now.at_prices(prices.usd)
    bill = todays_bill(trace, "gpu_type", prices)
    used, idle = bill.of_labels(), bill.idle_usd
    book_types = {
        log_type: kind for kind, names in bill.ledger.log_types.items() for log_type in names
    }
    unnamed = UNNAMED if any(usage.gpu_type == UNNAMED for usage in now.gpu_types) else prices.gpu
    rows = []
    for usage in now.gpu_types:
        usd = used.get(usage.gpu_type, 0.0)
        log_type: str | None = usage.gpu_type
        if usage.gpu_type == unnamed:  # jobs that name no type are in this row
            log_type = prices.gpu
            if unnamed != UNNAMED:
                usd += used.get(UNNAMED, 0.0)
        kind = book_types.get(log_type, log_type or UNNAMED)
        rows.append(_billed(usage, usd + idle.pop(kind, 0.0)))
    rows += [
        TypeUsage(kind, jobs=0, gpu_h=0.0, mean_gpus=0.0, p95_gpus=0.0, peak_gpus=0.0,
                  usd_per_month=usd)
        for kind, usd in idle.items()
        if usd
    ]  # fmt: skip
    total_usd = float(sum(bill.usd.values(), Fraction(0)))
    return replace(now, gpu_types=tuple(rows), usage=_billed(now.usage, total_usd))


def groups_at_book(
    trace: Trace, groups: Mapping[str, Groups], now: Today | None, prices: Prices
) -> dict[str, Groups]:
    """Return tables of classes, users and groups with the bill of a month of each row.

    Idle GPUs are in none of them. Arguments are those of `at_book`, ``groups`` by column.
    """
    types = [] if now is None else [usage.gpu_type for usage in now.gpu_types]
    if now is None or not now.window_s or prices.is_flat(types):
        return priced_groups(trace, groups, prices.usd)
    priced = {}
    for column, table in groups.items():
        bills = todays_bill(trace, column, prices).of_labels()
        priced[column] = with_bills(
            table, {None if name == NO_LABEL else name: usd for name, usd in bills.items()}
        )
    return priced


def price_note(
    prices: Prices, gpu_h: Mapping[str | None, float], *, pays_pools: bool = False
) -> tuple[str, ...]:
    """Return a sentence on the prices at the end of the log, where a book has others before.

    Args:
        prices: the book.
        gpu_h: GPU-hours of the log by type.
        pays_pools: whether what is replayed pays for the GPUs owned and committed too.
    """
    types = list(gpu_h)
    if prices.is_flat(types):
        return ()
    priced = {name or UNNAMED: usd for name in types if (usd := prices.usd(name)) is not None}
    each = [f"{name} ${price_text(usd)}" for name, usd in priced.items()]
    dollars = (
        f"the pay-per-use prices at the end of the log, per GPU-hour: {listed(each, MOST_NAMED)}"
    )
    if pays_pools and prices.pools_now:
        above = f", and for those above them {dollars}" if each else ""
        pays = f"a cluster pays for all GPUs owned and committed to{above}"
    elif each:
        pays = f"what is replayed or planned pays {dollars}"
    else:
        return ()
    return (f"{pays}; today's bill is that of the price book",)


def pools_usd_per_h(prices: Prices) -> float:
    """Return what GPUs owned and committed cost an hour at the time of single prices."""
    return float(sum(pool.gpus * pool.usd_per_gpu_h for pool in prices.pools_now))


def at_end(trace: Trace, prices: Prices, *, is_part: bool = False) -> Prices:
    """Return prices of which single ones are those in force at the end of a log.

    Args:
        trace: its jobs, or of a part of a log those that ``--where`` chooses.
        prices: the price book.
        is_part: whether it is a part; contracts on GPU types of other jobs are not of it.
    """
    if is_part:
        types = trace.jobs["gpu_type"].cast(pl.String).unique().sort().to_list()
        prices = prices.of_types(types)
    return prices.at(trace.arrays().window_us()[1] - 1)


def _billed(usage: U, usd: float) -> U:
    per_h = usage.mean_gpus * MONTH_H
    return replace(usage, usd_per_month=usd, usd_per_gpu_h=usd / per_h if per_h else None)


def todays_bill(trace: Trace, column: str, prices: Prices) -> TodaysBill:
    """Return the bill of a month under a book, by a column of a log; raises as `at_book`."""
    check_dated(trace, prices)
    runs = billed_runs(trace, (column,))
    period = paid_period(trace, runs, prices.zone)
    held = runs.runs
    used = [
        name for name, peak in zip(held.gpu_types, runs.peak_gpus.tolist(), strict=True) if peak > 0
    ]
    if prices.gpu is not None:  # jobs that name no type are of this one
        named = tuple(prices.gpu if name is None else name for name in held.gpu_types)
        held = replace(held, gpu_types=named)
        used = list(dict.fromkeys(prices.gpu if name is None else name for name in used))
    book, _ = complete_book(prices, used, {}, runs.window_us)
    entries = ledger(held, book, np.array(period, np.int64))
    begin, end = runs.window_us
    usd = month_usd(
        bill_cells(entries, runs.labels),
        EXACT_MONTH_US / (end - begin),
        EXACT_MONTH_US / (period[1] - period[0]),
    )
    return TodaysBill(usd, entries)
