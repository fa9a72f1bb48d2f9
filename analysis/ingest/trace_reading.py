"""One pass over the sources of a trace: read, write, and account for every row."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event

import polars as pl
from polars.io.plugins import register_io_source

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.ingest.log_warnings import empty_log_hint, log_warnings
from gpuplan.analysis.ingest.parallel_read import Hashed, Hashes, in_order, work
from gpuplan.analysis.ingest.side_tables import pieces
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    LIMIT_COLUMN,
    METADATA_KEY,
    OWN_COLUMNS,
    RUN_COLUMNS,
    SAME_NAMES,
    SOURCE,
    Provenance,
    SourceFile,
)
from gpuplan.analysis.kubernetes.same_jobs import IN_ANOTHER_LOG, SameJobs
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat, SideTable, SourceContext
from gpuplan.analysis.log_formats.mapped import with_columns, with_values
from gpuplan.analysis.reading.batch import CUT_OFF, PENDING, Batch, Refused, Rows, cut_warnings
from gpuplan.analysis.reading.computed import kept_columns, with_computed, with_kept
from gpuplan.analysis.reading.joins import KEY, Join, Parts
from gpuplan.analysis.reading.memo import ColumnMemo
from gpuplan.analysis.reading.outcome import BatchOutcome
from gpuplan.analysis.reading.plan import ReadingPlan
from gpuplan.analysis.reading.rejects import RejectLog
from gpuplan.analysis.reading.source import Head, Source, SourceStream
from gpuplan.analysis.reading.times import Offsets, mixed_note, zone_of

ROW_GROUP_ROWS = 1 << 18
MAX_WORDS_LISTED = 5
SETTLE_S = 0.2  # polars' threads still hold our rows for a moment; Python must outlive them


def job_plan(log_format: LogFormat, context: SourceContext) -> ReadingPlan:
    """Return how the rows of a source become jobs, with the columns that the user maps."""
    plan = log_format.plan(context)
    if not log_format.takes_columns and context.choices.columns:
        plan = with_columns(plan, context, log_format.name)
    return with_values(plan, context.choices.values)


@dataclass(slots=True)
class Reading:
    """One pass over the sources; its counts are complete once `write` has returned.

    A first pass finds ``repeated`` and ``incomplete``; where there are any a second one heeds them.
    """

    sources: Sequence[Source]
    format: LogFormat
    choices: IngestOptions
    log: RejectLog
    advance: Callable[[int], None] | None
    notes: Sequence[str] = ()
    memo: ColumnMemo = field(default_factory=ColumnMemo)
    repeated: frozenset[str] = frozenset()
    incomplete: frozenset[tuple[str, ...]] = frozenset()
    same_jobs: SameJobs = field(default_factory=SameJobs)
    files: list[SourceFile] = field(default_factory=list)
    rows_by_source: list[int] = field(default_factory=list)
    kept: int = 0
    ids: Hashes = field(default_factory=Hashes)
    rows: Hashes = field(default_factory=Hashes)
    plans: list[ReadingPlan] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    offsets: Offsets = field(default_factory=Counter)
    waits: int = 0
    may_be_cut: bool = False
    seen: set[str] = field(default_factory=set)
    parts: Parts = field(default_factory=Parts)
    lost: set[tuple[str, ...]] = field(default_factory=set)
    side_rows: dict[str, pl.DataFrame] = field(default_factory=dict)
    trace: Path | None = None
    opened: Sequence[Rows] = ()
    schema: dict[str, pl.DataType] = field(default_factory=lambda: dict(CANONICAL))
    extra: dict[str, pl.DataType] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Rows so far, kept or rejected."""
        return self.kept + len(self.log)

    def write(self, path: Path) -> None:
        """Read every source and write the jobs, the account in the footer."""
        failure: list[BaseException] = []
        stopped = Event()

        def batches(*_: object) -> Iterator[pl.DataFrame]:
            # An error must not unwind through the writer, whose threads would keep running.
            try:
                for jobs in self._jobs():
                    if stopped.is_set():
                        return
                    yield jobs
            except (Exception, pl.exceptions.PanicException) as error:
                failure.append(error)

        def metadata(_: object) -> dict[str, str]:
            # Evaluated when the footer is written, so the counts are complete.
            incomplete = failure or stopped.is_set()
            return {} if incomplete else {METADATA_KEY: self.provenance().to_json()}

        self.opened = self._open_all()
        self.same_jobs.leave_out(self.format.name, self.sources[0].path, self.opened)
        self.schema = self._schema()
        scan = register_io_source(batches, schema=self.schema)
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
        path, expected = self.sources[0].path, "at least one job"
        if self.read == 0 and (self.format.may_be_empty or IN_ANOTHER_LOG in self.left_out()):
            return
        if self.read == 0:
            left_out = ", ".join(f"{n:,} {what}" for what, n in self._left_out_counts())
            raise InputError(
                path,
                f"has no jobs: {left_out}" if left_out else "has a header but no rows",
                expected=expected,
                hint=empty_log_hint(path, self.left_out()),
            )
        if self.kept == 0:
            raise InputError(path, "has no usable rows", expected=expected, hint=self.log.leave())

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
            time_zone=self._zone(),
            notes=tuple(dict.fromkeys(self._notes())),  # a trace has those of its log
            gpuplan_version=gpuplan_version(),
        )

    def left_out(self) -> dict[str, int]:
        """Return how many lines or objects were left out, by reason, as they are no jobs."""
        reasons = {t.what: t.reason for plan in self.plans for t in plan.left_out}
        return {reasons[what] or "other": self.counts[what] for what, _ in self._left_out_counts()}

    def _left_out_counts(self) -> list[tuple[str, int]]:
        whats = dict.fromkeys(t.what for plan in self.plans for t in plan.left_out)
        return [(what, self.counts[what]) for what in whats if self.counts[what]]

    def warnings(self) -> tuple[str, ...]:
        """Return what makes the trace doubtful, such as a cut log or starts before submissions."""
        warnings = cut_warnings(self.log.by_reason[CUT_OFF], self.may_be_cut)
        pending = self.left_out().get(PENDING, 0)
        return (*warnings, *log_warnings(self.counts, self.waits, self.kept, pending))

    def _zone(self) -> str | None:
        plan = self.plans[0]
        if not plan.zone_columns:
            return plan.time_zone
        return zone_of(self.offsets, plan.zone_columns[0], plan.time_zone)

    def _notes(self) -> Iterator[str]:
        yield from self.notes
        yield from dict.fromkeys(note for rows in self.opened for note in rows.notes)
        yield from dict.fromkeys(note for plan in self.plans for note in plan.notes)
        joins = [plan.join for plan in self.plans if plan.join is not None]
        facts = [what for plan in self.plans for what in plan.counted()]
        facts += [tally.what for join in joins for tally in join.tallies]
        facts += [what for join in joins for what in (join.what, join.reused)]
        for what in dict.fromkeys(facts):
            if self.counts[what]:
                yield f"{what}: {self.counts[what]:,}"
        if (mixed := mixed_note(self.offsets, self._zone())) is not None:
            yield mixed
        if self.words:
            words = ", ".join(repr(word) for word, _ in self.words.most_common(MAX_WORDS_LISTED))
            more = ", ..." if len(self.words) > MAX_WORDS_LISTED else ""
            total = sum(self.words.values())
            yield f"jobs whose state is unknown, as its word is ({words}{more}): {total:,}"
        if equal := self.counts["equal rows"]:
            yield (
                "rows equal to an earlier one, all kept as a log without ids cannot tell a repeat "
                f"from another job: {equal:,}"
            )

    def _open_all(self) -> Sequence[Rows]:
        """Open the sources of a format that reads them all at once; empty for other formats."""
        if self.format.open_all is None:
            return ()
        with ExitStack() as opened:
            streams = [
                opened.enter_context(closing(SourceStream(source))) for source in self.sources
            ]
            return self.format.open_all(streams, self.choices)

    def _jobs(self) -> Iterator[pl.DataFrame]:
        for number, source in enumerate(self.sources):
            before, path = self.read, source.path
            with closing(SourceStream(source, self.advance)) as stream:
                side_table = self.format.side_table(Head(path, stream.head))
                if side_table is not None:
                    rows = self._read_side_table(side_table, stream, number)
                else:
                    tasks, plan = self._open(stream, number, self._job_plan)
                    plan = replace(plan, schema=self.schema)
                    self.plans.append(plan)
                    for outcome, hashed in in_order(partial(work, plan), tasks):
                        yield self._take(path, plan, outcome, hashed)
                    rows = self.read - before
                self.files.append(SourceFile(str(path), stream.sha256()))
            self.rows_by_source.append(rows)
        join = next((plan.join for plan in self.plans if plan.join is not None), None)
        if join is not None:
            yield from self._joined(join)
        self.counts["equal rows"] = len(self.rows.repeated())

    def _joined(self, join: Join) -> Iterator[pl.DataFrame]:
        """Give the jobs of several rows, and refuse those that a trace cannot hold."""
        jobs, refused = self.parts.joined(join)
        self.kept -= len(refused)
        for path, row in refused:
            self.log.add(path, [row], self.read + 1)
        if not jobs.is_empty():
            self.counts[join.reused] = self.parts.reused()
            self._count(join, jobs)
            yield jobs.select(*self.schema)

    def _schema(self) -> dict[str, pl.DataType]:
        """Return the columns of the trace: the canonical ones, the format's, and the user's."""
        columns = CANONICAL | {name: OWN_COLUMNS[name] for name in self.format.keeps}
        if self.format.kept is None and not self.choices.keep:
            return columns
        opened = list(self.opened)
        if opened and self.format.kept is not None:
            head = Head(self.sources[0].path, b"")
            columns |= self.format.kept(head, opened[0].columns, self.choices)
        for source in self.sources if not opened else ():
            with closing(SourceStream(source)) as stream:
                head = Head(source.path, stream.head)
                if self.format.side_table(head) is not None:
                    continue
                opened.append(self.format.open(stream))
                if self.format.kept is not None:
                    file = replace(head, file=stream.file)
                    columns |= self.format.kept(file, opened[-1].columns, self.choices)
        if self.repeated and self.format.has_runs:
            columns |= RUN_COLUMNS
        keep = [name for name in self.choices.keep if name not in columns.keys() & SAME_NAMES]
        self.extra = kept_columns(keep, opened, [*columns, LIMIT_COLUMN, SOURCE])
        return columns | self.extra

    def _job_plan(self, context: SourceContext) -> ReadingPlan:
        return with_kept(job_plan(self.format, context), context.columns, self.extra)

    def _open(
        self, stream: SourceStream, number: int, planned: Callable[[SourceContext], ReadingPlan]
    ) -> tuple[Iterator[Callable[[], Batch]], ReadingPlan]:
        data = stream.head
        opened = self.opened[number] if self.opened else self.format.open(stream)
        rows = with_computed(stream.path, opened, self.choices.columns)
        head = Head(stream.path, data, stream.file)
        terms = (self.choices, self.side_rows, self.memo)
        plan = planned(SourceContext(head, rows.columns, rows.sample, number, *terms))
        return rows.batches(plan.sources()), plan

    def _read_side_table(self, side_table: SideTable, stream: SourceStream, number: int) -> int:
        """Read a side table; returns its rows, of which only the refused ones are counted."""
        tasks, plan = self._open(stream, number, side_table.plan)
        rows = 0
        for piece in pieces(side_table, plan, tasks):
            self.log.add(stream.path, piece.refused, self.read + len(piece.refused))
            rows += piece.read
            last = piece.rows
        if (earlier := self.side_rows.get(side_table.name)) is not None:
            last = side_table.per_key(pl.concat([earlier, last]))
        self.side_rows[side_table.name] = last
        return rows

    def _take(
        self, path: Path, plan: ReadingPlan, outcome: BatchOutcome, hashed: Hashed
    ) -> pl.DataFrame:
        jobs, refused = outcome.jobs, outcome.refused
        self.may_be_cut |= outcome.batch.may_be_cut
        if outcome.lost is not None:
            self.lost.update(outcome.lost.rows())
        if self.repeated:
            join = plan.join
            if join is None:
                jobs, more = self._without_repeats(outcome)
            else:
                jobs, more = self._without_parts(path, outcome, join)
            refused = refused + more
        else:
            if hashed.ids is not None:
                self.ids.add(hashed.ids)
            if plan.join is not None and outcome.extra is not None:
                self._count(plan.join, jobs.hstack(outcome.extra))
        if hashed.rows is not None:
            self.rows.add(hashed.rows)
        self.kept += jobs.height
        self.log.add(path, refused, self.read + len(refused))
        self.log.check_start(self.kept)
        for what, n in zip(plan.counted(), outcome.tallies, strict=True):
            self.counts[what] += n
        self.words.update(hashed.unknown_words)
        self.offsets.update(hashed.offsets)
        self.waits += jobs.height - jobs["queue_s"].null_count()
        return jobs

    def _without_parts(
        self, path: Path, outcome: BatchOutcome, join: Join
    ) -> tuple[pl.DataFrame, list[Refused]]:
        """Return the jobs of one row, and the rows of jobs that a refused row belongs to.

        The rows of the other jobs are set aside; each such job counts once.
        """
        is_part = outcome.jobs["job_id"].is_in(list(self.repeated))
        if outcome.extra is None:
            return outcome.jobs, []
        rows = outcome.jobs.hstack(outcome.extra)
        self._count(join, rows.filter(~is_part))
        if not is_part.any():
            return outcome.jobs, []
        rows = rows.filter(is_part)
        is_whole = pl.Series([key not in self.incomplete for key in rows.select(KEY).rows()])
        parts = rows.filter(is_whole)
        numbers = outcome.rows.filter(is_part).filter(is_whole)
        new = self.parts.add(parts, path, numbers)
        self.kept += new
        self.counts[join.what] += parts.height - new
        lost = is_part.arg_true().filter(~is_whole).to_list()
        expected = "a job none of whose rows is rejected"
        return outcome.jobs.filter(~is_part), _refuse(outcome, lost, "incomplete", expected)

    def _count(self, join: Join, jobs: pl.DataFrame) -> None:
        for tally in join.tallies:
            self.counts[tally.what] += jobs.select(tally.counted.sum()).item()

    def _without_repeats(self, outcome: BatchOutcome) -> tuple[pl.DataFrame, list[Refused]]:
        """Return the jobs with a new id, and the others as refused rows."""
        ids = outcome.jobs["job_id"]
        again: list[int] = []
        for position in ids.is_in(list(self.repeated)).arg_true():
            if ids[position] in self.seen:
                again.append(position)
            self.seen.add(ids[position])
        if not again:
            return outcome.jobs, []
        keep = pl.Series([True]).new_from_index(0, len(ids)).scatter(again, False)
        refused = _refuse(outcome, again, "duplicate_id", "an id of its own")
        return outcome.jobs.filter(keep), refused


def _refuse(outcome: BatchOutcome, kept: list[int], reason: str, expected: str) -> list[Refused]:
    """Return kept rows at some positions as rows refused for their ids."""
    at = kept if outcome.positions is None else outcome.positions.gather(kept).to_list()
    ids = outcome.jobs["job_id"].gather(kept)
    rows = zip(outcome.rows.gather(kept), ids, outcome.batch.raw(at), strict=True)
    return [
        Refused(row, reason, outcome.id_column, job_id, expected, raw) for row, job_id, raw in rows
    ]
