"""Documents: what they say, that they say it safely, and that they are whole or not there."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import support_document as made
from markdown_it import MarkdownIt

from gpuplan.analysis.base.errors import OutputError, UsageError
from gpuplan.cli.documents.contract import as_junit
from gpuplan.cli.documents.gates import judge_all, raise_failed
from gpuplan.cli.documents.pages import MOST_CHARACTERS, as_html, as_markdown
from gpuplan.cli.documents.pictures import inline_svg
from gpuplan.cli.documents.study import StudyResult, result_of
from gpuplan.cli.documents.view import gates_verdict_of, notes_of, own_notes_of
from gpuplan.cli.documents.write import check_folder, write_document
from gpuplan.cli.figures.hover import spots_of
from gpuplan.cli.figures.style import COLOURS, DARK, TEXT, new_figure, svg_of
from gpuplan.cli.formats.report import Column, Report, Table
from gpuplan.cli.formats.units import show_usd
from gpuplan.cli.gates.gates import GateFailed, allowing, warnings_only


def gates_of(*conditions: str):
    studies = [
        made.study("pareto", results={"mean_jct_s": 7200.0, "wait_s": None}),
        made.study("tight", results={"mean_jct_s": 3600.0}),
    ]
    return judge_all(studies, conditions)


def test_gates_find_the_fields_of_every_study():
    gates = gates_of(
        "pareto.mean_jct > 90m", "tight.mean_jct > 90m", "wait > 1s", "mean_jct > 1s", "x > 1"
    )
    assert [gate.state for gate in gates] == ["failed", "passed", "unchecked", "error", "error"]
    assert gates[0].detail == "pareto.mean_jct_s is 2 h, limit 90 min"
    assert gates[3].detail == "mean_jct is ambiguous: pareto.mean_jct_s or tight.mean_jct_s"


def test_gates_end_the_program_as_they_should():
    raise_failed(gates_of("tight.mean_jct > 90m"))
    raise_failed(allowing(gates_of("wait > 1s"), allow_unchecked=True))
    with pytest.raises(GateFailed, match=r"gate not checked: wait > 1s(.|\n)*--allow-unchecked"):
        raise_failed(gates_of("wait > 1s"))
    with pytest.raises(GateFailed, match=r"gate tripped: pareto\.mean_jct"):
        raise_failed(gates_of("pareto.mean_jct > 90m"))
    with pytest.raises(UsageError, match=r"tripped: pareto(.|\n)*'x > 1': no field 'x'"):
        raise_failed(gates_of("x > 1", "pareto.mean_jct > 90m"))


def test_the_verdict_on_gates_counts_what_is_wrong():
    assert gates_verdict_of(made.document()) == ""
    one = made.document(gates=gates_of("tight.mean_jct > 90m"))
    assert gates_verdict_of(one) == "The gate passed."
    gates = gates_of("pareto.mean_jct > 90m", "tight.mean_jct > 90m", "x > 1")
    assert gates_verdict_of(made.document(gates=gates)) == (
        "1 of 3 gates invalid; 1 of 3 gates failed."
    )


def test_a_note_of_several_studies_is_told_once():
    studies = [made.study(f"s{i}") for i in range(6)]
    studies[5].contract["warnings"] = ["mine alone"]
    document = made.document(*studies)
    assert notes_of(document) == ["s0, s1, s2, s3 and 1 more: look <here>"]
    assert [own_notes_of(document, study) for study in studies] == [[]] * 5 + [["mine alone"]]
    assert as_markdown(document).count("look") == as_html(document).count("look &lt;") == 1


def test_junit_has_a_case_per_gate():
    gates = gates_of("pareto.mean_jct > 90m", "tight.mean_jct > 90m", "wait > 1s", "x > 1")
    document = made.document(gates=gates, time="2026-01-31T00:00:00Z")
    root = ET.fromstring(as_junit(document).partition("\n")[2])
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == (
        *("4", "2", "1", "0"),
    )
    cases = {case.get("name"): [one.tag for one in case] for case in root.iter("testcase")}
    assert cases == {
        "pareto.mean_jct > 90m": ["failure"],
        "tight.mean_jct > 90m": ["system-out"],
        "wait > 1s": ["failure"],
        "x > 1": ["error"],
    }
    allowed = made.document(gates=allowing(gates, allow_unchecked=True))
    root = ET.fromstring(as_junit(allowed).partition("\n")[2])
    assert [root.get(name) for name in ("failures", "errors", "skipped")] == ["1", "1", "1"]
    root = ET.fromstring(as_junit(document).partition("\n")[2])
    assert root.find("testsuite").get("timestamp") == "2026-01-31T00:00:00Z"
    warned = made.document(gates=warnings_only(gates[:2]))
    root = ET.fromstring(as_junit(warned).partition("\n")[2])
    assert [root.get(name) for name in ("failures", "skipped")] == ["0", "1"]
    assert gates_verdict_of(warned) == "1 of 2 gates warning."


def test_markdown_shows_names_as_they_are():
    text = as_markdown(made.document(gates=gates_of("pareto.mean_jct > 90m")))
    assert text.startswith("# Title &lt;i&gt;\n\n**1 of 1 gate failed.**\n")
    shown = MarkdownIt("commonmark").enable("table").render(text)
    assert "&lt;u0&gt; | *x*" in shown and "<td" in shown and "<u0>" not in shown
    assert shown.count("<table>") == 4  # gates, two of the study, inputs
    assert shown.count("<details>") == shown.count("</details>") == 2
    for found in re.finditer(r"<tbody>(.*?)</tbody>", shown, re.DOTALL):
        assert "<tr>" in found[1]


@pytest.mark.parametrize(("studies", "rows"), [(3, 3000), (60, 50), (400, 30)])
def test_markdown_stays_short_enough_for_a_comment(studies, rows):
    text = as_markdown(made.document(*(made.study(f"s{i}", rows) for i in range(studies))))
    assert len(text) <= MOST_CHARACTERS
    assert text.count("<details>") == text.count("</details>")
    assert "report.html" in text  # where the rest is


def test_markdown_cuts_folded_tables_before_main_ones():
    whole = made.document(*(made.study(f"s{i}", 40) for i in range(25)))
    text = as_markdown(whole)
    shown = MarkdownIt("commonmark").enable("table").render(text)
    assert shown.count("&lt;u39&gt;") >= 25  # the last row of each main table
    assert "<summary>One more table</summary>" in text and "more rows in report.html" in text
    long = as_markdown(made.document(*(made.study(f"s{i}", 200) for i in range(25))))
    assert 0.95 * MOST_CHARACTERS < len(long) <= MOST_CHARACTERS
    assert long.count("_One more table in report.html._") == 25
    left = re.findall(r"_And (\d+) more rows in report.html._", long)
    assert len(left) == 25 and len(set(left)) == 1


def test_a_page_escapes_what_comes_from_logs_and_needs_nothing_else():
    page = as_html(made.document())
    assert "<u0>" not in page and "&lt;u0&gt;" in page and "look &lt;here&gt;" in page
    assert "<title>Title &lt;i&gt;</title>" in page
    assert not re.search(r"""(src|href)=["'](?!#|data:,)""", page)
    assert "url(" not in page and "@import" not in page
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_a_page_of_a_large_table_stays_small():
    page = as_html(made.document(made.study(rows=100_000)))
    assert page.count("The first 500 of 100,000 rows; all are in report.json.") == 2
    assert len(page.encode()) < 1_000_000  # 3 MB with the pictures of four studies


