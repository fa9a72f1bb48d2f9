"""Whatever ingest writes, every command reads: one table of rules for the writer and the reader."""

import csv
import io
import json
import math
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support_slurm import log, run

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.column_rules import COLUMN_RULES
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.job_table.schema import CANONICAL, LEAST_S, STATES
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace

ALL = Limit.of("100%")
ROWS = 4
GOOD = {
    "job_id": "a", "user": "u", "group": "g", "job_class": "c",
    "submit_time": "2026-01-01T00:00:00Z", "queue_s": "10", "duration_s": "600", "num_gpus": "1",
    "num_workers": "1", "gpu_type": "L4", "state": "completed", "source_state": "ok",
    "priority": "hp", "deadline_s": "7200", "attempts": "1",
}  # fmt: skip
TEXTS = (
    "", "-1", "-0", "0", "nan", "NaN", "inf", "-inf", "Infinity", "1e300", "-1e300", "1e400",
    "5e-324", "1e-300", "1e-7", "0.5", "true", "x", "9" * 5000, "-" + "9" * 40, "2147483647",
    "2147483648",
    "3155760000", "3155760001", "10000000", "10000001", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", "1e18", "\U0001f600", "\0",
)  # fmt: skip
NUMBERS = st.one_of(
    st.floats(), st.sampled_from([0.0, -0.0, 5e-324, 1e-7, 1e-6, 1e7, 1e308, math.nan, math.inf])
)


def rows_with(column, values):
    """Return rows of canonical text cells, with these in one column, after a good one."""
    rows = [{**GOOD, column: value} for value in (GOOD[column], *values)]
    return [row if column == "job_id" else {**row, "job_id": str(i)} for i, row in enumerate(rows)]


def written(folder, rows, route):
    """Write rows by a route into ingest; returns the source and what to say about it."""
    if route == "parquet":
        frame = pl.DataFrame(rows, schema=dict.fromkeys(CANONICAL, pl.String))
        frame.write_parquet(folder / "in.parquet")
        return folder / "in.parquet", IngestOptions()
    names = {name: f"my_{name}" for name in CANONICAL} if route == "map" else {}
    out = io.StringIO()
    table = csv.DictWriter(out, list(CANONICAL))
    table.writer.writerow([names.get(name, name) for name in CANONICAL])
    table.writerows(rows)
    (folder / "in.csv").write_text(out.getvalue(), encoding="utf-8", newline="")
    return folder / "in.csv", IngestOptions(names)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(list(CANONICAL)),
    st.lists(st.one_of(st.sampled_from(TEXTS), NUMBERS.map(repr)), min_size=1, max_size=6),
    st.sampled_from(["csv", "map", "parquet"]),
)
def test_what_ingest_writes_is_read_and_the_rest_is_rejected(tmp_path, column, values, route):
    source, choices = written(tmp_path, rows_with(column, values), route)
    result = ingest([source], tmp_path / "t.parquet", choices=choices, limit=ALL)
    trace = read_trace(tmp_path / "t.parquet")
    rejected = result.provenance.rows_rejected
    assert trace.rows + sum(rejected.values()) == result.provenance.rows_read
    assert "" not in rejected


@pytest.mark.parametrize("route", ["csv", "map", "parquet"])
@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("queue_s", "-1", "negative_wait"),
        ("queue_s", "1e300", "out_of_range"),
        ("queue_s", "nan", "unreadable"),
        ("duration_s", "-1e-9", "negative_duration"),
        ("num_gpus", "-0.5", "negative_gpus"),
        ("num_gpus", "1e-300", "out_of_range"),
        ("num_gpus", "", "missing"),
        ("deadline_s", "0", "bad_deadline"),
        ("num_workers", "0", "unreadable"),
        ("num_workers", "2147483647", "out_of_range"),
        ("attempts", "10000001", "out_of_range"),
    ],
)
def test_a_cell_out_of_range_is_rejected_with_its_reason(tmp_path, column, value, reason, route):
    source, choices = written(tmp_path, rows_with(column, [value]), route)
    result = ingest([source], tmp_path / "t.parquet", choices=choices, limit=ALL)
    assert result.provenance.rows_rejected == {reason: 1}
    rejects = pl.read_parquet(result.rejects_file)
    assert rejects["column"].to_list() == [f"my_{column}" if route == "map" else column]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([name for name, kind in CANONICAL.items() if kind.is_numeric()]),
    st.one_of(NUMBERS, st.none(), st.integers(-(2**63), 2**64 - 1)),
)
def test_a_trace_of_another_tool_is_read_or_refused_at_its_cell(tmp_path, column, value):
    jobs = pl.DataFrame(
        {
            "submit_time": [datetime(2026, 1, 1, tzinfo=UTC)] * 2,
            "duration_s": [1.0, 2.0],
            "num_gpus": [1.0, 1.0],
        }
    )
    kind = pl.UInt64() if isinstance(value, int) and value >= 0 else None
    good = 1 if isinstance(value, int) else 1.0
    jobs = jobs.with_columns(pl.Series(column, [good, value], kind))
    jobs.write_parquet(tmp_path / "t.parquet")
    try:
        read = read_trace(tmp_path / "t.parquet")
    except InputError as error:
        assert f"t.parquet:2: column {column!r}: found " in str(error)
        return
    assert not any(read.jobs.select(rule.broken.any()).item() for rule in COLUMN_RULES.values())


