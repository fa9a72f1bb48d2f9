"""The argument of every study of jobs."""

from __future__ import annotations

from gpuplan.analysis.base.option import Opt

TRACE_HELP = (
    "A canonical trace (Parquet), or a log in any format: a file, a folder or - for standard input."
)
TRACE = Opt(TRACE_HELP, key=None, metavar="TRACE|LOG", argument=True)
