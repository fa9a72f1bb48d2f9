"""What each form of output makes of a hostile name; docs/reliability.md tells it to users."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support_hostile import (
    HOSTILE,
    check_characters,
    check_csv,
    check_html,
    check_json,
    check_markdown,
    check_text,
    check_xml,
)

from gpuplan.cli.formats import escape

DOCS = Path(__file__).parents[1] / "docs" / "reliability.md"
NAMES = st.sampled_from(HOSTILE)
PARTS = st.sampled_from(["\\", ";", "=", "#", "[", "\x1b", "u", "001b", "'", " ", "U", "@", "a"])
ANY = st.one_of(NAMES, st.text(), st.lists(st.one_of(NAMES, PARTS)).map("".join))


@given(ANY)
def test_a_line_of_a_terminal_shows_a_name_and_obeys_nothing(name):
    shown = escape.terminal(name)
    check_text(shown)
    assert "\n" not in shown


def test_a_message_keeps_its_own_line_breaks():
    assert escape.message("a\n  next: b") == "a\n  next: b"
    assert escape.message("a\n::error::b") == "a\n: :error::b"


@given(ANY)
def test_a_cell_of_csv_is_a_text_that_can_be_read_back(name):
    line = escape.csv_line([name, 1])
    check_csv(line)
    ((cell, one),) = csv.reader(io.StringIO(line))
    assert (read_back()(cell), one) == (name, "1")


def read_back():
    """Return the function that the documentation gives for reading a cell."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    names: dict = {}
    exec(code, names)
    return names["name_of"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (-3.5, "-3.5"),
        (-7, "-7"),
        (1e-9, "1e-09"),
        (None, ""),
        (True, "True"),
        ("-3.5", "'-3.5"),
        ("+08:00", "'+08:00"),
        ("=1+1", "'=1+1"),
        ("it's", "it's"),
        ("a,b", '"a,b"'),
        ("a;b", '"a;b"'),
        ('say "x"', '"say ""x"""'),
        ("a\rb", "a\\u000db"),
        ("C:\\temp", "C:\\temp"),
        ("##[x]", "\\u0023#[x]"),
        ("a;=1", "a\\u003b=1"),
        ("\\\x1b", "\\\\\\u001b"),
    ],
)
def test_cells_of_csv(value, cell):
    pair = [next(csv.reader([text]), []) for text in (escape.csv_cell(value), cell)]
    assert pair[0] == pair[1]


@given(ANY)
def test_markdown_shows_a_name_and_makes_nothing_of_it(name):
    text = escape.markdown(name)
    table = f"| {text} | b |\n|---|---|\n| {text} | b |\n"
    check_markdown(f"**{text}**\n\n> note: {text}\n\n{text}\n\n{table}")
    shown = "".join(
        part.content
        for block in MarkdownIt("commonmark").parse(f"x {text} x")
        for part in block.children or ()
    )
    shown = shown.replace("\u200b", "").removeprefix("x ").removesuffix(" x")
    assert shown.split() == escape.visible(name).split()


@given(ANY)
def test_html_and_xml_hold_a_name(name):
    page = escape.html(name)
    check_html(f'<script></script><p title="{page}">{page}</p>')
    check_xml(f"<a>{page}</a>")
    check_characters(escape.xml(name))


@given(ANY)
def test_json_holds_every_value(name):
    written = escape.json_text(json.dumps({"name": name}, ensure_ascii=False))
    check_json(written)
    assert json.loads(written)["name"] == re.sub("[\ud800-\udfff]", "\ufffd", name)


@given(ANY)
def test_an_annotation_is_one_line(name):
    assert "\n" not in escape.annotation(name)
    assert not set(escape.annotation_property(name)) & set("\n:,")
    check_text(f"x{escape.annotation(name)}".replace("##", ""))
