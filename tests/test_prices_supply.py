"""Availability, with prices and without: how GPUs come and go, and that no bill reads it."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import support_traces
from hypothesis import given, settings
from hypothesis import strategies as st
from support_prices import HEADER, ORIGIN, book, ingest_text

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.prices.bands import bands
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.ingest import REPEATED, ingest_prices
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.prices.supply import availability_steps, supplies
from gpuplan.analysis.prices.view import market
from gpuplan.planner.money.trace_bill import trace_cost

START = int(ORIGIN.timestamp() * 1e6)


def counts(*available, region="z", price=None, **more):
    """Return rows of one spot GPU, one per hour."""
    return [(h, "aws", "L4", region, "spot", price, n) for h, n in enumerate(available)]


def hours(steps):
    """Return the steps as (start, end, available), in hours after ORIGIN."""
    start, end = ((t - START) / HOUR_US for t in (steps.start_us, steps.end_us))
    return list(zip(start.tolist(), end.tolist(), steps.available.tolist(), strict=True))


def test_how_a_gpu_comes_and_goes():
    # There for 2 hours, away for 1, there for 3, away for 2; the last lasts an hour too.
    (zone,) = supplies(book(counts(1, 4, 0, 2, 2, 2, 0, 0)))
    assert (zone.provider, zone.gpu_type, zone.region, zone.kind) == ("aws", "L4", "z", "spot")
    assert (zone.known_days, zone.mean, zone.most) == (8 / 24, 11 / 8, 4)
    assert (zone.available_share, zone.losses) == (5 / 8, 2)
    assert zone.transitions_per_day == pytest.approx(3 / (8 / 24))
    assert (zone.mean_available_h, zone.mean_unavailable_h) == (5 / 2, 3 / 1)
    assert (zone.median_available_h, zone.longest_available_h) == (2.5, 3.0)
    assert (zone.median_unavailable_h, zone.longest_unavailable_h) == (1.5, 2.0)


def test_what_is_always_there_never_goes():
    (zone,) = supplies(book(counts(3, 3, 3, price=1.0)))
    assert (zone.available_share, zone.losses, zone.transitions_per_day) == (1.0, 0, 0.0)
    assert zone.mean_available_h is zone.mean_unavailable_h is zone.median_unavailable_h is None
    assert zone.median_available_h == 3.0


def test_steps_join_equal_levels_and_break_where_nothing_is_known():
    rows = [row for row in counts(1, 1, 0, 0, *[2] * 20) if row[0] < 4 or row[0] > 20]
    (steps,) = availability_steps(book(rows))
    # The usual gap is an hour, so a count is known for three at most.
    assert hours(steps) == [(0, 2, 1), (2, 6, 0), (21, 24, 2)]
    (zone,) = supplies(book(rows))
    assert (zone.losses, zone.transitions_per_day) == (1, 1 / (9 / 24))  # the gap is no transition


def test_instance_types_of_a_region_add_up():
    small, large = counts(1, 0, 1), counts(2, 2, 0)
    frames = [
        book(rows).supply.with_columns(pl.lit(name).alias("instance"))
        for name, rows in (("small", small), ("large", large))
    ]
    whole = replace(book(small), supply=pl.concat(frames))
    (steps,) = availability_steps(whole)
    assert hours(steps) == [(0, 1, 3), (1, 2, 2), (2, 3, 1)]


def test_regions_and_gpus_are_series_of_their_own():
    rows = counts(1, 0) + counts(0, 5, region="y") + [(0, "aws", "T4", "z", "spot", None, 1)]
    found = availability_steps(book(rows))
    assert [(s.gpu_type, s.region) for s in found] == [("L4", "y"), ("L4", "z"), ("T4", "z")]
    assert [s.gpu_type for s in availability_steps(book(rows), gpu="T4")] == ["T4"]


@settings(max_examples=80, deadline=None)
@given(
    first=st.lists(st.integers(0, 2), min_size=1, max_size=20),
    second=st.lists(st.integers(0, 2), max_size=20),
    start=st.integers(0, 20),
)
def test_steps_agree_with_a_look_at_every_hour(first, second, start):
    start = min(start, len(first))  # so that the usual gap is an hour throughout
    other = [(h + start, *rest) for h, *rest in counts(*second)]
    frames = [
        book(rows).supply.with_columns(pl.lit(name).alias("instance"))
        for name, rows in (("a", counts(*first)), ("b", other))
    ]
    whole = replace(book(counts(*first)), supply=pl.concat(frames))
    (steps,) = availability_steps(whole)
    expected = {}
    for begin, levels in ((0, first), (start, second)):
        for h, n in enumerate(levels):
            expected[begin + h] = expected.get(begin + h, 0) + n
    shown = {h: n for s, e, n in hours(steps) for h in range(int(s), int(e))}
    assert shown == expected
    joined = steps.start_us[1:] == steps.end_us[:-1]
    assert np.all(np.diff(steps.available)[joined] != 0)
    (zone,) = supplies(whole)
    level = [expected.get(h) for h in range(max(expected) + 2)]
    assert zone.losses == sum(bool(a) and b == 0 for a, b in pairwise(level))
    assert zone.available_share == pytest.approx(
        sum(n > 0 for n in expected.values()) / len(expected)
    )


def availability_file(tmp_path, name="aws-10-26-2022/us-west-2a_v100_8.json", **more):
    document = {"metadata": {"gap_seconds": 600}, "data": [0, 1, 2, 0]} | more
    return ingest_text(tmp_path, json.dumps(document), name, limit=Limit.of("50%"))


def test_a_file_without_prices_is_kept_as_availability(tmp_path):
    result = availability_file(tmp_path)
    provenance = result.provenance
    assert (provenance.rows_read, provenance.rows_kept, provenance.rows_rejected) == (4, 4, {})
    assert result.prices["price_usd_per_gpu_hour"].null_count() == 4
    assert result.prices.select(PRICE, "available", "instance").rows() == [
        (None, n, "v100_8") for n in (0, 1, 2, 0)
    ]
    found = read_prices(result.output)
    assert (found.prices.height, found.supply.height, found.rows) == (0, 4, 4)
    again = ingest_prices([result.output], tmp_path / "again.parquet")
    assert again.prices.equals(result.prices)


def test_ticks_with_a_price_and_without(tmp_path):
    result = availability_file(tmp_path, data=[1, None, None, 0], prices=[8.0, 8.0, None, None])
    assert result.prices.select(PRICE, "available").rows() == [(1, 1), (1, None), (None, 0)]
    aside = pl.read_parquet(result.rejects_file)
    assert aside.select("row", "reason", "column").rows() == [(3, "missing", "prices")]
    found = read_prices(result.output)
    assert (found.prices.height, found.supply.height, found.rows) == (2, 2, 3)


def test_a_row_without_price_and_availability_is_rejected(tmp_path):
    line = "2026-01-05T0{}:00:00Z,c,L4,,spot,{},{}"
    lines = (line.format(1, "0.3", ""), line.format(2, "", "4"), line.format(3, "", ""))
    result = ingest_text(tmp_path, "\n".join((HEADER, *lines)), limit=Limit.of("1"))
    assert result.prices.select(PRICE, "available").rows() == [(0.3, None), (None, 4)]
    aside = pl.read_parquet(result.rejects_file)
    assert aside.select("row", "reason", "column", "raw").rows() == [
        (4, "missing", PRICE, lines[2])
    ]


def test_a_table_without_a_column_of_prices(tmp_path):
    text = "timestamp,provider,gpu,kind,available\n2026-01-05T01:00:00Z,c,L4,spot,4\n"
    result = ingest_text(tmp_path, text + text.splitlines()[1].replace(",4", ","),
                         limit=Limit.of("1"))  # fmt: skip
    assert result.prices.select(PRICE, "available").rows() == [(None, 4)]
    assert pl.read_parquet(result.rejects_file)["column"].to_list() == ["available"]
    with pytest.raises(InputError, match="unrecognized price format"):
        ingest_text(tmp_path, text.replace("available", "left"))


def test_counts_of_overlapping_sources_count_once(tmp_path):
    row = "2026-01-05T07:00:0{}Z,c,L4,,spot,,{}"
    for name, rows in (("a.csv", [(0, 4), (1, 0)]), ("b.csv", [(0, 4), (1, 2)])):
        (tmp_path / name).write_text("\n".join((HEADER, *(row.format(*cells) for cells in rows))))
    sources = [tmp_path / "a.csv", tmp_path / "b.csv"]
    result = ingest_prices(sources, tmp_path / "out.parquet")
    assert result.prices["available"].to_list() == [4, 0, 2]
    assert result.provenance.rows_skipped == {REPEATED: 1}


def test_no_bill_and_no_saving_reads_rows_without_a_price():
    priced = [(h, "c", "L4", None, "spot", 1.0 + h) for h in range(3)]
    priced += [(h, "d", "L4", None, "on_demand", 4.0) for h in range(3)]
    mixed = [*priced, *counts(0, 1), (1, "c", "L4", None, "spot", None, 7)]
    trace = support_traces.in_memory(
        support_traces.frame([0.0], duration_s=[7200.0], num_gpus=[2.0], gpu_type=["L4"])
    )
    alone, both = market(book(priced)), market(book(mixed))
    assert both.cheapest == alone.cheapest and both.references == alone.references
    assert [replace(o, available=None) for o in both.offers] == list(alone.offers)
    assert trace_cost(trace, both) == trace_cost(trace, alone)
    assert [s.provider for s in both.supply] == ["aws", "c"]


def test_a_market_of_availability_alone():
    whole = book(counts(0, 1, 1))
    found = market(whole, as_of=ORIGIN)
    assert found.offers == found.hourly == found.cheapest == found.notes == ()
    trace = support_traces.in_memory(
        support_traces.frame([0.0], duration_s=[7200.0], num_gpus=[2.0], gpu_type=["L4"])
    )
    cost = trace_cost(trace, found)
    assert cost.bills == () and cost.unpriced_gpu_hours == 4.0
    assert any("availability without prices" in note for note in cost.notes)
    with pytest.raises(
        UsageError, match=r"which have availability\n  next: give a table with prices"
    ):
        trace_cost(trace, found, gpu="L4")
    with pytest.raises(UsageError, match="there are none"):
        market(whole, reference="aws:spot")
    (band,) = bands(whole, ())
    assert not band.has_prices and band.available.tolist() == [0, 1, 1]


def test_bands_have_hours_of_prices_and_hours_of_counts_alone():
    rows = [(0, "aws", "L4", "z", "spot", 2.0, 5), (2, "aws", "L4", "z", "spot", None, 3)]
    whole = book(rows)
    (band,) = bands(whole, hourly_prices(whole))
    assert (band.start_h - START / HOUR_US).tolist() == [0, 2]
    assert band.median[0] == 2.0 and np.isnan(band.median[1])
    assert (band.available.tolist(), band.sources.tolist()) == ([5, 3], [1, 0])


def test_a_band_has_the_quartiles_of_all_offers_of_its_bin():
    # 299 hours make bins of 2 h: c is known for one more gap, of 149 h. The first bin has five
    # offers, the last has one.
    rows = [(0, "a", "L4", "z", "spot", 1.0, 4), (0, "b", "L4", "z", "spot", 2.0),
            (0, "b", "L4", "y", "spot", 3.0), (1, "b", "L4", "z", "spot", 5.0),
            (1, "c", "L4", "z", "spot", 9.0), (150, "c", "L4", "z", "spot", 4.0)]  # fmt: skip
    whole = book(rows)
    (band,) = bands(whole, hourly_prices(whole))
    assert band.bin_h == 2 and (band.start_h - START / HOUR_US).tolist() == [0, 150]
    assert band.p25.tolist() == [2.0, 4.0]
    assert band.median.tolist() == [3.0, 4.0]
    assert band.p75.tolist() == [5.0, 4.0]
    assert band.sources.tolist() == [3, 1]
    assert band.available[0] == 4 and np.isnan(band.available[1])


def test_bands_come_the_longest_first_and_then_by_name():
    rows = [(0, "a", gpu, "z", "spot", 1.0) for gpu in ("L4", "A10", "T4")]
    rows += [(1, "a", "T4", "z", "spot", 1.0)]
    whole = book(rows)
    assert [band.gpu_type for band in bands(whole, hourly_prices(whole))] == ["T4", "A10", "L4"]


@pytest.mark.parametrize(("price", "available"), [(None, None), (None, -1), (0.0, 3), ("x", 3)])
def test_tables_of_other_tools_with_neither_cannot_be_used(tmp_path, price, available):
    kind = pl.String if isinstance(price, str) else pl.Float64
    frame = book(counts(1)).supply.with_columns(
        pl.lit(price, kind).alias(PRICE), pl.lit(available, pl.Int64).alias("available")
    )
    frame.write_parquet(tmp_path / "p.parquet")
    with pytest.raises(InputError, match=f"column '{PRICE}'"):
        read_prices(tmp_path / "p.parquet")


def test_the_commands_show_it(tmp_path, gpuplan):
    source, table = tmp_path / "aws-10-26-2022" / "us-west-2a_v100_1.json", tmp_path / "p.parquet"
    source.parent.mkdir()
    source.write_text(json.dumps({"metadata": {"gap_seconds": 3600}, "data": [0, 1, 1, 0] * 9}))
    code, out, err = gpuplan("prices", source, "-o", table, "--output-format", "json",
                             "--plot", tmp_path / "p.png")  # fmt: skip
    assert code == 0, err
    (zone,) = json.loads(out)["results"]["supply"]
    assert (zone["available_share"], zone["losses"], zone["region"]) == (0.5, 9, "us-west-2a")
    assert (tmp_path / "p.png").stat().st_size > 5_000
    code, out, _ = gpuplan("prices", source, "-o", table)
    assert code == 0 and "How it comes and goes" in out and "Prices (US" not in out
    assert out.startswith("36 counts of availability without a price in")
    assert max(map(len, out.splitlines())) <= 100
    jobs = support_traces.frame([0.0], duration_s=[7200.0], num_gpus=[2.0], gpu_type=["V100-16GB"])
    trace = support_traces.write(tmp_path / "t.parquet", jobs)
    code, out, err = gpuplan("characterize", trace, "--prices", table, "--full")
    assert code == 0 and "How it comes and goes" in out and "What the trace" not in out
    assert "not billed" in err or "not billed" in out
    code, out, err = gpuplan("prices", source, "-o", table, "--fail-if",
                             "supply.available_share < 60%")  # fmt: skip
    assert code == 1
