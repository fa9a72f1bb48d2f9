"""Counts of kept rows for the notes of an ingest."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

EARLY = "jobs that start before their submission (no wait recorded)"
"""The name of the `Tally` of negative waits."""

FEW_GPUS = "jobs with fewer GPUs than workers"
"""The name of the `Tally` of jobs whose GPUs may be those of one worker."""


@dataclass(frozen=True, slots=True)
class Tally:
    """A condition to count over the kept rows, reported in a note ``<what>: <count>``.

    Attributes:
        what: the description of the rows.
        counted: true in the rows to count; over fields and canonical columns.
    """

    what: str
    counted: pl.Expr
