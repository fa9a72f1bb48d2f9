"""Bring job logs into one canonical trace: read, check, write, and account for every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import Hidden, plain
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.base.words import a_log
from gpuplan.analysis.ingest.choices import check_choices
from gpuplan.analysis.ingest.repeated import repeated_ids
from gpuplan.analysis.ingest.side_tables import side_tables_first
from gpuplan.analysis.ingest.span import LogSpan, span_of
from gpuplan.analysis.ingest.trace_reading import ROW_GROUP_ROWS, Reading, job_plan
from gpuplan.analysis.ingest.unknown_files import unknown_log
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT, Limit
from gpuplan.analysis.job_table.schema import METADATA_KEY, SOURCE, Provenance
from gpuplan.analysis.kubernetes.same_jobs import FORMATS, SameJobs
from gpuplan.analysis.log_formats.canonical import CANONICAL_FORMAT
from gpuplan.analysis.log_formats.format import (
    IngestOptions,
    LogFormat,
    SourceContext,
)
from gpuplan.analysis.log_formats.mapped import CSV
from gpuplan.analysis.log_formats.registry import format_named, formats
from gpuplan.analysis.reading.computed import columns_read, with_computed
from gpuplan.analysis.reading.detect import Guess, guesses, left_out_notes, look_early
from gpuplan.analysis.reading.inputs import Inputs, opened_inputs, share_of_bytes
from gpuplan.analysis.reading.json_tables import json_columns
from gpuplan.analysis.reading.memo import ColumnMemo
from gpuplan.analysis.reading.rejects import RejectLog, rejects_path, write_rejects
from gpuplan.analysis.reading.source import Head, Source, SourceStream
from gpuplan.analysis.storage.files import atomic_output, refuse_overwrite
from gpuplan.analysis.trace.input_files import InputFile


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of the rows of logs; read = kept + rejected.

    Attributes:
        source_format: format they were read in.
        recognized_by: the evidence for the format; null if the user named it.
        rows_read: rows found.
        rows_kept: rows in the trace.
        rows_rejected: rows that cannot be used.
        rejected_by_reason: these by reason.
        left_out: what is no job, by kind, such as steps, or pods without GPUs; neither kept nor
            rejected.
        span: first and last submission and end of the jobs.
        output: the trace.
        rejects_file: the rejected rows; null where there are none.
        time_zone: zone in which the source wrote its times; null where it is relative.
        relative_time: whether the source has no calendar.
        notes: what a reader of the trace should know.
        provenance: facts stored in the trace: format, sources, counts, notes.
        rows_by_source: rows read per source, in their order; of a side table all it has, while
            `Provenance.rows_read` counts only those rejected.
        warnings: what makes the trace doubtful.
    """

    source_format: str
    recognized_by: str | None
    rows_read: int
    rows_kept: int
    rows_rejected: int
    rejected_by_reason: dict[str, int]
    left_out: dict[str, int]
    span: LogSpan | None
    output: Path
    rejects_file: Path | None
    time_zone: str | None
    relative_time: bool
    notes: tuple[str, ...]
    provenance: Hidden[Provenance]
    rows_by_source: Hidden[tuple[int, ...]]
    warnings: Hidden[tuple[str, ...]] = ()

    @property
    def inputs(self) -> tuple[InputFile, ...]:
        """The sources with the rows read of each."""
        return tuple(
            InputFile(path=source.name, sha256=source.sha256, rows=rows)
            for source, rows in zip(self.provenance.sources, self.rows_by_source, strict=True)
        )

    def summary(self) -> dict[str, Any]:
        """Return the counts and facts as plain values."""
        values: dict[str, Any] = plain(self)
        return values


def ingest(
    sources: Sequence[Path],
    output: Path,
    *,
    source_format: str | None = None,
    choices: IngestOptions | None = None,
    limit: Limit = DEFAULT_LIMIT,
    on_progress: Callable[[float], None] | None = None,
) -> IngestResult:
    """Write the jobs of some logs to a canonical Parquet file.

    Rejected rows go to ``<output>.rejects.parquet``; both files appear whole or not at all. Where
    too many rows are rejected, or all, only theirs does. A trace of logs of several formats has a
    column ``source`` with the format of each job.

    Args:
        sources: logs, plain or compressed with gzip or zstd, zip archives and folders of them,
            or ``-`` for standard input.
        output: the trace; its name ends in ``.parquet``.
        source_format: name of the format of all; None detects that of each.
        choices: the user's options about columns and time zone.
        limit: how many rows may be rejected.
        on_progress: called with the share of the bytes read, 0 to 1.

    Raises:
        InputError: a source cannot be used, or more rows than allowed are rejected.
        OutputError: the trace cannot be written.
        UsageError: the options do not fit together.
    """
    rejects = rejects_path(output)
    throughputs = None if choices is None else choices.throughputs
    refuse_overwrite([output, rejects], [] if throughputs is None else [throughputs])
    reader = log_reader(source_format, choices, limit)
    with reader.opened(sources, output) as inputs:
        return reader.write(inputs, output, on_progress)


