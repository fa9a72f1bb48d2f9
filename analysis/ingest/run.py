"""Bring job logs into one canonical trace: read, check, write, and account for every row."""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from gpuplan.analysis.errors import InputError, OutputError, UsageError
from gpuplan.analysis.files import atomic_output, existing_file
from gpuplan.analysis.ingest.batch import ROW, Batch, Refused
from gpuplan.analysis.ingest.format import Choices, Format, Sight
from gpuplan.analysis.ingest.plan import Outcome, Plan, apply
from gpuplan.analysis.ingest.registry import detect, format_named
from gpuplan.analysis.ingest.rejects import Limit, RejectLog, rejects_path
from gpuplan.analysis.ingest.repeats import HashArray, Hashes, hashes_of
from gpuplan.analysis.ingest.source import Head, SourceStream
from gpuplan.analysis.ingest.times import check_zone
from gpuplan.analysis.schema import CANONICAL, METADATA_KEY, Provenance, SourceFile
from gpuplan.analysis.version import gpuplan_version

ROW_GROUP_ROWS = 1 << 18
MAX_WORKERS = 4  # a block in work takes some 20 MB; polars itself uses all cores
DEFAULT_LIMIT = Limit("1%", share=0.01)
MAX_WORDS_TOLD = 5
SETTLE_S = 0.2  # polars' threads still hold our rows for a moment; Python must outlive them

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class IngestResult:
    """A written trace and the account of its rows.

    Attributes:
        provenance: what is stored in the trace: format, sources, counts, notes.
        rows_by_source: rows read per source, in their order.
        output: the trace.
        rejects_file: the rejected rows; None where there are none.
    """

    provenance: Provenance
    rows_by_source: tuple[int, ...]
    output: Path
    rejects_file: Path | None

    def summary(self) -> dict[str, Any]:
        """Return the counts and facts; read = kept + rejected."""
        told = self.provenance
        by_reason = told.rows_rejected or {}
        return {
            "source_format": told.source_format,
            "rows_read": told.rows_read,
            "rows_kept": told.rows_kept,
            "rows_rejected": sum(by_reason.values()),
            "rejected_by_reason": by_reason,
            "output": str(self.output),
            "rejects_file": None if self.rejects_file is None else str(self.rejects_file),
            "time_zone": told.time_zone,
            "relative_time": told.relative_time,
            "notes": list(told.notes),
        }


def ingest(
    sources: Sequence[Path],
    output: Path,
    *,
    source_format: str | None = None,
    choices: Choices | None = None,
    limit: Limit = DEFAULT_LIMIT,
    on_progress: Callable[[float], None] | None = None,
) -> IngestResult:
    """Write the jobs of some logs of one format to a canonical Parquet file.

    Rejected rows go to ``<output>.rejects.parquet``; both files appear whole or not at all.

    Args:
        sources: the logs, plain or compressed with gzip or zstd.
        output: the trace; its name ends in ``.parquet``.
        source_format: name of a format; None detects it from the first source.
        choices: what the user says about columns and time zone.
        limit: how many rows may be rejected.
        on_progress: told the share of the bytes read, 0 to 1.

    Raises:
        InputError: a source cannot be used, or more rows than allowed are rejected.
        OutputError: the trace cannot be written.
        UsageError: the options do not fit together.
    """
    choices = choices or Choices()
    check_paths(sources, output)
    known = _format_of(sources, source_format, choices)
    rejects = rejects_path(output)
    advance = share_of_bytes(sources, on_progress)
    with atomic_output(output) as trace:
        reading = _Reading(sources, known, choices, RejectLog(limit), advance)
        reading.write(trace)
        repeated = _repeated_ids(reading, trace)
        if repeated:  # rare: read again, now knowing which ids to watch
            reading = _Reading(sources, known, choices, RejectLog(limit), advance, repeated)
            reading.write(trace)
        reading.check()
        if len(reading.log):
            with atomic_output(rejects) as aside:
                reading.log.to_frame().write_parquet(aside)
    if not len(reading.log):
        rejects.unlink(missing_ok=True)  # of an earlier run
    return IngestResult(
        provenance=reading.provenance(),
        rows_by_source=tuple(reading.rows_by_source),
        output=output,
        rejects_file=rejects if len(reading.log) else None,
    )


