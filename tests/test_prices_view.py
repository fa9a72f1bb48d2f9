"""The price view, on prices and jobs worked out by hand."""

import json
import re
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
import support_traces
from hypothesis import given, settings
from hypothesis import strategies as st
from support_prices import ORIGIN, book

from gpuplan.analysis.errors import InputError, UsageError
from gpuplan.analysis.prices.book import HOUR_US, in_force, read_prices
from gpuplan.analysis.prices.catalogue import AS_OF, CATALOGUE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.schema import METADATA_KEY, PRICE, PRICES, PriceProvenance
from gpuplan.analysis.prices.view import market, read_market, trace_cost
from gpuplan.analysis.schema import Provenance

SPOT = ("aws", "L4", "spot", "z")
FIRST_HOUR = int(ORIGIN.timestamp()) // 3600


def jobs(*rows, gpu="L4", **columns):
    """Return a trace of (submit hour, wait in hours, duration in hours, GPUs)."""
    submit, wait, lasting, gpus = zip(*rows, strict=True)
    frame = support_traces.frame(
        [3600 * s for s in submit],
        queue_s=[None if w is None else 3600.0 * w for w in wait],
        duration_s=[None if d is None else 3600.0 * d for d in lasting],
        num_gpus=[float(g) for g in gpus],
        gpu_type=pl.Series([gpu] * len(rows), dtype=pl.String),
        **columns,
    )
    return support_traces.in_memory(frame)


def bill(cost, provider, kind):
    return next(b for b in cost.bills if (b.provider, b.kind) == (provider, kind))


def test_changes_are_weighted_by_time():
    # 1.0 for 9 hours, 11.0 for 1 hour, then back; what is known ends with the last change.
    found = market(book([(0, "aws", "L4", "z", "spot", 1.0), (9, "aws", "L4", "z", "spot", 11.0),
                         (10, "aws", "L4", "z", "spot", 1.0), (10, "aws", "L4", "z", "spot", 1.0)],
                        changes=[SPOT]))  # fmt: skip
    (offer,) = found.offers
    assert offer.mean == pytest.approx(2.0)  # (9 * 1 + 1 * 11) / 10, not 14 / 4
    assert (offer.median, offer.p25, offer.p75) == (1.0, 1.0, 1.0)
    assert (offer.least, offer.most, offer.rows, offer.sampling) == (1.0, 11.0, 4, "change")
    assert offer.variation == pytest.approx(3.0 / 2.0)  # sqrt((9 * 1 + 1 * 81) / 10) = 3
    assert found.hourly[0].mean == pytest.approx(2.0)
    assert found.hourly[0].typical.tolist() == pytest.approx([1.0] * 9 + [11.0])


def test_snapshots_count_alike():
    rows = [(0, "c", "L4", None, "marketplace", 1.0), (1, "c", "L4", None, "marketplace", 2.0),
            (10, "c", "L4", None, "marketplace", 6.0)]  # fmt: skip
    (offer,) = market(book(rows)).offers
    assert (offer.mean, offer.median) == (3.0, 2.0)
    assert (offer.p25, offer.p75) == (1.5, 4.0)


def test_a_snapshot_holds_no_longer_than_three_usual_gaps():
    hours = [0, 1, 2, 3, 20, 21]  # the usual gap is an hour
    stretches = in_force(book([(h, "c", "L4", None, "marketplace", 1.0) for h in hours]))
    lasting = (stretches["end_us"] - stretches["start_us"]) / HOUR_US
    assert lasting.to_list() == [1, 1, 1, 3, 1, 1]


def test_an_hour_is_the_time_weighted_mean_of_what_is_in_force():
    rows = [(0, "aws", "L4", "z", "spot", 1.0), (0.75, "aws", "L4", "z", "spot", 5.0),
            (2, "aws", "L4", "z", "spot", 9.0), (0, "aws", "L4", "y", "spot", 3.0),
            (2, "aws", "L4", "y", "spot", 3.0)]  # fmt: skip
    (one,) = hourly_prices(book(rows, changes=[SPOT, ("aws", "L4", "spot", "y")]))
    assert one.first_hour == FIRST_HOUR
    # zone z: 0.75 * 1 + 0.25 * 5 = 2 and 5; zone y: 3 and 3
    assert one.typical.tolist() == pytest.approx([2.5, 4.0])
    assert one.lowest.tolist() == pytest.approx([2.0, 3.0])


