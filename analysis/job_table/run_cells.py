"""The runs of a job as a column of a trace: in the types of `RUN_FIELDS`, and as text."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.job_table.schema import RUN_COLUMNS, RUN_FIELDS, RUNS, SUBMIT_TYPE

NEEDED = {"start", "end", "gpus"}
STATE = RUN_FIELDS["state"]
PLAIN = pl.Struct(
    {
        name: pl.Int64() if kind == SUBMIT_TYPE else pl.String() if kind == STATE else kind
        for name, kind in RUN_FIELDS.items()
    }
)
"""A run in types that JSON has: times as microseconds since 1970, states as text."""


def is_runs(kind: pl.DataType | None) -> bool:
    """Return whether a type is a list of runs, with all their fields or some."""
    if not isinstance(kind, pl.List) or not isinstance(kind.inner, pl.Struct):
        return False
    return {field.name for field in kind.inner.fields} >= NEEDED


def as_runs(kind: pl.DataType) -> pl.Expr:
    """Return the column `RUNS` of a type that `is_runs`, with all fields; missing ones are null."""
    present = {field.name for field in kind.inner.fields}  # type: ignore[attr-defined]
    run = pl.element().struct
    fields = pl.struct(
        (run.field(name) if name in present else pl.lit(None)).cast(field_kind).alias(name)
        for name, field_kind in RUN_FIELDS.items()
    )
    return pl.col(RUNS).list.eval(fields).cast(RUN_COLUMNS[RUNS]).alias(RUNS)


def runs_text(kind: pl.DataType) -> pl.Expr:
    """Return the column `RUNS` as text: a line of JSON per run."""
    lines = as_runs(kind).cast(pl.List(PLAIN)).list.eval(pl.element().struct.json_encode())
    return lines.list.join("\n")


def runs_of_text(source: str) -> pl.Expr:
    """Return runs of what `runs_text` gives."""
    lines = pl.col(source).str.split("\n")
    return lines.list.eval(pl.element().str.json_decode(PLAIN)).cast(RUN_COLUMNS[RUNS])