def log_reader(
    source_format: str | None = None,
    choices: IngestOptions | None = None,
    limit: Limit = DEFAULT_LIMIT,
) -> LogReader:
    """Return what reads logs with these options. Raises `UsageError` for an unknown format."""
    forced = None if source_format is None else format_named(source_format)
    choices = replace(choices or IngestOptions(), is_forced=forced is not None)
    return LogReader(forced, CSV if choices.columns else None, choices, limit)


@dataclass(frozen=True, slots=True)
class LogReader:
    """How logs are read.

    Attributes:
        forced: the format that the user named; None detects that of each log.
        fallback: the format of a log that no format recognizes; None where that is an error.
        choices: the user's options about columns and time zone.
        limit: how many rows may be rejected.
    """

    forced: LogFormat | None
    fallback: LogFormat | None
    choices: IngestOptions
    limit: Limit

    def opened(
        self, sources: Sequence[Path], output: Path | None = None
    ) -> AbstractContextManager[Inputs]:
        """Yield the files of the sources; see `opened_inputs`."""

        def planned(log_format: LogFormat, stream: SourceStream) -> None:
            if (
                log_format.jobs_table is None and log_format.open_all is None
            ):  # the columns of several tables are known together
                head = Head(stream.path, stream.head)
                rows = with_computed(stream.path, log_format.open(stream), self.choices.columns)
                job_plan(
                    log_format, SourceContext(head, rows.columns, rows.sample, 0, self.choices)
                )

        def look(source: Source) -> bool:
            return look_early(source, formats(), unknown_log, self.forced, planned, self.fallback)

        return opened_inputs(sources, output, look)

    def write(
        self,
        inputs: Inputs,
        output: Path,
        on_progress: Callable[[float], None] | None = None,
    ) -> IngestResult:
        """Write the trace of some open sources, as `ingest` does, and return the account."""
        rejects = rejects_path(output)
        by_format, left_out = self._logs(inputs)
        notes = left_out_notes(left_out)
        advance = share_of_bytes(
            [log.source for logs in by_format.values() for log in logs], on_progress
        )
        readings = []
        with atomic_output(output) as trace:
            same_jobs = SameJobs()
            for name, logs in by_format.items():
                part = trace if len(by_format) == 1 else inputs.spool / f"{name}.parquet"
                readings.append(
                    self._read(logs, part, rejects, inputs.spool, advance, notes, same_jobs)
                )
                notes = []
            provenance = readings[0].provenance() if len(readings) == 1 else merge(readings, trace)
            span = span_of(trace)
            write_rejects([done.log for done in readings], rejects)
        evidence = [logs[0].evidence or "--map" for logs in by_format.values()]
        by_reason = provenance.rows_rejected or {}
        return IngestResult(
            source_format=provenance.source_format,
            recognized_by="; ".join(evidence) if len(evidence) > 1 else logs[0].evidence,
            rows_read=provenance.rows_read,
            rows_kept=provenance.rows_kept,
            rows_rejected=sum(by_reason.values()),
            rejected_by_reason=by_reason,
            left_out=dict(sum((Counter(done.left_out()) for done in readings), Counter())),
            span=None if provenance.relative_time else span,
            output=output,
            rejects_file=rejects if any(len(done.log) for done in readings) else None,
            time_zone=provenance.time_zone,
            relative_time=provenance.relative_time,
            notes=tuple(provenance.notes),
            provenance=provenance,
            rows_by_source=tuple(rows for done in readings for rows in done.rows_by_source),
            warnings=tuple(warning for done in readings for warning in done.warnings()),
        )

    def _read(
        self,
        logs: Sequence[Guess[LogFormat]],
        trace: Path,
        rejects: Path,
        spool: Path,
        advance: Callable[[int], None] | None,
        notes: Sequence[str],
        same_jobs: SameJobs,
    ) -> Reading:
        """Write the jobs of logs of one format to a file of their own."""
        log_format = logs[0].format
        files = side_tables_first(log_format, [log.source for log in logs])
        taken_for = {
            str(log.source.path): f"{a_log(log_format.name)} by {log.evidence}"
            for log in logs
            if log.evidence is not None
        }
        zone = self.choices.time_zone if log_format.takes_zone else None
        choices, memo = replace(self.choices, time_zone=zone), ColumnMemo()

        def reading(
            repeated: frozenset[str] = frozenset(),
            incomplete: frozenset[tuple[str, ...]] = frozenset(),
        ) -> Reading:
            doubted = "--map" if self.choices.columns else "--source-format"
            log = RejectLog(rejects, spool, self.limit, taken_for, doubted)
            return Reading(
                files, log_format, choices, log, advance, notes, memo, repeated, incomplete,
                same_jobs,
            )  # fmt: skip

        done = reading()
        done.write(trace)
        repeated = repeated_ids(done, trace)
        if repeated:  # rare: read again, now knowing which ids to watch
            done = reading(repeated, frozenset(done.lost))
            done.write(trace)
        done.check()
        done.trace = trace
        return done

    def _logs(self, inputs: Inputs) -> tuple[dict[str, list[Guess[LogFormat]]], list[Path]]:
        """Return the logs by format, and the files left out. Raises `InputError`."""
        mapped, log_format = self.choices.columns.values(), self.forced or self.fallback

        def has_mapped_columns(head: Head) -> bool:
            if log_format is None or not log_format.takes_columns:
                return False
            names = json_columns(head.data) if head.is_json else head.table_columns
            return all(set(columns_read(text, names)) <= set(names) for text in mapped)

        logs, left_out = guesses(
            inputs, formats(), unknown_log, self.forced, has_mapped_columns, self.fallback
        )
        by_format: dict[str, list[Guess[LogFormat]]] = {}
        for log in sorted(logs, key=lambda log: _reading_order(log.format.name)):
            by_format.setdefault(log.format.name, []).append(log)
        if len(by_format) > 1:
            _refuse_traces_among_logs(by_format)
        check_choices([same[0].format for same in by_format.values()], self.choices)
        return by_format, left_out


