"""Read a canonical trace, with the selection and scaling that every analysis command offers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.casts import canonical_cast, found_cell, no_pattern
from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.history import runs
from gpuplan.analysis.history.jobs import PARTS, JobArrays, PeriodUs, job_arrays
from gpuplan.analysis.job_table.column_rules import COLUMN_RULES
from gpuplan.analysis.job_table.log_options import LogAccount
from gpuplan.analysis.job_table.run_cells import as_runs, is_runs
from gpuplan.analysis.job_table.sampling import (
    LOAD_COLUMNS,
    draw_jobs,
    load_note,
    scale_arrivals,
    scale_durations,
)
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    DEFAULTS,
    LEAST_S,
    LIMIT_COLUMN,
    METADATA_KEY,
    OWN_COLUMNS,
    REQUEUE,
    REQUIRED,
    RUN_COLUMNS,
    RUNS,
    SCHEMA_VERSION,
    UNREADABLE,
    Provenance,
)
from gpuplan.analysis.storage.files import PARQUET_MAGIC, readable, regular_file, sha256_of
from gpuplan.analysis.storage.parquet_pages import check_pages
from gpuplan.analysis.storage.standard_error import silent_on
from gpuplan.analysis.trace.conditions import bad_condition, read_condition
from gpuplan.analysis.trace.selection import Selection

SHORT = ("duration_s", "deadline_s")
"""Columns in which a time above 0 is at least `LEAST_S`."""
ASSUMES_GPUS = re.compile(r"\b1( GPU)?( per \w+)? is assumed")
"""In a note of the provenance: the log does not tell how many GPUs a job has."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs in the canonical schema, sorted by submission (ties keep the order of the file).

    Attributes:
        jobs: one row per selected job; the requested columns, of the types in `CANONICAL` or
            categorical if requested, and `PARTS` where jobs with a duration were requeued. Each
            column is one piece of memory.
        path: the file, as the user gave it.
        sha256: hash of the file; of several logs the hash of their hashes.
        rows: jobs in the file, before selection.
        provenance: where the trace comes from.
        notes: what a reader should know of the GPUs of the log and of the selection.
        log: what became of the rows of a log; None where a trace was given.
        period: in which GPUs are counted; None for the whole log. The jobs are then those
            submitted or running in it.
    """

    jobs: pl.DataFrame
    path: Path
    sha256: str
    rows: int
    provenance: Provenance
    notes: tuple[str, ...] = ()
    log: LogAccount | None = None
    period: PeriodUs | None = None

    def arrays(self) -> JobArrays:
        """Return the jobs as arrays; the columns `analysis.history.jobs.COLUMNS` are read."""
        return job_arrays(self.jobs, self.period)

    def submitted(self) -> Trace:
        """Return the jobs submitted in the period, counted over the whole time that they run."""
        if self.period is None:
            return self
        begin = pl.from_epoch(pl.lit(self.period[0]), "us").dt.replace_time_zone("UTC")
        return replace(self, jobs=self.jobs.filter(pl.col("submit_time") >= begin), period=None)

    @property
    def submit_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Submissions in seconds after the first one; shape (n,), ascending."""
        micros = self.jobs["submit_time"].dt.epoch("us").to_numpy()
        result: np.ndarray[tuple[int], np.dtype[np.float64]] = (micros - micros[0]) / MICROS
        return result


def read_trace(
    path: Path,
    selection: Selection | None = None,
    *,
    columns: Sequence[str] | None = None,
    categories: Sequence[str] = (),
    optional: Sequence[str] = (),
    named: Path | None = None,
) -> Trace:
    """Read a canonical Parquet file and apply a selection.

    `gpuplan.analysis.ingest.logs.read_trace` takes a log too.

    Args:
        path: the trace, written by ``gpuplan ingest`` or by any tool that keeps the schema.
        selection: which jobs, and how scaled; default all, as recorded.
        columns: canonical columns to read; default all. ``submit_time`` always comes along.
            `LIMIT_COLUMN` may be among them and is left out where the trace has none.
        categories: those of them that hold names which many jobs share, to be kept as codes: a
            quarter of the memory.
        optional: more columns to read where the trace has them.
        named: what messages call it; default its path.

    Raises:
        InputError: no such file, not a canonical trace, a bad cell, or no job left.
        UsageError: ``selection.where`` is not a predicate over the canonical columns.
    """
    selection, named = selection or Selection(), named or path
    _check_is_parquet(regular_file(path))
    provenance = _read_provenance(path)
    wanted = list(dict.fromkeys(["submit_time", *(columns or CANONICAL)]))
    of_load = () if selection.sample is None else LOAD_COLUMNS
    try:
        with silent_on(*UNREADABLE):
            raw = pl.scan_parquet(path, glob=False)
            scan = _as_canonical(path, raw)
            rows, running = _check_values(named, raw, scan)
            if LIMIT_COLUMN in wanted and LIMIT_COLUMN not in scan.collect_schema():
                wanted.remove(LIMIT_COLUMN)
            _check_has(named, wanted, scan)
            has = scan.collect_schema()
            more = dict.fromkeys(name for name in optional if name in has)
            wanted += [name for name in more if name not in wanted]
            scan, of_running = runs.with_time_so_far(scan, **running, as_of=selection.as_of)
            scan = _matching(scan, selection)
            period, notes = None, tuple[str, ...]()
            if selection.has_period:
                begin, end = selection.period_from, selection.period_to
                scan, period, notes = runs.within(scan, begin, end, named)
            if "duration_s" in wanted and PARTS in scan.collect_schema():
                wanted.append(PARTS)
            jobs = _collected(scan, selection, [*dict.fromkeys([*wanted, *of_load])], categories)
            if PARTS in wanted and not jobs[PARTS].count():
                wanted.remove(PARTS)
    except UNREADABLE as error:
        raise _damaged(path, error) from error
    if jobs.is_empty():
        raise InputError(
            named,
            f"none of its {rows:,} jobs is left after --where, --since"
            + (", --until, --from and --to" if selection.has_period else " and --until"),
            hint="loosen the selection",
        )
    jobs, of_sample = _sampled(jobs, selection)
    return Trace(
        jobs=_scaled(jobs.select(wanted), selection),
        path=path,
        sha256=sha256_of(path),
        rows=rows,
        provenance=provenance,
        notes=(*filter(ASSUMES_GPUS.search, provenance.notes), *of_running, *notes, *of_sample),
        period=period,
    )


