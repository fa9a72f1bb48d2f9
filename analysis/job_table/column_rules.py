"""Rules for the cells of a canonical trace: one table for writing and for reading a trace.

`gpuplan ingest` rejects the rows that break a rule, and every other command refuses a file that has
such a row. So every trace that is written can be read.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from gpuplan.analysis.base.time_units import CENTURY_S, FIRST_SUBMIT, LAST_SUBMIT
from gpuplan.analysis.job_table.schema import LEAST_SHARE, MAX_GPUS


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break the rule of a column.

    Attributes:
        reason: short machine word, as rejected rows have it.
        expected: what the cell should be.
        broken: true in the rows at fault; null counts as false.
    """

    reason: str
    expected: str
    broken: pl.Expr


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """The rules for the cells of a column.

    Attributes:
        expected: all rules, in words.
        faults: the ways to break them; the message shows the first one that applies.
    """

    expected: str
    faults: tuple[Fault, ...]

    @property
    def broken(self) -> pl.Expr:
        """Where a cell has any of the faults."""
        return pl.any_horizontal(fault.broken.fill_null(False) for fault in self.faults)


def _seconds(name: str, negative: str) -> tuple[Fault, ...]:
    """Return the faults of a span of time."""
    cell = pl.col(name)
    return (
        Fault("unreadable", "a number of seconds", cell.is_nan()),
        Fault(negative, "seconds, at least 0", cell < 0),
        Fault("out_of_range", "seconds of at most a century", cell > CENTURY_S),
    )


def _count(name: str) -> tuple[Fault, ...]:
    """Return the faults of a number of workers or attempts."""
    cell, expected = pl.col(name), f"a whole number, 1 to {MAX_GPUS:,.0f}"
    return (Fault("out_of_range", expected, ~cell.is_between(1, int(MAX_GPUS))),)


_TIME = ~pl.col("submit_time").is_between(FIRST_SUBMIT, LAST_SUBMIT)
_GPUS = pl.col("num_gpus")
_SECONDS = "seconds, from 0 to a century (or nothing)"
_WHOLE = f"a whole number, 1 to {MAX_GPUS:,.0f} (or nothing)"

COLUMN_RULES: dict[str, ColumnRule] = {
    "num_gpus": ColumnRule(
        f"a number of GPUs, 0 to {MAX_GPUS:,.0f}, a share of one at least {LEAST_SHARE:f}",
        (
            Fault("missing", "a number of GPUs", _GPUS.is_null()),
            Fault("unreadable", "a number of GPUs", _GPUS.is_nan()),
            Fault("negative_gpus", "a number of GPUs, at least 0", _GPUS < 0),
            Fault(
                "out_of_range",
                f"0, or at least {LEAST_SHARE:f} of a GPU",
                (_GPUS > 0) & (_GPUS < LEAST_SHARE),
            ),
            Fault("out_of_range", f"at most {MAX_GPUS:,.0f}", _GPUS > MAX_GPUS),
        ),
    ),
    "duration_s": ColumnRule(_SECONDS, _seconds("duration_s", "negative_duration")),
    "queue_s": ColumnRule(_SECONDS, _seconds("queue_s", "negative_wait")),
    "deadline_s": ColumnRule(
        "seconds after submission, above 0, at most a century (or nothing)",
        (
            Fault("bad_deadline", "seconds above 0", pl.col("deadline_s") <= 0),
            *_seconds("deadline_s", "bad_deadline"),
        ),
    ),
    "num_workers": ColumnRule(_WHOLE, _count("num_workers")),
    "attempts": ColumnRule(_WHOLE, _count("attempts")),
    "submit_time": ColumnRule(
        f"a submission time in every row, of the years 1 to {LAST_SUBMIT.year}",
        (
            Fault("missing", "a time", pl.col("submit_time").is_null()),
            Fault("out_of_range", f"a time of the years 1 to {LAST_SUBMIT.year}", _TIME),
        ),
    ),
}
"""Canonical column -> its rule; every other column takes what its type does."""
