"""An invoice beside a log: worked by hand, and laws for every invoice."""

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_invoices import day, usage, write_focus, write_log

from gpuplan.analysis.prices.contracts import (
    COMMITTED,
    Contracts,
    DatedPrice,
    PaidPool,
    make_contracts,
    read_contracts,
    zone_of,
)
from gpuplan.analysis.prices.contracts_text import contracts_text
from gpuplan.planner.money.invoice_charges import Charge
from gpuplan.planner.money.invoice_table import line_cents, unit_price
from gpuplan.planner.money.ledger import HeldRuns
from gpuplan.planner.money.reconcile import charges_usd, reconcile

DAY_US = 86_400 * 10**6
JANUARY = {"2026-01": (0, 31 * DAY_US)}


def billed(gpuplan, *words, code=0):
    found, out, err = gpuplan("bill", *words, "--output-format", "json")
    assert found == code, err
    return json.loads(out)["results"] if code == 0 else err


def lines(month, column="effective_usd"):
    return {f"{row['kind']}|{row['name']}": row[column] for row in month["lines"] if row[column]}


@pytest.fixture
def small(tmp_path):
    """A log of three days, its price book and its invoice.

    5 January: 2 of 8 H100 run on an owned GPU each, so 6 x 10 h = 60 GPU-hours are the provider's;
    it bills 80 at $2. On 6 January 24 GPU-hours run and are not billed. On 7 January 48 are billed
    and 48 run, 24 of them on a commitment at $1 that has 24 more unused.
    """
    log = write_log(
        tmp_path / "jobs.csv",
        [
            ("a", "2026-01-05T00:00:00Z", "2026-01-05T10:00:00Z", 8, "H100-80GB"),
            ("b", "2026-01-06T00:00:00Z", "2026-01-06T08:00:00Z", 5, "H100-80GB"),
            ("a", "2026-01-07T00:00:00Z", "2026-01-08T00:00:00Z", 4, "H100-80GB"),
            ("b", "2026-01-07T00:00:00Z", "2026-01-07T06:00:00Z", 2, "T4"),
        ],
    )
    book = tmp_path / "book.toml"
    book.write_text(
        '[[owned]]\ngpu_type = "H100-80GB"\ngpus = 2\n\n'
        '[[price]]\ngpu_type = "H100-80GB"\nkind = "on_demand"\nusd_per_gpu_h = 2\n\n'
        '[[price]]\ngpu_type = "T4"\nkind = "on_demand"\nusd_per_gpu_h = 0.5\n'
    )
    committed = {"PricingCategory": "Committed", "CommitmentDiscountId": "c-1"}
    rows = [
        usage(5, "gpu.h100-80gb.od", "50", "100", ContractedUnitPrice="2"),
        usage(5, "gpu.h100-80gb.od", "30", "60", ContractedUnitPrice="2"),
        usage(7, "gpu.h100-80gb.od", "24", "48", ContractedUnitPrice="2"),
        usage(
            7,
            "gpu.h100-80gb.res",
            "24",
            "24",
            BilledCost="0",
            CommitmentDiscountStatus="Used",
            **committed,
        ),
        usage(
            7,
            "gpu.h100-80gb.res",
            "24",
            "24",
            BilledCost="0",
            CommitmentDiscountStatus="Unused",
            **committed,
        ),
        day(7, ChargeCategory="Purchase", BilledCost="48", CommitmentDiscountId="c-1"),
        usage(7, "XT-1", "12", "6", PricingCategory="Dynamic"),
        usage(5, "disk", "100", "10", PricingUnit="GB"),
        usage(5, "", "", "-3", ChargeClass="Correction"),
        usage(5, "", "", "-4", ChargeCategory="Credit"),
        usage(5, "", "", "20", ChargeCategory="Tax"),
    ]
    return log, book, write_focus(tmp_path / "invoice.csv.gz", rows)


