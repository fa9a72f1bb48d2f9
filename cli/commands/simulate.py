"""``gpuplan simulate``: replay a trace under one policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.report import Column, StudyView, Table, picture, replay_shapes, table
from gpuplan.cli.formats.units import show_threshold
from gpuplan.cli.tables.policy_report import first_submission, with_policies

if TYPE_CHECKING:
    from gpuplan.planner.studies.simulate import SimulateAnswer


def show(study: SimulateAnswer) -> StudyView:
    """Return the replay as people see it."""
    run, inputs, lines = study.run, study.replays.inputs, study.run.lines()
    results: dict[str, Any] = plain(study.results)
    tables = _tables(results, has_deadlines=inputs.jobs.has_deadlines)

    view = StudyView(
        headline="",
        tables=(*tables, *replay_shapes(lines)),
        answer=() if study.request.replay.by else tables[1:2],
        figure=picture("time_lines:draw_time_lines", lines, run.policy, first_submission(inputs)),
        frame=study.to_frame,
        timeline=run.timeline,
    )
    return with_policies(view, study, [{**results, "name": run.policy, "label": run.policy}])


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
        "mean_lost_s": "work lost to evictions",
    },
    "Waiting, and what stops cost": {
        "median_jqt_s": "wait, median",
        "p95_jqt_s": "wait, P95",
        "p99_jqt_s": "wait, P99",
        "waiting_mean": "jobs waiting, mean",
        "waiting_peak": "peak",
        "preemptions": "preemptions",
        "preempted_jobs": "jobs preempted",
        "lost_gpu_h": "GPU-hours lost",
    },
    "The cluster": {
        "gpus": "GPUs",
        "gpu_h": "GPU-hours of jobs",
        "utilization": "used",
        "gpu_busy_share": "held",
        "fragmented_share": "fragmented",
        "backlog_jobs": "backlog (jobs)",
        "backlog_gpu_h": "backlog (GPU-h)",
        "finished_within_10min_share": "finished within 10 min",
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
    if not results.get("lost_gpu_h"):
        hidden |= {"mean_lost_s", "lost_gpu_h"}
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
