"""Make one job of several rows that have its id: the parts and the runs of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Join:
    """How the rows of one id become one job.

    Attributes:
        what: what is told of the rows beyond the first of each id.
        columns: what it reads beside the canonical columns, over these and the fields.
        one_job_each: takes all rows whose id occurs more than once, in the order of the sources,
            and returns one row per id in the canonical columns.
    """

    what: str
    columns: tuple[pl.Expr, ...]
    one_job_each: Callable[[pl.DataFrame], pl.DataFrame]


class Parts:
    """The rows of ids that occur more than once, taken aside while a log is read."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._seen: set[str] = set()

    def add(self, rows: pl.DataFrame) -> int:
        """Take rows; returns how many ids among them are new."""
        before = len(self._seen)
        self._frames.append(rows)
        self._seen.update(rows["job_id"].to_list())
        return len(self._seen) - before

    def joined(self, join: Join) -> pl.DataFrame | None:
        """Return one row per id; None where nothing was taken."""
        return join.one_job_each(pl.concat(self._frames)) if self._frames else None
