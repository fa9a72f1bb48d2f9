"""``gpuplan prices``: bring price lists, price histories and availability into one table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.time_units import as_utc
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Column, Report, cells_table, table
from gpuplan.cli.options.completion import price_formats
from gpuplan.cli.options.log_choice import READING_PANEL, MaxRejects, format_option
from gpuplan.cli.options.outputs import table_file
from gpuplan.cli.options.shared_options import (
    DATE_FORMATS,
    OUTPUT_PANEL,
    AllowUnchecked,
    OutputFormat,
    Plot,
    Reference,
    ResultFormat,
    the_only,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.prices.book import PriceBook
    from gpuplan.analysis.prices.offers import Offer
    from gpuplan.analysis.prices.view import PriceView
    from gpuplan.planner.studies.prices import PricesRequest, PricesStudy


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


def prices(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Price lists and histories: CSV, TSV, JSON, JSON lines or Parquet, plain, "
            ".gz, .zst, .zip or .tar, folders of them, or - for standard input; of one format "
            "or several.",
            metavar="SRC...",
            show_default=False,
        ),
    ],
    outs: Annotated[
        list[Path],
        COMMON,
        table_file(
            "Price table to write (.parquet). Unusable rows go to "
            "<name>.rejects.parquet next to it.",
        ),
    ],
    source_format: Annotated[
        str | None,
        COMMON,
        format_option(
            "Format of every source, instead of detecting it; [cyan]gpuplan list formats[/cyan] "
            "names them.",
            price_formats,
        ),
    ] = None,
    as_of: Annotated[
        datetime | None,
        COMMON,
        typer.Option(
            help="Date of the prices (UTC), for a list without times.",
            formats=DATE_FORMATS,
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPU of a source that names none, such as RTX5090.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    provider: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Provider of a catalog whose file and folder do not name it.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            help="Overrides the detected meaning of a row: the price at an instant "
            "(snapshot) or from then on (change).",
            metavar="snapshot|change",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    max_rejects: MaxRejects = "1%",
    reference: Reference = None,
) -> Study[PricesRequest]:
    """Read GPU price lists and histories into one price table.

    It also takes histories of GPU availability without prices.
    """
    from gpuplan.analysis.job_table.reject_limit import Limit
    from gpuplan.planner.studies.prices import PricesRequest

    request = PricesRequest(
        sources=tuple(sources),
        output=the_only(outs),
        source_format=source_format,
        as_of=as_of and as_utc(as_of),
        gpu=gpu,
        provider=provider,
        sampling=sampling,
        max_rejects=Limit.of(max_rejects),
        reference=reference,
    )
    return Study(request, _answer)


GPUS_NAMED, OFFERS_SHOWN = 3, 24

COMMAND = StudyCommand(
    "prices",
    prices,
    "gpuplan prices spot.json.gz -o prices.parquet --plot p.png",
    output=PricesOutput,
    has_rows=False,
    draws_first=True,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: PricesRequest, pictures: Sequence[Path] = ()) -> Report:
    from gpuplan.analysis.storage.files import atomic_output, refuse_overwrite
    from gpuplan.planner.studies.prices import prices as run

    def draw(book: PriceBook, view: PriceView) -> None:
        from gpuplan.cli.figures.style import save

        refuse_overwrite(pictures, (Path(source.name) for source in book.provenance.sources))
        for path in pictures:
            save(_figure(book, view), drawn.enter_context(atomic_output(path)))

    # A picture gets its name after the table is written, so either all files appear or none.
    with messages.progress("reading") as advance, ExitStack() as drawn:
        study = run(request, advance, draw if pictures else None)
    for path in pictures:
        messages.note(f"wrote {path}")
    return _report(study, request)


def _report(study: PricesStudy, request: PricesRequest) -> Report:
    from gpuplan.analysis.prices.results import PriceAccount
    from gpuplan.cli.tables.price_tables import market_tables

    result, book, found = study.account, study.book, study.view
    results = plain(study.results)
    account = {name: results[name] for name in PriceAccount.__dataclass_fields__}
    provenance = result.provenance
    facts = [(key, value) for key, value in account.items() if not isinstance(value, dict | list)]
    tables = list(market_tables(found))
    answer = [replace(tables[0], most=OFFERS_SHOWN)] if tables else []
    tables.append(cells_table("Price table", "field value", facts))
    headers = {"source_format": "format", "sampling": "sampling", "rows": "rows"}
    path = Column("path", "source", read=lambda source: source.name)
    tables.append(table("Sources", provenance.sources, path, headers))
    if provenance.rows_rejected:
        tables.append(cells_table("Rejected rows", "reason rows", provenance.rows_rejected.items()))
    if provenance.notes:
        tables.append(cells_table("Notes", "note", [(note,) for note in provenance.notes]))
    rejected, unpriced = account["rows_rejected"], account["rows_without_price"]
    priced = counted(provenance.rows_kept - unpriced, "price")
    kept = [f"{priced} of {counted(len(found.offers), 'source')}"]
    if unpriced:
        kept.append(f"{counted(unpriced, 'count')} of availability without a price")
    unused = f"{counted(rejected, 'row')} cannot be used; see {result.rejects_file}"
    warnings = (unused,) if rejected else ()
    return Report(
        command="prices",
        results=results,
        tables=tuple(tables),
        inputs=tuple(InputFile(one.name, one.sha256, one.rows) for one in provenance.sources),
        parameters=plain(request.parameters()),
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
