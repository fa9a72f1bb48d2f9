"""Tables of waits: why, who, and how full the GPUs were."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.characterize.clock import in_zone
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_count

if TYPE_CHECKING:
    from gpuplan.analysis.waits.results import WaitSummary
    from gpuplan.planner.studies.waits import WaitsResults

MOST_GROUPS = 12
TITLES = {
    "account": "account",
    "partition": "partition",
    "qos": "QOS",
    "gpu_type": "GPU type",
    "size": "size",
}
SOURCES = {
    "recorded reasons": "Slurm's last reason",
    "free GPUs": "by the free GPUs; the log records no reasons",
    "site rules": "by the site's rules",
}


OF_KUEUE = {
    "recorded reasons": "Kueue's last reason before quota was reserved",
}


def wait_tables(results: WaitsResults) -> tuple[Table, ...]:
    """Return why jobs wait, who waits, how full the GPUs were, and the waits over time."""
    summary = results.summary
    return (
        reasons_table(summary),
        *waiting_tables(results),
        groups_table(results, most=None),
        types_table(summary),
        timeline_table(results),
    )


def reasons_table(summary: WaitSummary) -> Table:
    """Return a row per group of reasons, and one for each of Slurm's reasons in it."""
    source = SOURCES[summary.basis]
    if summary.mean_reservation_wait_s is not None and summary.basis in OF_KUEUE:
        source = OF_KUEUE[summary.basis]
    return table(
        f"Why jobs wait ({source})",
        _reason_rows(summary),
        {
            "name": "reason",
            "wait_h": "wait hours",
            "share": "of all",
            "jobs": "jobs",
            "full_cluster_share": "share with too few GPUs free",
        },
    )


def _reason_rows(summary: WaitSummary) -> Iterator[dict[str, Any]]:
    for reason in summary.reasons:
        yield fields_of(reason)
        inner = reason.slurm_reasons
        if len(inner) == 1 and (inner[0].name == reason.name or not inner[0].limits):
            continue
        for part in inner:
            if not part.wait_h:
                continue
            yield fields_of(part) | {"name": f"  {part.name}"}
            limits = part.limits if any(limit.gpus is not None for limit in part.limits) else ()
            for limit in limits:
                of = limit.of if limit.gpus is None else f"{limit.of}, {limit.gpus:,} GPUs"
                share = limit.wait_h / summary.wait_h if summary.wait_h else None
                yield fields_of(limit) | {"name": f"    {of}", "share": share}


def groups_table(results: WaitsResults, most: int | None = MOST_GROUPS) -> Table:
    """Return a row per group; the first of them by share where not all are shown."""
    groups = list(results.groups)
    if most is not None:
        kinds = {group.by: sum(1 for each in groups if each.by == group.by) for group in groups}
        groups = [group for group in groups if kinds[group.by] > 1 and group.by != "gpu_type"]
        groups.sort(key=lambda group: -group.wait_h)
        groups = groups[:most]
        groups.sort(key=lambda group: (list(TITLES).index(group.by), -group.wait_h))
    return table(
        "Who waits" if most is None else "Who waits most",
        groups,
        Column("by", "by", read=lambda group: TITLES[group.by]),
        {
            "name": "group",
            "jobs": "jobs",
            "wait_h": "wait hours",
            "share": "of all",
            "mean_wait_s": "mean",
            "p50_wait_s": "P50" if most is None else "",
            "p95_wait_s": "P95",
        },
        Column("top_reason", "main reason", read=_top_reason),
    )


def _top_reason(group: Any) -> str | None:
    name, hours = next(iter(group.reasons.items()), ("", 0.0))
    return f"{hours / group.wait_h:.0%} {name}" if hours else None


CONDITIONS = {"workload": "QuotaReserved of Kueue", "pod": "PodScheduled of Kubernetes"}
"""What waits -> the condition whose reason is told."""


def waiting_tables(results: WaitsResults) -> tuple[Table, ...]:
    """Return what waits at the end of a log of Kubernetes, by reason; empty for nothing."""
    if not results.waiting:
        return ()
    return (
        table(
            f"What waits at the end of the log (condition {CONDITIONS[results.waits_as]})",
            results.waiting,
            {
                "name": "reason",
                "meaning": "meaning",
                "jobs": "jobs",
                "gpus": "GPUs",
                "mean_wait_s": "waited, mean",
                "longest_wait_s": "longest",
            },
        ),
    )


def types_table(summary: WaitSummary) -> Table:
    """Return a row per GPU type."""
    return table(
        "How full the GPUs were",
        summary.gpu_types,
        {"gpu_type": "GPU type", "gpus": "GPUs", "source": "from", "peak_gpus": "peak held"},
        Column("full_h", "hours over 95% held", show_count),
        {"full_share": "of the time"},
        Column("queue_gpu_h", "GPU-hours queued then", show_count),
    )


def timeline_table(results: WaitsResults) -> Table:
    """Return a row per bin of time, with a column per group of reasons."""
    names = list(dict.fromkeys(name for row in results.timeline for name in row.wait_h))
    columns = [
        Column(
            f"{name.replace(' ', '_')}_wait_h",
            name,
            show_count,
            read=lambda row, name=name: row.wait_h.get(name, 0.0),  # type: ignore[misc]
        )
        for name in names
    ]
    return table(
        "Hours waited over time",
        results.timeline,
        Column("start", f"from ({results.zone})", read=lambda row: _local(row.start, results.zone)),
        *columns,
    )


def _local(start: str, zone: str) -> str:
    return in_zone(datetime.fromisoformat(start), zone).isoformat()
