"""``gpuplan run``: all studies that a scenario file declares, with its documents and gates."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.storage.cache import chosen_folder, open_cache
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.assemble import time_stamp
from gpuplan.cli.documents.contract import as_json
from gpuplan.cli.documents.emit import emit, write_stdout
from gpuplan.cli.documents.gates import conclude
from gpuplan.cli.documents.study import Document, StudyResult, TableGrid
from gpuplan.cli.documents.verdict import opening
from gpuplan.cli.documents.write import FORMS, TEXTS, check_folder, write_document
from gpuplan.cli.formats.escape import terminal
from gpuplan.cli.formats.render import as_text
from gpuplan.cli.formats.report import Column, Report, Shown, Table
from gpuplan.cli.gates.gates import allowing
from gpuplan.cli.options.shared_options import (
    OUTPUT_PANEL,
    AllowUnchecked,
    CacheFolder,
    Full,
    NoCache,
    Output,
    ResultFormat,
    command,
    output_option,
)
from gpuplan.cli.results import PlannedStudy, RunResults, RunWorkload
from gpuplan.cli.scenario.loading import load_scenario
from gpuplan.cli.scenario.running import planned, run_scenario

if TYPE_CHECKING:
    from gpuplan.analysis.storage.cache import Cache
    from gpuplan.cli.scenario.scenario import Scenario

EXAMPLE = "gpuplan run scenario.toml --set study.pareto.budget=1.2x,2x --output report"
PLANNED = ("study", "cached", "what runs")
GATES = (Column("gate", "gate"), Column("state", "state"), Column("detail", "detail"))


class RunFormat(StrEnum):
    """How the results of a scenario are written to standard output."""

    table = "table"
    json = "json"
    md = "md"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "run", example=EXAMPLE)(run)


def run(
    source: Annotated[
        Path,
        typer.Argument(
            help="The scenario (TOML); [bold]gpuplan init[/bold] writes one to begin with.",
            show_default=False,
            metavar="SCENARIO",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            "--set",
            help="Override a value of the file, such as study.pareto.budget=1.5x, "
            "workload.trace=other.parquet, or clouds.capacity=30. May be repeated.",
            metavar="KEY=VALUE",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[
        bool,
        COMMON,
        typer.Option(
            "--list", help="Check the scenario and show what would run, without running it."
        ),
    ] = False,
    output_format: Annotated[
        RunFormat,
        COMMON,
        typer.Option(
            "--output-format",
            help="Form of the results on standard output.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = RunFormat.table,
    out: Annotated[
        Path | None,
        COMMON,
        output_option(
            "--output",
            "-o",
            help="Folder for the documents, instead of the scenario's dir; made if missing.",
            metavar="DIR",
        ),
    ] = None,
    allow_unchecked: AllowUnchecked = False,
    full: Full = False,
    cache: CacheFolder = None,
    no_cache: Annotated[NoCache, COMMON] = False,
) -> None:
    """Run the studies of a scenario file, write its documents, and check its gates.

    The file is checked as a whole before anything runs, and only what has changed since is computed
    again.
    """
    cache_folder = chosen_folder(cache, no_cache=no_cache)
    scenario = load_scenario(source, settings or ())
    with open_cache(cache_folder) as kept:
        if listed:
            _show_plan(scenario, kept, output_format)
            return
        folder, forms = out, FORMS
        if scenario.documents is not None:
            folder = out or scenario.folder / scenario.documents.folder
            forms = scenario.documents.forms
        if folder is not None:
            check_folder(folder, forms, scenario.inputs)
        document = run_scenario(scenario, kept, time=time_stamp(None))
    document = replace(document, gates=allowing(document.gates, allow_unchecked))
    for path in write_document(document, folder, forms) if folder is not None else ():
        messages.note(f"wrote {path}")
    for study in document.studies:
        for warning in study.warnings:
            messages.warn(f"{study.name}: {warning}")
    write_stdout(_text(document, output_format, full=full))
    if output_format is RunFormat.table and not full:
        messages.note("--full shows the tables of every study")
    conclude(document, is_written=folder is not None)


def _text(document: Document, form: RunFormat, *, full: bool) -> str:
    match form:
        case RunFormat.json:
            return as_json(document)
        case RunFormat.md:
            return TEXTS["md"](document)
        case RunFormat.table if not full:
            return opening(document, sys.stdout)
        case RunFormat.table:
            return _all_tables(document, sys.stdout)


def _show_plan(scenario: Scenario, cache: Cache, form: RunFormat) -> None:
    for warning in scenario.warnings:
        messages.warn(warning)
    workload = scenario.workload
    made = (workload.command, *workload.arguments) if workload.command else ()
    studies, rows = [], []
    for study, cached in planned(scenario, cache):
        arguments = (workload.trace, *study.arguments)
        studies.append(PlannedStudy(study.name, study.command, arguments, cached))
        words = shlex.join(["gpuplan", study.command, *arguments])
        rows.append((study.name, "yes" if cached else "no", words))
    emit(
        Report(
            command="run",
            results=plain(
                RunResults(RunWorkload(workload.trace, made), tuple(studies), tuple(scenario.gates))
            ),
            tables=(Table("What would run", tuple(Column(name, name) for name in PLANNED), rows),),
        ),
        Output(output_format=ResultFormat(form.value)),
    )


def _all_tables(document: Document, stream: TextIO) -> str:
    """Return every study under its command, as wide as ``stream`` where it is a terminal."""
    parts = [
        f"# {study.name}\n"
        f"{terminal(f'$ gpuplan {study.command} {shlex.join(study.arguments)}')}\n\n"
        f"{as_text(_report(study), stream)}"
        for study in document.studies
    ]
    if document.gates:
        rows = [(gate.condition, gate.state, gate.detail) for gate in document.gates]
        gates = Report(command="run", results={}, tables=(Table("Gates", GATES, rows),))
        parts.append(as_text(gates, stream))
    return "\n".join(parts)


def _report(study: StudyResult) -> Report:
    """Return a result as the renderer takes it, its cells as they were shown."""
    return Report(
        command=study.command,
        results=study.results,
        tables=tuple(_table(grid) for grid in study.tables),
        headline=study.headline,
    )


def _table(grid: TableGrid) -> Table:
    columns = tuple(Column(heading.text, heading.text) for heading in grid.headings)
    return Table(
        grid.title, columns, [[Shown(cell.value, cell.text) for cell in row] for row in grid.rows]
    )
