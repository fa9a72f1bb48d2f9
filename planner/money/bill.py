"""The bill of a log under a price book: who pays for what in each month, exact to the cent.

A month's dollars are rounded half up. Its rows, of which idle GPUs are one, share these cents by
largest remainder, and the cells of a row share the row's; ties go by name. All other tables add
cells up, so that all tables of a bill agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor
from typing import TypeVar

from gpuplan.analysis.prices.contracts import COMMITTED, OWNED
from gpuplan.planner.money.ledger import Ledger, LedgerCell

IDLE = "(idle)"
NAMED_IDLE = "(idle) in the log"
"""A label of jobs that is called as `IDLE`."""
POOLS = (OWNED, COMMITTED)
"""The markets of GPUs that are paid for whether they are used or not."""
NO_LABEL = "(none)"
SPREAD = "idle"
"""The market of what a label pays for GPUs that nobody used."""
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class BillCell:
    """What one label pays on one market in one period.

    Attributes:
        name: the label, `NO_LABEL`, or `IDLE` for GPUs that nobody uses.
        part: the second label of a bill by two columns; empty otherwise.
        gpu_type, market: as the ledger has them; `SPREAD` for a share of idle GPUs.
        period: place among the periods.
        gpu_h: GPU-hours; 0 of a share of idle GPUs.
        usd: exact.
        cents: as rounded.
    """

    name: str
    part: str
    gpu_type: str
    market: str
    period: int
    gpu_h: Fraction
    usd: Fraction
    cents: int

    @property
    def is_idle(self) -> bool:
        """Whether it pays for GPUs that nobody uses."""
        return self.name == IDLE or self.market == SPREAD


def bill_cells(
    ledger: Ledger, labels: Sequence[tuple[str, str]], *, spread_idle: bool = False
) -> tuple[BillCell, ...]:
    """Return the cells of a bill, rounded, by period, row, part, type and market.

    Args:
        ledger: who uses what.
        labels: name and part of each label of the ledger.
        spread_idle: let the labels of a GPU type pay for its idle GPUs of a month, by their
            GPU-hours of the type in that month; idle GPUs of a month without use stay.
    """
    cells = _merged([_cell(ledger, cell, labels) for cell in ledger.cells])
    if spread_idle:
        cells = _spread(cells)
    rounded: list[BillCell] = []
    for _, month in sorted(grouped(cells, lambda cell: cell.period).items()):
        rows = sorted(grouped(month, lambda cell: cell.name).items())
        parts = [total_usd(row) for _, row in rows]
        in_month = split_cents(whole_cents(sum(parts, Fraction(0))), parts)
        for (_, row), row_cents in zip(rows, in_month, strict=True):
            ordered = sorted(row, key=lambda cell: (cell.part, cell.gpu_type, cell.market))
            shares = split_cents(row_cents, [cell.usd for cell in ordered])
            rounded += [
                replace(cell, cents=cents) for cell, cents in zip(ordered, shares, strict=True)
            ]
    return tuple(rounded)


def _cell(ledger: Ledger, cell: LedgerCell, labels: Sequence[tuple[str, str]]) -> BillCell:
    name, part = (IDLE, "") if cell.label is None else labels[cell.label]
    return BillCell(
        name=name,
        part=part,
        gpu_type=ledger.gpu_types[cell.gpu_type],
        market=cell.market,
        period=cell.period,
        gpu_h=cell.gpu_h,
        usd=cell.usd,
        cents=0,
    )


def _merged(cells: Sequence[BillCell]) -> list[BillCell]:
    """Return the cells of a market as one, whatever the pools and prices of it."""
    same = grouped(cells, lambda c: (c.period, c.name, c.part, c.gpu_type, c.market))
    return [
        replace(of_market[0], gpu_h=total_h(of_market), usd=total_usd(of_market))
        for of_market in same.values()
    ]


def _spread(cells: Sequence[BillCell]) -> list[BillCell]:
    spread: list[BillCell] = []
    for of_type in grouped(cells, lambda cell: (cell.period, cell.gpu_type)).values():
        used = [cell for cell in of_type if cell.name != IDLE]
        idle_usd = total_usd([cell for cell in of_type if cell.name == IDLE])
        used_h = sum((cell.gpu_h for cell in used), Fraction(0))
        if not used_h or not idle_usd:
            spread += of_type
            continue
        spread += used
        for of_label in grouped(used, lambda cell: (cell.name, cell.part)).values():
            share = sum((cell.gpu_h for cell in of_label), Fraction(0)) / used_h
            first = of_label[0]
            spread.append(replace(first, market=SPREAD, gpu_h=Fraction(0), usd=idle_usd * share))
    return spread


def month_usd(
    cells: Sequence[BillCell], use: Fraction, pool_months: Fraction
) -> dict[tuple[str, str, bool], Fraction]:
    """Return the dollars of a month by row, GPU type and whether they pay for idle GPUs.

    Args:
        cells: of a period.
        use: months by which what GPUs in use cost is multiplied: one over those of the log.
        pool_months: the same of GPUs owned and committed, which are paid for in the period.
    """
    usd: dict[tuple[str, str, bool], Fraction] = defaultdict(Fraction)
    for cell in month_cells(cells, use, pool_months):
        usd[cell.name, cell.gpu_type, cell.is_idle] += cell.usd
    return dict(usd)


def month_cells(
    cells: Sequence[BillCell], use: Fraction, pool_months: Fraction
) -> Iterator[BillCell]:
    """Yield the cells of a month, without cents; arguments as those of `month_usd`."""
    for of_type in grouped(cells, lambda cell: cell.gpu_type).values():
        idle_usd = total_usd([cell for cell in of_type if cell.is_idle])
        in_pools = [cell for cell in of_type if cell.market in POOLS and not cell.is_idle]
        pool_usd = total_usd(in_pools)
        idle_month = max(Fraction(0), (pool_usd + idle_usd) * pool_months - pool_usd * use)
        of_idle = idle_month / idle_usd if idle_usd else Fraction(0)
        for cell in of_type:
            factor = of_idle if cell.is_idle else use
            yield replace(cell, gpu_h=cell.gpu_h * factor, usd=cell.usd * factor, cents=0)


def grouped(cells: Sequence[BillCell], key: Callable[[BillCell], Key]) -> dict[Key, list[BillCell]]:
    """Return cells by a key, in the order in which keys come first."""
    groups: dict[Key, list[BillCell]] = defaultdict(list)
    for cell in cells:
        groups[key(cell)].append(cell)
    return dict(groups)


def total_usd(cells: Sequence[BillCell]) -> Fraction:
    """Return the exact dollars of cells."""
    return sum((cell.usd for cell in cells), Fraction(0))


def total_cents(cells: Sequence[BillCell]) -> int:
    """Return the cents of cells."""
    return sum(cell.cents for cell in cells)


def total_h(cells: Sequence[BillCell]) -> Fraction:
    """Return the GPU-hours of cells."""
    return sum((cell.gpu_h for cell in cells), Fraction(0))


def whole_cents(usd: Fraction) -> int:
    """Return dollars as cents, half a cent rounded up."""
    return floor(usd * 100 + Fraction(1, 2))


def split_cents(total: int, parts: Sequence[Fraction]) -> list[int]:
    """Return cents for each part that add up to ``total``.

    Method of the largest remainder (Hamilton): every part is rounded down, and the cents left go to
    the parts that lost most.

    Args:
        total: cents, >= 0; of the sum of the parts, rounded.
        parts: dollars, each >= 0. Of equal remainders the first part gets the cent.

    Raises:
        ValueError: the total is not that of the parts.
    """
    cents = [floor(usd * 100) for usd in parts]
    left = total - sum(cents)
    if not 0 <= left <= len(cents):
        raise ValueError(f"expected a total of these parts, got {total} for {sum(cents)} and up")
    lost = sorted(range(len(cents)), key=lambda part: cents[part] - parts[part] * 100)
    for part in lost[:left]:
        cents[part] += 1
    return cents
