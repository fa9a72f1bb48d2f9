"""Small canonical traces that tests make for themselves, in memory and as files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.job_table.schema import CANONICAL, METADATA_KEY, Provenance
from gpuplan.analysis.trace.trace import Trace

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday, midnight
START = datetime(2024, 3, 1, tzinfo=UTC)


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


def write_trace(path, submit_s, duration_s, num_gpus=None, **columns):
    """Write a canonical trace with the given columns; returns the path."""
    pl.DataFrame(
        {
            "submit_time": [START + timedelta(seconds=float(s)) for s in submit_s],
            "duration_s": pl.Series(duration_s, dtype=pl.Float64),
            "num_gpus": pl.Series(num_gpus or [1.0] * len(submit_s), dtype=pl.Float64),
            **columns,
        },
        schema_overrides={"submit_time": pl.Datetime("us", "UTC")},
    ).write_parquet(path)
    return path


def lab_trace(path, jobs=400, seed=0):
    """Write two days of a lab: many short jobs, a few long ones, some on several GPUs."""
    rng = np.random.default_rng(seed)
    return write_trace(
        path,
        np.sort(rng.uniform(0, 2 * 86_400, jobs)),
        np.minimum(rng.lognormal(np.log(300), 1.8, jobs), 40_000),
        rng.choice([0.5, 1.0, 1.0, 2.0, 4.0], jobs).tolist(),
        job_id=[f"job-{i}" for i in range(jobs)],
    )