def test_lines_worked_by_hand(gpuplan, small):
    log, book, invoice = small
    words = (log, "--contracts", book, "--invoice", invoice, "--sku", "XT-1=T4")
    results = billed(gpuplan, *words)
    (month,) = results["months"]
    # 5 January: 60 of 80 hours, so $120 of $160; 7 January: all 48, $48 + $24; T4: 12 of 12.
    assert lines(month) == {
        "log|H100-80GB": 168.0,  # 2 of 4 GPUs on 7 January are owned: 48 h of the 48 billed
        "not_in_log|H100-80GB": 64.0,
        "log|T4": 6.0,
        "unused|H100-80GB": 24.0,
        "other|disk": 10.0,
        "correction|": -3.0,
        "credit|": -4.0,
        "tax|": 20.0,
    } | {"log|H100-80GB": 192.0, "not_in_log|H100-80GB": 40.0}
    assert lines(month, "billed_usd")["purchase|H100-80GB"] == 48.0
    assert lines(month, "billed_usd")["log|H100-80GB"] == 168.0
    assert (month["billed_usd"], month["effective_usd"]) == (285.0, 285.0)
    assert month["charges_usd"] == 272.0
    assert month["explained_share"] == pytest.approx(198 / 272)
    assert month["unused_share"] == pytest.approx(24 / 272)
    by_type = {row["gpu_type"]: row for row in month["invoice_types"]}
    hours = by_type["H100-80GB"]
    assert (hours["log_gpu_h"], hours["billed_gpu_h"]) == (132.0, 128.0)  # 60 + 24 + 48
    assert (hours["explained_gpu_h"], hours["used_gpu_h"], hours["unused_gpu_h"]) == (108, 24, 24)
    days = [
        (row["begin"][:10], row["gpu_type"], row["log_gpu_h"], row["billed_gpu_h"], row["usd"])
        for row in results["invoice"]["days"]
    ]
    assert days == [
        ("2026-01-05", "H100-80GB", 60.0, 80.0, 40.0),
        ("2026-01-06", "H100-80GB", 24.0, 0.0, 0.0),
    ]
    rates = {(row["gpu_type"], row["market"]): row["unit_usd"] for row in month["rates"]}
    assert rates == {
        ("H100-80GB", "on_demand"): 2.0,
        ("H100-80GB", "committed"): 1.0,
        ("T4", "spot"): 0.5,
    }


def test_the_answer_in_words(gpuplan, small):
    log, book, invoice = small
    code, out, err = gpuplan(
        "bill", log, "--contracts", book, "--invoice", invoice, "--sku", "XT-1=T4"
    )
    assert code == 0, err
    answer = " ".join(out.split("\n\n")[0].split())
    assert answer == (
        "January 2026: $272 of charges (invoice $285 with tax, credits and corrections). The log "
        "explains 73%; 9% is unused commitment, 4% other services, 15% not in the log. Log and "
        "invoice differ on H100-80GB, 6 January (24 GPU-hours in the log, none billed); "
        "H100-80GB, 5 January (20 GPU-hours more billed than in the log)."
    )
    assert len(out.splitlines()) < 40


def test_a_sku_that_nothing_names_is_a_line(gpuplan, small):
    log, book, invoice = small
    (month,) = billed(gpuplan, log, "--contracts", book, "--invoice", invoice)["months"]
    assert lines(month)["other|XT-1"] == 6.0
    assert "log|T4" not in lines(month)


def test_the_invoice_gives_the_prices_where_none_are_given(gpuplan, small, tmp_path):
    log, _, invoice = small
    found = tmp_path / "found.toml"
    words = (log, "--invoice", invoice, "--sku", "XT-1=T4")
    results = billed(gpuplan, *words, "--contracts-out", found)
    assert {row["gpu_type"]: row["price_source"] for row in results["gpu_types"]} == {
        "H100-80GB": "--invoice",
        "T4": "--invoice",
    }
    again = billed(gpuplan, log, "--contracts", found)
    assert again["usd"] == results["usd"]
    book = read_contracts(found)
    (pool,) = book.pools
    assert (pool.market, pool.gpus, pool.usd_per_gpu_h) == ("committed", 2, 1)
    assert {(p.gpu_type, p.kind, p.usd_per_gpu_h) for p in book.prices} == {
        ("H100-80GB", "on_demand", 2),
        ("T4", "spot", Fraction(1, 2)),
    }


