"""What an earlier pass over the same rows computed of a column, so that it need not be again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

import polars as pl

MOST_ROWS = 2_000_000
"""Rows whose values are kept; of the rows after them nothing is."""

Key = tuple[int, bytes]


@dataclass(slots=True)
class ColumnMemo:
    """Values computed of batches of a column, by the content of the batch.

    Attributes:
        values: content of a batch -> what was computed of it.
        rows: rows of these batches.
    """

    values: dict[Key, pl.Series] = field(default_factory=dict)
    rows: int = 0

    def of(self, cells: pl.Series, compute: Callable[[pl.Series], pl.Series]) -> pl.Series:
        """Return what ``compute`` makes of a batch, or made of an equal one; in any thread."""
        key = (len(cells), blake2b(cells.hash().to_numpy().tobytes(), digest_size=16).digest())
        values = self.values.get(key)
        if values is None:
            values = compute(cells)
            if self.rows + len(cells) <= MOST_ROWS:
                self.values[key] = values
                self.rows += len(cells)
        return values.rename(cells.name)
