"""Readings of the cells of ``sacct``, and how its rows of one job become one."""

from __future__ import annotations

from collections.abc import Sequence, Set

import polars as pl

from gpuplan.analysis.base.time_units import CENTURY_S, DAY_S, HOUR_S, MICROS
from gpuplan.analysis.job_table.gres import MOST_DEVICES, no_accelerators
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    REQUEUE,
    RUN_COLUMNS,
    RUN_FIELDS,
    RUNS,
    SCHEDULER_COLUMNS,
    UTILIZATION_COLUMNS,
)
from gpuplan.analysis.log_formats.format import state_words
from gpuplan.analysis.log_formats.joined_utilization import of_weights, weight_sums, with_weights
from gpuplan.analysis.reading.batch import Tally
from gpuplan.analysis.reading.joins import FIRST, KEY, Join
from gpuplan.analysis.reading.times import moment, moment_after, seconds

JOB_ID = r"^([0-9]+(?:_(?:[0-9]+|\[.*))?)(?:\+[0-9]+)?$"
STEP = r"^[0-9]+(?:_(?:[0-9]+|\[[^\]]*\]))?(?:\+[0-9]+)?\."
EPOCH = r"^[0-9]{9,11}$"
LIMIT = r"^(?:([0-9]{1,9})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?$"
MINUTES = r"^([0-9]{1,9})$"
ELAPSED = (
    r"^(?:(?<d>[0-9]{1,6})-)?(?:(?<h>[0-9]{1,6}):)?(?<m>[0-9]{1,6}):(?<s>[0-9]{1,6}(?:[.][0-9]+)?)$"
)
TRES = r"^[^=,]+=[^=,]*(?:,[^=,]+=[^=,]*)*$"
TRES_GPUS = r"(?:^|,)gres/gpu=([0-9]+)(?:,|$)"
TRES_TYPED = r"^gres/gpu:[^=]+=([0-9]+)$"
TRES_TYPE = r"(?:^|,)gres/gpu:([^=,]+)=0*[1-9]"
TRES_TYPES = r"gres/gpu:.*gres/gpu:"
TRES_BAD = r"(?:^|,)gres/gpu(?::=|(?::[^=,]+)?=(?:[0-9]*[^0-9,][^,]*)?(?:,|$))"
ANY_GPU = r"(?:^|[,/:])gpu(?:[:=,]|$)"
OTHER_TRES = r"^gres/(?<name>[^:=,/]+)(?::(?<type>[^=,]+))?=(?<count>[0-9]{1,9})$"
OTHER_GRES = (
    r"^(?:gres[:/])?(?<name>[A-Za-z][^:=,]*)(?:[:=](?<type>[A-Za-z][^:=,]*))?"
    r"[:=](?<count>[0-9]{1,9})$"
)
ANY_SHARE = r"(?:^|,)(?:gres[:/])?(?:shard|mps)(?::[^=,0-9][^=,:]*)?[=:]0*[1-9]"
MIG = r"(?:^|[^0-9])[1-7]g\.[0-9]+gb"
GRES = r"^[\w:/.,()*=+-]+$"
GRES_IS_GPU = r"^(?:gres[:/])?gpu(?:[:=]|$)"
GRES_GPU = (
    r"^(?:gres[:/])?gpu(?:[:=][0-9]+|[:=](?<typed>[^:=]*)[:=][0-9]+"
    r"|[:=](?<bare>[A-Za-z][^:=]*|[0-9]+[A-Za-z][\w.]+))?$"
)
GRES_COUNT = r"[:=]([0-9]+)$"
IN_PARENTHESES = r"\([^)]*\)"
FOREVER_S = 366 * 86400
"""The time limit of a job without one."""
MOST_WORKERS = 2**31 - 1
MIXED = ","
"""Marks several GPU types; it cannot be the name of a type."""
READ = "\0read"
FEW_DISTINCT = 4
"""A batch with this many times fewer distinct cells than rows is read cell by distinct cell."""
RUN = (*KEY, "component", "submit_time")
OWNER = ("user", "account", "cluster")
PER_JOB = ("user", "group", "job_class", "gpu_type", "priority", "deadline_s")


def job_id(source: str) -> pl.Expr:
    """Return the id of the job: ``12``, ``12_3``, ``12_[4-9]``; a component gives its job's."""
    return pl.col(source).str.extract(JOB_ID)


def component(source: str) -> pl.Expr:
    """Return the place of a component in a heterogeneous job (``12+1``), from 0."""
    return pl.col(source).str.extract(r"\+([0-9]{1,9})$").cast(pl.Int32).fill_null(0)


