"""The price view: offers, their statistics and savings, on prices worked out by hand."""

from datetime import timedelta

import numpy as np
import pytest
from support_prices import FIRST_HOUR, ORIGIN, SPOT, bill, book, jobs

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.prices.catalogue import AS_OF, CATALOGUE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.view import LeadShare, market
from gpuplan.planner.money.trace_bill import trace_cost


def test_changes_are_weighted_by_time():
    # 1.0 for 9 hours, 11.0 for 1 hour, then back; what is known ends with the last change.
    found = market(book([(0, "aws", "L4", "z", "spot", 1.0), (9, "aws", "L4", "z", "spot", 11.0),
                         (10, "aws", "L4", "z", "spot", 1.0), (10, "aws", "L4", "z", "spot", 1.0)],
                        changes=[SPOT]))  # fmt: skip
    (offer,) = found.offers
    assert offer.mean_usd_per_gpu_h == pytest.approx(2.0)  # (9 * 1 + 1 * 11) / 10, not 14 / 4
    assert (offer.median_usd_per_gpu_h, offer.p25_usd_per_gpu_h, offer.p75_usd_per_gpu_h) == (
        1.0,
        1.0,
        1.0,
    )
    assert (offer.least_usd_per_gpu_h, offer.most_usd_per_gpu_h, offer.rows, offer.sampling) == (
        1.0,
        11.0,
        4,
        "change",
    )
    assert offer.variation == pytest.approx(3.0 / 2.0)  # sqrt((9 * 1 + 1 * 81) / 10) = 3
    assert found.hourly[0].mean == pytest.approx(2.0)
    assert found.hourly[0].typical.tolist() == pytest.approx([1.0] * 9 + [11.0])


def test_snapshots_count_alike():
    rows = [(0, "c", "L4", None, "marketplace", 1.0), (1, "c", "L4", None, "marketplace", 2.0),
            (10, "c", "L4", None, "marketplace", 6.0)]  # fmt: skip
    (offer,) = market(book(rows)).offers
    assert (offer.mean_usd_per_gpu_h, offer.median_usd_per_gpu_h) == (3.0, 2.0)
    assert (offer.p25_usd_per_gpu_h, offer.p75_usd_per_gpu_h) == (1.5, 4.0)


def test_an_hour_is_the_time_weighted_mean_of_what_is_in_force():
    rows = [(0, "aws", "L4", "z", "spot", 1.0), (0.75, "aws", "L4", "z", "spot", 5.0),
            (2, "aws", "L4", "z", "spot", 9.0), (0, "aws", "L4", "y", "spot", 3.0),
            (2, "aws", "L4", "y", "spot", 3.0)]  # fmt: skip
    (series,) = hourly_prices(book(rows, changes=[SPOT, ("aws", "L4", "spot", "y")]))
    assert series.first_hour == FIRST_HOUR
    # zone z: 0.75 * 1 + 0.25 * 5 = 2 and 5; zone y: 3 and 3
    assert series.typical.tolist() == pytest.approx([2.5, 4.0])
    assert series.lowest.tolist() == pytest.approx([2.0, 3.0])


def test_several_offers_at_once_are_one_quote():
    rows = [(0, "v", "L4", "US", "marketplace", p, n) for p, n in ((0.3, 1), (0.5, 2), (0.9, 4))]
    (series,) = hourly_prices(book(rows))
    assert (series.typical[0], series.lowest[0]) == pytest.approx((0.5, 0.3))
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
    (cheapest,) = market(book(rows)).cheapest
    assert cheapest.shares == (LeadShare("a", "spot", 0.6), LeadShare("b", "on_demand", 0.4))
    assert cheapest.mean_usd_per_gpu_h == pytest.approx((3 * 1 + 2 * 2) / 5)
    assert [(lead.provider, lead.end - lead.start) for lead in cheapest.leads] == [
        ("a", timedelta(hours=3)),
        ("b", timedelta(hours=2)),
    ]


def test_savings_against_the_most_expensive_on_demand_or_a_named_source():
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


