"""The errors a user may see: one family, raised deep, shown once by the command line.

A user's mistake is a `GpuplanError`; a caller's mistake is a `ValueError` with the value; a
broken invariant of ours is a bug and keeps its traceback (shown with ``--debug``).
"""

from __future__ import annotations

import re
from os import PathLike

MOST_QUOTED = 120
SLACK = 40  # length of the note; leaving out less than this saves nothing
MOST_UNBROKEN = 400  # a path may be long
MOST_OF_A_LINE = 1500
QUOTED = re.compile(
    r"""(?<![\w'"])(?P<mark>['"])"""
    rf"(?P<text>(?:(?!(?P=mark)(?!\w)).){{{MOST_QUOTED + 1},}})(?P=mark)(?!\w)"
)
MOST_MARKS = 200  # quotes examined in a line; each may mean a search to its end
UNBROKEN = re.compile(rf"\S{{{MOST_UNBROKEN + 1},}}")
BREAKS = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def shortened(text: str, most: int = MOST_QUOTED) -> str:
    """Return a text; a long one without its middle, with its length."""
    if len(text) <= most + SLACK:
        return text
    tail = most // 4
    return f"{text[: most - tail]}... ({len(text):,} characters) ...{text[len(text) - tail :]}"


def brief(message: str) -> str:
    """Return a message with its long values shortened: a file may have cells of any length."""
    return "\n".join(map(_brief_line, message.split("\n")))


def _brief_line(line: str) -> str:
    if len(line) <= MOST_QUOTED:
        return line
    if line.count("'") + line.count('"') <= MOST_MARKS:
        line = QUOTED.sub(_quoted, line)
    line = UNBROKEN.sub(lambda match: shortened(match[0], MOST_UNBROKEN), line)
    return shortened(line, MOST_OF_A_LINE)


def _quoted(match: re.Match[str]) -> str:
    return f"{match['mark']}{shortened(match['text'])}{match['mark']}"


class GpuplanError(Exception):
    """Base of all errors shown to the user as one message, without a traceback.

    Long values in the message are shortened, whoever quotes them.
    """

    exit_code = 2

    def __str__(self) -> str:
        return brief(super().__str__())


class UsageError(GpuplanError):
    """An option has an invalid value."""

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
        name = BREAKS.sub("?", str(path))
        where = name if row is None else f"{name}:{row}"
        what = problem if column is None else f"column {shortened(column)!r}: {problem}"
        message = f"{where}: {what}"
        if expected is not None:
            message += f"; expected {expected}"
        if hint is not None:
            message += f"\n  next: {hint}"
        super().__init__(message)


class OutputError(GpuplanError):
    """A result cannot be written to the requested path."""

    exit_code = 3


class OutOfMemoryError(GpuplanError):
    """A limit of the system leaves too little memory to work."""

    exit_code = 3


class InfeasibleError(GpuplanError):
    """No plan meets the request, for example a budget below the load."""

    exit_code = 4