def test_several_offers_at_once_are_one_quote():
    rows = [(0, "v", "L4", "US", "marketplace", p, n) for p, n in ((0.3, 1), (0.5, 2), (0.9, 4))]
    (one,) = hourly_prices(book(rows))
    assert (one.typical[0], one.lowest[0]) == pytest.approx((0.5, 0.3))
    (offer,) = market(book(rows)).offers
    assert offer.available is not None and offer.available.mean == 7
    assert offer.regions == 1


def test_availability_over_snapshots():
    rows = [(h, "v", "L4", None, "marketplace", 1.0, n) for h, n in enumerate((0, 4, 8, 0))]
    rows += [(0, "w", "L4", None, "marketplace", 2.0)]
    offers = {offer.provider: offer for offer in market(book(rows)).offers}
    available = offers["v"].available
    assert (available.mean, available.least, available.most) == (3.0, 0, 8)
    assert available.none_share == 0.5
    assert offers["w"].available is None
    assert (offers["v"].listed_share, offers["w"].listed_share) == (1.0, 0.25)


def test_daily_volatility():
    prices = [1.0] * 24 + [2.0] * 24 + [1.0] * 24
    rows = [(h, "c", "L4", None, "spot", p) for h, p in enumerate(prices)]
    (offer,) = market(book(rows)).offers
    assert offer.daily_volatility == pytest.approx(np.log(2))  # +log 2 and -log 2
    (steady,) = market(book([(h, "c", "L4", None, "spot", 0.1) for h in range(99)])).offers
    assert (steady.daily_volatility, steady.variation) == (0.0, 0.0)


def test_the_cheapest_over_time():
    rows = [(h, "a", "L4", None, "spot", 1.0 if h < 3 else 4.0) for h in range(5)]
    rows += [(h, "b", "L4", None, "on_demand", 2.0) for h in range(5)]
    (one,) = market(book(rows)).cheapest
    assert one.shares == (("a", "spot", 0.6), ("b", "on_demand", 0.4))
    assert one.mean_usd_per_gpu_h == pytest.approx((3 * 1 + 2 * 2) / 5)
    assert [(lead.provider, lead.end - lead.start) for lead in one.leads] == [
        ("a", timedelta(hours=3)),
        ("b", timedelta(hours=2)),
    ]


def test_savings_against_the_dearest_on_demand_or_a_named_source():
    rows = [(0, "a", "L4", None, "on_demand", 4.0), (0, "b", "L4", None, "on_demand", 2.0),
            (0, "b", "L4", None, "spot", 1.0)]  # fmt: skip
    prices = book(rows)
    found = market(prices)
    assert found.references == {"L4": "a:on_demand"}
    assert [o.saving for o in found.offers] == [0.0, 0.5, 0.75]
    named = market(prices, reference="b:on-demand")
    assert [o.saving for o in named.offers] == [-1.0, 0.0, 0.5]
    with pytest.raises(UsageError, match="there are a:on_demand, b:on_demand, b:spot"):
        market(prices, reference="c:spot")
    with pytest.raises(UsageError, match="expected provider:kind"):
        market(prices, reference="spot")


def test_a_trace_is_billed_hour_by_hour():
    rows = [(h, "aws", "L4", "z", "spot", p) for h, p in enumerate((1.0, 2.0, 10.0, 4.0))]
    rows += [(0, "b", "L4", None, "on_demand", 3.0), (1, "b", "L4", None, "on_demand", 3.0),
             (2, "b", "L4", None, "on_demand", 3.0)]  # fmt: skip
    found = market(book(rows, changes=[SPOT]))
    # 4 GPUs from 0.5 to 2.5: half an hour at 1, an hour at 2, half an hour at 10.
    cost = trace_cost(jobs((0, 0.5, 2, 4)), found)
    spot = bill(cost, "aws", "spot")
    assert spot.cost_usd == pytest.approx(4 * (0.5 * 1 + 1 * 2 + 0.5 * 10))
    assert (spot.gpu_hours, spot.hourly_share) == (8.0, 1.0)
    steady = bill(cost, "b", "on_demand")
    assert steady.cost_usd == pytest.approx(24.0)
    assert spot.saving == pytest.approx(1 - 30 / 24)
    assert cost.cheapest[0].cost_usd == pytest.approx(4 * (0.5 * 1 + 1 * 2 + 0.5 * 3))
    assert cost.notes == ()


