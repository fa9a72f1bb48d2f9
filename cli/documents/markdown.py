"""``report.md``: a comment on a pull request, or the summary of a job."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cache

from gpuplan.analysis.base.words import counted
from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document, TableGrid
from gpuplan.cli.documents.templating import fill
from gpuplan.cli.documents.verdict import key_figures, verdicts_of
from gpuplan.cli.formats.escape import markdown, terminal
from gpuplan.cli.formats.render import pipe_table

MOST_CHARACTERS = 60_000
"""A comment on GitHub may have 65,536; this leaves room for what a pipeline writes around it."""

MOST_ROWS = 1000
"""Rows of a table, where there is room."""

FOLDED_ROWS = (MOST_ROWS, 200, 50, 20, 5, 0)
"""Rows of a folded table, in turn, until all of the main tables fit; without any it is named."""


def as_markdown(document: Document) -> str:
    """Return the document in Markdown, short enough for a comment.

    Folded tables are cut first, then left out with a line that says how many there are. Only then
    main tables lose rows, all down to the same number, the largest that fits.
    """
    filled = _filler(document)
    for rows in FOLDED_ROWS:
        text = filled(MOST_ROWS, rows)
        if len(text) <= MOST_CHARACTERS:
            return text
    most = bisect_left(range(MOST_ROWS), MOST_CHARACTERS + 1, key=lambda rows: len(filled(rows, 0)))
    text = filled(max(most - 1, 0), 0)
    if len(text) <= MOST_CHARACTERS:
        return text
    cut = text[: MOST_CHARACTERS - 200].rpartition("\n\n")[0]
    opened = cut.count("<details>") - cut.count("</details>")
    closing = "</details>\n\n" * opened
    return f"{cut}\n\n{closing}_Cut here: the rest is in report.html._\n"


def _filler(document: Document) -> Callable[[int, int], str]:
    """Return what fills the template with so many rows of main tables and of folded ones.

    What does not depend on these is made once: a document may have hundreds of studies.
    """
    lines = {
        id(grid): pipe_table(
            [heading.text for heading in grid.headings],
            [heading.is_numeric for heading in grid.headings],
            ([cell.text for cell in row] for row in grid.rows[:MOST_ROWS]),
        ).splitlines(keepends=True)
        for study in document.studies
        for grid in study.tables
    }

    def table(grid: TableGrid, most_rows: int) -> str:
        if not most_rows:
            return f"_{counted(len(grid.rows), 'row')} in report.html._\n"
        text = "".join(lines[id(grid)][: 2 + most_rows])  # headings, a line below them, rows
        more = len(grid.rows) - most_rows
        left = f"\n_And {counted(more, 'more row')} in report.html._\n"
        return text + left if more > 0 else text

    gates = pipe_table(
        ["gate", "result", "found"],
        [False] * 3,
        ([gate.condition, words, _line(gate.detail)] for gate, words in view.gates_of(document)),
    )
    inputs = pipe_table(
        ["input", "rows", "SHA-256"],
        [False, True, False],
        ([one["path"], f"{one['rows']:,}", one["sha256"]] for one in document.inputs),
    )

    notes = {id(study): view.own_notes_of(document, study) for study in document.studies}
    escaped = cache(lambda text: markdown(_line(text)))

    def filled(main_rows: int, folded_rows: int) -> str:
        return fill(
            "report.md.j2",
            document=document,
            view=view,
            key_figures=key_figures,
            verdicts_of=verdicts_of,
            escaped=escaped,
            notes_of_study=lambda study: notes[id(study)],
            gates=gates,
            table=table,
            command_line=lambda study: terminal(view.command_line(study)),
            main_rows=main_rows,
            folded_rows=folded_rows,
            inputs=inputs,
        )

    return filled


def _line(text: str) -> str:
    """Return text on one line, where Markdown needs it there."""
    return " ".join(text.split())
