"""What may stand for a log: files, folders, archives, pipes and standard input."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import resource
import sys
import tarfile
import tempfile
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pytest
from support_ingest import PHILLY_CSV, SEREN, SIA, ingest_text
from support_prices import HEADER

from gpuplan.analysis.errors import InputError, OutputError, UsageError
from gpuplan.analysis.ingest import source, tables
from gpuplan.analysis.ingest.format import Choices
from gpuplan.analysis.ingest.rejects import Limit
from gpuplan.analysis.ingest.run import ingest
from gpuplan.analysis.prices.run import ingest_prices

HEAD = SIA.splitlines()[0]


def sia(*names: str) -> str:
    return "\n".join([HEAD, *(f"{name},{i},bert,2,32" for i, name in enumerate(names))]) + "\n"


def files(folder, texts: dict[str, str | bytes]):
    """Write files below a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def zipped(path, members: dict[str, str | bytes]):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def tarred(path, members: dict[str, str | bytes], mode: str):
    with tarfile.open(path, mode) as archive:
        for name, text in members.items():
            data = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def piped(monkeypatch, data: bytes, *, terminal: bool = False):
    stream = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: terminal)
    monkeypatch.setattr(sys, "stdin", stream)


def ids(result) -> list[str]:
    return pl.read_parquet(result.output)["job_id"].to_list()


def sources_of(result) -> list[str]:
    return [entry.name for entry in result.provenance.sources]


@pytest.fixture
def spool(tmp_path, monkeypatch):
    """The folder of temporary files; it must be empty when a test ends."""
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def test_a_folder_stands_for_its_logs(tmp_path):
    logs = files(
        tmp_path / "logs",
        {
            "b.csv": sia("b"),
            "a/z.csv": gzip.compress(sia("z").encode()),
            "a/b.csv": sia("x", "y"),
            "README.md": "# Logs\n",
            "summary.csv": "cluster,jobs\nx,4\n",
            ".git/config.csv": sia("hidden"),
            "a/.b.csv": sia("hidden"),
        },
    )
    result = ingest([logs], tmp_path / "t.parquet")
    assert ids(result) == ["x", "y", "z", "b"]
    assert sources_of(result) == [str(logs / name) for name in ("a/b.csv", "a/z.csv", "b.csv")]
    assert result.rows_by_source == (2, 1, 1)
    (note,) = [note for note in result.provenance.notes if "left out" in note]
    assert note.endswith(": 4")
    assert str(logs / ".git") in note


def test_names_that_are_no_text(gpuplan, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / os.fsdecode(b"a\xff.csv")).write_text(sia("a") + "short\n")
    (tmp_path / "logs" / os.fsdecode(b".\xff")).write_text("hidden")
    arguments = [tmp_path / "logs", "-o", tmp_path / "t.parquet", "--max-rejects", 1]
    code, out, _ = gpuplan("ingest", *arguments, "--output-format", "json")
    assert code == 0
    shown = str(tmp_path / "logs" / "a\\xff.csv")
    assert json.loads(out)["inputs"][0]["path"] == shown
    assert pl.read_parquet(tmp_path / "t.rejects.parquet")["file"].to_list() == [shown]


def test_a_folder_may_hold_its_own_trace(tmp_path):
    logs = files(tmp_path / "logs", {"a.csv": sia("a", "b"), "b.csv": sia("c") + "short\n"})
    first = ingest([logs], logs / "t.parquet", limit=Limit.of("1"))
    assert first.rejects_file.exists()
    again = ingest([logs], logs / "t.parquet", limit=Limit.of("1"))
    assert ids(again) == ids(first) == ["a", "b", "c"]


