"""The canonical trace itself, as Parquet or CSV: checked, completed and written anew."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import polars as pl

from gpuplan.analysis.job_table.run_cells import is_runs, runs_of_text
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    METADATA_KEY,
    OWN_COLUMNS,
    REQUIRED,
    RUN_COLUMNS,
    RUNS,
    SOURCE,
    STEPS,
    SUBMIT_TYPE,
    UTILIZATION_COLUMNS,
    Provenance,
)
from gpuplan.analysis.log_formats.format import (
    IngestOptions,
    LogFormat,
    SourceContext,
    has_columns,
    need,
)
from gpuplan.analysis.log_formats.mapped import TARGETS, mapped_plan, table_plan, with_source_state
from gpuplan.analysis.reading.delimited import open_rows
from gpuplan.analysis.reading.plan import NUMBER, Field, ReadingPlan, Rule, text
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.times import moment

KINDS = (pl.String(), pl.Float64(), pl.Int64(), pl.Int32(), SUBMIT_TYPE)
"""Types of the columns that ingest writes besides the canonical ones."""

FROM_ENDS = ("submit_time", "start_time", "end_time", "num_gpus")
"""Columns that are enough where run times are not recorded: each is end less start."""


def _plan(context: SourceContext) -> ReadingPlan:
    if context.choices.columns:
        plan = mapped_plan(context)
    else:
        if not _has_ends(context.columns):
            need(context, REQUIRED, "canonical")
        # In a trace of ours, a start_time is a column that was kept of another log.
        targets = TARGETS if _provenance(context.head) is None else CANONICAL
        columns = with_source_state({name: name for name in targets if name in context.columns})
        plan = table_plan(context, columns, "job")
    read_already = {field.name for field in plan.fields}
    extra = _extra_columns(context.head, context.columns, context.choices)
    extra = {name: kind for name, kind in extra.items() if name not in read_already}
    plan = replace(
        plan, fields=(*plan.fields, *(_extra_field(*column) for column in extra.items()))
    )
    if STEPS in extra:
        negative = Rule("negative_duration", STEPS, "at least 0", pl.col(STEPS) < 0)
        plan = replace(plan, rules=(*plan.rules, negative))
    before = _provenance(context.head)
    if before is None:
        return plan
    return replace(plan, relative_time=before.relative_time, time_zone=before.time_zone,
                   notes=before.notes)  # fmt: skip


def _extra_columns(
    head: Head, columns: Sequence[str], choices: IngestOptions
) -> dict[str, pl.DataType]:
    """Return the columns besides the canonical ones: all that ingest itself wrote."""
    written_by_ingest = {SOURCE: pl.String(), **OWN_COLUMNS, **UTILIZATION_COLUMNS}
    if _provenance(head) is None:
        return {name: kind for name, kind in written_by_ingest.items() if name in columns}
    written = pl.read_parquet_schema(head.file or head.path)
    extra = {n: kind for n, kind in written.items() if n in columns and n not in CANONICAL}
    return {
        name: RUN_COLUMNS[RUNS] if is_runs(kind) else written_by_ingest.get(name, kind)
        for name, kind in extra.items()
        if kind in KINDS or (name == RUNS and is_runs(kind))
    }


def _extra_field(name: str, kind: pl.DataType) -> Field:
    if kind == pl.String():
        return text(name, name)
    if name == RUNS:
        return Field(name, name, runs_of_text(name))
    if kind == SUBMIT_TYPE:
        return Field(name, name, moment(name, "UTC"), "a time")
    value = pl.col(name).cast(kind, strict=False)
    return Field(name, name, value, NUMBER)


def _provenance(head: Head) -> Provenance | None:
    if not head.is_parquet:
        return None
    try:
        return Provenance.from_json(pl.read_parquet_metadata(head.file or head.path)[METADATA_KEY])
    except (KeyError, ValueError, TypeError, pl.exceptions.PolarsError):
        return None  # written by another tool


def _recognizes(head: Head) -> str | None:
    if head.is_parquet:
        return "a Parquet file"
    return has_columns(head, REQUIRED) or has_columns(head, FROM_ENDS)


def _has_ends(columns: Collection[str]) -> bool:
    """Return whether run times follow from starts and ends."""
    return "duration_s" not in columns and set(FROM_ENDS) <= set(columns)


CANONICAL_FORMAT = LogFormat(
    name="canonical",
    description="a canonical trace, Parquet or CSV, of gpuplan or any other tool",
    source="gpuplan ingest, or your own tool",
    recognizes=_recognizes,
    plan=_plan,
    open=open_rows,
    takes_zone=True,
    takes_columns=True,
    columns=REQUIRED,
    kept=_extra_columns,
)
