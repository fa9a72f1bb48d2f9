"""Apply a plan to a batch: the jobs, and the refused rows with their reasons.

Every cell is parsed from text; rows with a cell that cannot be read or that break a rule are
refused, the rest are canonical jobs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from gpuplan.analysis.job_table.column_rules import COLUMN_RULES
from gpuplan.analysis.job_table.schema import DEFAULTS
from gpuplan.analysis.reading.batch import ROW, Batch, Refused, Tally
from gpuplan.analysis.reading.joins import KEY
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule
from gpuplan.analysis.reading.times import are_skipped


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """A batch after its plan: jobs with their row numbers, and the refused rows.

    Attributes:
        jobs: kept rows in the canonical columns.
        rows: row number of each kept row.
        batch: where they come from.
        positions: position of each kept row in the batch; None if all are kept.
        refused: rows that are not kept, in no particular order.
        tallies: how often each of the plan's ``counted`` occurs.
        id_column: source column of the ids; None where they are made.
        extra: columns that the plan's join reads besides the canonical ones.
        lost: jobs that a refused row belongs to, where the plan joins rows (see `joins.KEY`).
    """

    jobs: pl.DataFrame
    rows: pl.Series
    batch: Batch
    positions: pl.Series | None
    refused: list[Refused]
    tallies: tuple[int, ...]
    id_column: str | None
    extra: pl.DataFrame | None = None
    lost: pl.DataFrame | None = None


def apply(plan: ReadingPlan, batch: Batch) -> BatchOutcome:
    """Read a batch by a plan."""
    batch, left_out = _rows_of(plan, batch)
    cells = batch.cells
    fields = _fields(plan, cells)
    refused: list[Refused] = list(batch.refused)
    ids = next((f.source for f in plan.fields if f.name == "job_id"), None)
    bad = _bad_cells(plan, cells, fields)
    jobs = _jobs(plan, fields)
    extra_names = [name for name in jobs.columns if f"--keep {name}" in fields.columns]
    of_rules = jobs.drop(name for name in extra_names if name in fields.columns)
    values = pl.concat([of_rules, fields.drop(*of_rules.columns, strict=False)], how="horizontal")
    rules = _rules(plan)
    broken = values.select(
        rule.broken.fill_null(False).alias(str(i)) for i, rule in enumerate(rules)
    )
    extra = None
    if plan.join is not None:
        extra = values.select(plan.join.owner.alias("owner"), *plan.join.columns)
    if not bad and not any(column.any() for column in broken.iter_columns()):
        tallies = left_out + _tally(plan.tallies, values)
        return BatchOutcome(jobs, cells[ROW], batch, None, refused, tallies, ids, extra)
    problems: dict[int, tuple[str, str, str]] = {}
    for f, reason, positions in bad:
        for position in positions:
            problems.setdefault(position, (reason, f.source, f.expected))
    for rule, column in zip(rules, broken.iter_columns(), strict=True):
        for position in column.arg_true():
            problems.setdefault(position, (rule.reason, rule.source, rule.expected))
    at = sorted(problems)
    bad_rows = cells[at]
    columns = {source: bad_rows[source].to_list() for _, source, _ in set(problems.values())}
    for i, (row, position, raw) in enumerate(zip(bad_rows[ROW], at, batch.raw(at), strict=True)):
        reason, source, expected = problems[position]
        cell = columns[source][i]
        shown = None if cell is None else str(cell)
        refused.append(Refused(row, reason, source, shown, expected, raw))
    keep = pl.Series("kept", [True]).new_from_index(0, cells.height)
    keep = keep.scatter(at, False)
    return BatchOutcome(
        jobs.filter(keep),
        cells[ROW].filter(keep),
        batch,
        keep.arg_true(),
        refused,
        left_out + _tally(plan.tallies, values.filter(keep)),
        ids,
        None if extra is None else extra.filter(keep),
        None if extra is None else jobs.hstack(extra)[at].select(KEY).drop_nulls("job_id"),
    )


def _rows_of(plan: ReadingPlan, batch: Batch) -> tuple[Batch, tuple[int, ...]]:
    """Return the lines that are rows, and how many were left out for each of the plan's reasons."""
    cells = batch.cells
    if plan.empty_words:
        cell = pl.exclude(ROW, *plan.verbatim)
        cells = cells.with_columns(pl.when(~cell.is_in(plan.empty_words)).then(cell).name.keep())
    if not plan.left_out:
        return replace(batch, cells=cells), ()
    whys = cells.select(
        tally.counted.fill_null(False).alias(str(i)) for i, tally in enumerate(plan.left_out)
    )
    at = (~whys.fold(operator.or_)).arg_true()

    def as_written(positions: Sequence[int]) -> list[str]:
        return batch.raw([at[position] for position in positions])

    return replace(batch, cells=cells[at], raw=as_written), tuple(int(w.sum()) for w in whys)


