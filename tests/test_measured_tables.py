"""Tables of docs/ that the scripts of BOA, Pollux and Allpass write between markers."""

import pytest

from benchmarks import reproduce_allpass, reproduce_boa, reproduce_pollux
from benchmarks.docs_tables import DOCS, section

PAGES = {
    "boa-paper.md": ("boa-pollux", "boa-paper", "boa-starts", "boa-chosen"),
    "allpass-paper.md": ("allpass-figures", "allpass-orderings", "allpass-chosen"),
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
