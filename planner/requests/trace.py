"""What requests share: the trace that they read, the table that some write, a price source."""

from __future__ import annotations

from pathlib import Path

from gpuplan.analysis.base.option import Opt

TRACE_HELP = (
    "A canonical trace (Parquet), or a log in any format: a file, a folder or - for standard input."
)
REFERENCE = Opt(
    "Compare savings with this source, such as aws:on_demand. Default: the most expensive "
    "on-demand source of each GPU.",
    metavar="PROVIDER:KIND",
    panel="Prices",
)
TRACE = Opt(TRACE_HELP, key=None, metavar="TRACE|LOG", argument=True)


def table_file(help_text: str) -> Opt:
    """Return the option ``--output`` of a study that writes one Parquet table."""
    return Opt(
        help_text,
        flag="--output -o",
        key=None,
        metavar="FILE.parquet",
        panel="Output",
        common=True,
        writes=True,
    )


def table_and_rejects(output: Path) -> tuple[Path, ...]:
    """Return the files of a study that writes a table of rows: it, and the rows set aside."""
    from gpuplan.analysis.reading.rejects import rejects_path

    return (output, rejects_path(output))
