"""Prices worked out by hand: by type, in any spelling, and months of 730.5 hours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import scaled_to_month
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest


@given(st.integers(1, 10_000), st.floats(0, 100), st.floats(1, 1e8))
def test_a_window_scaled_to_a_month_is_the_bill_of_a_month(gpus, usd, window_s):
    month = scaled_to_month(gpus * usd * window_s / 3600, window_s)
    assert month == pytest.approx(gpus * usd * 730.5)


def test_no_time_has_no_month():
    assert scaled_to_month(1.0, 0.0) is None


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


def test_prices_given_come_before_those_of_a_table():
    prices = Prices.read(PriceRequest({"T4": 0.1}, prices="builtin", gpu="A100"))
    assert (prices.usd("Tesla T4"), prices.of("T4").source) == (0.1, "--price")
    a100 = prices.of("A100-80GB")
    assert a100.usd_per_gpu_h == 3.205 and len(a100.offers) == 4
    assert prices.of(None) == prices.of("unknown") == prices.of("A100")
    assert prices.get("TPU") is None
    with pytest.raises(UsageError, match="--prices builtin: no price of TPU, only of"):
        prices.of("TPU")


def test_jobs_that_name_no_type_may_have_a_price_of_their_own():
    prices = Prices({"A100": 2.0, "unknown": 1.0})
    assert prices.usd(None) == prices.usd("unknown") == 1.0
    assert prices.unmatched_note(["A100", None]) == ()


@pytest.mark.parametrize(
    ("prices", "gpu_type", "said"),
    [
        (Prices(), "A100", "no price: say what a GPU-hour costs"),
        (Prices({"A100": 1.0}), "T4", "--price: T4 has no price, only A100\n.*--price T4=USD"),
        (Prices({"A100": 1.0}, option="--commit"), None, "--commit: jobs that name no GPU type"),
        (Prices.read(PriceRequest(prices="builtin")), None, "say which with --gpu, one of"),
    ],
)
def test_a_type_without_a_price(prices, gpu_type, said):
    with pytest.raises(UsageError, match=said):
        prices.of(gpu_type)
    assert prices.get(gpu_type) is None
