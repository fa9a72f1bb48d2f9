"""A reconciliation as results: months, lines to the cent, types, rates and the days that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from gpuplan.analysis.base.time_units import instant
from gpuplan.analysis.invoices.charges import UNUSED, UNUSED_CAPACITY, Invoice
from gpuplan.analysis.prices.contracts import COMMITTED
from gpuplan.planner.money.bill import split_cents, whole_cents
from gpuplan.planner.money.bill_results import BillMonth
from gpuplan.planner.money.invoice_charges import Charge
from gpuplan.planner.money.invoice_results import (
    InvoiceDay,
    InvoiceLine,
    InvoiceRate,
    InvoiceResults,
    InvoiceType,
)
from gpuplan.planner.money.reconcile import (
    KINDS,
    LOG,
    NOT_IN_LOG,
    OTHER,
    SHARED,
    ZERO,
    Period,
    Reconciliation,
    Usd,
    charges_usd,
)

DIGITS = 6
SHARES = {
    "explained_share": (LOG,),
    "unused_share": (UNUSED, UNUSED_CAPACITY),
    "not_in_log_share": (NOT_IN_LOG,),
    "other_share": (OTHER,),
}
LineKey = tuple[str, str]
LineCents = dict[LineKey, tuple[int, int]]
"""Line -> billed and effective cents."""


def line_cents(lines: Mapping[LineKey, Usd]) -> LineCents:
    """Return the cents of the lines of a month; in each column they add up to the rounded sum."""
    keys = sorted(lines)
    columns = []
    for column in (0, 1):
        parts = [lines[key][column] for key in keys]
        columns.append(split_cents(whole_cents(sum(parts, ZERO)), parts))
    return {key: (columns[0][place], columns[1][place]) for place, key in enumerate(keys)}


def with_invoice(
    months: Sequence[BillMonth], reconciliation: Reconciliation
) -> tuple[BillMonth, ...]:
    """Return the months of a bill with those of an invoice, which may have others."""
    bill = {month.name: month for month in months}
    names = sorted({*bill, *reconciliation.months})
    rows = []
    for name in names:
        month = bill.get(name) or BillMonth(name, 0.0, True, 0.0, 0.0, ())
        if name in reconciliation.months:
            lines = reconciliation.lines[name]
            month = replace(
                month,
                **_amounts(lines, line_cents(lines), whole_cents(charges_usd(lines))),
                invoice_types=_types(reconciliation, [name]),
                rates=_rates(reconciliation, [name]),
            )
        rows.append(month)
    return tuple(rows)


def invoice_results(reconciliation: Reconciliation, invoice: Invoice) -> InvoiceResults:
    """Return an invoice of several months as JSON has it."""
    months = reconciliation.months
    lines: dict[LineKey, Usd] = defaultdict(lambda: (ZERO, ZERO))
    cents: LineCents = defaultdict(lambda: (0, 0))
    month_charges = 0
    for month in months:
        in_month = reconciliation.lines[month]
        month_charges += whole_cents(charges_usd(in_month))
        for key, usd in in_month.items():
            lines[key] = (lines[key][0] + usd[0], lines[key][1] + usd[1])
        for key, part in line_cents(in_month).items():
            cents[key] = (cents[key][0] + part[0], cents[key][1] + part[1])
    billed_h = sum((period.billed_h for period in reconciliation.periods), ZERO)
    usage = sum((period.effective for period in reconciliation.periods), ZERO)
    log_h = sum((period.log_h for period in reconciliation.periods), ZERO)
    rate = usage / billed_h if billed_h else None
    mean_usd = None if rate is None else min(log_h, billed_h) * rate
    return InvoiceResults(
        rows=sum(file.rows for file in invoice.inputs),
        formats=invoice.formats,
        currency=invoice.currency,
        begin=instant(reconciliation.span_us[0]),
        end=instant(reconciliation.span_us[1]),
        **_amounts(lines, cents, month_charges),
        usd_per_gpu_h=None if rate is None else float(rate),
        log_gpu_h=float(log_h),
        log_usd_at_mean_rate=None if mean_usd is None else whole_cents(mean_usd) / 100,
        gpu_types=_types(reconciliation, months),
        rates=_rates(reconciliation, months),
        days=tuple(_day(period) for period in reconciliation.periods if period.differs),
    )


def _amounts(lines: Mapping[LineKey, Usd], cents: LineCents, charges_cents: int) -> dict[str, Any]:
    """Return what a month and a whole invoice both have: its sums, shares of charges and lines."""
    charges = charges_usd(lines)
    shares: dict[str, float | None] = {}
    for name, kinds in SHARES.items():
        part = sum((usd[1] for (kind, _), usd in lines.items() if kind in kinds), ZERO)
        shares[name] = float(part / charges) if charges else None
    return {
        "billed_usd": sum(billed for billed, _ in cents.values()) / 100,
        "effective_usd": sum(effective for _, effective in cents.values()) / 100,
        "charges_usd": charges_cents / 100,
        **shares,
        "lines": _lines(cents, lines, charges),
    }


def _lines(
    cents: LineCents, lines: Mapping[LineKey, Usd], charges: Fraction
) -> tuple[InvoiceLine, ...]:
    """Return the lines with cents, by kind, the most effective dollars first."""
    rows = [
        InvoiceLine(
            kind=kind,
            name=name,
            billed_usd=billed / 100,
            effective_usd=effective / 100,
            share=float(lines[kind, name][1] / charges) if kind in SHARED and charges else None,
        )
        for (kind, name), (billed, effective) in cents.items()
        if billed or effective
    ]
    order = {kind: place for place, kind in enumerate(KINDS)}
    rows.sort(key=lambda row: (order[row.kind], -row.effective_usd, -row.billed_usd, row.name))
    return tuple(rows)


def _types(reconciliation: Reconciliation, months: Sequence[str]) -> tuple[InvoiceType, ...]:
    """Return the GPU-hours of each type in some months."""
    sums: dict[str, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    chosen = frozenset(months)
    for period in reconciliation.periods:
        of_type = sums[period.gpu_type]
        for month in {period.month, *(charge.month for charge in period.charges)} & chosen:
            billed_h = period.billed_h_of(month)
            of_type["log"] += period.log_h_of(month)
            of_type["explained"] += billed_h * period.explained_share
        for charge in period.charges:
            if charge.month in chosen:
                market = "used" if charge.market == COMMITTED else "pay_per_use"
                of_type[market] += charge.gpu_h
                of_type["effective"] += charge.effective
    for charge in reconciliation.charges:
        if charge.kind == UNUSED and charge.gpu_type is not None and charge.month in chosen:
            sums[charge.gpu_type]["unused"] += charge.gpu_h
            sums[charge.gpu_type]["unused_usd"] += charge.effective
    return tuple(
        _type(gpu_type, of_type)
        for gpu_type, of_type in sorted(sums.items())
        if any(of_type.values())
    )


def _type(gpu_type: str, of_type: Mapping[str, Fraction]) -> InvoiceType:
    billed_h = of_type["used"] + of_type["pay_per_use"]
    return InvoiceType(
        gpu_type=gpu_type,
        log_gpu_h=float(of_type["log"]),
        billed_gpu_h=float(billed_h),
        difference_gpu_h=float(billed_h - of_type["log"]),
        explained_gpu_h=float(of_type["explained"]),
        used_gpu_h=float(of_type["used"]),
        pay_per_use_gpu_h=float(of_type["pay_per_use"]),
        unused_gpu_h=float(of_type["unused"]),
        effective_usd=float(of_type["effective"]),
        unused_usd=float(of_type["unused_usd"]),
    )


def unit_price(charge: Charge) -> Fraction:
    """Return what a GPU-hour of a charge cost, as stated where that makes its dollars.

    Dollars and hours of an invoice are rounded, so the quotient of both is not the price. Without a
    stated price that fits it is the shortest decimal that does, at most `DIGITS` digits.
    """
    hours, usd = charge.gpu_h, charge.effective
    if hours <= 0:
        return ZERO
    of_usd, of_hours = (_rounding(amount) * charge.rows for amount in (usd, hours))
    stated = [] if charge.unit_usd is None else [charge.unit_usd]
    shorter = [Fraction(round(usd / hours * 10**n), 10**n) for n in range(2, DIGITS)]
    for price in (*stated, *shorter):
        if abs(price * hours - usd) <= of_usd + of_hours * price:
            return price
    return Fraction(round(usd / hours * 10**DIGITS), 10**DIGITS)


def _rounding(amount: Fraction) -> Fraction:
    """Return how far rounding may have moved an amount: half of its last digit, cents at most."""
    shown = (n for n in range(2, DIGITS) if (amount * 10**n).denominator == 1)
    return Fraction(1, 2 * 10 ** next(shown, DIGITS))


def _rates(reconciliation: Reconciliation, months: Sequence[str]) -> tuple[InvoiceRate, ...]:
    """Return what GPU-hours cost, by type, market and price."""
    sums: dict[tuple[str, str, Fraction], list[Fraction]] = defaultdict(lambda: [ZERO, ZERO])
    usage = (charge for period in reconciliation.periods for charge in period.charges)
    for charge in usage:
        if charge.month in months and charge.gpu_h > 0:
            row = sums[charge.name, charge.market, unit_price(charge)]
            row[0] += charge.gpu_h
            row[1] += charge.effective
    return tuple(
        InvoiceRate(gpu_type, market, float(unit), float(hours), float(usd), float(usd / hours))
        for (gpu_type, market, unit), (hours, usd) in sorted(sums.items())
    )


def _day(period: Period) -> InvoiceDay:
    billed_h = period.billed_h
    return InvoiceDay(
        gpu_type=period.gpu_type,
        begin=instant(period.begin_us),
        end=instant(period.end_us),
        log_gpu_h=float(period.log_h),
        billed_gpu_h=float(billed_h),
        difference_gpu_h=float(billed_h - period.log_h),
        usd=float((1 - period.explained_share) * period.effective),
    )
