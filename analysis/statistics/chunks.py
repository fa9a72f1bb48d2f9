"""Sums and counts over many jobs, a chunk of jobs at a time.

A temporary array then has the length of a chunk instead of the trace. Sums are added job by
job in the order of the jobs, so the result does not depend on the length of a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import FloatArray, IntArray

CHUNK = 1 << 16


def chunks(size: int) -> Iterator[slice]:
    """Yield successive ranges of at most `CHUNK` positions."""
    for start in range(0, size, CHUNK):
        yield slice(start, min(start + CHUNK, size))


def counts_and_sums(
    code: Callable[[slice], NDArray[Any]], weight: FloatArray, codes: int
) -> tuple[IntArray, FloatArray]:
    """Return how many jobs each code has, and the sum of their weights; shapes (codes,).

    Args:
        code: returns the codes of a range of jobs, 0 to ``codes - 1``.
        weight: one per job; shape (n,).
        codes: number of codes.
    """
    jobs, total = np.zeros(codes, dtype=np.int64), np.zeros(codes)
    for part in chunks(weight.size):
        codes_of_part = code(part)
        np.add.at(jobs, codes_of_part, 1)
        np.add.at(total, codes_of_part, weight[part])
    return jobs, total


def distinct(values: FloatArray) -> FloatArray:
    """Return the distinct values, ascending."""
    values_seen = values[:0]
    for part in chunks(values.size):
        values_seen = np.union1d(values_seen, values[part])
    return values_seen


def run_lengths(ascending: IntArray, unit: int, origin: int = 0) -> tuple[IntArray, IntArray]:
    """Return the distinct ``(value - origin) // unit`` and how often each occurs.

    Args:
        ascending: sorted values, at least one.
        unit: above 0.
        origin: subtracted from each value.
    """
    cells: list[IntArray] = []
    counts: list[IntArray] = []
    for part in chunks(ascending.size):
        cell = (ascending[part] - origin) // unit
        first = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
        count = np.diff(first, append=cell.size)
        if cells and cells[-1][-1] == cell[0]:  # the run continues from the previous chunk
            counts[-1][-1] += count[0]
            first, count = first[1:], count[1:]
        if first.size:
            cells.append(cell[first])
            counts.append(count)
    return np.concatenate(cells), np.concatenate(counts)
