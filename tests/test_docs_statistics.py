"""Every key that ``gpuplan characterize`` writes is a word in code type in its page of docs/."""

import json

import numpy as np
import pytest
from support_docs import undocumented, words_of
from support_traces import frame, write

from gpuplan.analysis.job_table.schema import Provenance


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Two traces with every column, a rhythm and bursts; the second has no calendar."""
    folder, rng = tmp_path_factory.mktemp("documented"), np.random.default_rng(0)
    made = []
    for name, relative in (("first", False), ("second", True)):
        counts = rng.poisson(1 + 3 * (np.arange(24 * 16) % 24 > 12))
        submit = np.repeat(np.arange(counts.size) * 3600.0, counts) + 1
        size = submit.size
        jobs = frame(
            submit,
            queue_s=rng.exponential(60, size),
            duration_s=rng.lognormal(6, 2, size),
            num_gpus=rng.choice([0.0, 1, 2, 8], size),
            state=rng.choice(["completed", "failed"], size),
            user=rng.choice([f"user{i}" for i in range(20)], size),
            job_class=rng.choice(["a", "b"], size),
            gpu_type=["A100-80GB"] * size,
        )
        stored = Provenance(source_format="csv", time_zone="UTC", relative_time=relative)
        made.append(write(folder / f"{name}.parquet", jobs, stored))
    return made


@pytest.fixture(scope="module")
def price_list(tmp_path_factory):
    path = tmp_path_factory.mktemp("prices") / "p.csv"
    hours = range(0, 24, 2)
    path.write_text(
        "timestamp,provider,gpu,region,kind,price_usd_per_gpu_hour,available\n"
        + "".join(f"2026-01-06T{h:02}:00:00Z,c,A100 80GB,r,spot,{1 + h},{h % 4}\n" for h in hours)
        + "2026-01-05T00:00:00Z,d,A100 80GB,r,on-demand,5,\n"
    )
    return path


def test_every_statistic_of_a_trace_is_documented(traces, gpuplan):
    code, out, err = gpuplan("characterize", traces[0], "--fits", "--ci", "90", "--top", "3",
                             "--output-format", "json")  # fmt: skip
    assert code == 0, err
    results = json.loads(out)["results"]
    fits = results.pop("fits")
    intervals = results["ci"]["statistics"]
    assert undocumented(results, ["characterize.md"]) == []
    assert undocumented(fits, ["fits.md"]) == []
    known = words_of("characterize.md")
    assert [path for path in intervals if not set(path.split(".")) <= known] == []
    # Every headline statistic has an interval, but for counts of what there is and for extremes.
    from gpuplan.cli.tables.characterize_tables import STATISTICS

    without = {path for path, *_ in STATISTICS} - set(intervals)
    assert without == {"jobs", "cpu_only_jobs", "censored_jobs", "span_s", "duration_s.max",
                       "arrivals.seasonality.peak_period_s"}  # fmt: skip


def test_every_statistic_of_a_comparison_is_documented(traces, gpuplan):
    code, out, err = gpuplan("characterize", *traces, "--ci", "90", "--output-format", "json")
    assert code == 0, err
    assert undocumented(json.loads(out)["results"], ["characterize.md"]) == []


def test_every_price_statistic_is_documented(traces, price_list, tmp_path, gpuplan):
    table = tmp_path / "prices.parquet"
    assert gpuplan("prices", price_list, "-o", table, "-q")[0] == 0
    code, out, err = gpuplan("characterize", traces[0], "--prices", table, "--output-format",
                             "json")  # fmt: skip
    assert code == 0, err
    prices = json.loads(out)["results"]["prices"]
    assert prices["bills"] and prices["cheapest"]
    assert undocumented(prices, ["prices.md"]) == []


def test_a_key_that_no_page_has_is_found():
    known = {"jobs": 1, "groups": {"user": [{"names": 3, "spurious_key": 4}]}}
    assert undocumented(known, ["characterize.md"]) == [".groups.user.spurious_key"]
