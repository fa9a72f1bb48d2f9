"""Logs in archives: which members are read, and archives that cannot be."""

import bz2
import gzip
import hashlib
import io
import lzma

import polars as pl
import pyarrow as pa
import pytest
from support_ingest import SIA, ingest_text
from support_sources import files, ids, log_of, sources_of, tarred, zipped

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.prices.ingest import ingest_prices


def test_a_workbook_is_named_and_in_a_folder_left_out(tmp_path):
    (tmp_path / "logs").mkdir()
    parts = {"[Content_Types].xml": "<Types/>", "xl/workbook.xml": "<workbook/>"}
    book = zipped(tmp_path / "logs" / "jobs.xlsx", parts)
    with pytest.raises(InputError, match=r"is an Excel workbook; expected CSV.*\n  next: open it"):
        ingest([book], tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()
    (tmp_path / "logs" / "a.csv").write_text(log_of("a"))
    assert ids(ingest([tmp_path / "logs"], tmp_path / "t.parquet")) == ["a"]


def test_the_members_of_an_archive_are_logs(tmp_path):
    packed = pa.compress(log_of("z").encode(), "zstd", asbytes=True)
    archive = zipped(
        tmp_path / "logs.zip",
        {
            "b.csv": log_of("b") + "short\n",
            "a/x.csv": log_of("x"),
            "a/z.csv": packed,
            "README": "Some words.\n",
            "__MACOSX/a/._x.csv": b"\0\5",
            ".DS_Store": b"\0",
        },
    )
    result = ingest([archive], tmp_path / "t.parquet", limit=Limit.of("1"))
    assert ids(result) == ["x", "z", "b"]
    assert sources_of(result) == [f"{archive}!{name}" for name in ("a/x.csv", "a/z.csv", "b.csv")]
    hashed = [entry.sha256 for entry in result.provenance.sources]
    assert hashed[1] == hashlib.sha256(packed).hexdigest()
    refused = pl.read_parquet(result.rejects_file)
    assert refused.select("file", "row").rows() == [(f"{archive}!b.csv", 3)]
    assert any(note.endswith(": 3") and "README" in note for note in result.provenance.notes)


def test_an_archive_in_a_folder(tmp_path):
    logs = files(tmp_path / "logs", {"a.csv": log_of("a")})
    zipped(logs / "b.zip", {"one.csv": log_of("b"), "readme.txt": "words"})
    zipped(logs / "c.zip", {"picture.txt": "words"})
    assert ids(ingest([logs], tmp_path / "t.parquet")) == ["a", "b"]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_archives_are_read(tmp_path, mode):
    packed = gzip.compress(log_of("z").encode())
    members = {"./b.csv": log_of("b"), "./a/z.csv.gz": packed, "README": "words", "./.x": "\0"}
    archive = tarred(tmp_path / "logs.tgz", members, mode)
    result = ingest([archive], tmp_path / "t.parquet")
    assert ids(result) == ["z", "b"]
    assert sources_of(result) == [f"{archive}!a/z.csv.gz", f"{archive}!b.csv"]
    assert result.provenance.sources[0].sha256 == hashlib.sha256(packed).hexdigest()
    assert any(note.endswith(": 2") and "README" in note for note in result.provenance.notes)


def test_a_cut_tar_archive(tmp_path):
    text = log_of(*(f"{n * n:x}" for n in range(3000)))
    archive = tarred(tmp_path / "log.tgz", {"log.csv": text}, "w:gz")
    archive.write_bytes(archive.read_bytes()[:-2000])
    with pytest.raises(InputError, match="damaged tar file"):
        ingest([archive], tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("name", "data", "what", "hint"),
    [
        ("a.csv.bz2", bz2.compress(SIA.encode()), "is a bzip2 file", "bunzip2 -k "),
        ("a.csv.xz", lzma.compress(SIA.encode()), "is an xz file", "unxz -k "),
        ("a.7z", b"7z\xbc\xaf\x27\x1c\0\4", "is a 7z archive", "unpack it, and give"),
        ("a.rar", b"Rar!\x1a\7\1\0", "is a rar archive", "unpack it, and give"),
    ],
)
def test_what_is_packed_otherwise_is_named(tmp_path, name, data, what, hint):
    file = tmp_path / name
    file.write_bytes(data)
    for read in (ingest, ingest_prices):
        with pytest.raises(InputError, match=f"{what}(?s:.*)next: unpack it") as raised:
            read([file], tmp_path / "t.parquet")
        assert hint in str(raised.value)
    with pytest.raises(InputError, match=what):
        ingest([file], tmp_path / "t.parquet", source_format="seren")


def test_an_archive_in_an_archive_is_named(tmp_path):
    inner = zipped(tmp_path / "in.zip", {"log.csv": log_of("a")}).read_bytes()
    outer = zipped(tmp_path / "out.zip", {"in.zip": inner})
    with pytest.raises(InputError, match=r"out\.zip!in\.zip: is a zip archive in another"):
        ingest([outer], tmp_path / "t.parquet")
    tar = tarred(tmp_path / "in.tar", {"log.csv": log_of("a")}, "w").read_bytes()
    packed = tmp_path / "in.tar.zst"
    packed.write_bytes(pa.compress(tar, "zstd", asbytes=True))
    with pytest.raises(InputError, match=r"is a tar archive(?s:.*)tar xf "):
        ingest([packed], tmp_path / "t.parquet")


def test_the_only_member_is_meant(tmp_path):
    archive = zipped(tmp_path / "log.zip", {"log.csv": "a,b\n1,2\n"})
    with pytest.raises(InputError, match=r"log\.zip!log\.csv: unrecognized log format"):
        ingest([archive], tmp_path / "t.parquet")
    columns = {"submit_time": "a", "num_gpus": "b"}
    result = ingest([archive], tmp_path / "t.parquet", choices=IngestOptions(columns))
    assert result.provenance.rows_kept == 1


def damaged_archives():
    stream = io.BytesIO()
    zipped(stream, {"log.csv": log_of(*"abcdefghijklmnop")})
    whole = stream.getvalue()
    body = whole.index(b"log.csv") + len("log.csv")
    flipped = whole[: body + 9] + bytes([whole[body + 9] ^ 255]) + whole[body + 10 :]
    locked = bytearray(whole)
    locked[6] |= 1
    locked[whole.index(b"PK\x01\x02") + 8] |= 1
    odd = bytearray(whole)
    odd[8], odd[whole.index(b"PK\x01\x02") + 10] = 77, 77
    empty = io.BytesIO()
    zipped(empty, {})
    return {
        "cut": (whole[:-30], "damaged zip"),
        "flipped": (flipped, "damaged zip"),
        "locked": (bytes(locked), "cannot be unpacked .*encrypted"),
        "odd method": (bytes(odd), "cannot be unpacked .*compression"),
        "empty": (empty.getvalue(), "no file in it"),
    }


@pytest.mark.parametrize("case", damaged_archives())
def test_archives_that_cannot_be_read(tmp_path, case):
    data, says = damaged_archives()[case]
    with pytest.raises(InputError, match=says):
        ingest_text(tmp_path, data, "log.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["log.zip"]
