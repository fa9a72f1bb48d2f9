"""Read batches of a source in several threads: cells to jobs, and hashes to find repeated rows.

Repeated rows or ids of a long trace are found by their hashes, eight bytes each.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl

from gpuplan.analysis.reading.batch import ROW, Batch
from gpuplan.analysis.reading.outcome import BatchOutcome, apply
from gpuplan.analysis.reading.plan import ReadingPlan
from gpuplan.analysis.reading.times import Offsets, offsets_of

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


UNKNOWN = "unknown"
"""The state of a job whose word for it says nothing."""
MAX_WORKERS = 4  # a block in work takes some 20 MB; polars itself uses all cores

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Hashed:
    """The results of a batch.

    Attributes:
        ids: hashes of the ids; None where they are made.
        rows: hashes of the kept rows, if ids are generated.
        offsets: offsets of the times that determine the zone.
        unknown_words: the source's words for states that are not known, with their counts.
    """

    ids: HashArray | None
    rows: HashArray | None
    offsets: Offsets
    unknown_words: dict[str, int]


def work(plan: ReadingPlan, task: Callable[[], Batch]) -> tuple[BatchOutcome, Hashed]:
    """Read one batch; runs in any thread."""
    batch = task()
    outcome = apply(plan, batch)
    rows = None
    if plan.made_ids:
        kept = batch.cells if outcome.positions is None else batch.cells[outcome.positions]
        rows = hashes_of(kept.drop(ROW))
    ids = None if plan.made_ids else hashes_of(outcome.jobs.select("job_id"))
    offsets = offsets_of(outcome.batch.cells, plan.zone_columns)
    return outcome, Hashed(ids, rows, offsets, _unknown_words(outcome.jobs))


def _unknown_words(jobs: pl.DataFrame) -> dict[str, int]:
    unknown = jobs["state"] == UNKNOWN
    if not unknown.any():
        return {}
    words = jobs.filter(unknown)["source_state"].drop_nulls()
    words = words.filter(words.str.to_lowercase() != UNKNOWN)
    return dict(Counter(words.to_list()))


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the results in the order of the items; several threads compute them ahead.

    An unfinished generator may be closed in any thread, including its own workers, so it does not
    wait for them; they finish the item that they have started.
    """
    workers = min(MAX_WORKERS, os.cpu_count() or 1)
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
