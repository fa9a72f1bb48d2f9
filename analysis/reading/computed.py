"""Columns that are computed from those of a source, as in ``num_gpus = gpus_per_pod * gang_size``.

Cells are text. A column whose first cells are mostly numbers counts as numbers, unless the
expression can only be evaluated on text; with ``||`` or CONCAT all columns are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError, shortened
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.job_table.predicate import PredicateTooLarge, read_predicate
from gpuplan.analysis.reading.batch import Batch, Rows, Tally
from gpuplan.analysis.reading.plan import ReadingPlan
from gpuplan.analysis.reading.plan import text as text_field
from gpuplan.analysis.reading.times import is_number

OF_TEXT = re.compile(r"\|\||\bCONCAT", re.IGNORECASE)
SIGNS = re.compile(r"[*/+()|'\"]")
PROBE = ("1", "2", "3")
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
MOST_EXACT = 2**53


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed column.

    Attributes:
        text: the expression, and the name of the column.
        roots: the columns that it reads.
        numbers: those of them that are numbers.
        value: the expression, over typed columns.
    """

    text: str
    roots: tuple[str, ...]
    numbers: frozenset[str]
    value: pl.Expr

    def cells(self, rows: pl.DataFrame) -> pl.Series:
        """Return its cells as text. Where a number cannot be read, they show what they are of.

        Raises `polars.exceptions.PolarsError`.
        """
        columns = rows.select(self.roots) if self.roots else rows.select(pl.int_range(pl.len()))
        typed = columns.with_columns(pl.col(sorted(self.numbers)).cast(pl.Float64, strict=False))
        values = typed.with_columns(self.value.alias(self.text))[self.text]
        if values.dtype.is_nested():
            raise pl.exceptions.InvalidOperationError(
                f"gives {values.dtype}, not one value per row"
            )
        cells = number_text(values) if values.dtype == pl.Float64() else values.cast(pl.String)
        odd = [columns[n].is_not_null() & typed[n].is_null() for n in sorted(self.numbers)]
        if not any(column.any() for column in odd):
            return cells
        is_odd = pl.DataFrame(odd).select(pl.any_horizontal(pl.all())).to_series() & cells.is_null()
        shown = columns.select(
            pl.concat_str([pl.format(f"{_escaped(n)}={{}}", n) for n in self.roots], separator=" ",
                          ignore_nulls=True)
        ).to_series()  # fmt: skip
        return shown.zip_with(is_odd, cells)


def number_text(values: pl.Series) -> pl.Series:
    """Return numbers as text, whole ones without a fraction."""
    is_whole = (values == values.floor()) & (values.abs() < MOST_EXACT)
    return (
        values.cast(pl.Int64, strict=False)
        .cast(pl.String)
        .zip_with(is_whole.fill_null(False), values.cast(pl.String))
    )


def is_number_column(cells: Iterable[str | None]) -> bool:
    """Return whether most cells that are not empty are numbers."""
    filled = [cell for cell in cells if cell is not None]
    return 2 * sum(map(is_number, filled)) > len(filled)


def columns_read(text: str, columns: Collection[str]) -> tuple[str, ...]:
    """Return the columns of a source that a column or an expression reads.

    What is neither is taken for the name of a column that is missing. An expression without any
    known column is one too, unless it reads none.
    """
    if text in columns:
        return (text,)
    try:
        value = read_predicate(text).expression
        roots = tuple(dict.fromkeys(value.meta.root_names()))
        is_renamed = not value.meta.undo_aliases().meta.eq(value)
        if is_renamed or value.meta.has_multiple_outputs() or value.meta.is_column():
            return (text,)
    except (*UNREADABLE, PredicateTooLarge):
        return (text,)
    return roots if set(roots) & set(columns) or not roots else (text,)


def kept_columns(
    keep: Sequence[str], sources: Iterable[Rows], trace_columns: Collection[str]
) -> dict[str, pl.DataType]:
    """Return the columns of ``--keep``: numbers where most of their first cells are, else text.

    Args:
        keep: columns of the sources.
        sources: the sources, of which only the columns and first rows are read.
        trace_columns: columns that the trace has anyway.

    Raises:
        UsageError: no source has one of them, or the trace has a column of that name.
    """
    cells_of: dict[str, list[str | None]] = {}
    columns: dict[str, None] = {}
    for rows in sources if keep else ():
        columns |= dict.fromkeys(rows.columns)
        for name in keep:
            if (source := _spelled(name, rows.columns)) is not None:
                cells_of.setdefault(name, []).extend(row.get(source) for row in rows.sample)
    for name in keep:
        if name in trace_columns:
            raise UsageError(
                f"--keep {name}: a trace has a column of this name\n  next: --map {name}={name}"
            )
        if name not in cells_of:
            raise UsageError(
                f"no column {name!r} in the log{perhaps(name, columns)} to keep; found "
                f"{', '.join(list(columns)[:20])}"
            )
    is_number = {name: any(cells) and is_number_column(cells) for name, cells in cells_of.items()}
    return {name: pl.Float64() if is_number[name] else pl.String() for name in keep}


