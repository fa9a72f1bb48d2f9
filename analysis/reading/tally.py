"""Things a plan counts among the rows it keeps, for the notes of an ingest."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

EARLY = "jobs that start before their submission (no wait recorded)"
"""What a `Tally` of waits below 0 is called."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Something to count over the kept rows and to tell in a note, ``<what>: <count>``.

    Attributes:
        what: what is counted.
        counted: true in the rows to count; over fields and canonical columns.
    """

    what: str
    counted: pl.Expr
