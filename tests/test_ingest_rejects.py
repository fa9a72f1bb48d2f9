"""Rows that cannot be used: each refused alone, counted, limited, and kept aside."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_ingest import WANDB_RUNS, good, ingest_text, sia

from gpuplan.analysis.base.errors import InputError, OutputError, UsageError
from gpuplan.analysis.ingest import parallel_read
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.reading import rejects


def test_every_bad_line_is_refused_alone_and_by_its_number(tmp_path, tiny_blocks):
    rows = good(40)
    rows[3] = "short,1"
    rows[4] = rows[4] + ",more"
    rows[10] = ""  # blank: no row
    rows[20] = "job-20,soon,bert,1,32"
    rows[21] = "job-21,5,bert,-2,32"
    rows[22] = ",5,bert,2,32"
    rows[39] = "job-39,1e999,bert,2,32"
    jobs, result, rejected = ingest_text(tmp_path, sia(*rows))
    assert rejected.select("row", "reason", "column", "found").rows() == [
        (5, "wrong_number_of_fields", None, "2 fields"),
        (6, "wrong_number_of_fields", None, "6 fields"),
        (22, "unreadable", "time", "soon"),
        (23, "negative_gpus", "num_replicas", "-2"),
        (24, "missing", "name", None),
        (41, "unreadable", "time", "1e999"),
    ]
    assert rejected["raw"].to_list() == [rows[i] for i in (3, 4, 20, 21, 22, 39)]
    assert jobs.height == 33
    assert result.provenance.rows_read == 39
    assert result.summary()["rejected_by_reason"] == {
        "missing": 1,
        "negative_gpus": 1,
        "unreadable": 2,
        "wrong_number_of_fields": 2,
    }


def test_a_long_line_does_not_hide_a_short_one(tmp_path):
    # Together they have as many separators as two good lines.
    rows = ["a,1,bert,2,32", "b,2,bert,2", "c,3,bert,2,32,", "d,4,bert,2,"]
    jobs, _, rejected = ingest_text(tmp_path, sia(*rows))
    assert rejected["row"].to_list() == [3, 4]
    assert jobs["job_id"].to_list() == ["a", "d"]  # the last cell of d is empty: that is no fault


def test_bytes_that_are_no_text(tmp_path):
    data = sia(*good(3)).encode().replace(b"job-1", b"job-\xff")
    jobs, _, rejected = ingest_text(tmp_path, data)
    assert jobs["job_id"].to_list() == ["job-0", "job-2"]
    assert rejected.select("row", "reason").rows() == [(3, "not_utf8")]
    assert "\\xff" in rejected["raw"][0]
    quoted = data.replace(b"bert", b'"bert"')
    assert ingest_text(tmp_path, quoted)[2].select("row", "reason").rows() == [(3, "not_utf8")]


def test_an_open_quote_takes_no_good_row_with_it(tmp_path, tiny_blocks):
    rows = good(30)
    rows[5] = '"job-5,5,bert,2,32'
    rows[9] = '"job"9,5,bert,2,32'
    rows[12] = '"job, 12",12,bert,"2",32'
    jobs, result, rejected = ingest_text(tmp_path, sia(*rows))
    assert rejected["row"].to_list() == [7, 11]
    assert jobs.height == 28
    assert "job, 12" in jobs["job_id"].to_list()
    assert result.provenance.rows_read == 30


def test_a_duplicate_id_keeps_the_first(tmp_path, tiny_blocks):
    rows = good(30)
    rows[17] = "job-3,99,bert,2,32"
    rows[25] = "job-3,100,bert,2,32"
    jobs, result, rejected = ingest_text(tmp_path, sia(*rows))
    assert rejected.select("row", "reason", "column", "found", "raw").rows() == [
        (19, "duplicate_id", "name", "job-3", rows[17]),
        (27, "duplicate_id", "name", "job-3", rows[25]),
    ]
    assert jobs["job_id"].n_unique() == jobs.height == 28
    assert jobs.filter(pl.col("job_id") == "job-3")["submit_time"].dt.epoch("s").item() == 3
    assert result.provenance.rows_read == 30


def test_a_rejected_row_does_not_take_an_id(tmp_path):
    rows = ["a,soon,bert,2,32", "a,1,bert,2,32", "a,2,bert,2,32"]
    jobs, _, rejected = ingest_text(tmp_path, sia(*rows))
    assert jobs["submit_time"].dt.epoch("s").to_list() == [1]
    assert rejected["reason"].to_list() == ["unreadable", "duplicate_id"]


def test_equal_hashes_are_not_taken_for_equal_ids(tmp_path, monkeypatch):
    # All ids fall on one hash: the ids themselves must be compared.
    hashes_of = parallel_read.hashes_of
    monkeypatch.setattr(parallel_read, "hashes_of", lambda rows: hashes_of(rows) * 0)
    jobs, _, rejected = ingest_text(tmp_path, sia(*good(5)))
    assert (jobs.height, rejected) == (5, None)


@pytest.mark.parametrize(
    ("text", "rejected", "read", "allowed"),
    [
        ("1%", 1, 100, True),
        ("1%", 2, 100, False),
        ("0.02", 2, 100, True),
        ("2", 2, 3, True),
        ("2", 3, 1000, False),
        ("0", 1, 1000, False),
        ("100%", 5, 5, True),
    ],
)
def test_limits(text, rejected, read, allowed):
    assert Limit.of(text).allows(rejected, read) is allowed


@pytest.mark.parametrize("text", ["", "some", "-1", "101%", "1.5", "nan%", "1e3"])
def test_limits_that_cannot_be_meant(text):
    with pytest.raises(UsageError, match="max-rejects"):
        Limit.of(text)


def test_too_many_rejects_leave_the_trace_and_are_told(tmp_path):
    _, first, _ = ingest_text(tmp_path, sia(*good(3)))
    before = first.output.read_bytes()
    rows = [*good(3), "x,soon,bert,1,32", "y,1,bert,-1,32"]
    with pytest.raises(InputError) as caught:
        ingest_text(tmp_path, sia(*rows), limit="1%")
    aside = tmp_path / "trace.rejects.parquet"
    assert "log.csv:5: column 'time': found 'soon' (unreadable)" in str(caught.value)
    assert "2 of 5 rows" in str(caught.value)
    assert f"the rows that cannot be used are in {aside}, and nothing else" in str(caught.value)
    rejected = pl.read_parquet(aside).select("row", "reason", "raw").rows()
    assert rejected == [(5, "unreadable", rows[3]), (6, "negative_gpus", rows[4])]
    assert first.output.read_bytes() == before
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log.csv", "trace.parquet", "trace.rejects.parquet"]


def test_a_log_of_rejects_only_keeps_them(tmp_path):
    with pytest.raises(InputError, match=r"(?s)no usable rows.*are in .*trace\.rejects\.parquet"):
        ingest_text(tmp_path, sia("x,soon,bert,1,32"), limit="100%")
    assert pl.read_parquet(tmp_path / "trace.rejects.parquet").height == 1
    assert not (tmp_path / "trace.parquet").exists()


def test_rejects_that_cannot_be_written_do_not_hide_the_refusal(tmp_path, monkeypatch):
    def without_room(path):
        raise OutputError(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr(rejects, "atomic_output", without_room)
    with pytest.raises(InputError, match=r"(?s)1 of 1 row cannot.*are not kept \(.*No space left"):
        ingest_text(tmp_path, sia("x,soon,bert,1,32"), limit="1%")


def test_rejects_that_cannot_be_written_are_told_before_the_work(tmp_path):
    (tmp_path / "trace.rejects.parquet").mkdir()
    with pytest.raises(OutputError, match=r"trace\.rejects\.parquet: is a folder"):
        ingest_text(tmp_path, sia("x,soon,bert,1,32"), limit="1%")


def test_a_share_is_of_all_rows_wherever_the_bad_ones_are(tmp_path, monkeypatch, tiny_blocks):
    monkeypatch.setattr(rejects, "MAX_HELD", 3)
    bad = [f"x{i},soon,bert,1,32" for i in range(10)]
    rows = [*bad, *good(20), "last,soon,bert,1,32"]
    jobs, result, rejected = ingest_text(tmp_path, sia(*rows), limit="36%")  # 11 of 31
    assert (jobs.height, result.provenance.rows_rejected) == (20, {"unreadable": 11})
    assert rejected["row"].to_list() == [*range(2, 12), 32]
    assert rejected["raw"].to_list() == [*bad, rows[-1]]
    with pytest.raises(InputError, match="11 of 31 rows"):
        ingest_text(tmp_path, sia(*rows), limit="35%")
    assert pl.read_parquet(result.rejects_file).equals(rejected)


def test_far_more_rejects_than_a_count_stop_early(tmp_path, monkeypatch, tiny_blocks):
    monkeypatch.setattr(rejects, "MAX_HELD", 3)
    bad = [f"x{i},soon,bert,1,32" for i in range(10)]
    text = sia(*bad, *good(200))
    with pytest.raises(InputError, match=r"of [4-9] rows"):
        ingest_text(tmp_path, text, limit="2")
    assert 3 < pl.read_parquet(tmp_path / "trace.rejects.parquet").height < 10
    assert ingest_text(tmp_path, text, limit="10")[0].height == 200


def test_first_rows_that_are_all_rejected_for_one_reason_stop_early(
    tmp_path, monkeypatch, tiny_blocks
):
    monkeypatch.setattr(rejects, "FIRST_ROWS", 5)
    bad = [f"x{i},soon,bert,1,32" for i in range(20)]
    with pytest.raises(InputError, match=r"(?s)'soon'.*the first \d+ rows are all rejected") as no:
        ingest_text(tmp_path, sia(*bad, *good(200)), limit="20%")
    assert no.value.exit_code == 3
    assert pl.read_parquet(tmp_path / "trace.rejects.parquet").height < 20
    for limit in ("50%", "20"):  # the user expects many
        assert ingest_text(tmp_path, sia(*bad, *good(200)), limit=limit)[0].height == 200
    assert (
        ingest_text(tmp_path, sia(*good(200)[:1], *bad, *good(200)[1:]), limit="20%")[0].height
        == 200
    )
    two_reasons = [bad[0], "y,1,bert,-1,32", *bad[1:], *good(200)]
    assert ingest_text(tmp_path, sia(*two_reasons), limit="20%")[0].height == 200


def test_stale_rejects_go(tmp_path):
    _, first, _ = ingest_text(tmp_path, sia(*good(3), "x"))
    assert first.rejects_file.exists()
    _, second, _ = ingest_text(tmp_path, sia(*good(3)))
    assert second.rejects_file is None
    assert not first.rejects_file.exists()


def test_bad_records_are_refused_alone(tmp_path):
    items = [WANDB_RUNS[0], 7, "text", WANDB_RUNS[1]]
    jobs, _, rejected = ingest_text(tmp_path, json.dumps(items))
    assert jobs.height == 2
    assert rejected["row"].to_list() == [2, 3]
    lines = "\n".join([json.dumps(WANDB_RUNS[0]), "{", "[" * 100_000, json.dumps(WANDB_RUNS[1])])
    jobs, _, rejected = ingest_text(tmp_path, lines)
    assert jobs.height == 2
    assert rejected["row"].to_list() == [2, 3]


@given(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=8))
def test_hashes_tell_every_extra_value(parts):
    hashes = parallel_read.Hashes()
    for part in parts:
        hashes.add(np.array(part, np.uint64))
    values = [value for part in parts for value in part]
    extra = sorted(v for v in set(values) for _ in range(values.count(v) - 1))
    assert hashes.repeated().tolist() == extra
