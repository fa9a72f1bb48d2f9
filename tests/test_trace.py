"""Reading a canonical trace: what is refused and how, what is filled, selection and scaling."""

import contextlib
import os
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_traces import ORIGIN, frame, write

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import FIRST_SUBMIT, LAST_SUBMIT
from gpuplan.analysis.job_table.sampling import draw_jobs
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    SCHEMA_VERSION,
    STATES,
    Provenance,
)
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import _scaled, read_trace


@pytest.fixture
def ten(tmp_path):
    """Ten jobs, one a minute, durations 0 to 90 s, 1 or 2 GPUs, two users."""
    jobs = frame(
        [60 * i for i in range(10)],
        duration_s=[10.0 * i for i in range(10)],
        num_gpus=[1.0 + i % 2 for i in range(10)],
        user=["ann", "bob"] * 5,
        state=["completed"] * 9 + ["running"],
    )
    return write(tmp_path / "ten.parquet", jobs)


def test_a_minimal_file_gets_every_column_in_its_type(tmp_path):
    jobs = frame([5, 0], duration_s=[1.0, None], num_gpus=[1.0, 2.0])
    trace = read_trace(write(tmp_path / "t.parquet", jobs))
    assert dict(trace.jobs.schema) == CANONICAL
    first = trace.jobs.row(0, named=True)
    assert first["job_id"] == "1"  # made from the row of the file, before sorting
    assert (first["duration_s"], first["state"], first["attempts"]) == (None, "unknown", 1)
    assert first["user"] is None and first["queue_s"] is None
    assert trace.submit_s.tolist() == [0.0, 5.0]
    assert (trace.rows, len(trace.sha256)) == (2, 64)
    assert trace.provenance == Provenance(source_format="canonical")


def test_jobs_are_sorted_and_ties_keep_the_order_of_the_file(tmp_path):
    jobs = frame([9, 1, 9, 1], duration_s=[1.0, 2.0, 3.0, 4.0], num_gpus=[1.0] * 4)
    trace = read_trace(write(tmp_path / "t.parquet", jobs))
    assert trace.jobs["duration_s"].to_list() == [2.0, 4.0, 1.0, 3.0]


def test_only_the_columns_asked_for_are_read(ten):
    assert read_trace(ten, columns=["user"]).jobs.columns == ["submit_time", "user"]


def test_types_of_other_tools_are_converted(tmp_path):
    jobs = pl.DataFrame(
        {
            "submit_time": [ORIGIN.replace(tzinfo=None), ORIGIN.replace(tzinfo=None)],
            "duration_s": [3, 4],
            "num_gpus": pl.Series([1, 2], dtype=pl.Int8),
            "job_id": [7, 8],
            "state": ["completed", "a word of its own"],
            "num_workers": pl.Series([None, 2], dtype=pl.Int64),
            "user": pl.Series([None, None], dtype=pl.Null),
            "priority": pl.Series(["hp", "spot"], dtype=pl.Enum(["spot", "hp"])),
        }
    ).with_columns(pl.col("submit_time").cast(pl.Datetime("ms")))
    trace = read_trace(write(tmp_path / "t.parquet", jobs))
    assert dict(trace.jobs.schema) == CANONICAL
    assert trace.jobs["submit_time"][0] == ORIGIN  # without a zone it is UTC
    assert trace.jobs["state"].to_list() == ["completed", "unknown"]
    assert trace.jobs["priority"].to_list() == ["hp", "spot"]
    assert trace.jobs["num_workers"].to_list() == [1, 2]
    assert trace.jobs["job_id"].to_list() == ["7", "8"]


def test_a_zoned_time_is_the_same_instant(tmp_path):
    jobs = frame([0], duration_s=[1.0], num_gpus=[1.0]).with_columns(
        pl.col("submit_time").dt.convert_time_zone("Asia/Tokyo")
    )
    assert read_trace(write(tmp_path / "t.parquet", jobs)).jobs["submit_time"][0] == ORIGIN