def test_a_page_sorts_by_numbers_and_not_by_their_texts():
    page = as_html(made.document(made.study(rows=2)))
    assert '<td class="number" data-key="1">$1.00</td>' in page


def test_pictures_share_a_page_without_their_ids_meeting():
    figure = new_figure()
    figure.axes[0].plot([1, 2], [3, 4], "o", color=COLOURS["blue"], label="cost")
    figure.axes[0].set_xlabel("GPUs")
    figure.axes[0].text(1, 3, "here", color=COLOURS["orange"])
    svg = svg_of(figure)
    spots = spots_of(figure)
    one, two = (inline_svg(svg, name, "A < B", "what it is", spots) for name in ("a", "b"))
    ids = [set(re.findall(r' id="([^"]+)"', text)) for text in (one, two)]
    assert ids[0] and not ids[0] & ids[1]
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', one)) <= ids[0]
    root = ET.fromstring(one)
    assert root.get("role") == "img" and root.find("title").text == "A < B"
    assert "fill: var(--text-orange)" in one and "var(--blue)" in one
    assert "<style" not in one and "xlink" not in one and "<metadata" not in one


def test_a_result_keeps_the_picture_and_every_cell():
    def draw():
        figure = new_figure()
        figure.axes[0].plot([1, 2], [3, 4])
        figure.axes[0].set_title("Cost", loc="left")
        figure.axes[0].set_xlabel("GPUs")
        figure.axes[0].set_ylabel("dollars")
        return figure

    columns = (Column("name", "name"), Column("hidden", ""), Column("cost_usd", "cost", show_usd))
    rows = [("a", 1, 2.5), ("b", 2, None)]
    report = Report(
        command="sweep",
        results={"cost_usd": float("nan")},
        tables=(Table("Costs", columns, rows),),
        parameters={"seed": 0},
        headline="It is cheap.",
        warnings=("look",),
        figure=draw,
    )
    result = result_of("cheap", ["t.parquet"], report)
    (picture,) = result.pictures
    assert picture.name == "cheap" and picture.png.startswith(b"\x89PNG")
    assert picture.description == "Cost: dollars, by GPUs. It is cheap."
    assert result.results == {"cost_usd": None} and result.warnings == ["look"]
    (grid,) = result.tables
    assert [heading.is_numeric for heading in grid.headings] == [False, True]
    assert [[cell.text for cell in row] for row in grid.rows] == [["a", "$2.50"], ["b", "-"]]
    assert [row[1].value for row in grid.rows] == [2.5, None]
    assert StudyResult.from_text(result.to_text()) == result


