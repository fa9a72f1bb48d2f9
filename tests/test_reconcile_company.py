"""The invoice of the company of known truth beside its log, to the cent."""

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from support_answers import billed, lines

from gpuplan.analysis.prices.contracts import (
    COMMITTED,
    read_contracts,
)


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