def test_owned_gpus_need_no_price_beside_an_invoice(gpuplan, small):
    log, _, invoice = small
    words = (log, "--owned", "H100-80GB=2@0", "--invoice", invoice, "--sku", "XT-1=T4")
    (month,) = billed(gpuplan, *words)["months"]
    assert lines(month)["log|H100-80GB"] == 192.0
    assert lines(month)["not_in_log|H100-80GB"] == 40.0


def test_a_table_of_any_form_is_named_by_map(gpuplan, small, tmp_path):
    log, book, _ = small
    own = tmp_path / "own.csv"
    own.write_text("date;item;hours;amount\n2026-01-07;h100 node;24;60,5\n2026-01-07;disk;;5\n")
    maps = ("BilledCost=amount", "ChargePeriodStart=date", "SkuId=item", "PricingQuantity=hours")
    words = [word for pair in maps for word in ("--map", pair)]
    (month,) = billed(gpuplan, log, "--contracts", book, "--invoice", own, *words)["months"]
    assert lines(month) == {"log|H100-80GB": 60.5, "other|disk": 5.0}
    err = billed(gpuplan, log, "--contracts", book, *words, code=2)  # nothing to map without it
    assert "BilledCost" in err


def test_charges_of_days_that_the_log_does_not_have_are_told(gpuplan, small, tmp_path):
    log, book, _ = small
    rows = [usage(5, "gpu.h100", "50", "100"), usage(20, "gpu.h100", "50", "100")]
    early = write_focus(tmp_path / "i.csv", rows)
    code, _, err = gpuplan("bill", log, "--contracts", book, "--invoice", early)
    assert code == 0
    told = " ".join(err.split())
    assert "$100 of the invoice is of GPUs on days before or after the log" in told
    assert "a month assumes" not in told  # that is of a bill without an invoice


def test_a_selection_of_jobs_is_told(gpuplan, small):
    log, book, invoice = small
    words = ("--contracts", book, "--invoice", invoice, "--where", "\"group\" = 'b'")
    code, out, err = gpuplan("bill", log, *words)
    assert code == 0
    assert "compared with the selected jobs alone" in " ".join(err.split())
    assert "-$4.00" in out  # the credit


def test_gates_read_the_invoice(gpuplan, small):
    log, book, invoice = small
    words = ("bill", log, "--contracts", book, "--invoice", invoice, "-q")
    assert gpuplan(*words, "--fail-if", "months[2026-01].explained_share < 60%")[0] == 0
    assert gpuplan(*words, "--fail-if", "months[2026-01].explained_share < 90%")[0] == 1
    line = "months[2026-01].lines[tax].billed_usd"
    assert gpuplan(*words, "--fail-if", f"{line} > $19")[0] == 1
    assert gpuplan(*words, "--fail-if", "invoice.not_in_log_share > 10%")[0] == 1


def test_a_month_that_the_log_does_not_have(gpuplan, small, tmp_path):
    log, book, invoice = small
    february = {
        "BillingPeriodStart": "2026-02-01T00:00:00Z",
        "BillingPeriodEnd": "2026-03-01T00:00:00Z",
        "ChargePeriodStart": "2026-02-01T00:00:00Z",
        "ChargePeriodEnd": "2026-02-02T00:00:00Z",
    }
    other = write_focus(tmp_path / "b.csv", [usage(1, "gpu.t4.od", "3", "1.5", **february)])
    words = (log, "--contracts", book, "--invoice", invoice, "--invoice", other)
    results = billed(gpuplan, *words)
    assert [month["name"] for month in results["months"]] == ["2026-01", "2026-02"]
    last = results["months"][1]
    assert (last["usd"], last["hours"], lines(last)) == (0.0, 0.0, {"not_in_log|T4": 1.5})
    assert results["invoice"]["billed_usd"] == 286.5


