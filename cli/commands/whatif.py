"""``gpuplan whatif``: what a change of a site does to waits, with its error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.log_choice import READING_PANEL
from gpuplan.cli.options.shared_options import DATE_FORMATS, OUTPUT_PANEL, OutputWithoutRows
from gpuplan.cli.options.site_options import SITE_PANEL, LogArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.whatif import WhatIfRequest
    from gpuplan.planner.twin.whatif import WhatIfResults

EXAMPLE = "gpuplan whatif sacct.txt --twin twin.toml --add-nodes 2"
CHANGES_PANEL = "Changes"


def _many(help_text: str, metavar: str) -> Any:
    return typer.Option(
        help=f"{help_text}; may be repeated.", metavar=metavar, show_default=False,
        rich_help_panel=CHANGES_PANEL,
    )  # fmt: skip


def whatif(
    trace: LogArgument,
    twin: Annotated[
        Path,
        COMMON,
        typer.Option(
            help="The site's settings, written by [bold]gpuplan calibrate[/bold].",
            metavar="FILE.toml",
            show_default=False,
            rich_help_panel=SITE_PANEL,
        ),
    ],
    add_nodes: Annotated[
        list[str] | None,
        COMMON,
        _many("Add nodes like the most common one of a partition, or of the site", "[PARTITION=]N"),
    ] = None,
    remove_nodes: Annotated[
        list[str] | None,
        COMMON,
        _many("Remove nodes of the most common kind", "[PARTITION=]N"),
    ] = None,
    values: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            "--set",
            help="Change a setting of twin.toml, for example qos.normal.MaxTRESPU.gpu=32; may "
            "be repeated.",
            metavar="KEY=VALUE",
            show_default=False,
            rich_help_panel=CHANGES_PANEL,
        ),
    ] = None,
    slurm_conf: Annotated[
        list[Path] | None, _many("Take nodes, partitions and priorities from this file", "FILE")
    ] = None,
    load: Annotated[
        list[float] | None,
        COMMON,
        typer.Option(
            "--scale-load",
            help="Multiply the arrival rate of jobs by this; may be repeated.",
            show_default=False,
            rich_help_panel=CHANGES_PANEL,
        ),
    ] = None,
    limits: Annotated[
        list[float] | None,
        COMMON,
        typer.Option(
            "--limits-times",
            help="Multiply every time limit, down to the run time; may be repeated.",
            show_default=False,
            rich_help_panel=CHANGES_PANEL,
        ),
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together",
            help="Make all changes at once, not one by one.",
            rich_help_panel=CHANGES_PANEL,
        ),
    ] = False,
    by: Annotated[
        str,
        COMMON,
        typer.Option(
            help="Groups of the answer: account, user, partition, qos or size.",
            metavar="GROUP",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = "account",
    level: Annotated[
        str | None,
        typer.Option(
            help="Rules to replay: fifo, easy, bf, multifactor, limits or events; otherwise "
            "those that calibrate chose.",
            metavar="LEVEL",
            show_default=False,
            rich_help_panel=SITE_PANEL,
        ),
    ] = None,
    limit_factor: Annotated[
        float | None,
        typer.Option(
            help="Time limit of a job without one, over its run time. Default: as calibrated.",
            min=1.0,
            max=1000.0,
            show_default=False,
            rich_help_panel=READING_PANEL,
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Trip gates on wait growth even where the effect is within its error.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
    validate: Annotated[
        datetime | None,
        COMMON,
        typer.Option(
            help="Instead: replay a change that happened at this time (UTC), with --before "
            "and --after.",
            formats=DATE_FORMATS,
            show_default=False,
            rich_help_panel="A change that happened",
        ),
    ] = None,
    before: Annotated[
        Path | None,
        typer.Option(
            help="slurm.conf before --validate.",
            metavar="FILE",
            show_default=False,
            rich_help_panel="A change that happened",
        ),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(
            help="slurm.conf after --validate.",
            metavar="FILE",
            show_default=False,
            rich_help_panel="A change that happened",
        ),
    ] = None,
) -> Study[WhatIfRequest]:
    """Show what a change of a Slurm site does to waits.

    Whether users would submit otherwise is not modeled.
    """
    from gpuplan.planner.studies.whatif import WhatIfRequest

    request = WhatIfRequest(
        trace,
        twin,
        tuple(add_nodes or ()),
        tuple(remove_nodes or ()),
        tuple(values or ()),
        tuple(slurm_conf or ()),
        tuple(load or ()),
        tuple(limits or ()),
        together=together,
        by=by,
        level=level,
        limit_factor=limit_factor,
        strict=strict,
        validate=validate,
        before=before,
        after=after,
    )
    return Study(request, _answer)


COMMAND = StudyCommand("whatif", whatif, EXAMPLE, output=OutputWithoutRows, has_rows=False)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: WhatIfRequest) -> Report:
    from gpuplan.cli.tables.twin_tables import (
        validation_headline,
        validation_table,
        whatif_headline,
        whatif_tables,
    )
    from gpuplan.planner.studies.whatif import whatif as run
    from gpuplan.planner.twin.whatif import WhatIfResults

    with messages.progress("replaying"):
        study = run(request)
    results = study.results
    draw: Callable[[], Figure] | None = None
    if isinstance(results, WhatIfResults):
        tables = tuple(whatif_tables(results))
        headline, draw = whatif_headline(results, request.strict), partial(_drawn, results)
    else:
        tables = (validation_table(results.validation),)
        headline = validation_headline(results.validation)
    return Report(
        command="whatif",
        results=plain(results),
        tables=tables,
        inputs=study.inputs,
        parameters=plain(request.parameters()),
        headline=headline,
        warnings=study.warnings,
        notes=study.notes,
        figure=draw,
    )


def _drawn(results: WhatIfResults) -> Figure:
    from gpuplan.cli.figures.twin import draw_whatif

    return draw_whatif(results)
