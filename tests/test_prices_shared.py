"""Real price histories: every file ingests as it is and has the statistics its README lists."""

import re

import polars as pl
import pytest

from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.prices.ingest import ingest_prices
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.prices.supply import supplies
from gpuplan.analysis.prices.view import market

FILES = ("prime_by_provider", "prime_best_deal_1x", "prime_market_median", "gcp_a", "aws_spot_2016")


def ingested(path, tmp_path):
    result = ingest_prices([path], tmp_path / "prices.parquet")
    assert result.provenance.rows_rejected == {}
    return result


def listed(readme, name):
    """Yield the rows of the README's table of one file."""
    part = readme.split(f"## {name}\n")[1].split("\n## ")[0]
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 12 and re.fullmatch(r"\d+", cells[4]):
            yield cells


@pytest.mark.parametrize("name", FILES)
def test_the_statistics_of_the_readme(shared, tmp_path, name):
    folder = shared / "data" / "prices"
    prices = ingested(folder / f"{name}.csv.gz", tmp_path).prices
    seen = 0
    for gpu, provider, kind, region, *numbers in listed((folder / "README.md").read_text(), name):
        own = prices.filter(
            (pl.col("gpu_type") == gpu_name(gpu))
            & (pl.col("provider") == provider)
            & (pl.col("kind").cast(pl.String) == kind.replace("-", "_"))
            & pl.col("region").eq_missing(pl.lit(region or None, pl.String))
        )
        price, time = own[PRICE], own["timestamp"].dt.strftime("%Y-%m-%d")
        n, first, last, *levels, distinct = numbers
        assert (price.len(), time[0], time[-1]) == (int(n), first, last)
        found = (price.min(), price.median(), price.mean(), price.max())
        assert found == pytest.approx([float(level) for level in levels], abs=5.1e-5)
        assert price.n_unique() == int(distinct)
        seen += own.height
    assert seen == prices.height


def test_the_view_has_the_statistics_of_snapshots(shared, tmp_path):
    folder = shared / "data" / "prices"
    ingested(folder / "prime_by_provider.csv.gz", tmp_path)
    offers = market(read_prices(tmp_path / "prices.parquet")).offers
    rows = list(listed((folder / "README.md").read_text(), "prime_by_provider"))
    expected = {(gpu_name(row[0]), row[1]): row for row in rows}
    assert len(offers) == len(expected) == 22
    for offer in offers:
        *_, n, _, _, least, median, mean, most, _ = expected[offer.gpu_type, offer.provider]
        assert offer.rows == int(n) and offer.sampling == "snapshot"
        found = (
            offer.least_usd_per_gpu_h,
            offer.median_usd_per_gpu_h,
            offer.mean_usd_per_gpu_h,
            offer.most_usd_per_gpu_h,
        )
        assert found == pytest.approx(list(map(float, (least, median, mean, most))), abs=5.1e-5)


def test_time_weighting_matters_for_amazon(shared, tmp_path):
    # Rows are dense where the price moves: their mean is 0.26, that over time 1.13.
    ingested(shared / "data" / "prices" / "aws_spot_2016.csv.gz", tmp_path)
    prices = read_prices(tmp_path / "prices.parquet")
    by_gpu = {offer.gpu_type: offer for offer in market(prices).offers}
    rows = prices.prices.filter(pl.col("gpu_type") == "K520").sort("timestamp")
    seconds = rows["timestamp"].diff().dt.total_seconds().to_list()[1:]
    held = sum(p * s for p, s in zip(rows[PRICE].to_list(), seconds, strict=False))
    assert by_gpu["K520"].sampling == "change"
    assert by_gpu["K520"].mean_usd_per_gpu_h == pytest.approx(held / sum(seconds), rel=1e-6)
    assert by_gpu["K520"].mean_usd_per_gpu_h == pytest.approx(1.127, abs=0.001)
    assert by_gpu["M2050"].mean_usd_per_gpu_h == 10.5


def test_raw_files_give_the_derived_tables(shared, tmp_path):
    folder = shared / "data" / "prices"
    raw = ingested(folder / "raw" / "H100_80GB_SXM5.jsonl.gz", tmp_path).prices
    table = ingested(folder / "prime_by_provider.csv.gz", tmp_path).prices
    # The table has whole seconds.
    keys = ["timestamp", "provider", PRICE]
    whole = raw.with_columns(pl.col("timestamp").dt.truncate("1s")).select(keys).sort(keys)
    part = table.filter(
        (pl.col("gpu_type") == "H100-80GB") & (pl.col("timestamp") <= whole["timestamp"].max())
    )
    assert whole.equals(part.select(keys).sort(keys))

    history = folder / "raw" / "aws_spot_price_history_g2.8xlarge_us-east-1a.json.gz"
    raw = ingested(history, tmp_path).prices
    assert raw.height == 1000 and set(raw["gpu_type"]) == {"K520"}
    table = ingested(folder / "aws_spot_2016.csv.gz", tmp_path).prices
    newest = table.filter(pl.col("gpu_type") == "K520").sort("timestamp").tail(1000)
    assert newest[PRICE].sort().to_list() == pytest.approx(raw[PRICE].sort().to_list(), abs=1e-6)


def test_every_price_file_is_recognized(shared, tmp_path):
    folder = shared / "data"
    names = sorted(folder.glob("prices/**/*.gz"))
    assert len(names) >= 7
    for path in names:
        assert ingested(path, tmp_path).provenance.rows_kept > 0


def test_availability_comes_and_goes_as_the_readme_says(shared, tmp_path):
    folder = shared / "data" / "spot-availability"
    seen = 0
    for line in (folder / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "__aws-" not in cells[0] or "intel" in cells[0]:
            continue
        name, gap, ticks, days, most, share, mean, losses, asked = cells
        prices = ingested(folder / f"{name}.json.gz", tmp_path).prices
        (found,) = supplies(read_prices(tmp_path / "prices.parquet"))
        assert prices.height == int(ticks)
        assert prices[PRICE].null_count() == (int(ticks) if asked == "none" else 0)
        assert found.known_days == pytest.approx(int(ticks) * int(gap) / 86400)
        assert found.known_days == pytest.approx(float(days), abs=0.006)
        assert (found.most, found.losses) == (int(most), int(losses))
        assert found.available_share == pytest.approx(float(share), abs=5.1e-5)
        assert found.mean == pytest.approx(float(mean), abs=5.1e-5)
        seen += 1
    assert seen == 8
