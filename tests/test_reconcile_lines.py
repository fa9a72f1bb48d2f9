"""Charges and hours of jobs compared line by line: laws for every invoice."""

from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.analysis.base.time_zones import zone_named
from gpuplan.analysis.prices.contracts import (
    Contracts,
    DatedPrice,
    PaidPool,
    make_contracts,
    read_contracts,
)
from gpuplan.analysis.prices.contracts_text import contracts_text
from gpuplan.planner.money.invoice_charges import Charge
from gpuplan.planner.money.invoice_table import line_cents, unit_price
from gpuplan.planner.money.ledger import HeldRuns
from gpuplan.planner.money.reconcile import charges_usd, reconcile

DAY_US = 86_400 * 10**6
JANUARY = {"2026-01": (0, 31 * DAY_US)}


def charge(kind="usage", gpu_type="A", begin=0, end=1, hours=0, billed=0, effective=0, **more):
    fields = {
        "month": "2026-01",
        "name": gpu_type or "disk",
        "market": "on_demand",
        "commitment": "",
        "unit_usd": None,
        "rows": 1,
    } | more
    return Charge(
        kind=kind,
        gpu_type=gpu_type,
        begin_us=round(begin * DAY_US),
        end_us=round(end * DAY_US),
        gpu_h=Fraction(hours),
        billed=Fraction(billed),
        effective=Fraction(effective),
        **fields,
    )


def runs(*held):
    """Return runs of begin and end in days, GPUs, all of the type A."""
    start, end, gpus = np.array(held, float).T if held else np.zeros((3, 0))
    label = np.zeros(len(held), np.int64)
    return HeldRuns(
        np.rint(start * DAY_US).astype(np.int64),
        np.rint(end * DAY_US).astype(np.int64),
        gpus,
        label,
        label,
        1,
        ("A",),
    )


BOOK = Contracts(prices=(DatedPrice("A", "on_demand", Fraction(1)),))


def test_hours_of_a_day_are_compared_together():
    hourly = [charge(begin=h / 24, end=(h + 1) / 24, hours=1, effective=h % 2) for h in range(24)]
    found = reconcile(hourly, JANUARY, runs((0, 0.5, 1)), BOOK)  # 12 GPU-hours of 24
    assert found.lines["2026-01"] == {("log", "A"): (0, 6), ("not_in_log", "A"): (0, 6)}


def test_a_charge_of_many_days_is_compared_as_one():
    whole = charge(begin=0, end=31, hours=100, effective=50)
    inside = charge(begin=3, end=4, hours=20, effective=10)
    found = reconcile([whole, inside], JANUARY, runs((2, 7, 1)), BOOK)  # 120 GPU-hours
    assert found.lines["2026-01"] == {("log", "A"): (0, 60), ("not_in_log", "A"): (0, 0)}
    (period,) = found.periods
    assert (period.begin_us, period.end_us) == (0, 31 * DAY_US)


def test_a_day_of_another_offset_is_compared_as_it_is_written():
    shifted = [
        charge(begin=d - 1 / 12, end=d + 11 / 12, hours=24, effective=1) for d in range(1, 4)
    ]
    found = reconcile(shifted, JANUARY, runs((11 / 12, 47 / 12, 1)), BOOK)
    assert [(p.log_h, p.billed_h) for p in found.periods] == [(24, 24)] * 3
    assert not any(period.differs for period in found.periods)


def test_a_day_that_two_months_bill_is_explained_once():
    months = {"2026-01": (0, 31 * DAY_US), "2026-02": (31 * DAY_US, 59 * DAY_US)}
    both = [charge(hours=10, effective=10), charge(hours=10, effective=10, month="2026-02")]
    found = reconcile(both, months, runs((0, 10 / 24, 1)), BOOK)
    for month in months:
        assert found.lines[month] == {("log", "A"): (0, 5), ("not_in_log", "A"): (0, 5)}
    (period,) = found.periods
    assert [period.log_h_of(month) for month in months] == [5, 5]


def test_dollars_without_hours_are_not_in_the_log():
    found = reconcile([charge(hours=0, effective=7)], JANUARY, runs((0, 1, 1)), BOOK)
    assert found.lines["2026-01"] == {("log", "A"): (0, 0), ("not_in_log", "A"): (0, 7)}


def test_stated_prices_hold_where_they_make_the_dollars():
    stated = charge(hours=Fraction("80.494444"), effective="221.359722", unit_usd=Fraction("2.75"))
    assert unit_price(stated) == Fraction("2.75")
    discounted = charge(hours=10, effective=9, unit_usd=Fraction(1))
    assert unit_price(discounted) == Fraction("0.9")
    assert unit_price(charge(hours=3, effective=1)) == Fraction("0.333")
    in_cents = charge(hours=Fraction("80.49"), effective="221.36", unit_usd=Fraction("2.75"))
    assert unit_price(in_cents) == Fraction("2.75")
    summed = charge(hours=Fraction("7.123457"), effective="9.876543")
    assert unit_price(summed) == Fraction("1.386482")


