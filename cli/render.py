"""Turn a report into text: a table for people, JSON for programs, Markdown and CSV for both."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from typing import Any, TextIO

from gpuplan.analysis.version import gpuplan_version
from gpuplan.cli.report import Report, Table

JSON_SCHEMA_VERSION = 1
PIPED_WIDTH = 100


def as_json(report: Report) -> str:
    """Return the stable JSON contract; NaN and infinities become null."""
    document = {
        "schema_version": JSON_SCHEMA_VERSION,
        "command": report.command,
        "inputs": [asdict(source) for source in report.inputs],
        "parameters": report.parameters,
        "results": report.results,
        "warnings": list(report.warnings),
        "gpuplan_version": gpuplan_version(),
    }
    return json.dumps(_plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def as_csv(report: Report) -> str:
    """Return the main table with machine names and raw values."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    main = report.tables[0]
    writer.writerow([column.key for column in main.columns])
    writer.writerows([_plain(cell) for cell in row] for row in main.rows)
    return stream.getvalue()


def as_markdown(report: Report) -> str:
    """Return every table in Markdown, under the headline."""
    parts = [f"**{report.headline}**\n"] if report.headline else []
    parts += [_markdown_table(table) for table in report.tables]
    parts += [f"> warning: {warning}\n" for warning in report.warnings]
    return "\n".join(parts)


def as_text(report: Report, stream: TextIO) -> str:
    """Return every table for a terminal, as wide as ``stream`` or 100 columns where it is none."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    terminal = stream.isatty()
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=None if terminal else PIPED_WIDTH,
        force_terminal=terminal,
        highlight=False,
    )
    if report.headline:
        console.print(Text(report.headline, style="bold"))
    for table in report.tables:
        # On a terminal of another encoding than UTF-8 rich falls back to ASCII lines.
        shown = RichTable(
            title=table.title,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            safe_box=True,
        )
        for position, column in enumerate(table.columns):
            numeric = any(isinstance(row[position], int | float) for row in table.rows)
            shown.add_column(column.header, justify="right" if numeric else "left")
        for row in table.rows:
            cells = zip(table.columns, row, strict=True)
            shown.add_row(*(Text(column.text(cell)) for column, cell in cells))
        console.print(shown)
    lines = (line.rstrip() for line in buffer.getvalue().splitlines())
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown_table(table: Table) -> str:
    lines = [
        f"### {table.title}\n",
        "| " + " | ".join(column.header for column in table.columns) + " |",
        "|" + "|".join("---" for _ in table.columns) + "|",
    ]
    for row in table.rows:
        cells = (column.text(cell) for column, cell in zip(table.columns, row, strict=True))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    """Return ``value`` made of what JSON has; NumPy scalars become Python's."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
