"""An invoice beside a log, worked by hand."""

from fractions import Fraction

import pytest
from support_answers import billed, lines
from support_invoices import day, usage, write_focus, write_log

from gpuplan.analysis.prices.contracts import (
    read_contracts,
)


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
        "log|H100-80GB": 192.0,  # 2 of 4 GPUs on 7 January are owned: 48 h of the 48 billed
        "not_in_log|H100-80GB": 40.0,
        "log|T4": 6.0,
        "unused|H100-80GB": 24.0,
        "other|disk": 10.0,
        "correction|": -3.0,
        "credit|": -4.0,
        "tax|": 20.0,
    }
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
