"""The invoice of a bill: read, laid beside the log, and the price book that its charges show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from fractions import Fraction
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_US, instant
from gpuplan.analysis.invoices.charges import UNUSED, USAGE, Invoice
from gpuplan.analysis.invoices.read import is_invoice_column, read_invoice
from gpuplan.analysis.job_table.gpu_names import UNNAMED, match_types
from gpuplan.analysis.prices.contracts import (
    ALWAYS_US,
    COMMITTED,
    FOREVER_US,
    ON_DEMAND,
    OWNED,
    Contracts,
    DatedPrice,
    PaidPool,
    make_contracts,
)
from gpuplan.analysis.prices.contracts_text import contracts_text
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.planner.money.invoice_charges import Charge, billing_months, invoice_charges
from gpuplan.planner.money.invoice_table import DIGITS, unit_price
from gpuplan.planner.money.ledger import HeldRuns
from gpuplan.planner.money.reconcile import LONG_US, Reconciliation, day_of, reconcile

OPTION = "--invoice"
LEAST_OUTSIDE = Fraction(1, 100)
"""Share of the GPU charges that may be of days outside of the log before it is told."""


def split_columns(columns: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what ``--map`` says of the log, and what it says of an invoice."""
    of_invoice = {name: column for name, column in columns.items() if is_invoice_column(name)}
    of_log = {name: column for name, column in columns.items() if name not in of_invoice}
    return of_log, of_invoice


@dataclass(frozen=True, slots=True)
class BilledInvoice:
    """An invoice to compare with a log.

    Attributes:
        invoice: as read.
        skus: SKU -> GPU type, as the user says.
        months: those to compare; empty for all.
    """

    invoice: Invoice
    skus: Mapping[str, str]
    months: tuple[str, ...]

    @classmethod
    def read(
        cls,
        paths: Sequence[Path],
        columns: Mapping[str, str],
        skus: Mapping[str, str],
        months: tuple[str, ...],
    ) -> BilledInvoice:
        """Read an invoice; arguments as those of `read_invoice`.

        Raises:
            InputError: as there.
            UsageError: a month that the invoice does not have.
        """
        invoice = read_invoice(paths, columns)
        have = sorted(invoice.charges["month"].unique().to_list())
        lacking = [month for month in months if month not in have]
        if lacking:
            raise UsageError(
                f"--months: the invoice covers {have[0]} to {have[-1]}, not {lacking[0]}"
            )
        return cls(invoice, skus, months)

    def reconciled_with(self, runs: HeldRuns, book: Contracts) -> Reconciliation:
        """Return the invoice beside a log. Raises `UsageError`.

        Args:
            runs: of all jobs.
            book: names the types of the log, and has the GPUs that are owned.
        """
        charges = invoice_charges(self.invoice, book.gpu_types, self.skus, book)
        ends = billing_months(self.invoice)
        if self.months:
            charges = tuple(charge for charge in charges if charge.month in self.months)
            ends = {month: ends[month] for month in self.months}
        return reconcile(charges, ends, runs, book)

    def book(self, runs: HeldRuns, used: Sequence[str | None], book: Contracts) -> Contracts:
        """Return the price book that the invoice shows, with what another one owns.

        Args:
            runs: of all jobs.
            used: GPU types of the log.
            book: has the GPUs that are owned; it may lack prices.
        """
        means = match_types(book.gpu_types, used, book.option)
        names = [means[name] or name or UNNAMED for name in used]
        free = [
            DatedPrice(name, ON_DEMAND, Fraction(0))
            for name in dict.fromkeys(names)
            if not book.prices_of(name)
        ]
        log_book = make_contracts([*book.pools], [*book.prices, *free], option=book.option)
        return invoice_book(self.reconciled_with(runs, log_book), book, is_whole=not self.months)


def with_prices(book: Contracts, shown: Contracts) -> Contracts:
    """Return a book without prices with those that an invoice shows.

    Commitments are those of the book, or those of the invoice where it has none.
    """
    has_commitments = any(pool.market == COMMITTED for pool in book.pools)
    pools = book.pools if has_commitments else shown.pools
    return make_contracts([*pools], [*shown.prices], inputs=book.inputs, option=shown.option)


def outside_note(reconciliation: Reconciliation, window_us: tuple[int, int]) -> list[str]:
    """Return a warning on GPU charges of days before or after the log; empty where none matter."""
    begin, end = window_us
    outside = sum(
        (
            period.effective
            for period in reconciliation.periods
            if period.end_us <= begin or period.begin_us >= end
        ),
        Fraction(0),
    )
    total_usd = sum((period.effective for period in reconciliation.periods), Fraction(0))
    if outside <= total_usd * LEAST_OUTSIDE:
        return []
    return [
        f"${float(outside):,.0f} of the invoice is of GPUs on days before or after the log, which "
        f"has {instant(begin)[:10]} to {instant(end)[:10]}: not in the log\n"
        "  next: give a log of the whole months, or choose months with --months"
    ]


