"""Bring logs into one trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import IngestResult
from gpuplan.analysis.ingest.ingest import ingest as ingest_logs
from gpuplan.analysis.log_formats.format import IngestOptions, KubernetesOptions
from gpuplan.analysis.site.log import read_site_log
from gpuplan.planner.requests.ingest import IngestRequest
from gpuplan.planner.studies.answer import Answer


def ingest(
    request: IngestRequest, progress: Callable[[float], None] | None = None
) -> Answer[IngestRequest, IngestResult]:
    """Write the trace and return the account of its rows.

    Raises:
        InputError: a source cannot be used, or more rows than allowed are rejected.
        OutputError: the trace cannot be written.
        UsageError: the fields of the request do not fit together.
    """
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
            scheduler=request.twin,
            kubernetes=KubernetesOptions(
                request.gpu_resource,
                request.user_label,
                request.node_types,
                request.include_cpu,
                request.gang,
                request.metric,
            ),
        ),
        limit=request.log.max_rejects,
        on_progress=progress,
    )
    warnings = (*result.warnings, *(_missing_fields(request.output) if request.twin else ()))
    return Answer(request=request, results=result, inputs=result.inputs, warnings=warnings)


def _missing_fields(trace: Path) -> Sequence[str]:
    """Return what a twin of the site cannot follow; the trace itself is whole in any case."""
    try:
        return read_site_log(trace).switched_off()
    except InputError as error:
        return (f"no twin of the site can be made: {error}",)
