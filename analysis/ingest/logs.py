"""Read the trace of a study, which may also be a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.analysis.storage.files import STANDARD_INPUT, is_parquet
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.trace.trace import read_trace as read_canonical


def read_trace(
    path: Path,
    selection: Selection | None = None,
    *,
    columns: Sequence[str] | None = None,
    categories: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Trace:
    """Read a canonical trace, or a log, as `gpuplan.analysis.trace.trace.read_trace` does.

    Raises:
        InputError: as there; or the log cannot be used, or too many of its rows are rejected.
        OutputError: there is no room for the trace of a log.
        UsageError: as there; or the options do not fit the format of the log.
    """
    selection = selection or Selection()
    if selection.log == LogOptions() and path != STANDARD_INPUT and is_parquet(path):
        return read_canonical(
            path, selection, columns=columns, categories=categories, optional=optional
        )
    from gpuplan.analysis.ingest.kept_logs import opened_log  # loads the formats of all logs

    with opened_log(path, selection.log) as log:
        trace = read_canonical(
            log.trace,
            selection,
            columns=columns,
            categories=categories,
            optional=optional,
            named=path,
        )
    return replace(trace, path=path, sha256=log.sha256, log=log.account)
