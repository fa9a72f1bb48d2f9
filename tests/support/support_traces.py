"""Small canonical traces that tests write and read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from gpuplan.analysis.schema import CANONICAL, METADATA_KEY, Provenance
from gpuplan.analysis.trace import Trace

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday, midnight


def frame(submit_s, **columns) -> pl.DataFrame:
    """Return a frame with the given submissions (seconds after `ORIGIN`) and columns."""
    submit = [ORIGIN + timedelta(seconds=float(s)) for s in submit_s]
    schema = {"submit_time": CANONICAL["submit_time"]}
    return pl.DataFrame(
        {"submit_time": submit, **columns},
        schema_overrides={**schema, **{c: CANONICAL[c] for c in columns if c in CANONICAL}},
    )


def write(path: Path, jobs: pl.DataFrame, provenance: Provenance | None = None) -> Path:
    """Write a frame as a canonical file."""
    metadata = None if provenance is None else {METADATA_KEY: provenance.to_json()}
    jobs.write_parquet(path, metadata=metadata)
    return path


def in_memory(jobs: pl.DataFrame, provenance: Provenance | None = None) -> Trace:
    """Return a frame as a trace, sorted and with every canonical column, without a file."""
    missing = [
        pl.lit("unknown" if name == "state" else None, dtype=kind).alias(name)
        for name, kind in CANONICAL.items()
        if name not in jobs.columns
    ]
    return Trace(
        jobs=jobs.with_columns(missing).sort("submit_time", maintain_order=True),
        path=Path("trace.parquet"),
        sha256="",
        rows=jobs.height,
        provenance=provenance or Provenance(source_format="canonical"),
    )
