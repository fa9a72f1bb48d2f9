"""What may stand for a log: files, folders, pipes and standard input."""

import gzip
import hashlib
import json
import os
import resource
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from support_ingest import PHILLY_CSV, SEREN, SIA, SIA_HEADER, ingest_text
from support_prices import HEADER
from support_sources import files, ids, log_of, piped, sources_of, zipped

from gpuplan.analysis.base.errors import InputError, OutputError, UsageError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.reading import delimited, source


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
            "b.csv": log_of("b"),
            "a/z.csv": gzip.compress(log_of("z").encode()),
            "a/b.csv": log_of("x", "y"),
            "README.md": "# Logs\n",
            "summary.csv": "cluster,jobs\nx,4\n",
            ".git/config.csv": log_of("hidden"),
            "a/.b.csv": log_of("hidden"),
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
    (tmp_path / "logs" / os.fsdecode(b"a\xff.csv")).write_text(log_of("a") + "short\n")
    (tmp_path / "logs" / os.fsdecode(b".\xff")).write_text("hidden")
    arguments = [tmp_path / "logs", "-o", tmp_path / "t.parquet", "--max-rejects", 1]
    code, out, _ = gpuplan("ingest", *arguments, "--output-format", "json")
    assert code == 0
    shown = str(tmp_path / "logs" / "a\\xff.csv")
    assert json.loads(out)["inputs"][0]["path"] == shown
    assert pl.read_parquet(tmp_path / "t.rejects.parquet")["file"].to_list() == [shown]


def test_a_folder_may_hold_its_own_trace(tmp_path):
    logs = files(tmp_path / "logs", {"a.csv": log_of("a", "b"), "b.csv": log_of("c") + "short\n"})
    first = ingest([logs], logs / "t.parquet", limit=Limit.of("1"))
    assert first.rejects_file.exists()
    again = ingest([logs], logs / "t.parquet", limit=Limit.of("1"))
    assert ids(again) == ids(first) == ["a", "b", "c"]