def test_a_source_that_begins_later_is_told_by_name():
    rows = [(h, "real", "L4", None, "on_demand", 2.0) for h in range(49)]
    rows += [(48 + 24 * 400, "flash", "L4", None, "spot", 0.05)]
    found = market(book(rows), as_of=ORIGIN + timedelta(hours=48))
    days = {offer.provider: offer.begins_after_days for offer in found.offers}
    assert days == {"flash": 400.0, "real": 0.0}
    assert any(note.startswith("1 of 2 prices are from 2027-02-11 on, 400 days after 2026-01-07: f")
               for note in found.notes)  # fmt: skip
    assert all(offer.begins_after_days is None for offer in market(book(rows)).offers)


def test_savings_are_of_the_hours_that_both_sources_know():
    # The reference halves its price when the other begins: 1.5 is half of 3, not 1/3 of 4.5.
    rows = [(h, "a", "L4", None, "on_demand", 6.0 if h < 10 else 3.0) for h in range(20)]
    rows += [(h, "b", "L4", None, "spot", 1.5) for h in range(10, 20)]
    offers = {offer.provider: offer for offer in market(book(rows)).offers}
    assert offers["b"].saving == pytest.approx(0.5)


def test_the_built_in_list():
    found = market(None)
    offers = {(o.provider, o.gpu_type, o.kind): o for o in found.offers}
    assert len(offers) == len(CATALOGUE)
    vast = offers["vast.ai", "A100", "marketplace"]
    assert vast.median_usd_per_gpu_h == 1.08
    assert (vast.least_usd_per_gpu_h, vast.most_usd_per_gpu_h) == (0.38, 1.66)
    assert offers["aws", "A100", "spot"].median_usd_per_gpu_h is None
    assert found.references["A100"] in ("gcp:on_demand", "azure:on_demand")  # both 3.67
    # The paper: marketplaces offer A100 and H100 at 14 to 22% of the price of AWS.
    for gpu, share in (("A100", 0.14), ("H100", 0.22)):
        vast, aws = offers["vast.ai", gpu, "marketplace"], offers["aws", gpu, "on_demand"]
        assert vast.least_usd_per_gpu_h / aws.median_usd_per_gpu_h == pytest.approx(
            share, abs=0.005
        )
    cost = trace_cost(jobs((0, 0, 10, 1), gpu="A100"), found)
    spot = bill(cost, "aws", "spot")
    assert spot.cost_usd is None and spot.lowest_usd == pytest.approx(3.2)
    assert bill(cost, "modal", "serverless").cost_usd == pytest.approx(21.0)
    assert cost.cheapest_each_hour[0].cost_usd == pytest.approx(3.2)


@pytest.mark.parametrize(("days", "stale"), [(30, False), (90, False), (91, True)])
def test_old_prices_are_told(days, stale):
    found = market(None, as_of=AS_OF + timedelta(days=days))
    assert all(offer.stale == stale for offer in found.offers)
    assert any(f"{days} days before" in note for note in found.notes) == stale
    assert all(offer.age_days == days for offer in found.offers)


def test_prices_newer_than_the_trace_are_told():
    notes = market(None, as_of=AS_OF - timedelta(days=400)).notes
    assert any("400 days after" in note for note in notes)


def test_the_price_in_force_is_the_latest_one_and_means_are_by_time():
    """Two prices of a list: 30 days at 2.75, then 2.40, as known 10 days on; never their median."""
    rows = [(0, "c", "H100", "us", "on_demand", 2.75), (720, "c", "H100", "us", "on_demand", 2.4),
            (960, "c", "A100", "us", "on_demand", 1.0)]  # fmt: skip
    changed = market(book(rows, changes=[("c", "H100", "on_demand", "us")]))
    offers = {offer.gpu_type: offer for offer in changed.offers}
    for offer in (offers["H100"], {o.gpu_type: o for o in market(book(rows)).offers}["H100"]):
        assert offer.latest_usd_per_gpu_h == 2.4
        assert offer.latest_from == ORIGIN + timedelta(hours=720)
    snapshot = {o.gpu_type: o for o in market(book(rows)).offers}["H100"]
    # As snapshots the last one holds for 720 h at most, and until the table ends at 960 h.
    assert snapshot.period_mean_usd_per_gpu_h == pytest.approx((720 * 2.75 + 240 * 2.4) / 960)
    assert snapshot.period_end == ORIGIN + timedelta(hours=960)
    assert snapshot.median_usd_per_gpu_h == pytest.approx(2.575)  # of the rows, as documented


