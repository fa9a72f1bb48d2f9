"""``report.html``, one page that opens from disk, and ``report.md``, a comment or a summary.

Their templates are in files of their own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpuplan.analysis.base.words import counted
from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document, TableCell, TableGrid
from gpuplan.cli.documents.verdict import key_figures, verdicts_of
from gpuplan.cli.formats.escape import markdown, terminal, visible_lines
from gpuplan.cli.formats.render import pipe_table

PAGE_ROWS = 500  # of one table in HTML; the rest is in report.json
PAPER_ROWS = 40  # of one table in print


def as_html(document: Document) -> str:
    """Return the document as a page that needs nothing beside it."""
    from gpuplan.cli.figures.style import COLOURS, DARK, TEXT, TEXT_ON_DARK

    def variables(drawn: Mapping[str, str], text: Mapping[str, str]) -> str:
        """Return the colours of pictures, and those of their text, as variables of CSS."""
        return " ".join(
            f"--{name}: {drawn[colour]}; --text-{name}: {text[colour]};"
            for name, colour in COLOURS.items()
        )

    return fill(
        "report.html.j2",
        document=document,
        view=view,
        key_figures=key_figures,
        verdicts_of=verdicts_of,
        key=_key,
        most_rows=PAGE_ROWS,
        paper_rows=PAPER_ROWS,
        light_colours=variables({colour: colour for colour in TEXT}, TEXT),
        dark_colours=variables(DARK, TEXT_ON_DARK),
    )


def _key(cell: TableCell) -> str:
    """Return what a cell is sorted by where its text does not say it."""
    if cell.value is None or isinstance(cell.value, str):
        return ""
    return f"{cell.value:.12g}"


MOST_CHARACTERS = 60_000
"""A comment on GitHub may have 65,536; this leaves room for what a pipeline writes around it."""

MOST_ROWS = 1000
"""Rows of a table in Markdown, where there is room."""

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
        ([source["path"], f"{source['rows']:,}", source["sha256"]] for source in document.inputs),
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


@cache
def _environment(is_page: bool) -> Environment:
    return Environment(
        loader=PackageLoader("gpuplan.cli.documents"),
        autoescape=is_page,
        finalize=_shown if is_page else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def fill(template: str, **values: Any) -> str:
    """Return a template with its values; what a page shows is escaped."""
    return _environment(".html" in template).get_template(template).render(**values)


def _shown(value: Any) -> Any:
    """Return what a page shows of a value; what has been escaped is markup already."""
    is_plain = isinstance(value, str) and not hasattr(value, "__html__")
    return visible_lines(value) if is_plain else value
