"""``gpuplan compare``: several policies on one trace, side by side."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Column, Report, Table
from gpuplan.cli.formats.units import show_duration, show_jobs, show_number, show_share, show_usd
from gpuplan.cli.options.cluster_options import ClusterChoice
from gpuplan.cli.options.completion import DEFAULT_POLICIES, one_of, policies
from gpuplan.cli.options.engine_options import EngineChoice
from gpuplan.cli.options.lending_options import LendingChoice
from gpuplan.cli.options.market_options import (
    MarketChoice,
    ReplayOutput,
)
from gpuplan.cli.options.replays import COMPILING, ReplayChoice
from gpuplan.cli.options.shared_options import TraceArgument, TraceChoice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.compare import PolicyComparison
    from gpuplan.planner.studies.compare import CompareRequest

EXAMPLE = "gpuplan compare trace.parquet --policy fifo --policy srtf --cluster 8x4"


def compare(
    trace: TraceArgument,
    choice: TraceChoice,
    replay: ReplayChoice,
    market: MarketChoice,
    engine: EngineChoice,
    lending: LendingChoice,
    cluster: ClusterChoice,
    policy: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="A policy to replay, with its own settings after a colon: "
            "pollux:gpus=64,rescale_s=30. Lists take /, as in "
            "2d-las:limits_gpu_s=600/3600. May be repeated; ratios refer to the "
            f"first. Default: {', '.join(DEFAULT_POLICIES)}.",
            metavar="NAME[:KEY=VALUE,...]",
            autocompletion=one_of(policies),
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            "--set",
            help="A setting: key=value for every policy that has it, policy.key=value for "
            "one. Default prices in dollars per GPU-hour: "
            "serverless_usd_per_gpu_h=2.10, marketplace_median_usd_per_gpu_h=1.08, "
            "conventional_usd_per_gpu_h=1.29. A cluster is rented at the last two; "
            "usd_per_gpu_h gives its GPUs one price. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> Study[CompareRequest]:
    """Replay a trace under several policies, and compare cost and completion times."""
    from gpuplan.cli.options.policy_specs import read_contenders
    from gpuplan.planner.studies.compare import CompareRequest

    request = CompareRequest(
        lending.marked(replay.request(trace, choice, market)),
        tuple(
            read_contenders(
                policy or DEFAULT_POLICIES,
                lending.settings(policy or DEFAULT_POLICIES, settings),
                cluster.size(),
                are_priced=market.prices is not None,
            )
        ),
        engine.build(),
    )
    return Study(request, partial(_lent, size=cluster.parameters()))


COMMAND = StudyCommand("compare", compare, EXAMPLE, output=ReplayOutput)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _lent(request: CompareRequest, size: dict[str, Any]) -> Report:
    """Return the answer; of policies that lend GPUs it is about both classes of jobs."""
    from gpuplan.cli.tables.lending_tables import with_lending

    report = _answer(request, size)
    return with_lending(report, report.results["policies"])


def _answer(request: CompareRequest, size: dict[str, Any]) -> Report:
    from gpuplan.cli.tables.price_notes import price_notes
    from gpuplan.planner.studies.compare import compare as run
    from gpuplan.simkit.jit import compiling

    with (
        messages.progress("replaying") as progress,
        compiling(lambda: messages.note(COMPILING)),
    ):
        study = run(request, progress)
    found = study.found

    def figure() -> Figure:
        from gpuplan.cli.figures.policies import draw_policies

        return draw_policies(found)

    return Report(
        command="compare",
        results=found.summary(),
        tables=_tables(found),
        inputs=study.replayed.inputs,
        parameters={
            "policies": study.policy_parameters(),
            **size,
            **study.replayed.parameters,
        },
        headline=_headline(found),
        warnings=study.warnings,
        notes=price_notes(request.policies) if request.replay.prices is None else (),
        figure=figure,
        frame=found.to_frame,
        timeline=found.timeline,
    )


def _headline(found: PolicyComparison) -> str:
    cheapest, fastest = found.outcomes[found.cheapest], found.outcomes[found.fastest]
    best = _price(found, found.cheapest)
    jobs = show_jobs(cheapest.results["jobs"], found.span_s)
    if len(found.outcomes) == 1:
        return f"{jobs} under {cheapest.label}: {best}."
    if cheapest is fastest:
        return f"{jobs}: {cheapest.label} is the cheapest and the fastest, {best}."
    more = fastest.results["cost_usd"] - cheapest.results["cost_usd"]
    sooner_s = cheapest.results["mean_jct_s"] - fastest.results["mean_jct_s"]
    trade = f": {show_usd(more)} more buys {show_duration(sooner_s)} a job"
    return (
        f"{jobs}: {cheapest.label} is the cheapest, {best}; {fastest.label} is the "
        f"fastest, {_price(found, found.fastest)}"
        f"{trade if round(more, 2) and round(sooner_s, 3) else ''}."
    )


def _price(found: PolicyComparison, index: int) -> str:
    results = found.outcomes[index].results
    return (
        f"{show_usd(results['cost_usd'])} for a mean JCT of {show_duration(results['mean_jct_s'])}"
    )


def _ratio(value: float) -> str:
    return f"{value:.2f}x"


TIMES = (
    Column("cost_usd", "cost", show_usd),
    Column("cost_over_first", "to first", _ratio),
    Column("mean_jct_s", "mean JCT", show_duration),
    Column("median_jct_s", "median", show_duration),
    Column("p90_jct_s", "P90", show_duration),
    Column("p95_jct_s", "P95", show_duration),
    Column("p99_jct_s", "P99", show_duration),
)
SHARES = (
    Column("mean_jct_over_first", "mean JCT to first", _ratio),
    Column("mean_wait_s", "waiting", show_duration),
    Column("finished_within_10min_share", "within 10 min", show_share),
    Column("deadline_miss_share", "late", show_share),
    Column("paid_gpu_h", "GPU-hours paid", show_number),
    Column("utilization", "used", show_share),
)


def _tables(found: PolicyComparison) -> tuple[Table, ...]:
    rows = found.summary()["policies"]
    for row in rows:
        row["note"] = "" if row["non_dominated"] else "dominated"
    spaced = Column("label", "policy", lambda label: label.replace(",", ", "))  # wraps there
    named = (spaced, Column("policy", ""))
    hidden = tuple(Column(column.key, "") for column in (*SHARES, Column("non_dominated", "")))
    return (
        _table("Cost and job completion time (JCT)", (*named, *TIMES, *hidden), rows),
        _table(
            "Waiting (JCT less run time), GPUs; dominated: another is as good in cost and mean JCT",
            (named[0], *SHARES, Column("note", "note")),
            rows,
        ),
    )


def _table(title: str, columns: tuple[Column, ...], rows: list[dict[str, Any]]) -> Table:
    return Table(title, columns, [[row.get(column.key) for column in columns] for row in rows])
