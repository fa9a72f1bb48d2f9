"""Plans for logs with waits: today's bill has them, and that of jobs that all start at once not."""

import json

import pytest
from support_traces import write_trace

pytestmark = pytest.mark.kernels
HOUR, DAY = 3600.0, 86400.0
MONTH_H = 730.5
PRICES = ("--commit", "1.2", "--on-demand", "1.29", "--provision-delay", "0")
OWNED = (*PRICES, "--owned", "A100=2")


@pytest.fixture
def queued(tmp_path):
    """24 days, each with three jobs of 2 GPUs and 6 h at its begin, one after the other."""
    return write_trace(
        tmp_path / "queued.parquet",
        [DAY * day for day in range(24) for _ in range(3)],
        [6 * HOUR] * 72,
        [2.0] * 72,
        gpu_type=["A100"] * 72,
        queue_s=[0.0, 6 * HOUR, 12 * HOUR] * 24,
    )


def results_of(gpuplan, *words):
    code, out, err = gpuplan("plan", *words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


def headline_of(gpuplan, *words):
    code, out, err = gpuplan("plan", *words)
    assert code == 0, err
    return " ".join(out.split("\n\n")[0].split())


def test_the_headline_compares_with_todays_bill_and_names_the_other(gpuplan, queued):
    results, text = results_of(gpuplan, queued, *OWNED), headline_of(gpuplan, queued, *OWNED)
    # 2 GPUs owned are enough with waits; all at once 4 more are rented for 6 h a day
    window_h = 23 * 24 + 18
    assert results["today"]["usd_per_month"] == 0
    assert results["today"]["mean_wait_s"] == pytest.approx(6 * HOUR)
    usd = MONTH_H * 1.29 * 4 * 6 * 24 / window_h
    assert results["usd_per_month"] == pytest.approx(usd)
    assert "a month more than today, for 6 h less time per job" in text
    assert "renting all above the owned GPUs if every job started at once" in text


def test_todays_bill_in_shares_where_there_is_one(gpuplan, queued):
    text = headline_of(gpuplan, queued, *PRICES)
    # 6 GPUs for 6 h a day are as many GPU-hours as 2 for 18 h
    assert ", about the same as today, for 6 h less time per job" in text
    assert "all on demand if every job started at once" in text
    cheap = headline_of(gpuplan, queued, "--commit", "0.3", *PRICES[2:])
    assert "less than today's $" in cheap and "for 6 h less time per job" in cheap
