"""Say what a log costs, and who pays: by group, user, class or GPU type, and by month."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path

import polars as pl
from msgspec import UNSET

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.time_units import HOUR_US, MICROS, MONTH_H
from gpuplan.analysis.base.words import length_words
from gpuplan.analysis.characterize.capacity import NODES, time_above
from gpuplan.analysis.characterize.today import COLUMNS
from gpuplan.analysis.history.jobs import BY, PeriodUs
from gpuplan.analysis.history.runs import written
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import UNNAMED, match_types
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.prices.contracts import Contracts
from gpuplan.analysis.storage.files import STANDARD_INPUT, is_parquet
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.bill import NO_LABEL, bill_cells
from gpuplan.planner.money.bill_results import BillResults
from gpuplan.planner.money.bill_table import BilledPeriod, bill_results
from gpuplan.planner.money.book_options import check_dated, cluster_of, complete_book
from gpuplan.planner.money.book_types import pool_notes
from gpuplan.planner.money.focus import focus_rows
from gpuplan.planner.money.held_runs import (
    BilledRuns,
    Months,
    billed_runs,
    days_of_month,
    month_words,
    months_of,
    months_without_dates,
    paid_period,
)
from gpuplan.planner.money.invoice_table import invoice_results, with_invoice
from gpuplan.planner.money.invoices import (
    BilledInvoice,
    outside_note,
    split_columns,
    with_prices,
    write_book,
)
from gpuplan.planner.money.ledger import ledger
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_times import price_time_notes
from gpuplan.planner.requests.bill import BillRequest
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.bill_delays import (
    BillStudyResults,
    bill_delays,
    delay_columns,
)

MOST_MONTHS_BY_DAY = 240
"""Months of a bill above which its rows are of months: who bills decades has a wrong time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillAnswer(Answer[BillRequest, BillStudyResults]):
    """The bill of a log.

    Attributes:
        billed: the cells of the bill, with what they are of.
        period_us: begin and end of the period asked for; None without one.
    """

    billed: BilledPeriod
    period_us: PeriodUs | None

    @property
    def period(self) -> str:
        """The begin and the end of a period asked for, in words; empty without one."""
        if self.request.months is not None:
            return f"in {' and '.join(map(self._month, self.request.month_names()))}"
        if self.period_us is None:
            return ""
        begin, end = (written(edge).removesuffix(" 00:00:00") for edge in self.period_us)
        return f"from {begin} to {end}"

    def _month(self, name: str) -> str:
        """Return a month in words, and how much of it is billed where that is a part."""
        part = self.part_of_month(name)
        return f"{month_words(name)} ({part})" if part else month_words(name)

    def part_of_month(self, name: str) -> str:
        """Return ``14 of 31 days`` where the log has a part of a month; empty for a whole one."""
        month = next(month for month in self.results.months if month.name == name)
        return days_of_month(name, month.hours) if month.is_partial else ""

    def to_frame(self) -> pl.DataFrame:
        """Return the rows as FOCUS."""
        focus = self.request.focus
        return focus_rows(
            self.billed,
            account=focus.account,
            issuer=focus.issuer,
            invoice_id=focus.invoice_id,
            is_daily=focus.rows == "day" and len(self.billed.months.names) <= MOST_MONTHS_BY_DAY,
        )