@pytest.mark.parametrize(
    ("column", "bad", "message"),
    [
        ("duration_s", -1.0, "2: column 'duration_s': found -1.0 (1 such row); expected seconds"),
        ("duration_s", float("nan"), "found nan"),
        ("duration_s", float("inf"), "found inf"),
        ("num_gpus", None, "found nothing"),
        ("num_gpus", -0.5, "expected a number of GPUs, 0 to 10,000,000"),
        ("num_gpus", 1e13, "expected a number of GPUs, 0 to 10,000,000"),
        ("duration_s", 3.2e9, "expected seconds, from 0 to a century (or nothing)"),
        ("queue_s", 1e300, "expected seconds, from 0 to a century (or nothing)"),
        ("queue_s", -3.0, "column 'queue_s': found -3.0"),
        ("deadline_s", 0.0, "expected seconds after submission, above 0"),
        ("submit_time", None, "expected a submission time in every row"),
    ],
)
def test_a_bad_cell_is_located(tmp_path, column, bad, message):
    good = {"duration_s": 1.0, "num_gpus": 1.0, "queue_s": 0.0, "deadline_s": 5.0}
    cells = {name: [value, value] for name, value in good.items()}
    jobs = frame([0, 1], **cells).with_row_index()
    spoiled = pl.when(pl.col("index") == 1).then(pl.lit(bad)).otherwise(pl.col(column))
    jobs = jobs.with_columns(spoiled.alias(column)).drop("index")
    path = write(tmp_path / "t.parquet", jobs)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}:2: column {column!r}")
    assert message in str(caught.value) and "next: ingest the file" in str(caught.value)


@pytest.mark.parametrize(
    ("unit", "after_1970", "year"),
    [
        ("us", 2**62, "148108"),
        ("us", -(2**62), "-144169"),
        ("ms", 2**62, "146140482"),  # which 64 bits of microseconds do not hold
        ("us", 253_402_300_799_999_999, "9999"),  # the last one that Python can write
        ("us", -62_135_596_800_000_000, "1"),  # year 1 began at midnight, but not in New York
    ],
)
def test_a_submission_beyond_the_calendar_is_told_by_its_year(tmp_path, unit, after_1970, year):
    path = tmp_path / "far.parquet"
    times = pl.Series([0, after_1970, 5, after_1970]).cast(pl.Datetime(unit, "UTC"))
    far = pl.DataFrame({"submit_time": times, "duration_s": [1.0] * 4, "num_gpus": [1.0] * 4})
    with pytest.raises(InputError) as caught:
        read_trace(write(path, far))
    assert str(caught.value).startswith(
        f"{path}:2: column 'submit_time': found a time of about the year {year} (2 such rows); "
        "expected a submission time in every row, of the years 1 to 9798\n  next: ingest the file"
    )


def test_the_first_and_last_times_are_submissions(tmp_path):
    jobs = frame([0, 0], duration_s=[1.0, 1.0], num_gpus=[1.0, 1.0]).with_columns(
        submit_time=pl.Series([FIRST_SUBMIT, LAST_SUBMIT])
    )
    assert read_trace(write(tmp_path / "t.parquet", jobs)).jobs.height == 2


def test_what_is_not_a_trace_is_refused_with_the_next_step(tmp_path):
    text = tmp_path / "log.csv"
    text.write_text("a,b\n1,2\n")
    empty = tmp_path / "empty.parquet"
    empty.touch()
    lacking = write(tmp_path / "x.parquet", pl.DataFrame({"submit_time": [1], "runtime": [2]}))
    typed = write(tmp_path / "y.parquet", frame([0], num_gpus=[1.0], duration_s=[1.0]))
    pl.read_parquet(typed).with_columns(duration_s=pl.lit("soon")).write_parquet(typed)
    none = write(tmp_path / "z.parquet", frame([], num_gpus=[], duration_s=[]))
    for path, message in (
        (text, f"is not a Parquet file; expected a canonical trace\n  next: bring a log into the "
               f"canonical schema: gpuplan ingest {text}"),
        (empty, "is empty"),
        (lacking, "no column duration_s, num_gpus; found submit_time, runtime"),
        (typed, "column 'duration_s': holds text; expected numbers\n  next: have it read: gpu"),
        (none, "has no jobs"),
        (tmp_path, "is a folder"),
        (tmp_path / "ninguno", "no such file"),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            read_trace(path)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("column", "cells", "says"),
    [
        ("user", [["ann"]], "holds lists or records; expected text"),
        ("priority", [1], "holds numbers; expected one of hp, spot"),
        ("submit_time", [5], "holds numbers; expected times"),
        ("num_gpus", [True], "holds true or false; expected numbers"),
    ],
)
def test_a_column_of_a_wrong_type_is_told_in_plain_words(tmp_path, column, cells, says):
    jobs = frame([0], num_gpus=[1.0], duration_s=[1.0]).with_columns(pl.Series(column, cells))
    with pytest.raises(InputError, match=f"column '{column}': {says}\n  next: have it read"):
        read_trace(write(tmp_path / "t.parquet", jobs))


def test_a_name_that_is_not_utf8_is_told(ten):
    odd = ten.with_name(os.fsdecode(b"odd\xff.parquet"))
    ten.rename(odd)
    with pytest.raises(InputError, match="not UTF-8"):
        read_trace(odd)