def test_another_log_in_a_folder_is_an_error(tmp_path):
    logs = files(tmp_path / "logs", {"a.csv": sia("a"), "b.csv": SEREN})
    with pytest.raises(InputError, match=r"b\.csv: is a seren log, .*a\.csv is a sia log") as told:
        ingest([logs], tmp_path / "t.parquet")
    assert "(the columns job_id, " in str(told.value)  # the evidence, and how to overrule it
    assert "--source-format" in str(told.value)
    assert ids(ingest([logs], tmp_path / "t.parquet", source_format="sia")) == ["a"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (gzip.compress(SIA.encode(), mtime=0)[:-9], r"b\.csv: is a damaged gzip file"),
        (b"PK\x03\x04 and then text", r"b\.csv: is a damaged zip file"),
        (HEAD.encode() + b",timestamp,duration,num_gpus,gpu_time,cluster\n", r"b\.csv: could be"),
    ],
)
def test_what_cannot_be_read_in_a_folder_is_an_error(tmp_path, bad, says):
    logs = files(tmp_path / "logs", {"a.csv": sia("a"), "b.csv": bad})
    with pytest.raises(InputError, match=says):
        ingest([logs], tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_a_dangling_link_in_a_folder_is_an_error(tmp_path):
    logs = files(tmp_path / "logs", {"a.csv": sia("a")})
    (logs / "b.csv").symlink_to(logs / "gone.csv")
    with pytest.raises(InputError, match=r"b\.csv: no such file"):
        ingest([logs], tmp_path / "t.parquet")


def test_a_folder_without_a_log(tmp_path):
    (tmp_path / "logs").mkdir()
    with pytest.raises(InputError, match="logs: has no file that is in a known format"):
        ingest([tmp_path / "logs"], tmp_path / "t.parquet")
    logs = files(tmp_path / "logs", {"README.md": "# a\n", "NOTES.md": "# b\n"})
    with pytest.raises(InputError, match=r"logs: has no file .*\(.*NOTES\.md, .*README\.md\)"):
        ingest([logs], tmp_path / "t.parquet")
    with pytest.raises(InputError, match="no file that is a sia log"):
        ingest([logs], tmp_path / "t.parquet", source_format="sia")
    (logs / "NOTES.md").unlink()  # the only file must be meant
    with pytest.raises(InputError, match=r"README\.md: is no known job log; it starts with '# a'"):
        ingest([logs], tmp_path / "t.parquet")


def test_a_forced_table_in_a_folder_is_told_by_its_mapped_columns(tmp_path):
    text = "made,gpus\n2026-01-01T00:00:00Z,{}\n"
    logs = files(
        tmp_path / "logs", {"a.csv": text.format(1), "b.csv": text.format(2), "c.csv": "x,y\n1,2\n"}
    )
    columns = {"submit_time": "made", "num_gpus": "gpus"}
    result = ingest([logs], tmp_path / "t.parquet", choices=Choices(columns))
    assert pl.read_parquet(result.output)["num_gpus"].to_list() == [1.0, 2.0]


def test_the_members_of_an_archive_are_logs(tmp_path):
    packed = pa.compress(sia("z").encode(), "zstd", asbytes=True)
    archive = zipped(
        tmp_path / "logs.zip",
        {
            "b.csv": sia("b") + "short\n",
            "a/x.csv": sia("x"),
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
    logs = files(tmp_path / "logs", {"a.csv": sia("a")})
    zipped(logs / "b.zip", {"one.csv": sia("b"), "readme.txt": "words"})
    zipped(logs / "c.zip", {"picture.txt": "words"})
    assert ids(ingest([logs], tmp_path / "t.parquet")) == ["a", "b"]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_archives_are_read(tmp_path, mode):
    packed = gzip.compress(sia("z").encode())
    members = {"./b.csv": sia("b"), "./a/z.csv.gz": packed, "README": "words", "./.x": "\0"}
    archive = tarred(tmp_path / "logs.tgz", members, mode)
    result = ingest([archive], tmp_path / "t.parquet")
    assert ids(result) == ["z", "b"]
    assert sources_of(result) == [f"{archive}!a/z.csv.gz", f"{archive}!b.csv"]
    assert result.provenance.sources[0].sha256 == hashlib.sha256(packed).hexdigest()
    assert any(note.endswith(": 2") and "README" in note for note in result.provenance.notes)


def test_a_cut_tar_archive(tmp_path):
    text = sia(*(f"{n * n:x}" for n in range(3000)))
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
    inner = zipped(tmp_path / "in.zip", {"log.csv": sia("a")}).read_bytes()
    outer = zipped(tmp_path / "out.zip", {"in.zip": inner})
    with pytest.raises(InputError, match=r"out\.zip!in\.zip: is a zip archive in another"):
        ingest([outer], tmp_path / "t.parquet")
    tar = tarred(tmp_path / "in.tar", {"log.csv": sia("a")}, "w").read_bytes()
    packed = tmp_path / "in.tar.zst"
    packed.write_bytes(pa.compress(tar, "zstd", asbytes=True))
    with pytest.raises(InputError, match=r"is a tar archive(?s:.*)tar xf "):
        ingest([packed], tmp_path / "t.parquet")


def test_the_only_member_is_meant(tmp_path):
    archive = zipped(tmp_path / "log.zip", {"log.csv": "a,b\n1,2\n"})
    with pytest.raises(InputError, match=r"log\.zip!log\.csv: is no known job log"):
        ingest([archive], tmp_path / "t.parquet")
    columns = {"submit_time": "a", "num_gpus": "b"}
    result = ingest([archive], tmp_path / "t.parquet", choices=Choices(columns))
    assert result.provenance.rows_kept == 1


def damaged_archives():
    stream = io.BytesIO()
    zipped(stream, {"log.csv": sia(*"abcdefghijklmnop")})
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


@pytest.mark.parametrize("dress", [bytes, gzip.compress])
def test_standard_input(gpuplan, tmp_path, monkeypatch, spool, dress):
    data = dress((sia("a", "b") + "short\n").encode())
    piped(monkeypatch, data)
    trace = tmp_path / "t.parquet"
    code, out, err = gpuplan(
        "ingest", "-", "-o", trace, "--max-rejects", "1", "--output-format", "json"
    )
    assert code == 0, err
    (told,) = json.loads(out)["inputs"]
    assert told == {"path": "-", "sha256": hashlib.sha256(data).hexdigest(), "rows": 3}
    refused = pl.read_parquet(tmp_path / "t.rejects.parquet")
    assert refused.select("file", "row").rows() == [("-", 4)]


def test_standard_input_that_is_none(tmp_path, monkeypatch, spool):
    piped(monkeypatch, b"", terminal=True)
    with pytest.raises(UsageError, match="nothing is piped in"):
        ingest([source.Path("-")], tmp_path / "t.parquet")
    piped(monkeypatch, b"")
    with pytest.raises(InputError, match=r"^-: is empty"):
        ingest([source.Path("-")], tmp_path / "t.parquet")


def test_a_pipe_is_read_once(tmp_path, spool):
    pipe, log = tmp_path / "pipe", sia("a", "b", "a")  # a repeated id takes a second pass
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(log,))
    writer.start()
    result = ingest([pipe], tmp_path / "t.parquet", limit=Limit.of("1"))
    writer.join()
    assert ids(result) == ["a", "b"]
    assert sources_of(result) == [str(pipe)]


@pytest.mark.parametrize("dress", ["gzip", "zip", "stdin"])
def test_a_packed_parquet_file(tmp_path, monkeypatch, spool, dress):
    plain, first, _ = ingest_text(tmp_path, PHILLY_CSV)
    data, packed = first.output.read_bytes(), tmp_path / "packed"
    if dress == "gzip":
        packed.write_bytes(gzip.compress(data))
    elif dress == "zip":
        zipped(packed, {"t.parquet": data})
    else:
        packed = source.Path("-")
        piped(monkeypatch, data)
    result = ingest([packed], tmp_path / "again.parquet")
    assert pl.read_parquet(result.output).equals(plain)
    assert result.provenance.time_zone == "America/Los_Angeles"


def test_what_is_given_twice(tmp_path, monkeypatch):
    logs = files(tmp_path / "logs", {"a.csv": sia("a"), "b.csv": sia("b")})
    archive = zipped(tmp_path / "logs.zip", {"a.csv": sia("a")})
    for twice in ([logs, logs / "a.csv"], [archive, archive]):
        with pytest.raises(UsageError, match="given twice"):
            ingest(twice, tmp_path / "t.parquet")
    piped(monkeypatch, sia("a").encode())
    with pytest.raises(UsageError, match=r"^-: given twice; it can be read only once"):
        ingest([Path("-"), Path("-")], tmp_path / "t.parquet")
    out = zipped(tmp_path / "z.parquet", {"a.csv": sia("a")})
    with pytest.raises(OutputError, match="also a source"):
        ingest([out], out)


def test_prices_from_folders_archives_and_pipes(tmp_path, monkeypatch, spool):
    line = "2026-01-05T07:00:00Z,{},L4,,spot,1.0,\n"
    lists = files(
        tmp_path / "lists", {"a.csv": f"{HEADER}\n{line.format('a')}", "README.md": "# x\n"}
    )
    archive = zipped(tmp_path / "b.zip", {"b.csv": f"{HEADER}\n{line.format('b')}"})
    zipped(lists / "d.zip", {"d.csv": f"{HEADER}\n{line.format('d')}", "x.txt": "no"})
    piped(monkeypatch, f"{HEADER}\n{line.format('c')}".encode())
    result = ingest_prices([lists, archive, source.Path("-")], tmp_path / "p.parquet")
    assert result.prices["provider"].to_list() == ["a", "b", "c", "d"]
    names = [entry.name for entry in result.provenance.sources]
    assert names == [str(lists / "a.csv"), f"{lists / 'd.zip'}!d.csv", f"{archive}!b.csv", "-"]
    assert any("README.md" in note for note in result.provenance.notes)


def test_a_price_list_is_told_as_one(tmp_path):
    header = "timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour,available"
    prices = tmp_path / "prices.csv"
    prices.write_text(f"{header}\n2026-01-01T00:00:00Z,a,A100,r,spot,1.5,1\n")
    with pytest.raises(
        InputError, match=r"(?s)is a price list.*next: gpuplan prices .*prices\.csv"
    ):
        ingest([prices], tmp_path / "t.parquet")


def test_a_wrong_guess_is_told_with_its_evidence(tmp_path):
    text = sia("a").replace(",0,", ",soon,")
    with pytest.raises(InputError, match="it is taken for a sia log by the columns name, time"):
        ingest_text(tmp_path, text, limit="1%")
    with pytest.raises(InputError, match="check --source-format"):
        ingest_text(tmp_path, text, limit="1%", source_format="sia")
    _, guessed, _ = ingest_text(tmp_path, sia("a"))
    assert guessed.summary()["recognized_by"].startswith("the columns name, time")
    _, forced, _ = ingest_text(tmp_path, sia("a"), source_format="sia")
    assert forced.summary()["recognized_by"] is None


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_source_that_breaks_in_the_middle_leaves_nothing(tmp_path, monkeypatch, packing):
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(source, "HEAD_BYTES", 1 << 10)
    text = sia(*(f"{hashlib.md5(bytes([i % 251, i // 251])).hexdigest()}" for i in range(20_000)))
    whole = (
        gzip.compress(text.encode())
        if packing == "gzip"
        else pa.compress(text.encode(), "zstd", asbytes=True)
    )
    shares: list[float] = []
    with pytest.raises(InputError, match=f"damaged {packing}|no such|cut"):
        ingest_text(tmp_path, whole[: len(whole) // 2], "log", on_progress=shares.append)
    assert len(shares) > 1
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.fixture
def small_files():
    """Let no file grow over 64 KB, as on a disk that is full then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, request):
    rows = "".join(f"{hashlib.sha1(bytes([i % 251, i // 251])).hexdigest()}{i},{i},bert,1,8\n"
                   for i in range(9_000))  # fmt: skip
    log, trace = tmp_path / "log.csv", tmp_path / "t.parquet"
    log.write_text(f"{HEAD}\n{rows}")
    trace.write_bytes(b"of an earlier run")
    request.getfixturevalue("small_files")
    with pytest.raises(OutputError, match=r"t\.parquet: cannot be written: .*[Ff]ile too large"):
        ingest([log], trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "t.parquet"]
    assert trace.read_bytes() == b"of an earlier run"
    piped(monkeypatch, log.read_bytes())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(OutputError, match=r"(?s)-: cannot be kept in .*TMPDIR"):
        ingest([source.Path("-")], trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "t.parquet"]