def test_an_offer_that_did_not_exist_then_is_not_the_cheapest():
    rows = [(h, "real", "L4", None, "on_demand", 2.0) for h in range(49)]
    rows += [(10_000, "flash", "L4", None, "on_demand", 0.05)]
    found = market(book(rows), as_of=ORIGIN + timedelta(hours=48))
    cost = trace_cost(jobs((0, 0, 10, 3), (5, 1, 20, 1)), found)
    (least,) = cost.cheapest
    assert (least.cost_usd, least.hourly_share) == (pytest.approx(2.0 * 50), 1.0)
    flash = bill(cost, "flash", "on_demand")
    assert (flash.cost_usd, flash.hourly_share) == (pytest.approx(0.05 * 50), 0.0)
    # Its price and the reference's have no hour in common, so nothing is saved by it.
    offers = {offer.provider: offer for offer in found.offers}
    assert (offers["flash"].saving, flash.saving) == (None, None)
    assert (offers["real"].saving, bill(cost, "real", "on_demand").saving) == (0.0, 0.0)
    assert any("no saving is told of 1 of 2 offers" in note for note in found.notes)


def test_a_source_that_begins_later_is_told_by_name():
    rows = [(h, "real", "L4", None, "on_demand", 2.0) for h in range(49)]
    rows += [(48 + 24 * 400, "flash", "L4", None, "spot", 0.05)]
    found = market(book(rows), as_of=ORIGIN + timedelta(hours=48))
    days = {offer.provider: offer.begins_after_days for offer in found.offers}
    assert days == {"flash": 400.0, "real": 0.0}
    assert any(note.startswith("later prices: 1 of 2 begin 400 days after 2026-01-07: flash:spot")
               for note in found.notes)  # fmt: skip
    assert all(offer.begins_after_days is None for offer in market(book(rows)).offers)


def test_savings_are_of_the_hours_that_both_sources_know():
    # The reference halves its price when the other begins: 1.5 is half of 3, not 1/3 of 4.5.
    rows = [(h, "a", "L4", None, "on_demand", 6.0 if h < 10 else 3.0) for h in range(20)]
    rows += [(h, "b", "L4", None, "spot", 1.5) for h in range(10, 20)]
    offers = {offer.provider: offer for offer in market(book(rows)).offers}
    assert offers["b"].saving == pytest.approx(0.5)


def test_a_bills_saving_is_against_the_reference_of_its_own_gpu():
    rows = [(0, "a", "A100", None, "on_demand", 4.0), (0, "a", "A100", None, "spot", 1.0),
            (0, "a", "A100-80GB", None, "on_demand", 10.0),
            (0, "a", "A100-80GB", None, "spot", 5.0),
            (0, "b", "A100-40GB", None, "spot", 2.0)]  # fmt: skip
    cost = trace_cost(jobs((0, 0, 1, 1), gpu="A100"), market(book(rows)))
    savings = {(b.gpu_type, b.kind): b.saving for b in cost.bills}
    assert savings.pop(("A100-40GB", "spot")) is None  # nobody has it on demand
    assert savings == {
        ("A100", "on_demand"): 0.0,
        ("A100", "spot"): pytest.approx(0.75),
        ("A100-80GB", "on_demand"): 0.0,
        ("A100-80GB", "spot"): pytest.approx(0.5),
    }


