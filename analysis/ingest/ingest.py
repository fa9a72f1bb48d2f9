"""Bring job logs into one canonical trace: read, check, write, and account for every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuplan.analysis.errors import InputError, UsageError
from gpuplan.analysis.files import atomic_output, refuse_overwrite
from gpuplan.analysis.ingest.side_tables import side_tables_first
from gpuplan.analysis.ingest.trace_reading import Reading, repeated_ids
from gpuplan.analysis.ingest.unknown_files import unknown_log
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat, SourceContext
from gpuplan.analysis.log_formats.registry import FORMATS, format_named
from gpuplan.analysis.plain import plain
from gpuplan.analysis.reading.detect import Guess, guesses, left_out_notes, look_early
from gpuplan.analysis.reading.inputs import Inputs, opened_inputs, share_of_bytes
from gpuplan.analysis.reading.rejects import DEFAULT_LIMIT, Limit, RejectLog, rejects_path
from gpuplan.analysis.reading.source import Head, Source, SourceStream
from gpuplan.analysis.reading.times import check_zone
from gpuplan.analysis.schema import Provenance
from gpuplan.analysis.words import a_log


@dataclass(frozen=True, slots=True)
class IngestAccount:
    """What became of the rows of logs; read = kept + rejected.

    Attributes:
        source_format: format they were read in.
        recognized_by: the sign that told it; null where it was given.
        rows_read: rows found.
        rows_kept: rows in the trace.
        rows_rejected: rows that cannot be used.
        rejected_by_reason: these by reason.
        output: the trace.
        rejects_file: the rejected rows; null where there are none.
        time_zone: zone in which the source wrote its times; null where it is relative.
        relative_time: whether the source has no calendar.
        notes: what a reader of the trace should know.
    """

    source_format: str
    recognized_by: str | None
    rows_read: int
    rows_kept: int
    rows_rejected: int
    rejected_by_reason: dict[str, int]
    output: str
    rejects_file: str | None
    time_zone: str | None
    relative_time: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IngestResult:
    """A written trace and the account of its rows.

    Attributes:
        provenance: facts stored in the trace: format, sources, counts, notes.
        rows_by_source: rows read per source, in their order; of a side table all it has, while
            `Provenance.rows_read` counts only those rejected.
        output: the trace.
        rejects_file: the rejected rows; None where there are none.
        recognized_by: the evidence for the format; None if the user named it.
        warnings: what makes the trace doubtful.
    """

    provenance: Provenance
    rows_by_source: tuple[int, ...]
    output: Path
    rejects_file: Path | None
    recognized_by: str | None = None
    warnings: tuple[str, ...] = ()

    def results(self) -> IngestAccount:
        """Return the counts and facts as JSON has them; read = kept + rejected."""
        found = self.provenance
        by_reason = found.rows_rejected or {}
        return IngestAccount(
            source_format=found.source_format,
            recognized_by=self.recognized_by,
            rows_read=found.rows_read,
            rows_kept=found.rows_kept,
            rows_rejected=sum(by_reason.values()),
            rejected_by_reason=by_reason,
            output=str(self.output),
            rejects_file=None if self.rejects_file is None else str(self.rejects_file),
            time_zone=found.time_zone,
            relative_time=found.relative_time,
            notes=tuple(found.notes),
        )

    def summary(self) -> dict[str, Any]:
        """Return the counts and facts as plain values."""
        found: dict[str, Any] = plain(self.results())
        return found


def ingest(
    sources: Sequence[Path],
    output: Path,
    *,
    source_format: str | None = None,
    choices: IngestOptions | None = None,
    limit: Limit = DEFAULT_LIMIT,
    on_progress: Callable[[float], None] | None = None,
) -> IngestResult:
    """Write the jobs of some logs of one format to a canonical Parquet file.

    Rejected rows go to ``<output>.rejects.parquet``; both files appear whole or not at all. Where
    too many rows are rejected, or all, only theirs does.

    Args:
        sources: logs, plain or compressed with gzip or zstd, zip archives and folders of them,
            or ``-`` for standard input.
        output: the trace; its name ends in ``.parquet``.
        source_format: name of a format; None detects it.
        choices: the user's options about columns and time zone.
        limit: how many rows may be rejected.
        on_progress: called with the share of the bytes read, 0 to 1.

    Raises:
        InputError: a source cannot be used, or more rows than allowed are rejected.
        OutputError: the trace cannot be written.
        UsageError: the options do not fit together.
    """
    choices = replace(choices or IngestOptions(), is_forced=source_format is not None)
    if source_format is None and choices.columns:
        source_format = "csv"
    forced = None if source_format is None else format_named(source_format)
    rejects = rejects_path(output)
    refuse_overwrite(
        [output, rejects], [] if choices.throughputs is None else [choices.throughputs]
    )

    def planned(known: LogFormat, stream: SourceStream) -> None:
        if known.jobs_table is None:  # the columns of several tables are known when all are there
            head = Head(stream.path, stream.head)
            rows = known.open(stream)
            known.plan(SourceContext(head, rows.columns, rows.sample, 0, choices))

    def look(source: Source) -> bool:
        return look_early(source, FORMATS, unknown_log, forced, planned)

    with opened_inputs(sources, output, look) as inputs:
        logs, left_out = _logs(inputs, forced, choices)
        known, evidence = logs[0].format, logs[0].evidence
        _check_choices(known, choices)
        files = side_tables_first(known, [log.source for log in logs])
        advance = share_of_bytes(files, on_progress)
        taken_for = {
            str(log.source.path): f"{a_log(known.name)} by {log.evidence}"
            for log in logs
            if log.evidence is not None
        }

        def reading(
            repeated: frozenset[str] = frozenset(),
            incomplete: frozenset[tuple[str, ...]] = frozenset(),
        ) -> Reading:
            log = RejectLog(rejects, inputs.spool, limit, taken_for)
            notes = left_out_notes(left_out)
            return Reading(files, known, choices, log, advance, notes, repeated, incomplete)

        with atomic_output(output) as trace:
            done = reading()
            done.write(trace)
            repeated = repeated_ids(done, trace)
            if repeated:  # rare: read again, now knowing which ids to watch
                done = reading(repeated, frozenset(done.lost))
                done.write(trace)
            done.check()
            done.log.write()
    return IngestResult(
        provenance=done.provenance(),
        rows_by_source=tuple(done.rows_by_source),
        output=output,
        rejects_file=rejects if len(done.log) else None,
        recognized_by=evidence,
        warnings=done.warnings(),
    )


def _logs(
    inputs: Inputs, forced: LogFormat | None, choices: IngestOptions
) -> tuple[list[Guess[LogFormat]], list[Path]]:
    """Return the logs, all of one format, and the files left out. Raises `InputError`."""

    def has_mapped_columns(head: Head) -> bool:
        takes_columns = forced is not None and forced.takes_columns
        return takes_columns and set(choices.columns.values()) <= set(head.table_columns)

    logs, left_out = guesses(inputs, FORMATS, unknown_log, forced, has_mapped_columns)
    first = logs[0]
    for log in logs:
        if log.format is not first.format:
            raise InputError(
                log.source.path,
                f"is {a_log(log.format.name)}, {first.source.path} is {a_log(first.format.name)} "
                f"({log.evidence}; {first.evidence})",
                hint="ingest logs of different formats one by one; if one is taken for what it is "
                "not, force the format with --source-format",
            )
    return logs, left_out


def _check_choices(known: LogFormat, choices: IngestOptions) -> None:
    """Refuse options that do not apply to the format. Raises `UsageError`."""
    if choices.columns and not known.takes_columns:
        raise UsageError(f"--map: the format {known.name} knows its columns; use it with csv")
    if choices.time_zone is not None:
        if not known.takes_zone:
            raise UsageError(f"--time-zone: the times of {known.name} need no zone; leave it out")
        check_zone(choices.time_zone)
    if choices.own_durations and not known.has_durations:
        raise UsageError(
            f"--duration source: the format {known.name} does not tell durations beside starts and "
            "ends; leave it out"
        )
    if choices.throughputs is not None and not known.takes_throughputs:
        raise UsageError(f"--throughputs: the format {known.name} tells no steps; leave it out")
    if choices.worker_type is not None and choices.throughputs is None:
        raise UsageError("--worker-type: chooses among the worker types of --throughputs FILE")
