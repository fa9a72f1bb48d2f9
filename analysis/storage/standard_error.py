"""Standard error, where a library writes about its own failures.

Some damage to a Parquet file makes polars panic. It raises an error, which becomes a message, but
before that its threads write to standard error by themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STDERR = 2
_aside: list[int] = []


@contextmanager
def silent_on(*errors: type[BaseException]) -> Iterator[None]:
    """Hold back what is written to standard error, and drop it where one of the errors is raised.

    Otherwise it is written when the block ends. Where it cannot be held back, it is not.
    """
    try:
        terminal, held = os.dup(STDERR), _new_file()
    except OSError:  # it is closed, or there is no room
        yield
        return
    _aside.append(terminal)
    drop = False
    try:
        os.dup2(held, STDERR)
        yield
    except errors:
        drop = True
        raise
    finally:
        os.dup2(terminal, STDERR)
        _aside.remove(terminal)
        os.close(terminal)
        if not drop and (size := os.fstat(held).st_size):
            os.write(STDERR, os.pread(held, size, 0))
        os.close(held)


def terminal() -> int:
    """Return the descriptor of standard error, also while it is held back."""
    return _aside[0] if _aside else STDERR


def _new_file() -> int:
    """Return the descriptor of a new file without a name. Raises `OSError`."""
    if sys.platform == "linux":
        return os.memfd_create("gpuplan")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
