"""Options that several commands share, and the decorator that gives them to a command.

A command takes ``output: Output`` or another dataclass of options as one parameter; `command`
replaces it by the options that the class lists, in the order of its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuplan.cli.app import messages
from gpuplan.cli.app.help_pages import show_command_help
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.arguments import command_of, declare, spread, take


class ResultFormat(StrEnum):
    """How a result is written to standard output."""

    table = "table"
    json = "json"
    md = "md"
    csv = "csv"


CACHE_PANEL = "Cache"
OUTPUT_PANEL = "Output"
output_option = partial(typer.Option, rich_help_panel=OUTPUT_PANEL, show_default=False)
"""Declares an option of output, whose default the help does not show."""

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
    return output_option(
        "--output",
        "-o",
        help=f"Also write the result to a file: {forms}. May be repeated.",
    )


TextFiles = Annotated[list[Path] | None, COMMON, result_files(".json, .md, .csv, .txt")]
Plot = Annotated[
    list[Path] | None,
    output_option(
        help="Write the chart to this .svg or .png file. May be repeated.",
    ),
]
FailIf = Annotated[
    list[str] | None,
    COMMON,
    output_option(
        help="Exit with 1 if this holds, such as 'duration_s.p95 > 4h'. May be repeated.",
        metavar="CONDITION",
    ),
]
WarnIf = Annotated[
    list[str] | None,
    output_option(
        help="Warn if this holds, and go on: as --fail-if, with the exit code left as it is; may "
        "be repeated.",
    ),
]
AllowUnchecked = Annotated[
    bool,
    typer.Option(
        "--allow-unchecked",
        help="Pass a --fail-if condition that cannot be checked because its field has no value "
        "here or its row is missing. Default: exit with 1.",
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


@dataclass(frozen=True, slots=True)
class ReplayOutput(Output):
    """Where and how a replay shows its result, with what happened over time."""

    timeline: Annotated[
        Path | None,
        output_option(
            help="Write a time line to this file (.parquet). Policies that rent: "
            "threshold, pressure, queue, workers by provider, offers, and price paid "
            "at every tick. Policies of one cluster: GPUs in use and jobs waiting.",
            metavar="FILE",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class IngestOutput:
    """How the account of an ingest is shown."""

    output_format: OutputFormat = ResultFormat.table


@dataclass(frozen=True, slots=True)
class PricesOutput:
    """How the account of a price table is shown."""

    output_format: OutputFormat = ResultFormat.table
    plot: Annotated[Plot, COMMON] = None
    fail_if: Annotated[
        list[str] | None,
        COMMON,
        output_option(
            help="Exit with 1 if this holds, such as 'rows_rejected > 0' or 'offers.saving "
            "< 20%'. The table is written in any case. May be repeated.",
        ),
    ] = None
    allow_unchecked: AllowUnchecked = False


@dataclass(frozen=True, slots=True)
class SynthOutput:
    """How the comparison with the original is shown."""

    output_format: Annotated[
        ResultFormat,
        COMMON,
        typer.Option(
            "--output-format",
            help="Form of the comparison on standard output.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = ResultFormat.table
    fail_if: Annotated[
        list[str] | None,
        COMMON,
        output_option(
            help="Exit with 1 if this holds, such as 'statistics_outside > 0'. May be repeated.",
        ),
    ] = None
    allow_unchecked: AllowUnchecked = False


OUTPUTS = {"ingest": IngestOutput, "prices": PricesOutput, "synth": SynthOutput}
"""Study that writes a table -> where and how its account is shown."""


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
