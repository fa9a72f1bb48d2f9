"""How bytes become rows: blocks, quotes, compression, sources and whole outputs."""

import functools
import gzip
import json

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_ingest import (
    LOGS,
    SIA,
    WANDB_CSV,
    good,
    ingest_text,
    sia,
    utc,
)

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.job_table.schema import METADATA_KEY, Provenance
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.reading.source import header_names


@pytest.mark.parametrize("log", LOGS)
def test_blocks_do_not_matter(tmp_path, log, tiny_blocks, request):
    _, file, text = LOGS[log]
    name, *_ = LOGS[log]
    in_blocks, _, none = ingest_text(tmp_path, text, file, source_format=name)
    assert none is None
    request.getfixturevalue("monkeypatch").undo()
    whole, _, _ = ingest_text(tmp_path, text, file)
    assert in_blocks.equals(whole)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the jobs of a log as it is, read once."""

    @functools.cache
    def read(log):
        _, file, text = LOGS[log]
        return ingest_text(tmp_path_factory.mktemp("plain"), text, file)[0]

    return read


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("dress", ["gzip", "two gzip members", "zstd", "mark", "crlf", "blanks"])
def test_wrappings_do_not_matter(tmp_path, log, dress, plain):
    _, _, text = LOGS[log]
    data = text.encode()
    dressed = {
        "gzip": lambda: gzip.compress(data),
        "two gzip members": lambda: gzip.compress(data[:100]) + gzip.compress(data[100:]),
        "zstd": lambda: pa.compress(data, "zstd", asbytes=True),
        "mark": lambda: b"\xef\xbb\xbf" + data,
        "crlf": lambda: data.replace(b"\n", b"\r\n"),
        "blanks": lambda: data.rstrip(b"\n") + b"\n\n \n\n",
    }[dress]()
    again, _, rejected = ingest_text(tmp_path, dressed, "log")
    assert rejected is None
    assert again.equals(plain(log))


def test_repeated_column_names_get_a_number(tmp_path):
    text = "Created,Runtime,loss,loss,ID\n2026-01-01T00:00:00Z,5,1,2,x\n"
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs["job_id"].to_list() == ["x"]


def test_several_sources(tmp_path):
    for i, rows in enumerate([good(3), ["x,9,bert,1,32", "job-1,9,bert,1,32"]]):
        (tmp_path / f"{i}.csv").write_text(sia(*rows))
    paths = [tmp_path / "0.csv", tmp_path / "1.csv"]
    result = ingest(paths, tmp_path / "t.parquet", limit=Limit.of("1"))
    assert result.rows_by_source == (3, 2)
    assert result.provenance.rows_kept == 4
    refused = pl.read_parquet(result.rejects_file)
    assert refused.select("file", "row").rows() == [(str(paths[1]), 3)]
    assert [entry.name for entry in result.provenance.sources] == [str(path) for path in paths]


def test_the_same_input_gives_the_same_bytes(tmp_path, tiny_blocks):
    text = sia(*good(60), "x", "job-3,1,bert,1,1")
    outputs = set()
    for _ in range(3):
        _, result, _ = ingest_text(tmp_path, text)
        outputs.add((result.output.read_bytes(), result.rejects_file.read_bytes()))
    assert len(outputs) == 1


def test_provenance_is_in_the_footer(tmp_path):
    _, result, _ = ingest_text(tmp_path, sia(*good(9), "x"))
    stored = pl.read_parquet_metadata(result.output)[METADATA_KEY]
    assert Provenance.from_json(stored) == result.provenance
    provenance = result.provenance
    assert (provenance.rows_read, provenance.rows_kept, provenance.rows_rejected) == (
        10,
        9,
        {"wrong_number_of_fields": 1},
    )
    import hashlib

    assert (
        provenance.sources[0].sha256
        == hashlib.sha256((tmp_path / "log.csv").read_bytes()).hexdigest()
    )


def test_the_hash_is_of_the_compressed_file(tmp_path):
    import hashlib

    data = gzip.compress(SIA.encode())
    _, result, _ = ingest_text(tmp_path, data)
    assert result.provenance.sources[0].sha256 == hashlib.sha256(data).hexdigest()


def test_progress_ends_at_one(tmp_path, tiny_blocks):
    shares: list[float] = []
    ingest_text(tmp_path, sia(*good(50)), on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@given(st.lists(st.sampled_from(["a", "a.2", "a.3", "b", ""]), min_size=1, max_size=12))
def test_names_of_a_header_are_unique_and_the_first_of_each_stays(cells):
    names = header_names(",".join(cells).encode() or b'""', ",")
    assert len(names) == len(set(names)) == len(cells)
    assert all(name in names for name in cells)


def test_a_header_of_a_hundred_thousand_empty_names_is_read():
    assert header_names(b"," * 99_999, ",")[-1] == ".100000"


@pytest.mark.parametrize("error", [pl.exceptions.ComputeError("disk full"), KeyboardInterrupt()])
def test_a_failing_or_interrupted_writer_leaves_nothing(gpuplan, tmp_path, monkeypatch, error):
    def sink(self, file, **_):
        file.write(b"PAR1 half a file")
        raise error

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", sink)
    log = tmp_path / "log.csv"
    log.write_text(SIA)
    code, out, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet")
    assert (code, out) == ((130, "") if isinstance(error, KeyboardInterrupt) else (3, ""))
    assert ("interrupted" if code == 130 else "cannot be written: disk full") in err
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


CELLS = st.text(st.sampled_from('ab,"\r\n é'), max_size=6)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12))
def test_quoted_cells_come_back_as_they_were(tmp_path, tiny_blocks, rows):
    quoted = [
        ",".join([f'"{i}"', "1", "1", *('"' + cell.replace('"', '""') + '"' for cell in row)])
        for i, row in enumerate(rows)
    ]
    text = "\n".join(["job_id,submit_time,num_gpus,a,b", *quoted]) + "\n"
    jobs, _, rejected = ingest_text(
        tmp_path, text, columns={"user": "a", "group": "b"}, source_format="csv"
    )
    assert rejected is None
    expected = [(a.strip() or None, b.strip() or None) for a, b in rows]
    found = [(a or None, b or None) for a, b in jobs.select("user", "group").rows()]
    assert found == expected


def test_the_command(gpuplan, tmp_path):
    log, trace = tmp_path / "log.csv", tmp_path / "t.parquet"
    log.write_text(sia(*good(200), "x"))
    code, out, err = gpuplan("ingest", log, "-o", trace, "--output-format", "json")
    assert code == 0
    document = json.loads(out)
    assert document["results"] == {
        "source_format": "sia",
        "recognized_by": "the columns name, time, application, num_replicas, batch_size",
        "rows_read": 201,
        "rows_kept": 200,
        "rows_rejected": 1,
        "rejected_by_reason": {"wrong_number_of_fields": 1},
        "left_out": {},
        "span": None,
        "output": str(trace),
        "rejects_file": str(tmp_path / "t.rejects.parquet"),
        "time_zone": None,
        "relative_time": True,
        "notes": ["the log has no durations: a profile of each application supplies them"],
    }
    assert document["inputs"][0]["rows"] == 201
    assert "warning: 1 row cannot be used; see" in err
    code, out, _ = gpuplan("ingest", log, "-o", trace, "--output-format", "csv")
    assert "rows_kept,200" in out.splitlines()
    code, out, _ = gpuplan("ingest", log, "-o", trace)
    assert "200 jobs in" in out


def test_quotes_in_the_head_do_not_matter(tmp_path):
    plain, _, _ = ingest_text(tmp_path, SIA)
    quoted = "\n".join(
        ",".join(f'"{cell}"' for cell in line.split(",")) for line in SIA.splitlines()
    )
    assert ingest_text(tmp_path, quoted)[0].equals(plain)
    assert WANDB_CSV.startswith('"')


def test_numbers_out_of_range_are_rejected_at_their_column(tmp_path):
    header = "submit_time,started,ended,num_gpus,deadline_s"
    rows = [
        "2026-01-01,2026-01-01,2026-01-02,1e7,60",
        "2026-01-01,2026-01-01,2026-01-02,10000001,60",
        "2026-01-01,2026-01-01,2126-01-03,1,60",
        "1926-01-01,2026-01-03,2026-01-04,1,60",
        "2026-01-01,2026-01-01,2026-01-02,1,1e300",
        "9999-12-31 00:00:01,,,1,60",
    ]
    mapped = {"start_time": "started", "end_time": "ended"}
    jobs, _, rejected = ingest_text(tmp_path, "\n".join([header, *rows]), columns=mapped)
    assert jobs["num_gpus"].to_list() == [1e7]
    assert rejected.select("row", "reason", "column", "found").rows() == [
        (3, "out_of_range", "num_gpus", "10000001"),
        (4, "out_of_range", "ended", "2126-01-03"),
        (5, "out_of_range", "started", "2026-01-03"),
        (6, "out_of_range", "deadline_s", "1e300"),
        (7, "out_of_range", "submit_time", "9999-12-31 00:00:01"),
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_mapped_table_may_have_any_separator(tmp_path, separator):
    rows = [["created", "gpus", "duration_s"], ["2026-01-01", "2", '"60"'], ["1 Jan", "2", "60"]]
    text = "\n".join(separator.join(row) for row in rows)
    mapped = {"submit_time": "created", "num_gpus": "gpus"}
    jobs, _, rejected = ingest_text(tmp_path, text, columns=mapped)
    assert jobs.select("submit_time", "num_gpus", "duration_s").rows() == [(utc(2026, 1, 1), 2, 60)]
    assert rejected.select("row", "reason", "column").rows() == [(3, "unreadable", "created")]


def test_a_parquet_table_is_mapped_as_its_refusal_says(tmp_path):
    table = pl.DataFrame({"created": [utc(2026, 1, 1)], "gpus": [4], "duration_s": ["60"]})
    path, out = tmp_path / "jobs.parquet", tmp_path / "trace.parquet"
    table.write_parquet(path)
    with pytest.raises(InputError, match="--map submit_time=COLUMN") as caught:
        ingest([path], out)
    assert "leave out --source-format" not in str(caught.value)
    with pytest.raises(InputError, match="is a Parquet file; expected text"):
        ingest([path], out, source_format="tiresias")
    mapped = {"submit_time": "created", "num_gpus": "gpus"}
    ingest([path], out, choices=IngestOptions(mapped))
    found = pl.read_parquet(out).select("submit_time", "num_gpus", "duration_s")
    assert found.rows() == [(utc(2026, 1, 1), 4.0, 60.0)]
