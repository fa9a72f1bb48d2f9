"""A report in every form, and where it is sent."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.documents.emit import emit
from gpuplan.cli.formats.render import as_csv, as_json, as_markdown, as_text
from gpuplan.cli.formats.report import Column, Report, Shown, Table
from gpuplan.cli.formats.units import show_count, show_duration
from gpuplan.cli.gates.gates import GateFailed
from gpuplan.cli.options.shared_options import Output, ResultFormat

COLUMNS = (Column("name", "name"), Column("jobs", "jobs", show_count), Column("p50_s", "median"))
TABLE = Table("Jobs by name", COLUMNS, [("ann", 1234, 5.5), ("b|ob, jr", 7, None)])
REPORT = Report(
    command="try",
    results={
        "count": np.int64(3),
        "nan": float("nan"),
        "deep": {"inf": [np.inf, 1.5, None]},
        "word": "é",
    },
    tables=(TABLE, Table("Second", (Column("x", "x"),), [(1,)])),
    inputs=(InputFile("a.parquet", "00ff", 5),),
    parameters={"top": 10},
    headline="Ann has most jobs",
    warnings=("mind the gap",),
)


class Stream(io.StringIO):
    def __init__(self, encoding="utf-8"):
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self):
        return self._encoding


class Narrow(Stream):
    """A terminal of 40 columns."""

    def isatty(self):
        return True


def test_a_narrow_terminal_breaks_no_number(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    columns = [Column(f"c{i}", f"cost of part {i}", show_count) for i in range(6)]
    table = Table(
        "Wide", (Column("name", "name"), *columns), [("ann", *[10.0**9 + i for i in range(6)])]
    )
    text = as_text(Report(command="try", results={}, tables=(table,)), Narrow())
    for i in range(6):
        assert f"1,000,000,00{i}" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, plain.splitlines())) <= 40
    assert plain.count("ann") > 1  # the rows' name leads each group of columns


@pytest.mark.parametrize("letters", range(4, 20))
def test_a_table_as_wide_as_the_line_breaks_no_name(letters):
    name = "tiresias"[:letters].ljust(letters, "s")
    columns = [Column(f"c{i}", "cost", show_count) for i in range(8)]
    table = Table("Wide", (Column("name", "name"), *columns), [(name, *[10**8] * 7, 5)])
    text = as_text(Report(command="try", results={}, tables=(table,)), Stream())
    assert text.split().count(name) == 2 and max(map(len, text.splitlines())) <= 100


def test_json_has_the_contract_and_no_nan():
    document = json.loads(as_json(REPORT), parse_constant=lambda word: pytest.fail(word))
    assert list(document) == [
        "schema_version", "command", "inputs", "parameters", "results", "warnings",
        "gpuplan_version",
    ]  # fmt: skip
    assert document["inputs"] == [{"path": "a.parquet", "sha256": "00ff", "rows": 5}]
    assert document["results"] == {
        "count": 3, "nan": None, "deep": {"inf": [None, 1.5, None]}, "word": "é",
    }  # fmt: skip
    assert as_json(REPORT).endswith("}\n") and "é" in as_json(REPORT)


def test_csv_is_the_first_table_raw():
    assert as_csv(REPORT) == 'name,jobs,p50_s\nann,1234,5.5\n"b|ob, jr",7,\n'


def test_markdown_escapes_bars_and_aligns_numbers():
    lines = as_markdown(REPORT).splitlines()
    assert lines[0] == "**Ann has most jobs**"
    assert lines[2:8] == [
        "### Jobs by name",
        "",
        "| name | jobs | median |",
        "|---|---:|---:|",
        "| ann | 1,234 | 5.5 s |",
        "| b\\|ob, jr | 7 | - |",
    ]
    assert lines[-1] == "> warning: mind the gap"


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("<b>eve</b>", "&lt;b&gt;eve&lt;/b&gt;"),
        ("R&D", "R&amp;D"),
        ("&lt;", "&amp;lt;"),
        ("`rm`", "\\`rm\\`"),
        ("a\\|b", "a\\\\\\|b"),
        ("[x](y)", "\\[x](y)"),
        ("**x**", "\\*\\*x\\*\\*"),
        ("snake_case", "snake_case"),
    ],
)
def test_markdown_shows_names_as_they_are(name, cell):
    table = Table(name, (Column("x", name),), [(name,)])
    text = as_markdown(Report(command="try", results={}, tables=(table,)))
    assert text == f"### {cell}\n\n| {cell} |\n|---|\n| {cell} |\n"


def test_text_shows_every_table_with_numbers_to_the_right():
    lines = as_text(REPORT, Stream()).splitlines()
    assert lines[0] == "Ann has most jobs"
    assert "Jobs by name" in lines and "Second" in lines
    (ann,) = (line for line in lines if "ann" in line)
    (bob,) = (line for line in lines if "ob, jr" in line)
    assert ann.index("1,234") + 5 == bob.index("7", 5) + 1  # both end in one column
    assert all(line == line.rstrip() and len(line) <= 100 for line in lines)


def test_a_cell_may_bring_its_own_text_and_a_column_its_readers():
    columns = (Column("path", ""), Column("", "statistic"), Column("value", "value"))
    table = Table("T", columns, [("d.p50", "median", Shown(1800.0, "30 min"))])
    report = Report(command="try", results={}, tables=(table,))
    assert as_csv(report) == "path,value\nd.p50,1800.0\n"
    assert as_markdown(report).splitlines()[2:] == [
        "| statistic | value |",
        "|---|---:|",
        "| median | 30 min |",
    ]
    text = as_text(report, Stream())
    assert "30 min" in text and "d.p50" not in text and "1800" not in text


def test_a_name_starts_no_new_line_of_the_answer():
    table = Table("T", (Column("user", "user"),), [("ann",)])
    report = Report("Eve\nT of x waits.", (table,), command="try", results={})
    assert as_text(report, Stream()).startswith("Eve?T of x waits.\n\nT\n")
    assert as_markdown(report).startswith("**Eve?T of x waits.**\n")


def test_a_name_of_many_letters_is_cut_where_people_read_it():
    report = Report("", (Table("T", (Column("user", "user"),), [("a" * 5000,)]),), command="try",
                    results={})  # fmt: skip
    for text in (as_text(report, Stream()), as_markdown(report)):
        assert "(5,000 characters)" in " ".join(text.split()) and len(text) < 1000
    assert "a" * 5000 in as_csv(report)


def test_a_warning_of_two_lines_is_one_in_markdown():
    report = Report("One.", warnings=("three\n  next: four",), command="try", results={})
    assert "> warning: three next: four\n" in as_markdown(report)


def test_control_characters_of_a_log_do_not_reach_the_terminal():
    table = Table("T", (Column("user", "user"),), [("eve\x1b[2J\nx",)])
    report = Report(command="try", results={}, tables=(table,))
    assert "\x1b" not in as_text(report, Stream())
    assert "| eve?\\[2J?x |" in as_markdown(report)
    assert as_csv(report).splitlines()[1:] == ["eve\\u001b[2J\\u000ax"]


@pytest.mark.parametrize(
    ("cell", "text"), [(None, "-"), (float("nan"), "-"), (np.float64("nan"), "-"), (90, "90 s")]
)
def test_a_missing_value_is_a_dash(cell, text):
    assert Column("x_s", "x", show_duration).text(cell) == text


def test_lines_fall_back_to_ascii_where_the_stream_cannot_show_them():
    assert "─" in as_text(REPORT, Stream())
    plain = as_text(REPORT, Stream("ascii"))
    assert plain.isascii() and "----" in plain


def test_emit_writes_every_form_asked_for(tmp_path, capsys):
    for suffix, render in (("json", as_json), ("md", as_markdown), ("csv", as_csv)):
        path = tmp_path / f"r.{suffix}"
        emit(REPORT, Output(output_format=ResultFormat(suffix), out=[path]))
        out, err = capsys.readouterr()
        assert path.read_text() == out == render(REPORT)
        assert err == f"warning: mind the gap\nwrote {path}\n"
    path = tmp_path / "r.txt"
    emit(REPORT, Output(out=[path]))
    assert path.read_text() == capsys.readouterr().out == as_text(REPORT, Stream())


def test_emit_checks_the_gates_last(tmp_path, capsys):
    with pytest.raises(GateFailed):
        emit(REPORT, Output(out=[tmp_path / "r.json"], fail_if=["count > 2"]))
    assert "Jobs by name" in capsys.readouterr().out
    assert (tmp_path / "r.json").exists()


def test_rows_and_pictures_go_to_their_files(tmp_path, capsys):
    import polars as pl

    from gpuplan.cli.figures.style import new_figure

    rows = pl.DataFrame({"a": [1, 2]})
    made = {"frame": lambda: rows, "figure": new_figure}
    report = Report(command="try", results={}, tables=(TABLE,), **made)
    plots = [tmp_path / "p.svg", tmp_path / "p.png"]
    emit(report, Output(out=[tmp_path / "r.parquet", tmp_path / "r.csv"], plot=plots))
    assert (tmp_path / "r.csv").read_text() == as_csv(report)
    assert pl.read_parquet(tmp_path / "r.parquet").equals(rows)
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    assert (tmp_path / "p.png").read_bytes()[:4] == b"\x89PNG"
    emit(report, Output(out=[tmp_path / "q.svg"]))
    assert (tmp_path / "q.svg").read_bytes() == (tmp_path / "p.svg").read_bytes()


def test_the_answer_is_shown_and_full_shows_the_rest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = replace(REPORT.tables[0], title="The answer")
    second = replace(REPORT.tables[0], title="The rest")
    report = replace(REPORT, tables=(first, second), answer=(first,), warnings=("a", "b", "c", "d"))
    emit(report, Output(out=[tmp_path / "r.md"]))
    out, err = capsys.readouterr()
    assert "The answer" in out and "The rest" not in out
    assert err.count("warning:") == 3
    assert "--full shows 1 more table and 1 more warning\n" in err
    assert "The rest" not in (tmp_path / "r.md").read_text()
    emit(report, Output(full=True, out=[tmp_path / "full.md"]))
    out, err = capsys.readouterr()
    assert "The answer" in out and "The rest" in out
    assert err.count("warning:") == 4 and "--full" not in err
    assert "The rest" in (tmp_path / "full.md").read_text()
