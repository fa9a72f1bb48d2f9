"""The errors a user may see: one family, raised deep, shown once by the command line.

A user's mistake is a `GpuplanError`; a caller's mistake is a `ValueError` with what was got; a
broken invariant of ours is a bug and keeps its traceback (shown with ``--debug``).
"""

from __future__ import annotations

from os import PathLike


class GpuplanError(Exception):
    """Base of all errors shown to the user as one message, without a traceback."""

    exit_code = 2


class UsageError(GpuplanError):
    """An option has a value that cannot be meant."""

    exit_code = 2


class InputError(GpuplanError):
    """An input file is missing or cannot be used.

    The message reads ``path:row: column 'x': problem; expected ...``; ``hint`` is the next step.
    """

    exit_code = 3

    def __init__(
        self,
        path: str | PathLike[str],
        problem: str,
        *,
        row: int | None = None,
        column: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = str(path) if row is None else f"{path}:{row}"
        what = problem if column is None else f"column {column!r}: {problem}"
        message = f"{where}: {what}"
        if expected is not None:
            message += f"; expected {expected}"
        if hint is not None:
            message += f"\n  next: {hint}"
        super().__init__(message)


class OutputError(GpuplanError):
    """A result cannot be written where the user asked for it."""

    exit_code = 3


class InfeasibleError(GpuplanError):
    """No plan meets what was asked, for example a budget under the load."""

    exit_code = 4
