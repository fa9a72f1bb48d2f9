"""Waits by group: a row per policy or size and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuplan.cli.formats.report import Report, table

MOST_ROWS = 12
COLUMNS = {
    "jobs": "jobs",
    "gpu_h": "GPU-hours",
    "mean_wait_s": "mean wait",
    "p50_wait_s": "P50",
    "p95_wait_s": "P95",
}


def with_group_waits(
    report: Report,
    by: Sequence[str],
    runs: Iterable[tuple[str, Sequence[Mapping[str, Any]] | None]],
    of_runs: str = "policy",
) -> Report:
    """Return a report with the waits by group side by side; as it is where none were requested.

    Args:
        report: of replays; its ``results`` may have ``today_groups``.
        by: what the jobs are split by.
        runs: the name of each run, and its groups as JSON has them, most GPU-hours first.
        of_runs: what these names are of.
    """
    grouped = [(label, groups) for label, groups in runs if groups]
    if not grouped:
        return report
    if today := report.results.get("today_groups"):
        grouped.insert(0, ("today", today))
    names = dict.fromkeys(group["name"] for _, groups in grouped for group in groups)
    place = {name: at for at, name in enumerate(names)}
    rows = [{**group, "run": label} for label, groups in grouped for group in groups]
    lends = any("hp" in row for row in report.results.get("policies", [report.results]))
    of_jobs = " of high-priority jobs" if lends else ""
    each = len(grouped)
    waits = table(
        f"Waits{of_jobs} by {' and '.join(by)}",
        sorted(rows, key=lambda row: place[row["name"]]),
        {"name": " and ".join(by), "run": of_runs if each > 1 else "", **COLUMNS},
        most=max(MOST_ROWS // each, 1) * each,
    )
    return replace(
        report,
        tables=(*report.tables[:1], replace(waits, most=None), *report.tables[1:]),
        answer=None if report.answer is None else (*report.answer, waits),
    )