def owner(has: Set[str]) -> pl.Expr:
    """Return user, account and cluster of a row as one text, of those that are among the columns.

    Slurm numbers jobs per cluster, and begins again when it has used all numbers.
    """
    recorded = [pl.col(name).fill_null("") for name in OWNER if name in has]
    return pl.concat_str(recorded, separator="\0") if recorded else pl.lit("")


def is_step(source: str) -> pl.Expr:
    """Return whether a row is a step of a job: ``12.batch``, ``12_3.0``, ``12+1.extern``."""
    return pl.col(source).str.contains(STEP)


def instant(source: str, zone: str, earlier: str | None = None) -> pl.Expr:
    """Return instants: local times of a zone, times with an offset, or seconds after 1970.

    Args:
        source: the column.
        zone: zone of the local times.
        earlier: column of earlier times; it resolves the ambiguous hour in autumn.
    """
    epoch = pl.when(pl.col(source).str.contains(EPOCH)).then(seconds(source))
    recorded = moment(source, zone) if earlier is None else moment_after(source, earlier, zone)
    return pl.coalesce(recorded, epoch)


def state(source: str) -> pl.Expr:
    """Return canonical states of ``COMPLETED``, ``CANCELLED by 1001``, ``CANCELLED+`` or ``CD``."""
    word = pl.col(source).str.extract(r"^([A-Za-z_]+)").str.to_lowercase()
    words = state_words("slurm", "slurm_codes")
    return word.replace_strict(words, default="unknown", return_dtype=CANONICAL["state"])


def elapsed_s(source: str) -> pl.Expr:
    """Return the seconds of ``[DD-[HH:]]MM:SS``."""
    parts = pl.col(source).str.extract_groups(ELAPSED)
    days, hours, minutes, rest = (parts.struct.field(p).cast(pl.Float64) for p in "dhms")
    return days.fill_null(0) * DAY_S + hours.fill_null(0) * HOUR_S + minutes * 60 + rest


def time_limit_s(cell: pl.Expr) -> pl.Expr:
    """Return seconds of ``[DD-]HH:MM:SS``, ``MM:SS`` or minutes; null for Partition_Limit.

    A number of more than nine digits, which no scheduler writes, is no limit either.
    """
    parts = cell.str.extract_groups(LIMIT).struct
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