def with_kept(
    plan: ReadingPlan, columns: Collection[str], kept: Mapping[str, pl.DataType]
) -> ReadingPlan:
    """Return a plan that keeps these columns too, where a source has them."""
    sources = {name: _spelled(name, columns) for name in kept}
    present = {name: kind for name, kind in kept.items() if sources[name] is not None}
    cells = {name: pl.col(f"--keep {name}") for name in present}
    odd = [
        Tally(
            f"cells of {name} that are not numbers, left empty",
            cells[name].is_not_null() & cells[name].cast(kind, strict=False).is_null(),
        )
        for name, kind in present.items()
        if kind == pl.Float64()
    ]
    return replace(
        plan,
        fields=(
            *plan.fields,
            *(text_field(f"--keep {name}", sources[name] or "") for name in present),
        ),
        jobs={**plan.jobs, **cells},
        tallies=(*plan.tallies, *odd),
    )


def _spelled(name: str, columns: Collection[str]) -> str | None:
    """Return a column as a source spells it: some formats fold the case. None without one."""
    folded = name.casefold()
    return name if name in columns else folded if folded in columns else None


def with_computed(path: Path, rows: Rows, columns: Mapping[str, str]) -> Rows:
    """Return rows with the columns that ``--map`` computes.

    Args:
        path: the source, for messages.
        rows: of the source.
        columns: canonical column -> column of the source, or an expression over them.

    Raises:
        UsageError: an expression cannot be read, or reads columns that are not there.
    """
    folded = {name.casefold() for name in rows.columns}
    made = {
        text: _computed(f"--map {name}={text}", text, rows)
        for name, text in columns.items()
        if text.casefold() not in folded and columns_read(text, rows.columns) != (text,)
    }
    for name, text in columns.items():
        if text.casefold() not in folded and text not in made and SIGNS.search(text):
            _check_syntax(f"--map {name}={text}", text)
    if not made:
        return rows
    sample = pl.DataFrame(rows.sample, schema=dict.fromkeys(rows.columns, pl.String))
    values = {text: computed.cells(sample).to_list() for text, computed in made.items()}
    seen = tuple(
        {**row, **{text: column[i] for text, column in values.items()}}
        for i, row in enumerate(rows.sample)
    )

    def batches(wanted: Sequence[str]) -> Iterator[Callable[[], Batch]]:
        used = [made[name] for name in wanted if name in made]
        roots = [root for computed in used for root in computed.roots]
        read = dict.fromkeys([*(name for name in wanted if name not in made), *roots])
        for task in rows.batches(tuple(read)):
            yield partial(_batch, path, task, used)

    return Rows((*rows.columns, *made), seen, batches)


def _batch(path: Path, task: Callable[[], Batch], used: Sequence[Computed]) -> Batch:
    batch = task()
    cells = batch.cells
    for computed in used:
        try:
            cells = cells.with_columns(computed.cells(batch.cells).alias(computed.text))
        except UNREADABLE as error:  # such as a strict CAST of a cell
            raise InputError(
                path,
                f"cannot compute {computed.text} ({_reason(error)})",
                hint="use TRY_CAST in place of CAST, or --map a column",
            ) from error
    return replace(batch, cells=cells)


def _computed(option: str, text: str, rows: Rows) -> Computed:
    """Return the first reading of an expression that can be evaluated on probes."""
    roots = columns_read(text, rows.columns)
    missing = [name for name in roots if name not in rows.columns]
    if missing:
        raise UsageError(
            f"{option}: no column {missing[0]!r}\n  next: use one of {', '.join(rows.columns[:20])}"
        )
    value = read_predicate(text).expression
    seen = {name: [row.get(name) for row in rows.sample] for name in roots}
    texts = {n for n, cells in seen.items() if any(cells) and not is_number_column(cells)}
    numbers = frozenset(roots) - texts
    choices = [frozenset[str](), numbers] if OF_TEXT.search(text) else [numbers, frozenset[str]()]
    problem = ""
    for chosen in dict.fromkeys(choices):
        computed = Computed(text, roots, chosen, value)
        try:
            is_row_by_row = all(_is_row_by_row(computed, probe) for probe in _probes(seen))
        except UNREADABLE as error:
            problem = problem or _reason(error)
            continue
        if is_row_by_row:
            return computed
        problem = "must be computed from one row at a time"
    raise UsageError(f"{option}: {problem}\n  next: an expression is one value of the same row")


def _probes(seen: Mapping[str, Sequence[str | None]]) -> Iterator[pl.DataFrame]:
    """Yield rows to try an expression on: made-up ones, and the first ones of the source."""
    made_up = {name: PROBE for name in seen} or {"": PROBE}
    yield pl.DataFrame(made_up, schema=dict.fromkeys(made_up, pl.String))
    if any(seen.values()):
        yield pl.DataFrame(seen, schema=dict.fromkeys(seen, pl.String))


def _is_row_by_row(computed: Computed, rows: pl.DataFrame) -> bool:
    """Return whether each row alone gives what it gives among the others; a sum does not."""
    alone = [computed.cells(rows[i : i + 1]) for i in range(rows.height)]
    return computed.cells(rows).to_list() == pl.concat(alone).to_list()


def _check_syntax(option: str, text: str) -> None:
    try:
        read_predicate(text)
    except PredicateTooLarge as error:
        raise UsageError(f"{shortened(option)}: {error}\n  next: {error.hint}") from error
    except UNREADABLE as error:
        raise UsageError(
            f"{shortened(option)}: {_reason(error)}\n  next: name a column, or write an expression "
            "as in --where"
        ) from error


def _reason(error: BaseException) -> str:
    return shortened(str(error).strip().partition("\n")[0], 200)


def _escaped(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")
