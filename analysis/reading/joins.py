"""Combine the rows of one job, its parts and its runs, which share an id."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuplan.analysis.job_table.column_rules import COLUMN_RULES
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.reading.batch import Refused, Tally

KEY = ("job_id", "owner")
FIRST = "order"
"""Column of joined jobs: the place of the first row of each among the rows that were joined."""


@dataclass(frozen=True, slots=True)
class Join:
    """How the rows of one id become one job.

    Attributes:
        what: note about the rows beyond the first of each job.
        reused: note about jobs with an id that another owner has too.
        owner: the owner of a job, as text: rows of one id and two owners are two jobs.
        columns: columns it reads besides the canonical ones, from these and the fields.
        tallies: what to count among the jobs, not the rows; over the canonical columns and those
            that both ``columns`` and ``one_job_each`` have.
        one_job_each: takes all rows whose id occurs more than once, in the order of the sources,
            and returns one row per job (see `KEY`) with the canonical columns, each with its own
            id, those that ``tallies`` need, and `FIRST`.
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
        self._places: list[tuple[Path, pl.Series]] = []
        self._seen: set[tuple[str, ...]] = set()

    def add(self, rows: pl.DataFrame, path: Path, numbers: pl.Series) -> int:
        """Take rows of a source, with their numbers there; returns how many new jobs they are."""
        before = len(self._seen)
        self._frames.append(rows)
        self._places.append((path, numbers))
        self._seen.update(rows.select(KEY).rows())
        return len(self._seen) - before

    def reused(self) -> int:
        """Return how many jobs have an id that another one had before."""
        return len(self._seen) - len({job_id for job_id, *_ in self._seen})

    def joined(self, join: Join) -> tuple[pl.DataFrame, list[tuple[Path, Refused]]]:
        """Return one row per job, and the jobs that break a rule of the schema when joined.

        Sums over the rows of a job may do so even if none of its rows does.
        """
        if not self._frames:
            return pl.DataFrame(), []
        rows = pl.concat(self._frames)
        jobs = join.one_job_each(rows)
        jobs = jobs.hstack(rows[jobs[FIRST]].drop(*jobs.columns, strict=False))
        refused = []
        for column, rule in COLUMN_RULES.items():
            for fault in rule.faults:
                for job in jobs.filter(fault.broken).rows(named=True):
                    path, row = self._place(job[FIRST])
                    recorded = {name: job[name] for name in CANONICAL}
                    raw = json.dumps(recorded, default=str)
                    cell = str(job[column])
                    refused.append(
                        (path, Refused(row, fault.reason, column, cell, fault.expected, raw))
                    )
                jobs = jobs.filter(~fault.broken.fill_null(False))
        return jobs, refused

    def _place(self, order: int) -> tuple[Path, int]:
        """Return the source and the row there of one of the rows taken, by its place in them."""
        for path, numbers in self._places:
            if order < len(numbers):
                return path, int(numbers[order])
            order -= len(numbers)
        raise ValueError(f"no row at place {order}")
