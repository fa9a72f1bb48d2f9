"""Readings of the cells of ``sacct``, and how its rows of one job become one."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.ingest.joins import Join
from gpuplan.analysis.ingest.states import SLURM, SLURM_SHORT
from gpuplan.analysis.ingest.times import moment, seconds
from gpuplan.analysis.schema import CANONICAL

JOB_ID = r"^(\d+(?:_(?:\d+|\[.*))?)(?:\+\d+)?$"
STEP = r"^\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?\."
EPOCH = r"^\d{9,11}$"
ELAPSED = r"^(?:(?<d>\d{1,6})-)?(?:(?<h>\d{1,6}):)?(?<m>\d{1,6}):(?<s>\d{1,6}(?:[.]\d+)?)$"
TRES = r"^[^=,]+=[^=,]*(?:,[^=,]+=[^=,]*)*$"
TRES_GPUS = r"(?:^|,)gres/gpu=(\d+)(?:,|$)"
TRES_TYPED = r"^gres/gpu:[^=]+=(\d+)$"
TRES_TYPE = r"(?:^|,)gres/gpu:([^=,]+)="
GRES = r"^[\w:/.,()*=+-]+$"
GRES_IS_GPU = r"^(?:gres[:/])?gpu(?:[:=]|$)"
GRES_TYPE = r"(?:^|,)(?:gres[:/])?gpu[:=]([^:=,()]*[A-Za-z][^:=,()]*)"
GRES_COUNT = r"[:=](\d+)$"
IN_PARENTHESES = r"\([^)]*\)"
RUN = ("job_id", "component", "submit_time")
WORDS = {**SLURM, **SLURM_SHORT}
PER_JOB = ("user", "group", "job_class", "gpu_type", "priority", "deadline_s")


def job_id(source: str) -> pl.Expr:
    """Return the id of the job: ``12``, ``12_3``, ``12_[4-9]``; a component gives its job's."""
    return pl.col(source).str.extract(JOB_ID)


def component(source: str) -> pl.Expr:
    """Return the place of a component in a heterogeneous job (``12+1``), from 0."""
    return pl.col(source).str.extract(r"\+(\d{1,9})$").cast(pl.Int32).fill_null(0)


def is_step(source: str) -> pl.Expr:
    """Whether a row is a step of a job: ``12.batch``, ``12_3.0``, ``12+1.extern``."""
    return pl.col(source).str.contains(STEP)


def instant(source: str, zone: str) -> pl.Expr:
    """Return instants: local times of a zone, times with an offset, or seconds after 1970."""
    epoch = pl.when(pl.col(source).str.contains(EPOCH)).then(seconds(source))
    return pl.coalesce(moment(source, zone), epoch)


def state(source: str) -> pl.Expr:
    """Return canonical states of ``COMPLETED``, ``CANCELLED by 1001``, ``CANCELLED+`` or ``CD``."""
    word = pl.col(source).str.extract(r"^([A-Za-z_]+)").str.to_lowercase()
    return word.replace_strict(WORDS, default="unknown", return_dtype=CANONICAL["state"])


def elapsed_s(source: str) -> pl.Expr:
    """Return the seconds of ``[DD-[HH:]]MM:SS``."""
    parts = pl.col(source).str.extract_groups(ELAPSED)
    days, hours, minutes, rest = (parts.struct.field(p).cast(pl.Float64) for p in "dhms")
    return days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + rest


def tres_gpus(source: str) -> pl.Expr:
    """Return the GPUs of ``cpu=8,gres/gpu=4,gres/gpu:a100=4``: the total, or the sum of the types.

    Both tell the same GPUs, so they are never added. No such key is 0.
    """
    cell = pl.col(source)
    typed = cell.str.split(",").list.eval(pl.element().str.extract(TRES_TYPED).cast(pl.Float64))
    total = cell.str.extract(TRES_GPUS).cast(pl.Float64)
    return pl.when(cell.str.contains(TRES)).then(pl.coalesce(total, typed.list.sum()))


def gres_gpus(source: str) -> pl.Expr:
    """Return the GPUs per node of ``gpu:4``, ``gpu:a100:4(S:0-1)``; a bare ``gpu`` is one."""
    cell, entry = pl.col(source), pl.element()
    count = entry.str.extract(GRES_COUNT).cast(pl.Float64).fill_null(1.0)
    entries = cell.str.replace_all(IN_PARENTHESES, "").str.split(",")
    gpus = entries.list.eval(pl.when(entry.str.contains(GRES_IS_GPU)).then(count)).list.sum()
    return pl.when(cell.str.contains(GRES)).then(gpus)


def gpu_type(source: str) -> pl.Expr:
    """Return the first GPU type that a cell of either kind tells; empty text for none."""
    cell = pl.col(source)
    return pl.coalesce(cell.str.extract(TRES_TYPE), cell.str.extract(GRES_TYPE), pl.lit(""))


def one_job_each(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per job of rows that are runs of it, components of it, or both.

    The GPUs and workers of the components of a run add up, its duration is the longest of theirs.
    The durations of the runs add up; GPUs and workers are those of the first run that started, the
    state is that of the last. A run seen twice, as in the dumps of two months, counts once, as its
    later row tells it.
    """
    if "start_time" not in rows.columns:  # the log has no such column
        ran = pl.col("state") != "not_started"
        rows = rows.with_columns(pl.when(ran).then("submit_time").alias("start_time"))
    started = pl.col("start_time").is_not_null()
    last_state = pl.col("state").filter(started).last()
    runs = (
        rows.with_row_index("order")
        .filter(started | ~started.any().over(RUN))
        .sort(pl.col("state") == "running", "order", descending=[True, False])
        .unique([*RUN, "start_time"], keep="last", maintain_order=True)
        .sort("job_id", "submit_time", "start_time", "component", "order")
        .with_columns(pl.int_range(pl.len()).over("job_id", "component").alias("run"))
        .group_by("job_id", "run", maintain_order=True)
        .agg(
            pl.col(
                "order", "submit_time", "queue_s", "start_time", "state", "source_state"
            ).first(),
            pl.col("duration_s").max(),
            pl.col("num_gpus", "num_workers").sum(),
            *(pl.col(name).drop_nulls().first() for name in PER_JOB),
        )
    )
    jobs = (
        runs.sort("job_id", "run")
        .group_by("job_id", maintain_order=True)
        .agg(
            pl.col("order").min(),
            pl.col("submit_time", "queue_s").first(),
            pl.when(pl.col("duration_s").count() > 0).then(pl.col("duration_s").sum()).first(),
            *(
                pl.coalesce(pl.col(name).filter(started).first(), pl.col(name).first())
                for name in ("num_gpus", "num_workers")
            ),
            pl.coalesce(last_state, pl.col("state").last()),
            pl.when(last_state.is_null())
            .then(pl.col("source_state").last())
            .otherwise(pl.col("source_state").filter(started).last())
            .alias("source_state"),
            *(pl.col(name).drop_nulls().first() for name in PER_JOB),
            started.sum().clip(1).alias("attempts"),
        )
    )
    return jobs.sort("order").select(pl.col(name).cast(kind) for name, kind in CANONICAL.items())


JOIN = Join(
    what="rows joined to another of the same job: its run after a requeue, or its component",
    columns=("component", "start_time"),
    one_job_each=one_job_each,
)
