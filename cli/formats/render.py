"""Turn a report into text: a table for people, JSON for programs, Markdown and CSV for both."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TextIO

from gpuplan.analysis.base.errors import shortened
from gpuplan.analysis.base.plain import plain as plain_result
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.cli.formats import escape
from gpuplan.cli.formats.report import BARS, SHAPE, Column, Report, Shown, Table

JSON_SCHEMA_VERSION = 1
PIPED_WIDTH = 100
GAP = 2  # columns between two cells
LONGEST_WORD = 20  # of a text; a longer one is folded
MOST_IN_A_CELL = 400  # letters


def as_json(report: Report) -> str:
    """Return the stable JSON contract; NaN and infinities become null."""
    document = {
        "schema_version": JSON_SCHEMA_VERSION,
        "command": report.command,
        "inputs": [plain_result(source) for source in report.inputs],
        "parameters": report.parameters,
        "results": report.results,
        "warnings": [*report.warnings, *report.caveats],
        "gpuplan_version": gpuplan_version(),
    }
    return written_json(plain(document))


def written_json(document: Any) -> str:
    """Return plain values as JSON; names in it reach no terminal as more than text."""
    written = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    return f"{escape.json_text(written)}\n"


def as_csv(report: Report) -> str:
    """Return the main table, or the rows meant for CSV, with machine names and raw values."""
    main = report.tables[0] if report.csv is None else report.csv()
    kept = [position for position, column in enumerate(main.columns) if column.key]
    lines = [escape.csv_line(main.columns[position].key for position in kept)]
    lines += (escape.csv_line(plain(row[position]) for position in kept) for row in main.rows)
    return "".join(lines)


def as_markdown(report: Report) -> str:
    """Return every table in Markdown, under the headline."""
    parts = [f"**{escape.markdown(report.headline)}**\n"] if report.headline else []
    parts += [_markdown_table(table) for table in report.tables]
    parts += [f"> warning: {_one_line(warning)}\n" for warning in report.warnings]
    return "\n".join(parts)


def _one_line(text: str) -> str:
    """Return a text of several lines in Markdown, on one."""
    return escape.markdown(" ".join(text.split()))


def as_text(report: Report, stream: TextIO) -> str:
    """Return every table for a terminal, as wide as ``stream``, or 100 columns for a file."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    terminal = stream.isatty()
    lines_drawn = box.SIMPLE_HEAD if _can_encode(stream, "\u2500") else box.ASCII2
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=None if terminal else PIPED_WIDTH,
        force_terminal=terminal,
        highlight=False,
    )
    if report.headline:
        console.print(Text(f"{escape.terminal(report.headline)}\n", style="bold"))
    has_bars = _can_encode(stream, BARS)
    for each in report.tables:
        table, more = (each if has_bars else _without_shapes(each)).cut()
        # rich would fold a title into the width of a narrow table.
        console.print(Text(escape.terminal(table.title), style="bold"))
        for columns in _that_fit(table, console.width):
            shown = RichTable(box=lines_drawn, pad_edge=False, collapse_padding=True)
            widest = _widest_number(table, columns, console.width)
            for position, column in columns:
                # Names are folded where they must be, and a number is never broken.
                if is_numeric(table, position):
                    least, natural = _width(table, position), _natural(table, position)
                    shown.add_column(
                        Text(escape.terminal(column.header)),
                        justify="right",
                        width=max(least, min(natural, widest)),
                    )
                else:
                    shown.add_column(Text(escape.terminal(column.header)), overflow="fold")
            for row in table.rows:
                shown.add_row(*(Text(escape.terminal(text)) for text in _cells(row, columns)))
            console.print(shown)
        if more:
            console.print(Text(f"{more}\n"))
    lines = (escape.inert_line(line.rstrip()) for line in buffer.getvalue().splitlines())
    return "\n".join(lines).strip("\n") + "\n"


def _cells(row: Sequence[Any], columns: Iterable[tuple[int, Column]]) -> list[str]:
    """Return what people see of a row; CSV and JSON have long names whole."""
    return [shortened(column.text(row[at]), MOST_IN_A_CELL) for at, column in columns]


