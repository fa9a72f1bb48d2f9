"""``gpuplan simulate``: replay a trace under one policy."""

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
from gpuplan.cli.formats.shapes import replay_shapes
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_count,
    show_duration,
    show_number,
    show_share,
    show_threshold,
    show_usd,
)
from gpuplan.cli.options.cluster_options import ClusterChoice
from gpuplan.cli.options.completion import one_of, policies
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

    from gpuplan.planner.studies.simulate import SimulateRequest

EXAMPLE = "gpuplan simulate trace.parquet --policy fifo --cluster 8x4 -o jobs.parquet"


def simulate(
    trace: TraceArgument,
    choice: TraceChoice,
    replay: ReplayChoice,
    market: MarketChoice,
    lending: LendingChoice,
    cluster: ClusterChoice,
    gpu_types: GpuTypeChoice,
    price: OwnedPrices,
    window: WindowChoice,
    policy: Annotated[
        str,
        COMMON,
        typer.Option(
            help="Policy to replay; see gpuplan list policies.",
            autocompletion=one_of(policies),
        ),
    ] = "allpass",
    settings: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            "--set",
            help="A setting of the policy, such as threshold_s=5m or capacity=30; see "
            "gpuplan list policies NAME. May be repeated.",
            show_default=False,
        ),
    ] = None,
    limit_factor: LimitFactor = None,
    by: WaitsBy = None,
) -> Study[SimulateRequest]:
    """Replay a trace under one policy: waiting, completion times, and cost."""
    from gpuplan.cli.options.policy_specs import read_spec
    from gpuplan.planner.studies.simulate import SimulateRequest

    chosen = read_spec(
        policy,
        lending.settings([policy], gpu_types.settings(with_limit_factor(settings, limit_factor))),
        cluster.size(),
        is_priced=market.prices is not None,
    )
    jobs = lending.marked(gpu_types.rated(replay.request(trace, choice, market)))
    jobs = replace(jobs, by=columns_of(by))
    request = SimulateRequest(jobs, chosen, price, window.window.value)
    return Study(request, _lent)


COMMAND = StudyCommand("simulate", simulate, EXAMPLE, output=ReplayOutput)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _lent(request: SimulateRequest) -> Report:
    """Return the answer; of a policy that lends GPUs it is about both classes of jobs."""
    from gpuplan.cli.tables.fairness_tables import with_fairness
    from gpuplan.cli.tables.group_waits import with_group_waits
    from gpuplan.cli.tables.lending_tables import with_lending

    report = _answer(request)
    rows = [{"label": request.policy.label, **report.results}]
    report = with_fairness(with_lending(report, rows), rows)
    groups = [(report.results["policy"], report.results.get("groups"))]
    return with_group_waits(report, request.replay.by, groups)


def _answer(request: SimulateRequest) -> Report:
    from gpuplan.cli.tables.policy_answer import answer_table, answer_text
    from gpuplan.cli.tables.price_notes import price_notes
    from gpuplan.planner.studies.simulate import simulate as run
    from gpuplan.simkit.jit import compiling

    with messages.progress("replaying"), compiling(lambda: messages.note(COMPILING)):
        study = run(request)
    result, today, found = study.run, study.priced.today, plain(study.results)
    row = {**found, "name": result.policy, "label": result.policy}
    has_deadlines = study.replayed.jobs.has_deadlines
    tables = _tables(found, has_deadlines=has_deadlines)
    answer = answer_table(today, [row], has_deadlines=has_deadlines)

    def figure() -> Figure:
        from gpuplan.cli.figures.replays import draw_time_lines

        first_us = study.replayed.jobs.first_submit_us
        first = None if first_us is None else datetime.fromtimestamp(first_us / 1e6, UTC)
        return draw_time_lines(result.lines(), result.policy, first)

    return Report(
        command="simulate",
        results=found,
        tables=(*tables, *replay_shapes(result.lines())),
        inputs=study.replayed.inputs,
        parameters=plain(study.parameters()),
        headline=answer_text(today, [row], {result.policy: result.settings.get("speedup")}),
        warnings=study.warnings,
        caveats=study.caveats,
        notes=price_notes([request.policy], has_price=request.price.is_given)
        if request.replay.prices is None
        else (),
        answer=(answer, *(() if request.replay.by else tables[1:2])),
        figure=figure,
        frame=study.to_frame,
        timeline=result.timeline,
    )


