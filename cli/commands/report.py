"""``gpuplan report``: several studies of one trace as a page, a comment, JSON and test cases."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from gpuplan.cli import talk
from gpuplan.cli.options import (
    DATE_FORMATS,
    OUTPUT_PANEL,
    PRICES_PANEL,
    FailIf,
    TraceChoice,
    command,
)

EXAMPLE = (
    "gpuplan report trace.parquet -o report --set pareto.budget=1.2x,2x "
    "--fail-if 'pareto.knee.mean_jct > 4h'"
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "report", example=EXAMPLE)(report)


def report(
    source: Annotated[
        Path,
        typer.Argument(
            help="A canonical trace (Parquet), made by [bold]gpuplan ingest[/bold].",
            show_default=False,
            metavar="TRACE",
        ),
    ],
    choice: TraceChoice,
    out: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the documents; made where it is missing.",
            metavar="DIR",
            rich_help_panel=OUTPUT_PANEL,
            show_default=False,
        ),
    ],
    study: Annotated[
        list[str] | None,
        typer.Option(
            help="A command to run as a study: characterize, pareto, sweep, compare or simulate. "
            "May be repeated. Default: the first four, as far as the trace has what they need.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="An option of one study, for example pareto.budget=1.2x,2x, "
            "characterize.fits=true or sweep.set=checkpoint_s=20; may be repeated.",
            metavar="STUDY.OPTION=VALUE",
            show_default=False,
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(
            help="Say in characterize what the trace would have cost: a price table of "
            "[bold]gpuplan prices[/bold] (.parquet), or [bold]builtin[/bold].",
            metavar="FILE|builtin",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            help="What to write, comma-separated: html, md, json, junit, svg, png.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = "html,md,json,junit,svg,png",
    title: Annotated[
        str | None,
        typer.Option(
            help="Title of the documents. Default: names the trace.",
            rich_help_panel=OUTPUT_PANEL,
            show_default=False,
        ),
    ] = None,
    time: Annotated[
        datetime | None,
        typer.Option(
            help="When the documents are made (UTC), told in them. Default: SOURCE_DATE_EPOCH "
            "where it is set, and otherwise no time, so that the same inputs give the same bytes.",
            formats=DATE_FORMATS,
            rich_help_panel=OUTPUT_PANEL,
            show_default=False,
        ),
    ] = None,
    fail_if: FailIf = None,
) -> None:
    """Run several studies of a trace and write them as a page, a comment, JSON and test cases."""
    from gpuplan.analysis.errors import UsageError
    from gpuplan.analysis.files import existing_file
    from gpuplan.cli.document.assemble import USUAL, read_options, run_all, time_stamp
    from gpuplan.cli.document.gates import conclude, judge_all
    from gpuplan.cli.document.say import said
    from gpuplan.cli.document.study import Document
    from gpuplan.cli.document.write import check_folder, read_forms, write_document
    from gpuplan.cli.emit import write_stdout
    from gpuplan.cli.gates import read_condition

    forms = read_forms(formats)
    for condition in fail_if or ():
        read_condition(condition)
    usual = TraceChoice().parameters()
    shared = {key: value for key, value in choice.parameters().items() if value != usual[key]}
    names = study or USUAL
    options = read_options(names, settings or [], shared)
    if prices is not None:
        if "characterize" not in options:
            raise UsageError("--prices: is for characterize; add --study characterize")
        options["characterize"].setdefault("prices", prices)
    stamp = time_stamp(time)
    existing_file(source)
    check_folder(out, forms)
    results, notes = run_all(source, options, all_needed=study is not None)
    document = Document(
        title=title or f"GPU workload report: {source.stem}",
        studies=results,
        gates=judge_all(results, fail_if or ()),
        time=stamp,
        notes=notes,
    )
    written = write_document(document, out, forms)
    write_stdout(said(document))
    for path in written:
        talk.note(f"wrote {path}")
    conclude(document)
