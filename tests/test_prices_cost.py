"""What the jobs of a trace would have cost, on prices and jobs worked out by hand."""

from datetime import timedelta

import numpy as np
import pytest
import support_traces
from hypothesis import given, settings
from hypothesis import strategies as st
from support_prices import FIRST_HOUR, ORIGIN, SPOT, bill, book, jobs

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.schema import Provenance
from gpuplan.analysis.prices.hourly import demands, hourly_prices
from gpuplan.analysis.prices.view import market
from gpuplan.planner.money.trace_bill import bills, cheapest_bill, trace_cost


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
    assert cost.cheapest_each_hour[0].cost_usd == pytest.approx(4 * (0.5 * 1 + 1 * 2 + 0.5 * 3))
    assert cost.notes == ()


def test_an_offer_that_did_not_exist_then_is_not_the_cheapest():
    rows = [(h, "real", "L4", None, "on_demand", 2.0) for h in range(49)]
    rows += [(10_000, "flash", "L4", None, "on_demand", 0.05)]
    found = market(book(rows), as_of=ORIGIN + timedelta(hours=48))
    cost = trace_cost(jobs((0, 0, 10, 3), (5, 1, 20, 1)), found)
    (least,) = cost.cheapest_each_hour
    assert (least.cost_usd, least.hourly_share) == (pytest.approx(2.0 * 50), 1.0)
    flash = bill(cost, "flash", "on_demand")
    assert (flash.cost_usd, flash.hourly_share) == (pytest.approx(0.05 * 50), 0.0)
    # Its price and the reference's have no hour in common, so nothing is saved by it.
    offers = {offer.provider: offer for offer in found.offers}
    assert (offers["flash"].saving, flash.saving) == (None, None)
    assert (offers["real"].saving, bill(cost, "real", "on_demand").saving) == (0.0, 0.0)
    assert any("no saving for 1 of 2 offers" in note for note in found.notes)


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
    assert cost.cheapest_each_hour[0].hourly_share == 1.0


def test_outside_of_the_prices_the_mean_is_billed_and_said():
    rows = [(h, "aws", "L4", "z", "spot", p) for h, p in ((0, 1.0), (3, 5.0), (4, 5.0))]
    found = market(book(rows, changes=[SPOT]))
    mean = (3 * 1 + 1 * 5) / 4
    cost = trace_cost(jobs((2, 0, 6, 1)), found)  # hours 2 and 3 known, 4 to 8 not
    spot = bill(cost, "aws", "spot")
    assert spot.cost_usd == pytest.approx(1 + 5 + 4 * mean)
    assert spot.hourly_share == pytest.approx(2 / 6)
    assert any("67%" in note and "outside" in note for note in cost.notes)


def test_a_list_without_history_bills_no_hour_at_its_own_price():
    # The source asks 2 on average; 3 GPUs for 4 h, of whose hours nothing is known.
    found = market(book([(0, "a", "L4", None, "spot", 1.0), (1, "a", "L4", None, "spot", 3.0)]))
    (demand,) = demands(jobs((0, 0, 4, 3)), None)
    (billed,) = bills(demand, found.offers, ())
    assert (billed.cost_usd, billed.lowest_usd, billed.hourly_share) == (24.0, 12.0, 0.0)
    cheapest = cheapest_bill(demand, found.offers, ())
    assert (cheapest.cost_usd, cheapest.hourly_share) == (12.0, 0.0)


def test_a_share_of_the_hours_is_that_of_gpu_hours():
    # Known are hours 0 and 1: 2 of the 5 h of one GPU, 1 of the 3 h of two, so 4 of 11 GPU-hours.
    rows = [(h, "a", "L4", None, "spot", 1.0) for h in (0, 1)]
    cost = trace_cost(jobs((0, 0, 5, 1), (1, 0, 3, 2)), market(book(rows)))
    assert bill(cost, "a", "spot").hourly_share == round(4 / 11, 6)
    assert cost.cheapest_each_hour[0].hourly_share == round(4 / 11, 6)
    idle = trace_cost(jobs((0, 0, 0, 1)), market(book(rows)))
    assert [billed.hourly_share for billed in (*idle.bills, *idle.cheapest_each_hour)] == [0.0, 0.0]


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
    assert trace_cost(trace, found).bills[0].gpu_hours == 7.0


