"""Outputs into pipes, devices and open files are written through; nothing takes their place."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.base.errors import OutputError
from gpuplan.analysis.storage.files import atomic_output, check_writable, is_stdout, is_stream


class Reader(threading.Thread):
    """Reads a named pipe to its end."""

    def __init__(self, pipe: Path) -> None:
        super().__init__(daemon=True)
        os.mkfifo(pipe)
        self.pipe = pipe
        self.data = b""
        self.start()

    def run(self) -> None:
        self.data = self.pipe.read_bytes()

    def result(self) -> bytes:
        self.join(60)
        assert stat.S_ISFIFO(self.pipe.stat().st_mode)
        return self.data


@pytest.mark.parametrize("name", ["p.json", "p.md", "p.csv", "p.txt", "p.svg", "p.png"])
def test_a_result_goes_into_a_pipe(gpuplan, lab, tmp_path, name):
    reader = Reader(tmp_path / name)
    assert gpuplan("characterize", lab, "-q", "-o", reader.pipe)[0] == 0
    (tmp_path / "file").mkdir()
    assert gpuplan("characterize", lab, "-q", "-o", tmp_path / "file" / name)[0] == 0
    assert reader.result() == (tmp_path / "file" / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", name]


def test_a_trace_goes_into_a_pipe(gpuplan, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("job_id,submit_time,duration_s,num_gpus\na,2024-01-01,60,1\n")
    reader = Reader(tmp_path / "t.parquet")
    assert gpuplan("ingest", log, "-o", reader.pipe)[0] == 0
    (tmp_path / "copy.parquet").write_bytes(reader.result())
    assert pl.read_parquet(tmp_path / "copy.parquet")["job_id"].to_list() == ["a"]


def test_a_report_goes_into_the_pipes_of_its_folder(gpuplan, lab, tmp_path):
    reader = Reader(tmp_path / "report.json")
    words = ("report", lab, "-o", tmp_path, "--study", "characterize", "--formats", "json,md")
    assert gpuplan(*words)[0] == 0
    assert json.loads(reader.result())
    assert (tmp_path / "report.md").stat().st_size


def test_a_reader_that_has_left_is_no_error(gpuplan, lab, tmp_path):
    pipe = tmp_path / "p.png"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: os.close(os.open(pipe, os.O_RDONLY)), daemon=True).start()
    assert gpuplan("characterize", lab, "-q", "--plot", pipe)[0] == 0


def test_a_device_takes_the_form_of_standard_output(gpuplan, lab, tmp_path):
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    for path in ("/dev/null", null):
        assert gpuplan("characterize", lab, "-q", "-o", path, "--output-format", "json")[0] == 0
    assert null.is_symlink() and stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_full_device_is_an_output_error(gpuplan, lab, tmp_path):
    full = tmp_path / "full.json"
    full.symlink_to("/dev/full")
    code, out, err = gpuplan("characterize", lab, "-q", "-o", full)
    assert (code, out) == (3, "") and "No space left" in err
    assert full.is_symlink()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "link.csv"])
def test_an_open_file_is_written_where_it_stands(lab, tmp_path, name):
    (tmp_path / "link.csv").symlink_to("/dev/stdout")
    into = tmp_path / "into"
    into.write_text("before\n")
    number = into.stat().st_ino
    words = ("characterize", lab, "-q", "-o", name, "--output-format", "csv")
    with into.open("a") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "gpuplan.cli", *words],
            cwd=tmp_path,
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert into.stat().st_ino == number
    first, header, *rest = into.read_text().splitlines()
    assert first == "before" and header and rest and header not in rest


@pytest.mark.parametrize("name", ["/dev/stdout", "link.json"])
def test_standard_output_as_a_file_gets_one_document(gpuplan, lab, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("link.json").symlink_to("/dev/stdout")
    words = ("characterize", lab, "-q", "--output-format", "json")
    code, out, err = gpuplan(*words, "-o", name, "-o", "own.json")
    assert (code, err) == (0, "") and json.loads(out) == json.loads(Path("own.json").read_text())


def test_a_trace_on_standard_output_is_all_there_is(lab, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("job_id,submit_time,duration_s,num_gpus\na,2024-01-01,60,1\n")
    (tmp_path / "t.parquet").symlink_to("/dev/stdout")
    words = [sys.executable, "-m", "gpuplan.cli", "ingest", log, "-o", tmp_path / "t.parquet"]
    done = subprocess.run(words, capture_output=True, check=True)
    assert pl.read_parquet(done.stdout)["job_id"].to_list() == ["a"]
    assert done.stdout.endswith(b"PAR1")


def test_a_pipe_that_is_standard_output_is_recognized(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writing, kept = os.open(pipe, os.O_WRONLY), os.dup(1)
    try:
        assert not is_stdout(pipe)
        os.dup2(writing, 1)
        assert is_stdout(pipe) and is_stdout(Path("/dev/stdout"))
    finally:
        os.dup2(kept, 1)
        for number in (reading, writing, kept):
            os.close(number)
    assert not is_stdout(tmp_path / "none") and not is_stdout(Path("a\0b"))


def test_what_is_no_file_is_refused_before_the_work(gpuplan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.json"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)  # such names are short
        code, _, err = gpuplan("characterize", tmp_path / "none.parquet", "-o", path)
    assert code == 3 and "s.json: is a socket; name a file" in err
    assert stat.S_ISSOCK(path.stat().st_mode)


def test_a_descriptor_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "data").write_text("data")
    with (tmp_path / "data").open() as stream:
        for number in (stream.fileno(), 987):
            with pytest.raises(OutputError, match="cannot write here"):
                check_writable(Path(f"/dev/fd/{number}"))


def test_a_failure_writes_nothing_to_a_stream(tmp_path):
    reading, writing = os.pipe()
    with pytest.raises(ValueError), atomic_output(Path(f"/dev/fd/{writing}")) as partial:
        partial.write_text("half")
        raise ValueError
    os.close(writing)
    with os.fdopen(reading) as stream:
        assert stream.read() == ""
    assert not is_stream(tmp_path / "new")