@dataclass(slots=True)
class _Reading:
    """One pass over the sources; its counts are complete once `write` has returned."""

    sources: Sequence[Path]
    format: Format
    choices: Choices
    log: RejectLog
    advance: Callable[[int], None] | None
    repeated: frozenset[str] = frozenset()
    files: list[SourceFile] = field(default_factory=list)
    rows_by_source: list[int] = field(default_factory=list)
    kept: int = 0
    ids: Hashes = field(default_factory=Hashes)
    rows: Hashes = field(default_factory=Hashes)
    plans: list[Plan] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)

    @property
    def read(self) -> int:
        return self.kept + len(self.log)

    def write(self, path: Path) -> None:
        """Read every source and write the jobs, the account in the footer."""
        failure: list[Exception] = []
        stopped = Event()

        def batches(*_: object) -> Iterator[pl.DataFrame]:
            # An error must not unwind through the writer, whose threads would go on for a while.
            try:
                for jobs in self._jobs():
                    if stopped.is_set():
                        return
                    yield jobs
            except Exception as error:
                failure.append(error)

        def metadata(_: object) -> dict[str, str]:
            # Asked for when the footer is written, so the counts are complete.
            incomplete = failure or stopped.is_set()
            return {} if incomplete else {METADATA_KEY: self.provenance().to_json()}

        scan = register_io_source(batches, schema=dict(CANONICAL))
        try:
            # The file, not its path, which may be gone when a writer gets to it; and another
            # thread, so that an interruption arrives here, ends the rows and waits for the writer.
            with path.open("wb") as file, ThreadPoolExecutor(1) as writer:
                done = writer.submit(
                    scan.sink_parquet, file, row_group_size=ROW_GROUP_ROWS, metadata=metadata
                )
                try:
                    done.result()
                except BaseException:
                    stopped.set()
                    raise
        except pl.exceptions.PolarsError as error:  # a full disk, for example
            raise OSError(str(error)) from error
        except KeyboardInterrupt:
            time.sleep(SETTLE_S)
            raise
        if failure:
            raise failure[0]

    def check(self) -> None:
        """Refuse sources without a usable row. Raises `InputError`."""
        self.log.check(self.read)
        if self.kept == 0:
            raise InputError(
                self.sources[0],
                "has a header but no rows" if self.read == 0 else "has no usable rows",
                expected="at least one job",
            )

    def provenance(self) -> Provenance:
        """Return the account of this pass."""
        plan = self.plans[0]
        return Provenance(
            source_format=self.format.name,
            sources=tuple(self.files),
            rows_read=self.read,
            rows_kept=self.kept,
            rows_rejected=dict(sorted(self.log.by_reason.items())),
            relative_time=plan.relative_time,
            time_zone=plan.time_zone,
            notes=tuple(self._notes()),
            gpuplan_version=gpuplan_version(),
        )

    def _notes(self) -> Iterator[str]:
        yield from dict.fromkeys(note for plan in self.plans for note in plan.notes)
        for what in dict.fromkeys(t.what for plan in self.plans for t in plan.tallies):
            if self.counts[what]:
                yield f"{what}: {self.counts[what]:,}"
        if self.words:
            told = ", ".join(repr(word) for word, _ in self.words.most_common(MAX_WORDS_TOLD))
            more = ", ..." if len(self.words) > MAX_WORDS_TOLD else ""
            total = sum(self.words.values())
            yield f"jobs whose state is unknown, as its word is ({told}{more}): {total:,}"
        if equal := self.counts["equal rows"]:
            yield (
                "rows equal to an earlier one, all kept as a log without ids cannot tell a repeat "
                f"from another job: {equal:,}"
            )

    def _jobs(self) -> Iterator[pl.DataFrame]:
        for number, path in enumerate(self.sources):
            before = self.read
            with closing(SourceStream(path, self.advance)) as stream:
                tasks, plan = self._open(stream, number)
                self.plans.append(plan)
                for outcome, hashed in _in_order(partial(_work, plan), tasks):
                    yield self._take(path, plan, outcome, hashed)
                self.files.append(SourceFile(str(path), stream.sha256()))
            self.rows_by_source.append(self.read - before)
        self.counts["equal rows"] = len(self.rows.repeated())

    def _open(
        self, stream: SourceStream, number: int
    ) -> tuple[Iterator[Callable[[], Batch]], Plan]:
        head = Head(stream.path, stream.head)
        rows = self.format.open(stream)
        sight = Sight(head, rows.columns, rows.sample, number, self.choices)
        plan = self.format.plan(sight)
        return rows.batches(plan.sources()), plan

    def _take(self, path: Path, plan: Plan, outcome: Outcome, hashed: _Hashed) -> pl.DataFrame:
        jobs, refused = outcome.jobs, outcome.refused
        if self.repeated:
            jobs, again = self._without_repeats(outcome)
            refused = refused + again
        elif hashed.ids is not None:
            self.ids.add(hashed.ids)
        if hashed.rows is not None:
            self.rows.add(hashed.rows)
        self.kept += jobs.height
        self.log.add(path, refused, self.read + len(refused))
        for tally, n in zip(plan.tallies, outcome.tallies, strict=True):
            self.counts[tally.what] += n
        self.words.update(hashed.unknown_words)
        return jobs

    def _without_repeats(self, outcome: Outcome) -> tuple[pl.DataFrame, list[Refused]]:
        """Return the jobs whose id is new, and the others as refused rows."""
        ids = outcome.jobs["job_id"]
        again: list[int] = []
        for position in ids.is_in(list(self.repeated)).arg_true():
            if ids[position] in self.seen:
                again.append(position)
            self.seen.add(ids[position])
        if not again:
            return outcome.jobs, []
        at = again if outcome.positions is None else outcome.positions.gather(again).to_list()
        refused = [
            Refused(row, "duplicate_id", outcome.id_column, job_id, "an id of its own", raw)
            for row, job_id, raw in zip(
                outcome.rows.gather(again), ids.gather(again), outcome.batch.raw(at), strict=True
            )
        ]
        keep = pl.Series([True]).new_from_index(0, len(ids)).scatter(again, False)
        return outcome.jobs.filter(keep), refused


