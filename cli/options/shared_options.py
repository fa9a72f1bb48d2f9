"""Options that several commands share, and the decorator that gives them to a command.

A command takes ``choice: TraceChoice``, ``output: Output`` or another dataclass of options as one
parameter; `command` replaces it by the options that the class lists, in the order of its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.app import messages
from gpuplan.cli.app.help_pages import show_command_help
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.arguments import command_of, declare, spread, take
from gpuplan.cli.options.log_choice import TRACE_HELP, LogChoice

if TYPE_CHECKING:
    from gpuplan.analysis.trace.selection import Selection


class ResultFormat(StrEnum):
    """How a result is written to standard output."""

    table = "table"
    json = "json"
    md = "md"
    csv = "csv"


SELECTION_PANEL = "Which jobs"
PRICES_PANEL = "Prices"
CACHE_PANEL = "Cache"
OUTPUT_PANEL = "Output"
DATE_FORMATS = [
    "%Y-%m-%d",
    *(f"%Y-%m-%d{gap}%H:%M:%S{zone}" for zone in ("", "%z") for gap in "T "),
    "%Y-%m",
]
"""Times without an offset are UTC."""

OutputFormat = Annotated[
    ResultFormat,
    COMMON,
    typer.Option(
        "--output-format",
        help="Form of the result on standard output.",
        metavar="FORM",
        rich_help_panel=OUTPUT_PANEL,
    ),
]


RESULT_FORMS = ".json, .md, .csv, .txt, .svg, .png (picture)"


def result_files(forms: str) -> Any:
    """Return the option for files that take the result in these forms."""
    return typer.Option(
        "--output",
        "-o",
        help=f"Also write the result to a file: {forms}. May be repeated.",
        rich_help_panel=OUTPUT_PANEL,
        show_default=False,
    )


def the_only(files: list[Path]) -> Path:
    """Return the file of an ``--output`` that takes one; a second must not silently replace it.

    Raises `UsageError` for several.
    """
    if len(files) > 1:
        from gpuplan.analysis.base.errors import UsageError

        raise UsageError(f"--output: given {len(files)} times; this command writes one file")
    return files[0]


TextFiles = Annotated[list[Path] | None, COMMON, result_files(".json, .md, .csv, .txt")]
Plot = Annotated[
    list[Path] | None,
    typer.Option(
        help="Write the chart to this .svg or .png file. May be repeated.",
        rich_help_panel=OUTPUT_PANEL,
        show_default=False,
    ),
]
FailIf = Annotated[
    list[str] | None,
    COMMON,
    typer.Option(
        help="Exit with 1 if this holds, such as 'duration_s.p95 > 4h'. May be repeated.",
        metavar="CONDITION",
        rich_help_panel=OUTPUT_PANEL,
        show_default=False,
    ),
]
WarnIf = Annotated[
    list[str] | None,
    typer.Option(
        help="Warn if this holds, and go on: as --fail-if, with the exit code left as it is; may "
        "be repeated.",
        rich_help_panel=OUTPUT_PANEL,
        show_default=False,
    ),
]
AllowUnchecked = Annotated[
    bool,
    typer.Option(
        "--allow-unchecked",
        help="Pass a --fail-if condition that cannot be checked because its field or "
        "row is missing. Default: exit with 1.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        help="Folder of results kept for reuse; safe to delete. Default: "
        "$XDG_CACHE_HOME/gpuplan or ~/.cache/gpuplan.",
        metavar="DIR",
        rich_help_panel=CACHE_PANEL,
        show_default=False,
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache", help="Compute everything and keep nothing.", rich_help_panel=CACHE_PANEL
    ),
]
TraceArgument = Annotated[
    Path,
    typer.Argument(
        help=TRACE_HELP,
        show_default=False,
        metavar="TRACE|LOG",
    ),
]


@dataclass(frozen=True, slots=True)
class TraceChoice(LogChoice):
    """Which jobs of the trace a command uses, and how it reads a log."""

    where: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help='Use only jobs that match this SQL condition, such as "num_gpus >= 8 AND '
            "state = 'completed'\".",
            metavar="CONDITION",
            rich_help_panel=SELECTION_PANEL,
            show_default=False,
        ),
    ] = None
    since: Annotated[
        datetime | None,
        typer.Option(
            help="Use only jobs submitted at this time (UTC) or later.",
            formats=DATE_FORMATS,
            rich_help_panel=SELECTION_PANEL,
            show_default=False,
        ),
    ] = None
    until: Annotated[
        datetime | None,
        typer.Option(
            help="Use only jobs submitted before this time (UTC).",
            formats=DATE_FORMATS,
            rich_help_panel=SELECTION_PANEL,
            show_default=False,
        ),
    ] = None
    as_of: Annotated[
        datetime | None,
        typer.Option(
            help="When the log was taken (UTC): jobs still running hold their GPUs until then. "
            "Default: the log's last submission, start or end.",
            formats=DATE_FORMATS,
            rich_help_panel=SELECTION_PANEL,
            show_default=False,
        ),
    ] = None
    sample: Annotated[
        int | None,
        typer.Option(
            help="Use this many jobs, sampled at random.",
            min=1,
            rich_help_panel=SELECTION_PANEL,
            show_default=False,
        ),
    ] = None
    scale_duration: Annotated[
        float,
        typer.Option(help="Multiply every duration by this.", rich_help_panel=SELECTION_PANEL),
    ] = 1.0
    scale_interarrival: Annotated[
        float,
        typer.Option(
            help="Multiply every gap between submissions by this. 0.5 doubles the load.",
            rich_help_panel=SELECTION_PANEL,
        ),
    ] = 1.0
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of everything random. The same seed gives the same bytes.",
            min=0,
            rich_help_panel=SELECTION_PANEL,
        ),
    ] = 0

    def selection(self) -> Selection:
        """Return the library's form of these options. Raises `UsageError` on a bad value."""
        from gpuplan.analysis.trace.selection import Selection

        return Selection(
            where=self.where,
            since=self.since,
            until=self.until,
            as_of=self.as_of,
            sample=self.sample,
            scale_duration=self.scale_duration,
            scale_interarrival=self.scale_interarrival,
            seed=self.seed,
            log=self.log_options(),
        )

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in the JSON output."""
        return self.selection().parameters()


@dataclass(frozen=True, slots=True)
class PeriodChoice(TraceChoice):
    """Which jobs of the trace a command uses, and the period in which it counts their GPUs."""

    period_from: Annotated[
        datetime | None,
        COMMON,
        typer.Option(
            "--from",
            help="Count GPUs from this time on (UTC), until --to: runs are cut to the period, also "
            "of jobs submitted before. Default: the first submission.",
            formats=DATE_FORMATS,
            rich_help_panel=SELECTION_PANEL,
            show_default=False,
        ),
    ] = None
    period_to: Annotated[
        datetime | None,
        typer.Option(
            "--to",
            help="Count GPUs until this time (UTC), which is not included. Default: the end of the "
            "log.",
            formats=DATE_FORMATS,
            rich_help_panel=SELECTION_PANEL,
            show_default=False,
        ),
    ] = None

    def selection(self) -> Selection:
        """Return the library's form of these options. Raises `UsageError` on a bad value."""
        return replace(
            TraceChoice.selection(self),
            period_from=self.period_from,
            period_to=self.period_to,
        )


