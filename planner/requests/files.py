"""Files that a request writes itself."""

from __future__ import annotations

from gpuplan.analysis.base.option import Opt


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
