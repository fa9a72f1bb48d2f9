"""Make one job of several rows that have its id: the parts and the runs of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from gpuplan.analysis.ingest.plan import Tally  # which knows joins

KEY = ("job_id", "owner")


@dataclass(frozen=True, slots=True)
class Join:
    """How the rows of one id become one job.

    Attributes:
        what: what is told of the rows beyond the first of each job.
        reused: what is told of the jobs whose id another owner has too.
        owner: whose job a row is, as text: rows of one id and two owners are two jobs.
        columns: what it reads beside the canonical columns, over these and the fields.
        tallies: what to count among the jobs, not the rows; over the canonical columns and those
            that both ``columns`` and ``one_job_each`` have.
        one_job_each: takes all rows whose id occurs more than once, in the order of the sources,
            and returns one row per job (see `KEY`) with the canonical columns, each with its own
            id, and those that ``tallies`` need.
    """

    what: str
    reused: str
    owner: pl.Expr
    columns: tuple[pl.Expr, ...]
    tallies: tuple[Tally, ...]
    one_job_each: Callable[[pl.DataFrame], pl.DataFrame]


class Parts:
    """The rows of ids that occur more than once, taken aside while a log is read."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._seen: set[tuple[str, ...]] = set()

    def add(self, rows: pl.DataFrame) -> int:
        """Take rows; returns how many jobs among them are new."""
        before = len(self._seen)
        self._frames.append(rows)
        self._seen.update(rows.select(KEY).rows())
        return len(self._seen) - before

    def reused(self) -> int:
        """Return how many jobs have an id that another one had before."""
        return len(self._seen) - len({job_id for job_id, *_ in self._seen})

    def joined(self, join: Join) -> pl.DataFrame | None:
        """Return one row per job; None where nothing was taken."""
        return join.one_job_each(pl.concat(self._frames)) if self._frames else None
