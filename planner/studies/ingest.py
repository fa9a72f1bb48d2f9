"""Bring logs into one trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuplan.analysis.ingest.ingest import IngestResult
from gpuplan.analysis.ingest.ingest import ingest as ingest_logs
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.site.trace_columns import add_site_columns, read_site_columns
from gpuplan.planner.requests.ingest import IngestRequest


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
        kept, off = read_site_columns(request.sources, request.log.time_zone or "UTC")
    result = ingest_logs(
        request.sources,
        request.output,
        source_format=request.log.source_format,
        choices=IngestOptions(
            request.log.columns,
            request.log.time_zone,
            request.throughputs,
            request.worker_type,
            own_durations=request.duration == "source",
            values=request.log.values,
            keep=request.log.keep,
        ),
        limit=request.log.max_rejects,
        on_progress=progress,
    )
    if kept is None:
        return result
    add_site_columns(request.output, kept)
    return replace(result, warnings=(*result.warnings, *off))
