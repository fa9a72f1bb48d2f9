"""``report.html``: one page with everything in it, which opens from disk."""

from __future__ import annotations

from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document, TableCell
from gpuplan.cli.documents.templating import fill
from gpuplan.cli.documents.verdict import key_figures, verdicts_of

MOST_ROWS = 500  # of one table; the rest is in report.json


def as_html(document: Document) -> str:
    """Return the document as a page that needs nothing beside it."""
    return fill(
        "report.html.j2",
        document=document,
        view=view,
        key_figures=key_figures,
        verdicts_of=verdicts_of,
        key=_key,
        most_rows=MOST_ROWS,
    )


def _key(cell: TableCell) -> str:
    """Return what a cell is sorted by where its text does not say it."""
    if cell.value is None or isinstance(cell.value, str):
        return ""
    return f"{cell.value:.12g}"
