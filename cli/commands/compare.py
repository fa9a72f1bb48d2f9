"""``gpuplan compare``: several policies on one trace, side by side."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Column, Report, Table
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_count,
    show_duration,
    show_number,
    show_share,
    show_usd,
)
from gpuplan.cli.options.cluster_options import ClusterListChoice
from gpuplan.cli.options.completion import DEFAULT_POLICIES, one_of, policies
from gpuplan.cli.options.engine_options import EngineChoice
from gpuplan.cli.options.gpu_type_options import GpuTypeChoice
from gpuplan.cli.options.lending_options import LendingChoice
from gpuplan.cli.options.market_options import (
    MarketChoice,
    ReplayOutput,
)
from gpuplan.cli.options.replays import (
    COMPILING,
    LimitFactor,
    OwnedPrices,
    ReplayChoice,
    WaitsBy,
    WindowChoice,
    columns_of,
    with_limit_factor,
)
from gpuplan.cli.options.shared_options import TraceArgument, TraceChoice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.compare import CompareRequest

EXAMPLE = "gpuplan compare trace.parquet --policy fifo --policy srtf --gpus 256,512"


def compare(
    trace: TraceArgument,
    choice: TraceChoice,
    replay: ReplayChoice,
    market: MarketChoice,
    engine: EngineChoice,
    lending: LendingChoice,
    cluster: ClusterListChoice,
    gpu_types: GpuTypeChoice,
    price: OwnedPrices,
    window: WindowChoice,
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
            "conventional_usd_per_gpu_h=1.29, the price of a cluster too. May be repeated.",
            show_default=False,
        ),
    ] = None,
    limit_factor: LimitFactor = None,
    by: WaitsBy = None,
) -> Study[CompareRequest]:
    """Replay a trace under several policies, and compare cost and completion times."""
    from gpuplan.cli.options.policy_specs import read_sizes
    from gpuplan.planner.studies.compare import CompareRequest

    request = CompareRequest(
        replace(
            lending.marked(gpu_types.rated(replay.request(trace, choice, market))),
            by=columns_of(by),
        ),
        tuple(
            read_sizes(
                policy or DEFAULT_POLICIES,
                lending.settings(
                    policy or DEFAULT_POLICIES,
                    gpu_types.settings(with_limit_factor(settings, limit_factor)),
                ),
                cluster.sizes(),
                are_priced=market.prices is not None,
            )
        ),
        engine.build(),
        price=price,
        window=window.window.value,
        **cluster.parameters(),
    )
    return Study(request, _lent)


COMMAND = StudyCommand("compare", compare, EXAMPLE, output=ReplayOutput)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _lent(request: CompareRequest) -> Report:
    """Return the answer; of policies that lend GPUs it is about both classes of jobs."""
    from gpuplan.cli.tables.fairness_tables import with_fairness
    from gpuplan.cli.tables.group_waits import with_group_waits
    from gpuplan.cli.tables.lending_tables import with_lending

    report = _answer(request)
    rows = report.results["policies"]
    report = with_fairness(with_lending(report, rows), rows)
    groups = [(row["label"], row.get("groups")) for row in rows]
    return with_group_waits(report, request.replay.by, groups)


def _answer(request: CompareRequest) -> Report:
    from gpuplan.cli.tables.policy_answer import answer_table, answer_text
    from gpuplan.cli.tables.price_notes import price_notes
    from gpuplan.planner.studies.compare import compare as run
    from gpuplan.simkit.jit import compiling

    with (
        messages.progress("replaying") as progress,
        compiling(lambda: messages.note(COMPILING)),
    ):
        study = run(request, progress)
    found, today = study.found, study.priced.today
    results = plain(study.results)
    rows = plain(study.results.policies)
    has_deadlines = study.replayed.jobs.has_deadlines
    speedups = {one.label: one.settings.get("speedup") for one in found.outcomes}

    def figure() -> Figure:
        from gpuplan.cli.figures.policies import draw_policies

        first_us = study.replayed.jobs.first_submit_us
        first = None if first_us is None else datetime.fromtimestamp(first_us / 1e6, UTC)
        return draw_policies(found, first)

    return Report(
        command="compare",
        results=results,
        tables=_tables(rows, has_deadlines=has_deadlines),
        inputs=study.replayed.inputs,
        parameters=plain(study.parameters()),
        headline=answer_text(today, rows, speedups),
        warnings=study.warnings,
        caveats=study.caveats,
        notes=price_notes(request.policies, has_price=request.price.is_given)
        if request.replay.prices is None
        else (),
        answer=(answer_table(today, rows, has_deadlines=has_deadlines),),
        figure=figure,
        frame=found.to_frame,
        timeline=found.timeline,
    )


def _ratio(value: float) -> str:
    return f"{value:.2f}x"


TIMES = (
    Column("gpus", "GPUs", show_count),
    Column("usd_per_month", "$/month", show_about_usd),
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
    Column("mean_wait_s", "mean wait", show_duration),
    Column("p95_wait_s", "P95 wait", show_duration),
    Column("finished_within_10min_share", "within 10 min", show_share),
    Column("deadline_miss_share", "late", show_share),
    Column("paid_gpu_h", "GPU-hours billed", show_number),
    Column("utilization", "used", show_share),
    Column("backlog_jobs", "backlog (jobs)", show_count),
    Column("backlog_gpu_h", "backlog (GPU-h)", show_number),
)


def _tables(rows: list[dict[str, Any]], *, has_deadlines: bool) -> tuple[Table, ...]:
    for row in rows:
        row["note"] = "" if row["non_dominated"] else "dominated"
    spaced = Column("label", "policy", lambda label: label.replace(",", ", "))  # wraps there
    named = (spaced, Column("policy", ""))
    hidden = (Column("window_s", ""), *(Column(column.key, "") for column in SHARES))
    shares = tuple(one for one in SHARES if has_deadlines or one.key != "deadline_miss_share")
    return (
        _table(
            "Cost and job completion time (JCT)",
            (*named, *TIMES, *hidden, Column("non_dominated", "")),
            rows,
        ),
        _table(
            "Waiting (JCT less run time) and GPUs; dominated: another is cheaper and as fast, or "
            "faster and as cheap",
            (named[0], *shares, Column("note", "note")),
            rows,
        ),
    )


def _table(title: str, columns: tuple[Column, ...], rows: list[dict[str, Any]]) -> Table:
    return Table(title, columns, [[row.get(column.key) for column in columns] for row in rows])
