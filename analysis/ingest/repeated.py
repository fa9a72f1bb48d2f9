"""Ids that occur on several rows of a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.ingest.trace_reading import Reading


def repeated_ids(reading: Reading, trace: Path) -> frozenset[str]:
    """Return the ids of a written trace to watch: on several rows, or on a refused row too."""
    ids = pl.scan_parquet(trace, glob=False).select("job_id")
    watched: set[str] = set()
    # Equal hashes do not prove equal ids: compare the ids themselves.
    if (hashes := reading.ids.repeated()).size:
        suspects = ids.filter(pl.col("job_id").hash().is_in(np.unique(hashes).tolist()))
        counted = suspects.group_by("job_id").len().filter(pl.col("len") > 1)
        watched.update(counted.collect()["job_id"].to_list())
    if reading.lost:
        lost = sorted({job_id for job_id, *_ in reading.lost})
        watched.update(ids.filter(pl.col("job_id").is_in(lost)).collect()["job_id"].to_list())
    return frozenset(watched)
