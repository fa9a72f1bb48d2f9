"""``gpuplan prices``: bring price lists, price histories and availability into one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import StudyView, declared_command
from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.options.shared_options import (
    OUTPUT_PANEL,
    AllowUnchecked,
    OutputFormat,
    Plot,
    ResultFormat,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.prices.book import PriceBook
    from gpuplan.analysis.prices.offers import Offer
    from gpuplan.analysis.prices.view import PriceView
    from gpuplan.planner.requests.prices import PricesRequest
    from gpuplan.planner.studies.prices import PricesStudy


@dataclass(frozen=True, slots=True)
class PricesOutput:
    """How the account of a price table is shown."""

    output_format: OutputFormat = ResultFormat.table
    plot: Annotated[Plot, COMMON] = None
    fail_if: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="Exit with 1 if this holds, such as 'rows_rejected > 0' or 'offers.saving "
            "< 20%'. The table is written in any case. May be repeated.",
            rich_help_panel=OUTPUT_PANEL,
            show_default=False,
        ),
    ] = None
    allow_unchecked: AllowUnchecked = False


GPUS_NAMED, OFFERS_SHOWN = 3, 24


def _run(
    request: PricesRequest,
    progress: Callable[[float], None],
    pictures: Sequence[Path] = (),
) -> PricesStudy:
    """Write the price table and the pictures: a picture gets its name after the table is written.

    So either all files appear or none.
    """
    from gpuplan.analysis.storage.files import atomic_output, refuse_overwrite
    from gpuplan.planner.studies.prices import prices

    def draw(book: PriceBook, view: PriceView) -> None:
        from gpuplan.cli.figures.style import save

        refuse_overwrite(pictures, (Path(source.name) for source in book.provenance.sources))
        for path in pictures:
            save(_figure(book, view), drawn.enter_context(atomic_output(path)))

    with ExitStack() as drawn:
        study = prices(request, progress, draw if pictures else None)
    for path in pictures:
        messages.note(f"wrote {path}")
    return study


def show(study: PricesStudy) -> StudyView:
    """Return the prices by source as people see them."""
    from gpuplan.analysis.prices.results import PriceAccount
    from gpuplan.cli.tables.price_tables import market_tables

    result, book, found = study.account, study.book, study.view
    results = plain(study.results)
    account = {name: results[name] for name in PriceAccount.__dataclass_fields__}
    provenance = result.provenance
    facts = [(key, value) for key, value in account.items() if not isinstance(value, dict | list)]
    tables = list(market_tables(found))
    answer = [replace(tables[0], most=OFFERS_SHOWN)] if tables else []
    tables.append(Table("Price table", (Column("field", "field"), Column("value", "value")), facts))
    columns = (
        Column("path", "source"),
        Column("source_format", "format"),
        Column("sampling", "sampling"),
        Column("rows", "rows"),
    )
    rows = [(one.name, one.source_format, one.sampling, one.rows) for one in provenance.sources]
    tables.append(Table("Sources", columns, rows))
    if provenance.rows_rejected:
        reasons = (Column("reason", "reason"), Column("rows", "rows"))
        tables.append(Table("Rejected rows", reasons, list(provenance.rows_rejected.items())))
    if provenance.notes:
        tables.append(
            Table("Notes", (Column("note", "note"),), [(note,) for note in provenance.notes])
        )
    rejected, unpriced = account["rows_rejected"], account["rows_without_price"]
    priced = counted(provenance.rows_kept - unpriced, "price")
    kept = [f"{priced} of {counted(len(found.offers), 'source')}"]
    if unpriced:
        kept.append(f"{counted(unpriced, 'count')} of availability without a price")
    unused = f"{counted(rejected, 'row')} cannot be used; see {result.rejects_file}"
    warnings = (unused,) if rejected else ()
    return StudyView(
        tables=tuple(tables),
        headline=_headline(
            found, " and ".join(kept[unpriced == provenance.rows_kept :]), str(result.output)
        ),
        warnings=warnings,
        answer=tuple(answer) or None,
        figure=lambda: _figure(book, found),
    )


def _headline(found: PriceView, kept: str, output: str) -> str:
    """Return the cheapest source of each GPU, and what was written where."""
    least: dict[str, Offer] = {}
    for offer in found.offers:
        if offer.median is None:
            continue
        known = least.get(offer.gpu_type)
        if known is None or known.median is None or offer.median < known.median:
            least[offer.gpu_type] = offer
    shown = [
        f"{gpu} at ${one.median:.3g} per GPU-hour ({one.provider} {one.kind.replace('_', '-')})"
        for gpu, one in list(least.items())[:GPUS_NAMED]
    ]
    more = len(least) - len(shown)
    lead = (
        f"Cheapest by median price: {', '.join(shown)}{f', {more} more GPUs' if more > 0 else ''}"
    )
    return f"{lead}. {kept} in {output}." if shown else f"{kept} in {output}."


def _figure(book: PriceBook, found: PriceView) -> Figure:
    from gpuplan.analysis.prices.bands import bands
    from gpuplan.cli.figures.prices import draw_prices

    return draw_prices(bands(book, found.hourly))


COMMAND = declared_command("prices", show, output=PricesOutput, run=_run)
register = COMMAND.register
