"""Waits by group: a row per policy or size and group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_number

MOST_ROWS = 12
COLUMNS = (
    Column("jobs", "jobs", show_count),
    Column("gpu_h", "GPU-hours", show_number),
    Column("mean_wait_s", "mean wait", show_duration),
    Column("p50_wait_s", "P50", show_duration),
    Column("p95_wait_s", "P95", show_duration),
)


def group_waits_tables(
    by: Sequence[str],
    runs: Iterable[tuple[str, Sequence[Mapping[str, Any]] | None]],
    of_runs: str = "policy",
) -> tuple[Table, ...]:
    """Return the waits by group side by side; none where they were not requested.

    Args:
        by: what the jobs are split by.
        runs: the name of each run, and its groups as JSON has them, most GPU-hours first.
        of_runs: what these names are of.
    """
    known = [(label, groups) for label, groups in runs if groups]
    if not known:
        return ()
    place = {group["name"]: at for at, group in enumerate(known[0][1])}
    rows = sorted(
        ((group["name"], label, *(group[one.key] for one in COLUMNS))
         for label, groups in known for group in groups),
        key=lambda row: place.get(row[0], len(place)),  # of several pools some have other groups
    )  # fmt: skip
    first = (Column("name", " and ".join(by)), Column("run", of_runs if len(known) > 1 else ""))
    return (Table("Waits by " + " and ".join(by), (*first, *COLUMNS), rows, most=MOST_ROWS),)
