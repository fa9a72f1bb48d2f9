"""An invoice beside the log: what of it the jobs explain, by GPU type and charge period, exact.

GPU-hours of the log are those above the GPUs that are owned, which are on no invoice. In a charge
period (a day; several rows of a day are compared together) the smaller of both is explained, at the
dollars per billed GPU-hour of that period. The rest of what is billed is not in the log; GPU-hours
of the log that are not billed have no dollars. Lines of billed and of effective cost add up to the
invoice each, to the cent by largest remainder within a month.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.time_units import DAY_US, HOUR_US
from gpuplan.analysis.invoices.charges import (
    ADJUSTMENT,
    BELOW,
    CORRECTION,
    CREDIT,
    PURCHASE,
    TAX,
    UNUSED,
    UNUSED_CAPACITY,
    USAGE,
)
from gpuplan.analysis.prices.contracts import ON_DEMAND, OWNED, Contracts, DatedPrice
from gpuplan.planner.money.invoice_charges import Charge
from gpuplan.planner.money.ledger import HeldRuns, ledger

ZERO = Fraction(0)
LOG, NOT_IN_LOG, OTHER = "log", "not_in_log", "other"
KINDS = (
    LOG,
    NOT_IN_LOG,
    UNUSED,
    UNUSED_CAPACITY,
    OTHER,
    PURCHASE,
    CORRECTION,
    CREDIT,
    ADJUSTMENT,
    TAX,
)
"""Kinds of lines, in the order in which they are shown."""
SHARED = (LOG, NOT_IN_LOG, UNUSED, UNUSED_CAPACITY, OTHER)
"""Kinds of lines that are a share of the charges."""
LONG_US = 20 * HOUR_US
"""A charge of at least this length is compared as it is; shorter ones are, by their day."""
NAMED_SHARE, NAMED_H = Fraction(5, 100), Fraction(1)
"""Periods that differ by over this share of the billed hours, and by these hours, are named."""
Usd = tuple[Fraction, Fraction]
"""Billed and effective dollars."""


@dataclass(slots=True)
class Period:
    """GPU-hours and dollars of one GPU type in one charge period.

    Attributes:
        gpu_type: the type.
        begin_us, end_us: of the period.
        log_h: GPU-hours of the log above those owned.
        charges: usage in the period.
        month: that the period is of where nothing is billed.
    """

    gpu_type: str
    begin_us: int
    end_us: int
    month: str
    log_h: Fraction = ZERO
    charges: list[Charge] = field(default_factory=list)

    @property
    def billed_h(self) -> Fraction:
        """GPU-hours on the invoice."""
        return sum((charge.gpu_h for charge in self.charges), ZERO)

    @property
    def explained_share(self) -> Fraction:
        """Share of the billed GPU-hours that the log has too, at most 1."""
        billed_h = self.billed_h
        return min(self.log_h, billed_h) / billed_h if billed_h > 0 else ZERO

    @property
    def effective(self) -> Fraction:
        """Effective dollars."""
        return sum((charge.effective for charge in self.charges), ZERO)

    @property
    def differs(self) -> bool:
        """Whether log and invoice differ by over 5% of what is billed, and by 1 GPU-hour."""
        difference = abs(self.billed_h - self.log_h)
        return difference >= NAMED_H and difference > NAMED_SHARE * max(self.billed_h, ZERO)

    def log_h_of(self, month: str) -> Fraction:
        """Return the GPU-hours of the log that belong to a month: by what each month bills."""
        billed_h = self.billed_h
        if billed_h <= 0:
            return self.log_h if month == self.month else ZERO
        return self.log_h * self.billed_h_of(month) / billed_h

    def billed_h_of(self, month: str) -> Fraction:
        """Return the GPU-hours that the invoice of a month has."""
        return sum((charge.gpu_h for charge in self.charges if charge.month == month), ZERO)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """An invoice beside the log.

    Attributes:
        charges: all of the invoice.
        periods: by type and begin; those that the log or the invoice has hours in.
        lines: month -> kind and name -> billed and effective dollars; the months in order.
        span_us: begin of the first billing period and end of the last one: the time compared.
    """

    charges: tuple[Charge, ...]
    periods: tuple[Period, ...]
    lines: Mapping[str, Mapping[tuple[str, str], Usd]]
    span_us: tuple[int, int]

    @property
    def months(self) -> tuple[str, ...]:
        """Months of the invoice, in order."""
        return tuple(self.lines)


def reconcile(
    charges: Sequence[Charge],
    month_ends: Mapping[str, tuple[int, int]],
    runs: HeldRuns,
    book: Contracts,
) -> Reconciliation:
    """Return an invoice beside the log.

    Args:
        charges: of the invoice.
        month_ends: month -> begin and end of its billing period.
        runs: of all jobs.
        book: has the GPUs that are owned, and the names of types.
    """
    periods = _billed_periods(charges)
    gaps = _gaps(book.gpu_types, periods, _within(month_ends, runs))
    everything = [p for of_type in (*periods.values(), *gaps.values()) for p in of_type]
    _add_log_hours(everything, runs, book)
    kept = [p for p in everything if p.charges or p.log_h]
    kept.sort(key=lambda p: (p.gpu_type, p.begin_us))
    begins, ends = zip(*month_ends.values(), strict=True) if month_ends else ((0,), (0,))
    span_us = (min(begins), max(ends))
    return Reconciliation(tuple(charges), tuple(kept), _lines(charges, kept, month_ends), span_us)


def _billed_periods(charges: Iterable[Charge]) -> dict[str, list[Period]]:
    """Return the periods in which GPUs are billed, by type; those that overlap are one."""
    spans: dict[str, list[tuple[int, int, Charge]]] = defaultdict(list)
    for charge in charges:
        if charge.kind == USAGE and charge.gpu_type is not None:
            begin, end = charge.begin_us, charge.end_us
            if end - begin < LONG_US:
                begin, end = day_of(begin)
            spans[charge.gpu_type].append((begin, end, charge))
    periods: dict[str, list[Period]] = {}
    for gpu_type, of_type in sorted(spans.items()):
        merged: list[Period] = []
        for begin, end, charge in sorted(of_type, key=lambda span: span[:2]):
            if not merged or begin >= merged[-1].end_us:
                merged.append(Period(gpu_type, begin, end, charge.month))
            merged[-1].end_us = max(merged[-1].end_us, end)
            merged[-1].charges.append(charge)
        periods[gpu_type] = merged
    return periods


def day_of(at_us: int) -> tuple[int, int]:
    """Return the begin and the end of the day (UTC) of an instant."""
    begin = at_us - at_us % DAY_US
    return begin, begin + DAY_US


def _within(
    month_ends: Mapping[str, tuple[int, int]], runs: HeldRuns
) -> dict[str, tuple[int, int]]:
    """Return the parts of billing periods in which there are runs."""
    if not runs.start_us.size:
        return {}
    first, last = int(runs.start_us.min()), int(runs.end_us.max())
    parts = {
        month: (max(begin, day_of(first)[0]), min(end, day_of(last)[1]))
        for month, (begin, end) in month_ends.items()
    }
    return {month: (begin, end) for month, (begin, end) in parts.items() if begin < end}


def _gaps(
    types: Sequence[str],
    periods: Mapping[str, Sequence[Period]],
    month_ends: Mapping[str, tuple[int, int]],
) -> dict[str, list[Period]]:
    """Return the days of the billing periods in which a type is not billed."""
    gaps: dict[str, list[Period]] = {}
    for gpu_type in types:
        billed = [(p.begin_us, p.end_us) for p in periods.get(gpu_type, ())]
        gaps[gpu_type] = []
        last = min((begin for begin, _ in month_ends.values()), default=0)
        for month, (begin, end) in sorted(month_ends.items(), key=lambda item: item[1]):
            at = max(begin, last)
            last = max(last, end)
            inside = [span for span in billed if span[1] > at and span[0] < end]
            for busy_begin, busy_end in [*inside, (end, end)]:
                while at < busy_begin:
                    until = min(day_of(at)[1], busy_begin)
                    gaps[gpu_type].append(Period(gpu_type, at, until, month))
                    at = until
                at = max(at, busy_end)
    return gaps


def _add_log_hours(periods: Sequence[Period], runs: HeldRuns, book: Contracts) -> None:
    """Add the GPU-hours of the log above those owned to the periods, which do not overlap."""
    if not periods:
        return
    edges = np.unique([at for period in periods for at in (period.begin_us, period.end_us)])
    owned = [pool for pool in book.pools if pool.market == OWNED]
    free = [DatedPrice(name, ON_DEMAND, ZERO) for name in book.gpu_types]
    held = replace(runs, label=np.zeros_like(runs.label), labels=1)
    cells = ledger(held, Contracts(tuple(owned), tuple(free), option=book.option), edges)
    hours: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
    for cell in cells.cells:
        if cell.label is not None and cell.market != OWNED:
            hours[cells.gpu_types[cell.gpu_type], cell.period] += cell.gpu_h
    for period in periods:
        first, last = np.searchsorted(edges, [period.begin_us, period.end_us]).tolist()
        period.log_h = sum(
            (hours.get((period.gpu_type, place), ZERO) for place in range(first, last)), ZERO
        )


def _lines(
    charges: Iterable[Charge], periods: Iterable[Period], months: Iterable[str]
) -> dict[str, dict[tuple[str, str], Usd]]:
    """Return what each line of a month has; all lines together have all dollars."""
    lines: dict[str, dict[tuple[str, str], list[Fraction]]] = {m: {} for m in sorted(months)}

    def add(month: str, kind: str, name: str, billed: Fraction, effective: Fraction) -> None:
        line = lines[month].setdefault((kind, name), [ZERO, ZERO])
        line[0] += billed
        line[1] += effective

    for period in periods:
        share = period.explained_share
        for charge in period.charges:
            for kind, part in ((LOG, share), (NOT_IN_LOG, 1 - share)):
                add(
                    charge.month,
                    kind,
                    period.gpu_type,
                    charge.billed * part,
                    charge.effective * part,
                )
    for charge in charges:
        if charge.kind != USAGE or charge.gpu_type is None:
            kind = OTHER if charge.kind == USAGE else charge.kind
            add(charge.month, kind, charge.name, charge.billed, charge.effective)
    return {
        month: {key: (usd[0], usd[1]) for key, usd in of_month.items()}
        for month, of_month in lines.items()
    }


def charges_usd(lines: Mapping[tuple[str, str], Usd]) -> Fraction:
    """Return the effective dollars of lines without what stands below the charges."""
    return sum((usd[1] for (kind, _), usd in lines.items() if kind not in BELOW), ZERO)
