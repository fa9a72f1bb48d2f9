"""Rows of sacct in the columns that a replay under the site's rules needs."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.base.words import counted
from gpuplan.analysis.log_formats.sacct_command import RESOURCES, Needed
from gpuplan.analysis.log_formats.slurm_cells import (
    device_type,
    devices,
    elapsed_s,
    instant,
    is_step,
    job_id,
    other_devices,
    state,
)

TEXT, WHOLE = pl.String(), pl.Int64()
SITE_COLUMNS: dict[str, pl.DataType] = {
    "job_id": TEXT, "user": TEXT, "account": TEXT, "partition": TEXT, "qos": TEXT,
    "submit": WHOLE, "eligible": WHOLE, "start": WHOLE, "end": WHOLE, "run_s": WHOLE,
    "limit_s": WHOLE, "nodes": WHOLE, "gpus": WHOLE, "gpu_type": TEXT, "state": TEXT,
    "priority": WHOLE, "reason": TEXT, "flags": TEXT, "reservation": TEXT, "node_list": TEXT,
    "submit_line": TEXT, "billing": pl.Float64(),
    "cpus": pl.Float64(), "memory_mb": pl.Float64(),
}  # fmt: skip
"""Times are seconds after 1970; ``start`` is null for a job that never started."""

NOTHING = ("Unknown", "None", "NONE", "N/A", "(null)", "INVALID")
FOREVER_S = 366 * 86400
"""The time limit of a job without one."""
MEGABYTES = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}
NEEDED: tuple[Needed, ...] = (
    ("job ids", (("jobid",),)),
    ("submissions", (("submit",),)),
    ("starts", (("start",),)),
    ("ends", (("end",),)),
    ("GPUs", tuple((name,) for name in RESOURCES)),
)
"""What a replay needs of sacct."""


def in_seconds(time: pl.Expr) -> pl.Expr:
    """Return whole seconds after 1970 of instants."""
    return (time.dt.epoch("us") // 1_000_000).cast(pl.Int64)


def sacct_jobs(
    cells: pl.DataFrame, has: frozenset[str], zone: str
) -> tuple[pl.DataFrame, set[str]]:
    """Return the rows of sacct in the columns of the twin, and which of them the log has."""
    text = [name for name in cells.columns if cells[name].dtype == pl.String]
    cells = cells.with_columns(
        pl.when(~pl.col(name).is_in(NOTHING) & (pl.col(name) != "")).then(pl.col(name)).alias(name)
        for name in text
    ).filter(~is_step("jobid").fill_null(True))

    def column(name: str) -> pl.Expr:
        return pl.col(name) if name in has else pl.lit(None, pl.String)

    # An hour that happens twice in autumn: what comes after the submission is after it.
    start, end = instant("start", zone, "submit"), instant("end", zone, "start")
    gpu_counts: list[pl.Expr] = []
    kinds: list[pl.Expr] = []
    nodes = column("nnodes").cast(pl.Int64, strict=False)
    for name in ("alloctres", "reqtres", "allocgres", "reqgres"):
        if name in has:
            gpus = devices(name) * (nodes.fill_null(1) if name.endswith("gres") else 1)
            gpu_counts.append(pl.when(gpus > 0).then(gpus))
            kinds.append(device_type(name))
    kinds = [pl.when((kind != "") & (kind != ",")).then(kind) for kind in kinds]
    elapsed = column("elapsedraw").cast(pl.Float64, strict=False)
    if "elapsed" in has:
        elapsed = pl.coalesce(elapsed, elapsed_s("elapsed"))
    limit = _limit(column("timelimit"))
    if "timelimitraw" in has:
        limit = pl.coalesce(limit, _limit(pl.col("timelimitraw")))
    billing = column("alloctres").str.extract(r"(?:^|,)billing=(\d+(?:\.\d+)?)")
    requested = column("reqnodes").str.extract(r"^(\d+)").cast(pl.Int64, strict=False)
    read = cells.select(
        job_id=job_id("jobid"),
        user=column("user"), account=column("account"), partition=column("partition"),
        qos=column("qos"),
        submit=in_seconds(instant("submit", zone)),
        eligible=in_seconds(instant("eligible", zone, "submit")) if "eligible" in has
        else pl.lit(None, pl.Int64),
        start=in_seconds(start), end=in_seconds(end), run_s=elapsed.cast(pl.Int64),
        limit_s=limit,
        nodes=pl.coalesce(pl.when(nodes > 0).then(nodes), requested),
        gpus=(pl.coalesce(gpu_counts) if gpu_counts else pl.lit(None, pl.Float64)).cast(pl.Int64),
        gpu_type=(pl.coalesce(kinds) if kinds else pl.lit(None, pl.String)).str.to_lowercase(),
        state=state("state").cast(pl.String) if "state" in has else pl.lit("unknown"),
        priority=column("priority").cast(pl.Int64, strict=False),
        reason=column("reason"), flags=column("flags"), reservation=column("reservation"),
        node_list=column("nodelist"), submit_line=column("submitline"),
        billing=billing.cast(pl.Float64),
        cpus=pl.coalesce(_amount(column(name), "cpu") for name in ("alloctres", "reqtres")),
        memory_mb=pl.coalesce(_amount(column(name), "mem") for name in ("alloctres", "reqtres")),
    )  # fmt: skip
    names = {"limit_s": "timelimit", "nodes": "nnodes", "node_list": "nodelist",
             "submit_line": "submitline", "billing": "alloctres"}  # fmt: skip
    present = {name for name in SITE_COLUMNS if names.get(name, name) in has}
    present |= {"limit_s"} if "timelimitraw" in has else set()
    present |= {"nodes"} if "reqnodes" in has else set()
    return read, present


def _amount(cell: pl.Expr, resource: str) -> pl.Expr:
    """Return an amount in TRES, of memory in megabytes: ``cpu=8,mem=480G``; null for none."""
    parts = cell.str.extract_groups(rf"(?:^|,){resource}=(\d+(?:\.\d+)?)([KMGTP]?)").struct
    factor = parts.field("2").replace_strict(MEGABYTES, default=1.0, return_dtype=pl.Float64)
    return parts.field("1").cast(pl.Float64) * factor


def accelerator_notes(cells: pl.DataFrame, has: frozenset[str]) -> list[str]:
    """Return a note on the jobs on accelerators that Slurm does not call ``gpu``, if any."""
    names: list[pl.DataFrame] = []
    for column in (name for name in RESOURCES if name in has):
        others = cells.select("jobid", other=other_devices(column)).explode("other").drop_nulls()
        names.append(others.select("jobid", pl.col("other").struct.field("name")))
    rows = pl.concat(names) if names else pl.DataFrame()
    if rows.is_empty():
        return []
    kinds = ", ".join(f"gres/{name}" for name in sorted(rows["name"].unique()))
    return [f"{counted(rows['jobid'].n_unique(), 'job')} on {kinds}: their devices count as GPUs"]


def _limit(cell: pl.Expr) -> pl.Expr:
    """Return seconds of ``[DD-]HH:MM:SS``, ``MM:SS`` or minutes; null for Partition_Limit."""
    parts = cell.str.extract_groups(r"^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$").struct
    days, first, second, third = (parts.field(str(i)).cast(pl.Int64) for i in range(1, 5))
    with_days = days * 86400 + first * 3600 + second.fill_null(0) * 60 + third.fill_null(0)
    plain = (
        pl.when(third.is_not_null())
        .then(first * 3600 + second * 60 + third)
        .when(second.is_not_null())
        .then(first * 60 + second)
        .otherwise(first * 60)
    )
    parsed = pl.when(days.is_not_null()).then(with_days).otherwise(plain)
    return pl.when(cell.str.to_lowercase() == "unlimited").then(FOREVER_S).otherwise(parsed)