def test_a_damaged_file_is_named(ten):
    whole = ten.read_bytes()
    for damaged in (whole[:200], whole[:300] + bytes(200) + whole[500:]):
        ten.write_bytes(damaged)
        with pytest.raises(InputError, match="is a damaged Parquet file"):
            read_trace(ten)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_damage_is_told_as_such_or_does_no_harm(ten, tmp_path, data):
    content = bytearray(ten.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(content[: data.draw(st.integers(5, len(content)))])
    with contextlib.suppress(InputError):
        read_trace(damaged)


def test_metadata_is_read_and_a_newer_schema_refused(tmp_path):
    jobs = frame([0], duration_s=[1.0], num_gpus=[1.0])
    stored = Provenance(source_format="philly", time_zone="America/Los_Angeles", notes=("n",))
    assert read_trace(write(tmp_path / "a.parquet", jobs, stored)).provenance == stored
    newer = Provenance(source_format="philly", schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(InputError, match="upgrade gpuplan"):
        read_trace(write(tmp_path / "b.parquet", jobs, newer))
    jobs.write_parquet(tmp_path / "c.parquet", metadata={"gpuplan": "[1]"})
    with pytest.raises(InputError, match="metadata cannot be read"):
        read_trace(tmp_path / "c.parquet")


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("num_gpus >= 2", 5),
        ("state = 'running'", 1),
        ("\"user\" = 'ann' AND duration_s > 20", 3),
        ("num_workers = 1", 10),  # a column the file does not have
        ("duration_s > AVG(duration_s)", 5),
    ],
)
def test_where_keeps_the_jobs_for_which_it_holds(ten, where, kept):
    trace = read_trace(ten, Selection(where=where))
    assert (trace.jobs.height, trace.rows) == (kept, 10)


@pytest.mark.parametrize(
    "where",
    ["nope > 1", "num_gpus", "num_gpus >", "user = 'ann'", "CAST(job_id AS INT) > 'x'",
     "CAST(\"user\" AS INT) > 3", "num_gpus > 1; DROP TABLE jobs"],
)  # fmt: skip
def test_a_predicate_that_cannot_be_meant_is_refused(ten, where):
    with pytest.raises(UsageError, match=r"--where .*\n  next: columns: job_id, user") as caught:
        read_trace(ten, Selection(where=where))
    assert str(caught.value).count("\n") == 1


