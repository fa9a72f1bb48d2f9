"""Waits by group: a row per policy or size and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuplan.cli.formats.report import Column, Report, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_number

MOST_ROWS = 12
COLUMNS = (
    Column("jobs", "jobs", show_count),
    Column("gpu_h", "GPU-hours", show_number),
    Column("mean_wait_s", "mean wait", show_duration),
    Column("p50_wait_s", "P50", show_duration),
    Column("p95_wait_s", "P95", show_duration),
)


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
    known = [(label, groups) for label, groups in runs if groups]
    if not known:
        return report
    if today := report.results.get("today_groups"):
        known.insert(0, ("today", today))
    names = dict.fromkeys(group["name"] for _, groups in known for group in groups)
    place = {name: at for at, name in enumerate(names)}
    rows = sorted(
        ((group["name"], label, *(group[one.key] for one in COLUMNS))
         for label, groups in known for group in groups),
        key=lambda row: place[row[0]],
    )  # fmt: skip
    first = (Column("name", " and ".join(by)), Column("run", of_runs if len(known) > 1 else ""))
    lends = any("hp" in row for row in report.results.get("policies", [report.results]))
    of_jobs = " of high-priority jobs" if lends else ""
    title = f"Waits{of_jobs} by {' and '.join(by)}"
    each = len(known)
    table = Table(title, (*first, *COLUMNS), rows, most=max(MOST_ROWS // each, 1) * each)
    return replace(
        report,
        tables=(*report.tables[:1], replace(table, most=None), *report.tables[1:]),
        answer=None if report.answer is None else (*report.answer, table),
    )
