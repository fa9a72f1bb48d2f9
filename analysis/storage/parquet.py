"""Write a table to Parquet with a clear error for a full disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl


def write_parquet(
    frame: pl.DataFrame, path: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write ``frame`` to ``path``, with ``metadata`` in the footer.

    Raises:
        OSError: the file cannot be written, for example because the disk is full.
    """
    try:
        with path.open("wb") as file:  # polars opens no path with bytes that are not UTF-8
            frame.write_parquet(file, metadata=dict(metadata) if metadata else None)
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from error
