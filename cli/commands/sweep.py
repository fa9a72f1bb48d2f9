"""``gpuplan sweep``: which serverless threshold, at what cost and completion time."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.completion import one_of, policies
from gpuplan.cli.options.engine_options import EngineChoice
from gpuplan.cli.options.market_options import MarketChoice, ReplayOutput
from gpuplan.cli.options.replays import COMPILING, ReplayChoice
from gpuplan.cli.options.shared_options import TraceArgument, TraceChoice
from gpuplan.planner.requests.clusters import METAVAR, read_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.compare import PolicySpec
    from gpuplan.planner.studies.sweep import SweepRequest

EXAMPLE = "gpuplan sweep trace.parquet --threshold 30,60,5m,10m,30m --plot sweep.png"
DEFAULT_THRESHOLDS = "30,60,120,300,600,1800,3600"
MOST_RATIO = 1e3
MOST_WORTH_USD = 1e6  # an hour of a job


class ThresholdRule(StrEnum):
    """What sets the threshold."""

    fixed = "fixed"
    adaptive = "adaptive"


def sweep(
    trace: TraceArgument,
    choice: TraceChoice,
    replay: ReplayChoice,
    market: MarketChoice,
    engine: EngineChoice,
    threshold: Annotated[
        str,
        COMMON,
        typer.Option(
            help="Run times after which a job leaves serverless GPUs: a list "
            "(30,60,5m,none) or LOW:HIGH:COUNT (30s:30m:8). Seconds unless a unit is "
            "given."
        ),
    ] = DEFAULT_THRESHOLDS,
    policy: Annotated[
        list[ThresholdRule] | None,
        typer.Option(
            help="fixed: each threshold stays as given. adaptive: one replay whose "
            "threshold follows the load. May be repeated. Default: both.",
            show_default=False,
        ),
    ] = None,
    capacity: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Most workers (GPUs) rented at once. A list such as 10,20,none tries "
            "each. Default: no limit.",
            show_default=False,
        ),
    ] = None,
    price_ratio: Annotated[
        str | None,
        typer.Option(
            help="Rented over serverless price, one or a list such as 0.3,0.5,1. Rented "
            "prices are scaled until the median offer within the largest --capacity "
            "has this ratio. Default: prices as set.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            "--set",
            help="A setting of allpass, such as checkpoint_s=20 or "
            "serverless_usd_per_gpu_h=1.80; see gpuplan list policies allpass. May be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="A policy to compare with, such as today's scheduler: fifo:cluster=8x4. "
            "It replays the same jobs at its own prices and also takes --set. Lists "
            "take /, as in 2d-las:limits_gpu_s=600/3600.",
            metavar="NAME[:KEY=VALUE,...]",
            autocompletion=one_of(policies),
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPUs of today's cluster: 64, or 8x4 (8 nodes of 4 GPUs). With --against, "
            "the cluster of that policy, also x4 (as many nodes of 4 as needed). Default: "
            "the most GPUs the log ever held.",
            metavar=METAVAR,
            show_default=False,
        ),
    ] = None,
    mark: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own fixed threshold, such as 10m or none: replayed, listed in the "
            "table, and marked in the chart.",
            show_default=False,
        ),
    ] = None,
    value_of_time: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Dollars that an hour of completion time is worth, such as 0,1,10. The "
            "recommendation then has the lowest bill plus worth. Default: the "
            "cheapest whose mean JCT is within 10% of the shortest.",
            show_default=False,
        ),
    ] = None,
    ci: Annotated[
        float,
        typer.Option(
            help="Confidence level in percent of the recommendation, by a bootstrap over "
            "blocks of consecutive jobs.",
        ),
    ] = 90.0,
    resamples: Annotated[
        int,
        typer.Option(help="Resamples of that bootstrap; 0 turns it off.", min=0),
    ] = 200,
) -> Study[SweepRequest]:
    """Find when jobs should leave serverless GPUs: cost and completion time by threshold."""
    from gpuplan.cli.options.policy_specs import read_reference, read_spec
    from gpuplan.cli.options.thresholds import (
        parse_capacities,
        parse_mark,
        parse_numbers,
        parse_thresholds,
    )
    from gpuplan.planner.studies.sweep import SweepRequest

    rules = set(policy or ThresholdRule)
    thresholds = parse_thresholds(threshold)
    one_mark, today = _once(mark, "--mark"), _once(against, "--against")
    _check_size(settings or [])
    size = None if cluster is None else read_size(cluster)
    if size is not None and today is None and size.shape.gpus is None:
        raise UsageError(
            f"{size.option}: needs a number of nodes; only --against can find one\n"
            f"  next: --cluster 8{size.shape}, or --against fifo {size.option}"
        )
    ours = read_spec("allpass", settings or [])
    _check_swept(ours, capacity, rules)
    ratios: list[float] = []
    if price_ratio is not None:
        ratios = parse_numbers(price_ratio, "--price-ratio", most=MOST_RATIO, above=True)
    worth: list[float | None] = [None]
    if value_of_time is not None:
        worth = [*parse_numbers(value_of_time, "--value-of-time", most=MOST_WORTH_USD)]
    todays_policy = None
    if today is not None:
        todays_policy = read_reference(
            today, settings or [], size, is_priced=market.prices is not None
        )
    request = SweepRequest(
        replay=replay.request(trace, choice, market),
        policy=ours,
        thresholds_s=tuple(thresholds),
        fixed=ThresholdRule.fixed in rules,
        mark_s=None if one_mark is None else parse_mark(one_mark),
        adaptive=ThresholdRule.adaptive in rules,
        capacities=() if capacity is None else tuple(parse_capacities(capacity)),
        price_ratios=tuple(ratios),
        values_of_time_usd_per_h=tuple(worth),
        against=todays_policy,
        cluster=None if size is None or size.shape.gpus is None else (size.shape.gpus, size.option),
        level=ci,
        resamples=resamples,
        engine=engine.build(),
        mark_text=one_mark,
        cluster_text=None if size is None else str(size.shape),
    )
    return Study(request, _answer)


COMMAND = StudyCommand("sweep", sweep, EXAMPLE, output=ReplayOutput)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: SweepRequest) -> Report:
    from gpuplan.cli.tables.price_notes import price_notes
    from gpuplan.cli.tables.sweep_answer import answer_tables, headline, sweep_warnings
    from gpuplan.cli.tables.sweep_tables import sweep_tables
    from gpuplan.planner.studies.sweep import sweep as run
    from gpuplan.simkit.jit import compiling

    with (
        messages.progress("replaying") as progress,
        compiling(lambda: messages.note(COMPILING)),
    ):
        study = run(request, progress)
    found, marked_s = study.found, request.mark_s

    def figure() -> Figure:
        from gpuplan.cli.figures.sweep import draw_sweep, ratios_without_panel

        missing = ", ".join(f"{ratio:g}" for ratio in ratios_without_panel(found))
        if missing:
            messages.note(f"the picture has no panel for the price ratio {missing}")
        return draw_sweep(found, marked_s)

    hints: tuple[str, ...] = ()
    if request.replay.prices is None:
        policies = [request.policy, *filter(None, [request.against])]
        hints = price_notes(policies, are_scaled=bool(request.price_ratios))
    answer = answer_tables(found, marked_s)
    return Report(
        command="sweep",
        results=plain(study.results),
        tables=(*sweep_tables(found, marked_s), answer[0]),
        inputs=study.inputs,
        parameters=plain(study.parameters),
        headline=headline(found),
        warnings=(*sweep_warnings(found), *study.warnings),
        caveats=study.caveats,
        answer=answer,
        notes=hints,
        figure=figure,
        frame=study.to_frame,
        timeline=found.timeline,
    )


def _once(given: list[str] | None, option: str) -> str | None:
    """Return what was given of an option. Raises `UsageError` where it was given twice."""
    if given and len(given) > 1:
        both = " and ".join(f"{option} {one}" for one in given)
        raise UsageError(f"{both}: give one of {'the two' if len(given) == 2 else 'them'}")
    return given[0] if given else None


def _check_size(settings: list[str]) -> None:
    """Raise `UsageError` where ``--set`` has what is an option here, or of another policy."""
    for text in settings:
        key, _, value = (part.strip() for part in text.partition("="))
        if key in ("gpus", "cluster") and value:
            workers = f"--capacity {value} for the most workers rented, or " * (key == "gpus")
            raise UsageError(
                f"--set {text!r}: no setting {key!r}\n  next: {workers}--against NAME --cluster "
                f"{value} for a cluster"
            )


def _check_swept(ours: PolicySpec, capacity: str | None, rules: set[ThresholdRule]) -> None:
    """Raise `UsageError` where ``--set`` has what a sweep takes otherwise."""
    values, given = ours.settings, ours.given
    if "controller" in values:
        raise UsageError(f"{given['controller']}: a sweep takes it as --policy fixed or adaptive")
    if capacity is not None and "capacity" in values:
        raise UsageError(f"--capacity {capacity} and {given['capacity']}: give one of the two")
    first = values.get("threshold_s")
    lowest, highest = values.get("min_threshold_s", 0.0), ours.effective()["max_threshold_s"]
    if first is not None and (
        ThresholdRule.adaptive not in rules or not lowest <= first <= highest
    ):
        why = (
            f"beyond its limits, {lowest:g} to {highest:g} s"
            if ThresholdRule.adaptive in rules
            else "and --policy fixed replays none"
        )
        fixed = f"{first:g}" if first < math.inf else "none"
        raise UsageError(
            f"{given['threshold_s']}: the adaptive threshold begins there, {why}\n"
            f"  next: --threshold {fixed} replays it as a fixed one"
        )
