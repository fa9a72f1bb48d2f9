"""The sample traces: reproducible, and true to the statistics they are drawn from."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.trace.trace import read_trace
from gpuplan.sample_traces import make_samples

FOLDER = Path(make_samples.__file__).parent


def content(path: Path) -> bytes:
    """The bytes of a file, of its content where it is compressed (zlib versions differ)."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_the_script_makes_the_shipped_files(tmp_path):
    made = make_samples.make_samples(tmp_path)
    assert len(made) == 11
    for path in made:
        assert content(path) == content(FOLDER / path.relative_to(tmp_path)), path.name


@pytest.mark.parametrize(
    ("name", "jobs", "mean_s", "p50_s", "p90_s"),
    [  # Allpass, Table 1; AcmeTrace's cluster summary and CDF for Philly
        ("seren.csv", 2000, 1208, 22, 765),
        ("wandb_export.csv", 500, 630, 32, 2025),
        ("philly.json.gz", 500, 18006, 874, 15830),
    ],
)
def test_published_statistics_within_ten_percent(
    gpuplan, tmp_path, name, jobs, mean_s, p50_s, p90_s
):
    out = tmp_path / "trace.parquet"
    code, shown, said = gpuplan("ingest", FOLDER / name, "-o", out, "--output-format", "json")
    assert code == 0, said
    results = json.loads(shown)["results"]
    assert (results["rows_read"], results["rows_rejected"]) == (jobs, 0)
    duration = read_trace(out).jobs["duration_s"].drop_nulls()
    assert duration.mean() == pytest.approx(mean_s, rel=0.1)
    assert duration.median() == pytest.approx(p50_s, rel=0.1)
    assert duration.quantile(0.9, "linear") == pytest.approx(p90_s, rel=0.1)


def test_prices_stay_in_the_published_ranges():
    prices = pl.read_csv(FOLDER / "gpu_prices.csv")
    of = prices.filter(pl.col("provider") == "vast.ai", pl.col("gpu_type") == "A100-80GB")
    assert of["price_usd_per_gpu_hour"].is_between(0.38, 1.66).all()
    assert of["price_usd_per_gpu_hour"].median() == pytest.approx(1.08, abs=0.15)
