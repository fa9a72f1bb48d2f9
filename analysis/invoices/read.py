"""Read invoices: files, folders and archives, each recognized by its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.invoices.charges import AMOUNT, USAGE, Invoice
from gpuplan.analysis.invoices.focus import FOCUS, NEEDED
from gpuplan.analysis.invoices.format import NOTHING, InvoiceCells, InvoiceFormat
from gpuplan.analysis.invoices.opencost import open_opencost
from gpuplan.analysis.invoices.registry import INVOICE_FORMATS
from gpuplan.analysis.kubernetes.refusals import OPENCOST_JSON, opencost
from gpuplan.analysis.log_formats.registry import formats
from gpuplan.analysis.reading.batch import ROW, Batch, Rows
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.inputs import opened_inputs
from gpuplan.analysis.reading.parquets import open_parquet
from gpuplan.analysis.reading.source import Head, Source, SourceStream, likely_separator
from gpuplan.analysis.reading.unreadable import odd_text
from gpuplan.analysis.trace.input_files import InputFile

COSTS = ("billed", "effective")
WHOLE = "\0whole"
"""Name of the column with a hash of all cells of a row."""
NUMBER = "\0number"


def is_invoice_column(name: str) -> bool:
    """Return whether ``--map`` names a column of an invoice, not of a log."""
    return FOCUS.as_named(name) == name and name in FOCUS.columns


def read_invoice(paths: Sequence[Path], columns: Mapping[str, str] | None = None) -> Invoice:
    """Read the charges of invoices.

    A row that two files share, as exports that overlap do, counts once; equal rows of one file all
    count, as the invoice has them.

    Args:
        paths: files, folders or archives.
        columns: FOCUS column -> column of the files, for tables of any other form.

    Raises:
        InputError: a file cannot be used, or its cells cannot be read; with row and column.
    """
    columns = columns or {}
    frames: list[pl.DataFrame] = []
    files: list[InputFile] = []
    formats: list[str] = []
    warnings: list[str] = []
    left_out: list[Path] = []
    with opened_inputs(paths, None, lambda source: True) as inputs:
        for source in inputs.sources:
            read = _read_file(source, columns)
            if read is None:
                left_out.append(source.path)
                continue
            invoice_format, cells, digest, notes = read
            warnings += [f"{source.path}: {note}" for note in notes]
            charges = invoice_format.charges(cells)
            warnings += _empty_costs(source.path, charges)
            charges = charges.with_columns(pl.col(name).fill_null(_zero()) for name in COSTS)
            number = pl.lit(len(frames)).alias(NUMBER)
            hashes = cells.cells.select(ROW, WHOLE)
            charges = charges.join(hashes, on=ROW, how="left").with_columns(number)
            warnings += _repeated_rows(source.path, charges)
            warnings += _opposite_signs(source.path, charges)
            frames.append(charges)
            files.append(InputFile(str(source.path), digest, cells.cells.height))
            formats.append(invoice_format.name)
    if not frames:
        raise InputError(paths[0], "has no invoice", expected="FOCUS, AWS CUR 2.0 or OpenCost")
    everything, repeated = _without_repeats(pl.concat(frames))
    if repeated:
        warnings.append(f"{counted(repeated, 'charge')} in more than one file: counted once")
    if left_out:
        names = listed([str(path) for path in left_out])
        warnings.append(f"files left out because they are no invoice: {names}")
    charges = everything.drop(WHOLE, NUMBER)
    return Invoice(
        charges=charges,
        inputs=tuple(files),
        formats=tuple(dict.fromkeys(formats)),
        currency=_currency(charges, paths[0], warnings),
        warnings=tuple(warnings),
    )


def _read_file(
    source: Source, columns: Mapping[str, str]
) -> tuple[InvoiceFormat, InvoiceCells, str, Sequence[str]] | None:
    """Return format, cells, hash and notes of a file; None for one that is no invoice."""
    with closing(SourceStream(source)) as stream:
        head = Head(source.path, stream.head)
        rows = _open(stream, head)
        invoice_format = FOCUS if columns else _recognized(rows.columns)
        if invoice_format is None:
            if not source.is_named:
                return None
            raise _unknown(head, rows.columns)
        names = _names(source.path, invoice_format, rows.columns, columns)
        wanted = list(dict.fromkeys(names.values()))
        tasks = rows.batches(list(rows.columns))
        parts = [_with_row_hash(task(), source.path, wanted) for task in tasks]
        cells = pl.concat(parts) if parts else pl.DataFrame()
        digest = stream.sha256()
    if not cells.height:
        raise InputError(
            source.path, "has no charges", expected="a header and a row for each charge"
        )
    header = pl.all_horizontal(pl.col(name) == name for name in wanted).fill_null(False)
    is_header = cells.select(header).to_series()
    cells = cells.filter(~is_header)
    written = {name: pl.col(column).replace(NOTHING, None) for name, column in names.items()}
    named = cells.select(ROW, WHOLE, **written)
    comma = likely_separator(head.line or "") == ";" and not head.is_parquet
    return invoice_format, InvoiceCells(source.path, named, names, comma), digest, rows.notes


def _open(stream: SourceStream, head: Head) -> Rows:
    if head.is_parquet:
        return open_parquet(stream, nested_as_json=True)
    if OPENCOST_JSON.match(head.data):
        return open_opencost(stream)
    if (odd := odd_text(head)) is not None:
        raise odd
    return open_table(stream, lambda line: Layout(separator=likely_separator(line)))


def _recognized(columns: Sequence[str]) -> InvoiceFormat | None:
    """Return the first format that recognizes the columns of a file."""
    formats = INVOICE_FORMATS.values()
    return next((f for f in formats if f.recognizes(columns) is not None), None)


def _unknown(head: Head, columns: Sequence[str]) -> InputError:
    if (refusal := opencost(head.path, head.data, columns)) is not None:
        return refusal
    named = {FOCUS.as_named(name) for name in columns}
    missing = [name for name in NEEDED if name not in named]
    if len(missing) < len(NEEDED):
        return InputError(
            head.path,
            f"no column {', '.join(missing)}",
            row=1,
            expected=f"FOCUS with the columns {', '.join(NEEDED)}",
            hint=f"say which column it is: --map {missing[0]}=COLUMN",
        )
    for log_format in formats():
        if not head.is_parquet and (sign := log_format.recognizes(head)) is not None:
            return InputError(
                head.path,
                f"is a job log ({log_format.name}: {sign}), not an invoice",
                expected="FOCUS 1.0 to 1.3, AWS CUR 2.0 or OpenCost",
                hint="give it as the log: gpuplan bill LOG --invoice FILE",
            )
    return InputError(
        head.path,
        f"unrecognized invoice; its columns are {listed(list(columns))}",
        expected="FOCUS 1.0 to 1.3, AWS CUR 2.0 or OpenCost",
        hint="name its columns: --map BilledCost=COLUMN --map ChargePeriodStart=COLUMN ...",
    )


def _names(
    path: Path, invoice_format: InvoiceFormat, columns: Sequence[str], mapped: Mapping[str, str]
) -> dict[str, str]:
    """Return name of the format -> column of the file, of those that it reads."""
    names: dict[str, str] = {}
    for column in columns:
        name = invoice_format.as_named(column)
        if name in invoice_format.columns:
            names.setdefault(name, column)
    for name, column in mapped.items():
        if column not in columns:
            raise InputError(
                path,
                f"--map {name}={column}: no column {column!r}",
                expected=f"one of {listed(list(columns))}",
            )
        names[name] = column
    if "BilledCost" in mapped:
        names.setdefault("EffectiveCost", names["BilledCost"])
    return names


def _with_row_hash(batch: Batch, path: Path, wanted: Sequence[str]) -> pl.DataFrame:
    """Return the wanted cells of a batch with a hash of each whole row.

    Raises:
        InputError: a row that cannot be split into cells.
    """
    for row in batch.refused:
        problem = f"found {row.found or 'a row that cannot be read'}"
        raise InputError(path, problem, row=row.row, expected=row.expected)
    names = sorted(name for name in batch.cells.columns if name != ROW)
    cells = batch.cells.with_columns(pl.col(name).str.strip_chars() for name in names)
    row_hash = pl.struct(names).hash(seed=0).alias(WHOLE)
    return cells.with_columns(row_hash).select(ROW, WHOLE, *wanted)


def _zero() -> pl.Expr:
    return pl.lit(0).cast(AMOUNT)


def _empty_costs(path: Path, charges: pl.DataFrame) -> list[str]:
    """Return a warning for each cost that some rows lack."""
    notes = []
    for name in COSTS:
        count = charges[name].null_count()
        if count:
            row = charges[ROW][int(charges[name].is_null().arg_max() or 0)]
            notes.append(
                f"{path}: {counted(count, 'charge')} without {name} cost (first in row {row}): "
                "counted as $0"
            )
    return notes


def _repeated_rows(path: Path, charges: pl.DataFrame) -> list[str]:
    """Return a warning on rows that repeat another one of the same file."""
    repeats = charges.filter(pl.struct(WHOLE, "kind").is_first_distinct().not_())
    if not repeats.height:
        return []
    usd = f"${repeats['billed'].sum():,.2f}"
    return [
        f"{path}: {counted(repeats.height, 'row')} equal to an earlier one (first in row "
        f"{repeats[ROW][0]}), {usd} billed: they count, as the invoice has them"
    ]


def _opposite_signs(path: Path, charges: pl.DataFrame) -> list[str]:
    """Return a warning on use whose hours and dollars have different signs."""
    used = charges.filter(pl.col("kind") == USAGE)
    rows = used.filter(pl.any_horizontal(pl.col("quantity").sign() * pl.col(*COSTS).sign() < 0))
    if not rows.height:
        return []
    return [
        f"{path}: {counted(rows.height, 'charge')} of use with a quantity and a cost of different "
        f"signs (first in row {rows[ROW][0]}): both count as they stand"
    ]


def _without_repeats(charges: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return charges without those that an earlier file has too, and how many these are."""
    if charges[NUMBER].n_unique() < 2:
        return charges, 0
    row = (WHOLE, "kind")
    in_file = pl.int_range(pl.len()).over(*row, NUMBER)
    ordered = charges.with_columns(in_file.alias("nth"))
    kept = ordered.filter(pl.struct(*row, "nth").is_first_distinct())
    return kept.drop("nth"), charges.height - kept.height


def _currency(charges: pl.DataFrame, path: Path, warnings: list[str]) -> str:
    """Return the one currency of all amounts. Raises `InputError` where there are several."""
    names = sorted(charges["currency"].drop_nulls().unique().to_list())
    if len(names) > 1:
        raise InputError(
            path,
            f"has amounts in {' and '.join(names)}",
            column="BillingCurrency",
            expected="one currency",
            hint="give the invoices of each currency on their own",
        )
    if names and names[0].upper() != "USD":
        warnings.append(f"the invoice is in {names[0]}: $ and usd stand for {names[0]} here")
    return names[0] if names else "USD"
