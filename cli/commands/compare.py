"""``gpuplan compare``: several policies on one trace, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.report import Column, StudyView, Table, picture, table
from gpuplan.cli.tables.policy_answer import POLICY
from gpuplan.cli.tables.policy_report import first_submission, with_policies

if TYPE_CHECKING:
    from gpuplan.planner.studies.compare import CompareAnswer


def show(study: CompareAnswer) -> StudyView:
    """Return the comparison as people see it."""
    comparison, inputs = study.replays.comparison, study.replays.inputs
    rows = plain(study.results.policies)

    view = StudyView(
        headline="",
        tables=_tables(rows, has_deadlines=inputs.jobs.has_deadlines),
        answer=(),
        figure=picture("policies:draw_policies", comparison, first_submission(inputs)),
        frame=comparison.to_frame,
        timeline=comparison.timeline,
    )
    return with_policies(view, study, rows)


def _ratio(value: float) -> str:
    return f"{value:.2f}x"


TIMES = (
    {"gpus": "GPUs", "usd_per_month": "$/month", "cost_usd": "cost"},
    Column("cost_over_first", "to first", _ratio),
    {
        "mean_jct_s": "mean JCT",
        "median_jct_s": "median",
        "p90_jct_s": "P90",
        "p95_jct_s": "P95",
        "p99_jct_s": "P99",
        "finished_within_10min_share": "finished within 10 min",
    },
)
SHARES = {
    "mean_wait_s": "mean wait",
    "p95_wait_s": "P95 wait",
    "deadline_miss_share": "late",
    "paid_gpu_h": "GPU-hours billed",
    "utilization": "used",
    "backlog_jobs": "backlog (jobs)",
    "backlog_gpu_h": "backlog (GPU-h)",
}


EVICTED = {
    "preemptions": "evictions",
    "preempted_jobs": "jobs evicted",
    "mean_lost_s": "work lost per job",
    "lost_gpu_h": "GPU-hours lost",
}


def _note(row: dict[str, Any]) -> str:
    if not row["is_ranked"]:
        return "no rank"
    return "" if row["non_dominated"] else "dominated"


def _tables(rows: list[dict[str, Any]], *, has_deadlines: bool) -> tuple[Table, ...]:
    evicts = [row for row in rows if row.get("lost_gpu_h")]
    lost = ("mean_lost_s", "lost_gpu_h") if evicts else ()
    hidden = (
        "window_s",
        "mean_jct_over_first",
        *SHARES,
        *lost,
        "non_dominated",
    )
    late = {} if has_deadlines else {"deadline_miss_share": ""}
    return (
        table(
            "Cost and job completion time (JCT)",
            rows,
            POLICY,
            {"policy": ""},
            *TIMES,
            dict.fromkeys(hidden, ""),
        ),
        table(
            "Waiting (JCT less run time and work lost) and GPUs; dominated: another is cheaper and "
            "as fast, or faster and as cheap",
            rows,
            POLICY,
            Column("mean_jct_over_first", "mean JCT to first", _ratio),
            SHARES | late,
            Column("note", "note", read=_note),
        ),
        *((table("Evictions, and the work they undo", evicts, POLICY, EVICTED),) if evicts else ()),
    )
