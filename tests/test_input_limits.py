"""Input without measure ends early: endless pipes and lines, bombs, archives of too many files."""

import gzip
import io
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from support_ingest import SEREN, SIA_HEADER
from support_prices import HEADER
from support_sources import ids, log_of, zipped

from gpuplan.analysis.base.errors import InputError, OutputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.reading import archives, delimited, inputs, limits, source
from gpuplan.analysis.reading.limits import FIRST_BYTES, MOST_PIPED_BYTES, most_unpacked

FIRST = 1 << 16
STDIN = Path("-")


class Endless(io.RawIOBase):
    """A pipe that gives a start and then one text for ever."""

    def __init__(self, text: bytes, start: bytes = b"") -> None:
        self.taken = 0
        self._start, self._text = start, text * (1 + (1 << 20) // len(text))

    def read(self, size: int = -1, /) -> bytes:
        assert size >= 0, "would never end"
        data = (self._start + self._text)[:size]
        self._start = self._start[size:]
        self.taken += len(data)
        return data


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """Put an endless pipe on standard input; nothing of it may be left at the end."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    for name in ("FIRST_BYTES", "MOST_LINE_BYTES"):
        monkeypatch.setattr(inputs, name, FIRST)
    monkeypatch.setattr(delimited, "MOST_LINE_BYTES", FIRST - 1)
    monkeypatch.setattr(inputs, "MOST_PIPED_BYTES", 1 << 22)

    def put(text: bytes, start: bytes = b"") -> Endless:
        pipe = Endless(text, start)
        stdin = SimpleNamespace(buffer=pipe, isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stdin)
        return pipe

    yield put
    assert list(spool.iterdir()) == []


@pytest.mark.parametrize("text", [b"y\n", b"\0", b" ", b"\n", b"x"])
def test_an_endless_pipe_that_is_no_log_ends_after_its_first_bytes(tmp_path, endless, text):
    for take in (ingest, ingest_prices):
        pipe = endless(text)
        with pytest.raises(InputError, match=r"^-: unrecognized (log|price) format"):
            take([STDIN], tmp_path / "t.parquet")
        assert pipe.taken == FIRST


@pytest.mark.parametrize("text", [b"y\n", b"\0", b"x"])
def test_so_does_one_in_a_forced_format(tmp_path, endless, text):
    pipe = endless(text)
    with pytest.raises(InputError, match=r"^-:?.*(no column|a line longer than)"):
        ingest([STDIN], tmp_path / "t.parquet", source_format="seren")
    with pytest.raises(InputError, match=r"^-:?.*(no column 'made'|a line longer than)"):
        ingest([STDIN], tmp_path / "t.parquet", choices=IngestOptions({"submit_time": "made"}))
    with pytest.raises(InputError, match=r"^-:?.*(no column|a line longer than)"):
        ingest_prices([STDIN], tmp_path / "t.parquet", source_format="vast")
    assert pipe.taken == 3 * FIRST


def test_a_line_without_end_ends_a_pipe(tmp_path, endless):
    for take, start in ((ingest, SEREN), (ingest_prices, f"{HEADER}\n")):
        pipe = endless(b"x", start.encode())
        with pytest.raises(InputError, match=r"^-: has a line longer than 16 MiB"):
            take([STDIN], tmp_path / "t.parquet")
        assert pipe.taken < FIRST + 2 * source.COPY_BYTES


def test_rows_without_end_end_at_what_a_pipe_may_bring(tmp_path, endless, monkeypatch):
    pipe = endless(b"a,1,b,1,8\n", f"{SIA_HEADER}\n".encode())
    with pytest.raises(InputError, match=r"(?s)^-: is longer than .* MiB\n.*as a file"):
        ingest([STDIN], tmp_path / "t.parquet")
    assert pipe.taken <= (1 << 22) + source.COPY_BYTES
    monkeypatch.setattr(source, "usable_temporary_bytes", lambda: 1 << 21)
    pipe = endless(b"a,1,b,1,8\n", f"{SIA_HEADER}\n".encode())
    with pytest.raises(OutputError, match=r"(?s)over half of the free space, 2 MiB.*TMPDIR"):
        ingest([STDIN], tmp_path / "t.parquet")
    assert pipe.taken <= (1 << 21) + 2 * source.COPY_BYTES


def test_a_long_log_comes_through_a_pipe_whole(tmp_path, endless, monkeypatch):
    names = [f"job{i}" for i in range(3 * FIRST // 20)]
    data = log_of(*names).encode()
    assert len(data) > 2 * FIRST
    for packed in (data, gzip.compress(data), pa.compress(data, "zstd", asbytes=True)):
        stdin = SimpleNamespace(buffer=io.BytesIO(packed), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stdin)
        assert ids(ingest([STDIN], tmp_path / "t.parquet")) == names


def test_a_device_is_no_log(tmp_path):
    for take in (ingest, ingest_prices):
        with pytest.raises(
            InputError, match=r"^/dev/zero: is a device; expected a file, or a pipe"
        ):
            take([Path("/dev/zero")], tmp_path / "t.parquet")


@pytest.mark.parametrize("place", ["header", "row"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_line_too_long_is_told_by_its_number(tmp_path, monkeypatch, place, pack):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(source, "HEAD_BYTES", 1 << 10)
    monkeypatch.setattr(delimited, "MOST_LINE_BYTES", 1 << 14)
    text = log_of("a", "b") if place == "row" else SIA_HEADER + ","
    (tmp_path / "log.csv").write_bytes(pack(text.encode() + b"x" * (1 << 16)))
    row = 4 if place == "row" else 1
    with pytest.raises(InputError, match=rf"log\.csv:{row}: has a line longer than"):
        ingest([tmp_path / "log.csv"], tmp_path / "t.parquet", source_format="sia")


def test_a_table_of_too_many_columns_is_told(tmp_path):
    columns = limits.MOST_COLUMNS + 1
    (tmp_path / "log.csv").write_text("a" + ",b" * (columns - 1) + "\n")
    with pytest.raises(InputError, match=f"has {columns:,} columns; expected at most"):
        ingest([tmp_path / "log.csv"], tmp_path / "t.parquet", source_format="sia")


def test_blank_lines_before_the_header_are_counted(tmp_path):
    (tmp_path / "log.csv").write_text("\n \n\t\n" + log_of("a") + "short\n\n\n")
    with pytest.raises(
        InputError, match=r"log\.csv:6: found '1 fields' \(wrong_number_of_fields\)"
    ):
        ingest([tmp_path / "log.csv"], tmp_path / "t.parquet")


@pytest.fixture
def little_unpacked(monkeypatch):
    """Let packed data hold little: 100 KB, or 20 times its size."""
    monkeypatch.setattr(limits, "UNPACKED_BYTES", 100_000)
    monkeypatch.setattr(limits, "MOST_RATIO", 20)


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_what_unpacks_without_measure_is_refused(tmp_path, little_unpacked, pack):
    bomb = log_of("a").encode() + b"a,1,b,1,8\n" * 100_000
    (tmp_path / "log").write_bytes(pack(bomb))
    with pytest.raises(InputError, match="log: unpacks to more than"):
        ingest([tmp_path / "log"], tmp_path / "t.parquet")
    zipped(tmp_path / "log.zip", {"a.csv": pack(bomb)})  # packed twice
    with pytest.raises(InputError, match=r"log\.zip!a\.csv: unpacks to more than"):
        ingest([tmp_path / "log.zip"], tmp_path / "t.parquet")
    (tmp_path / "log").write_bytes(pack(log_of("a", "b").encode()))
    assert ids(ingest([tmp_path / "log"], tmp_path / "t.parquet")) == ["a", "b"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_that_unpacks_without_measure_is_refused(tmp_path, little_unpacked, kind):
    path = tmp_path / "logs"
    data = b"a,1,b,1,8\n" * 100_000
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", data)
    else:
        with tarfile.open(path, "w:gz") as tar:
            entry = tarfile.TarInfo("a.csv")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    with pytest.raises(InputError, match="logs: unpacks to more than"):
        ingest([path], tmp_path / "t.parquet")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_of_too_many_files_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 2)
    path = tmp_path / "logs"
    if kind == "zip":
        zipped(path, {f"{i}.csv": log_of("a") for i in range(3)})
    else:
        with tarfile.open(path, "w") as tar:
            for i in range(3):
                tar.addfile(tarfile.TarInfo(f"{i}.csv"))
    with pytest.raises(InputError, match="logs: has more than 2 files in it"):
        ingest([path], tmp_path / "t.parquet")


def test_a_zip_directory_is_measured_before_it_is_read(tmp_path, monkeypatch):
    path = zipped(tmp_path / "logs.zip", {"a.csv": log_of("a"), "b.csv": log_of("b")})
    monkeypatch.setattr(archives, "MOST_DIRECTORY_BYTES", 60)
    monkeypatch.setattr(archives, "ZipFile", lambda *_: pytest.fail("was read"))
    with pytest.raises(InputError, match="has more than 10,000 files in it"):
        ingest([path], tmp_path / "t.parquet")


def test_a_tar_header_that_claims_gigabytes_is_damage(tmp_path):
    forged = tarfile.TarInfo("x")
    forged.type, forged.size = tarfile.XHDTYPE, 8 << 30
    data = forged.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    (tmp_path / "log.tgz").write_bytes(gzip.compress(data))
    with pytest.raises(InputError, match=r"log\.tgz: is a damaged tar file \(a header of"):
        ingest([tmp_path / "log.tgz"], tmp_path / "t.parquet")


def test_the_limits_stand_in_the_documentation():
    text = (Path(__file__).parents[1] / "docs" / "limits.md").read_text()
    limits_in_force = (
        limits.MOST_LINE_BYTES, limits.MOST_RECORD_BYTES, MOST_PIPED_BYTES, limits.UNPACKED_BYTES,
    )  # fmt: skip
    for size in limits_in_force:
        assert limits.shown_size(size) in text
    for number in (limits.MOST_COLUMNS, limits.MOST_MEMBERS, limits.MOST_RATIO):
        assert f"{number:,}" in text
    assert FIRST_BYTES > limits.MOST_LINE_BYTES
    assert most_unpacked(0) == limits.UNPACKED_BYTES
    assert most_unpacked(1 << 30) == 500 << 30