def test_the_gpu_of_jobs_that_name_none():
    rows = [(0, "c", "A100-80GB", None, "spot", 1.0), (0, "c", "L4", None, "spot", 0.5)]
    found = market(book(rows))
    unnamed = jobs((0, 0, 1, 2), gpu=None)
    cost = trace_cost(unnamed, found)
    assert cost.bills == () and cost.unpriced_gpu_hours == 2.0
    assert any("--gpu" in note and "L4" in note for note in cost.notes)
    assert trace_cost(unnamed, found, gpu="a100-80").bills[0].gpu_type == "A100-80GB"
    with pytest.raises(UsageError, match="which have A100-80GB, L4"):
        trace_cost(unnamed, found, gpu="H100")
    # The only GPU of the prices needs no choice; a named one is never overruled.
    assert trace_cost(unnamed, market(book(rows[:1]))).bills[0].cost_usd == 2.0
    named = trace_cost(jobs((0, 0, 1, 2), gpu="NVIDIA L4"), found, gpu="A100")
    assert [b.gpu_type for b in named.bills] == ["L4"]


def test_prices_without_memory_stand_for_any():
    cost = trace_cost(jobs((0, 0, 1, 1), gpu="A100-SXM4-80GB"), market(None))
    assert {b.gpu_type for b in cost.bills} == {"A100"}
    assert any("billed at the prices of A100" in note for note in cost.notes)


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
    assert len(cost.bills) == len(cost.cheapest_each_hour) == any(gpus for *_, gpus in drawn)
    for billed in cost.bills:
        assert billed.cost_usd == pytest.approx(gpu_hours * price, rel=1e-9, abs=1e-9)
        assert billed.lowest_usd == pytest.approx(gpu_hours * price, rel=1e-9, abs=1e-9)
    for least in cost.cheapest_each_hour:
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
    for billed in cost.bills:
        assert billed.lowest_usd <= billed.cost_usd * (1 + 1e-9) + 1e-9
        assert 0 <= billed.hourly_share <= 1
    known = {}
    for source in hourly_prices(prices):
        for hour, price in enumerate(source.lowest, source.first_hour - FIRST_HOUR):
            if not np.isnan(price):
                known.setdefault(hour, []).append(price)
    least_mean = min(source.mean_lowest for source in hourly_prices(prices))
    paid = 0.0
    for submit, wait, lasting, gpus in drawn:
        for hour in range(60):
            held = min(hour + 1, submit + wait + lasting) - max(hour, submit + wait)
            paid += gpus * max(0.0, held) * min(known.get(hour, [least_mean]))
    expected = [pytest.approx(paid, rel=1e-9, abs=1e-6)] if any(g for *_, g in drawn) else []
    assert [least.cost_usd for least in cost.cheapest_each_hour] == expected


@settings(max_examples=60, deadline=None)
@given(drawn=job_rows, first=st.integers(-3, 10), n=st.integers(1, 40))
def test_gpu_hours_by_hour_agree_with_a_sum_over_jobs(drawn, first, n):
    trace = jobs(*drawn)
    found = demands(trace, None)
    hours = sum(d.in_hours(FIRST_HOUR + first, n) for d in found)
    for k in range(n):
        low, high = first + k, first + k + 1
        held = sum(g * max(0.0, min(high, s + w + d) - max(low, s + w)) for s, w, d, g in drawn)
        got = 0.0 if isinstance(hours, int) else hours[k]
        assert got == pytest.approx(held, abs=1e-4)
