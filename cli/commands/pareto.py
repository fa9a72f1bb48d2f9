"""``gpuplan pareto``: what mean completion time does each GPU budget buy, and with which widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.option import Group
from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.pareto_options import (
    ComparedChoice,
    PlannedGpuChoice,
    RentingChoice,
    ScalingChoice,
    WidthChoice,
)
from gpuplan.cli.options.shared_options import TraceArgument, TraceChoice
from gpuplan.planner.money.price_request import PriceRequest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.pareto import ParetoRequest

EXAMPLE = "gpuplan pareto trace.parquet --budget 1.2x,1.5x,2x --speedup power:0.8"


def pareto(
    trace: TraceArgument,
    scaling: ScalingChoice,
    width: WidthChoice,
    prices: Annotated[PriceRequest, Group(without=("gpu",))],
    planned: PlannedGpuChoice,
    renting: RentingChoice,
    compared: ComparedChoice,
    choice: TraceChoice,
    budget: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Budgets, comma-separated: relative to today (now, now+20%), average GPUs (60), "
            "times the one-GPU load (1.2x), dollars ($12/h, $10000/month|quarter|year; needs a "
            "price), or a range LOW:HIGH:COUNT. Default: 8, from the least to the most useful.",
            show_default=False,
        ),
    ] = None,
    target_jct: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Mean completion times, comma-separated, such as 45m; finds the least "
            "budget for each.",
            show_default=False,
        ),
    ] = None,
) -> Study[ParetoRequest]:
    """Show how fast jobs finish at each GPU budget, and how many GPUs each class needs."""
    from gpuplan.cli.options.pareto_parsers import (
        choices_of,
        cluster_of,
        gpu_types_of,
        parse_budgets,
        parse_reference_points,
        targets_of,
    )
    from gpuplan.planner.studies.pareto import ParetoRequest

    request = ParetoRequest(
        trace=trace,
        jobs=choice.selection(),
        budgets=() if budget is None else tuple(parse_budgets(budget)),
        target_jct_s=targets_of(target_jct),
        speedup=scaling.speedup,
        classes=choices_of(scaling, width),
        cluster=cluster_of(renting, planned),
        types=gpu_types_of(planned),
        prices=prices,
        method=compared.method.value,
        baselines=_baselines(compared.baseline),
        marks=tuple(parse_reference_points(compared.mark or [])),
        ci=compared.ci,
        sensitivity=compared.sensitivity,
        budget_text=budget,
        gpu_texts=tuple(planned.gpu or ()),
        mark_texts=tuple(compared.mark or ()),
    )
    return Study(request, _answer)


COMMAND = StudyCommand("pareto", pareto, EXAMPLE)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _baselines(names: list[str] | None) -> tuple[str, ...]:
    """Return the baselines to run. Raises `UsageError` on an unknown one."""
    if not names:
        return ()
    from gpuplan.planner.baselines import names_of

    return names_of(names)


def _answer(request: ParetoRequest) -> Report:
    from gpuplan.cli.tables.pareto_answer import answer_tables
    from gpuplan.cli.tables.pareto_headline import caveats, headline, warnings
    from gpuplan.cli.tables.pareto_sections import section_tables
    from gpuplan.cli.tables.pareto_tables import study_tables
    from gpuplan.planner.studies.pareto import first_submit_of
    from gpuplan.planner.studies.pareto import pareto as run
    from gpuplan.simkit.jit import compiling

    with (
        compiling(lambda: messages.note("compiling the solver, once")),
        messages.progress("solving") as progress,
    ):
        answer = run(request, progress)
    study = answer.frontier

    def figure() -> Figure:
        from gpuplan.cli.figures.frontier import draw_frontier

        return draw_frontier(study, first_submit_of(answer.trace))

    first, *others = study_tables(study)
    budgets, *widths = answer_tables(study)
    requested = tuple(section_tables(study, requested_only=True))
    return Report(
        command="pareto",
        results=plain(answer.results),
        tables=(first, budgets, *others, *section_tables(study)),
        inputs=answer.inputs,
        parameters=plain(answer.parameters),
        headline=headline(study),
        warnings=(*warnings(study), *answer.trace.notes),
        caveats=(*answer.caveats, *caveats(study, assumed=request.speedup is None)),
        answer=(budgets, *(requested or widths)),
        figure=figure,
        frame=study.to_frame,
    )
