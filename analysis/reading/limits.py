"""How large input may be: bounds that end endless and hostile sources early, far above any log."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.storage.temporary import tempfile_folder

MIB, GIB = 1 << 20, 1 << 30

MOST_LINE_BYTES = 16 * MIB
"""Length of a line of a table, its header included."""

MOST_RECORD_BYTES = 64 * MIB
"""Length of a JSON record, or of a line with one."""

MOST_COLUMNS = 1 << 17
"""Columns of a table."""

MOST_MEMBERS = 10_000
"""Files in an archive."""

MOST_DIRECTORY_BYTES = 16 * MIB
"""Length of the list of members that a zip archive ends with, which is read as a whole."""

MOST_HEADER_BYTES = 16 * MIB
"""Length of the metadata of one member of a tar archive, which is read at once."""

MOST_RATIO = 500
"""How many times its stored size packed data may have; logs reach 50, repeated bytes 1,000."""

UNPACKED_BYTES = GIB
"""What packed data may hold whatever its stored size."""

FIRST_BYTES = MOST_LINE_BYTES + MIB
"""How much of a pipe is looked at before the rest is taken: a line that is too long shows."""

MOST_PIPED_BYTES = 16 * GIB
"""Limit for a pipe or standard input; larger logs must be files."""

USABLE_SHARE_OF_DISK = 0.5
"""Share of the free space for temporary files that a source may take."""


def most_unpacked(stored: int) -> int:
    """Return how many bytes data of a stored size may unpack to."""
    return max(UNPACKED_BYTES, MOST_RATIO * stored)


def usable_temporary_bytes() -> int:
    """Return how many bytes a source may take in the folder for temporary files."""
    return int(USABLE_SHARE_OF_DISK * shutil.disk_usage(tempfile_folder()).free)


def shown_size(size: int) -> str:
    """Return a number of bytes for people: ``16 MiB``, ``1.5 GiB``."""
    unit, name = (GIB, "GiB") if size >= GIB else (MIB, "MiB")
    return f"{size / unit:.3g} {name}"


def long_line(path: Path, row: int | None = None) -> InputError:
    """Return the error for a line that does not end."""
    problem = f"has a line longer than {shown_size(MOST_LINE_BYTES)}"
    return InputError(path, problem, row=row, expected="one job or price per line")