def _without_shapes(table: Table) -> Table:
    columns = tuple(
        replace(column, header="") if column == SHAPE else column for column in table.columns
    )
    return replace(table, columns=columns)


def _markdown_table(full_table: Table) -> str:
    table, more = full_table.cut()
    kept = people_columns(table)
    grid = pipe_table(
        [column.header for _, column in kept],
        [is_numeric(table, position) for position, _ in kept],
        (_cells(row, kept) for row in table.rows),
    )
    return f"### {escape.markdown(table.title)}\n\n{grid}" + (f"\n{more}\n" if more else "")


def pipe_table(
    headers: Sequence[str], numeric: Sequence[bool], rows: Iterable[Sequence[str]]
) -> str:
    """Return a table in Markdown; what its cells hold is shown as it is."""
    lines = [
        "| " + " | ".join(map(escape.markdown, headers)) + " |",
        "|" + "|".join("---:" if is_number else "---" for is_number in numeric) + "|",
        *("| " + " | ".join(map(escape.markdown, row)) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def people_columns(table: Table) -> list[tuple[int, Column]]:
    """Return the columns that people see, each with its position in a row."""
    return [(i, column) for i, column in enumerate(table.columns) if column.header]


def _that_fit(table: Table, width: int) -> list[list[tuple[int, Column]]]:
    """Return the columns in groups that fit the width, each led by what tells the rows apart."""
    columns = people_columns(table)
    lead = _lead(table, columns, width)
    # The ends of a line take one each.
    left = width - sum(_width(table, position) + GAP for position, _ in lead)
    groups, room = [[*lead]], left
    for position, column in columns[len(lead) :]:
        needed = GAP + _width(table, position)
        if needed > room and len(groups[-1]) > len(lead):
            groups.append([*lead])
            room = left
        groups[-1].append((position, column))
        room -= needed
    return groups


def _lead(table: Table, columns: list[tuple[int, Column]], width: int) -> list[tuple[int, Column]]:
    """Return the fewest first columns of names whose rows all differ; else the first column."""
    lead: list[tuple[int, Column]] = []
    for position, column in columns:
        lead.append((position, column))
        if is_numeric(table, position) or sum(_width(table, i) + GAP for i, _ in lead) > width / 2:
            break
        names = {tuple(each.text(row[i]) for i, each in lead) for row in table.rows}
        if len(names) == len(table.rows):
            return lead
    return columns[:1]


def _width(table: Table, position: int) -> int:
    """Return the least width that breaks no unbreakable word."""
    column = table.columns[position]
    cells = [column.text(row[position]) for row in table.rows]
    if not is_numeric(table, position):
        cells = [word[:LONGEST_WORD] for cell in cells for word in cell.split()]
    return max(map(len, [*column.header.split(), *cells]), default=0)


def _natural(table: Table, position: int) -> int:
    """Return the width without any line break."""
    column = table.columns[position]
    return max(map(len, [column.header, *(column.text(row[position]) for row in table.rows)]))


def _widest_number(table: Table, columns: list[tuple[int, Column]], width: int) -> int:
    """Return the width over which headers of numbers are folded, so that the columns fit.

    By default rich ignores the least widths and cuts off the last column.
    """
    sizes = [(_width(table, i), _natural(table, i)) for i, _ in columns]
    room = width - GAP * len(sizes)  # the ends of a line take one each
    widest = max(natural for _, natural in sizes)
    while widest and sum(max(least, min(natural, widest)) for least, natural in sizes) > room:
        widest -= 1
    return widest


def is_numeric(table: Table, position: int) -> bool:
    """Return whether a column has numbers, which are right-aligned."""
    return any(_is_number(row[position]) for row in table.rows)


def _is_number(cell: Any) -> bool:
    raw = plain(cell)
    return isinstance(raw, int | float) and not isinstance(raw, bool)


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def plain(value: Any) -> Any:
    """Return ``value`` made of what JSON has; NumPy scalars become Python's."""
    if isinstance(value, Shown):
        value = value.value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
