"""``gpuplan pareto``: what mean completion time does each GPU budget buy, and with which widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.app import messages
from gpuplan.cli.documents.emit import emit
from gpuplan.cli.formats.report import Report, trace_input
from gpuplan.cli.options.outputs import check_output
from gpuplan.cli.options.shared_options import Output, TraceArgument, TraceChoice, command
from gpuplan.cli.pareto.options import (
    ComparedChoice,
    MoneyChoice,
    RentingChoice,
    ScalingChoice,
    WidthChoice,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.trace import Trace
    from gpuplan.planner.frontier.reference_points import Mark
    from gpuplan.planner.frontier.study import FrontierStudy, Section
    from gpuplan.planner.frontier.types.typed_study import TypedStudy

EXAMPLE = "gpuplan pareto trace.parquet --budget 1.2x,1.5x,2x --speedup power:0.8"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "pareto", example=EXAMPLE)(pareto)


def pareto(
    trace: TraceArgument,
    scaling: ScalingChoice,
    width: WidthChoice,
    money: MoneyChoice,
    renting: RentingChoice,
    compared: ComparedChoice,
    choice: TraceChoice,
    output: Output,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Budgets, comma-separated: average GPUs (60 or 60gpu), times the load (1.2x), "
            "dollars ($12/h, $10000/month; with a price), or ranges LOW:HIGH:COUNT of them. "
            "Default: 8 from the least to the most that is of use.",
            show_default=False,
        ),
    ] = None,
    target_jct: Annotated[
        str | None,
        typer.Option(
            help="Mean completion times, comma-separated, for example 45m: find the least budget.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what mean job completion time each GPU budget buys, and with which widths."""
    from gpuplan.cli.options.inputs import read_trace
    from gpuplan.cli.pareto.budgets import parse_budgets
    from gpuplan.cli.pareto.parse import choices_of, cluster_of, priced, targets_of
    from gpuplan.cli.pareto.reference_points import parse_reference_points
    from gpuplan.planner.frontier.model.job_classes import COLUMNS
    from gpuplan.planner.frontier.study import study_frontier
    from gpuplan.planner.frontier.types.typed_study import study_types
    from gpuplan.planner.speedup.registry import DEFAULT_SPEEDUP, load_speedup
    from gpuplan.simkit.jit import compiling

    check_output(output, picture=True, rows=True, inputs=[trace, scaling.speedup, money.prices])
    budgets = [] if budget is None else parse_budgets(budget)
    targets = targets_of(target_jct)
    choices = choices_of(scaling, width, scale_work=choice.scale_duration)
    cluster = cluster_of(renting, money)
    names = _baselines(compared.baseline)
    marks = parse_reference_points(compared.mark or [])
    model = load_speedup(DEFAULT_SPEEDUP if scaling.speedup is None else scaling.speedup)
    market = priced(money, model)
    _check_compared(compared, mixed=market.is_mixed, replay=cluster is not None)
    with messages.progress("reading"):
        read = read_trace(trace, choice.selection(), columns=COLUMNS)
    parameters = {
        "budget": budget,
        "target_jct_s": targets,
        "speedup": model.name if scaling.speedup is None else scaling.speedup,
        "class_by": choices.class_by,
        "horizon_s": choices.horizon_s,
        "rescale_s": choices.rescale_s,
        "max_width": choices.max_width,
        "widths": choices.widths and list(choices.widths),
        "width_step": choices.width_step,
        "limits_gpus": dict(choices.limits),
        "require_s": dict(choices.caps_s),
        "weights": dict(choices.weights),
        "gpu": money.gpu or [],
        "recorded_on": money.recorded_on,
        "price_usd_per_gpu_h": {name: one.usd_per_gpu_h for name, one in market.quotes.items()}
        if market.types
        else market.quote and market.quote.usd_per_gpu_h,
        "prices": money.prices,
        "provider": money.provider,
        "replay": cluster is not None,
        "cluster": None if cluster is None else cluster.shape,
        "method": compared.method.value,
        "baselines": list(names),
        "marks": compared.mark or [],
        "ci": compared.ci,
        "sensitivity": compared.sensitivity,
        **choice.parameters(),
    }
    inputs = (trace_input(read), *market.inputs)
    assumed = scaling.speedup is None
    with (
        compiling(lambda: messages.note("compiling the solver, once")),
        messages.progress("solving") as progress,
    ):
        if market.is_mixed:
            typed = study_types(
                read,
                market.model,
                market.quotes,
                choices,
                recorded_on=money.recorded_on,
                budgets=budgets,
                targets_s=targets,
                cluster=cluster,
            )
            report = _typed_report(typed, read, assumed=assumed)
        else:
            study = study_frontier(
                read,
                market.model,
                choices,
                budgets=budgets,
                targets_s=targets,
                price=market.quote,
                method=compared.method.value,
                cluster=cluster,
                progress=progress,
            )
            sections = _sections(study, compared, marks, choice.seed, progress)
            if model.law is not None and not model.ends and (assumed or compared.sensitivity):
                from gpuplan.planner.frontier.uncertainty.sensitivity import laws_of

                sections = (*sections, laws_of(study, read, choices))
            study = replace(study, sections=sections)
            report = _report(study, read, assumed=assumed)
    warnings = (*market.notes, *report.warnings)
    emit(replace(report, parameters=parameters, inputs=inputs, warnings=warnings), output)


