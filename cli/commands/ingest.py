"""``gpuplan ingest``: bring a job log into the canonical schema."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Column, Report, Table
from gpuplan.cli.options.completion import log_formats
from gpuplan.cli.options.log_choice import (
    KEEP_OPTION,
    READING_PANEL,
    MapValue,
    MaxRejects,
    format_option,
    mapping,
    value_mapping,
)
from gpuplan.cli.options.outputs import table_file
from gpuplan.cli.options.shared_options import (
    OutputFormat,
    ResultFormat,
    the_only,
)

if TYPE_CHECKING:
    from gpuplan.analysis.ingest.ingest import IngestResult
    from gpuplan.planner.studies.ingest import IngestRequest

EXAMPLE = "gpuplan ingest trace_seren.csv -o seren.parquet"


class Duration(StrEnum):
    """Which durations count where a log has them beside starts and ends."""

    computed = "computed"
    source = "source"


@dataclass(frozen=True, slots=True)
class IngestOutput:
    """How the account of an ingest is shown."""

    output_format: OutputFormat = ResultFormat.table


def ingest(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Job logs: CSV, JSON, JSON lines or Parquet, plain, .gz, .zst, "
            ".zip or .tar, folders of them, or - for standard input. Several are joined in this "
            "order; other files in a folder or archive are left out and listed.",
            metavar="SRC",
            show_default=False,
        ),
    ],
    outs: Annotated[
        list[Path],
        COMMON,
        table_file(
            "Trace to write (.parquet). Unusable rows go to <name>.rejects.parquet next to it.",
        ),
    ],
    source_format: Annotated[
        str | None,
        COMMON,
        format_option(
            "Format of the log, instead of detecting it; see [cyan]gpuplan list formats[/cyan].",
            log_formats,
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            "--map",
            help="Take a canonical column from this column of the log or from an expression, for "
            "example job_class=model_type or num_gpus='gpus * pods': adds to a detected format or "
            "overrides it. Other tables need submit_time and num_gpus. May be repeated.",
            metavar="CANONICAL=COLUMN",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    values: MapValue = None,
    keep: Annotated[list[str] | None, KEEP_OPTION] = None,
    time_zone: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Time zone of times without an offset, such as Europe/Berlin. Default: "
            "the format's, else UTC.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    throughputs: Annotated[
        Path | None,
        typer.Option(
            help="Steps per second of each job type, to turn the steps of a Gavel trace "
            "into durations: a CSV of worker_type, job_type, scale_factor, "
            "steps_per_second, or Gavel's JSON; plain, .gz, or .zst.",
            metavar="FILE",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    worker_type: Annotated[
        str | None,
        typer.Option(
            help="Worker type in --throughputs that jobs run on, such as v100.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    duration: Annotated[
        Duration,
        typer.Option(
            help="Durations of seren, kalos, and helios logs: computed (end - start), or "
            "source (the log's own seconds, to reproduce published numbers).",
            rich_help_panel=READING_PANEL,
        ),
    ] = Duration.computed,
    twin: Annotated[
        bool,
        typer.Option(
            "--twin",
            help="Keep the scheduler's fields of a Slurm or SWF log too: limits, partitions, QOS, "
            "eligible times and more, for [bold]gpuplan calibrate[/bold].",
            rich_help_panel=READING_PANEL,
        ),
    ] = False,
    max_rejects: MaxRejects = "1%",
) -> Study[IngestRequest]:
    """Read a job log into a trace, and account for every row."""
    from gpuplan.analysis.job_table.reject_limit import Limit
    from gpuplan.planner.studies.ingest import IngestRequest

    request = IngestRequest(
        sources=tuple(sources),
        output=the_only(outs),
        source_format=source_format,
        columns=mapping(columns or ()),
        values=value_mapping(values or ()),
        keep=tuple(dict.fromkeys(keep or ())),
        time_zone=time_zone,
        throughputs=throughputs,
        worker_type=worker_type,
        own_durations=duration is Duration.source,
        max_rejects=Limit.of(max_rejects),
        twin=twin,
    )
    return Study(request, _answer)


COMMAND = StudyCommand(
    "ingest", ingest, EXAMPLE, output=IngestOutput, has_picture=False, has_rows=False
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: IngestRequest) -> Report:
    from gpuplan.planner.studies.ingest import ingest as run

    with messages.progress("reading") as advance:
        return _report(run(request, advance), request)


def _report(result: IngestResult, request: IngestRequest) -> Report:
    summary = plain(result)
    rejected, by_reason = summary["rows_rejected"], summary["rejected_by_reason"]
    provenance = result.provenance
    facts = [
        (key, value)
        for key, value in summary.items()
        if not isinstance(value, dict | list) and key != "recognized_by"  # a long sentence
    ]
    tables = [Table("Trace", (Column("field", "field"), Column("value", "value")), facts)]
    if by_reason:
        reasons = (Column("reason", "reason"), Column("rows", "rows"))
        tables.append(Table("Rejected rows", reasons, list(by_reason.items())))
    if provenance.notes:
        tables.append(
            Table("Notes", (Column("note", "note"),), [(note,) for note in provenance.notes])
        )
    unused = f"{counted(rejected, 'row')} cannot be used; see {result.rejects_file}"
    warnings = ((unused,) if rejected else ()) + result.warnings
    return Report(
        command="ingest",
        results=summary,
        tables=tuple(tables),
        inputs=tuple(
            InputFile(path=source.name, sha256=source.sha256, rows=rows)
            for source, rows in zip(provenance.sources, result.rows_by_source, strict=True)
        ),
        parameters=plain(request.parameters()),
        headline=f"{counted(provenance.rows_kept, 'job')} in {result.output}",
        warnings=warnings,
    )
