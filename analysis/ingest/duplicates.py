"""Find repeated rows or ids of a long trace by their hashes: eight bytes for each."""

from __future__ import annotations

from array import array

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
    """The hashes of many rows, in one array that grows in place."""

    def __init__(self) -> None:
        self._all = array("Q")

    def add(self, part: HashArray) -> None:
        """Take the hashes of the next rows."""
        self._all.frombytes(np.ascontiguousarray(part).data.cast("B"))

    def repeated(self) -> HashArray:
        """Return the hashes seen more than once, each once per extra value; sorts the store."""
        hashes = np.frombuffer(self._all, np.uint64) if self._all else np.empty(0, np.uint64)
        hashes.sort()
        extra: HashArray = hashes[1:][hashes[1:] == hashes[:-1]]
        return extra
