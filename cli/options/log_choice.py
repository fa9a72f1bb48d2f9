"""Options of every command that takes a log, and how they become the library's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.completion import log_formats, one_of

if TYPE_CHECKING:
    from gpuplan.analysis.job_table.log_options import LogOptions

READING_PANEL = "How to read the input"
TRACE_HELP = (
    "A canonical trace (Parquet), or a log in any format: a file, a folder or - for standard input."
)
DEFAULT_REJECTS = "1%"

REJECTS_OPTION = typer.Option(
    help="Fail if more rows than this are unusable: a share (1%, 0.01) or a count (20).",
    metavar="SHARE|COUNT",
    rich_help_panel=READING_PANEL,
)

KEEP_OPTION = typer.Option(
    help="Keep this column of the log in the trace, for --where, --spot, and --by of bill and "
    "forecast. May be repeated.",
    metavar="COLUMN",
    show_default=False,
    rich_help_panel=READING_PANEL,
)


def format_option(help_text: str, names: Callable[[], Iterable[str]]) -> Any:
    """Return the option ``--source-format``, completed by the names of the formats."""
    return typer.Option(
        help=help_text,
        metavar="NAME",
        autocompletion=one_of(names),
        show_default=False,
        rich_help_panel=READING_PANEL,
    )


MaxRejects = Annotated[str, COMMON, REJECTS_OPTION]
MapValue = Annotated[
    list[str] | None,
    typer.Option(
        "--map-value",
        help="Read a word of the log as this state or priority, such as state:Reaped=preempted or "
        "priority:batch=spot; in any case. May be repeated.",
        metavar="COLUMN:WORD=VALUE",
        rich_help_panel=READING_PANEL,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class LogChoice:
    """How a command reads a log that is given in place of a trace."""

    source_format: Annotated[
        str | None,
        format_option(
            "Format of a log; [cyan]gpuplan list formats[/cyan] names them. Default: detected.",
            log_formats,
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Take a canonical column from this column of the log or from an expression, for "
            "example job_class=model_type or num_gpus='gpus * pods'. May be repeated.",
            metavar="CANONICAL=COLUMN",
            rich_help_panel=READING_PANEL,
            show_default=False,
        ),
    ] = None
    values: MapValue = None
    time_zone: Annotated[
        str | None,
        typer.Option(
            help="Zone of times in a log that have no offset, for example Europe/Berlin.",
            metavar="NAME",
            rich_help_panel=READING_PANEL,
            show_default=False,
        ),
    ] = None
    max_rejects: Annotated[str, REJECTS_OPTION] = DEFAULT_REJECTS
    keep: Annotated[list[str] | None, KEEP_OPTION] = None

    def log_options(self) -> LogOptions:
        """Return the library's form of these options. Raises `UsageError` on a bad value."""
        from gpuplan.analysis.job_table.log_options import LogOptions, mapping, value_mapping
        from gpuplan.analysis.job_table.reject_limit import Limit

        return LogOptions(
            self.source_format,
            mapping(self.columns or ()),
            value_mapping(self.values or ()),
            self.time_zone,
            Limit.of(self.max_rejects),
            tuple(dict.fromkeys(self.keep or ())),
        )

    def given_options(self) -> dict[str, Any]:
        """Return those that are not the default, by the names they have in a scenario."""
        given = {
            "source_format": self.source_format,
            "map": self.columns,
            "map_value": self.values,
            "time_zone": self.time_zone,
            "max_rejects": None if self.max_rejects == DEFAULT_REJECTS else self.max_rejects,
            "keep": self.keep,
        }
        return {name: value for name, value in given.items() if value}
