"""Bills worked out by hand: windows, months, prices by type, GPU-hours by group."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.bill import (
    USAGE_COLUMNS,
    gpu_hours_by,
    month_usd,
    scaled_to_month,
    window_usd,
)
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.money.price_book import Prices


def test_a_bill_of_two_gpus_over_a_day_and_a_month():
    assert window_usd(2, 1.5, 86_400) == 72
    assert month_usd(2, 1.5) == pytest.approx(2 * 1.5 * 730.5)
    assert scaled_to_month(72, 86_400) == pytest.approx(month_usd(2, 1.5))
    assert scaled_to_month(1.0, 0.0) is None


@given(st.integers(1, 10_000), st.floats(0, 100), st.floats(1, 1e8))
def test_a_window_scaled_to_a_month_is_the_bill_of_a_month(gpus, usd, window_s):
    month = scaled_to_month(window_usd(gpus, usd, window_s), window_s)
    assert month == pytest.approx(month_usd(gpus, usd))


def test_a_type_has_its_own_price_in_any_spelling_and_others_the_usual():
    prices = Prices({"A100": 1.0, "h100": 3.0, "": 0.5})
    assert prices.usd("A100-SXM4-80GB") == 1.0
    assert prices.of("H100").usd_per_gpu_h == 3.0
    assert prices.usd("T4") == prices.usd(None) == 0.5
    assert Prices({"A100": 1.0}).get("T4") is None


def test_the_mean_price_is_by_gpu_hours():
    prices = Prices({"A100": 1.0, "H100": 3.0})
    assert prices.mean({"A100": 30.0, "H100": 10.0}) == 1.5
    assert prices.mean({"A100": 30.0, "T4": 10.0}) is None
    assert Prices({"": 2.0}).mean({}) == 2.0


def test_a_price_below_zero_is_refused():
    with pytest.raises(UsageError, match="--price A100=-1"):
        Prices({"A100": -1.0})


def test_gpu_hours_by_user(tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", [0, 1, 2, 3], [3600.0, 7200.0, 3600.0, 3600.0],
        num_gpus=[1, 2, 4, 0], user=["ann", "bob", "ann", "bob"],
    )  # fmt: skip
    jobs = read_trace(path, columns=(*USAGE_COLUMNS, "user")).jobs
    found = gpu_hours_by(jobs.with_columns(pl.col("user").cast(pl.String)), "user")
    assert found.rows() == [("ann", 2, 5.0, 5 / 9), ("bob", 1, 4.0, 4 / 9)]
