"""Sources that ingest refuses: what is wrong, where, and the way out."""

import gzip
import json

import pytest
from support_ingest import (
    LOGS,
    SEREN,
    SIA,
    SIA_HEADER,
    WANDB_RUNS,
    ingest_text,
)

from gpuplan.analysis.base.errors import InputError, OutputError, UsageError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.reading.unreadable import OLE_MAGIC


def test_sources_of_two_calendars_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text(SIA)
    (tmp_path / "b.csv").write_text(SEREN)
    with pytest.raises(InputError, match=r"a\.csv: has times from the start.*b\.csv has dates"):
        ingest([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "t.parquet")


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
        (b"\n<!DOCTYPE html>\n<html><p>Sign in", "is a web page .*\n  next: download it again"),
        (b"<html><body>Sign in</body></html>", "is a web page"),
        (OLE_MAGIC + bytes(600), "is an Excel workbook.*\n  next: .*save the sheet"),
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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(WANDB_RUNS)[:-1], "the end of the file"),
        (json.dumps(WANDB_RUNS)[:-20], "the file was cut"),
        (json.dumps(WANDB_RUNS).replace(": ", " ", 1), "is not JSON"),
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
    with pytest.raises(
        InputError, match=r"without -n, or put .* \(echo 'NAME\|NAME\|\.\.\.'; cat "
    ):
        ingest_text(tmp_path, "12|ana|gpu|COMPLETED|2026-01-10T08:00:00|4\n" * 2)
    with pytest.raises(InputError, match=r"\(echo 'name,time,application,num_replicas'; cat "):
        ingest_text(tmp_path, "a,1,bert,2\nb,2,bert,2\n", source_format="sia")
