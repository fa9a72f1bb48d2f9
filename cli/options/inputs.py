"""Read the trace of a command, or stop there where commands are only checked.

Every command reads its options first, then its trace, then works. So what is wrong with the options
of a study is found before any study runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuplan.analysis.trace import Selection, Trace

_checking: ContextVar[bool] = ContextVar("checking", default=False)


class _Checked(Exception):
    """Leaves a command whose options are in order."""


@contextmanager
def checking() -> Iterator[None]:
    """Run the commands inside up to where they read their trace, and leave the block there."""
    token = _checking.set(True)
    try:
        with suppress(_Checked):
            yield
    finally:
        _checking.reset(token)


def read_trace(
    path: Path,
    selection: Selection | None = None,
    *,
    columns: Sequence[str] | None = None,
    categories: Sequence[str] = (),
) -> Trace:
    """Read a trace as `gpuplan.analysis.trace.read_trace` does."""
    if _checking.get():
        raise _Checked
    from gpuplan.analysis.trace import read_trace as read

    return read(path, selection, columns=columns, categories=categories)