def test_whole_and_no_hours_are_exact_shares():
    # Odd lengths and widths far from the epoch, where sums of products lose digits.
    rows = [(h, "a", "L4", None, "spot", 1.0) for h in range(200)]
    rows += [(h, "b", "L4", None, "spot", 2.0) for h in range(500, 600)]
    drawn = [(1 / 3 + i / 7, i / 11, 1 / 3600 + i * i / 13, 1 / (i + 1)) for i in range(50)]
    cost = trace_cost(jobs(*drawn), market(book(rows)))
    assert {b.provider: b.hourly_share for b in cost.bills} == {"a": 1.0, "b": 0.0}
    assert cost.cheapest[0].hourly_share == 1.0


def test_outside_of_the_prices_the_mean_is_billed_and_said():
    rows = [(h, "aws", "L4", "z", "spot", p) for h, p in ((0, 1.0), (3, 5.0), (4, 5.0))]
    found = market(book(rows, changes=[SPOT]))
    mean = (3 * 1 + 1 * 5) / 4
    cost = trace_cost(jobs((2, 0, 6, 1)), found)  # hours 2 and 3 known, 4 to 8 not
    spot = bill(cost, "aws", "spot")
    assert spot.cost_usd == pytest.approx(1 + 5 + 4 * mean)
    assert spot.hourly_share == pytest.approx(2 / 6)
    assert any("67%" in note and "outside" in note for note in cost.notes)


def test_a_trace_without_a_calendar_is_billed_at_means():
    rows = [(0, "aws", "L4", "z", "spot", 1.0), (1, "aws", "L4", "z", "spot", 3.0),
            (2, "aws", "L4", "z", "spot", 9.0)]  # fmt: skip
    trace = support_traces.in_memory(
        jobs((0, 0, 1, 2)).jobs, Provenance(source_format="sia", relative_time=True)
    )
    cost = trace_cost(trace, market(book(rows, changes=[SPOT])))
    assert bill(cost, "aws", "spot").cost_usd == pytest.approx(2 * 2.0)
    assert any("no calendar" in note for note in cost.notes)


def test_which_jobs_are_billed():
    rows = [(h, "c", "L4", None, "spot", 1.0) for h in range(3)]
    trace = jobs((0, 0, 1, 2), (0, None, None, 1), (0, 0, 1, 0), (0, 0, 5, 1),
                 state=["completed", "not_started", "completed", "running"])  # fmt: skip
    found = market(book(rows))
    assert trace_cost(trace, found).bills[0].gpu_hours == 2.0
    assert trace_cost(trace, found, include_running=True).bills[0].gpu_hours == 7.0


def test_the_gpu_of_jobs_that_name_none():
    rows = [(0, "c", "A100-80GB", None, "spot", 1.0), (0, "c", "L4", None, "spot", 0.5)]
    found = market(book(rows))
    unnamed = jobs((0, 0, 1, 2), gpu=None)
    cost = trace_cost(unnamed, found)
    assert cost.bills == () and cost.unpriced_gpu_hours == 2.0
    assert any("--gpu" in note and "L4" in note for note in cost.notes)
    assert trace_cost(unnamed, found, gpu="a100-80").bills[0].gpu_type == "A100-80GB"
    with pytest.raises(UsageError, match="none of it, only A100-80GB, L4"):
        trace_cost(unnamed, found, gpu="H100")
    # The only GPU of the prices needs no choice; a named one is never overruled.
    assert trace_cost(unnamed, market(book(rows[:1]))).bills[0].cost_usd == 2.0
    named = trace_cost(jobs((0, 0, 1, 2), gpu="NVIDIA L4"), found, gpu="A100")
    assert [b.gpu_type for b in named.bills] == ["L4"]


def test_prices_without_memory_stand_for_any():
    cost = trace_cost(jobs((0, 0, 1, 1), gpu="A100-SXM4-80GB"), market(None))
    assert {b.gpu_type for b in cost.bills} == {"A100"}
    assert any("billed at the prices of A100" in note for note in cost.notes)