SHOWN = {
    "Job completion time (JCT), from submission to finish": {
        "mean_jct_s": Column("mean_jct_s", "mean", show_duration),
        "median_jct_s": Column("median_jct_s", "median", show_duration),
        "p90_jct_s": Column("p90_jct_s", "P90", show_duration),
        "p95_jct_s": Column("p95_jct_s", "P95", show_duration),
        "p99_jct_s": Column("p99_jct_s", "P99", show_duration),
        "deadline_miss_share": Column("deadline_miss_share", "late", show_share),
        "cost_usd": Column("cost_usd", "cost", show_usd),
        "usd_per_month": Column("usd_per_month", "$/month", show_about_usd),
        "makespan_s": Column("makespan_s", "last finish after", show_duration),
    },
    "Where the mean JCT goes": {
        "mean_service_s": Column("mean_service_s", "run time", show_duration),
        "mean_startup_s": Column("mean_startup_s", "container start-up", show_duration),
        "mean_queue_s": Column("mean_queue_s", "waiting for GPUs", show_duration),
        "mean_demotion_s": Column("mean_demotion_s", "checkpoint and restore", show_duration),
        "mean_preemption_s": Column("mean_preemption_s", "checkpoint and restore", show_duration),
    },
    "Waiting, and what stops cost": {
        "median_jqt_s": Column("median_jqt_s", "wait, median", show_duration),
        "p95_jqt_s": Column("p95_jqt_s", "wait, P95", show_duration),
        "p99_jqt_s": Column("p99_jqt_s", "wait, P99", show_duration),
        "waiting_mean": Column("waiting_mean", "jobs waiting, mean", show_number),
        "waiting_peak": Column("waiting_peak", "peak", show_count),
        "preemptions": Column("preemptions", "preemptions", show_count),
        "preempted_jobs": Column("preempted_jobs", "jobs preempted", show_count),
    },
    "The cluster": {
        "gpus": Column("gpus", "GPUs", show_count),
        "gpu_h": Column("gpu_h", "GPU-hours of jobs", show_number),
        "utilization": Column("utilization", "used", show_share),
        "gpu_busy_share": Column("gpu_busy_share", "held", show_share),
        "fragmented_share": Column("fragmented_share", "fragmented", show_share),
        "backlog_jobs": Column("backlog_jobs", "backlog (jobs)", show_count),
        "backlog_gpu_h": Column("backlog_gpu_h", "backlog (GPU-h)", show_number),
        "finished_within_10min_share": Column(
            "finished_within_10min_share", "jobs done within 10 min", show_share
        ),
    },
    "Where the money goes": {
        "cost_serverless_usd": Column("cost_serverless_usd", "serverless", show_usd),
        "cost_marketplace_usd": Column("cost_marketplace_usd", "marketplace", show_usd),
        "cost_conventional_usd": Column("cost_conventional_usd", "conventional", show_usd),
        "mean_marketplace_usd_per_gpu_h": Column(
            "mean_marketplace_usd_per_gpu_h", "marketplace $/GPU-h", show_number
        ),
        "mean_usd_per_gpu_h": Column("mean_usd_per_gpu_h", "mean $/GPU-h", show_number),
    },
    "The two tiers": {
        "finished_serverless_share": Column(
            "finished_serverless_share", "jobs that end serverless", show_share
        ),
        "mean_threshold_s": Column("mean_threshold_s", "mean threshold", show_threshold),
        "workers_mean": Column("workers_mean", "workers, mean", show_number),
        "workers_peak": Column("workers_peak", "workers, peak", show_count),
        "worker_busy_share": Column("worker_busy_share", "worker time used", show_share),
    },
}
"""Table title -> result key -> column; a policy without a key has no such column."""


def _tables(results: dict[str, Any], *, has_deadlines: bool) -> tuple[Table, ...]:
    hidden = set() if has_deadlines else {"deadline_miss_share"}
    tables = []
    for title, columns in SHOWN.items():
        found = {key: results[key] for key in columns if key in results and key not in hidden}
        if found:
            tables.append(
                Table(title, tuple(columns[key] for key in found), [list(found.values())])
            )
    return tuple(tables)
