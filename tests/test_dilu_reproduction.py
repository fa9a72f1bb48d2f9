"""benchmarks/reproduce_dilu.py: the tables that it writes, and the paper's figures in it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def reproduce(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return pytest.importorskip("benchmarks.reproduce_dilu", reason="needs the repository")


@pytest.fixture
def sections(reproduce):
    from benchmarks.docs_tables import section

    page = (ROOT / "docs" / "dilu.md").read_text(encoding="utf-8")
    return {name: section(page, name) for name in ("dilu-results", "dilu-assumed")}


def test_every_assumption_is_in_the_docs_and_printed(reproduce, sections, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "rows", lambda large: iter(()))
    monkeypatch.setattr(reproduce, "speed", lambda request: iter(()))
    assert reproduce.main([]) == 0
    shown = capsys.readouterr().out
    for what, value, why in reproduce.ASSUMED:
        assert f"{what}: {value} ({why})" in shown
    assert reproduce.tables([])["dilu-assumed"] == sections["dilu-assumed"]


def test_the_table_of_the_docs_is_what_the_script_measures(reproduce, sections, shared):
    found = list(reproduce.rows(None))
    assert [row.what for row in found if row.passed is False] == []
    assert reproduce.tables(found)["dilu-results"] == sections["dilu-results"]


def test_the_column_of_the_paper_has_figures_of_its_text(reproduce, sections, shared):
    (seed,) = (shared / "seeds").glob("002_*.txt")
    text = seed.read_text(encoding="utf-8")
    for line in sections["dilu-results"].splitlines()[2:]:
        for number in re.findall(r"\d+(?:\.\d+)?", line.split("|")[2]):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", text), line
    from benchmarks.dilu_figures import SVR

    cells = [
        line.split("|")[1:-1] for line in text.splitlines() if re.match(r"\|.*\+? \|.*\d", line)
    ]
    starts, late, trace = {}, {}, ""
    for row in cells:
        if len(row) == 5 and row[1].strip() in ("FaST-GS+", "INFless+", "Dilu"):
            trace = row[0].strip().lower() or trace
            starts.setdefault(trace, []).append(int(row[2]))
            late.setdefault(trace, []).append(float(row[3]))
    assert {name: tuple(values) for name, values in late.items()} == SVR
    for name, ((dilu, fast_gs, infless), _) in reproduce.COLD_STARTS.items():
        assert starts[name] == [fast_gs, infless, dilu]
