"""How bytes become rows: blocks, quotes, compression, sources and whole outputs."""

import gzip
import json

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_ingest import (
    LOGS,
    SEREN,
    SIA,
    SIA_HEADER,
    WANDB_CSV,
    WANDB_RUNS,
    good,
    ingest_text,
    sia,
    utc,
)

from gpuplan.analysis.errors import InputError, OutputError, UsageError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.reading.source import header_names
from gpuplan.analysis.reject_limit import Limit
from gpuplan.analysis.schema import METADATA_KEY, Provenance


@pytest.mark.parametrize("log", LOGS)
def test_blocks_do_not_matter(tmp_path, log, tiny_blocks, request):
    _, file, text = LOGS[log]
    name, *_ = LOGS[log]
    in_blocks, _, none = ingest_text(tmp_path, text, file, source_format=name)
    assert none is None
    request.getfixturevalue("monkeypatch").undo()
    whole, _, _ = ingest_text(tmp_path, text, file)
    assert in_blocks.equals(whole)


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("dress", ["gzip", "two gzip members", "zstd", "mark", "crlf", "blanks"])
def test_wrappings_do_not_matter(tmp_path, log, dress):
    _, file, text = LOGS[log]
    plain, _, _ = ingest_text(tmp_path, text, file)
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
    assert again.equals(plain)


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


def test_sources_of_two_calendars_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text(SIA)
    (tmp_path / "b.csv").write_text(SEREN)
    with pytest.raises(InputError, match=r"a\.csv: has times from the start.*b\.csv has dates"):
        ingest([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "t.parquet")


def test_the_same_input_gives_the_same_bytes(tmp_path, tiny_blocks):
    text = sia(*good(200), "x", "job-3,1,bert,1,1")
    outputs = set()
    for _ in range(3):
        _, result, _ = ingest_text(tmp_path, text)
        outputs.add((result.output.read_bytes(), result.rejects_file.read_bytes()))
    assert len(outputs) == 1


def test_provenance_is_in_the_footer(tmp_path):
    _, result, _ = ingest_text(tmp_path, sia(*good(9), "x"))
    stored = pl.read_parquet_metadata(result.output)[METADATA_KEY]
    assert Provenance.from_json(stored) == result.provenance
    told = result.provenance
    assert (told.rows_read, told.rows_kept, told.rows_rejected) == (
        10,
        9,
        {"wrong_number_of_fields": 1},
    )
    import hashlib

    assert told.sources[0].sha256 == hashlib.sha256((tmp_path / "log.csv").read_bytes()).hexdigest()


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


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty; expected a header and rows\n  next: export"),
        (b" \n\n", "is empty"),
        (SIA.replace("\n", "\r").encode(), "carriage returns as line ends.*\n  next: .*tr '"),
        (SIA.encode("utf-16-le"), "is UTF-16 text.*\n  next: .*iconv -f UTF-16LE"),
        (b"\xff\xfe" + SIA.encode("utf-16-le"), "iconv -f UTF-16LE -t UTF-8"),
        (b"\xfe\xff" + SIA.encode("utf-16-be"), "iconv -f UTF-16BE -t UTF-8"),
        (b"\x00\x01\x02\xff" * 50, "not UTF-8 text"),
        (b"# A project\n\nText.\n", "starts with '# A project'"),
        (SIA_HEADER.encode(), "header but no rows.*\n  next: export"),
        (b"a;b;c\n1;2;3\n", "cells between semicolons.*\n  next: name its columns.*--map"),
        (b"a\tb\tc\n1\t2\t3\n", "cells between TABs"),
        (SIA_HEADER.encode() + b"\n\n\n", "header but no rows"),
        (b"[]", "unrecognized log format"),
        (gzip.compress(SIA.encode(), mtime=0)[:-12], "damaged gzip"),
        (b"\x1f\x8b\x08\x00 and then text", "damaged gzip"),
        (b"\x28\xb5\x2f\xfd and then text", "damaged zstd"),
        (b"PAR1 and then text", "damaged Parquet"),
    ],
)
def test_unusable_sources(tmp_path, data, says):
    with pytest.raises(InputError, match=says):
        ingest_text(tmp_path, data, limit="1%")
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


@pytest.mark.parametrize("name", ["sia", "csv"])
def test_old_line_ends_and_wide_text_are_told_in_a_forced_format_too(tmp_path, name):
    options = {"columns": {"submit_time": "time"}} if name == "csv" else {}
    for data, says in [(SIA.replace("\n", "\r").encode(), "carriage"), (b"", "is empty"),
                       (SIA.encode("utf-16"), "UTF-16")]:  # fmt: skip
        with pytest.raises(InputError, match=says):
            ingest_text(tmp_path, data, source_format=name, **options)


@given(st.lists(st.sampled_from(["a", "a.2", "a.3", "b", ""]), min_size=1, max_size=12))
def test_names_of_a_header_are_unique_and_the_first_of_each_stays(cells):
    names = header_names(",".join(cells).encode() or b'""', ",")
    assert len(names) == len(set(names)) == len(cells)
    assert all(name in names for name in cells)


