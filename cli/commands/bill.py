"""``gpuplan bill``: what a log costs a month or in a period, who pays, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.tables import bill_tables as tables
from gpuplan.cli.tables import delay_tables as delays
from gpuplan.cli.tables import invoice_tables as invoices
from gpuplan.cli.tables.bill_change import change_headline, change_table
from gpuplan.cli.tables.bill_parts import parts_table

if TYPE_CHECKING:
    from gpuplan.planner.studies.bill import BillAnswer


def show(study: BillAnswer) -> StudyView:
    """Return the bill as people see it."""
    results, period = study.results, study.period
    types = tables.types_table(results, period)
    by = study.request.columns[0]
    answer = [tables.groups_table(results, period)]
    more = [tables.groups_table(results, period, most=None), types]
    headline = tables.headline(results, period)
    if len(results.months) > 1:
        answer = [tables.label_by_month_table(results)]
        more = [tables.label_by_month_table(results, is_full=True), *more]
    if len(study.request.columns) > 1:
        by_two = parts_table(results, period)
        answer = [*answer, by_two] if len(results.months) > 1 else [by_two]
        more = [parts_table(results, period, is_full=True), *more]
    if results.change is not UNSET:
        billed_days = {name: study.part_of_month(name) for name in study.request.month_names()}
        headline = change_headline(results.change, by, billed_days)
        answer = [change_table(results.change, by)]
        more = [*answer, *more]
    if len(results.gpu_types) > 1:
        answer.append(types)
    notes: tuple[str, ...] = ()
    if results.invoice is not UNSET:
        invoice = results.invoice
        headline = invoices.invoice_headline(results, invoice, study.billed.runs.running[1])
        by_month = invoices.invoice_months_table(results, invoice)
        answer = [by_month, invoices.lines_table(invoice)]
        more = [by_month, *invoices.invoice_details(invoice), *more]
        notes = invoices.invoice_notes(invoice)

    warnings: tuple[str, ...] = ()
    if results.delays is not UNSET:
        headline += delays.delays_text(results.delays, by)
        if results.delays.fidelity.may_speak:
            answer.append(delays.delays_table(results.delays, by))
            more.append(delays.delays_table(results.delays, by, is_full=True))
        notes += delays.delay_notes(results.delays, results.jobs)
        warnings = delays.delay_warnings(results.delays)

    return StudyView(
        headline=headline,
        tables=(*more, tables.months_table(results)),
        answer=tuple(answer),
        csv=lambda: tables.focus_table(study),
        figure=picture("bill:draw_bill", results),
        frame=study.to_frame,
        notes=(*notes, *study.notes),
        warnings=warnings,
    )