def _baselines(asked: list[str] | None) -> tuple[str, ...]:
    """Return the baselines to run. Raises `UsageError` on an unknown one."""
    if not asked:
        return ()
    from gpuplan.planner.frontier.baseline_comparison import names_of

    return names_of(asked)


def _check_compared(compared: ComparedChoice, *, mixed: bool, replay: bool) -> None:
    """Refuse what cannot be compared. Raises `UsageError`."""
    from gpuplan.analysis.errors import UsageError

    asked = {
        "--baseline": bool(compared.baseline),
        "--mark": bool(compared.mark),
        "--method": compared.method.value != "exact",
        "--ci": compared.ci is not None,
        "--sensitivity": compared.sensitivity,
    }
    for option, given in asked.items():
        if given and mixed:
            raise UsageError(f"{option} is for one GPU type, not for several --gpu")
        if option == "--ci" and given and compared.method.value != "exact":
            raise UsageError("--ci is of the optimum: it needs --method exact")
        if given and not replay and option in ("--baseline", "--sensitivity"):
            raise UsageError(f"{option} is replayed: not with --no-replay")


def _sections(
    study: FrontierStudy,
    compared: ComparedChoice,
    marks: Sequence[Mark],
    seed: int,
    progress: messages.Advance,
) -> tuple[Section, ...]:
    """Return what else was asked for."""
    found: list[Section] = []
    if marks:
        from gpuplan.planner.frontier.reference_points import reference_points_of

        found.append(reference_points_of(study, marks))
    if compared.baseline:
        from gpuplan.planner.frontier.baseline_comparison import compare_baselines, names_of

        found.append(compare_baselines(study, names_of(compared.baseline), progress))
    if compared.ci is not None or compared.sensitivity:
        from gpuplan.planner.frontier.uncertainty.confidence import confidence_of, sensitivity_of

        if compared.ci is not None:
            found.append(confidence_of(study, compared.ci, seed, progress))
        if compared.sensitivity:
            found.append(sensitivity_of(study, seed, progress))
    return tuple(found)


def _report(study: FrontierStudy, trace: Trace, *, assumed: bool) -> Report:
    from gpuplan.cli.pareto.headline import headline, warnings
    from gpuplan.cli.pareto.sections import section_tables
    from gpuplan.cli.pareto.tables import study_tables

    def figure() -> Figure:
        from gpuplan.cli.figures.frontier import draw_frontier

        return draw_frontier(study)

    return Report(
        command="pareto",
        results=study.summary(),
        tables=(*study_tables(study), *section_tables(study)),
        headline=headline(study),
        warnings=(*trace.notes, *warnings(study, assumed=assumed)),
        figure=figure,
        frame=study.to_frame,
    )


def _typed_report(study: TypedStudy, trace: Trace, *, assumed: bool) -> Report:
    from gpuplan.cli.pareto.typed import typed_headline, typed_tables, typed_warnings

    def figure() -> Figure:
        from gpuplan.cli.figures.frontier import draw_types

        return draw_types(study)

    return Report(
        command="pareto",
        results=study.summary(),
        tables=tuple(typed_tables(study)),
        headline=typed_headline(study),
        warnings=(*trace.notes, *typed_warnings(study, assumed=assumed)),
        figure=figure,
        frame=study.to_frame,
    )