def bill(request: BillRequest) -> BillAnswer:
    """Return the bill of a trace.

    Raises:
        InputError: the trace, a price table or the price book cannot be used.
        UsageError: a GPU type without a price, or a month that the log does not cover.
    """
    request.check()
    zone_name = request.jobs.log.time_zone
    of_log = request.jobs.log.columns
    invoice, notes = None, list[str]()
    if request.invoices.invoice:
        of_log, of_invoice = split_columns(request.jobs.log.columns)
        invoice = BilledInvoice.read(
            request.invoices.invoice,
            of_invoice,
            request.invoices.sku,
            request.month_names(),
        )
    jobs = replace(request.jobs, log=replace(request.jobs.log, columns=of_log))
    trace = bill_trace(
        request.trace,
        jobs,
        request.columns,
        request.prices.gpu,
        delay_columns(request),
        (NODES,) if request.delays.delays else (),
    )
    runs = billed_runs(trace, request.columns)
    types = runs.runs.gpu_types
    cluster = cluster_of(types, runs.peak_gpus.tolist(), request.pools(), is_peak=request.is_peak)
    prices = Prices.read(request.prices, zone_name)
    check_dated(trace, prices)
    months = _months(request, trace, runs, prices.zone)
    if invoice is not None:
        _check_calendar(trace)
        is_priced = bool(prices.book.prices or prices.usd_per_gpu_h or prices.table)
        if request.invoices.contracts_out is not None or not is_priced:
            shown = invoice.book(runs.runs, runs.used_types, prices.book)
            if request.invoices.contracts_out is not None:
                write_book(request.invoices.contracts_out, shown, prices.zone, invoice.invoice)
            if not is_priced:
                prices = replace(prices, book=with_prices(prices.book, shown))
    book, sources = book_of(prices, runs, None if request.cluster is None else cluster)
    entries = ledger(runs.runs, book, months.edges_us)
    cells = bill_cells(entries, runs.labels, spread_idle=request.idle == "spread")
    places = {months.names.index(name) for name in request.month_names()}
    if places:
        cells = tuple(cell for cell in cells if cell.period in places)
        edges = months.edges_us.tolist()
        runs = runs.within([(edges[place], edges[place + 1]) for place in sorted(places)])
    billed = BilledPeriod(
        columns=request.columns,
        chosen=request.month_names(),
        runs=runs,
        months=months,
        cells=cells,
        ledger=entries,
        book=book,
        sources=sources,
        is_cluster=request.cluster is not None,
    )
    results = bill_results(billed)
    if invoice is not None:
        reconciliation = invoice.reconciled_with(runs.runs, book)
        results = replace(
            results,
            months=with_invoice(results.months, reconciliation),
            invoice=invoice_results(reconciliation, invoice.invoice),
        )
        notes = [
            *invoice.invoice.warnings,
            *outside_note(reconciliation, runs.window_us),
            *_selection_note(request),
        ]
    delays = bill_delays(request, trace) if request.delays.delays else UNSET
    return BillAnswer(
        request=request,
        results=BillStudyResults(**fields_of(results), delays=delays),
        inputs=(
            trace_input(trace),
            *prices.inputs,
            *(invoice.invoice.inputs if invoice else ()),
        ),
        warnings=(
            *notes,
            *_long_note(request, len(months.names)),
            *_warnings(request, trace, runs, prices, results),
        ),
        notes=tuple(zone_note(request.trace, trace, request.jobs.log.time_zone)),
        billed=billed,
        period_us=trace.period,
    )


def _long_note(request: BillRequest, months: int) -> Iterator[str]:
    """Yield that the rows of a bill of decades are not of days."""
    if request.focus.rows == "day" and months > MOST_MONTHS_BY_DAY:
        yield (
            f"rows of .csv and .parquet are of months, not days: the bill covers {months:,} "
            f"months, over {MOST_MONTHS_BY_DAY // 12} years"
        )


def zone_note(path: Path, trace: Trace, time_zone: str | None) -> Iterator[str]:
    """Yield that months are of UTC, where a trace was made of a log in another time zone.

    Args:
        path: of the trace.
        trace: read from it.
        time_zone: as requested for the months; None for UTC.
    """
    zone = trace.provenance.time_zone
    is_told = time_zone is not None or trace.provenance.relative_time
    if is_told or zone is None or "/" not in zone or path == STANDARD_INPUT or not is_parquet(path):
        return
    yield (
        f"calendar months are those of UTC, and the log's times were read in {zone}: "
        f"--time-zone {zone} bills the months of that zone"
    )