KINDS = ("usage", "unused", "unused_capacity", "purchase", "tax", "credit", "correction")
USD = st.decimals(-1000, 1000, places=6).map(Fraction)
HOURS = st.decimals(0, 100, places=6).map(Fraction)


@st.composite
def charges(draw):
    kind = draw(st.sampled_from(KINDS))
    begin = draw(st.sampled_from([0, 0.25, 1, 1.5, 30, 31, 40]))
    length = draw(st.sampled_from([1 / 24, 0.5, 1, 3, 31]))
    gpu_type = (
        None if kind in ("tax", "credit", "correction") else draw(st.sampled_from(["A", "B", None]))
    )
    return charge(
        kind,
        gpu_type,
        begin,
        begin + length,
        draw(HOURS) if gpu_type and kind == "usage" else 0,
        draw(USD),
        draw(USD),
        month=draw(st.sampled_from(["2026-01", "2026-02"])),
    )


MONTHS = {"2026-01": (0, 31 * DAY_US), "2026-02": (31 * DAY_US, 59 * DAY_US)}
HELD = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 8)).map(
        lambda run: (run[0], run[0] + run[1] / 2, run[2])
    ),
    max_size=6,
)


@given(st.lists(charges(), max_size=12), HELD, st.integers(0, 4))
def test_lines_have_all_dollars_and_explain_no_more_than_both_have(rows, held, owned):
    pools = [PaidPool("owned", "A", owned, Fraction(0))] if owned else []
    book = make_contracts(pools, list(BOOK.prices))
    found = reconcile(rows, MONTHS, runs(*held), book)
    for month, of_month in found.lines.items():
        for column, name in enumerate(("billed", "effective")):
            whole = sum(getattr(row, name) for row in rows if row.month == month)
            assert sum((usd[column] for usd in of_month.values()), Fraction(0)) == whole
            cents = line_cents(of_month)
            total = sum(part[column] for part in cents.values())
            assert abs(total - whole * 100) <= Fraction(1, 2)
            for key, part in cents.items():
                assert abs(part[column] - of_month[key][column] * 100) < 1
        below = sum(
            row.effective
            for row in rows
            if row.month == month and row.kind in ("tax", "credit", "correction")
        )
        whole = sum(row.effective for row in rows if row.month == month)
        assert charges_usd(of_month) == whole - below
    billed_h = Counter()
    for period in found.periods:
        assert 0 <= period.explained_share <= 1
        assert period.explained_share * period.billed_h <= period.log_h
        assert sum(period.log_h_of(month) for month in MONTHS) == period.log_h
        billed_h[period.gpu_type] += period.billed_h
    for gpu_type in "AB":
        of_type = [row for row in rows if row.kind == "usage" and row.gpu_type == gpu_type]
        assert billed_h[gpu_type] == sum(row.gpu_h for row in of_type)
    for first, second in zip(found.periods, found.periods[1:], strict=False):
        assert first.gpu_type != second.gpu_type or first.end_us <= second.begin_us


@given(HELD)
def test_hours_of_the_log_in_billing_months_are_all_there(held):
    found = reconcile([], MONTHS, runs(*held), BOOK)
    inside = sum(
        (Fraction(min(end, 59)) - Fraction(min(start, 59))) * 24 * gpus for start, end, gpus in held
    )
    assert sum((period.log_h for period in found.periods), Fraction(0)) == inside
    assert all(usd == (0, 0) for month in found.lines.values() for usd in month.values())


TYPES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1).filter(
    str.strip
)
AT = st.one_of(st.just(None), st.integers(0, 4 * 10**9).map(lambda s: s * 10**6))


@given(
    st.lists(st.tuples(st.sampled_from(["owned", "committed"]), st.integers(1, 99), HOURS, AT)),
    st.lists(
        st.tuples(st.sampled_from(["on_demand", "spot"]), HOURS, AT),
        unique_by=lambda p: (p[0], p[2]),
    ),
    st.sampled_from([None, "Europe/Berlin", "America/New_York"]),
)
def test_a_written_price_book_is_read_as_it_was(tmp_path_factory, pools, prices, zone):
    book = make_contracts(
        [
            PaidPool(market, 'A"\\b', gpus, usd, *([] if at is None else [at, at + 10**12]))
            for market, gpus, usd, at in pools
        ],
        [DatedPrice("H100", kind, usd, *([] if at is None else [at])) for kind, usd, at in prices],
    )
    path = tmp_path_factory.mktemp("book") / "book.toml"
    path.write_text(contracts_text(book, zone_named(zone), ("A comment.",)), encoding="utf-8")
    if not pools and not prices:
        return
    read = read_contracts(path, zone)
    assert (read.pools, read.prices) == (book.pools, book.prices)
