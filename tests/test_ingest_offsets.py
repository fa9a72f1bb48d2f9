"""The zone of a log is the offset that it writes with its times."""

import polars as pl
import pytest
from support_ingest import KALOS, SEREN, ingest_text

from gpuplan.analysis.reading.times import mixed_note, offsets_of, zone_of


@pytest.mark.parametrize(
    ("cell", "offset"),
    [
        ("2023-04-02 10:00:00+08:00", "+08:00"),
        ("2023-04-02T10:00:00.123456+0530", "+05:30"),
        ("2023-04-02T10:00:00-08", "-08:00"),
        ("2023-04-02T10:00:00.123456789 -03:30", "-03:30"),
        ("2023-04-02T10:00:00Z", "+00:00"),
        ("2023-04-02 10:00:00 UTC", "+00:00"),
        ("2023-04-02 10:00:00", None),
        ("2023-04-02", None),
        ("1680000000", None),
    ],
)
def test_the_offset_of_a_cell(cell, offset):
    cells = pl.DataFrame({"t": [cell, None, cell]})
    assert offsets_of(cells, ("t",)) == {("t", offset): 2}


def test_offsets_among_clock_times_without_one():
    cells = ["2023-04-02 10:00:00", "10:30:00Z", "2023-04-02", None, "10:30:00+02:00", "1:00:00"]
    expected = {("t", None): 3, ("t", "+00:00"): 1, ("t", "+02:00"): 1}
    assert offsets_of(pl.DataFrame({"t": cells}), ("t",)) == expected


def test_the_most_common_offset_of_the_first_column_is_the_zone():
    found = offsets_of(
        pl.DataFrame({"t": ["1+08:00", "2+08:00", "3+05:30"], "u": ["1+09:00"] * 3}), ("t", "u")
    )
    assert zone_of(found, "t", "UTC") == "+08:00"
    assert zone_of(offsets_of(pl.DataFrame({"t": ["1:00Z"]}), ("t",)), "t", "UTC") == "UTC"
    assert zone_of(offsets_of(pl.DataFrame({"t": ["10:00"]}), ("t",)), "t", "UTC") == "UTC"
    note = "times of several offsets: +09:00 (3), +08:00 (2), +05:30 (1); hours of the day are"
    assert mixed_note(found, "+08:00").startswith(note)


@pytest.mark.parametrize("log", [SEREN, KALOS.replace("+00:00", "+08:00")])
def test_the_zone_of_a_cluster_log_is_that_of_its_cells(tmp_path, log):
    _, result, _ = ingest_text(tmp_path, log.replace("+08:00", "+05:30"))
    assert result.provenance.time_zone == "+05:30"
    assert not any("offsets" in note for note in result.provenance.notes)
    _, result, _ = ingest_text(tmp_path, KALOS)
    assert result.provenance.time_zone == "+00:00"


def test_rows_of_several_offsets_are_told(tmp_path):
    head, *rows = SEREN.splitlines()
    mixed = [head, rows[0].replace("+08:00", "+05:30"), *rows[1:]]
    _, result, _ = ingest_text(tmp_path, "\n".join(mixed))
    assert result.provenance.time_zone == "+08:00"
    message = (
        "times of several offsets: +08:00 (10), +05:30 (3); hours of the day are those of +08:00"
    )
    assert message in result.provenance.notes
    assert result.warnings == ()


def test_submissions_of_another_offset_are_warned_of(tmp_path):
    head, *rows = SEREN.splitlines()
    late = [row.replace("+08:00", "+05:30", 1) for row in rows]  # the submission is the first time
    jobs, result, _ = ingest_text(tmp_path, "\n".join([head, *late]))
    assert jobs["queue_s"].null_count() == 5  # 10:00 at +05:30 is two hours and a half later
    (warning,) = result.warnings
    assert warning.startswith("4 of 4 jobs with a start have it before their submission")
    assert any(note.startswith("times of several offsets") for note in result.provenance.notes)
    early = [row.replace("+08:00", "+10:00", 1) for row in rows]
    jobs, result, _ = ingest_text(tmp_path, "\n".join([head, *early]))
    assert jobs["queue_s"].to_list() == [7201.0, 7220.0, 7200.0, None, 7230.0]
    assert (result.provenance.time_zone, result.warnings) == ("+10:00", ())


def test_a_canonical_table_has_the_zone_of_its_cells(tmp_path):
    text = "submit_time,duration_s,num_gpus\n2026-01-05T10:00:00+08:00,60,1\n"
    _, result, _ = ingest_text(tmp_path, text)
    assert result.provenance.time_zone == "+08:00"
    again, _, _ = ingest_text(tmp_path, (tmp_path / "trace.parquet").read_bytes(), "t.parquet")
    assert again["submit_time"][0].hour == 2
    # What the user says counts before it: an offset knows no summer time.
    _, result, _ = ingest_text(tmp_path, text, time_zone="Asia/Shanghai")
    assert result.provenance.time_zone == "Asia/Shanghai"
