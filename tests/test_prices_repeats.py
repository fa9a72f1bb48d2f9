"""Overlapping price sources: each price counts once, and the account says so."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_prices import HEADER, ORIGIN, aws_history, aws_record, book, frame, prime_line

from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.prices.ingest import REPEATED, SOURCE_NUMBER, ingest_prices, without_repeats
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.prices.view import market

HISTORY = (
    ("2016-04-25T00:00:00.000Z", "4.0"),  # 1 dollar per GPU for 9 hours
    ("2016-04-25T09:00:00.000Z", "40.0"),  # 10 for one
    ("2016-04-25T10:00:00.000Z", "4.0"),
)
ROW = "2026-01-05T07:00:00Z,v,L4,US,marketplace,{},{}"


def ingested(tmp_path, *texts):
    """Bring sources in; returns (result, the only offer)."""
    paths = []
    for number, (name, text) in enumerate(texts):
        paths.append(tmp_path / f"{number}-{name}")
        paths[-1].write_text(text)
    result = ingest_prices(paths, tmp_path / "out.parquet")
    (offer,) = market(read_prices(result.output)).offers
    provenance = result.provenance
    parts = (
        provenance.rows_kept,
        *provenance.rows_skipped.values(),
        *provenance.rows_rejected.values(),
    )
    assert provenance.rows_read == sum(parts) == sum(source.rows for source in provenance.sources)
    assert offer.rows == result.prices.height == provenance.rows_kept
    return result, offer


def histories(*parts):
    return [("h.json", aws_history(*(aws_record(*HISTORY[i]) for i in part))) for part in parts]


@pytest.mark.parametrize(
    ("parts", "repeated"),
    [([(0, 1, 2)], 0), ([(0, 1, 2)] * 2, 3), ([(0, 1), (1, 2)], 1), ([(1, 2), (0, 1, 2)], 2)],
)
def test_overlapping_pulls_of_one_history(tmp_path, parts, repeated):
    result, offer = ingested(tmp_path, *histories(*parts))
    assert offer.mean_usd_per_gpu_h == pytest.approx((9 * 1 + 1 * 10) / 10)
    assert (offer.median_usd_per_gpu_h, offer.p75_usd_per_gpu_h, offer.most_usd_per_gpu_h) == (
        1.0,
        1.0,
        10.0,
    )
    assert result.provenance.rows_skipped == ({REPEATED: repeated} if repeated else {})
    assert any(f"another source has too: {repeated}" in n for n in result.provenance.notes) == (
        repeated > 0
    )


def test_a_derived_table_with_rounded_prices_and_times(tmp_path):
    history = ("h.json", aws_history(aws_record("2016-04-25T00:00:00.700Z", "0.572301"),
                                     aws_record("2016-04-25T01:00:00.000Z", "9")))  # fmt: skip
    table = f"{HEADER}\n2016-04-25T00:00:00Z,aws,K520,us-east-1a,spot,0.143075,\n"
    for sources in ([history, ("t.csv", table)], [("t.csv", table), history]):
        result, _ = ingested(tmp_path, *sources)
        assert result.provenance.rows_skipped == {REPEATED: 1}


def test_instance_types_of_one_price_are_no_repeats(tmp_path):
    kinds = ("g4dn.xlarge", "g4dn.2xlarge", "g4dn.2xlarge")
    sources = [
        ("h.json", aws_history(aws_record("2016-04-25T00:00:00Z", "0.2", kind))) for kind in kinds
    ]
    result, _ = ingested(tmp_path, *sources)
    assert sorted(result.prices["instance"]) == ["g4dn.2xlarge", "g4dn.xlarge"]
    assert result.provenance.rows_skipped == {REPEATED: 1}


def test_prices_that_differ_stay(tmp_path):
    table = "\n".join((HEADER, ROW.format(1.0, 4)))
    for other in (ROW.format(1.1, 4), ROW.format(1.0, 5), ROW.format("1.0", 4).replace("US", ""),
                  ROW.format(1.0, 4).replace("07:00:00", "07:00:01")):  # fmt: skip
        result, _ = ingested(tmp_path, ("a.csv", table), ("b.csv", f"{HEADER}\n{other}\n"))
        assert result.provenance.rows_kept == 2


def test_equal_offers_of_one_snapshot_are_several(tmp_path):
    twice = "\n".join((HEADER, ROW.format(1.0, 4), ROW.format(1.0, 4), ROW.format(2.0, 1)))
    once = "\n".join((HEADER, ROW.format(1.0, 4), ROW.format(3.0, 2)))
    for sources in ([("a.csv", twice), ("b.csv", once)], [("b.csv", once), ("a.csv", twice)]):
        result, offer = ingested(tmp_path, *sources)
        assert sorted(result.prices[PRICE]) == [1.0, 1.0, 2.0, 3.0]
        assert offer.available.mean == 4 + 4 + 1 + 2
        assert result.provenance.rows_skipped == {REPEATED: 1}


def test_the_price_that_tells_availability_stays(tmp_path):
    snapshot = prime_line("2025-10-19T21:01:58.7+00:00", {"runpod": {"count": 4, "min": 2.69}})
    table = f"{HEADER}\n2025-10-19T21:01:58Z,runpod,H100-80GB,,marketplace,2.69,\n"
    for sources in ([("a.jsonl", snapshot), ("b.csv", table)],
                    [("b.csv", table), ("a.jsonl", snapshot)]):  # fmt: skip
        result, offer = ingested(tmp_path, *sources)
        assert result.prices["available"].to_list() == [4]
        assert (offer.mean_usd_per_gpu_h, offer.available.mean) == (2.69, 4)


def test_changes_at_one_instant_share_its_time():
    rows = [(0, "aws", "L4", "z", "spot", 1.0), (0, "aws", "L4", "z", "spot", 3.0),
            (1, "aws", "L4", "z", "spot", 8.0), (2, "aws", "L4", "z", "spot", 8.0)]  # fmt: skip
    (offer,) = market(book(rows, changes=[("aws", "L4", "spot", "z")])).offers
    assert offer.mean_usd_per_gpu_h == pytest.approx((1 * (1 + 3) / 2 + 1 * 8) / 2)


offers = st.lists(
    st.tuples(st.sampled_from((0, 1)), st.sampled_from((None, "x")),
              st.sampled_from((1.0, 2.0, None)), st.sampled_from((0, 3))),
    max_size=8,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(sources=st.lists(offers, min_size=1, max_size=4))
def test_as_many_equal_offers_stay_as_the_source_with_the_most_has(sources):
    frames = [
        frame(
            [(hour, "c", "L4", region, "spot", usd, n) for hour, region, usd, n in rows]
        ).with_columns(pl.lit(number, pl.UInt32).alias(SOURCE_NUMBER))
        for number, rows in enumerate(sources)
    ]
    kept = without_repeats(pl.concat(frames))
    found = Counter(
        kept.select((pl.col("timestamp") - ORIGIN).dt.total_hours(), "region", PRICE, "available")
        .rows()
    )  # fmt: skip
    most = Counter()
    for rows in sources:
        most |= Counter(rows)  # the union of multisets
    assert found == most
    assert kept[SOURCE_NUMBER].is_sorted()
