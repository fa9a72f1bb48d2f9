"""The fields of the scheduler in ``sacct``: limits, partitions, QOS, eligible times, nodes."""

from __future__ import annotations

from collections.abc import Sequence, Set

import polars as pl

from gpuplan.analysis.job_table.schema import SCHEDULER_COLUMNS
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.log_formats.slurm_cells import MINUTES, MIXED, instant, time_limit_s
from gpuplan.analysis.reading.plan import Field
from gpuplan.analysis.reading.source import Head

SOURCES: dict[str, tuple[str, ...]] = {
    "eligible_time": ("eligible",),
    "limit_s": ("timelimit", "timelimitraw"),
    "partition": ("partition",),
    "qos": ("qos",),
    "account": ("account",),
    "req_nodes": ("nnodes", "reqnodes"),
    "recorded_priority": ("priority",),
    "reason": ("reason",),
    "cancel_time": ("end",),
    "billing": ("alloctres",),
    "gres_type": ("alloctres", "reqtres"),
    "reservation": ("reservation",),
    "node_list": ("nodelist",),
    "submit_line": ("submitline",),
    "cpus": ("alloctres", "reqtres"),
    "memory_mb": ("alloctres", "reqtres"),
}
"""Column of a trace -> columns of sacct that it is read from; one of them is enough."""
BILLING = r"(?:^|,)billing=([0-9]+(?:\.[0-9]+)?)"
TEXTS = ("partition", "qos", "account", "reason", "reservation", "node_list", "submit_line")
MEGABYTES = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
CELL = "cell of "


def kept_columns(
    head: Head, columns: Sequence[str], choices: IngestOptions
) -> dict[str, pl.DataType]:
    """Return the fields of the scheduler that the trace of a log keeps."""
    if choices.scheduler is False:
        return {}
    return {name: SCHEDULER_COLUMNS[name] for name in _present(set(columns))}


def scheduler_fields(has: Set[str]) -> tuple[Field, ...]:
    """Return the cells that `scheduler_values` reads; none of them refuses a row."""
    used = {source for name in _present(has) for source in SOURCES[name] if source in has}
    return tuple(Field(f"{CELL}{source}", source, pl.col(source)) for source in sorted(used))


def scheduler_values(
    has: Set[str], zone: str, ended: pl.Expr, never: pl.Expr
) -> dict[str, pl.Expr]:
    """Return the columns of a trace as expressions over fields; a cell that is unclear is null.

    The types of GPUs (``alloctres_type``) are fields of the log's own plan.

    Args:
        has: the columns of the log.
        zone: zone of times without an offset.
        ended: the end of a job.
        never: whether a job never started.
    """

    def cell(source: str) -> pl.Expr:
        return pl.col(f"{CELL}{source}") if source in has else pl.lit(None, pl.String)

    limit = cell("timelimit")
    if "timelimit" in has:  # few limits are shared by many jobs
        limit = time_limit_s(limit.first()).over(limit)
    if "timelimitraw" in has:
        limit = pl.coalesce(limit, cell("timelimitraw").str.extract(MINUTES).cast(pl.Int64) * 60)
    nodes = cell("nnodes").cast(pl.Int64, strict=False)
    requested = cell("reqnodes").str.extract(r"^([0-9]+)").cast(pl.Int64, strict=False)
    kinds = [
        pl.when((kind != "") & (kind != MIXED)).then(kind)
        for kind in (pl.col(f"{name}_type") for name in SOURCES["gres_type"] if name in has)
    ]
    values = {
        "eligible_time": instant(f"{CELL}eligible", zone) if "eligible" in has else None,
        "limit_s": limit,
        "req_nodes": pl.coalesce(pl.when(nodes > 0).then(nodes), requested),
        "recorded_priority": cell("priority").cast(pl.Int64, strict=False),
        "cancel_time": pl.when(never).then(ended),
        "billing": cell("alloctres").str.extract(BILLING),
        "gres_type": pl.coalesce(kinds).str.to_lowercase() if kinds else None,
        **{name: cell(SOURCES[name][0]) for name in TEXTS},
        **{
            name: pl.coalesce(_amount(cell(source), resource) for source in SOURCES[name])
            for name, resource in (("cpus", "cpu"), ("memory_mb", "mem"))
        },
    }
    return {name: value for name in _present(has) if (value := values[name]) is not None}


def _amount(cell: pl.Expr, resource: str) -> pl.Expr:
    """Return an amount in TRES, of memory in megabytes: ``cpu=8,mem=480G``; null for none."""
    parts = cell.str.extract_groups(rf"(?:^|,){resource}=([0-9]+(?:\.[0-9]+)?)([KMGTP]?)").struct
    factor = parts.field("2").replace_strict(MEGABYTES, default=1.0, return_dtype=pl.Float64)
    return parts.field("1").cast(pl.Float64) * factor


def _present(has: Set[str]) -> list[str]:
    return [name for name, sources in SOURCES.items() if not has.isdisjoint(sources)]
