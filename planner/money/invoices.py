"""The invoice of a bill: read, added up and laid beside the log, as options ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from fractions import Fraction
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.invoices.charges import Invoice
from gpuplan.analysis.invoices.read import is_invoice_column, read_invoice
from gpuplan.analysis.job_table.gpu_names import UNNAMED, match_types
from gpuplan.analysis.prices.contracts import (
    COMMITTED,
    ON_DEMAND,
    Contracts,
    DatedPrice,
    make_contracts,
)
from gpuplan.analysis.prices.contracts_text import contracts_text
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.planner.money.bill_table import instant
from gpuplan.planner.money.invoice_book import invoice_book
from gpuplan.planner.money.invoice_charges import billing_months, invoice_charges
from gpuplan.planner.money.ledger import HeldRuns
from gpuplan.planner.money.reconcile import Reconciliation, reconcile

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

    def beside(self, runs: HeldRuns, book: Contracts) -> Reconciliation:
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
        whole = make_contracts([*book.pools], [*book.prices, *free], option=book.option)
        return invoice_book(self.beside(runs, whole), book, is_whole=not self.months)


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
    whole = sum((period.effective for period in reconciliation.periods), Fraction(0))
    if outside <= whole * LEAST_OUTSIDE:
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
