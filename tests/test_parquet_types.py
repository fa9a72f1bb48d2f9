"""Parquet columns of every type, as tools write them: read, rejected or refused, never a panic."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.trace.trace import read_trace

ALL = Limit.of("100%")
FAR = 2**63 - 1
ODD = {
    **{
        f"{unit} {value}": pa.array([value], pa.timestamp(unit))
        for unit in ("ms", "us", "ns")
        for value in (FAR, -FAR)
    },
    "zoned": pa.array([FAR], pa.timestamp("us", "UTC")),
    "Nowhere": pa.array([0], pa.timestamp("us", "Nowhere/Else")),
    **{f"span {unit}": pa.array([FAR], pa.duration(unit)) for unit in ("ms", "us", "ns")},
    "date": pa.array([20_000], pa.date32()),
    "far date": pa.array([2**31 - 1], pa.date32()),
    "time": pa.array([5], pa.time64("us")),
    "far time": pa.array([2**62], pa.time64("us")),
    "decimal": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
    "long decimal": pa.array([Decimal("9" * 38)], pa.decimal128(38, 0)),
    "longest decimal": pa.array([Decimal("9" * 70)], pa.decimal256(76, 0)),
    "list": pa.array([[1.0]]),
    "array": pa.array([[1.0]], pa.list_(pa.float64(), 1)),
    "record": pa.array([{"a": {"b": [1]}}]),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\xff"]),
    "bytes of text": pa.array([b"1"]),
    "category": pa.array(["1"]).dictionary_encode(),
    "unsigned": pa.array([2**64 - 1], pa.uint64()),
    "half": pa.array([1.5], pa.float32()).cast(pa.float16()),
    "nan": pa.array([float("nan")]),
    "huge": pa.array([1e308]),
    "bool": pa.array([True]),
    "null": pa.nulls(1),
    "empty": pa.array([""]),
    "not UTF-8": pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers()),
}
"""What -> a column of one cell."""
DAMAGED = ("not UTF-8", "far time")
"""What the format itself forbids."""
NOT_OF_POLARS = ("Nowhere", "longest decimal")
"""What polars reads no file with, and says so itself on the terminal."""
JOB = {
    "job_id": "a", "user": "u", "group": "g", "job_class": "c",
    "submit_time": datetime(2026, 1, 1, tzinfo=UTC), "queue_s": 1.0, "duration_s": 60.0,
    "num_gpus": 1.0, "num_workers": 1, "gpu_type": "L4", "state": "completed",
    "source_state": "ok", "priority": "hp", "deadline_s": 600.0, "attempts": 1,
}  # fmt: skip
COLUMNS = ("submit_time", "duration_s", "num_workers", "user", "gpu_type", "state")
"""One of each kind."""
OFFER = {
    "timestamp": datetime(2026, 1, 1, tzinfo=UTC), "provider": "aws", "gpu_type": "L4",
    "region": "r", "kind": "spot", PRICE: 0.5, "available": 1, "instance": "i",
}  # fmt: skip


def write(path, row, column, cell):
    """Write a good row and one with an odd cell, in the type of that cell."""
    odd = pa.table({**{name: pa.array([value]) for name, value in row.items()}, column: cell})
    pq.write_table(odd, path)
    return path


@pytest.mark.parametrize("column", COLUMNS)
def test_no_type_in_no_column_of_a_trace_is_a_bug(tmp_path, capfd, column):
    mapped = IngestOptions({"submit_time": "submit_time"} if column in ("user", "gpu_type") else {})
    for what, cell in ODD.items():
        source = write(tmp_path / "in.parquet", JOB, column, cell)
        try:
            result = ingest([source], tmp_path / "t.parquet", choices=mapped, limit=ALL)
            assert read_trace(result.output).rows == 1
        except InputError as error:
            assert "damaged" not in str(error) or what in DAMAGED, what
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("column", COLUMNS)
def test_no_type_in_no_column_of_a_trace_of_another_tool_is_a_bug(tmp_path, capfd, column):
    for what, cell in ODD.items():
        if what in NOT_OF_POLARS:
            continue
        source = write(tmp_path / "in.parquet", JOB, column, cell)
        try:
            assert read_trace(source).rows == 1
        except InputError as error:
            assert f"column {column!r}" in str(error) or what in DAMAGED, error
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("column", ["timestamp", "gpu_type", "kind", PRICE, "available"])
def test_no_type_in_no_column_of_a_price_table_is_a_bug(tmp_path, capfd, column):
    for what, cell in ODD.items():
        source = write(tmp_path / "in.parquet", OFFER, column, cell)
        try:
            result = ingest_prices([source], tmp_path / "p.parquet", limit=ALL)
            assert read_prices(result.output).rows == 1
        except InputError as error:
            assert "damaged" not in str(error) or what in DAMAGED, what
        if what in NOT_OF_POLARS:
            continue
        try:
            assert read_prices(source).rows == 1
        except InputError as error:
            assert f"column {column!r}" in str(error) or what in DAMAGED, error
    assert "panicked" not in capfd.readouterr().err


def test_a_time_that_cannot_be_written_is_rejected_as_the_number_it_is(tmp_path):
    cells = pa.array([0, FAR], pa.timestamp("ms"))
    rows = {name: pa.array([value] * 2) for name, value in JOB.items() if name != "job_id"}
    pq.write_table(pa.table({**rows, "submit_time": cells}), tmp_path / "in.parquet")
    result = ingest([tmp_path / "in.parquet"], tmp_path / "t.parquet", limit=ALL)
    (reject,) = pl.read_parquet(result.rejects_file).rows(named=True)
    assert (reject["row"], reject["reason"], reject["column"]) == (2, "unreadable", "submit_time")
    assert reject["found"] == f"{FAR} ms after 1970"


def test_spans_of_time_are_read_as_seconds_and_bytes_as_text(tmp_path):
    frame = pl.DataFrame(
        {
            "submit_time": [datetime(2026, 1, 1, tzinfo=UTC)] * 2,
            "duration_s": [timedelta(seconds=90.5), None],
            "num_gpus": [1, 2],
            "user": [b"kim", b""],
        }
    )
    frame.write_parquet(tmp_path / "in.parquet")
    result = ingest([tmp_path / "in.parquet"], tmp_path / "t.parquet")
    jobs = read_trace(result.output).jobs
    assert jobs["duration_s"].to_list() == [90.5, None]
    assert jobs["user"].to_list() == ["kim", None]


@pytest.mark.parametrize("what", ["list", "record", "map", "array"])
def test_a_column_of_lists_is_refused_by_its_name(tmp_path, what):
    source = write(tmp_path / "in.parquet", JOB, "user", ODD[what])
    with pytest.raises(InputError, match="column 'user': holds lists or records; expected text"):
        ingest([source], tmp_path / "t.parquet")
    extra = pq.read_table(source).rename_columns(["tags" if n == "user" else n for n in JOB])
    pq.write_table(extra, source)  # where nothing asks for it, it does no harm
    assert ingest([source], tmp_path / "t.parquet").provenance.rows_kept == 1