@pytest.mark.parametrize(
    ("words", "problem", "code"),
    [
        (("--sku", "XT-1"), "--sku 'XT-1': expected SKU=TYPE", 2),
        (("--sku", "XT-2=T4"), "--sku XT-2=T4: no SkuId 'XT-2' on the invoice", 2),
        (("--from", "2026-01-05"), "--invoice: not with --from or --to", 2),
        (("--map", "BilledCost=usd"), "no column 'usd'", 3),
    ],
)
def test_options_that_do_not_fit(gpuplan, small, words, problem, code):
    log, book, invoice = small
    err = billed(gpuplan, log, "--contracts", book, "--invoice", invoice, *words, code=code)
    assert problem in err


def test_options_without_an_invoice(gpuplan, small):
    log, book, _ = small
    err = billed(gpuplan, log, "--contracts", book, "--sku", "XT-1=T4", code=2)
    assert "--sku: there is no invoice" in err


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


def test_an_exported_bill_reconciles_with_its_own_log(gpuplan, small, tmp_path):
    log, _, _ = small
    words = (log, "--commit", "H100=3@1.5", "--on-demand", "H100=2.25", "--on-demand", "T4=0.5")
    own = tmp_path / "own.csv"
    bill = billed(gpuplan, *words, "-o", own)
    results = billed(gpuplan, *words, "--invoice", own)
    assert results["invoice"]["days"] == []
    assert results["invoice"]["not_in_log_share"] == pytest.approx(0, abs=1e-9)
    assert results["invoice"]["billed_usd"] == bill["usd"]
    idle = sum(row["effective_usd"] for row in results["invoice"]["lines"]
               if row["kind"] == "unused")  # fmt: skip
    assert idle == bill["idle_usd"]


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
    path.write_text(contracts_text(book, zone_of(zone), ("A comment.",)), encoding="utf-8")
    if not pools and not prices:
        return
    read = read_contracts(path, zone)
    assert (read.pools, read.prices) == (book.pools, book.prices)


@pytest.fixture(scope="module")
def company(shared):
    folder = shared / "data" / "company"
    if not folder.is_dir():
        pytest.skip("the company of known truth (../shared/data/company) is not here")
    return folder


@pytest.fixture(scope="module")
def truth(company):
    return json.loads((company / "truth.json").read_text())["reconcile"]


def company_words(company, log="jobs.csv.gz"):
    return (
        company / log,
        "--contracts",
        company / "contracts.toml",
        "--invoice",
        company / "invoice_focus.csv.gz",
        "--sku",
        "GX4-M=RTX4090",
    )


@pytest.mark.parametrize("log", ["jobs.csv.gz", "jobs_offset.csv.gz"])
def test_the_invoice_of_the_company_is_the_truth_to_the_cent(gpuplan, company, truth, log):
    results = billed(gpuplan, *company_words(company, log))
    months = {month["name"]: month for month in results["months"]}
    assert set(months) == set(truth["months"])
    for name, true in truth["months"].items():
        month = months[name]
        for column in ("billed", "effective"):
            cents = {key: f"{usd:.2f}" for key, usd in lines(month, f"{column}_usd").items()}
            assert cents == true[column]["lines"], (name, column)
            assert f"{month[f'{column}_usd']:.2f}" == true[column]["invoice"]
        shares = true["shares_of_charges"]
        for key, share in (("explained", "log"), ("unused", "unused"),
                           ("not_in_log", "not_in_log"), ("other", "other")):  # fmt: skip
            assert month[f"{key}_share"] == pytest.approx(float(shares[share]), abs=1e-6)
        hours = {row["gpu_type"]: row for row in month["invoice_types"]}
        assert set(hours) == set(true["hours"])
        for gpu_type, of_type in true["hours"].items():
            for key, hour in of_type.items():
                assert hours[gpu_type][f"{key}_gpu_h"] == pytest.approx(float(hour), abs=1e-8)
        rates = {
            f"{row['gpu_type']}|{row['market']}|{row['unit_usd']:.6f}": row
            for row in month["rates"]
        }
        assert set(rates) == set(true["effective_rates"])
        for key, rate in true["effective_rates"].items():
            assert rates[key]["usd_per_gpu_h"] == pytest.approx(float(rate["rate"]), abs=1e-8)
    days = [
        [
            row["begin"][:10],
            row["gpu_type"],
            f"{row['log_gpu_h']:.3f}",
            f"{row['billed_gpu_h']:.3f}",
        ]
        for row in results["invoice"]["days"]
    ]
    assert days == truth["days_over_5_percent"]


