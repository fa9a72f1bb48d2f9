"""Write the tables of docs/ that scripts measure.

Such a table lies between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``. The script that
measures it calls :func:`write` where ``--write-docs`` is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
OPTION = "--write-docs"


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as Markdown, without a newline at its end."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def section(page: str, name: str) -> str:
    """Return the text between the markers of a name; ValueError where a page has them not once."""
    return _match(page, name)[2].strip()


def replace(page: str, name: str, text: str) -> str:
    """Return a page with other text between the markers of a name; ValueError as above."""
    match = _match(page, name)
    return page[: match.start(2)] + f"\n\n{text.strip()}\n\n" + page[match.end(2) :]


def write(path: Path, sections: Mapping[str, str]) -> None:
    """Write each text between the markers of its name; a page without them stays as it is."""
    page = path.read_text(encoding="utf-8")
    for name, text in sections.items():
        page = replace(page, name, text)
    path.write_text(page, encoding="utf-8")


def _match(page: str, name: str) -> re.Match[str]:
    marked = rf"(<!-- {re.escape(name)}:begin -->)(.*?)(?=<!-- {re.escape(name)}:end -->)"
    matches = list(re.finditer(marked, page, re.DOTALL))
    if len(matches) != 1:
        raise ValueError(f"a page must have <!-- {name}:begin --> and <!-- {name}:end --> once")
    return matches[0]