def _check_is_parquet(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:  # polars accepts no other names
        raise InputError(path, "its name is not UTF-8", hint="rename it") from error
    with readable(path), path.open("rb") as stream:
        magic = stream.read(4)
    if magic != PARQUET_MAGIC:
        raise InputError(
            path,
            "is not a Parquet file" if magic else "is empty",
            expected="a canonical trace",
            hint=f"bring a log into the canonical schema: gpuplan ingest {path} -o trace.parquet",
        )


def _read_provenance(path: Path) -> Provenance:
    """Return the stored provenance; a file of another tool has an unknown one."""
    try:
        check_pages(path)
        with silent_on(*UNREADABLE):
            stored = pl.read_parquet_metadata(path).get(METADATA_KEY)
    except UNREADABLE as error:
        raise _damaged(path, error) from error
    if stored is None:
        return Provenance(source_format="canonical")
    try:
        provenance = Provenance.from_json(stored)
    except (ValueError, TypeError) as error:
        raise InputError(
            path, f"its {METADATA_KEY!r} metadata cannot be read ({error})", hint="ingest it again"
        ) from error
    if provenance.schema_version > SCHEMA_VERSION:
        raise InputError(
            path,
            f"has the schema version {provenance.schema_version}",
            expected=f"{SCHEMA_VERSION} or older",
            hint="upgrade gpuplan",
        )
    return provenance


def _damaged(path: Path, error: BaseException) -> InputError:
    reason = str(error).strip().partition("\n")[0]
    return InputError(path, f"is a damaged Parquet file ({reason})", hint="ingest the log again")


def _as_canonical(path: Path, scan: pl.LazyFrame) -> pl.LazyFrame:
    """Return all canonical columns in their types; missing optional ones are filled."""
    schema = scan.collect_schema()
    missing = [name for name in REQUIRED if name not in schema]
    if missing:
        raise InputError(
            path,
            f"no column {', '.join(missing)}; found {', '.join(schema.names()[:12])}",
            expected=f"a canonical trace with {', '.join(REQUIRED)}",
            hint=f"name its columns: gpuplan ingest {path} -o trace.parquet "
            + " ".join(f"--map {name}=COLUMN" for name in missing),
        )
    columns = []
    for name, kind in CANONICAL.items():
        if name not in schema:
            if name == "job_id":
                columns.append(pl.int_range(pl.len()).cast(pl.String).alias(name))
            else:
                columns.append(pl.lit(DEFAULTS.get(name), dtype=kind).alias(name))
        else:
            hint = f"have it read: gpuplan ingest {path} -o trace.parquet"
            column = canonical_cast(path, name, schema[name], kind, hint)
            if name in SHORT:
                is_short = (column > 0) & (column < LEAST_S)
                column = pl.when(is_short).then(LEAST_S).otherwise(column).alias(name)
            columns.append(column.fill_null(DEFAULTS[name]) if name in DEFAULTS else column)
    for name, kind in OWN_COLUMNS.items():
        has_it = name in schema and schema[name].is_numeric()
        columns.append((pl.col(name) if has_it else pl.lit(None)).cast(kind).alias(name))
    if schema.get(LIMIT_COLUMN) == pl.Float64():
        columns.append(pl.col(LIMIT_COLUMN))
    more = [n for n in schema if n not in (*CANONICAL, *OWN_COLUMNS, LIMIT_COLUMN, *RUN_COLUMNS)]
    more = [n for n in more if no_pattern(n) == n and not schema[n].is_nested()]
    columns += [pl.col(n) for n in more]  # for --where, --spot, --by
    if not is_runs(schema.get(RUNS)):
        return scan.select(*columns, pl.lit(None, RUN_COLUMNS[REQUEUE]).alias(REQUEUE))
    scan = scan.select(*columns, as_runs(schema[RUNS]))
    return scan.with_columns(runs.requeue_s().alias(REQUEUE), runs.run_parts())


def _check_has(path: Path, wanted: Sequence[str], scan: pl.LazyFrame) -> None:
    """Refuse columns that are not canonical, which only some traces have. Raises `UsageError`."""
    columns = scan.collect_schema()
    for name in wanted:
        if name not in columns:
            kept = [n for n in columns if n not in (*CANONICAL, *OWN_COLUMNS)]
            raise UsageError(
                f"no column {name!r} in {path}{perhaps(name, [*CANONICAL, *kept])}\n"
                f"  next: keep it with --keep {name} where the log is read"
            )


def _check_values(path: Path, raw: pl.LazyFrame, scan: pl.LazyFrame) -> tuple[int, dict[str, int]]:
    """Refuse the first cell that breaks a rule, in one pass; returns the rows and `RUNNING`."""
    rules = {name: rule.broken.alias(name) for name, rule in COLUMN_RULES.items()}
    counts = scan.select(
        pl.len().alias("rows"), *(bad.sum() for bad in rules.values()), **runs.RUNNING
    ).collect()
    rows = int(counts["rows"].item())
    if rows == 0:
        raise InputError(path, "has no jobs", expected="at least one job")
    for name, bad in rules.items():
        if counts[name].item():
            row = scan.select(bad.arg_true().first()).collect().item()
            raise InputError(
                path,
                f"found {found_cell(raw, name, row)} ({counted(counts[name].item(), 'such row')})",
                row=row + 1,
                column=name,
                expected=COLUMN_RULES[name].expected,
                hint="ingest the file: bad rows are kept aside and counted",
            )
    return rows, {name: counts[name].item() for name in runs.RUNNING}


def _matching(scan: pl.LazyFrame, selection: Selection) -> pl.LazyFrame:
    """Return the jobs of a selection."""
    if selection.spot is not None:
        is_spot = read_condition(selection.spot, scan, "--spot").fill_null(False)
        kind = pl.when(is_spot).then(pl.lit("spot")).otherwise(pl.lit("hp"))
        scan = scan.with_columns(kind.cast(CANONICAL["priority"]).alias("priority"))
    if selection.where is not None:
        scan = scan.filter(read_condition(selection.where, scan))
    if selection.since is not None:
        scan = scan.filter(pl.col("submit_time") >= selection.since)
    if selection.until is not None:
        scan = scan.filter(pl.col("submit_time") < selection.until)
    return scan


def _collected(
    scan: pl.LazyFrame, selection: Selection, wanted: list[str], categories: Sequence[str]
) -> pl.DataFrame:
    try:
        jobs = (
            scan.select(wanted)
            .with_columns(
                pl.col([name for name in categories if name in wanted]).cast(pl.Categorical)
            )
            .collect()
        )
    except pl.exceptions.PolarsError as error:  # such as a cast of a value
        if selection.where is not None:
            raise bad_condition(selection.where, error) from error
        if selection.spot is not None:
            raise bad_condition(selection.spot, error, "--spot") from error
        raise
    if not jobs["submit_time"].is_sorted():  # ingest writes it sorted
        jobs = jobs.sort("submit_time", maintain_order=True)
    columns = jobs.get_columns()
    del jobs
    for i, column in enumerate(columns):  # one after another, so that only one is there twice
        columns[i] = column.rechunk()
    return pl.DataFrame(columns)


def _sampled(jobs: pl.DataFrame, selection: Selection) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the jobs of ``--sample``, and what to know of them."""
    if selection.sample is None:
        return jobs, ()
    if selection.sample >= jobs.height:
        return jobs, (f"--sample {selection.sample} takes all {jobs.height} jobs",)
    chosen = draw_jobs(jobs, selection.sample, selection.seed)
    note = load_note(
        jobs,
        chosen,
        scale_duration=selection.scale_duration,
        scale_interarrival=selection.scale_interarrival,
    )
    return chosen, (note,)


def _scaled(jobs: pl.DataFrame, selection: Selection) -> pl.DataFrame:
    if selection.scale_duration != 1 and "duration_s" in jobs.columns:
        jobs = jobs.with_columns(scale_durations(jobs["duration_s"], selection.scale_duration))
        if LIMIT_COLUMN in jobs.columns:
            jobs = jobs.with_columns(pl.col(LIMIT_COLUMN) * selection.scale_duration)
        if PARTS in jobs.columns:
            jobs = jobs.with_columns(runs.scaled_parts(selection.scale_duration))
    if selection.scale_interarrival != 1:
        jobs = scale_arrivals(jobs, selection.scale_interarrival)
    return jobs
