"""What a result says of the files that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from gpuplan.analysis.job_table.log_options import LogAccount

if TYPE_CHECKING:
    from gpuplan.analysis.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input file, as the JSON output names it.

    Attributes:
        path: the file, as the user gave it.
        sha256: hash of its bytes.
        rows: the rows it has; of a log the jobs, of a JSON result its studies.
        log: what became of the rows of a log that was given in place of a trace.
    """

    path: str
    sha256: str
    rows: int
    log: LogAccount | UnsetType = UNSET


def trace_input(trace: Trace) -> InputFile:
    """Return a trace as an input of a result."""
    log = UNSET if trace.log is None else trace.log
    return InputFile(str(trace.path), trace.sha256, trace.rows, log)
