"""Names that a hostile log may contain, and effects that no output may have."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

from markdown_it import MarkdownIt

HOSTILE = (
    "=1+1",
    "+1",
    "-3.5",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =cmd|' /C calc'!A0",
    "'=1",
    "\uff1d1+1",
    "a;=1+1",
    "a\rb",
    "a\r\n=b",
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b31m c1 \x85 \x7f \x00",
    "\u202eevil\u2066\u2069\u200b\ufeff",
    "line\u2028end\u2029",
    "::add-mask::secret",
    "\n  ::error file=a::b",
    "##[group]x",
    "a ##vso[task.setvariable variable=x]y",
    "@octocat and @org/team",
    "see #1, GH-2, !3, ~bug, %v1, &4, $x",
    "http://evil.example https://evil.example www.evil.example",
    "mailto:a@evil.example b@evil.example",
    "~~gone~~ `code` ```fence",
    "a | b \\| c",
    "<script>alert(1)</script><!-- x -->&amp;",
    '"><img src=x onerror=alert(1)>',
    "[link](http://evil.example) ![i](x)",
    "# heading",
    "$\\frac{1}$ $x$ $",
    "]]> &#x1b; \ufffe",
    "\\u001b \\ \\\\ \\U0001f600",
    "[red]rich[/red]",
    "{{ 7 * 7 }}{% x %}",
    "/close",
    "\u65e5\u672c\u8a9e \U0001f600",
)
"""One name for each way to act in a terminal, a spreadsheet, a CI log, Markdown, HTML or XML."""

NOT_TEXT = {"Cc", "Cf", "Cs", "Zl", "Zp"}
FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
LINK = re.compile(r"@\w|#\d|!\d|~\w|&\d|\$[a-z]|\bGH-\d|[a-z]://|mailto:|\bwww\.", re.I)


def check_text(text: str) -> None:
    """Hold what a terminal or a log shows: no control, no command of a CI service."""
    check_characters(text)
    commands = [line for line in text.split("\n") if re.match(r"\s*::|.*##\[|.*##vso\[", line)]
    assert not commands, commands


def check_characters(text: str) -> None:
    """Hold that no character controls anything."""
    acting = {c for c in text if unicodedata.category(c) in NOT_TEXT} - {"\n"}
    assert not acting, sorted(map(hex, map(ord, acting)))


def check_csv(text: str) -> None:
    """Hold every cell: none is a formula, and all lines have as many cells."""
    check_text(text)
    for separator in (",", ";", "\t"):
        rows = list(csv.reader(io.StringIO(text), delimiter=separator))
        for cell in (cell for row in rows for cell in row):
            number = re.fullmatch(r"-?[\d.]+(e[+-]\d+)?(,.*)?", cell, re.I)
            assert number or not cell.lstrip().startswith(FORMULA), cell
    rows = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in rows}) == 1


def check_json(text: str) -> None:
    """Hold JSON: it can be read, and a terminal shows it as it is."""
    check_text(text)
    json.loads(text)


def check_markdown(text: str) -> None:
    """Hold Markdown as GitHub and GitLab read it: nothing of a name is markup, mention or link."""
    check_text(text)
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    shown = reader.render(text)
    for made in ("<script", "<img", "<a ", "<s>", "<em>", "onerror=alert(1)>", "<!-- x"):
        assert made not in shown, made
    tables = [one for one in reader.parse(text) if one.type == "inline"]
    codes = [part.content for one in tables for part in one.children or () if "code" in part.type]
    assert not codes, codes
    inline = [part.content for one in tables for part in one.children or () if part.type == "text"]
    # Services look for mentions and links in the text between tags.
    found = [content for content in inline if LINK.search(content)]
    assert not found, found
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.found.append((tag, attrs))


def check_html(text: str) -> None:
    """Hold a page: no element, attribute or control character of a name."""
    check_characters(text)
    tags = _Tags()
    tags.feed(text)
    assert not [tag for tag, _ in tags.found if tag in ("img", "iframe", "object")]
    assert sum(tag == "script" for tag, _ in tags.found) == 1  # our own
    assert not [name for _, attrs in tags.found for name, _ in attrs if name.startswith("on")]


def check_xml(text: str) -> None:
    """Hold XML, as of JUnit and SVG: it can be read."""
    check_characters(text)
    ET.fromstring(text.encode())


CHECKS = {
    ".txt": check_text,
    ".csv": check_csv,
    ".json": check_json,
    ".md": check_markdown,
    ".html": check_html,
    ".svg": check_xml,
    ".xml": check_xml,
}
"""Suffix of a file -> what holds its form."""