def _fields(plan: ReadingPlan, cells: pl.DataFrame) -> pl.DataFrame:
    fields = cells.select(ROW, *(f.value.alias(f.name) for f in plan.fields))
    again = [
        f.thorough.alias(f.name)
        for f in plan.fields
        if f.thorough is not None and fields[f.name].null_count() != cells[f.source].null_count()
    ]
    return fields.with_columns(cells.select(again)) if again else fields


def _bad_cells(
    plan: ReadingPlan, cells: pl.DataFrame, fields: pl.DataFrame
) -> list[tuple[Field, str, pl.Series]]:
    """Return, per field and reason, the positions of cells that refuse their row.

    Counts of nulls, sums and minima show cheaply whether there are any.
    """
    bad = []
    for f in plan.fields:
        raw, read = cells[f.source], fields[f.name]
        if f.required and raw.null_count():
            bad.append((f, "missing", raw.is_null().arg_true()))
        unread = _unread(f, raw, read)
        if unread is None:
            continue
        if f.zone is not None:
            skipped = are_skipped(raw.gather(unread), f.zone)
            bad.append((f, "time_skipped_by_dst", unread.filter(skipped)))
            unread = unread.filter(~skipped)
        bad.append((f, "unreadable", unread))
    return bad


def _unread(f: Field, raw: pl.Series, read: pl.Series) -> pl.Series | None:
    """Return the positions of cells that hold something else than their field; None for none."""
    unread: pl.Series | None = None
    if read.null_count() != raw.null_count():
        unread = raw.is_not_null() & read.is_null()
    if read.dtype == pl.Float64() and not math.isfinite(read.sum()):
        infinite = ~read.is_finite().fill_null(True)
        unread = infinite if unread is None else unread | infinite
    if f.least is not None and (small := (read < f.least).fill_null(False)).any():
        unread = small if unread is None else unread | small
    return unread.arg_true() if unread is not None and unread.any() else None


def _jobs(plan: ReadingPlan, fields: pl.DataFrame) -> pl.DataFrame:
    columns = []
    for name, kind in plan.schema.items():
        if name in plan.jobs:
            value = plan.jobs[name]
        elif name in fields.columns:
            value = pl.col(name)
        else:
            value = pl.repeat(DEFAULTS.get(name), pl.len(), dtype=kind)
        columns.append(value.cast(kind, strict=False).alias(name))
    return fields.select(columns)


def _rules(plan: ReadingPlan) -> tuple[Rule, ...]:
    """Return the rules of the plan, and those of the schema at the columns they are read from."""
    source = {f.name: f.source for f in plan.fields}
    rules = list(plan.rules)
    if {"end_time", "start_time"} <= source.keys():
        is_before = pl.col("end_time") < pl.col("start_time")
        expected = "an end at the start or after it"
        rules.insert(0, Rule("end_before_start", source["end_time"], expected, is_before))
    rules += [
        Rule(fault.reason, _source_of(plan, name), fault.expected, fault.broken)
        for name, rule in COLUMN_RULES.items()
        if name in plan.schema and (name in source or name in plan.jobs)
        for fault in rule.faults
    ]
    return tuple(rules)


def _source_of(plan: ReadingPlan, name: str) -> str:
    """Return the source column to name for a canonical one, which may follow from others."""
    roots = plan.jobs[name].meta.root_names() if name in plan.jobs else []
    source = {f.name: f.source for f in plan.fields}
    recorded = [source[root] for root in (name, *roots) if root in source]
    return recorded[0] if recorded else plan.fields[0].source


def _tally(tallies: Sequence[Tally], values: pl.DataFrame) -> tuple[int, ...]:
    if not tallies:
        return ()
    counts = values.select(t.counted.sum().alias(str(i)) for i, t in enumerate(tallies))
    return counts.row(0)
