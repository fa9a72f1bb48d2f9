"""Outputs are whole or absent, whatever happens on the way."""

import hashlib
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError, OutputError
from gpuplan.analysis.job_table.schema import Provenance, SourceFile
from gpuplan.analysis.storage.files import (
    atomic_output,
    existing_file,
    files_named_in,
    sha256_of,
    without_missing_parents,
)
from gpuplan.analysis.storage.parquet import write_parquet


def test_a_finished_output_replaces_what_was_there(tmp_path):
    path = tmp_path / "result.json"
    path.write_text("old")
    with atomic_output(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"  # nothing is visible before the end
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, ValueError])
def test_an_interrupted_output_leaves_the_old_one(tmp_path, trouble):
    path = tmp_path / "result.json"
    path.write_text("old")
    with pytest.raises(trouble), atomic_output(path) as temporary:
        temporary.write_text("half")
        raise trouble
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_a_full_disk_is_told_as_an_output_error(tmp_path):
    with (
        pytest.raises(OutputError, match=r"result\.json.*No space left"),
        atomic_output(tmp_path / "result.json"),
    ):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_under_a_table_is_an_output_error(tmp_path):
    with (
        pytest.raises(OutputError, match="No space left"),
        atomic_output(tmp_path / "t.parquet"),
    ):
        write_parquet(pl.DataFrame({"x": range(100_000)}), Path("/dev/full"))
    assert not list(tmp_path.iterdir())


def test_an_output_without_a_folder_names_it(tmp_path):
    with pytest.raises(OutputError, match="does not exist"), atomic_output(tmp_path / "a" / "b"):
        pass
    with pytest.raises(OutputError, match="is a folder"), atomic_output(tmp_path):
        pass


def test_the_output_has_the_usual_permissions(tmp_path):
    usual = tmp_path / "usual"
    usual.write_text("")
    with atomic_output(tmp_path / "ours") as temporary:
        temporary.write_text("")
    assert (tmp_path / "ours").stat().st_mode == usual.stat().st_mode


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_output(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("letters", [250, 300])
def test_a_long_name_is_written_or_refused(tmp_path, letters):
    path = tmp_path / ("x" * letters)
    if letters < 256:  # what file systems allow
        with atomic_output(path) as temporary:
            temporary.write_text("")
        assert path.exists()
    else:
        with pytest.raises(OutputError, match="too long"), atomic_output(path) as temporary:
            temporary.write_text("")


def test_a_missing_input_suggests_its_neighbour(tmp_path):
    (tmp_path / "trace.parquet").write_text("")
    with pytest.raises(InputError, match=r"did you mean .*trace\.parquet"):
        existing_file(tmp_path / "trace.parket")
    with pytest.raises(InputError, match="no such file"):
        existing_file(tmp_path / "no" / "where")
    with pytest.raises(InputError, match="is a folder"):
        existing_file(tmp_path)


def test_the_hash_is_that_of_the_bytes(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(range(256)) * 9000)  # more than one chunk
    assert sha256_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_input_error_says_where_what_and_what_next():
    error = InputError(
        "jobs.csv", "found 'soon'", row=3, column="duration", expected="seconds", hint="fix it"
    )
    assert str(error) == (
        "jobs.csv:3: column 'duration': found 'soon'; expected seconds\n  next: fix it"
    )
    assert error.exit_code == 3


def test_provenance_survives_its_stored_form():
    stored = Provenance(
        source_format="seren",
        sources=(SourceFile("a.csv", "00"), SourceFile("b.csv", "11")),
        rows_read=5,
        rows_kept=3,
        rows_rejected={"end before start": 2},
        time_zone="+08:00",
        notes=("one note",),
    )
    assert Provenance.from_json(stored.to_json()) == stored
    with pytest.raises(ValueError, match="JSON object"):
        Provenance.from_json("[]")


def test_a_link_that_leads_nowhere(tmp_path):
    loop = tmp_path / "loopx"
    loop.symlink_to("loopx")
    with pytest.raises(InputError, match="the links at this path form a loop") as raised:
        existing_file(loop)
    assert "did you mean" not in str(raised.value)


def test_files_may_stand_in_any_part_of_an_argument():
    assert files_named_in("table:a.csv", "", "x=b,c") == [
        Path(name) for name in ("a.csv", "b,c", "c", "table:a.csv", "x=b,c")
    ]
    assert files_named_in("a.csv", folder=Path("in")) == [Path("in/a.csv")]


def test_an_argument_of_many_commas_names_few_files():
    # Each of 100,000 suffixes was a name: 10 GB of text. No name of a file has 256 characters.
    assert len(files_named_in("," * 100_000)) == 255
    assert files_named_in("x" * 256) == []
    assert len(files_named_in(f"{'x' * 255}/{'y' * 255}")) == 1
    assert files_named_in("x/" * 2048 + "y") == []  # longer than any path


def test_a_missing_folder_that_the_path_leaves_again_is_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("elsewhere/deep").mkdir(parents=True)
    Path("link").symlink_to("elsewhere/deep")
    for path, expected in (
        ("in/../x", "x"),
        ("in/deep/../../x", "x"),
        ("in/../../x", "../x"),
        ("in/..", "."),
        ("there/../x", "there/../x"),
        ("link/../x", "link/../x"),  # is elsewhere/x
        ("there/in/../x", "there/x"),
        ("/in-no-root/../x", "/x"),
        ("a/b", "a/b"),
    ):
        assert without_missing_parents(Path(path)) == Path(expected), path