def test_the_built_in_list():
    found = market(None)
    offers = {(o.provider, o.gpu_type, o.kind): o for o in found.offers}
    assert len(offers) == len(CATALOGUE)
    vast = offers["vast.ai", "A100", "marketplace"]
    assert (vast.median, vast.least, vast.most) == (1.08, 0.38, 1.66)
    assert offers["aws", "A100", "spot"].median is None
    assert found.references["A100"] in ("gcp:on_demand", "azure:on_demand")  # both 3.67
    # The paper: marketplaces offer A100 and H100 at 14 to 22% of the price of AWS.
    for gpu, share in (("A100", 0.14), ("H100", 0.22)):
        vast, aws = offers["vast.ai", gpu, "marketplace"], offers["aws", gpu, "on_demand"]
        assert vast.least / aws.median == pytest.approx(share, abs=0.005)
    cost = trace_cost(jobs((0, 0, 10, 1), gpu="A100"), found)
    spot = bill(cost, "aws", "spot")
    assert spot.cost_usd is None and spot.lowest_usd == pytest.approx(3.2)
    assert bill(cost, "modal", "serverless").cost_usd == pytest.approx(21.0)
    assert cost.cheapest[0].cost_usd == pytest.approx(3.2)


@pytest.mark.parametrize(("days", "stale"), [(30, False), (90, False), (91, True)])
def test_old_prices_are_told(days, stale):
    found = market(None, as_of=AS_OF + timedelta(days=days))
    assert all(offer.is_stale == stale for offer in found.offers)
    assert any(f"{days} days before" in note for note in found.notes) == stale
    assert all(offer.age_days == days for offer in found.offers)


def test_prices_newer_than_the_trace_are_told():
    notes = market(None, as_of=AS_OF - timedelta(days=400)).notes
    assert any("begin 400 days after" in note for note in notes)


prices_of_a_source = st.lists(st.floats(0.01, 50), min_size=1, max_size=12)
job_rows = st.lists(
    st.tuples(st.floats(0, 20), st.floats(0, 3), st.floats(0, 30), st.integers(0, 64)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(drawn=job_rows, price=st.floats(0.01, 50), change=st.booleans(), n=st.integers(1, 30))
def test_a_constant_price_costs_gpu_hours_times_price(drawn, price, change, n):
    rows = [(h, "aws", "L4", "z", "spot", price) for h in range(n)]
    trace = jobs(*drawn)
    gpu_hours = sum(d * g for _, _, d, g in drawn)
    cost = trace_cost(trace, market(book(rows, changes=[SPOT] if change else [])))
    for one in cost.bills:
        assert one.cost_usd == pytest.approx(gpu_hours * price, rel=1e-9, abs=1e-9)
        assert one.lowest_usd == pytest.approx(gpu_hours * price, rel=1e-9, abs=1e-9)
    for least in cost.cheapest:
        assert least.cost_usd == pytest.approx(gpu_hours * price, rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    drawn=job_rows,
    series=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from((None, "x", "y")), st.booleans(),
                  st.floats(0, 9), prices_of_a_source),
        min_size=1, max_size=6, unique_by=lambda one: one[:2],
    ),
)  # fmt: skip
def test_each_hours_cheapest_is_of_those_known_in_it(drawn, series):
    rows, changes = [], []
    for provider, region, change, start, asked in series:
        rows += [(start + 1.7 * i, provider, "L4", region, "spot", p) for i, p in enumerate(asked)]
        changes += [(provider, "L4", "spot", region)] if change else []
    prices = book(rows, changes=changes)
    cost = trace_cost(jobs(*drawn), market(prices))
    for one in cost.bills:
        assert one.lowest_usd <= one.cost_usd * (1 + 1e-9) + 1e-9
        assert 0 <= one.hourly_share <= 1
    known = {}
    for one in hourly_prices(prices):
        for hour, price in enumerate(one.lowest, one.first_hour - FIRST_HOUR):
            if not np.isnan(price):
                known.setdefault(hour, []).append(price)
    least_mean = min(one.mean_lowest for one in hourly_prices(prices))
    paid = 0.0
    for submit, wait, lasting, gpus in drawn:
        for hour in range(60):
            held = min(hour + 1, submit + wait + lasting) - max(hour, submit + wait)
            paid += gpus * max(0.0, held) * min(known.get(hour, [least_mean]))
    if cost.cheapest:
        assert cost.cheapest[0].cost_usd == pytest.approx(paid, rel=1e-9, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(drawn=job_rows, first=st.integers(-3, 10), n=st.integers(1, 40))
def test_gpu_hours_by_hour_agree_with_a_sum_over_jobs(drawn, first, n):
    from gpuplan.analysis.prices.cost import demands

    trace = jobs(*drawn)
    found = demands(trace, None, include_running=False)
    hours = sum(d.in_hours(FIRST_HOUR + first, n) for d in found)
    for k in range(n):
        low, high = first + k, first + k + 1
        held = sum(g * max(0.0, min(high, s + w + d) - max(low, s + w)) for s, w, d, g in drawn)
        got = 0.0 if isinstance(hours, int) else hours[k]
        assert got == pytest.approx(held, abs=1e-4)


def write(path, frame, provenance=None):
    metadata = None if provenance is None else {METADATA_KEY: provenance.to_json()}
    frame.write_parquet(path, metadata=metadata)
    return path


def test_price_tables_of_other_tools(tmp_path):
    frame = pl.DataFrame(
        {
            "timestamp": [ORIGIN],
            "provider": ["c"],
            "gpu_type": ["a100-80"],
            "kind": ["On-Demand"],
            PRICE: [2],
        }
    )
    found = read_prices(write(tmp_path / "p.parquet", frame)).prices
    assert found.select(*PRICES).row(0) == (
        ORIGIN,
        "c",
        "A100-80GB",
        None,
        "on_demand",
        2.0,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": pl.lit("rent")}, "column 'kind': found 'rent'"),
        ({PRICE: pl.lit(-1.0)}, "found -1.0"),
        ({"timestamp": pl.lit("soon")}, "column 'timestamp'"),
        ({"provider": pl.lit(None, pl.String)}, "column 'provider'"),
    ],
)
def test_price_tables_that_cannot_be_used(tmp_path, change, says):
    frame = book([(0, "c", "L4", None, "spot", 1.0)]).prices.with_columns(**change)
    with pytest.raises(InputError, match=says):
        read_prices(write(tmp_path / "p.parquet", frame))
    with pytest.raises(InputError, match="no column kind"):
        read_prices(write(tmp_path / "p.parquet", frame.drop("kind")))


