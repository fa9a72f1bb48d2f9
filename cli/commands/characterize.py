"""``gpuplan characterize``: what a workload is, or how several differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import UnsetType

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

    from gpuplan.planner.studies.characterize import (
        CharacterizeRequest,
        CharacterizeResults,
        TraceBill,
        WorkloadComparison,
    )

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
    from gpuplan.planner.studies.characterize import WorkloadComparison
    from gpuplan.planner.studies.characterize import characterize as run

    with messages.progress("characterizing") as progress:
        study = run(request, progress)
    results, parameters = study.results, plain(request.parameters())
    report = (
        _compared(results)
        if isinstance(results, WorkloadComparison)
        else _one(results, study.bill, parameters.get("period"))
    )
    return replace(
        report,
        results=plain(results),
        inputs=study.inputs,
        parameters=parameters,
        warnings=study.warnings,
        caveats=study.caveats,
    )


def _one(
    workload: CharacterizeResults, bill: TraceBill | None, period: dict[str, str | None] | None
) -> Report:
    from gpuplan.cli.tables.characterize_tables import (
        gpu_type_table,
        main_statistics,
        workload_headline,
        workload_tables,
    )
    from gpuplan.cli.tables.fit_tables import fit_tables
    from gpuplan.cli.tables.price_tables import bill_tables

    def draw() -> Figure:
        from gpuplan.cli.figures.workload import draw_workload

        return draw_workload(workload)

    tables = workload_tables(workload)
    types = () if workload.today is None else (gpu_type_table(workload.today),)
    return Report(
        command="characterize",
        results={},
        tables=(
            tables[0],
            *types,
            *tables[1:],
            *(() if isinstance(workload.fits, UnsetType) else fit_tables(workload.fits)),
            *(() if bill is None else bill_tables(bill.cost, bill.view)),
        ),
        headline=workload_headline(workload, workload.today, period),
        answer=(*types, main_statistics(tables[0])),
        figure=draw,
    )


def _compared(results: WorkloadComparison) -> Report:
    from gpuplan.cli.tables.trace_comparison import comparison_headline, comparison_tables

    names = [trace.name for trace in results.traces]
    workloads = [trace.workload for trace in results.traces]

    def draw() -> Figure:
        from gpuplan.cli.figures.cdf import draw_comparison

        return draw_comparison(names, workloads)

    return Report(
        command="characterize",
        results={},
        tables=tuple(comparison_tables(names, workloads, results.comparison)),
        headline=comparison_headline(names, workloads),
        figure=draw,
    )
