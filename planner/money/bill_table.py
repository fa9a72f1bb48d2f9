"""Cells of a bill as its rows, GPU types and months: everything adds up to the cent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.time_units import HOUR_US, MICROS, instant
from gpuplan.analysis.prices.contracts import Contracts, PaidPool
from gpuplan.planner.money.bill import (
    IDLE,
    BillCell,
    grouped,
    month_usd,
    split_cents,
    total_cents,
    total_h,
    total_usd,
    whole_cents,
)
from gpuplan.planner.money.bill_results import (
    BillGroup,
    BillMarket,
    BillMonth,
    BillPart,
    BillResults,
    BillType,
    BillUse,
    ChangeResults,
    MonthPart,
)
from gpuplan.planner.money.change import ComparedBill, change_results
from gpuplan.planner.money.held_runs import EXACT_MONTH_US, BilledRuns, Months
from gpuplan.planner.money.ledger import Ledger, LedgerCell

FEW_MONTHS = 3
"""Months that a log of one month has, with the tails of its jobs."""
ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class BilledPeriod:
    """A bill in cells, with what they are of.

    Attributes:
        columns: what it is split by, one or two.
        chosen: the months asked for; empty for all.
        runs: that are billed, counted in the months asked for.
        months: the periods of the cells.
        cells: of the months asked for.
        ledger: of all months.
        book: the price book.
        sources: GPU type -> where its price comes from.
        is_cluster: whether the pools are a cluster that is paid for while the log lasts.
    """

    columns: tuple[str, ...]
    chosen: tuple[str, ...]
    runs: BilledRuns
    months: Months
    cells: tuple[BillCell, ...]
    ledger: Ledger
    book: Contracts
    sources: Mapping[str, str]
    is_cluster: bool = False

    @property
    def places(self) -> list[int]:
        """The months asked for, by their place."""
        place_of = {name: place for place, name in enumerate(self.months.names)}
        return sorted(place_of[name] for name in self.chosen or self.months.names)

    @property
    def period_us(self) -> int:
        """Length of the months asked for."""
        edges = self.months.edges_us
        return sum(int(edges[place + 1] - edges[place]) for place in self.places)

    @property
    def window_us(self) -> int:
        """First submission to last instant; the months where some are asked for."""
        begin, end = self.runs.window_us
        return self.period_us if self.chosen else end - begin

    @property
    def paid_us(self) -> int:
        """Length of the time in which pools are paid for."""
        return self.window_us if self.is_cluster else self.period_us

    @property
    def last_us(self) -> int:
        """The last microsecond in which pools are paid for."""
        end = int(self.months.edges_us[self.places[-1] + 1])
        return (min(end, self.runs.window_us[1]) if self.is_cluster else end) - 1

    def peak_of(self, gpu_type: str) -> float:
        """Return the most GPUs of a type of the book that jobs held at once."""
        types = self.ledger.log_types[gpu_type]
        peaks = zip(self.runs.runs.gpu_types, self.runs.peak_gpus.tolist(), strict=True)
        return float(sum(peak for name, peak in peaks if name in types))


MonthCents = Counter[tuple[str, str, bool]]
"""Cents of a month of 730.5 hours by row, GPU type and whether they pay for idle GPUs."""


def bill_results(bill: BilledPeriod) -> BillResults:
    """Return a bill as JSON has it."""
    cells, edges = bill.cells, bill.months.edges_us
    month = _month_cents(bill)
    month_cents, idle = month.total(), sum(cents for key, cents in month.items() if key[2])
    has_pools = bool(bill.book.pools)
    window_h = bill.window_us / HOUR_US
    gpu_h = float(total_h([cell for cell in cells if not cell.is_idle]))
    in_pools = [cell for cell in bill.ledger.cells if isinstance(cell.source, PaidPool)]
    places = set(bill.places)
    in_pools = [cell for cell in in_pools if cell.period in places]
    pool_h = sum((cell.gpu_h for cell in in_pools), ZERO)
    idle_gpus = sum(_idle_gpus(bill, in_pools).values(), ZERO)
    paid_gpus = pool_h * HOUR_US / bill.paid_us
    return BillResults(
        usd_per_month=month_cents / 100,
        used_usd_per_month=(month_cents - idle) / 100,
        idle_usd_per_month=idle / 100 if has_pools else None,
        idle_share=float(idle_gpus / paid_gpus) if pool_h else None,
        idle_usd_share=idle / month_cents if has_pools and month_cents else None,
        usd=total_cents(cells) / 100,
        idle_usd=_idle_cents(cells) / 100 if has_pools else None,
        by=",".join(bill.columns),
        begin=instant(int(edges[bill.places[0]])),
        end=instant(int(edges[bill.places[-1] + 1])),
        jobs=int(bill.runs.jobs.sum()),
        window_s=bill.window_us / MICROS,
        gpu_h=gpu_h,
        mean_gpus=gpu_h / window_h,
        cluster_gpus=sum(_gpus_at_end(bill).values()) if has_pools else None,
        mean_cluster_gpus=float(paid_gpus) if has_pools else None,
        groups=tuple(_groups(bill, month, month_cents, window_h, in_pools)),
        gpu_types=tuple(_types(bill, month, window_h)),
        months=tuple(month_rows(bill)),
        uses=tuple(_uses(bill)),
        change=_change(bill),
    )


def _idle_cents(cells: Sequence[BillCell]) -> int:
    return total_cents([cell for cell in cells if cell.is_idle])


def _sums(month: MonthCents, column: int) -> Counter[tuple[str, bool]]:
    """Return the cents by the row (0) or the GPU type (1) of a key and whether they are idle."""
    sums: Counter[tuple[str, bool]] = Counter()
    for key, cents in month.items():
        sums[str(key[column]), key[2]] += cents
    return sums


def _month_cents(bill: BilledPeriod) -> MonthCents:
    """Return the bill of a month of 730.5 hours at the rates of the period.

    What GPUs in use cost is of the time from the first submission to the last instant; GPUs owned
    and committed are paid for in the whole period, those of a cluster while the log lasts.
    """
    use = EXACT_MONTH_US / bill.window_us
    usd = month_usd(bill.cells, use, EXACT_MONTH_US / bill.paid_us)
    rows = {name: list(keys) for name, keys in groupby(sorted(usd), key=lambda key: key[0])}
    sums = [sum((usd[key] for key in keys), ZERO) for keys in rows.values()]
    in_rows = split_cents(whole_cents(sum(sums, ZERO)), sums)
    cents: MonthCents = Counter()
    for keys, row_cents in zip(rows.values(), in_rows, strict=True):
        shares = split_cents(row_cents, [usd[key] for key in keys])
        cents.update(dict(zip(keys, shares, strict=True)))
    return cents


def _idle_gpus(bill: BilledPeriod, in_pools: Sequence[LedgerCell]) -> dict[str, Fraction]:
    """Return the mean of owned and committed GPUs that nobody uses, by GPU type.

    As in `_month_cents`, use counts from the first submission to the last instant, and pools in the
    whole period: the hours of its first and last day without a log are neither.
    """
    gpus = {}
    for place in {cell.gpu_type for cell in in_pools}:
        cells = [cell for cell in in_pools if cell.gpu_type == place]
        paid_h = sum((cell.gpu_h for cell in cells), ZERO)
        used_h = sum((cell.gpu_h for cell in cells if cell.label is not None), ZERO)
        mean = paid_h * HOUR_US / bill.paid_us - used_h * HOUR_US / bill.window_us
        gpus[bill.ledger.gpu_types[place]] = max(ZERO, mean)
    return gpus


def _groups(
    bill: BilledPeriod,
    month: MonthCents,
    month_cents: int,
    window_h: float,
    in_pools: Sequence[LedgerCell],
) -> list[BillGroup]:
    idle_h: dict[str, Fraction] = defaultdict(Fraction)
    for cell in in_pools:
        if cell.label is None:
            idle_h[bill.ledger.gpu_types[cell.gpu_type]] += cell.gpu_h
    gpus_of_h = {
        gpu_type: gpus / idle_h[gpu_type]
        for gpu_type, gpus in _idle_gpus(bill, in_pools).items()
        if idle_h[gpu_type]
    }
    jobs: dict[str, int] = defaultdict(int)
    for (name, _), count in zip(bill.runs.labels, bill.runs.jobs.tolist(), strict=True):
        jobs[name] += count
    rows, paid = [], _sums(month, 0)
    for name, cells in grouped(bill.cells, lambda cell: cell.name).items():
        in_month, gpu_h = paid[name, False] + paid[name, True], float(total_h(cells))
        mean_gpus = gpu_h / window_h
        if name == IDLE:
            mean_gpus = float(sum((cell.gpu_h * gpus_of_h[cell.gpu_type] for cell in cells), ZERO))
        rows.append(
            BillGroup(
                name=name,
                usd_per_month=in_month / 100,
                gpu_h=gpu_h,
                jobs=0 if name == IDLE else jobs[name],
                mean_gpus=mean_gpus,
                share=in_month / month_cents if month_cents else None,
                usd=total_cents(cells) / 100,
                idle_usd=_idle_cents(cells) / 100,
                idle_usd_per_month=paid[name, True] / 100,
                parts=_split(bill, cells),
            )
        )
    return sorted(rows, key=lambda row: (row.name == IDLE, -row.usd_per_month, row.name))


def _split(bill: BilledPeriod, cells: Sequence[BillCell]) -> tuple[BillPart, ...] | UnsetType:
    """Return a row by its second column, the most dollars first; unset where there is none."""
    if len(bill.columns) == 1:
        return UNSET
    parts = grouped(cells, lambda cell: cell.part)
    rows = [
        BillPart(name=name, usd=total_cents(part) / 100, gpu_h=float(total_h(part)))
        for name, part in parts.items()
        if name or len(parts) > 1
    ]
    return tuple(sorted(rows, key=lambda row: (-row.usd, row.name)))


def _gpus_at_end(bill: BilledPeriod) -> dict[str, int]:
    """Return the GPUs owned and committed just before the end, by type."""
    last = bill.last_us
    gpus = {pool.gpu_type: 0 for pool in bill.book.pools}
    for pool in bill.book.pools:
        if pool.from_us <= last < pool.until_us:
            gpus[pool.gpu_type] += pool.gpus
    return gpus


def _types(bill: BilledPeriod, month: MonthCents, window_h: float) -> list[BillType]:
    gpus, last = _gpus_at_end(bill), bill.last_us
    of_type = grouped(bill.cells, lambda cell: cell.gpu_type)
    rows, paid = [], _sums(month, 1)
    for gpu_type in bill.ledger.gpu_types:
        cells = of_type.get(gpu_type, [])
        in_force = [p for p in bill.book.prices_of(gpu_type) if p.from_us <= last]
        gpu_h = float(total_h([cell for cell in cells if not cell.is_idle]))
        rows.append(
            BillType(
                gpu_type=gpu_type,
                usd_per_gpu_h=float(in_force[-1].usd_per_gpu_h) if in_force else None,
                price_source=bill.sources.get(gpu_type, bill.book.option),
                gpus=gpus.get(gpu_type, 0) if bill.book.pools else None,
                gpu_h=gpu_h,
                mean_gpus=gpu_h / window_h,
                peak_gpus=bill.peak_of(gpu_type),
                usd_per_month=(paid[gpu_type, False] + paid[gpu_type, True]) / 100,
                idle_usd_per_month=paid[gpu_type, True] / 100,
                usd=total_cents(cells) / 100,
                idle_usd=_idle_cents(cells) / 100,
                markets=tuple(_markets(cells)),
            )
        )
    return rows


def _markets(cells: Sequence[BillCell]) -> list[BillMarket]:
    rows = []
    for market, of_market in sorted(grouped(cells, lambda cell: cell.market).items()):
        idle = [cell for cell in of_market if cell.is_idle]
        used = [cell for cell in of_market if not cell.is_idle]
        rows.append(
            BillMarket(
                market=market,
                gpu_h=float(total_h(used)),
                usd=total_cents(used) / 100,
                idle_gpu_h=float(total_h(idle)),
                idle_usd=total_cents(idle) / 100,
            )
        )
    return rows


def month_rows(bill: BilledPeriod) -> list[BillMonth]:
    """Return the months of a bill with who pays in each."""
    by_month = grouped(bill.cells, lambda cell: cell.period)
    is_partial, rows = bill.months.is_partial, []
    begins, ends = bill.months.edges_us[:-1], bill.months.edges_us[1:]
    if bill.is_cluster and not bill.chosen:  # a cluster is paid for while the log lasts
        first, last = bill.runs.window_us
        begins, ends = np.maximum(begins, first), np.minimum(ends, last)
    for place in bill.places:
        cells = by_month.get(place, [])
        parts = [
            MonthPart(name=name, usd=total_cents(row) / 100, parts=_split(bill, row))
            for name, row in grouped(cells, lambda cell: cell.name).items()
        ]
        rows.append(
            BillMonth(
                name=bill.months.names[place],
                hours=float(ends[place] - begins[place]) / HOUR_US,
                is_partial=is_partial[place],
                usd=total_cents(cells) / 100,
                idle_usd=_idle_cents(cells) / 100,
                groups=tuple(sorted(parts, key=lambda part: (part.name == IDLE, part.name))),
            )
        )
    return rows


def _uses(bill: BilledPeriod) -> list[BillUse]:
    """Return the bill by label, GPU type and market; by month where there are few."""
    is_by_month = len(bill.places) <= FEW_MONTHS
    same = grouped(
        bill.cells,
        lambda c: (c.period if is_by_month else -1, c.name, c.part, c.gpu_type, c.market),
    )
    return [
        BillUse(
            month=bill.months.names[place] if is_by_month else None,
            name=name,
            part=part,
            gpu_type=gpu_type,
            market=market,
            gpu_h=float(total_h(cells)),
            usd=float(total_usd(cells)),
        )
        for (place, name, part, gpu_type, market), cells in sorted(same.items())
    ]


def _change(bill: BilledPeriod) -> ChangeResults | UnsetType:
    """Return what changed between the two months asked for; unset where there are not two."""
    if len(bill.chosen) < 2:
        return UNSET
    before, after = (_of_month(bill, name) for name in bill.chosen)
    return change_results(before, after)


def _of_month(bill: BilledPeriod, name: str) -> ComparedBill:
    place = bill.months.names.index(name)
    begin, end = bill.months.edges_us[place : place + 2].tolist()
    cells = [cell for cell in bill.cells if cell.period == place]
    return ComparedBill(name, total_cents(cells) / 100, Fraction(end - begin), cells)