def test_what_is_no_price_table(tmp_path):
    (tmp_path / "p.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="gpuplan prices"):
        read_prices(tmp_path / "p.csv")
    newer = PriceProvenance(schema_version=99)
    frame = book([(0, "c", "L4", None, "spot", 1.0)]).prices
    with pytest.raises(InputError, match="upgrade"):
        read_prices(write(tmp_path / "p.parquet", frame, newer))
    whole = (tmp_path / "p.parquet").read_bytes()
    (tmp_path / "p.parquet").write_bytes(whole[:-20])
    with pytest.raises(InputError, match="damaged"):
        read_prices(tmp_path / "p.parquet")
    with pytest.raises(InputError, match="no such file"):
        read_market("nowhere.parquet")


def test_the_command_and_characterize(tmp_path, gpuplan):
    source, table = tmp_path / "p.csv", tmp_path / "prices.parquet"
    source.write_text(
        "timestamp,provider,gpu,region,kind,price_usd_per_gpu_hour,available\n"
        + "".join(f"2026-01-05T{h:02}:00:00Z,c,A100 80GB,,spot,{1 + h % 2},{h}\n" for h in range(9))
        + "2026-01-05T00:00:00Z,d,A100 80GB,,on-demand,5,\nbroken\n"
    )
    code, out, err = gpuplan(
        "prices", source, "-o", table, "--max-rejects", "1", "--plot", tmp_path / "p.png",
        "--plot", tmp_path / "p.svg", "--output-format", "json",
    )  # fmt: skip
    assert code == 0 and "1 row cannot be used" in err
    results = json.loads(out)["results"]
    assert (results["rows_read"], results["rows_kept"], results["rows_rejected"]) == (11, 10, 1)
    assert results["references"] == {"A100-80GB": "d:on_demand"}
    assert (tmp_path / "p.png").stat().st_size > 10_000
    for form in ("table", "md", "csv"):
        code, shown, _ = gpuplan("prices", source, "-o", table, "--max-rejects", "1",
                                 "--output-format", form)  # fmt: skip
        assert code == 0 and "A100-80GB" in shown
        assert form != "table" or max(map(len, shown.splitlines())) <= 100

    trace = support_traces.write(tmp_path / "t.parquet", jobs((0, 0, 4, 2), gpu="A100-80GB").jobs)
    code, out, err = gpuplan("characterize", trace, "--prices", table, "--output-format", "json")
    assert code == 0, err
    document = json.loads(out)
    assert [Path["path"] for Path in document["inputs"]] == [str(trace), str(table)]
    bills = {b["provider"]: b for b in document["results"]["prices"]["bills"]}
    assert bills["c"]["cost_usd"] == pytest.approx(2 * (1 + 2 + 1 + 2))
    assert bills["d"]["cost_usd"] == pytest.approx(40.0)
    code, out, _ = gpuplan("characterize", trace, "--prices", "builtin", "--gpu", "A100",
                           "--as-of", "2026-06-01",
                           "--fail-if", "prices.unpriced_gpu_hours > 0")  # fmt: skip
    assert code == 0 and "What the trace would have cost" in out
    # The list has no hours.
    assert re.search(r"A100-80GB +lowest +listed", out) and "each hour" not in out
    assert max(map(len, out.splitlines())) <= 100
    code, out, _ = gpuplan("characterize", trace, "--prices", table)
    assert code == 0 and re.search(r"A100-80GB +cheapest +each hour", out)
    code, _, err = gpuplan("characterize", trace, "--gpu", "A100")
    assert code == 2 and "needs --prices" in err
    code, _, err = gpuplan("characterize", trace, "--prices", source)
    assert code == 3 and "gpuplan prices" in err


def test_gates_on_prices(tmp_path, gpuplan):
    source, table = tmp_path / "p.csv", tmp_path / "prices.parquet"
    source.write_text(
        "timestamp,provider,gpu,region,kind,price_usd_per_gpu_hour,available\n"
        "2026-01-05T00:00:00Z,c,L4,,spot,0.5,\n2026-01-05T00:00:00Z,c,L4,,on-demand,1,\n"
    )

    def gated(condition):
        return gpuplan("prices", source, "-o", table, "--fail-if", condition)[::2]

    assert gated("offers.median_usd_per_gpu_h > 3")[0] == gated("rows_rejected > 0")[0] == 0
    assert gated("offers.median_usd_per_gpu_h > 0.4")[0] == 1
    assert gated("offers.saving < -1%")[0] == 0 and gated("offers.saving < 20%")[0] == 1
    code, err = gated("offers.median > 3")
    assert code == 2 and "offers.median_usd_per_gpu_h" in err and "has been written" in err
    assert table.exists()


def test_logs_and_traces_are_no_prices(tmp_path, gpuplan):
    log, out = tmp_path / "log.csv", tmp_path / "prices.parquet"
    log.write_text("name,time,application,num_replicas,batch_size\na,0,cifar10,1,128\n")
    code, _, err = gpuplan("prices", log, "-o", out)
    assert code == 3 and "is a job log (sia" in err and f"gpuplan ingest {log}" in err
    trace = support_traces.write(tmp_path / "t.parquet", jobs((0, 0, 4, 2)).jobs)
    code, _, err = gpuplan("prices", trace, "-o", out)
    assert code == 3 and "is a trace of jobs" in err and "--prices builtin" in err
    assert not out.exists()


def test_the_same_prices_give_the_same_bytes(tmp_path, gpuplan):
    source = tmp_path / "p.csv"
    source.write_text(
        "timestamp,provider,gpu,region,kind,price_usd_per_gpu_hour,available\n"
        + "".join(f"2026-01-05T00:00:00Z,{p},L4,{r},spot,{i + 1},\n"
                  for i, (p, r) in enumerate((p, r) for p in "dcba" for r in "zyx"))
    )  # fmt: skip
    seen = set()
    for _ in range(2):
        _, out, _ = gpuplan("prices", source, "-o", tmp_path / "o.parquet", "--output-format",
                            "json")  # fmt: skip
        seen.add((out, (tmp_path / "o.parquet").read_bytes()))
    assert len(seen) == 1
