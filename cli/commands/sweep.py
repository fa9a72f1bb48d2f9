"""``gpuplan sweep``: which serverless threshold, at what cost and completion time."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.cli import talk
from gpuplan.cli.emit import check_output, emit
from gpuplan.cli.engine_options import EngineChoice
from gpuplan.cli.options import Output, TraceArgument, TraceChoice, command
from gpuplan.cli.replays import COMPILING, DeadlineFactor, IncludeRunning
from gpuplan.cli.report import Report, trace_input

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    engine: EngineChoice,
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
        str | None,
        typer.Option(
            help="Most workers (GPUs) rented at once; a list such as 10,20,none tries each. "
            "Default: no limit.",
            show_default=False,
        ),
    ] = None,
    price_ratio: Annotated[
        str | None,
        typer.Option(
            help="Serverful over serverless price, one or a list such as 0.3,0.5,1: all serverful "
            "prices are scaled until the median offer has that ratio. Default: prices as set.",
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
        str | None,
        typer.Option(
            help="What an hour of a job is worth, in dollars, one or a list such as 0,1,10: the "
            "recommendation is then the least bill plus the worth of all completion times. "
            "Default: the cheapest whose mean JCT is within 10% of the least.",
            show_default=False,
        ),
    ] = None,
    ci: Annotated[
        float,
        typer.Option(
            help="Level in percent of the confidence in the recommendation, from a bootstrap over "
            "blocks of consecutive jobs.",
        ),
    ] = 90.0,
    resamples: Annotated[
        int,
        typer.Option(help="Resamples of that bootstrap; 0 leaves it out.", min=0),
    ] = 200,
) -> None:
    """Replay a trace under many serverless thresholds: cost against completion time."""
    import numpy as np

    from gpuplan.analysis.characterize.intervals import check_level
    from gpuplan.cli.inputs import read_trace
    from gpuplan.cli.settings import parse_settings
    from gpuplan.cli.sweep_tables import headline, sweep_tables
    from gpuplan.cli.thresholds import (
        parse_capacities,
        parse_deadline_factor,
        parse_numbers,
        parse_thresholds,
    )
    from gpuplan.planner.allpass.settings import SETTINGS, parameters_from, settings_of
    from gpuplan.planner.allpass.sweep import Grid
    from gpuplan.planner.allpass.sweep import sweep as run_sweep
    from gpuplan.planner.workload import COLUMNS, jobs_of
    from gpuplan.simkit.jit import compiling

    check_output(output, picture=True, rows=True, inputs=[trace])
    rules = set(policy or Rule)
    thresholds = parse_thresholds(threshold)
    values = parse_settings(settings or [], SETTINGS)
    if "controller" in values:
        raise UsageError("--set controller: a sweep takes it as --policy fixed or adaptive")
    base = parameters_from(values)
    capacities = parse_capacities(capacity) if capacity is not None else [base.capacity]
    ratios = parse_numbers(price_ratio, "--price-ratio") if price_ratio is not None else []
    worth: list[float | None] = [None]
    if value_of_time is not None:
        worth = [*parse_numbers(value_of_time, "--value-of-time")]
    if resamples:
        check_level(ci, resamples)
    factor = parse_deadline_factor(deadline_factor)
    runner = engine.build()
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
            Grid(
                thresholds_s=thresholds if Rule.fixed in rules else (),
                adaptive=Rule.adaptive in rules,
                capacities=capacities,
                price_ratios=ratios,
                values_of_time=worth,
            ),
            draws,
            level=ci if resamples else None,
            resamples=resamples,
            engine=runner,
            progress=progress,
        )

    def figure() -> Figure:
        from gpuplan.cli.figures.sweep import draw_sweep

        return draw_sweep(found)

    shared = settings_of(base)
    for swept in ("controller", "capacity"):
        del shared[swept]
    report = Report(
        command="sweep",
        results=found.summary(),
        tables=sweep_tables(found),
        inputs=(trace_input(read),),
        parameters={
            "threshold_s": sorted(set(thresholds)),
            "policy": sorted(rules),
            "capacity": capacities,
            "price_ratio": ratios or None,
            "settings": shared,
            "deadline_factor": factor and list(factor),
            "include_running": include_running,
            "value_of_time_usd_per_h": None if value_of_time is None else worth,
            "ci": ci if resamples else None,
            "resamples": resamples,
            **choice.parameters(),
        },
        headline=headline(found),
        warnings=(*read.notes, *jobs.notes, *found.warnings),
        figure=figure,
        frame=found.to_frame,
    )
    emit(report, output)