Full = Annotated[
    bool,
    COMMON,
    typer.Option(
        "--full",
        help="Show every table and every warning. Default: the answer.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class Output:
    """Where and how a command shows its result."""

    output_format: OutputFormat = ResultFormat.table
    out: Annotated[
        list[Path] | None,
        COMMON,
        result_files(".json, .md, .csv, .txt, .parquet (rows), .svg, .png (picture)"),
    ] = None
    plot: Plot = None
    fail_if: FailIf = None
    allow_unchecked: AllowUnchecked = False
    full: Full = False


@dataclass(frozen=True, slots=True)
class OutputWithoutRows(Output):
    """Where and how a command shows a result that has no rows of its own."""

    out: Annotated[list[Path] | None, COMMON, result_files(RESULT_FORMS)] = None


def _show_all(context: typer.Context, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        show_command_help(context.command, context.command_path, everything=True)
        raise typer.Exit


@dataclass(frozen=True, slots=True)
class Verbosity:
    """How much a command says on standard error."""

    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print no notes and no progress on standard error.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Also print time and memory.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = False
    debug: Annotated[
        bool,
        typer.Option(help="Show the traceback of an error.", rich_help_panel=OUTPUT_PANEL),
    ] = False
    help_all: Annotated[
        bool,
        typer.Option(
            "--help-all",
            help="Show every option and exit.",
            callback=_show_all,
            is_eager=True,
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False


def command(app: typer.Typer, name: str, *, example: str) -> Callable[[Callable[..., None]], None]:
    """Register a function as a command, its grouped parameters spread out as options.

    A parameter is a group where its type is a dataclass, as those above are.
    Every command also gets the options of `Verbosity`. ``example`` stands at the end of its help.
    """

    def register(function: Callable[..., None]) -> None:
        grouped, parameters = spread(function, Verbosity)

        def call(**values: Any) -> None:
            verbosity = take(Verbosity, values)
            messages.manners.quiet, messages.manners.verbose = verbosity.quiet, verbosity.verbose
            messages.manners.debug = verbosity.debug
            messages.listen()
            with messages.effort(name):
                grouped(**values)

        declare(call, function, parameters)
        kind = command_of(parameters)
        app.command(name, cls=kind, epilog=f"Example: [cyan]{example}[/cyan]")(call)

    return register