def test_a_header_of_a_hundred_thousand_empty_names_is_read():
    assert header_names(b"," * 99_999, ",")[-1] == ".100000"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(WANDB_RUNS)[:-1], "the end of the file"),
        (json.dumps(WANDB_RUNS)[:-20], "is not JSON"),
        (json.dumps(WANDB_RUNS) + " x", "text after the end"),
        (json.dumps(WANDB_RUNS).replace("}, {", "} {", 1), "expected ',' or"),
    ],
)
def test_broken_arrays_name_the_element(tmp_path, text, says):
    with pytest.raises(InputError, match=says) as caught:
        ingest_text(tmp_path, text, source_format="wandb")
    assert "log.csv:" in str(caught.value)


def test_a_forced_format_that_does_not_fit_names_the_columns(tmp_path):
    with pytest.raises(InputError, match="no column job_id, user, node_num"):
        ingest_text(tmp_path, SIA, source_format="seren")


def test_a_tie_shows_the_evidence(tmp_path):
    both = SIA_HEADER + ",timestamp,duration,num_gpus,gpu_time,cluster\n"
    with pytest.raises(InputError, match=r"(?s)philly \(.*\); sia \(.*--source-format") as caught:
        ingest_text(tmp_path, both)
    assert "num_replicas" in str(caught.value)


def test_paths_that_cannot_be_meant(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(SIA)
    with pytest.raises(UsageError, match=r"ends in \.parquet"):
        ingest([log], tmp_path / "t.csv")
    with pytest.raises(UsageError, match="twice"):
        ingest([log, tmp_path / "." / "log.csv"], tmp_path / "t.parquet")
    with pytest.raises(InputError, match="did you mean"):
        ingest([tmp_path / "lög.csv"], tmp_path / "t.parquet")
    with pytest.raises(OutputError, match="does not exist"):
        ingest([log], tmp_path / "none" / "t.parquet")
    result = ingest([log], tmp_path / "t.parquet")
    before = result.output.read_bytes()
    with pytest.raises(OutputError, match="also a source"):
        ingest([result.output], result.output)
    (tmp_path / "u.rejects.parquet").write_bytes(before)
    with pytest.raises(OutputError, match="also a source"):
        ingest([tmp_path / "u.rejects.parquet"], tmp_path / "u.parquet")
    assert result.output.read_bytes() == before


def test_zones_and_maps_only_where_they_mean_something(tmp_path):
    with pytest.raises(UsageError, match="need no zone"):
        ingest_text(tmp_path, SEREN, time_zone="Europe/Berlin")
    with pytest.raises(UsageError, match="no such zone"):
        ingest_text(tmp_path, LOGS["philly_csv"][2], time_zone="Mars/Base")
    with pytest.raises(UsageError, match="--map"):
        ingest_text(tmp_path, SEREN, source_format="seren", columns={"start_time": "user"})
    with pytest.raises(UsageError, match="did you mean seren"):
        ingest_text(tmp_path, SEREN, source_format="sren")


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
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--map", "submit_time"], 2, "expected canonical=column"),
        (["--map", "user=a", "--map", "user=b"], 2, "already mapped to a"),
        (["--max-rejects", "lots"], 2, "expected a share"),
        (["--source-format", "slurm2"], 2, "did you mean slurm?"),
        ([], 3, "unrecognized log format"),
    ],
)
def test_the_command_refuses_with_a_message(gpuplan, tmp_path, options, code, says):
    log, trace = tmp_path / "README.md", tmp_path / "t.parquet"
    log.write_text("# Notes\n")
    got, out, err = gpuplan("ingest", log, "-o", trace, *options)
    assert (got, out) == (code, "")
    assert says in err
    assert not trace.exists()


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


def test_the_nearest_format_is_named_with_what_it_lacks(tmp_path):
    header = SEREN.splitlines()[0]
    with pytest.raises(InputError, match="nearest: seren, which also needs gpu_num; exp"):
        ingest_text(tmp_path, SEREN.replace(header, header.replace("gpu_num", "cards")))
    with pytest.raises(InputError) as caught:
        ingest_text(tmp_path, "a,b,c\n1,2,3\n")
    assert "nearest:" not in str(caught.value)


@pytest.mark.parametrize(("separator", "mark"), [(";", ";"), ("\t", r"\\t"), ("|", r"\|")])
@pytest.mark.parametrize("forced", [None, "seren"])
def test_a_known_log_of_other_separators_is_told(tmp_path, separator, mark, forced):
    says = rf"log\.csv: is a seren log whose cells are separated by \w+.* \('{mark}'\)"
    with pytest.raises(InputError, match=says) as raised:
        ingest_text(tmp_path, SEREN.replace(",", separator), source_format=forced)
    assert " ',' < " in str(raised.value)
    text = SEREN.replace(",", separator).replace("Other", "Other, too")
    with pytest.raises(InputError, match="save it again with commas"):
        ingest_text(tmp_path, text, source_format=forced)


@pytest.mark.parametrize("forced", [None, "seren"])
def test_a_table_without_its_header_is_told(tmp_path, forced):
    rows = SEREN.partition("\n")[2]
    with pytest.raises(InputError, match="has no header; it starts with '1,ua,1") as raised:
        ingest_text(tmp_path, rows, source_format=forced)
    assert "next: put them before it: (echo 'NAME,NAME,...'; cat " in str(raised.value)
    assert ("unrecognized log format: has no header" in str(raised.value)) == (forced is None)
    assert ("job_id, user, node_num" in str(raised.value)) == (forced is not None)
    with pytest.raises(InputError, match=r"\(echo 'name,time,application,num_replicas'; cat "):
        ingest_text(tmp_path, "a,1,bert,2\nb,2,bert,2\n", source_format="sia")


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
