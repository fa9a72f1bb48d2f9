"""How a log is read where a trace is expected, and what became of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuplan.analysis.job_table.reject_limit import DEFAULT_LIMIT, Limit


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How to read a log that is given in place of a trace.

    Attributes:
        source_format: name of its format; None detects it.
        columns: canonical column -> column of the log, or an expression over its columns.
        time_zone: zone of times that are written without an offset.
        max_rejects: how many rows may be rejected.
        values: canonical column -> word of the log in lower case -> value.
        keep: columns of the log that the trace has too.
    """

    source_format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    time_zone: str | None = None
    max_rejects: Limit = DEFAULT_LIMIT
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogAccount:
    """What became of the rows of a log that was given in place of a trace.

    Attributes:
        source_format: format it was read in.
        rows_read: rows found.
        rows_kept: jobs in the trace.
        rejected_by_reason: rows that cannot be used, by reason.
    """

    source_format: str
    rows_read: int
    rows_kept: int
    rejected_by_reason: dict[str, int]
