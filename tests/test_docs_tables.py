"""Tables of docs/ that benchmarks write between markers."""

from pathlib import Path

import pytest


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1])
    return pytest.importorskip("benchmarks.docs_tables", reason="needs the repository")


PAGE = "# A\n\n<!-- gpus:begin -->\nold\n<!-- gpus:end -->\n\nrest\n"


def test_text_between_markers_is_replaced_and_the_rest_stays(tables, tmp_path):
    path = tmp_path / "a.md"
    path.write_text(PAGE)
    table = tables.markdown(["GPUs", "paper"], [[3, "4"]])
    tables.write(path, {"gpus": table})
    once = path.read_text()
    assert once == (
        "# A\n\n<!-- gpus:begin -->\n\n| GPUs | paper |\n| --- | --- |\n| 3 | 4 |\n\n"
        "<!-- gpus:end -->\n\nrest\n"
    )
    assert tables.section(once, "gpus") == table
    tables.write(path, {"gpus": table})
    assert path.read_text() == once


@pytest.mark.parametrize("page", ["no markers", "<!-- gpus:begin -->", PAGE + PAGE])
def test_a_page_with_other_markers_is_refused_and_kept(tables, tmp_path, page):
    path = tmp_path / "a.md"
    path.write_text(page)
    with pytest.raises(ValueError, match="gpus:begin"):
        tables.write(path, {"gpus": "new"})
    assert path.read_text() == page