def test_the_latest_price_of_several_regions_is_their_median_at_the_end():
    rows = [(h, "v", "L4", region, "marketplace", usd)
            for region, usd in (("a", 1.0), ("b", 3.0), ("c", 4.0)) for h in range(4)]  # fmt: skip
    rows += [(0, "v", "L4", "gone", "marketplace", 99.0), (3, "v", "L4", "d", "marketplace", 9.0)]
    (offer,) = market(book(sorted(rows))).offers
    assert offer.latest_usd_per_gpu_h == 3.5  # of 1, 3, 4 and 9
    assert offer.latest_from == ORIGIN + timedelta(hours=3)  # region d is new


def test_the_headline_says_the_price_now_and_the_mean_with_its_time(gpuplan, tmp_path):
    source = tmp_path / "p.csv"
    head = "timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour\n"
    source.write_text(
        head
        + "2026-01-01T00:00:00Z,c,H100,us,on_demand,3\n2026-01-11T00:00:00Z,c,H100,us,on_demand,2\n"
        + "2026-01-16T00:00:00Z,c,L4,us,on_demand,0.5\n"
    )
    code, out, _ = gpuplan("prices", source, "-o", tmp_path / "t.parquet")
    said = " ".join(out.split())
    assert code == 0 and "Cheapest by latest price: H100 at $2 per GPU-hour" in said
    mean = (10 * 3 + 5 * 2) / 15
    assert f"${mean:.3g} in the mean from 2026-01-01 to 2026-01-16" in said
    assert "Prices (US dollars per GPU-hour; means in time until 2026-01-16)" in said
    assert "median" not in said and "2.5" not in said


def test_columns_say_what_they_are_of_and_split_tables_tell_their_rows_apart(gpuplan, tmp_path):
    """Quartiles of snapshots are of rows, means in time; the second part has the provider too."""
    source = tmp_path / "p.csv"
    rows = ["timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour"]
    rows += [
        f"2026-01-{day}T00:00:00Z,provider-{name},A100-80GB,us,on_demand,{usd}"
        for name, last in (("northeast", "05"), ("southeast", "09"), ("southwest", "11"))
        for day, usd in (("01", 3.0), (last, 2.0))
    ]
    rows.append("2026-02-01T00:00:00Z,provider-northeast,L4,us,on_demand,0.5")
    source.write_text("\n".join(rows))
    code, out, err = gpuplan("prices", source, "-o", tmp_path / "t.parquet")
    assert code == 0 and "P25-P75 of" in out and "rows" in out  # the header is folded
    heads = [line for line in out.splitlines() if line.startswith(" GPU ")]
    assert len(heads) > 1 and all("provider" in head for head in heads)
    assert "--sampling change" in err and "A100-80GB" in err
    code, out, err = gpuplan("prices", source, "--sampling", "change", "-o", tmp_path / "c.parquet")
    assert code == 0 and "P25-P75 of" not in out and "--sampling" not in err


def test_prices_of_a_dollar_and_ten_cents_are_said_in_cents(gpuplan, tmp_path):
    source = tmp_path / "p.csv"
    rows = ["timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour"]
    rows += [f"2026-01-0{day}T00:00:00Z,c,H100,us,on_demand,{usd}" for day, usd in
             ((1, 1.3), (2, 0.9), (3, 1.1))]  # fmt: skip
    source.write_text("\n".join(rows))
    said = " ".join(gpuplan("prices", source, "-o", tmp_path / "t.parquet")[1].split())
    assert "H100 at $1.10 per GPU-hour (c on-demand; $1.10 in the mean" in said