def test_a_predicate_that_is_no_sql_is_told_in_our_words(ten):
    for where, says in (
        ("Cluster = 'east'", 'Cluster is a word of SQL; as a column it is "Cluster"'),
        ("user = 'u31c7'", 'user is a word of SQL; as a column it is "user"'),
        ("num_gpus > 1 AND Group = 'a'", 'Group is a word of SQL; as a column it is "group"'),
        ("submit_time > '2023-03-10'", "submit_time has a zone; it compares with no text"),
        ("num_gpus >", "is not a complete SQL condition"),
        ("num_gpus = 'x'", "compares text with a number"),
        ("submit_time > TIMESTAMP '2023-03-10 00:00:00'", "submit_time has a zone"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as raised:
            read_trace(ten, Selection(where=where))
        assert f": {says}" in str(raised.value)
    hinted = ("DATE '2026-01-31'", "'2026-01-31T12:00:00Z'::timestamptz")
    for time in hinted:
        assert time in str(raised.value)
        assert read_trace(ten, Selection(where=f"submit_time < {time}")).jobs.height == 10
    day = f"{ORIGIN:%Y-%m-%dT%H:%M:%S}Z"
    where = f"submit_time <= '{day}'::timestamptz"
    assert read_trace(ten, Selection(where=where)).jobs.height == 1


def test_since_is_included_and_until_is_not(ten):
    chosen = Selection(since=ORIGIN + timedelta(seconds=120), until=ORIGIN + timedelta(seconds=300))
    assert read_trace(ten, chosen).jobs["duration_s"].to_list() == [20.0, 30.0, 40.0]


def test_nothing_left_is_an_error(ten):
    with pytest.raises(InputError, match="none of its 10 jobs is left"):
        read_trace(ten, Selection(where="num_gpus > 99"))


def test_a_sample_is_a_subset_in_order_that_its_seed_decides(ten):
    def drawn(seed):
        return read_trace(ten, Selection(sample=4, seed=seed)).jobs["duration_s"].to_list()

    assert drawn(1) == drawn(1) == sorted(drawn(1))
    assert len(set(drawn(1))) == 4
    assert len({tuple(drawn(seed)) for seed in range(20)}) > 5


def test_a_sample_of_every_job_says_so(ten):
    (note,) = read_trace(ten, Selection(sample=50)).notes
    assert "takes all 10 jobs" in note
    assert read_trace(ten).notes == ()


def test_a_sample_is_uniform():
    jobs = frame(range(5), duration_s=[float(i) for i in range(5)], num_gpus=[1.0] * 5)
    seen = np.zeros(5)
    for seed in range(600):
        chosen = draw_jobs(jobs, 2, seed)
        seen[chosen["duration_s"].cast(pl.Int64).to_numpy()] += 1
    # Each job is drawn with probability 2/5: 240 times, standard deviation 12.
    assert np.abs(seen - 240).max() < 5 * 12


def test_scaling_stretches_gaps_and_durations_and_keeps_the_first_submission(ten):
    trace = read_trace(ten, Selection(scale_duration=2, scale_interarrival=0.5))
    assert trace.jobs["submit_time"][0] == ORIGIN
    assert trace.submit_s.tolist() == [30.0 * i for i in range(10)]
    assert trace.jobs["duration_s"].to_list() == [20.0 * i for i in range(10)]
    assert dict(trace.jobs.schema) == CANONICAL


def test_scaling_past_the_calendar_is_refused(ten):
    with pytest.raises(UsageError, match="past the year 9798"):
        read_trace(ten, Selection(scale_interarrival=1e12))


@pytest.mark.filterwarnings("error")
def test_scales_that_leave_the_numbers_are_refused_without_a_warning(ten):
    with pytest.raises(UsageError, match="past the year 9798"):
        read_trace(ten, Selection(scale_interarrival=1e300))
    for scale in (1e8, 1e300, 1e308):
        with pytest.raises(UsageError, match="the longest job run for more than a century"):
            read_trace(ten, Selection(scale_duration=scale))


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_must_be_positive(scale):
    with pytest.raises(UsageError, match="--scale-duration must be above 0"):
        Selection(scale_duration=scale)
    with pytest.raises(UsageError, match="--sample must be at least 1"):
        Selection(sample=0)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=20).map(sorted),
    st.floats(0.01, 100),
)
def test_scaling_gaps_keeps_order_and_ratio(submit_s, scale):
    jobs = frame(submit_s, duration_s=[1.0] * len(submit_s), num_gpus=[1.0] * len(submit_s))
    scaled = _scaled(jobs, Selection(scale_interarrival=scale))["submit_time"]
    assert scaled.is_sorted() and scaled[0] == jobs["submit_time"][0]
    moved = (scaled - scaled[0]).dt.total_microseconds().to_numpy() / 1e6
    expected = (np.array(submit_s) - submit_s[0]) * scale
    np.testing.assert_allclose(moved, expected, atol=1e-6)


def test_every_state_is_known(tmp_path):
    jobs = frame(
        range(len(STATES)),
        duration_s=[1.0] * len(STATES),
        num_gpus=[1.0] * len(STATES),
        state=list(STATES),
    )
    trace = read_trace(write(tmp_path / "t.parquet", jobs))
    assert trace.jobs["state"].to_list() == list(STATES)


def test_a_damaged_arrow_schema_is_told_as_damage(tmp_path):
    whole = tmp_path / "whole.parquet"
    pl.DataFrame(
        {
            "submit_time": pl.Series([0]).cast(pl.Datetime("us", "UTC")),
            "duration_s": [1.0],
            "num_gpus": [1.0],
        }
    ).write_parquet(whole)
    data = whole.read_bytes()
    at = data.index(b"ARROW:schema")
    path, refused = tmp_path / "damaged.parquet", 0
    for position in range(at + 300, at + 360):
        path.write_bytes(data[:position] + b"A" + data[position + 1 :])
        try:
            read_trace(path)
        except InputError as error:
            refused += 1
            assert "damaged Parquet file" in str(error)
    assert refused


def test_a_trace_without_run_times_is_mapped_as_its_refusal_says(gpuplan, tmp_path):
    jobs = pl.DataFrame({"submit_time": [ORIGIN], "num_gpus": [2.0], "ran": [60.0]})
    path, out = tmp_path / "jobs.parquet", tmp_path / "t.parquet"
    jobs.write_parquet(path)
    code, _, err = gpuplan("simulate", path)
    step = f"next: name its columns: gpuplan ingest {path} -o trace.parquet --map duration_s=COLUMN"
    assert code == 3 and err.rstrip().endswith(step)
    assert gpuplan("ingest", path, "-o", out, "--map", "duration_s=ran")[0] == 0
    assert read_trace(out).jobs["duration_s"].to_list() == [60.0]
    jobs.with_columns(duration_s=pl.lit(None, pl.Float64)).write_parquet(path)
    code, _, err = gpuplan("simulate", path)
    assert code == 3 and "--map duration_s=COLUMN (or start_time and end_time)" in err
