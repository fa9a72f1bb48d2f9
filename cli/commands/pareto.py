"""``gpuplan pareto``: what mean completion time does each GPU budget buy, and with which widths."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.cli import talk
from gpuplan.cli.emit import check_output, emit
from gpuplan.cli.options import Output, TraceArgument, TraceChoice, command
from gpuplan.cli.pareto_tables import headline, points_table, warnings, widths_table
from gpuplan.cli.report import Report, trace_input
from gpuplan.cli.units import parse_duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.trace import Trace
    from gpuplan.planner.boa.study import Study

EXAMPLE = "gpuplan pareto trace.parquet --budget 1.2x,1.5x,2x --speedup power:0.8"


class ClassBy(StrEnum):
    """Columns that may tell job classes apart."""

    job_class = "job_class"
    user = "user"
    group = "group"
    num_gpus = "num_gpus"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "pareto", example=EXAMPLE)(pareto)


def pareto(
    trace: TraceArgument,
    choice: TraceChoice,
    output: Output,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Budgets, comma-separated: average GPUs (60 or 60gpu), times the load (1.2x), "
            "dollars ($12/h, $10000/month; with --price), or ranges LOW:HIGH:COUNT of them. "
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
    speedup: Annotated[
        str | None,
        typer.Option(
            help="How jobs speed up with GPUs: amdahl:SIGMA, usl:SIGMA,KAPPA, power:ALPHA, each "
            "also with ranges (power:0.6..0.9), profile:NAME, or a CSV of measured throughputs; "
            "see gpuplan list speedups. Default: power:0.8, an assumption.",
            show_default=False,
        ),
    ] = None,
    class_by: Annotated[
        ClassBy, typer.Option(help="Column that tells job classes apart.")
    ] = ClassBy.job_class,
    horizon: Annotated[
        str | None,
        typer.Option(
            help="Time over which the jobs arrive, for example 48h. Default: the span of their "
            "submissions.",
            show_default=False,
        ),
    ] = None,
    rescale: Annotated[
        str | None,
        typer.Option(
            help="Time a job loses at its start and at each change of width, for example 20s. "
            "Default: what the profile measured, else 0.",
            show_default=False,
        ),
    ] = None,
    max_width: Annotated[
        int | None,
        typer.Option(
            help="Most GPUs one job may get. Default: 64, or all that a profile measured.",
            min=1,
            show_default=False,
        ),
    ] = None,
    widths: Annotated[
        str | None,
        typer.Option(
            help="The GPU counts a job may get, for example 1,2,4,8,16. Default: every count "
            "up to --max-width, from the fewest measured.",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=W",
            help="What an hour of a class' jobs counts in the mean that is minimized, for example "
            "bert=2; may be repeated. Default: 1, the plain mean.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(help="Price of one GPU for one hour, in dollars.", show_default=False),
    ] = None,
) -> None:
    """Show what mean job completion time each GPU budget buys, and with which widths."""
    from gpuplan.analysis.trace import read_trace
    from gpuplan.cli.budgets import parse_budgets
    from gpuplan.planner.boa.study import study_frontier
    from gpuplan.planner.boa.workload import COLUMNS, Choices, parse_weights, parse_widths
    from gpuplan.planner.speedup.registry import DEFAULT_SPEEDUP, load_speedup
    from gpuplan.simkit.jit import compiling

    check_output(output, picture=True, rows=True, inputs=[trace, speedup])
    if price is not None and not 0 < price < float("inf"):
        raise UsageError(f"--price must be above 0 dollars per GPU-hour, got {price:g}")
    budgets = parse_budgets(budget, price) if budget is not None else []
    targets = (
        [parse_duration(text, "--target-jct") for text in target_jct.split(",")]
        if target_jct is not None
        else []
    )
    choices = Choices(
        class_by=class_by.value,
        horizon_s=None if horizon is None else parse_duration(horizon, "--horizon"),
        rescale_s=None if rescale is None else parse_duration(rescale, "--rescale"),
        max_width=max_width,
        widths=None if widths is None else parse_widths(widths),
        scale_work=choice.scale_duration,
        weights=parse_weights(weight or []),
    )
    model = load_speedup(DEFAULT_SPEEDUP if speedup is None else speedup)
    with talk.progress("reading"):
        read = read_trace(trace, choice.selection(), columns=COLUMNS)
    with (
        compiling(lambda: talk.note("compiling the solver, once")),
        talk.progress("solving") as progress,
    ):
        study = study_frontier(
            read,
            model,
            choices,
            budgets=budgets,
            targets_s=targets,
            price_usd_per_gpu_h=price,
            progress=progress,
        )
    parameters = {
        "budget": budget,
        "target_jct_s": targets,
        "speedup": model.name if speedup is None else speedup,
        "class_by": choices.class_by,
        "horizon_s": choices.horizon_s,
        "rescale_s": choices.rescale_s,
        "max_width": max_width,
        "widths": choices.widths and list(choices.widths),
        "weights": dict(choices.weights),
        "price_usd_per_gpu_h": price,
        **choice.parameters(),
    }
    emit(_report(study, read, parameters, assumed=speedup is None), output)


def _report(study: Study, trace: Trace, parameters: dict[str, Any], *, assumed: bool) -> Report:
    def figure() -> Figure:
        from gpuplan.cli.figures.frontier import draw_frontier

        return draw_frontier(study)

    return Report(
        command="pareto",
        results=study.summary(),
        tables=(points_table(study), widths_table(study)),
        inputs=(trace_input(trace),),
        parameters=parameters,
        headline=headline(study),
        warnings=(*trace.notes, *warnings(study, assumed=assumed), *study.workload.notes),
        figure=figure,
        frame=study.to_frame,
    )
