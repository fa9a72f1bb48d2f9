"""``report.md``: a comment on a pull request, or the summary of a job."""

from __future__ import annotations

from gpuplan.cli.document import view
from gpuplan.cli.document.study import Document, Grid
from gpuplan.cli.document.templating import fill
from gpuplan.cli.document.verdict import verdict_of
from gpuplan.cli.render import escaped, pipe_table

MOST_CHARACTERS = 60_000
"""A comment on GitHub may have 65,536; this leaves room for what a pipeline writes around it."""

ROWS = (1000, 200, 100, 50, 20, 10, 5, 2)
"""Rows of a table, in turn, until everything fits."""


def as_markdown(document: Document) -> str:
    """Return the document in Markdown, its tables cut until it is short enough for a comment."""
    for rows in ROWS:
        text = _filled(document, rows, most_tables=100)
        if len(text) <= MOST_CHARACTERS:
            return text
    text = _filled(document, ROWS[-1], most_tables=1)
    if len(text) <= MOST_CHARACTERS:
        return text
    cut = text[: MOST_CHARACTERS - 200].rpartition("\n\n")[0]
    opened = cut.count("<details>") - cut.count("</details>")
    closing = "</details>\n\n" * opened
    return f"{cut}\n\n{closing}_Cut here: the rest is in report.html._\n"


def _filled(document: Document, most_rows: int, most_tables: int) -> str:
    def table(grid: Grid) -> str:
        text = pipe_table(
            [heading.text for heading in grid.headings],
            [heading.is_numeric for heading in grid.headings],
            ([cell.text for cell in row] for row in grid.rows[:most_rows]),
        )
        more = len(grid.rows) - most_rows
        return text + (f"\n_And {more:,} more rows in report.html._\n" if more > 0 else "")

    gates = pipe_table(
        ["gate", "result", "found"],
        [False] * 3,
        ([gate.condition, words, _line(gate.detail)] for gate, words in view.gates_of(document)),
    )
    return fill(
        "report.md.j2",
        document=document,
        view=view,
        verdict_of=verdict_of,
        escaped=lambda text: escaped(_line(text)),
        gates=gates,
        table=table,
        most_tables=most_tables,
        inputs=pipe_table(
            ["input", "rows", "SHA-256"],
            [False, True, False],
            ([one["path"], f"{one['rows']:,}", one["sha256"]] for one in document.inputs),
        ),
    )


def _line(text: str) -> str:
    """Return text on one line, where Markdown needs it there."""
    return " ".join(text.split())
