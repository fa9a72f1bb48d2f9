"""``gpuplan pareto``: what mean completion time does each GPU budget buy, and with which widths."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.cli import talk
from gpuplan.cli.emit import check_output, emit
from gpuplan.cli.options import Output, TraceArgument, TraceChoice, command
from gpuplan.cli.report import Column, Report, Table, trace_input
from gpuplan.cli.units import (
    parse_duration,
    show_count,
    show_duration,
    show_share,
    show_usd,
)
from gpuplan.planner.boa.show import show_gpus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.analysis.trace import Trace
    from gpuplan.planner.boa.plan import ClassPlan
    from gpuplan.planner.boa.study import Study

EXAMPLE = "gpuplan pareto trace.parquet --budget 1.2x,1.5x,2x --speedup power:0.8"
CLASSES_SHOWN = 15
AVERAGE_NOTE = (
    "a budget is an average over time: the GPUs rented at once peak at 3 to 5 times it on real "
    "traces, so the cloud or cluster must be able to give that many"
)


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
        tables=(_points_table(study), _widths_table(study)),
        inputs=(trace_input(trace),),
        parameters=parameters,
        headline=_headline(study),
        warnings=(*trace.notes, *_warnings(study, assumed=assumed), *study.workload.notes),
        figure=figure,
        frame=study.to_frame,
    )


def _headline(study: Study) -> str:
    frontier, knee = study.frontier, study.knee
    load, least, most, bend = map(
        show_gpus,
        (frontier.load_gpus, frontier.min_budget, frontier.saturation_budget, knee.budget_gpus),
    )
    return (
        f"{study.workload.jobs:,} jobs keep {load} GPUs busy at one GPU each (mean JCT "
        f"{show_duration(frontier.one_gpu_jct_s)}). No budget under {least} GPUs keeps up, none "
        f"over {most} gains; the knee is {bend} GPUs with a mean JCT of "
        f"{show_duration(knee.mean_jct_s)}."
    )


def _warnings(study: Study, *, assumed: bool) -> list[str]:
    warnings = []
    if assumed:
        warnings.append(
            f"no --speedup given: {study.speedup.name} is assumed for every job; results depend on "
            "it, so compare a range (--speedup power:0.6..0.9) or give measurements"
        )
    elif study.speedup.law is not None:
        ends = " to ".join(end.name for end in study.speedup.ends or ())
        between = f", in the middle of {ends}," if ends else ""
        warnings.append(
            f"the speedup {study.speedup.name}{between} is an assumption about every job"
        )
    if study.workload.rescale_origin == "default":
        warnings.append(
            "starting and resizing a job is taken as free; --rescale 20s charges a warm restart, "
            "120s a cold one"
        )
    return [*warnings, AVERAGE_NOTE]


def _points_table(study: Study) -> Table:
    """Return one row per budget."""
    priced = study.price_usd_per_gpu_h is not None
    unit = "$100 a month" if priced else "GPU"
    columns = [
        Column("budget_gpus", "budget (GPUs)", show_gpus),
        Column("budget_x_load", "x load", lambda x: f"{x:.2f}"),
        *([Column("usd_per_month", "$/month", show_usd)] if priced else []),
        Column("mean_jct_s", "mean JCT", show_duration),
    ]
    weighted = study.frontier.is_weighted
    if weighted:
        columns.append(Column("weighted_mean_jct_s", "weighted", show_duration))
    if not study.ends:
        columns.append(Column("mean_jct_over_one_gpu", "of 1-GPU JCT", show_share))
        columns.append(Column("used_gpus", "used (GPUs)", show_gpus))
    else:  # room for the doubt about the speedup
        columns.append(Column("mean_jct_s_at_low_end", "at the low end", show_duration))
        columns.append(Column("mean_jct_s_at_high_end", "at the high end", show_duration))
    columns += [
        # With both a weighted mean and a doubt there is room for it in CSV only.
        Column("utilization", "" if weighted and study.ends else "efficiency", show_share),
        Column(
            "marginal_jct_s_per_100_usd_month" if priced else "marginal_jct_s_per_gpu",
            f"next {unit} saves",
            show_duration,
        ),
        Column("rounded_mean_jct_s", "JCT, no split", show_duration),
    ]
    rows = []
    for point in study.points:
        row = study.row(point)
        at_ends = zip(("low", "high"), point.ends_jct_s, strict=False)
        row |= {f"mean_jct_s_at_{end}_end": jct_s for end, jct_s in at_ends}
        rows.append([row[column.key] for column in columns])
    return Table("What each budget buys", tuple(columns), rows)


def _widths_table(study: Study) -> Table:
    """Return one row per class and stretch of epochs with the same widths."""
    plan = study.shown
    many = len(plan.classes) > CLASSES_SHOWN
    at = "the knee" if plan is study.knee else "the budget"
    title = f"GPUs per job at {at}, {show_gpus(plan.budget_gpus)} GPUs on average"
    if not all(part.rounded for part in plan.widths):
        title += "; of two widths, the plan without a split takes the first"
    if many:
        title += f" ({CLASSES_SHOWN} of {len(plan.classes)} classes, by load; all in JSON)"
    columns = (
        Column("job_class", "job class"),
        Column("jobs", "jobs", show_count),
        Column("load_gpus", "load (GPUs)", show_gpus),
        Column("epochs", "epochs"),
        Column("widths", "GPUs per job"),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("gpus", "holds (GPUs)", show_gpus),
    )
    rows: list[list[Any]] = []
    for job_class, its in list(zip(study.frontier.classes, plan.classes, strict=True))[
        :CLASSES_SHOWN
    ]:
        for position, (epochs, text) in enumerate(_stretches(its)):
            whole = [job_class.name, job_class.jobs, job_class.load_gpus]
            totals = [its.time_h * 3600, its.gpus]
            first = position == 0
            rows.append(
                [*(whole if first else ["", None, None]), epochs, text]
                + (totals if first else [None, None])
            )
    return Table(title, columns, rows)


def _stretches(plan: ClassPlan) -> list[tuple[str, str]]:
    """Return (epochs, widths) of a class as text, epochs of equal widths together, from 1."""
    by_epoch: dict[int, list[str]] = {}
    for part in plan.widths:
        share = "" if part.share == 1 else f" ({show_share(part.share)} of jobs)"
        by_epoch.setdefault(part.epoch, []).append(f"{part.width:g}{share}")
    stretches: list[tuple[int, int, str]] = []
    for epoch, parts in by_epoch.items():
        text = " or ".join(parts)
        if stretches and stretches[-1][2] == text:
            stretches[-1] = (stretches[-1][0], epoch, text)
        else:
            stretches.append((epoch, epoch, text))
    if len(stretches) == 1:
        return [("all", stretches[0][2])]
    return [
        (f"{first + 1}" if first == last else f"{first + 1}-{last + 1}", text)
        for first, last, text in stretches
    ]