def test_a_whole_number_of_another_type_is_told_as_it_stands(tmp_path):
    jobs = {"submit_time": [datetime(2026, 1, 1, tzinfo=UTC)], "duration_s": [1.0]}
    for cell, said in ((1.5, "found 1.5"), (float("nan"), "found nan"), (2**63, "found 9223372")):
        frame = pl.DataFrame({**jobs, "num_gpus": [1.0], "num_workers": [cell]})
        frame.write_parquet(tmp_path / "t.parquet")
        with pytest.raises(InputError, match=f"column 'num_workers': {said}.*a whole number, 1 to"):
            read_trace(tmp_path / "t.parquet")


def test_sums_over_the_rows_of_a_job_are_checked_too(tmp_path):
    rows = [run(8 + i, "COMPLETED", JobID=f"9+{i}", AllocTRES="gres/gpu=9000000") for i in (0, 1)]
    rows = [{**row, "Submit": rows[0]["Submit"], "Start": rows[0]["Start"]} for row in rows]
    (tmp_path / "log.txt").write_text(log(*rows, run(12, "COMPLETED", JobID="10")))
    result = ingest([tmp_path / "log.txt"], tmp_path / "t.parquet", limit=ALL)
    provenance = result.provenance
    assert read_trace(result.output).jobs["job_id"].to_list() == ["10"]
    assert (provenance.rows_read, provenance.rows_kept, provenance.rows_rejected) == (
        2,
        1,
        {"out_of_range": 1},
    )
    (reject,) = pl.read_parquet(result.rejects_file).rows(named=True)
    assert (reject["row"], reject["column"], reject["found"]) == (2, "num_gpus", "18000000.0")
    assert json.loads(reject["raw"])["job_id"] == "9"


def test_a_time_above_0_is_at_least_a_microsecond(tmp_path):
    values = {"duration_s": "5e-324", "deadline_s": "5e-324"}
    source, _ = written(tmp_path, [{**GOOD, **values}, {**GOOD, "job_id": "b"}], "csv")
    ingest([source], tmp_path / "t.parquet")
    first = read_trace(tmp_path / "t.parquet").jobs.row(0, named=True)
    assert (first["duration_s"], first["deadline_s"]) == (LEAST_S, LEAST_S)
    scaled = read_trace(tmp_path / "t.parquet", Selection(scale_duration=1e-8)).jobs
    assert scaled["duration_s"].to_list() == pytest.approx([LEAST_S, 6e-6])


COMMANDS = (
    ("characterize", "--fits"),
    ("pareto", "--speedup", "power:0.8"),
    ("sweep", "--threshold", "1h"),
    ("simulate",),
    ("compare",),
    ("synth", "--jobs", "5", "-o", "OUT"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_reads_the_edges_of_what_ingest_writes(gpuplan, tmp_path, command):
    edges = {
        "submit_time": tuple(f"2026-01-01T0{hour}:00:00Z" for hour in range(ROWS)),
        "queue_s": ("0", "5e-324", "3155760000", ""),
        "duration_s": ("0", "5e-324", "600000", ""),
        "num_gpus": ("0", "1e-6", "64", "1"),
        "num_workers": ("10000000", "", "1", "1"),
        "attempts": ("10000000", "", "1", "1"),
        "deadline_s": ("5e-324", "3155760000", "", "1"),
        "state": (*STATES[:3], ""),
        "user": ("", "\0", "\U0001f600", "u" * 5000),
    }
    rows = [
        {**GOOD, **{name: cells[i] for name, cells in edges.items()}, "job_id": str(i)}
        for i in range(ROWS)
    ]
    source, _ = written(tmp_path, rows, "parquet")
    trace = tmp_path / "t.parquet"
    assert gpuplan("ingest", source, "-o", trace)[0] == 0
    name, *options = command
    options = [tmp_path / "s.parquet" if option == "OUT" else option for option in options]
    where = ["--like", trace] if name == "synth" else [trace]
    code, _, err = gpuplan(name, *where, *options)
    assert code == 0, err