def bill_trace(
    path: Path,
    jobs: Selection,
    by: Sequence[str],
    gpu: str | None,
    more: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Trace:
    """Return a trace with the columns of a bill, which a log keeps for it.

    Args:
        path: a canonical trace, or a log.
        jobs: which of its jobs.
        by: columns of the trace, or names in `BY`.
        gpu: the type of jobs that name none.
        more: other canonical columns to read.
        optional: columns to read where the trace has them.
    """
    columns = tuple(BY.get(name, name) for name in by)
    if path != STANDARD_INPUT and is_parquet(path):
        jobs = replace(jobs, log=replace(jobs.log, time_zone=None))  # it is of the months here
    else:
        kept = [name for name in columns if name not in CANONICAL]
        keep = tuple(dict.fromkeys([*jobs.log.keep, *kept]))
        jobs = replace(jobs, log=replace(jobs.log, keep=keep))
    try:
        trace = read_trace(
            path,
            jobs,
            columns=tuple(dict.fromkeys((*COLUMNS, *columns, *more))),
            optional=optional,
        )
    except UsageError as error:
        problem = str(error).partition("\n")[0]
        lacking = [name for name in by if f"no column {BY.get(name, name)!r}" in problem]
        if not lacking:
            raise
        raise UsageError(
            f"--by {lacking[0]}: {problem.replace(' to keep;', ';')}\n"
            "  next: --by group, user, type or class, or one of these columns"
        ) from error
    if gpu is None:
        return trace
    named = pl.col("gpu_type").fill_null(gpu)
    return replace(trace, jobs=trace.jobs.with_columns(named))


def _check_calendar(trace: Trace) -> None:
    if trace.provenance.relative_time:
        raise UsageError("--invoice: the log has no dates, so no day of an invoice is in it")


def _selection_note(request: BillRequest) -> list[str]:
    """Return a warning where jobs are left out that the invoice has; empty otherwise."""
    jobs = request.jobs
    if all(choice is None for choice in (jobs.where, jobs.sample, jobs.since, jobs.until)):
        return []
    return [
        "the invoice is compared with the selected jobs alone: GPU-hours of all others are not in "
        "the log"
    ]


def book_of(
    prices: Prices, runs: BilledRuns, cluster: Mapping[str | None, int] | None = None
) -> tuple[Contracts, dict[str, str]]:
    """Return the price book for the types of some runs, and where prices come from.

    Args:
        prices: what is said of prices.
        runs: that are billed.
        cluster: owned GPUs by type of the log, at the price of the type.

    Raises:
        InputError: a price table cannot be used.
        UsageError: a GPU type without a price.
    """
    if cluster is not None and prices.book.pools:
        raise UsageError(
            f"--cluster: the GPUs that are paid for are in {prices.book.option} already\n"
            "  next: leave out --cluster, or the pools"
        )
    return complete_book(prices, runs.used_types, cluster or {}, runs.window_us)


def _months(request: BillRequest, trace: Trace, runs: BilledRuns, zone: tzinfo) -> Months:
    """Return the months of the period: as asked for, or the whole days of the log."""
    if trace.provenance.relative_time:
        if request.months is not None:
            raise UsageError("--months: the log has no dates, so it has no calendar months")
        return months_without_dates(paid_period(trace, runs, zone))
    months = months_of(paid_period(trace, runs, zone), zone)
    if trace.period is not None:
        return months
    lacking = [name for name in request.month_names() if name not in months.names]
    if lacking:
        raise UsageError(
            f"--months: the log covers {months.names[0]} to {months.names[-1]}, not {lacking[0]}"
        )
    return months


def _unused_notes(request: BillRequest, prices: Prices, types: Sequence[str | None]) -> list[str]:
    """Return what is given and not used, and what is paid for and perhaps of no use here."""
    book, notes = prices.book, list[str]()
    in_book = match_types(
        [entry.gpu_type for entry in book.prices], prices.usd_per_gpu_h, book.option
    )
    for name, entry in in_book.items():
        if name and entry is not None:
            notes.append(f"--price of {name} is not used: {book.option} has one")
    return [*notes, *pool_notes(request.prices, book, types, request.jobs)]


def _warnings(
    request: BillRequest, trace: Trace, runs: BilledRuns, prices: Prices, results: BillResults
) -> list[str]:
    notes = [
        *trace.notes,
        *prices.unmatched_note([row.gpu_type for row in results.gpu_types]),
        *price_time_notes(trace, prices, runs.used_types),
        *request.jobs.submission_notes,
        *_unused_notes(request, prices, runs.runs.gpu_types),
    ]
    named = [name for name, _ in runs.labels if name not in (NO_LABEL, UNNAMED)]
    if not named:
        notes.append(f"the log names no {request.by} for any job; choose another --by")
    for row in results.gpu_types if request.cluster is not None else ():
        if row.gpus is None or row.peak_gpus <= row.gpus:
            continue
        gpu_type = None if row.gpu_type == UNNAMED else row.gpu_type
        is_typed = trace.jobs["gpu_type"].cast(pl.String).eq_missing(gpu_type).to_numpy()
        above = time_above(trace, is_typed, row.gpus)
        if above is not None:
            notes.append(above.warning(gpu_type, f"the {row.gpus:,} of --cluster"))
    is_scaled = results.invoice is UNSET and request.months is None
    if is_scaled and results.window_s * MICROS < MONTH_H * HOUR_US / 4:
        notes.append(
            f"the log covers {length_words(results.window_s)}, and the bill of a month assumes "
            "that the rest of the month is like them"
        )
    notes += runs.running_note
    return notes
