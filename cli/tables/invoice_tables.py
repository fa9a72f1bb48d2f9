"""Tables of ``gpuplan bill --invoice``: the invoice by month and by line, its rates and days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import joined
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_number
from gpuplan.cli.tables.bill_tables import TOTAL, show_month_usd

if TYPE_CHECKING:
    from gpuplan.planner.money.bill_results import BillResults
    from gpuplan.planner.money.invoice_results import InvoiceDay, InvoiceLine, InvoiceResults

WORDS = {
    "log": "in the log",
    "not_in_log": "not in the log",
    "unused": "unused commitment",
    "unused_capacity": "unused capacity reservation",
    "other": "other service",
    "purchase": "commitment fee",
    "correction": "corrections",
    "credit": "credits",
    "adjustment": "adjustments",
    "tax": "tax",
}
BELOW = ("correction", "credit", "adjustment", "tax")
MOST_LINES = 14
MOST_NAMED = 3
MOST_RATES = 60
MOST_DAYS = 60
LEAST = 0.0005
"""A share under this is not worth a word."""
SAME_HOURS = 0.005
"""Share of GPU-hours up to which two amounts are the same."""
SMALL_GAP = 0.01
"""Share of an invoice above which billed and effective cost are said to differ."""


def invoice_headline(results: BillResults, invoice: InvoiceResults, running_h: float = 0.0) -> str:
    """Return what the invoice is, what the log explains of it, and where they differ.

    Args:
        results: the bill, with the invoice by month.
        invoice: of all months.
        running_h: GPU-hours of the log that jobs hold that are still running.
    """
    below = [line.kind for line in invoice.lines if line.kind in BELOW]
    parts = [WORDS[kind] for kind in dict.fromkeys(reversed(below))]
    with_below = f" with {joined(parts)}" if parts else ""
    in_all = " in all" if _is_opencost(invoice) else ""
    text = (
        f"{_months(results)}: {_usd(invoice.charges_usd)} of charges{in_all} "
        f"(invoice {_usd(invoice.billed_usd)}{with_below})."
    )
    if _is_opencost(invoice):
        text = f"{_opencost_words(results, invoice, running_h)} {text}"
    if invoice.explained_share is not None:
        text += f" The log explains {_share(invoice.explained_share)}"
        has_capacity = any(line.kind == "unused_capacity" for line in invoice.lines)
        unused = f"is unused commitment{' or capacity' * has_capacity}"
        rest = [
            (invoice.unused_share, "is idle" if _is_opencost(invoice) else unused),
            (invoice.other_share, "other services"),
            (invoice.not_in_log_share, "not in the log"),
        ]
        named = [
            f"{_share(share or 0.0)} {words}" for share, words in rest if abs(share or 0.0) >= LEAST
        ]
        text += f"; {', '.join(named)}." if named else "."
    if invoice.days:
        text += f" Log and invoice differ on {_named_days(invoice.days)}."
    elif invoice.gpu_types:
        text += " On no day do they differ by over 5% for any GPU type."
    return text


def _is_opencost(invoice: InvoiceResults) -> bool:
    return invoice.formats == ("opencost",)


def _opencost_words(results: BillResults, invoice: InvoiceResults, running_h: float) -> str:
    """Return the GPUs of OpenCost and of the log, and by how much they differ.

    Dollars of the log are told only where all of it is compared: in the months of the invoice, and
    without GPUs that are owned.
    """
    usd = sum(row.effective_usd for row in invoice.gpu_types)
    billed_h = sum(row.billed_gpu_h for row in invoice.gpu_types)
    log_h, more_h = invoice.log_gpu_h, invoice.log_gpu_h - billed_h
    is_whole = abs(results.gpu_h - log_h) <= SAME_HOURS * max(log_h, 1.0)
    is_priced = is_whole and results.cluster_gpus is None
    log_usd = f"{_usd(results.usd)} for " if is_priced else ""
    text = (
        f"OpenCost: {_usd(usd)} for {_short_hours(billed_h)} GPU-hours of pods; your log: {log_usd}"
        f"{_short_hours(log_h)}"
    )
    if not is_whole:
        text += f" in the time of the invoice, {_dates(invoice)}"
        text += f" (in all {_short_hours(results.gpu_h)})"
    if abs(more_h) <= SAME_HOURS * max(log_h, billed_h, 1.0):
        different = _different_types(invoice)
        return f"{text}: {different or 'no real difference in hours'}."
    text += f". The log has {_short_hours(abs(more_h))} {'more' if more_h > 0 else 'less'}"
    if is_priced:
        more_usd = results.usd - usd
        text += f" ({_usd(abs(more_usd))} {'more' if more_usd > 0 else 'less'})"
    if is_whole and more_h > 0 and running_h >= 1:
        text += f"; jobs still running hold {_short_hours(running_h)} GPU-hours of it so far"
    return f"{text}."


def _dates(invoice: InvoiceResults) -> str:
    """Return the first and the last day of an invoice."""
    begin, end = datetime.fromisoformat(invoice.begin), datetime.fromisoformat(invoice.end)
    last = end - timedelta(seconds=1)
    is_day = begin.date() == last.date()
    return f"{begin:%Y-%m-%d}" if is_day else f"{begin:%Y-%m-%d} to {last:%Y-%m-%d}"


def _different_types(invoice: InvoiceResults) -> str:
    """Return the GPU types where OpenCost and the log have none in common; empty where they do."""
    billed = [row.gpu_type for row in invoice.gpu_types if row.billed_gpu_h]
    logged = [row.gpu_type for row in invoice.gpu_types if row.log_gpu_h]
    if not billed or not logged or set(billed) & set(logged):
        return ""
    return (
        f"as many hours, but of other GPUs: {joined(billed)} by OpenCost, {joined(logged)} in "
        "the log (--sku NODE=TYPE says what a node has)"
    )


def _short_hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else show_number(hours)


def _what(invoice: InvoiceResults, kind: str) -> str:
    """Return the words for a kind of line; what OpenCost calls idle is no reservation."""
    is_idle = kind == "unused_capacity" and _is_opencost(invoice)
    return "idle (OpenCost)" if is_idle else WORDS[kind]


def _months(results: BillResults) -> str:
    names = [month.name for month in results.months if month.lines]
    months = [datetime.strptime(name, "%Y-%m") for name in (names[:1] + names[1:][-1:])]
    return " to ".join(f"{month:%B %Y}" for month in months)


def _usd(value: float) -> str:
    return f"{'-' if value < 0 else ''}${abs(value):,.0f}"


def _cents(usd: float) -> str:
    return f"-{show_month_usd(-usd)}" if usd < 0 else show_month_usd(usd)


def _share(share: float) -> str:
    """Return a share in whole percent, below 1% with a digit more."""
    return f"{share:.0%}" if abs(share) >= 0.01 or not share else f"{share:.1%}"


def _named_days(days: Sequence[InvoiceDay]) -> str:
    """Return the types and days that differ most, days in a row as one."""
    spans = sorted(_spans(days), key=lambda span: -abs(span["difference"]))
    shown = [_span(span) for span in spans[:MOST_NAMED]]
    more = len(spans) - len(shown)
    return "; ".join(shown) + (f"; and {more} more periods" if more else "")


def _spans(days: Iterable[InvoiceDay]) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = []
    for day in days:
        last = spans[-1] if spans else None
        side = day.difference_gpu_h > 0
        if last and (last["type"], last["end"], last["side"]) == (day.gpu_type, day.begin, side):
            last["end"] = day.end
            last["difference"] += day.difference_gpu_h
            last["log"] += day.log_gpu_h
            last["billed"] += day.billed_gpu_h
            continue
        spans.append(
            {
                "type": day.gpu_type,
                "begin": day.begin,
                "end": day.end,
                "side": side,
                "difference": day.difference_gpu_h,
                "log": day.log_gpu_h,
                "billed": day.billed_gpu_h,
            }
        )
    return spans


def _span(span: dict[str, Any]) -> str:
    begin = datetime.fromisoformat(span["begin"])
    last = datetime.fromisoformat(span["end"]) - timedelta(seconds=1)
    dates = f"{last.day} {last:%B}"
    if last.date() != begin.date():
        month = "" if (begin.year, begin.month) == (last.year, last.month) else f" {begin:%B}"
        dates = f"{begin.day}{month} to {dates}"
    hours = show_number(abs(span["difference"]))
    if not span["log"]:
        what = f"{hours} GPU-hours billed, none in the log"
    elif not span["billed"]:
        what = f"{hours} GPU-hours in the log, none billed"
    else:
        what = f"{hours} GPU-hours {'more' if span['side'] else 'less'} billed than in the log"
    return f"{span['type']}, {dates} ({what})"


def invoice_months_table(results: BillResults, invoice: InvoiceResults) -> Table:
    """Return the invoice by month, and what of its charges is explained."""
    rows = [fields_of(month) for month in results.months if month.lines]
    if len(rows) > 1:
        rows.append(fields_of(invoice) | {"name": TOTAL})
    return table(
        f"Invoice by month, {_dates(invoice)}; shares are of the charges",
        rows,
        {"name": "month"},
        Column("billed_usd", "invoice", _cents),
        Column("charges_usd", "charges", _cents),
        {
            "explained_share": "in the log",
            "unused_share": "unused",
            "other_share": "other services",
            "not_in_log_share": "not in the log",
        },
    )


def lines_table(invoice: InvoiceResults, *, is_full: bool = False) -> Table:
    """Return the lines of the invoice; each column adds up to its last row.

    Args:
        invoice: of all months.
        is_full: whether every line has a row of its own.
    """
    lines = list(invoice.lines)
    above = [line for line in lines if line.kind not in BELOW]
    rest: list[InvoiceLine] = []
    if not is_full and len(lines) > MOST_LINES:
        room = MOST_LINES - 1 - (len(lines) - len(above))
        by_size = sorted(above, key=lambda row: -max(abs(row.effective_usd), abs(row.billed_usd)))
        rest = by_size[max(room, 1) :]
    rows = [
        fields_of(line) | {"what": _what(invoice, line.kind), "name": line.name or "-"}
        for line in above
        if line not in rest
    ]
    if rest:
        rows.append(_sum(f"{len(rest)} more lines", "-", rest))
    rows += [
        fields_of(line) | {"what": WORDS[line.kind], "name": "-"}
        for line in lines
        if line.kind in BELOW
    ]
    rows.append(_sum("invoice", "-", lines) | {"share": None})
    return table(
        "Lines of the invoice",
        rows,
        {"what": "what", "name": "GPU or SKU"},
        Column("billed_usd", "billed", _cents),
        Column("effective_usd", "effective", _cents),
        {"share": "of charges"},
    )


def _sum(what: str, name: str, lines: Sequence[InvoiceLine]) -> dict[str, Any]:
    """Return a row of several lines, whose dollars add up to the cent."""
    return {
        "what": what,
        "name": name,
        "billed_usd": sum(round(100 * line.billed_usd) for line in lines) / 100,
        "effective_usd": sum(round(100 * line.effective_usd) for line in lines) / 100,
        "share": sum(line.share or 0.0 for line in lines),
    }


def invoice_details(invoice: InvoiceResults) -> list[Table]:
    """Return the tables of an invoice that are behind the answer."""
    details = [lines_table(invoice, is_full=True), hours_table(invoice), rates_table(invoice)]
    return [*details, days_table(invoice)] if invoice.days else details


def hours_table(invoice: InvoiceResults) -> Table:
    """Return the GPU-hours of each type in the log and on the invoice."""
    return table(
        "GPU-hours in the log and on the invoice",
        invoice.gpu_types,
        {
            "gpu_type": "GPU",
            "log_gpu_h": "in the log",
            "billed_gpu_h": "billed",
        },
        Column("difference_gpu_h", "difference", _hours),
        {"used_gpu_h": "of it committed", "unused_gpu_h": "unused"},
        Column("effective_usd", "effective $", _cents),
    )


def _hours(hours: float) -> str:
    """Return hours without what rounding leaves of none."""
    return show_number(hours if abs(hours) >= 0.01 else 0.0)


def rates_table(invoice: InvoiceResults) -> Table:
    """Return what GPU-hours cost, by type, market and price."""
    return table(
        "Rates on the invoice",
        invoice.rates,
        {"gpu_type": "GPU", "market": "market"},
        Column("unit_usd", "$ per GPU-hour", lambda usd: f"{usd:,.6g}"),
        {"gpu_h": "GPU-hours"},
        Column("usd", "effective $", _cents),
        most=MOST_RATES,
    )


def days_table(invoice: InvoiceResults) -> Table:
    """Return the charge periods in which log and invoice differ."""
    return table(
        "Days that differ by over 5% and 1 GPU-hour",
        [fields_of(day) | {"day": _day(day)} for day in invoice.days],
        {
            "day": "day (UTC)",
            "gpu_type": "GPU",
            "log_gpu_h": "in the log",
            "billed_gpu_h": "billed",
        },
        Column("difference_gpu_h", "difference", _hours),
        Column("usd", "not in the log", _cents),
        most=MOST_DAYS,
    )


def _day(day: InvoiceDay) -> str:
    begin, end = (datetime.fromisoformat(at) for at in (day.begin, day.end))
    is_day = end - begin == timedelta(days=1) and not (begin.hour or begin.minute or begin.second)
    return day.begin[:10] if is_day else f"{day.begin} to {day.end}"


def invoice_notes(invoice: InvoiceResults) -> tuple[str, ...]:
    """Return why billed and effective cost differ, where they do."""
    gap = invoice.billed_usd - invoice.effective_usd
    if abs(gap) <= SMALL_GAP * max(abs(invoice.billed_usd), abs(invoice.effective_usd)):
        return ()
    more = "more" if gap > 0 else "less"
    return (
        f"the invoice bills ${abs(gap):,.2f} {more} than its effective cost, which counts fees in "
        "the months they are used in, not when they are paid",
    )
