"""``gpuplan size``: how many GPUs the jobs need, and how many to commit to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.by_type import parse_usd
from gpuplan.cli.options.cluster_options import read_shape
from gpuplan.cli.options.completion import one_of, policies
from gpuplan.cli.options.engine_options import EngineChoice
from gpuplan.cli.options.market_options import MOST_GPUS, MarketChoice
from gpuplan.cli.options.owned_prices import OwnedPriceChoice
from gpuplan.cli.options.replays import COMPILING, ReplayChoice
from gpuplan.cli.options.shared_options import PRICES_PANEL, TraceArgument, TraceChoice
from gpuplan.cli.options.size_options import parse_growth, parse_sizes, parse_target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.size_request import SizeRequest

EXAMPLE = "gpuplan size trace.parquet --target 'p95_wait <= 10m' --price 1.29"


def size(
    trace: TraceArgument,
    choice: TraceChoice,
    replay: ReplayChoice,
    priced: OwnedPriceChoice,
    engine: EngineChoice,
    target: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="What the cluster must meet: 'p95_wait <= 1h', 'mean_wait <= 2m', "
            "'wait_over_10m <= 5%' (share of jobs), 'mean_slowdown <= 2'. May be repeated.",
            metavar="TARGET",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Sizes to show: 64,128,256, or LO:HI:N for N sizes. Default: around the size "
            "found.",
            metavar="LIST",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str,
        COMMON,
        typer.Option(
            help="Policy of the cluster; see gpuplan list policies.",
            autocompletion=one_of(policies),
        ),
    ] = "first-fit",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting of the policy, such as restore_s=30; see gpuplan list policies NAME. "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Today's cluster: 64, 8x4 (8 nodes of 4 GPUs), A100=8x4,T4=16, or x8 for nodes of "
            "8 alone. A gang that fits into a node runs on one; a wider one takes whole nodes.",
            metavar="SHAPE",
            show_default=False,
        ),
    ] = None,
    cluster_step: Annotated[
        int | None,
        typer.Option(
            help="Consider only multiples of this number of GPUs. Default: the GPUs of a node, "
            "otherwise 1.",
            min=1,
            max=MOST_GPUS,
            show_default=False,
        ),
    ] = None,
    growth: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="Growth of arrivals to plan for, such as 20%.",
            metavar="PERCENT",
            show_default=False,
        ),
    ] = None,
    commit: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="Price of a committed GPU-hour, such as 0.9: with --on-demand, also find how many "
            "GPUs to commit to. TYPE=USD for one type; may be repeated.",
            metavar="[TYPE=]USD",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None,
    on_demand: Annotated[
        list[str] | None,
        typer.Option(
            help="On-demand price of a GPU-hour, next to --commit. TYPE=USD for one type; may be "
            "repeated.",
            metavar="[TYPE=]USD",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None,
    ci: Annotated[
        float, typer.Option(help="Confidence of the intervals in percent; 0 for none.")
    ] = 90.0,
    resamples: Annotated[
        int,
        typer.Option(help="Resamples of the bootstrap behind the intervals.", min=1, max=10_000),
    ] = 200,
) -> Study[SizeRequest]:
    """Find how many GPUs the jobs need at waits you accept, and how many to commit to."""
    from gpuplan.cli.options.policy_specs import read_spec
    from gpuplan.planner.pricing.type_prices import PriceRequest
    from gpuplan.planner.studies.size_request import SizeRequest

    chosen = read_spec(policy, settings or [])
    for name in ("cluster", "gpus"):
        if name in chosen.settings:
            raise UsageError(
                f"--set {name}: size looks for it\n"
                "  next: --gpus LIST for sizes to show, --cluster SHAPE for today's cluster"
            )
    plain_replay = replay.request(trace, choice, MarketChoice())
    request = SizeRequest(
        trace,
        chosen,
        jobs=plain_replay.jobs,
        targets=tuple(parse_target(text) for text in target or ()),
        gpus=parse_sizes(gpus),
        shape=None if cluster is None else read_shape(cluster, "--cluster"),
        step=cluster_step,
        growth=parse_growth(growth),
        prices=priced.request(),
        commit=PriceRequest(parse_usd(commit or [], "--commit"), gpu=priced.gpu, option="--commit"),
        on_demand=PriceRequest(
            parse_usd(on_demand or [], "--on-demand"), gpu=priced.gpu, option="--on-demand"
        ),
        level=ci or None,
        resamples=resamples,
        deadline=plain_replay.deadline,
        deadline_factor=plain_replay.deadline_factor,
        include_running=plain_replay.include_running,
        engine=engine.build(),
    )
    return Study(request, _answer)


COMMAND = StudyCommand("size", size, EXAMPLE)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: SizeRequest) -> Report:
    from gpuplan.cli.tables.size_tables import (
        commitment_table,
        curve_table,
        headline,
        pools_table,
        price_note,
    )
    from gpuplan.planner.studies.size import size as run
    from gpuplan.simkit.jit import compiling

    with (
        messages.progress("replaying") as progress,
        compiling(lambda: messages.note(COMPILING)),
    ):
        study = run(request, progress)
    results = study.results

    def figure() -> Figure:
        from gpuplan.cli.figures.size import draw_size

        return draw_size(results)

    curve = (curve_table(results),) if results.points else ()
    committed = (commitment_table(results),) if results.commitment is not None else ()
    pools = (pools_table(results),) if len(results.pools) > 1 else ()
    tables = (*curve, *committed, pools_table(results))
    return Report(
        command="size",
        results=plain(results),
        tables=tables,
        inputs=study.inputs,
        parameters=plain(request.parameters()),
        headline=headline(results),
        warnings=study.warnings,
        notes=price_note(study),
        answer=(*pools, *(curve or committed))[:2],
        figure=figure,
        frame=study.to_frame,
    )
