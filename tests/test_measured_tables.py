"""Tables of docs/ that scripts write between markers: none is changed by hand."""

import pytest

from benchmarks import reproduce_allpass, reproduce_boa, reproduce_pollux
from benchmarks.docs_tables import DOCS, digest, marked, section

PAGES = {
    "boa-paper.md": ("boa-pollux", "boa-paper", "boa-starts", "boa-chosen"),
    "allpass-paper.md": ("allpass-figures", "allpass-orderings", "allpass-chosen"),
}


WRITTEN = [
    (path.name, *table)
    for path in sorted(DOCS.glob("*.md"))
    for table in marked(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(
    ("page", "name", "kept", "text"), WRITTEN, ids=[f"{row[0]}: {row[1]}" for row in WRITTEN]
)
def test_no_figure_was_changed_by_hand(page, name, kept, text):
    """A digest that differs? Run the script that measures the table, with --write-docs."""
    assert kept == digest(text), f"{page}: {name}"


def test_every_paper_has_tables_from_scripts():
    assert {page for page, *_ in WRITTEN} == {
        *("allpass-paper.md", "boa-paper.md", "dilu.md", "fft.md", "gfs.md")
    }


@pytest.mark.parametrize("page", PAGES)
def test_each_table_is_there(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in PAGES[page]:
        head, line, *rows = section(text, name).splitlines()
        assert rows and {one.count(" | ") for one in (head, line, *rows)} == {head.count(" | ")}


def test_the_values_chosen_are_those_of_the_scripts():
    boa = (DOCS / "boa-paper.md").read_text(encoding="utf-8")
    assert section(boa, "boa-chosen") == reproduce_pollux.show_chosen(reproduce_boa.chosen())
    allpass = (DOCS / "allpass-paper.md").read_text(encoding="utf-8")
    assert section(allpass, "allpass-chosen") == reproduce_allpass.show_chosen()
