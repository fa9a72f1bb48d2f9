"""``gpuplan sweep``: which serverless threshold, at what cost and completion time."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.cli import talk
from gpuplan.cli.emit import check_output, emit
from gpuplan.cli.options import Output, TraceArgument, TraceChoice, command
from gpuplan.cli.replays import COMPILING, DeadlineFactor, IncludeRunning
from gpuplan.cli.report import Column, Report, Table, trace_input
from gpuplan.cli.units import show_count, show_duration, show_share, show_threshold, show_usd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.allpass.sweep import Sweep, SweepPoint

EXAMPLE = "gpuplan sweep trace.parquet --threshold 30,60,5m,10m,30m --plot sweep.png"
DEFAULT_THRESHOLDS = "30,60,120,300,600,1800,3600"


class Rule(StrEnum):
    """What sets the threshold."""

    fixed = "fixed"
    adaptive = "adaptive"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "sweep", example=EXAMPLE)(sweep)


def sweep(
    trace: TraceArgument,
    choice: TraceChoice,
    output: Output,
    threshold: Annotated[
        str,
        typer.Option(
            help="Run time after which a job moves from serverless to rented workers: a list "
            "(30,60,5m) or LOW:HIGH:COUNT (30s:30m:8); seconds unless a unit is given."
        ),
    ] = DEFAULT_THRESHOLDS,
    policy: Annotated[
        list[Rule] | None,
        typer.Option(
            help="fixed: each threshold as it is; adaptive: one replay in which the threshold "
            "follows the load. May be repeated. Default: both.",
            show_default=False,
        ),
    ] = None,
    capacity: Annotated[
        int | None,
        typer.Option(
            help="Most workers (GPUs) rented at once. Default: no limit.",
            min=0,
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Another parameter of allpass as key=value, for example checkpoint_s=20 or "
            "serverless_usd_per_gpu_h=1.80; may be repeated.",
            show_default=False,
        ),
    ] = None,
    deadline_factor: DeadlineFactor = None,
    include_running: IncludeRunning = False,
    value_of_time: Annotated[
        float,
        typer.Option(
            help="What an hour of a job's delay is worth, in dollars; used by the closed form.",
            min=0.0,
        ),
    ] = 0.0,
    parallel: Annotated[
        int | None,
        typer.Option(
            help="Replays at a time. Default: one per core. The result does not depend on it.",
            min=1,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Replay a trace under many serverless thresholds: cost against completion time."""
    import numpy as np

    from gpuplan.analysis.trace import read_trace
    from gpuplan.cli.settings import parse_settings
    from gpuplan.cli.thresholds import parse_deadline_factor, parse_thresholds
    from gpuplan.planner.allpass.settings import SETTINGS, parameters_from, settings_of
    from gpuplan.planner.allpass.sweep import sweep as run_sweep
    from gpuplan.planner.workload import COLUMNS, jobs_of
    from gpuplan.simkit.jit import compiling

    check_output(output, picture=True, rows=True, inputs=[trace])
    rules = set(policy or Rule)
    thresholds = parse_thresholds(threshold)
    values = parse_settings(settings or [], SETTINGS)
    if "controller" in values:
        raise UsageError("--set controller: a sweep takes it as --policy fixed or adaptive")
    if capacity is not None:
        values["capacity"] = capacity
    base = parameters_from(values)
    factor = parse_deadline_factor(deadline_factor)
    read = read_trace(trace, choice.selection(), columns=COLUMNS)
    deadlines, draws = np.random.default_rng(choice.seed).spawn(2)
    jobs = jobs_of(read, deadlines, factor, include_running=include_running)
    with (
        talk.progress("replaying") as progress,
        compiling(lambda: talk.note(COMPILING)),
    ):
        found = run_sweep(
            jobs,
            base,
            thresholds,
            draws,
            fixed=Rule.fixed in rules,
            adaptive=Rule.adaptive in rules,
            value_of_time=value_of_time,
            workers=parallel,
            progress=progress,
        )

    def figure() -> Figure:
        from gpuplan.cli.figures.sweep import draw_sweep

        return draw_sweep(found)

    shared = settings_of(base)
    del shared["controller"]
    report = Report(
        command="sweep",
        results=found.summary(),
        tables=(_points_table(found), _money_table(found), _closed_form_table(found)),
        inputs=(trace_input(read),),
        parameters={
            "threshold_s": sorted(set(thresholds)),
            "policy": sorted(rules),
            "settings": shared,
            "deadline_factor": factor and list(factor),
            "include_running": include_running,
            "value_of_time_usd_per_h": value_of_time,
            **choice.parameters(),
        },
        headline=_headline(found),
        warnings=(*read.notes, *jobs.notes, *found.warnings),
        figure=figure,
        frame=found.to_frame,
    )
    emit(report, output)