def test_a_log_of_another_calendar_in_a_folder_is_an_error(tmp_path):
    logs = files(tmp_path / "logs", {"a.csv": log_of("a"), "b.csv": SEREN})
    with pytest.raises(InputError, match=r"a\.csv: has times from the start of the log") as error:
        ingest([logs], tmp_path / "t.parquet")
    assert "--source-format" in str(error.value)
    assert ids(ingest([logs], tmp_path / "t.parquet", source_format="sia")) == ["a"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (gzip.compress(SIA.encode(), mtime=0)[:-9], r"b\.csv: is a damaged gzip file"),
        (b"PK\x03\x04 and then text", r"b\.csv: is a damaged zip file"),
        (
            SIA_HEADER.encode() + b",timestamp,duration,num_gpus,gpu_time,cluster\n",
            r"b\.csv: could be",
        ),
    ],
)
def test_what_cannot_be_read_in_a_folder_is_an_error(tmp_path, bad, says):
    logs = files(tmp_path / "logs", {"a.csv": log_of("a"), "b.csv": bad})
    with pytest.raises(InputError, match=says):
        ingest([logs], tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_a_dangling_link_in_a_folder_is_an_error(tmp_path):
    logs = files(tmp_path / "logs", {"a.csv": log_of("a")})
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
    with pytest.raises(
        InputError, match=r"README\.md: unrecognized log format; it starts with '# a'"
    ):
        ingest([logs], tmp_path / "t.parquet")


def test_a_forced_table_in_a_folder_is_told_by_its_mapped_columns(tmp_path):
    text = "made,gpus\n2026-01-01T00:00:00Z,{}\n"
    logs = files(
        tmp_path / "logs", {"a.csv": text.format(1), "b.csv": text.format(2), "c.csv": "x,y\n1,2\n"}
    )
    columns = {"submit_time": "made", "num_gpus": "gpus"}
    result = ingest([logs], tmp_path / "t.parquet", choices=IngestOptions(columns))
    assert pl.read_parquet(result.output)["num_gpus"].to_list() == [1.0, 2.0]


@pytest.mark.parametrize("dress", [bytes, gzip.compress])
def test_standard_input(gpuplan, tmp_path, monkeypatch, spool, dress):
    data = dress((log_of("a", "b") + "short\n").encode())
    piped(monkeypatch, data)
    trace = tmp_path / "t.parquet"
    code, out, err = gpuplan(
        "ingest", "-", "-o", trace, "--max-rejects", "1", "--output-format", "json"
    )
    assert code == 0, err
    (source,) = json.loads(out)["inputs"]
    assert source == {"path": "-", "sha256": hashlib.sha256(data).hexdigest(), "rows": 3}
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
    pipe, log = tmp_path / "pipe", log_of("a", "b", "a")  # a repeated id takes a second pass
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
    logs = files(tmp_path / "logs", {"a.csv": log_of("a"), "b.csv": log_of("b")})
    archive = zipped(tmp_path / "logs.zip", {"a.csv": log_of("a")})
    for twice in ([logs, logs / "a.csv"], [archive, archive]):
        with pytest.raises(UsageError, match="given twice"):
            ingest(twice, tmp_path / "t.parquet")
    piped(monkeypatch, log_of("a").encode())
    with pytest.raises(UsageError, match=r"^-: given twice; it can be read only once"):
        ingest([Path("-"), Path("-")], tmp_path / "t.parquet")
    out = zipped(tmp_path / "z.parquet", {"a.csv": log_of("a")})
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
    text = log_of("a").replace(",0,", ",soon,")
    with pytest.raises(
        InputError, match="it was recognized as a sia log by the columns name, time"
    ):
        ingest_text(tmp_path, text, limit="1%")
    with pytest.raises(InputError, match="check --source-format"):
        ingest_text(tmp_path, text, limit="1%", source_format="sia")
    _, guessed, _ = ingest_text(tmp_path, log_of("a"))
    assert guessed.summary()["recognized_by"].startswith("the columns name, time")
    _, forced, _ = ingest_text(tmp_path, log_of("a"), source_format="sia")
    assert forced.summary()["recognized_by"] is None


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_a_source_that_breaks_in_the_middle_leaves_nothing(tmp_path, monkeypatch, packing):
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(source, "HEAD_BYTES", 1 << 10)
    text = log_of(*(hashlib.md5(bytes([i % 251, i // 251])).hexdigest() for i in range(20_000)))
    whole = (
        gzip.compress(text.encode())
        if packing == "gzip"
        else pa.compress(text.encode(), "zstd", asbytes=True)
    )
    shares: list[float] = []
    with pytest.raises(InputError, match=f"damaged {packing}"):
        ingest_text(tmp_path, whole[: len(whole) // 2], "log", on_progress=shares.append)
    assert len(shares) > 1
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@contextmanager
def small_files():
    """Let no file grow over 64 KB, as on a full disk; a measure of coverage writes afterward."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    rows = "".join(f"{hashlib.sha1(bytes([i % 251, i // 251])).hexdigest()}{i},{i},bert,1,8\n"
                   for i in range(9_000))  # fmt: skip
    log, trace = tmp_path / "log.csv", tmp_path / "t.parquet"
    log.write_text(f"{SIA_HEADER}\n{rows}")
    trace.write_bytes(b"of an earlier run")
    too_large = r"t\.parquet: cannot be written: .*[Ff]ile too large"
    with small_files(), pytest.raises(OutputError, match=too_large):
        ingest([log], trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "t.parquet"]
    assert trace.read_bytes() == b"of an earlier run"
    piped(monkeypatch, log.read_bytes())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with small_files(), pytest.raises(OutputError, match=r"(?s)-: cannot be kept in .*TMPDIR"):
        ingest([source.Path("-")], trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "t.parquet"]