@dataclass(frozen=True, slots=True)
class _Hashed:
    """What is worked out of a batch beside its jobs."""

    ids: HashArray | None
    rows: HashArray | None
    unknown_words: dict[str, int]


def _work(plan: Plan, task: Callable[[], Batch]) -> tuple[Outcome, _Hashed]:
    """Read one batch; runs in any thread."""
    batch = task()
    outcome = apply(plan, batch)
    rows = None
    if plan.made_ids:
        kept = batch.cells if outcome.positions is None else batch.cells[outcome.positions]
        rows = hashes_of(kept.drop(ROW))
    ids = None if plan.made_ids else hashes_of(outcome.jobs.select("job_id"))
    return outcome, _Hashed(ids, rows, _unknown_words(outcome.jobs))


def _unknown_words(jobs: pl.DataFrame) -> dict[str, int]:
    unknown = jobs["state"] == "unknown"
    if not unknown.any():
        return {}
    words = jobs.filter(unknown)["source_state"].drop_nulls()
    return dict(Counter(words.to_list()))


def _in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield the results in the order of the items, worked out by a few threads ahead."""
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
        pool.shutdown(cancel_futures=True)


def _repeated_ids(reading: _Reading, trace: Path) -> frozenset[str]:
    """Return the ids that occur more than once in a written trace."""
    hashes = reading.ids.repeated()
    if hashes.size == 0:
        return frozenset()
    # Equal hashes are not yet equal ids: look at the ids themselves.
    ids = pl.scan_parquet(trace).select("job_id")
    suspects = ids.filter(pl.col("job_id").hash().is_in(np.unique(hashes).tolist()))
    counted = suspects.group_by("job_id").len().filter(pl.col("len") > 1)
    return frozenset(counted.collect()["job_id"].to_list())


def check_paths(sources: Sequence[Path], output: Path) -> None:
    """Refuse sources that are missing or given twice, and an output that would harm one.

    Raises `InputError`, `OutputError` or `UsageError`.
    """
    if output.suffix != ".parquet":
        raise UsageError(f"{output}: is written as Parquet; give it a name that ends in .parquet")
    if not sources:
        raise UsageError("no source given; name at least one log")
    files = [existing_file(path).resolve() for path in sources]
    for path, file in zip(sources, files, strict=True):
        if files.count(file) > 1:
            raise UsageError(f"{path}: given twice; every row of it would be a duplicate")
        for written in (output, rejects_path(output)):
            if written.resolve() == file or (written.exists() and written.samefile(file)):
                raise OutputError(f"{written}: is also a source; write to another file")


def _format_of(sources: Sequence[Path], name: str | None, choices: Choices) -> Format:
    """Return the one format of all sources."""
    if name is None and choices.columns:
        name = "csv"
    known = None if name is None else format_named(name)
    if known is None:
        for path in sources:
            found = detect(head_of(path))
            if known is not None and found is not known:
                raise InputError(
                    path,
                    f"is a {found.name} log, {sources[0]} is a {known.name} log",
                    hint="ingest logs of different formats one by one",
                )
            known = found
    assert known is not None
    if choices.columns and not known.takes_columns:
        raise UsageError(f"--map: the format {known.name} knows its columns; use it with csv")
    if choices.time_zone is not None:
        if not known.takes_zone:
            raise UsageError(f"--time-zone: the times of {known.name} need no zone; leave it out")
        check_zone(choices.time_zone)
    return known


def head_of(path: Path) -> Head:
    """Return the first bytes of a source. Raises `InputError`."""
    with closing(SourceStream(path)) as stream:
        return Head(path, stream.head)


def share_of_bytes(
    sources: Sequence[Path], on_progress: Callable[[float], None] | None
) -> Callable[[int], None] | None:
    """Return what turns bytes read into the share of all, for `SourceStream`."""
    if on_progress is None:
        return None
    total = sum(path.stat().st_size for path in sources) or 1
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        on_progress(min(done / total, 1.0))

    return advance
