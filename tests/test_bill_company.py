"""Bills of a made-up company against its known truth: every month, label, type and market."""

import csv
import json
from collections import Counter
from decimal import Decimal

import pytest
from support_answers import command_results

from gpuplan.planner.money.bill import IDLE


@pytest.fixture(scope="module")
def truth(company):
    return json.loads((company / "truth.json").read_text())


def billed(gpuplan, company, *words, log="jobs.csv.gz", contracts="contracts.toml"):
    line = ("bill", company / log, "--contracts", company / contracts, *words)
    return command_results(gpuplan, *line)


def rows_of(part):
    return {row["name"]: f"{row['usd']:.2f}" for row in part["groups"]}


def equals(results, true):
    for month in results["months"]:
        assert rows_of(month) == true["months"][month["name"]]["rows"], month["name"]
        assert f"{month['usd']:.2f}" == true["months"][month["name"]]["total"]
    assert rows_of(results) == true["rows"]
    assert f"{results['usd']:.2f}" == true["total"]


def test_the_bill_by_group_is_the_truth_to_the_cent(gpuplan, company, truth):
    results = billed(gpuplan, company)
    equals(results, truth["bill_by_group"])
    partial = {month["name"]: month["is_partial"] for month in results["months"]}
    true = truth["log"]["months"]
    assert partial == {name: word == "partial" for name, word in true.items()}
    for gpu_type in results["gpu_types"]:
        for market in gpu_type["markets"]:
            months = truth["by_type_market"].values()
            for key, field in (
                (market["market"], "gpu_h"),
                (f"idle {market['market']}", "idle_gpu_h"),
            ):
                of_type = (month.get(gpu_type["gpu_type"], {}) for month in months)
                hours = sum(float(m[key]["gpu_hours"]) for m in of_type if key in m)
                assert market[field] == pytest.approx(hours, abs=1e-6)


def test_the_border_cases_are_the_truth_to_the_cent(gpuplan, company):
    folder = company / "edges"
    true = json.loads((folder / "truth.json").read_text())
    equals(billed(gpuplan, folder, log="jobs.csv"), true["bill_by_group"])
    spread = billed(gpuplan, folder, "--idle", "spread", log="jobs.csv")
    equals(spread, true["bill_by_group_idle_spread"])


@pytest.mark.parametrize("words", [("--by", "cost_center"), ("--idle", "spread")])
def test_other_splits_are_the_truth_to_the_cent(gpuplan, company, truth, words):
    key = "bill_by_cost_center" if words[0] == "--by" else "bill_by_group_idle_spread"
    equals(billed(gpuplan, company, *words), truth[key])


def test_two_columns_share_the_cents_of_the_first(gpuplan, company, truth):
    results = billed(gpuplan, company, "--by", "group,gpu_type")
    equals(results, truth["bill_by_group"])
    for month in results["months"]:
        true = truth["bill_by_group_and_gpu_type_cents"][month["name"]]
        for row in month["groups"]:
            if row["name"] != IDLE:
                parts = {part["name"]: f"{part['usd']:.2f}" for part in row["parts"]}
                assert parts == true[row["name"]]


@pytest.mark.parametrize("name", ["whole months", "cut"])
def test_a_period_cuts_runs_and_pools(gpuplan, company, truth, name):
    period = truth["periods"][name]
    words = ("--from", period["from"], "--to", period["to"])
    equals(billed(gpuplan, company, *words), period["bill_by_group"])


def test_months_are_those_of_the_time_zone(gpuplan, company, truth):
    log = "jobs_offset.csv.gz"
    equals(billed(gpuplan, company, log=log), truth["bill_by_group"])
    zone = "Africa/Johannesburg"
    found = billed(gpuplan, company, "--time-zone", zone, log=log)
    equals(found, truth["variants"][f"offsets, --time-zone {zone}"]["bill_by_group"])


def test_runs_of_requeued_jobs_in_a_slurm_log_are_billed_where_they_were(gpuplan, company, truth):
    found = billed(gpuplan, company, log="jobs_sacct.txt.gz")
    equals(found, truth["variants"]["sacct"]["bill_by_group"])


def test_the_change_between_two_months_is_the_truth(gpuplan, company, truth):
    for pair, true in truth["changes"].items():
        change = billed(gpuplan, company, "--months", pair)["change"]
        for part in ("price", "calendar", "volume", "mix"):
            assert change[f"{part}_usd"] == pytest.approx(float(true["use"][part]), abs=1e-6)
        assert change["usd"] == pytest.approx(float(true["total_change"]), abs=1e-6)
        assert change["idle_usd"] == pytest.approx(float(true["idle"]["change"]), abs=1e-6)
        for rows, table in (("groups", "by_label"), ("gpu_types", "by_type")):
            assert {row["name"] for row in change[rows]} == set(true[table])
            for row in change[rows]:
                of_row = true[table][row["name"]]
                status = "new" if row["new"] else "gone" if row["gone"] else "kept"
                assert status == of_row["status"]
                for part in ("price", "calendar", "volume", "mix"):
                    assert row[f"{part}_usd"] == pytest.approx(float(of_row[part]), abs=1e-6)


def test_a_price_list_is_dated_as_the_book_is(gpuplan, company, tmp_path):
    table, book = tmp_path / "prices.parquet", tmp_path / "prices.toml"
    code, _, err = gpuplan("prices", company / "prices.csv", "-o", table, "--sampling", "change")
    assert code == 0, err
    text = (company / "contracts.toml").read_text()
    book.write_text(text[text.index("[[price]]") :])
    code, out, err = gpuplan(
        "bill", company / "jobs.csv.gz", "--prices", table, "--output-format", "json"
    )
    assert code == 0, err
    dated = billed(gpuplan, company, contracts=book)
    assert json.loads(out)["results"]["months"] == dated["months"]


def test_focus_rows_sum_to_the_exact_bill(gpuplan, company, truth, tmp_path):
    out = tmp_path / "focus.csv"
    billed(gpuplan, company, "-o", out)
    sums = {"BilledCost": Counter(), "EffectiveCost": Counter()}
    hours = Counter()
    for row in csv.DictReader(out.open()):
        month = row["BillingPeriodStart"][:7]
        for cost, by_month in sums.items():
            by_month[month] += Decimal(row[cost])
        if row["CommitmentDiscountId"]:
            sign = 1 if row["ChargeCategory"] == "Purchase" else -1
            of_pool = Decimal(row["CommitmentDiscountQuantity"])
            hours[month, row["CommitmentDiscountId"]] += sign * of_pool
    for month, true in truth["bill_by_group"]["months"].items():
        exact = float(sum(map(Decimal, true["exact"].values())))
        for by_month in sums.values():
            assert float(by_month[month]) == pytest.approx(exact, abs=1e-6)
    assert all(abs(off) < 1e-6 for off in hours.values())  # Used + Unused = Purchase