def test_the_price_book_of_the_company_is_found_on_its_invoice(gpuplan, company, tmp_path):
    path = tmp_path / "found.toml"
    billed(gpuplan, *company_words(company), "--contracts-out", path)
    book, found = read_contracts(company / "contracts.toml"), read_contracts(path)
    assert {p for p in found.prices if p.gpu_type != "H200"} == set(book.prices)
    shown = [(p.market, p.gpu_type, p.gpus, p.usd_per_gpu_h, p.from_us) for p in found.pools]
    assert shown == [(p.market, p.gpu_type, p.gpus, p.usd_per_gpu_h, p.from_us) for p in book.pools]


def test_a_book_of_one_month_says_nothing_of_those_before(gpuplan, company, tmp_path):
    path = tmp_path / "january.toml"
    billed(gpuplan, *company_words(company), "--months", "2026-01", "--contracts-out", path)
    pools = [pool for pool in read_contracts(path).pools if pool.market == COMMITTED]
    january = datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6
    assert len(pools) == 2 and all(pool.from_us == january for pool in pools)


@pytest.mark.parametrize("name", ["focus.csv", "focus_null.csv.gz"])
def test_the_invented_bill_has_the_figures_that_it_states(gpuplan, shared, name):
    folder = shared / "golden" / "bill_util"
    if not folder.is_dir():
        pytest.skip("the invented bill (../shared/golden/bill_util) is not here")
    true = json.loads((folder / "expected.json").read_text())["focus"]
    invoice = billed(gpuplan, folder / "jobs.csv", "--invoice", folder / name)["invoice"]
    assert invoice["rows"] == true["rows"]
    cents = {key: round(Decimal(usd), 2) for key, usd in true.items() if key != "note"
             and not isinstance(usd, dict | int)}  # fmt: skip
    total = Counter()
    for row in invoice["lines"]:
        total[row["kind"]] += Decimal(f"{row['effective_usd']:.2f}")
        total[f"billed {row['kind']}"] += Decimal(f"{row['billed_usd']:.2f}")
    assert total["billed purchase"] == cents["purchases"]
    assert total["unused"] == cents["gpu_unused_commitment"]
    assert total["unused_capacity"] == cents["gpu_unused_capacity"]
    for kind in ("other", "tax", "correction", "credit"):
        assert total[kind] == cents[kind]
    assert invoice["billed_usd"] == float(cents["invoice_billed"])
    assert invoice["effective_usd"] == float(cents["amortized_effective"])
    rates = {row["market"]: Decimal(f"{row['usd']:.2f}") for row in invoice["rates"]}
    assert rates == {
        "on_demand": cents["gpu_od"],
        "spot": cents["gpu_spot"],
        "committed": cents["gpu_committed"],
    }
    (hours,) = invoice["gpu_types"]
    assert hours["billed_gpu_h"] == float(true["gpu_hours_billed"])
    assert hours["log_gpu_h"] == float(true["gpu_hours_held_by_jobs"])
    rate = float(true["effective_price_per_gpu_hour"])
    assert invoice["usd_per_gpu_h"] == pytest.approx(rate, abs=1e-6)
    assert invoice["log_usd_at_mean_rate"] == float(true["jobs_dollars"])
