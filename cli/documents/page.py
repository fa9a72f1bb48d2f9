"""``report.html``: one page with everything in it, which opens from disk."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.cli.documents import view
from gpuplan.cli.documents.study import Document, TableCell
from gpuplan.cli.documents.templating import fill
from gpuplan.cli.documents.verdict import key_figures, verdicts_of

MOST_ROWS = 500  # of one table; the rest is in report.json


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
        most_rows=MOST_ROWS,
        light_colours=variables({colour: colour for colour in TEXT}, TEXT),
        dark_colours=variables(DARK, TEXT_ON_DARK),
    )


def _key(cell: TableCell) -> str:
    """Return what a cell is sorted by where its text does not say it."""
    if cell.value is None or isinstance(cell.value, str):
        return ""
    return f"{cell.value:.12g}"
