"""``gpuplan size``: how many GPUs the jobs need, and how many to commit to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.amounts import NO_LIMIT, parse_duration, parse_share, parse_usd
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import COMPILING, Study, StudyCommand
from gpuplan.cli.formats.report import Report
from gpuplan.cli.options.completion import one_of, policies
from gpuplan.cli.options.engine_options import EngineChoice
from gpuplan.cli.options.market_options import MarketChoice
from gpuplan.cli.options.replays import ReplayChoice, WaitsBy, columns_of
from gpuplan.cli.options.shared_options import PRICES_PANEL, PeriodChoice, TraceArgument
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.requests.shapes import read_shape
from gpuplan.simkit.limits import MOST_GPUS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.sizing.targets import Target
    from gpuplan.planner.studies.size_request import SizeRange, SizeRequest

EXAMPLE = "gpuplan size trace.parquet --target 'p95_wait <= 10m' --price 1.29"


def size(
    trace: TraceArgument,
    choice: PeriodChoice,
    replay: ReplayChoice,
    prices: PriceRequest,
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
    by: WaitsBy = None,
    growth: Annotated[
        str | None,
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
    from gpuplan.planner.requests.policy_specs import read_spec
    from gpuplan.planner.studies.size_request import SizeRequest

    chosen = read_spec(policy, settings or [])
    for name in ("cluster", "gpus"):
        if name in chosen.settings:
            raise UsageError(
                f"--set {name}: gpuplan size computes it\n"
                "  next: --gpus LIST for sizes to show, --cluster SHAPE for today's cluster"
            )
    plain_replay = replay.request(trace, choice, MarketChoice())
    request = SizeRequest(
        trace,
        chosen,
        jobs=choice.selection(),
        targets=tuple(parse_target(text) for text in target or ()),
        gpus=parse_sizes(gpus),
        shape=None if cluster is None else read_shape(cluster, "--cluster"),
        step=cluster_step,
        growth=parse_growth(growth),
        prices=prices,
        commit=PriceRequest(parse_usd(commit or [], "--commit"), gpu=prices.gpu, option="--commit"),
        on_demand=PriceRequest(
            parse_usd(on_demand or [], "--on-demand"), gpu=prices.gpu, option="--on-demand"
        ),
        level=ci or None,
        resamples=resamples,
        deadline=plain_replay.deadline,
        deadline_factor=plain_replay.deadline_factor,
        include_running=plain_replay.include_running,
        by=columns_of(by),
        engine=engine.build(),
    )
    return Study(request, _answer)


COMMAND = StudyCommand("size", size, EXAMPLE)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _answer(request: SizeRequest) -> Report:
    from gpuplan.cli.tables.group_waits import with_group_waits
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
    parameters = plain(request.parameters())

    def figure() -> Figure:
        from gpuplan.cli.figures.size import draw_size

        return draw_size(results)

    curve = (curve_table(results),) if results.points else ()
    committed = (commitment_table(results),) if results.commitment is not None else ()
    pools = (pools_table(results),) if len(results.pools) > 1 else ()
    is_one = len(results.pools) == 1
    answers = {(None if is_one else pool.name, pool.gpus) for pool in results.pools}
    groups = [
        (f"{one.gpus:,} {one.gpu_type or 'GPUs'}", plain(one).get("groups"))
        for one in results.points
        if (one.gpu_type, one.gpus) in answers or not request.targets
    ]
    tables = (*curve, *committed, pools_table(results))
    report = Report(
        command="size",
        results=plain(results),
        tables=tables,
        inputs=study.inputs,
        parameters=parameters,
        headline=headline(results, parameters.get("period")),
        warnings=study.warnings,
        notes=price_note(study),
        answer=(*pools, *(curve or committed))[:2],
        figure=figure,
        frame=study.to_frame,
    )
    return with_group_waits(
        report, request.by, groups, report.results.get("today_groups"), of_runs="size"
    )


TARGET = re.compile(
    r"\s*(?:(?P<statistic>mean|median|max|p\d{1,2}(?:\.\d+)?|p100)_)?(?P<quantity>wait|slowdown)"
    r"(?:_over_(?P<over>[\w.]+?))?(?:_s)?\s*<=\s*(?P<limit>\S.*?)\s*"
)
FORMS = (
    "p95_wait <= 1h, mean_wait <= 2m, wait_over_10m <= 5% (share of jobs that wait longer), "
    "mean_slowdown <= 2"
)
MOST_SIZES = 1000


def parse_target(text: str) -> Target:
    """Return the target of ``p95_wait <= 1h``.

    Raises:
        UsageError: the text is not a target, or its limit cannot be read.
    """
    from gpuplan.planner.sizing.targets import MEAN, OVER, PERCENTILE, SLOWDOWN, WAIT, Target

    match = TARGET.fullmatch(text)
    option = f"--target {shortened(text)!r}"
    if match is None:
        raise UsageError(f"{option}: expected a target such as {FORMS}")
    statistic, quantity, over = match["statistic"], match["quantity"], match["over"]
    limit = match["limit"]
    if over is not None:
        if statistic is not None:
            raise UsageError(f"{option}: a share of jobs has no {statistic}; write {quantity}_over")
        at = _amount(over, quantity, option)
        return Target(text.strip(), quantity, OVER, at, parse_share(limit, option))
    if statistic is None and quantity == WAIT:
        raise UsageError(f"{option}: say which wait: mean_wait, p95_wait, or wait_over_10m")
    most = _amount(limit, quantity, option)
    if statistic in (None, "mean"):
        return Target(text.strip(), quantity, MEAN, 0.0, most)
    at = {"median": 50.0, "max": 100.0}.get(statistic) or float(statistic[1:])
    if quantity not in (WAIT, SLOWDOWN) or not 0 < at <= 100:
        raise UsageError(f"{option}: expected a percentile above 0")
    return Target(text.strip(), quantity, PERCENTILE, at, most)


def _amount(text: str, quantity: str, option: str) -> float:
    """Return seconds for a wait, or a ratio for a slowdown."""
    if quantity == "wait":
        if text.strip().lower() in NO_LIMIT:
            raise UsageError(f"{option}: expected a duration such as 90s, 45m, 48h or 2d")
        return parse_duration(text, option)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{option}: expected a number, such as mean_slowdown <= 2")
    return value


def parse_sizes(text: str | None) -> tuple[int, ...] | SizeRange | None:
    """Return the sizes of ``64,128``, or the range of ``64:512:8``: 8 sizes from 64 to 512.

    Raises:
        UsageError: the text is neither, or a number is out of range.
    """
    if text is None:
        return None
    if ":" not in text:
        return tuple(dict.fromkeys(_gpus(part, text) for part in text.split(",")))
    from gpuplan.planner.studies.size_request import SizeRange

    parts = text.split(":")
    if len(parts) != 3:
        raise _bad_sizes(text)
    low, high, count = (_gpus(part, text) for part in parts)
    if low > high or not 2 <= count <= MOST_SIZES:
        raise UsageError(
            f"--gpus {shortened(text)!r}: expected LO:HI:N with LO at most HI, and N from 2 to "
            f"{MOST_SIZES:,}"
        )
    return SizeRange(low, high, count)


def _gpus(part: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", part.strip()) or not 1 <= int(part) <= MOST_GPUS:
        raise _bad_sizes(text)
    return int(part)


def _bad_sizes(text: str) -> UsageError:
    return UsageError(
        f"--gpus {shortened(text)!r}: expected whole numbers of GPUs such as 64,128, or LO:HI:N "
        f"such as 64:512:8, each from 1 to {MOST_GPUS:,}"
    )


def parse_growth(text: str | None) -> float:
    """Return 0.2 for ``20%`` or ``0.2``.

    Raises:
        UsageError: the text is not a number, or a number that must be a percentage.
    """
    if text is None:
        return 0.0
    is_percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%")) / (100 if is_percent else 1)
    except ValueError:
        value = float("nan")
    if value != value or (not is_percent and abs(value) > 5):
        raise UsageError(f"--growth {shortened(text)!r}: expected a percentage such as 20%")
    return value
