"""Open a table that may be Parquet or delimited text."""

from __future__ import annotations

from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.delimited import open_table
from gpuplan.analysis.reading.parquets import open_parquet
from gpuplan.analysis.reading.source import Head, SourceStream


def open_rows(stream: SourceStream) -> Rows:
    """Return the rows of a Parquet file or of a delimited table, by the first bytes."""
    if Head(stream.path, stream.head).is_parquet:
        return open_parquet(stream)
    return open_table(stream)
