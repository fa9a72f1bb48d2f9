"""Find repeated rows or ids of a long trace by their hashes: eight bytes for each."""

from __future__ import annotations

import numpy as np
import polars as pl

HashArray = np.ndarray[tuple[int], np.dtype[np.uint64]]


def hashes_of(rows: pl.DataFrame) -> HashArray:
    """Return a hash per row; equal rows have equal ones within one run of the program."""
    single = rows.to_series() if rows.width == 1 else None
    hashes = rows.hash_rows() if single is None else single.hash()
    result: HashArray = hashes.to_numpy()
    return result


class Hashes:
    """The hashes of many rows, kept in arrays that grow without a copy of all."""

    def __init__(self) -> None:
        self._parts: list[HashArray] = []

    def add(self, part: HashArray) -> None:
        """Take the hashes of the next rows."""
        self._parts.append(part)

    def repeated(self) -> HashArray:
        """Return the hashes seen more than once, each once per extra value; empties the store."""
        total = sum(part.size for part in self._parts)
        merged = np.empty(total, np.uint64)
        at = 0
        self._parts.reverse()
        while self._parts:  # the parts go as the whole grows, so both are never in memory
            part = self._parts.pop()
            merged[at : at + part.size] = part
            at += part.size
        merged.sort()
        extra: HashArray = merged[1:][merged[1:] == merged[:-1]]
        return extra
