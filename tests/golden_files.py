"""What every check of golden files does: run it on each file, print what differs, exit with 1."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

MOST_SHOWN = 20


def check_files(
    paths: Sequence[str], differences: Callable[[Path], Iterable[str]], usage: str
) -> int:
    """Print the differences of all files.

    Args:
        paths: of golden files.
        differences: what differs in a file, a line each.
        usage: printed where there is no path.

    Returns:
        The exit code: 1 where anything differs, 2 without a path.
    """
    if not paths:
        print(usage, file=sys.stderr)
        return 2
    wrong = 0
    for path in map(Path, paths):
        lines = list(differences(path))
        wrong += len(lines)
        print(f"{path.name}: {len(lines)} differences")
        for line in lines[:MOST_SHOWN]:
            print(f"  {line}")
        if len(lines) > MOST_SHOWN:
            print(f"  ... and {len(lines) - MOST_SHOWN} more")
    return 1 if wrong else 0