def _reading_order(name: str) -> int:
    """Return the place of a format: logs that may have the jobs of others come after them."""
    return FORMATS.index(name) if name in FORMATS else -1


def _refuse_traces_among_logs(by_format: Mapping[str, Sequence[Guess[LogFormat]]]) -> None:
    """Refuse a trace that only lies in the folder of the logs, which may be made of them.

    Raises `InputError`.
    """
    for log in by_format.get(CANONICAL_FORMAT.name, ()):
        if not log.source.is_named:
            other = next(same[0] for name, same in by_format.items() if name != log.format.name)
            raise InputError(
                log.source.path,
                f"is {a_log(log.format.name)}, {other.source.path} is {a_log(other.format.name)}; "
                "a trace and a log may hold the same jobs",
                hint="name the files to read, or force the format with --source-format",
            )


def merge(readings: Sequence[Reading], output: Path) -> Provenance:
    """Write the traces of several formats as one, with the format of each job in a column.

    An id that several of them have gets the format's name in front.

    Args:
        readings: what was read of each format; each has its trace.
        output: the trace to write.

    Raises:
        InputError: only some of the logs have a calendar.
    """
    parts = {
        reading.format.name: pl.scan_parquet(_trace(reading), glob=False) for reading in readings
    }
    own_ids = [part.select(pl.col("job_id").unique()) for part in parts.values()]
    shared = pl.concat(own_ids).filter(pl.col("job_id").is_duplicated()).unique().collect()
    is_shared = pl.col("job_id").is_in(shared["job_id"].to_list())
    named = [
        part.with_columns(
            pl.when(is_shared)
            .then(pl.lit(f"{name}:") + pl.col("job_id"))
            .otherwise("job_id")
            .alias("job_id"),
            _source(name, part),
        )
        for name, part in parts.items()
    ]
    provenance = _provenance(readings, shared.height)
    try:
        pl.concat(named, how="diagonal").sink_parquet(
            output,
            row_group_size=ROW_GROUP_ROWS,
            metadata={METADATA_KEY: provenance.to_json()},
        )
    except pl.exceptions.PolarsError as error:  # a full disk, for example
        raise OSError(str(error)) from error
    return provenance


def _source(name: str, part: pl.LazyFrame) -> pl.Expr:
    """Return the format of each job; a trace of several formats has it already."""
    has_source = SOURCE in part.collect_schema().names()
    return (pl.col(SOURCE).fill_null(name) if has_source else pl.lit(name)).alias(SOURCE)


def _trace(reading: Reading) -> Path:
    assert reading.trace is not None
    return reading.trace


def _provenance(readings: Sequence[Reading], shared_ids: int) -> Provenance:
    accounts = [account.provenance() for account in readings]
    first = accounts[0]
    for account in accounts[1:]:
        if account.relative_time is not first.relative_time:
            relative, dated = (account, first) if account.relative_time else (first, account)
            raise InputError(
                relative.sources[0].name,
                f"has times from the start of the log, {dated.sources[0].name} has dates",
                expected="logs that share a calendar",
                hint="ingest them one by one; if one is misread, force the format "
                "with --source-format",
            )
    zones = {account.time_zone for account in accounts}
    notes = [f"{account.source_format}: {note}" for account in accounts for note in account.notes]
    if len(zones) > 1:
        notes.append("the logs are of several time zones; the time of day is in UTC")
    if shared_ids:
        notes.append(f"job ids in several logs, now with the format in front: {shared_ids:,}")
    rejected: Counter[str] = Counter()
    for account in accounts:
        rejected.update(account.rows_rejected or {})
    return Provenance(
        source_format="+".join(account.source_format for account in accounts),
        sources=tuple(source for account in accounts for source in account.sources),
        rows_read=sum(account.rows_read for account in accounts),
        rows_kept=sum(account.rows_kept for account in accounts),
        rows_rejected=dict(sorted(rejected.items())),
        relative_time=first.relative_time,
        time_zone=first.time_zone if len(zones) == 1 else "UTC",
        notes=tuple(notes),
        gpuplan_version=gpuplan_version(),
    )