def test_a_value_stands_where_its_point_is_drawn():
    figure = new_figure()
    axes = figure.axes[0]
    axes.plot([1, 2, 3], [10, 30, 20], "o", label="cost")
    axes.plot(range(1000), [20] * 1000)
    axes.set_xlim(0, 4)
    axes.set_ylim(0, 40)
    axes.set_xlabel("GPUs")
    axes.fmt_xdata = lambda x: f"{x:g} each"
    drawn = re.findall(r'<use xlink:href="#m\w+" x="([\d.]+)" y="([\d.]+)" style', svg_of(figure))
    spots = spots_of(figure)
    cost = [spot for spot in spots if spot.text.startswith("cost")]
    assert [spot.text.splitlines()[1] for spot in cost] == [f"GPUs: {n} each" for n in (1, 2, 3)]
    places = [(float(x), float(y)) for x, y in drawn]
    for spot in cost:
        assert any(place == pytest.approx((spot.x, spot.y), abs=0.1) for place in places)
    assert len(spots) == 3 + 4  # of the long line what is within the axes, but where a point is


def test_a_value_is_told_with_its_unit_and_without_remarks():
    figure = new_figure()
    axes = figure.axes[0]
    axes.plot([2.0], [90.0], "o")
    axes.plot([2.0], [90.0], "o", label="_knee")  # in no legend
    axes.set_xlabel("GPUs rented (grey: too few)")
    axes.set_ylabel("mean time, logarithmic (minutes)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    svg_of(figure)
    assert [spot.text for spot in spots_of(figure)] == [
        "knee\nGPUs rented: 2\nmean time: 90 minutes"
    ]


def test_the_page_and_the_figures_have_the_same_colours():
    css = as_html(made.document())
    light, _, dark = css.partition("@media (prefers-color-scheme: dark)")
    for name, colour in COLOURS.items():
        assert f"--{name}: {colour};" in light and f"--text-{name}: {TEXT[colour]};" in light
        assert f"--{name}: {DARK[colour]};" in dark


def test_the_parts_of_a_bar_tell_their_own_length():
    figure = new_figure()
    axes = figure.axes[0]
    axes.barh([0, 1], [5.0, 7.0], label="_spot")
    axes.barh([0], [2.0], left=[5.0], label="_on demand")
    axes.barh([0, 1], [7.0, 7.0], fill=False)  # a frame
    axes.set_yticks([0, 1], ["fifo", "las"])
    axes.set_xlabel("cost")
    axes.fmt_xdata = "${:g}".format
    axes.set_xlim(0, 10)
    svg_of(figure)
    spots = spots_of(figure)
    assert [spot.text for spot in spots] == [
        *("spot\ncost: $5\nfifo", "spot\ncost: $7\nlas", "on demand\ncost: $2\nfifo"),
    ]
    assert spots[2].x == pytest.approx(spots[0].x + spots[0].width, abs=0.2)
    assert spots[2].width == pytest.approx(spots[0].width * 2 / 5, abs=0.2)
    shown = inline_svg(svg_of(figure), "a", "t", "d", spots)
    assert f'<rect x="{spots[0].x:g}" y="{spots[0].y:g}" width="{spots[0].width:g}"' in shown


@pytest.mark.parametrize(("steps", "columns"), [(3, 3), (500, 167)])
def test_a_column_of_a_time_line_tells_its_value(steps, columns):
    figure = new_figure()
    axes = figure.axes[0]
    values = [1.0] * (steps - 1) + [9.0]
    axes.stairs(values, range(steps + 1), fill=True)
    axes.stairs(values, range(steps + 1))  # its outline
    axes.set_ylim(0, 10)
    axes.set_ylabel("GPUs")
    axes.fmt_ydata = "{:g}".format
    svg_of(figure)
    spots = spots_of(figure)
    assert len(spots) == columns
    assert [spot.text.splitlines()[-1] for spot in spots[-2:]] == ["GPUs: 1", "GPUs: 9"]
    assert spots[0].height == spots[-1].height > 200  # as high as the axes


def test_a_result_is_the_same_after_a_cache():
    one = made.study()
    assert StudyResult.from_text(one.to_text()) == one
    for damaged in ("", "[]", "{}", one.to_text()[:-5], one.to_text().replace('"rows"', '"r"')):
        with pytest.raises(ValueError, match="not the result of a study"):
            StudyResult.from_text(damaged)


def test_a_document_is_written_whole(tmp_path):
    folder = tmp_path / "new" / "report"
    written = write_document(made.document(), folder)
    assert [path.name for path in written] == [
        *("report.html", "report.md", "report.json", "junit.xml"),
    ]
    assert json.loads((folder / "report.json").read_text())["command"] == "report"
    first = [path.read_bytes() for path in written]
    assert first == [path.read_bytes() for path in write_document(made.document(), folder)]


def test_a_path_back_out_of_a_missing_folder_makes_no_folder(tmp_path):
    roundabout = tmp_path / "in" / ".." / "report"
    check_folder(roundabout)
    assert list(tmp_path.iterdir()) == []
    assert (tmp_path / "report" / "report.html") in write_document(made.document(), roundabout)
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_without_room_nothing_is_left(tmp_path, monkeypatch):
    write = Path.write_bytes

    def full(path, data):
        if path.suffix == ".md":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match=r"report.md: cannot be written: No space left"):
        write_document(made.document(), tmp_path / "new" / "report")
    assert not (tmp_path / "new").exists()
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "report.html").write_text("before")
    with pytest.raises(OutputError):
        write_document(made.document(), kept)
    assert [path.name for path in kept.iterdir()] == ["report.html"]
    assert (kept / "report.html").read_text() == "before"


def test_a_folder_is_checked_and_left_as_it_was(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        check_folder(tmp_path / "file")
    with pytest.raises(OutputError, match="is a file, not a folder"):
        check_folder(tmp_path / "file" / "b")
