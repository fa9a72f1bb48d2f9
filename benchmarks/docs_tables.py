"""Write the tables of docs/ that scripts measure.

Such a table lies between ``<!-- NAME:begin DIGEST -->`` and ``<!-- NAME:end -->``. The script that
measures it calls :func:`write` where ``--write-docs`` is given. The digest is that of the text, so
that a test finds a figure that was changed by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
OPTION = "--write-docs"
BEGIN = r"<!-- (?P<name>{name}):begin(?: (?P<digest>\w+))? -->"
TEXT = r"(?P<text>.*?)(?=<!-- (?P=name):end -->)"


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as Markdown, without a newline at its end."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def section(page: str, name: str) -> str:
    """Return the text between the markers of a name; ValueError where a page has them not once."""
    return _match(page, name)["text"].strip()


def replace(page: str, name: str, text: str) -> str:
    """Return a page with other text between the markers of a name; ValueError as above."""
    match, text = _match(page, name), text.strip()
    begin = f"<!-- {name}:begin {digest(text)} -->"
    return page[: match.start()] + f"{begin}\n\n{text}\n\n" + page[match.end() :]


def write(path: Path, sections: Mapping[str, str]) -> None:
    """Write each text between the markers of its name; a page without them stays as it is."""
    page = path.read_text(encoding="utf-8")
    for name, text in sections.items():
        page = replace(page, name, text)
    path.write_text(page, encoding="utf-8")


def digest(text: str) -> str:
    """Return what the marker of a text holds."""
    return sha256(text.encode()).hexdigest()[:8]


def marked(page: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield the name, the digest of the marker and the text of each table of a page."""
    for match in re.finditer(BEGIN.format(name=r"[\w-]+") + TEXT, page, re.DOTALL):
        yield match["name"], match["digest"], match["text"].strip()


def _match(page: str, name: str) -> re.Match[str]:
    matches = list(re.finditer(BEGIN.format(name=re.escape(name)) + TEXT, page, re.DOTALL))
    if len(matches) != 1:
        raise ValueError(f"a page must have <!-- {name}:begin --> and <!-- {name}:end --> once")
    return matches[0]
