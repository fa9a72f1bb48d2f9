"""Read batches of a source in a few threads: cells to jobs, and what is worked out beside them."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from gpuplan.analysis.ingest.duplicates import HashArray, hashes_of
from gpuplan.analysis.reading.batch import ROW, Batch
from gpuplan.analysis.reading.offsets import Offsets, offsets_of
from gpuplan.analysis.reading.outcome import BatchOutcome, apply
from gpuplan.analysis.reading.plan import ReadingPlan

MAX_WORKERS = 4  # a block in work takes some 20 MB; polars itself uses all cores

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Hashed:
    """What is worked out of a batch beside its jobs.

    Attributes:
        ids: hashes of the ids; None where they are made.
        rows: hashes of the kept rows, where ids are made.
        offsets: of the times whose offsets tell the zone.
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
    unknown = jobs["state"] == "unknown"
    if not unknown.any():
        return {}
    words = jobs.filter(unknown)["source_state"].drop_nulls()
    return dict(Counter(words.to_list()))


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the results in the order of the items, worked out by a few threads ahead.

    What is not taken to its end may be closed in any thread, its own ones too, so it waits for
    none of them; they end with what they have begun.
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
