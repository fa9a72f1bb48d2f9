"""Waits by group: a row per policy or size and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuplan.cli.formats.report import StudyView, table

Groups = Sequence[Mapping[str, Any]] | None
MOST_ROWS = 12
COLUMNS = {
    "jobs": "jobs",
    "gpu_h": "GPU-hours",
    "mean_wait_s": "mean wait",
    "p50_wait_s": "P50",
    "p95_wait_s": "P95",
}


def with_group_waits(
    view: StudyView,
    by: Sequence[str],
    runs: Iterable[tuple[str, Groups]],
    today: Groups = None,
    *,
    of_runs: str = "policy",
    of_jobs: str = "",
) -> StudyView:
    """Return a view with the waits by group side by side; as it is where none were requested.

    Args:
        view: of replays.
        by: what the jobs are split by.
        runs: the name of each run, and its groups as JSON has them, most GPU-hours first.
        today: the groups as recorded, shown beside them.
        of_runs: what these names are of.
        of_jobs: whose waits they are; empty for all jobs.
    """
    grouped = [(label, groups) for label, groups in runs if groups]
    if not grouped:
        return view
    if today:
        grouped.insert(0, ("today", today))
    names = dict.fromkeys(group["name"] for _, groups in grouped for group in groups)
    place = {name: at for at, name in enumerate(names)}
    rows = [{**group, "run": label} for label, groups in grouped for group in groups]
    each = len(grouped)
    waits = table(
        f"Waits{of_jobs} by {' and '.join(by)}",
        sorted(rows, key=lambda row: place[row["name"]]),
        {"name": " and ".join(by), "run": of_runs if each > 1 else "", **COLUMNS},
        most=max(MOST_ROWS // each, 1) * each,
    )
    return replace(
        view,
        tables=(*view.tables[:1], replace(waits, most=None), *view.tables[1:]),
        answer=None if view.answer is None else (*view.answer, waits),
    )
