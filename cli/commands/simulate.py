"""``gpuplan simulate``: replay a trace under one policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.app import messages
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.documents.study_command import Study, StudyCommand
from gpuplan.cli.formats.report import Column, Report, Table, replay_shapes, table
from gpuplan.cli.formats.units import show_threshold
from gpuplan.cli.options.cluster_options import ClusterChoice
from gpuplan.cli.options.completion import one_of, policies
from gpuplan.cli.options.gpu_type_options import GpuTypeChoice
from gpuplan.cli.options.lending_options import LendingChoice
from gpuplan.cli.options.market_options import MarketChoice, ReplayOutput
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
) -> Study[CompareRequest]:
    """Replay a trace under one policy: waiting, completion times, and cost."""
    from gpuplan.cli.options.policy_specs import read_spec
    from gpuplan.planner.studies.compare import CompareRequest

    chosen = read_spec(
        policy,
        lending.settings([policy], gpu_types.settings(with_limit_factor(settings, limit_factor))),
        cluster.size(),
        is_priced=market.prices is not None,
    )
    jobs = lending.marked(gpu_types.rated(replay.request(trace, choice, market)))
    jobs = replace(jobs, by=columns_of(by))
    request = CompareRequest(jobs, (chosen,), price=price, window=window.window.value)
    return Study(request, _shown)


COMMAND = StudyCommand("simulate", simulate, EXAMPLE, output=ReplayOutput)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    COMMAND.register(app)


def _shown(request: CompareRequest) -> Report:
    from gpuplan.cli.tables.policy_report import first_submission, policy_report
    from gpuplan.planner.studies.simulate import simulate as run
    from gpuplan.simkit.jit import compiling

    with messages.progress("replaying"), compiling(lambda: messages.note(COMPILING)):
        study = run(request)
    result = study.run
    results: dict[str, Any] = plain(study.results)
    tables = _tables(results, has_deadlines=study.replayed.jobs.has_deadlines)

    def figure() -> Figure:
        from gpuplan.cli.figures.time_lines import draw_time_lines

        return draw_time_lines(result.lines(), result.policy, first_submission(study.replayed))

    report = Report(
        command="simulate",
        results=results,
        tables=(*tables, *replay_shapes(result.lines())),
        answer=() if request.replay.by else tables[1:2],
        figure=figure,
        frame=study.to_frame,
        timeline=result.timeline,
    )
    names = {"name": result.policy, "label": result.policy}
    return policy_report(report, study, [results | names], {result.policy: result.settings})


SHOWN = {
    "Job completion time (JCT), from submission to finish": {
        "mean_jct_s": "mean",
        "median_jct_s": "median",
        "p90_jct_s": "P90",
        "p95_jct_s": "P95",
        "p99_jct_s": "P99",
        "deadline_miss_share": "late",
        "cost_usd": "cost",
        "usd_per_month": "$/month",
        "makespan_s": "last finish after",
    },
    "Where the mean JCT goes": {
        "mean_service_s": "run time",
        "mean_startup_s": "container start-up",
        "mean_queue_s": "waiting for GPUs",
        "mean_demotion_s": "checkpoint and restore",
        "mean_preemption_s": "checkpoint and restore",
    },
    "Waiting, and what stops cost": {
        "median_jqt_s": "wait, median",
        "p95_jqt_s": "wait, P95",
        "p99_jqt_s": "wait, P99",
        "waiting_mean": "jobs waiting, mean",
        "waiting_peak": "peak",
        "preemptions": "preemptions",
        "preempted_jobs": "jobs preempted",
    },
    "The cluster": {
        "gpus": "GPUs",
        "gpu_h": "GPU-hours of jobs",
        "utilization": "used",
        "gpu_busy_share": "held",
        "fragmented_share": "fragmented",
        "backlog_jobs": "backlog (jobs)",
        "backlog_gpu_h": "backlog (GPU-h)",
        "finished_within_10min_share": "jobs done within 10 min",
    },
    "Where the money goes": {
        "cost_serverless_usd": "serverless",
        "cost_marketplace_usd": "marketplace",
        "cost_conventional_usd": "conventional",
        "mean_marketplace_usd_per_gpu_h": "marketplace $/GPU-h",
        "mean_usd_per_gpu_h": "mean $/GPU-h",
    },
    "The two tiers": {
        "finished_serverless_share": "jobs that end serverless",
        "mean_threshold_s": "mean threshold",
        "workers_mean": "workers, mean",
        "workers_peak": "workers, peak",
        "worker_busy_share": "worker time used",
    },
}
"""Table title -> result key -> header; a policy without a key has no such column."""


def _tables(results: dict[str, Any], *, has_deadlines: bool) -> tuple[Table, ...]:
    hidden = set() if has_deadlines else {"deadline_miss_share"}
    tables = []
    for title, headers in SHOWN.items():
        columns = [
            Column(key, header, show_threshold if key == "mean_threshold_s" else None)
            for key, header in headers.items()
            if key in results and key not in hidden
        ]
        if columns:
            tables.append(table(title, [results], *columns))
    return tuple(tables)
