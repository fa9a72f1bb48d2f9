"""Bring logs into one trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.ingest.ingest import IngestResult
from gpuplan.analysis.ingest.ingest import ingest as ingest_logs
from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT, Limit
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.reading.rejects import rejects_path
from gpuplan.analysis.site.trace_columns import FORMATS, add_site_columns, read_site_columns


@dataclass(frozen=True, slots=True)
class IngestParameters:
    """The options of an ingest, as JSON has them."""

    source_format: str | None
    map: list[str]
    map_value: list[str]
    keep: list[str]
    time_zone: str | None
    throughputs: str | None
    worker_type: str | None
    duration: str
    max_rejects: str
    twin: bool


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """Which logs to read, how, and where the trace goes.

    Attributes:
        sources: logs of one format, plain or compressed, archives and folders of them.
        output: the trace to write; its name ends in ``.parquet``.
        source_format: name of the format; None detects it.
        columns: canonical column -> column of the source or an expression over its columns.
        values: canonical column -> word of the log in lower case -> value.
        keep: columns of the source that the trace has too.
        time_zone: zone of times that are written without an offset.
        throughputs: steps per second of each job type, for a Gavel trace.
        worker_type: the worker type of ``throughputs`` that the jobs run on.
        own_durations: take the log's own durations, not end - start.
        max_rejects: how many rows may be rejected.
        twin: keep the scheduler's fields of a Slurm or SWF log too.
    """

    sources: tuple[Path, ...]
    output: Path
    source_format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    time_zone: str | None = None
    throughputs: Path | None = None
    worker_type: str | None = None
    own_durations: bool = False
    max_rejects: Limit = DEFAULT_LIMIT
    twin: bool = False

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files it reads beside the sources, which may be standard input."""
        return () if self.throughputs is None else (self.throughputs,)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes."""
        return (self.output, rejects_path(self.output))

    def check(self) -> None:
        """Check what can be checked before the sources are read. Raises `UsageError`."""
        if self.twin and self.source_format not in (None, *FORMATS):
            raise UsageError(f"--twin: reads the formats {' and '.join(FORMATS)}")

    def parameters(self) -> IngestParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        return IngestParameters(
            source_format=self.source_format,
            map=[f"{name}={column}" for name, column in self.columns.items()],
            map_value=[
                f"{name}:{word}={value}"
                for name, words in self.values.items()
                for word, value in words.items()
            ],
            keep=list(self.keep),
            time_zone=self.time_zone,
            throughputs=None if self.throughputs is None else str(self.throughputs),
            worker_type=self.worker_type,
            duration="source" if self.own_durations else "computed",
            max_rejects=self.max_rejects.text,
            twin=self.twin,
        )


def ingest(request: IngestRequest, progress: Callable[[float], None] | None = None) -> IngestResult:
    """Write the trace and return the account of its rows.

    Raises:
        InputError: a source cannot be used, or more rows than allowed are rejected.
        OutputError: the trace cannot be written.
        UsageError: the fields of the request do not fit together.
    """
    request.check()
    kept, off = None, list[str]()
    if request.twin:  # read first, so that a log without these fields leaves no trace behind
        kept, off = read_site_columns(request.sources, request.time_zone or "UTC")
    result = ingest_logs(
        request.sources,
        request.output,
        source_format=request.source_format,
        choices=IngestOptions(
            request.columns,
            request.time_zone,
            request.throughputs,
            request.worker_type,
            own_durations=request.own_durations,
            values=request.values,
            keep=request.keep,
        ),
        limit=request.max_rejects,
        on_progress=progress,
    )
    if kept is None:
        return result
    add_site_columns(request.output, kept)
    return replace(result, warnings=(*result.warnings, *off))
