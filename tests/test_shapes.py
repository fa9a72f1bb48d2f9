"""Bars in tables: one per value, means of stretches, and only where they can be shown."""

import io
from types import SimpleNamespace

import pytest

from gpuplan.cli.app.progress import Pace
from gpuplan.cli.formats.render import as_csv, as_json, as_text
from gpuplan.cli.formats.report import (
    BARS,
    CHARS,
    Column,
    Report,
    Table,
    shapes_table,
    sparkline,
    timeline_row,
)


def test_sparklines():
    assert sparkline([0, 1, 2, 4]) == "▁▃▅█"
    assert sparkline([0, 0]) == "▁▁"


def test_a_long_time_line_is_thinned_to_means():
    what, line, least, most = timeline_row("GPUs", [0.0, 2.0] * CHARS + [8.0])
    assert (what, least, most) == ("GPUs", "0", "8")
    assert len(line) <= CHARS and line[-1] == "█"


@pytest.fixture
def report():
    main = Table("Main", (Column("jobs", "jobs"),), [(3,)])
    shapes = shapes_table("Over time", [timeline_row("GPUs", [1.0, 2.0])])
    return Report(command="simulate", results={"jobs": 3}, tables=(main, shapes))


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", True), ("ascii", False)])
def test_bars_are_shown_only_where_the_encoding_has_them(report, encoding, shown):
    text = as_text(report, io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert (sparkline([1.0, 2.0]) in text) is shown
    assert "GPUs" in text and ("shape" in text) is shown


def test_bars_are_never_in_json_or_csv(report):
    assert not set(BARS) & set(as_json(report) + as_csv(report))


def test_a_replay_shows_its_time_lines(gpuplan, tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"2026-01-01T0{hour}:00:00Z,3600,2" for hour in range(8)]
    path.write_text("submit_time,duration_s,num_gpus\n" + "\n".join(rows) + "\n")
    trace = tmp_path / "t.parquet"
    assert gpuplan("ingest", path, "-o", trace, "--source-format", "csv", "-q")[0] == 0
    for policy in ("fifo", "allpass"):
        code, out, err = gpuplan("simulate", trace, "--policy", policy, "--full")
        assert code == 0, err
        assert "Over time, means of each" in out and set(BARS) & set(out)


@pytest.mark.parametrize(
    ("speed", "left_s", "text"),
    [(0.25, 2.2, "25%/s, 0:00:03 left"), (0.001, 600.0, "6%/min, 0:10:00 left"), (None, None, "")],
)
def test_progress_tells_its_rate_and_what_remains(speed, left_s, text):
    task = SimpleNamespace(speed=speed, total=1.0, time_remaining=left_s)
    assert Pace().render(task).plain == text
