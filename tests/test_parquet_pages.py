"""Damaged headers of pages are refused before polars allocates what they ask for."""

import os

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.storage.parquet_pages import check_pages
from gpuplan.analysis.trace.trace import read_trace


def columns(rows=20_000):
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "few": rng.integers(0, 9, rows),
            "many": rng.random(rows),
            "text": [f"job-{row % 17}" for row in range(rows)],
            "parts": [[row, row + 1] for row in range(rows)],
            "flag": rng.random(rows) > 0.5,
            "none": [None] * rows,
        }
    )


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "snappy", "gzip", "lz4"])
def test_files_of_polars_pass(tmp_path, compression):
    path = tmp_path / "t.parquet"
    columns().write_parquet(path, compression=compression, row_group_size=5_000)
    check_pages(path)
    columns(0).write_parquet(path)
    check_pages(path)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("has_dictionary", [False, True])
def test_files_of_pyarrow_pass(tmp_path, version, has_dictionary):
    path = tmp_path / "t.parquet"
    pq.write_table(columns().to_arrow(), path, data_page_version=version,
                   use_dictionary=has_dictionary, write_page_checksum=True, data_page_size=1000,
                   write_page_index=True)  # fmt: skip
    check_pages(path)


def one_page(path):
    """Write a trace with one page a column; return its bytes and where its counts stand."""
    pl.DataFrame(
        {"submit_time": pl.Series([0, 1, 2, 3]).cast(pl.Datetime("us", "UTC")),
         "duration_s": [1.5, 2.5, 3.5, 4.5], "num_gpus": [1.0, 2.0, 4.0, 8.0]}
    ).write_parquet(path, compression="uncompressed", statistics=False)  # fmt: skip
    content = path.read_bytes()
    begin = [
        pq.ParquetFile(path).metadata.row_group(0).column(column).data_page_offset
        for column in range(3)
    ]
    # kind, two sizes, the page's own header: field 5, in it field 1, the count 4 as zigzag 8
    counts = [content.index(b"\x2c\x15\x08", at) + 2 for at in begin]
    return content, counts


@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("count", [b"\x07", b"\x0a", b"\x7f"])
def test_a_page_that_counts_otherwise_than_its_column_is_damage(tmp_path, column, count):
    path = tmp_path / "t.parquet"
    content, counts = one_page(path)
    assert read_trace(path).jobs.height == 4
    at = counts[column]
    path.write_bytes(content[:at] + count + content[at + 1 :])
    with pytest.raises(InputError, match=r"damaged Parquet file .a page counts other values"):
        read_trace(path)


@settings(deadline=None)
@given(at=st.integers(4, 10_000), byte=st.integers(0, 255))
def test_any_byte_is_good_or_an_error(tmp_path_factory, at, byte):
    path = tmp_path_factory.getbasetemp() / f"damaged-{os.getpid()}.parquet"
    content, _ = one_page(path)
    at = 4 + at % (len(content) - 4)
    path.write_bytes(content[:at] + bytes([byte]) + content[at + 1 :])
    try:
        check_pages(path)
    except OSError as error:
        assert "page" in str(error)
