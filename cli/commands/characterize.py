"""``gpuplan characterize``: what a workload is, or how several differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.option import Group
from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.log_choice import TRACE_HELP
from gpuplan.cli.options.shared_options import (
    OutputWithoutRows,
    PeriodChoice,
    Reference,
)
from gpuplan.planner.money.price_request import PriceRequest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.characterize import CharacterizeRequest, CharacterizeStudy

RESAMPLES = 200


def characterize(
    trace: Annotated[
        list[Path],
        typer.Argument(
            help=f"{TRACE_HELP} Several are compared.",
            show_default=False,
            metavar="TRACE|LOG",
        ),
    ],
    choice: PeriodChoice,
    prices: Annotated[PriceRequest, Group(without=("provider",), common=("prices", "gpu"))],
    top: Annotated[
        int,
        COMMON,
        typer.Option(
            help="Rows of the class, user, and group tables; the last row sums the rest.", min=1
        ),
    ] = 10,
    fits: Annotated[
        bool,
        COMMON,
        typer.Option(
            "--fits",
            help="Fit heavy-tailed models to durations and gaps, and name the best.",
        ),
    ] = False,
    ci: Annotated[
        float | None,
        COMMON,
        typer.Option(
            help="Add confidence intervals of this level in percent, such as 95, by a "
            "block bootstrap.",
            show_default=False,
        ),
    ] = None,
    resamples: Annotated[
        int | None,
        typer.Option(
            help=f"Resamples of the bootstrap behind --ci. Default: {RESAMPLES}.",
            min=1,
            show_default=False,
        ),
    ] = None,
    reference: Reference = None,
) -> Study[CharacterizeRequest]:
    """Describe a workload: durations, GPU time, arrivals, load, groups, and cost."""
    from gpuplan.analysis.base.errors import UsageError
    from gpuplan.analysis.characterize.options import PortraitOptions
    from gpuplan.planner.studies.characterize import CharacterizeRequest

    if resamples is not None and ci is None:
        raise UsageError("--resamples: needs --ci LEVEL")
    request = CharacterizeRequest(
        traces=tuple(trace),
        jobs=choice.selection(),
        options=PortraitOptions(top, fits, ci, resamples or RESAMPLES, choice.seed),
        prices=prices,
        reference=reference,
    )
    return Study(request, _answer)


COMMAND = StudyCommand(
    "characterize",
    characterize,
    "gpuplan characterize trace.parquet --fits --ci 95",
    output=OutputWithoutRows,
    has_rows=False,
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: CharacterizeRequest) -> Report:
    from gpuplan.planner.studies.characterize import characterize as run

    with messages.progress("characterizing") as progress:
        found = run(request, progress)
    parameters = plain(request.parameters())
    return (_one if len(found.traces) == 1 else _several)(found, parameters)


def _one(found: CharacterizeStudy, parameters: dict[str, Any]) -> Report:
    from gpuplan.cli.tables.characterize_tables import (
        gpu_type_table,
        main_statistics,
        workload_headline,
        workload_tables,
    )
    from gpuplan.cli.tables.fit_tables import fit_tables
    from gpuplan.cli.tables.price_tables import bill_tables

    (portrait,), bill = found.portraits, found.bill

    def draw() -> Figure:
        from gpuplan.cli.figures.workload import draw_workload

        return draw_workload(portrait.workload, portrait.fits)

    tables = workload_tables(portrait.workload, portrait.intervals)
    types = () if found.today is None else (gpu_type_table(found.today),)
    return Report(
        command="characterize",
        results=plain(found.results),
        tables=(
            tables[0],
            *types,
            *tables[1:],
            *(fit_tables(portrait.fits) if portrait.fits else ()),
            *(() if bill is None else bill_tables(bill.cost, bill.view)),
        ),
        inputs=found.inputs,
        parameters=parameters,
        headline=workload_headline(portrait.workload, found.today, parameters.get("period")),
        warnings=found.warnings,
        caveats=found.caveats,
        answer=(*types, main_statistics(tables[0])),
        figure=draw,
    )


def _several(found: CharacterizeStudy, parameters: dict[str, Any]) -> Report:
    from gpuplan.cli.tables.trace_comparison import comparison_headline, comparison_tables

    def draw() -> Figure:
        from gpuplan.cli.figures.cdf import draw_comparison

        return draw_comparison(
            list(found.names), [portrait.workload for portrait in found.portraits]
        )

    return Report(
        command="characterize",
        results=plain(found.results),
        tables=tuple(comparison_tables(found.names, found.portraits, found.pairs)),
        inputs=found.inputs,
        parameters=parameters,
        headline=comparison_headline(found.names, found.portraits),
        warnings=found.warnings,
        figure=draw,
    )