def of_distinct(value: pl.Expr, source: str, kind: pl.DataType) -> pl.Expr:
    """Return a reading of cells that computes each distinct cell once: few differ in most logs.

    Args:
        value: the reading, of a cell alone.
        source: the column that it reads.
        kind: the type of its values.
    """

    def read(cells: pl.Series) -> pl.Series:
        rows = cells.alias(source).to_frame()
        distinct = rows.unique()
        if distinct.height * FEW_DISTINCT > rows.height:
            return rows.select(value.cast(kind).alias(source)).to_series()
        read_once = distinct.with_columns(value.cast(kind).alias(READ))
        joined = rows.join(
            read_once, on=source, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined[READ].alias(source)

    return pl.col(source).map_batches(read, return_dtype=kind, is_elementwise=True)


def tres_gpus(source: str) -> pl.Expr:
    """Return the GPUs of ``cpu=8,gres/gpu=4,gres/gpu:a100=4``: the total, or the sum of the types.

    Both count the same GPUs, so they are never added. A missing key is 0, a count that is not a
    whole number is null.
    """
    cell = pl.col(source)
    typed = cell.str.split(",").list.eval(pl.element().str.extract(TRES_TYPED).cast(pl.Float64))
    total = cell.str.extract(TRES_GPUS).cast(pl.Float64)
    is_read = cell.str.contains(TRES) & ~cell.str.contains(TRES_BAD)
    return pl.when(is_read).then(pl.coalesce(total, typed.list.sum()))


def gres_gpus(source: str) -> pl.Expr:
    """Return the GPUs per node of ``gpu:4``, ``gpu:a100:4(S:0-1)``; a bare ``gpu`` is one.

    An invalid count is null.
    """
    entries, entry = _gres_entries(source), pl.element()
    is_gpu = entry.str.contains(GRES_IS_GPU)
    count = entry.str.extract(GRES_COUNT).cast(pl.Float64).fill_null(1.0)
    gpus = entries.list.eval(pl.when(is_gpu).then(count)).list.sum()
    is_bad = entries.list.eval(is_gpu & ~entry.str.contains(GRES_GPU)).list.any()
    return pl.when(pl.col(source).str.contains(GRES) & ~is_bad).then(gpus)


def tres_type(source: str) -> pl.Expr:
    """Return the GPU type of ``gres/gpu:a100=4``; `MIXED` for several, empty text for none."""
    cell = pl.col(source)
    recorded = pl.when(cell.str.contains(TRES_TYPES)).then(cell).str.split(",")
    several = _one_type(recorded.list.eval(pl.element().str.extract(TRES_TYPE)))
    return (
        pl.when(recorded.is_null())
        .then(cell.str.extract(TRES_TYPE).fill_null(""))
        .otherwise(several)
    )


def gres_type(source: str) -> pl.Expr:
    """Return the GPU type of ``gpu:a100:4``; `MIXED` for several, empty text for none."""
    parts = pl.element().str.extract_groups(GRES_GPU).struct
    recorded = pl.coalesce(parts.field("typed"), parts.field("bare"))
    return _one_type(_gres_entries(source).list.eval(pl.when(recorded != "").then(recorded)))


def devices(source: str) -> pl.Expr:
    """Return the GPUs of a cell of TRES or GRES, or else its other accelerators.

    ``gres/npu=8`` has 8 of them; ``npu:8`` has 8 per node, as in any cell of GRES.
    """
    gpus = tres_gpus(source) if source.endswith("tres") else gres_gpus(source)
    other_counts = other_devices(source).list.eval(pl.element().struct.field("count")).list.max()
    return pl.when(gpus == 0).then(pl.coalesce(other_counts, 0.0)).otherwise(gpus)


def device_type(source: str) -> pl.Expr:
    """Return the type of the `devices`; `MIXED` for several, empty text for none.

    Other accelerators without a type have the name of the resource, such as ``npu``.
    """
    gpus = tres_type(source) if source.endswith("tres") else gres_type(source)
    accelerators = other_devices(source)
    of_type, of_name = (
        accelerators.list.eval(pl.element().struct.field(field).drop_nulls()).list.first()
        for field in ("type", "name")
    )
    other = pl.coalesce(of_type, of_name)
    return pl.when((gpus == "") & other.is_not_null()).then(other).otherwise(gpus)


def other_devices(source: str) -> pl.Expr:
    """Return the accelerators of a cell that has no GPU: a list of ``name``, ``type``, ``count``.

    The total and the types of ``gres/npu=8,gres/npu:ascend910b=8`` count the same devices.
    """
    is_tres = source.endswith("tres")
    cell = pl.col(source)
    may_have = cell.str.contains("gres/" if is_tres else r"[:=][0-9]") & ~cell.str.contains(ANY_GPU)
    entries = pl.when(may_have).then(cell.str.replace_all(IN_PARENTHESES, "")).str.split(",")
    parts = pl.element().str.extract_groups(OTHER_TRES if is_tres else OTHER_GRES).struct
    name, count = parts.field("name").str.to_lowercase(), parts.field("count").cast(pl.Float64)
    device = pl.struct(name=name, type=parts.field("type"), count=count)
    is_device = ~name.is_in(sorted(no_accelerators())) & count.is_between(1, MOST_DEVICES)
    return entries.list.eval(pl.when(is_device).then(device)).list.drop_nulls()


def has_shares(source: str) -> pl.Expr:
    """Return whether a cell of TRES or GRES has shares of GPUs: ``gres/shard=2``, ``mps:50``."""
    return pl.col(source).str.contains(ANY_SHARE).fill_null(False)


def is_slice(kind: pl.Expr) -> pl.Expr:
    """Return whether a type of device is a slice of a GPU, as ``a100_1g.5gb`` is."""
    return kind.str.contains(MIG).fill_null(False)


def _gres_entries(source: str) -> pl.Expr:
    return pl.col(source).str.replace_all(IN_PARENTHESES, "").str.split(",")


def _one_type(types: pl.Expr) -> pl.Expr:
    recorded = types.list.drop_nulls()
    kinds = recorded.list.eval(pl.element().str.to_lowercase()).list.n_unique()
    return pl.when(kinds > 1).then(pl.lit(MIXED)).otherwise(recorded.list.first().fill_null(""))


def one_job_each(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per job from rows of its runs, its components, or both.

    The GPUs and workers of the components of a run add up, its duration is the longest of theirs.
    The durations of the runs add up; GPUs and workers are those of the first run that started, the
    state is that of the last, what the scheduler recorded that of the first, utilization is a mean
    over GPU-hours. All runs stand in `RUNS`, the time between them in `REQUEUE`. A run that occurs
    twice, as in the dumps of two months, counts once, by its later row. If an id has several
    owners, the jobs of the later ones are called ``12-2``, ``12-3``.
    """
    started = pl.col("start_time").is_not_null()
    last_state = pl.col("state").filter(started).last()
    recorded = [name for name in SCHEDULER_COLUMNS if name in rows.columns]
    is_mixed = pl.col("is_mixed").any() | (pl.col("gpu_type").drop_nulls().n_unique() > 1)
    runs = (
        with_weights(rows)
        .with_row_index(FIRST)
        .filter(started | ~started.any().over(RUN))
        .sort(pl.col("state") == "running", FIRST, descending=[True, False])
        .unique([*RUN, "start_time"], keep="last", maintain_order=True)
        .sort(*KEY, "submit_time", "start_time", "component", FIRST)
        .with_columns(pl.int_range(pl.len()).over(*KEY, "component").alias("run"))
        .group_by(*KEY, "run", maintain_order=True)
        .agg(
            pl.col(FIRST, "submit_time", "queue_s", "start_time", "state", "source_state").first(),
            pl.col("duration_s").max(),
            pl.col(recorded).first(),
            *weight_sums(rows),
            pl.col("num_gpus").sum(),
            pl.col("num_workers").cast(pl.Int64).sum(),
            *(pl.col(name).drop_nulls().first() for name in PER_JOB if name != "gpu_type"),
            pl.when(~is_mixed).then(pl.col("gpu_type").drop_nulls().first()),
            is_mixed.alias("is_mixed"),
        )
    )
    jobs = (
        runs.sort(*KEY, "run")
        .with_columns(_run(recorded).alias("this_run"))
        .group_by(*KEY, maintain_order=True)
        .agg(
            pl.col(FIRST).min(),
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
            pl.col("is_mixed").any(),
            started.sum().clip(1).alias("attempts"),
            pl.col(recorded).first(),
            *weight_sums(rows),
            pl.when(pl.len() > 1).then(pl.col("this_run").implode()).alias(RUNS),
            pl.when(started.sum() > 1).then(_between_runs_s()).alias(REQUEUE),
        )
    )
    nth = pl.int_range(1, pl.len() + 1).over("job_id")
    own_id = pl.when(nth > 1).then(pl.format("{}-{}", "job_id", nth)).otherwise("job_id")
    jobs = jobs.sort(FIRST).with_columns(own_id.alias("job_id"), *of_weights(rows))
    canonical = [
        pl.col(name).clip(upper_bound=MOST_WORKERS).cast(kind)
        if name == "num_workers"
        else pl.col(name).cast(kind)
        for name, kind in CANONICAL.items()
    ]
    kept = [
        name for name in (*recorded, *UTILIZATION_COLUMNS, *RUN_COLUMNS) if name in rows.columns
    ]
    return jobs.select(*canonical, *kept, "is_mixed", FIRST)


def _run(recorded: Sequence[str]) -> pl.Expr:
    """Return the `RUN_FIELDS` of a row; a run ends when it has run for its duration."""
    run_us = (pl.col("duration_s") * MICROS).round().cast(pl.Int64)
    values = {
        "start": pl.col("start_time"),
        "end": pl.col("start_time") + pl.duration(microseconds=run_us),
        "gpus": pl.col("num_gpus"),
        "nodes": pl.col("num_workers").clip(upper_bound=MOST_WORKERS),
        **{name: pl.col(name) for name in ("state", "submit_time", *recorded)},
    }
    return pl.struct(
        values.get(name, pl.lit(None)).cast(kind).alias(name) for name, kind in RUN_FIELDS.items()
    )


def _between_runs_s() -> pl.Expr:
    """Return the seconds between the runs of a job that started, in its group of runs."""
    runs = pl.col("this_run").filter(pl.col("start_time").is_not_null()).struct
    gap = runs.field("start") - runs.field("end").shift(1)
    # Beyond a century, a gap is of damaged times.
    return (gap.dt.total_microseconds().clip(0).sum() / MICROS).clip(0, CENTURY_S)


def join(start_time: pl.Expr, is_mixed: pl.Expr) -> Join:
    """Return how the rows of a job become one.

    Args:
        start_time: when the row began to run; null where it did not.
        is_mixed: whether its GPUs are of several types.
    """
    return Join(
        what="rows joined to another of the same job: its run after a requeue, or its component",
        reused="jobs with the id of another user's, account's or cluster's job (-2, -3 ... added)",
        owner=pl.col("owner"),
        columns=(
            pl.col("component"),
            start_time.alias("start_time"),
            is_mixed.alias("is_mixed"),
        ),
        tallies=(
            Tally("jobs that never started (no duration)", pl.col("state") == "not_started"),
            Tally(
                "jobs still running (their duration is a lower bound)", pl.col("state") == "running"
            ),
            Tally(
                "arrays that wait, one row for all their tasks",
                pl.col("job_id").str.contains("[", literal=True),
            ),
            Tally(
                "jobs with GPUs of several types (no type is kept)",
                pl.col("is_mixed") & pl.col("gpu_type").is_null(),
            ),
        ),
        one_job_each=one_job_each,
    )
