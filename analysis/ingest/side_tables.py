"""Tables of a log besides its jobs: read first and reduced to one row per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.parallel_read import in_order
from gpuplan.analysis.log_formats.format import LOST, LogFormat, SideTable
from gpuplan.analysis.reading.batch import Batch, Refused
from gpuplan.analysis.reading.detect import head_of
from gpuplan.analysis.reading.outcome import apply
from gpuplan.analysis.reading.plan import ReadingPlan
from gpuplan.analysis.reading.source import Source

MAX_PIECES = 16  # a large table is combined again after this many blocks


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a side table.

    Attributes:
        rows: one per key.
        refused: rows that cannot be used.
        read: rows that there were.
    """

    rows: pl.DataFrame
    refused: list[Refused]
    read: int


def side_tables_first(log_format: LogFormat, sources: Sequence[Source]) -> list[Source]:
    """Return the sources in the order to read them: side tables before the jobs.

    Raises:
        InputError: all are side tables.
    """
    if log_format.jobs_table is None:
        return list(sources)
    tables = {source.path: log_format.side_table(head_of(source)) for source in sources}
    if all(side_table is not None for side_table in tables.values()):
        first = sources[0].path
        side_table = tables[first]
        assert side_table is not None
        raise InputError(
            first,
            f"is {side_table.name}; it says more about jobs, "
            f"but the jobs are in {log_format.jobs_table}",
            expected=f"{log_format.jobs_table} with it",
            hint="name all tables in one command, or the folder that holds them",
        )
    return sorted(sources, key=lambda source: tables[source.path] is None)


def pieces(
    table: SideTable, plan: ReadingPlan, tasks: Iterator[Callable[[], Batch]]
) -> Iterator[Piece]:
    """Yield the pieces of a side table in order; the last one holds all rows, one per key."""
    rows: list[pl.DataFrame] = []
    for piece in in_order(partial(_piece, table, plan), tasks):
        rows.append(piece.rows)
        if len(rows) > MAX_PIECES:
            rows = [table.per_key(pl.concat(rows))]
        yield piece
    nothing = pl.DataFrame(schema={**plan.schema, LOST: pl.Boolean()})
    yield Piece(table.per_key(pl.concat([nothing, *rows])), [], 0)


def _piece(table: SideTable, plan: ReadingPlan, task: Callable[[], Batch]) -> Piece:
    outcome = apply(plan, task())
    cells = outcome.batch.cells
    rows = outcome.jobs.with_columns(pl.lit(False).alias(LOST))
    if outcome.positions is not None:
        kept = pl.Series([False]).new_from_index(0, cells.height).scatter(outcome.positions, True)
        lost = cells.filter(~kept & cells[table.key].is_not_null()).select(table.key)
        rows = pl.concat([rows, lost.with_columns(pl.lit(True).alias(LOST))], how="diagonal")
    read = outcome.jobs.height + len(outcome.refused)
    return Piece(table.per_key(rows), outcome.refused, read)