def write_book(path: Path, book: Contracts, zone: tzinfo, invoice: Invoice) -> None:
    """Write the price book that an invoice shows. Raises `OutputError`."""
    names = ", ".join(Path(file.path).name for file in invoice.inputs)
    comments = (
        f"Prices and commitments that the invoice shows: {names}.",
        "The ends of commitments that the invoice does not show are left out; add them.",
    )
    with atomic_output(path) as temporary:
        temporary.write_text(contracts_text(book, zone, comments), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A price, or GPUs at a price, from a time until another."""

    begin_us: int
    end_us: int
    gpus: int
    usd: Fraction


def invoice_book(
    reconciliation: Reconciliation, book: Contracts, *, is_whole: bool = True
) -> Contracts:
    """Return the price book that an invoice shows, with the owned GPUs of another book.

    A price holds from the first charge at it; the first one of a type always. A pool has the GPUs
    that its used and unused hours make of a charge period, to a whole number; it is open where its
    charges begin or end with the invoice. ``is_whole`` is false where months of the invoice are
    left out: a pool then begins with its charges.
    """
    charges = [
        replace(charge, begin_us=span[0], end_us=span[1])
        for charge in reconciliation.charges
        if charge.kind in (USAGE, UNUSED) and charge.gpu_type is not None
        for span in [
            (charge.begin_us, charge.end_us)
            if charge.end_us - charge.begin_us >= LONG_US
            else day_of(charge.begin_us)
        ]
    ]
    prices: list[DatedPrice] = []
    pools = [pool for pool in book.pools if pool.market == OWNED]
    by_source: dict[tuple[str, str, str], list[Charge]] = defaultdict(list)
    for charge in charges:
        is_pool = charge.market == COMMITTED
        by_source[charge.name, charge.market, charge.commitment if is_pool else ""].append(charge)
    first = min((charge.begin_us for charge in charges), default=0)
    last = max((charge.end_us for charge in charges), default=0)
    for (gpu_type, market, _), of_source in sorted(by_source.items()):
        stretches = _merged(_stretches(of_source, is_pool=market == COMMITTED))
        for place, stretch in enumerate(stretches):
            if market != COMMITTED:
                begin = ALWAYS_US if place == 0 else stretch.begin_us
                prices.append(DatedPrice(gpu_type, market, stretch.usd, begin))
            elif stretch.gpus:
                is_open = is_whole and stretch.begin_us <= first
                begin = ALWAYS_US if is_open else stretch.begin_us
                end = FOREVER_US if stretch.end_us >= last else stretch.end_us
                pools.append(PaidPool(COMMITTED, gpu_type, stretch.gpus, stretch.usd, begin, end))
    return make_contracts(pools, prices, option=OPTION)


def _stretches(charges: Iterable[Charge], *, is_pool: bool) -> list[_Stretch]:
    """Return one stretch for each charge period; prices that differ within one are their mean.

    Only those of a pool have GPUs.
    """
    periods: dict[tuple[int, int], list[Charge]] = defaultdict(list)
    for charge in charges:
        periods[charge.begin_us, charge.end_us].append(charge)
    stretches = []
    for (begin, end), of_period in sorted(periods.items()):
        hours = sum((charge.gpu_h for charge in of_period), Fraction(0))
        if hours <= 0:
            continue
        usd = sum((charge.effective for charge in of_period), Fraction(0))
        prices = {unit_price(charge) for charge in of_period if charge.gpu_h > 0}
        price = prices.pop() if len(prices) == 1 else usd / hours
        gpus = round(hours * HOUR_US / (end - begin)) if is_pool else 0
        stretches.append(_Stretch(begin, end, gpus, max(Fraction(0), _short(price))))
    return stretches


def _short(price: Fraction) -> Fraction:
    return Fraction(round(price * 10**DIGITS), 10**DIGITS)


def _merged(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    """Return stretches of the same price and GPUs as one, with the time between them."""
    merged: list[_Stretch] = []
    for stretch in stretches:
        before = merged[-1] if merged else None
        if before and (before.gpus, before.usd) == (stretch.gpus, stretch.usd):
            merged[-1] = replace(before, end_us=max(before.end_us, stretch.end_us))
        else:
            merged.append(stretch)
    return merged