def _headline(found: Sweep) -> str:
    from gpuplan.planner.allpass.sweep import NEARLY

    chosen, everything = found.points[found.recommended], found.reference
    best = "the only replay"
    if len(found.points) > 1:
        best = (
            f"the cheapest of {len(found.points)} thresholds whose mean JCT is within "
            f"{100 * NEARLY:g}% of the least among them"
        )
    return (
        f"Recommended: {_name(chosen)}, {show_usd(chosen.cost_usd)} for a mean JCT of "
        f"{show_duration(chosen.mean_jct_s)}; {best}. Everything serverless would cost "
        f"{show_usd(everything.cost_usd)} for {show_duration(everything.mean_jct_s)}."
    )


def _name(point: SweepPoint) -> str:
    if point.policy == "fixed":
        return f"threshold {show_threshold(point.threshold_s)}"
    mean = show_threshold(point.results["mean_threshold_s"])
    return f"adaptive threshold (mean {mean})"


def _row_name(point: SweepPoint) -> str:
    return show_threshold(point.threshold_s) if point.policy == "fixed" else "adaptive"


ONLY_CSV = (
    "p90_jct_s",
    "p99_jct_s",
    "mean_demotion_s",
    "mean_threshold_s",
    "cost_serverless_usd",
    "cost_marketplace_usd",
    "cost_conventional_usd",
    "worker_busy_share",
    "workers_peak",
)
MARKS = ("recommended", "knee", "non_dominated")


def _points_table(found: Sweep) -> Table:
    named = (Column("", "threshold"), Column("policy", ""), Column("threshold_s", ""))
    measured = (
        Column("cost_usd", "cost", show_usd),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("median_jct_s", "median", show_duration),
        Column("p95_jct_s", "P95", show_duration),
        Column("mean_queue_s", "queue", show_duration),
        Column("finished_serverless_share", "serverless", show_share),
        Column("deadline_miss_share", "late", show_share),
        *(Column(key, "") for key in ONLY_CSV),
    )
    marked = (*(Column(mark, "") for mark in MARKS), Column("", "note"))
    rows: list[list[Any]] = []
    for index, point in enumerate(found.points):
        marks = (
            index == found.recommended,
            index == found.knee,
            index in found.non_dominated,
        )
        words = ("recommended" * marks[0], "knee" * marks[1], "dominated" * (not marks[2]))
        rows.append(
            [
                *(_row_name(point), point.policy, point.threshold_s),
                *(point.results[column.key] for column in measured),
                *(*marks, ", ".join(filter(None, words))),
            ]
        )
    everything = found.reference
    rows.append(
        [
            *("all serverless", "serverless_only", everything.threshold_s),
            *(everything.results[column.key] for column in measured),
            *(*(None for _ in MARKS), "for comparison"),
        ]
    )
    title = "Cost and job completion time (JCT); queue: mean wait; serverless: jobs that end there"
    return Table(title, (*named, *measured, *marked), rows)


def _money_table(found: Sweep) -> Table:
    columns = (
        Column("", "threshold"),
        Column("mean_threshold_s", "mean", show_threshold),
        Column("cost_serverless_usd", "serverless", show_usd),
        Column("cost_marketplace_usd", "marketplace", show_usd),
        Column("cost_conventional_usd", "conventional", show_usd),
        Column("worker_busy_share", "workers busy", show_share),
        Column("workers_peak", "peak", show_count),
        Column("closed_form_cost_usd", "closed form", show_usd),
    )
    keys = [column.key for column in columns[1:-1]]
    rows = [
        [_row_name(point), *(point.results[key] for key in keys), point.closed_form_cost_usd]
        for point in found.points
    ]
    return Table(
        "Where the money goes; closed form: at the median price, no idle or starting workers",
        columns,
        rows,
    )


def _closed_form_table(found: Sweep) -> Table:
    form = found.closed_form
    best_s, competitive_s = form.best_s(), form.competitive_s
    columns = (
        Column("rule", "fixed threshold without a simulation"),
        Column("threshold_s", "threshold", show_threshold),
        Column("cost_usd", "cost", show_usd),
        Column("delay_s", "mean checkpoint and restore", show_duration),
    )
    rows = [
        [name, at, float(form.cost_usd(at)), float(form.delay_s(at))]
        for name, at in (
            ("best for these durations", best_s),
            ("at most twice the best for any durations", competitive_s),
        )
    ]
    title = (
        f"Closed form at {show_usd(form.serverless_usd)} serverless and "
        f"{show_usd(form.serverful_usd)} serverful per GPU-hour"
    )
    return Table(title, columns, rows)
