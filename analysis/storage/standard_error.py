"""Standard error, where a library writes about its own failures.

Some damage to a Parquet file makes polars panic. It raises an error, which becomes a message, but
before that its threads write to standard error by themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

STDERR = 2


class _HeldBack:
    """Standard error while blocks hold it back; those of several threads share one file."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.blocks = 0
        self.drop = False
        self.terminal = self.file = -1

    def begin(self) -> bool:
        """Hold it back, with the blocks that do; return whether that was possible."""
        with self.lock:
            if self.blocks:
                self.blocks += 1
                return True
            try:
                self.terminal = os.dup(STDERR)
            except OSError:  # it is closed
                return False
            try:
                self.file = _new_file()
            except OSError:  # there is no room
                os.close(self.terminal)
                return False
            self.blocks = 1  # first, so that an interrupt finds the terminal
            os.dup2(self.file, STDERR)
            return True

    def end(self, *, drop: bool) -> None:
        """Let it go after the last block; write what it was given, unless an error drops it."""
        with self.lock:
            self.drop |= drop
            if self.blocks > 1:
                self.blocks -= 1
                return
            os.dup2(self.terminal, STDERR)
            self.blocks = 0
            os.close(self.terminal)
            try:
                if not self.drop and (size := os.fstat(self.file).st_size):
                    os.write(STDERR, os.pread(self.file, size, 0))
            finally:
                os.close(self.file)
                self.drop = False


_held_back = _HeldBack()


@contextmanager
def silent_on(*errors: type[BaseException]) -> Iterator[None]:
    """Hold back what is written to standard error, and drop it where one of the errors is raised.

    Otherwise it is written when the last block that holds it back ends; an error of one of several
    that overlap drops what all of them wrote. Where it cannot be held back, it is not.
    """
    holds = drop = False
    try:
        holds = _held_back.begin()
        yield
    except errors:
        drop = True
        raise
    finally:
        if holds:
            _held_back.end(drop=drop)


def terminal() -> int:
    """Return the descriptor of standard error, also while it is held back."""
    return _held_back.terminal if _held_back.blocks else STDERR


def _new_file() -> int:
    """Return the descriptor of a new file without a name. Raises `OSError`."""
    if sys.platform == "linux":
        return os.memfd_create("gpuplan")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
