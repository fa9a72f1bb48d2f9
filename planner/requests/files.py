"""Files that a request writes itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt


def the_only(files: Sequence[Path], flag: str) -> Path:
    """Return the file of an option that takes one; a second must not silently replace it.

    Raises `UsageError` for several.
    """
    if len(files) > 1:
        raise UsageError(f"{flag}: given {len(files)} times; this command writes one file")
    return files[0]


def table_file(help_text: str) -> Opt:
    """Return the option ``--output`` of a study that writes one Parquet table."""
    return Opt(
        help_text,
        flag="--output -o",
        parse=the_only,
        many=True,
        key=None,
        metavar="FILE.parquet",
        panel="Output",
        common=True,
        writes=True,
    )
