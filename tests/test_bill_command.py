"""``gpuplan bill``: who pays, to the cent, on logs worked out by hand and drawn at random."""

import csv
import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_answers import document
from support_traces import START, frame, in_memory, lab_trace, write_trace

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.planner.money.bill import split_cents, whole_cents
from gpuplan.planner.money.book_options import cluster_of
from gpuplan.planner.money.focus import focus_rows
from gpuplan.planner.money.held_runs import billed_runs

HOUR = 3600.0


def answer(gpuplan, *words, code=0):
    return document(gpuplan, "bill", *words, code=code)


def cents(usd):
    return round(100 * usd)


def adds_up(results):
    for rows in ("groups", "gpu_types"):
        total = sum(cents(row["usd_per_month"]) for row in results[rows])
        assert total == cents(results["usd_per_month"])
    idle = cents(results["idle_usd_per_month"] or 0)
    assert cents(results["idle_usd"] or 0) <= cents(results["usd"])
    assert idle + cents(results["used_usd_per_month"]) == cents(results["usd_per_month"])
    for rows in ("groups", "gpu_types"):
        assert sum(cents(row["idle_usd_per_month"] or 0) for row in results[rows]) == idle
    assert all(
        cents(row["idle_usd_per_month"] or 0) <= cents(row["usd_per_month"])
        for row in results["gpu_types"]
    )
    assert sum(cents(row["usd"]) for row in results["groups"]) == cents(results["usd"])
    assert sum(cents(row["usd"]) for row in results["months"]) == cents(results["usd"])
    for month in results["months"]:
        assert sum(cents(part["usd"]) for part in month["groups"]) == cents(month["usd"])


@pytest.fixture
def two_groups(tmp_path):
    """Ten hours: 30 GPU-hours of a, 10 of b."""
    return write_trace(
        tmp_path / "t.parquet", [0, 0, 5 * HOUR], [10 * HOUR, 5 * HOUR, 5 * HOUR],
        num_gpus=[2.0, 2.0, 2.0], group=["a", "a", "b"],
    )  # fmt: skip


def test_a_bill_worked_out_by_hand(gpuplan, two_groups):
    results = answer(gpuplan, two_groups, "--price", "1.5")["results"]
    assert results["window_s"] == 10 * HOUR and results["gpu_h"] == 40
    assert results["usd"] == 60.0 and results["usd_per_month"] == 60 * 73.05
    assert [(row["name"], row["gpu_h"], row["usd"]) for row in results["groups"]] == [
        ("a", 30, 45.0), ("b", 10, 15.0),
    ]  # fmt: skip
    assert results["idle_usd_per_month"] is None
    adds_up(results)


def test_a_bill_of_a_period_leads_with_its_dollars(gpuplan, two_groups, tmp_path):
    def billed(begin, end, *more):
        words = ("--from", f"2024-03-01T{begin}:00:00", "--to", f"2024-03-01T{end}:00:00", *more)
        return ("bill", two_groups, "--price", "1.5", *words)

    # From 5:00 to 10:00 groups a and b hold 2 GPUs each: 20 GPU-hours of the 25 of 5 GPUs.
    code, out, _ = gpuplan(*billed("05", "10", "--cluster", "5"))
    said = " ".join(out.split())
    assert code == 0 and "$38 from 2024-03-01 05:00:00 to 2024-03-01 10:00:00 for 5 GPUs" in said
    assert "20.0% of it is idle ($8)" in said and "$5,479 a month of 730.5 h" in said
    assert "Bill by group from 2024-03-01 05:00:00" in said and "$ in the period" in said
    assert "total $37.50" in said and "$ per month" not in said
    results = answer(gpuplan, *billed("05", "10", "--cluster", "5")[1:])["results"]
    assert (results["usd"], results["idle_usd"]) == (37.5, 7.5)
    assert results["usd_per_month"] == 5 * 1.5 * 730.5
    # As many GPUs for four hours: as much a month, 20% less in the period.
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    for path, hours in ((old, ("05", "10")), (new, ("00", "04"))):
        assert gpuplan(*billed(*hours), "-o", path)[0] == 0
    _, out, _ = gpuplan("diff", old, new)
    said = " ".join(out.split())
    assert (
        "2024-03-01 00:00 to 2024-03-01 04:00 cost $24.00, $6.00 less than 2024-03-01 05:00 to "
        "2024-03-01 10:00 (-20.0%): days billed -$6.00."
    ) in said
    assert "ost is unchanged" not in said and "onthly bill" not in said


def test_idle_gpus_have_a_row_of_their_own_or_are_spread_by_gpu_hours(gpuplan, two_groups):
    apart = answer(gpuplan, two_groups, "--price", "1", "--cluster", "5")["results"]
    assert apart["usd"] == 50 and apart["usd_per_month"] == 5 * 730.5
    assert [row["name"] for row in apart["groups"]] == ["a", "b", "(idle)"]
    assert apart["groups"][-1]["gpu_h"] == 10 and apart["idle_share"] == pytest.approx(0.2)
    assert apart["used_usd_per_month"] == 4 * 730.5
    words = ("--price", "1", "--cluster", "5", "--idle", "spread")
    spread = answer(gpuplan, two_groups, *words)["results"]
    assert spread["usd_per_month"] == 5 * 730.5
    assert [(row["name"], row["usd"]) for row in spread["groups"]] == [("a", 37.5), ("b", 12.5)]
    assert spread["groups"][0]["idle_usd_per_month"] == pytest.approx(0.75 * 730.5, abs=0.01)
    adds_up(apart)
    adds_up(spread)


def test_the_idle_share_of_the_bill_is_one_of_dollars(gpuplan, tmp_path):
    trace = write_trace(
        tmp_path / "t.parquet", [0, 0], [10 * HOUR, 10 * HOUR],
        num_gpus=[1.0, 1.0], gpu_type=["A100", "T4"],
    )  # fmt: skip
    prices = ("--price", "A100=3", "--price", "T4=1", "--cluster", "A100=1,T4=5")
    code, out, _ = gpuplan("bill", str(trace), *prices)
    said = " ".join(out.split())  # $4 of $8; 40 of 60 GPU-hours
    assert (
        code == 0
        and "idle ($2,922): the 6 GPUs are idle 66.7% of their hours" in said
        and "50.0% of it" in said
    )
    shares = answer(gpuplan, trace, *prices)["results"]
    assert shares["idle_usd_share"] == pytest.approx(1 / 2)
    assert shares["idle_share"] == pytest.approx(2 / 3)
    for gate, code in (("idle_usd_share > 55%", 0), ("idle_share > 55%", 1)):
        assert gpuplan("bill", trace, *prices, "--fail-if", gate)[0] == code


def book(tmp_path, *entries):
    path = tmp_path / "contracts.toml"
    path.write_text("".join(f"[[{head}]]\n" + "\n".join(rest) + "\n" for head, *rest in entries))
    return path


def owned(gpu_type, gpus):
    return "owned", f'gpu_type = "{gpu_type}"', f"gpus = {gpus}"


def price(gpu_type, usd, *more):
    kind = 'kind = "on_demand"'
    return "price", f'gpu_type = "{gpu_type}"', kind, f"usd_per_gpu_h = {usd}", *more


@pytest.fixture
def two_months(tmp_path):
    """March: 4 and 2 GPUs for two days each, at once; April: 1 GPU for a day, and one running."""
    day = 86_400.0
    return write_trace(
        tmp_path / "m.parquet", [0, 0, 31 * day, 31 * day], [2 * day, 2 * day, day, None],
        num_gpus=[4.0, 2.0, 1.0, 1.0], group=["a", "b", "a", "a"], gpu_type=["A100"] * 4,
        state=["completed"] * 3 + ["running"],
    )  # fmt: skip


def test_the_columns_of_a_month_are_of_that_month(gpuplan, two_months):
    whole = answer(gpuplan, two_months, "--price", "1")
    march, april = (
        answer(gpuplan, two_months, "--price", "1", "--months", name)
        for name in ("2024-03", "2024-04")
    )

    def seen(answered):
        results = answered["results"]
        jobs = {row["name"]: row["jobs"] for row in results["groups"]}
        running = [text for text in answered["warnings"] if "still running" in text]
        return results["jobs"], jobs, results["gpu_types"][0]["peak_gpus"], running

    running = ["1 job still running: billed for the 24 GPU-hours so far"]
    assert seen(whole) == (4, {"a": 3, "b": 1}, 6, running)
    assert seen(march) == (2, {"a": 1, "b": 1}, 6, [])
    assert seen(april) == (2, {"a": 2}, 2, running)


def test_the_table_of_types_names_the_months_that_it_adds(gpuplan, two_months):
    for months, title in (
        ("2024-03", "By GPU type in March 2024"),
        # The log ends on 2 April.
        ("2024-03,2024-04", "By GPU type in March 2024 and April 2024 (1 of 30 days), together"),
    ):
        _, out, _ = gpuplan("bill", two_months, "--price", "1", "--months", months, "--full")
        assert title in out.split("\n")


def test_the_headline_says_what_the_dollars_are_for(gpuplan, two_months, tmp_path):
    pools = book(tmp_path, owned("A100", 3), price("A100", 2))
    _, out, err = gpuplan("bill", two_months, "--contracts", pools, "--months", "2024-03")
    said = " ".join(out.split())
    # 6 GPUs for 48 hours: 3 owned at no cost, 3 at $2.
    assert said.startswith(
        "In March 2024: $288 for 3 GPUs owned or committed and 144 GPU-hours above them."
    )
    assert "That is $" not in said and "rest of the month" not in err
    assert "Bill by group in March 2024" in said
    dated = book(tmp_path, price("A100", 1), price("A100", 3, "from = 2024-03-02"))
    _, out, _ = gpuplan("bill", two_months, "--contracts", dated, "--months", "2024-03")
    assert "$576 at $2 per GPU-hour in the mean: 288 GPU-hours" in " ".join(out.split())
    _, out, _ = gpuplan("bill", two_months, "--price", "2", "--months", "2024-03")
    assert "$576 at $2 per GPU-hour: 288 GPU-hours" in " ".join(out.split())


def test_a_book_with_dates_is_refused_for_a_log_without(gpuplan, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(
        "job_id,submit_time,duration_s,num_gpus,gpu_type\n1,0,7200,1,A100\n2,9000,60,1,A100\n"
    )
    dated = book(tmp_path, price("A100", 1), price("A100", 3, "from = 2024-03-02"))
    steps = "A100=1,2024-03-02:3"
    for words in (("--contracts", dated), ("--price", steps)):
        for command in ("bill", "characterize"):
            code, _, err = gpuplan(command, log, *words)
            assert code == 2 and "it has dates, and the log has none" in err, command
            assert "next: give the log times with dates" in err
    always = book(tmp_path, owned("A100", 1), price("A100", 3))
    assert gpuplan("bill", log, "--contracts", always)[0] == 0


def test_jobs_without_a_type_are_of_type_unknown(gpuplan, tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", [0, 0], [HOUR, 2 * HOUR],
        group=["a", "a"], gpu_type=pl.Series(["A100", None], dtype=pl.String),
    )  # fmt: skip
    for by in ("type", "group,type"):
        prices = ("--price", "A100=1", "--price", "unknown=2")
        results = answer(gpuplan, path, *prices, "--by", by)["results"]
        rows = results["groups"] if by == "type" else results["groups"][0]["parts"]
        assert {row["name"]: row["usd"] for row in rows} == {"A100": 1.0, "unknown": 4.0}
        assert {row["gpu_type"] for row in results["gpu_types"]} == {"A100", "unknown"}
    assert "next: --price unknown=USD as well" in answer(
        gpuplan, path, "--price", "A100=1", "--by", "type", code=2
    )
    dated = book(tmp_path, price("A100", 1), price("unknown", 2, "from = 2020-01-01"))
    gpuplan("characterize", path, "--contracts", dated, "-o", tmp_path / "c.json")
    rows = json.loads((tmp_path / "c.json").read_text())["results"]["today"]["gpu_types"]
    paid = {row["gpu_type"]: row["usd_per_month"] for row in rows}
    assert paid["unknown"] == pytest.approx(4 * paid["A100"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "group,group"), "expected one column or two different ones"),
        (("--by", "submit_time"), "submit_time is measured of each job, and no label"),
        (("--months", "2024-03,2024-03"), "expected one month or two different ones"),
        (("--from", "0001-01-01"), "--from and --to: a period of 2,023 years"),
        (("--to", "9999-12-31"), "--to 9999-12-31: expected a time of the years 1 to 9798"),
        (("--as-of", "9999-12-31"), "--as-of 9999-12-31: expected a time of the years 1 to 9798"),
    ],
)
def test_splits_and_months_that_are_none(gpuplan, two_groups, words, said):
    assert said in answer(gpuplan, two_groups, "--price", "1", *words, code=2)


def test_what_is_given_and_not_used_is_said(gpuplan, two_months, tmp_path):
    priced = book(tmp_path, owned("A100", 2), price("A100", 2))
    words = ("bill", two_months, "--contracts", priced)
    note = "--price of A100 is not used"
    assert note in gpuplan(*words, "--price", "A100=9")[2]
    assert note not in gpuplan(*words)[2]
    shared = "all GPUs owned or committed are billed"
    assert shared in gpuplan(*words, "--where", "num_gpus >= 1")[2]
    assert shared not in gpuplan(*words)[2]


def test_a_column_that_the_log_lacks_is_called_by_its_option(gpuplan, two_groups):
    err = answer(gpuplan, two_groups, "--price", "1", "--by", "usr", code=2)
    assert err.startswith("error: --by usr: no column 'usr'") and "next: --by group, user" in err


def test_a_log_of_one_month_says_the_dollars_of_the_month(gpuplan, two_groups):
    _, out, _ = gpuplan("bill", two_groups, "--price", "1.5")
    assert "For the 24 h of the log in March 2024 it is $60.00." in " ".join(out.split())


def test_the_peak_is_a_cluster_too(gpuplan, two_groups):
    results = answer(gpuplan, two_groups, "--price", "1", "--cluster", "peak")["results"]
    assert results["cluster_gpus"] == 4 and results["idle_share"] == 0


def test_focus_rows_add_up_to_the_cluster(gpuplan, two_groups, tmp_path):
    out = tmp_path / "focus.csv"
    words = ("--price", "1.29", "--cluster", "7", "-o", out)
    assert gpuplan("bill", two_groups, *words)[0] == 0
    rows = list(csv.DictReader(out.open()))
    for cost in ("BilledCost", "EffectiveCost"):
        assert sum(cents(float(row[cost])) for row in rows) == cents(7 * 1.29 * 10)
    kinds = [(row["ChargeCategory"], row["CommitmentDiscountStatus"]) for row in rows]
    assert kinds == [("Purchase", ""), ("Usage", "Unused"), ("Usage", "Used"), ("Usage", "Used")]
    bought, unused, *used = rows
    assert not unused["SubAccountId"] and not unused["ConsumedQuantity"]
    assert [json.loads(row["Tags"]) for row in used] == [{"group": "a"}, {"group": "b"}]
    assert [float(row["ConsumedQuantity"]) for row in used] == [30, 10]
    assert float(bought["PricingQuantity"]) == 70 and not bought["ConsumedQuantity"]
    assert bought["ChargePeriodStart"] == f"{START:%Y-%m-%dT00:00:00Z}"
    assert bought["BillingPeriodStart"] == "2024-03-01T00:00:00Z"
    assert bought["BillingPeriodEnd"] == "2024-04-01T00:00:00Z"
    mandatory = set(
        "BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd "
        "BillingPeriodStart ChargeCategory ChargeClass ChargeDescription ChargePeriodEnd "
        "ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost PricingQuantity "
        "PricingUnit ProviderName PublisherName ServiceCategory ServiceName".split()
    )
    assert mandatory <= bought.keys()
    for row in rows:
        cost = float(row["PricingQuantity"]) * float(row["ContractedUnitPrice"])
        assert float(row["ContractedCost"]) == pytest.approx(cost, abs=1e-8)


def test_rows_that_nobody_asks_for_are_not_made(gpuplan, two_groups, tmp_path, monkeypatch):
    made = []

    def counting(*args, **more):
        made.append(args)
        return focus_rows(*args, **more)

    monkeypatch.setattr("gpuplan.planner.studies.bill.focus_rows", counting)
    words = ("bill", two_groups, "--price", "1")
    assert gpuplan(*words, "-o", tmp_path / "bill.json")[0] == 0 and not made
    assert gpuplan(*words, "-o", tmp_path / "bill.csv")[0] == 0 and len(made) == 1


def test_focus_rows_are_of_days_or_months(gpuplan, tmp_path):
    late = 30 * 86_400.0 + 12 * HOUR  # from noon of 2024-03-31 on, one GPU for two days
    path = write_trace(tmp_path / "t.parquet", [late], [2 * 86_400.0], group=["a"])
    out = tmp_path / "focus.csv"
    words = ("--price", "1", "--account", "lab", "--invoice-id", "7", "-o", out)
    days = {}
    for rows in ("day", "month"):
        assert gpuplan("bill", path, *words, "--rows", rows)[0] == 0
        days[rows] = [
            (row["ChargePeriodStart"][:10], float(row["ConsumedQuantity"]))
            for row in csv.DictReader(out.open())
        ]
    assert days["day"] == [("2024-03-31", 12), ("2024-04-01", 24), ("2024-04-02", 12)]
    assert days["month"] == [("2024-03-31", 12), ("2024-04-01", 36)]
    row = next(csv.DictReader(out.open()))
    assert (row["BillingAccountId"], row["InvoiceId"]) == ("lab", "7")


def test_gpu_time_is_billed_in_the_month_in_which_it_is_held(gpuplan, tmp_path):
    late = 30 * 86_400.0  # from 2024-03-31 on, one GPU for two days: one in March, one in April
    path = write_trace(tmp_path / "t.parquet", [late], [2 * 86_400.0], group=["a"])
    results = answer(gpuplan, path, "--price", "1")["results"]
    assert [(row["name"], row["usd"]) for row in results["months"]] == [
        ("2024-03", 24.0), ("2024-04", 24.0),
    ]  # fmt: skip
    part = answer(gpuplan, path, "--price", "1", "--until", "2024-04-01")
    assert part["results"]["usd"] == 48.0  # until the job ends, which is said
    said = [text for text in part["warnings"] if "choose jobs by submission" in text]
    assert len(said) == 1


@pytest.mark.parametrize("by", ["group", "user", "type", "class"])
@pytest.mark.parametrize("more", [(), ("--cluster", "40"), ("--cluster", "40", "--idle", "spread")])
def test_bills_add_up_to_the_cent_by_anything(gpuplan, tmp_path, by, more):
    rng = np.random.default_rng(3)
    n = 300
    path = write_trace(
        tmp_path / "t.parquet", np.sort(rng.uniform(0, 80 * 86_400, n)),
        rng.lognormal(8, 2, n).clip(0, 9e5), num_gpus=rng.choice([0.25, 1.0, 3.0], n).tolist(),
        group=[f"g{i}" for i in rng.integers(0, 5, n)],
        user=[f"u{i}" for i in rng.integers(0, 90, n)],
        job_class=[None if i == 0 else f"c{i}" for i in rng.integers(0, 4, n)],
    )  # fmt: skip
    results = answer(gpuplan, path, "--price", "0.777", "--by", by, *more)["results"]
    adds_up(results)
    if more:
        assert cents(results["usd_per_month"]) == whole_cents(Fraction("0.777") * 40 * 1461 / 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("more", [(), ("--idle", "spread")])
def test_idle_gpus_of_several_types_add_up_to_the_cent(gpuplan, tmp_path, seed, more):
    rng = np.random.default_rng(seed)
    n, types = 40, [f"T{i}" for i in range(6)]
    path = write_trace(
        tmp_path / "t.parquet", np.sort(rng.uniform(0, 40 * 86_400, n)),
        rng.lognormal(8, 1, n), gpu_type=[types[i % 6] for i in range(n)],
        group=[f"g{i}" for i in rng.integers(0, 3, n)],
    )  # fmt: skip
    prices = ",".join(f"{name}={0.7 + rng.random():.3f}" for name in types)
    cluster = ",".join(f"{name}={20 + i}" for i, name in enumerate(types))
    adds_up(answer(gpuplan, path, "--price", prices, "--cluster", cluster, *more)["results"])


def test_each_gpu_type_has_its_own_price_and_pool(gpuplan, tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", [0, 0], [10 * HOUR, 10 * HOUR], num_gpus=[2.0, 1.0],
        gpu_type=["A100", "H100"],
    )  # fmt: skip
    words = ("--price", "A100=1", "--price", "H100=3", "--cluster", "A100=4,H100=2", "--by", "type")
    results = answer(gpuplan, path, *words)["results"]
    types = [(row["gpu_type"], row["gpus"], row["usd_per_month"]) for row in results["gpu_types"]]
    assert types == [("A100", 4, 4 * 730.5), ("H100", 2, 6 * 730.5)]
    assert results["usd_per_month"] == 10 * 730.5
    adds_up(results)
    assert "no price" in answer(gpuplan, path, "--price", "A100=1", code=2)
    assert "several GPU types" in answer(gpuplan, path, "--price", "1", "--cluster", "6", code=2)


def test_the_bill_of_a_month_does_not_depend_on_the_length_of_the_log(gpuplan, tmp_path):
    found = []
    for hours in (100, 1000):
        path = write_trace(
            tmp_path / f"{hours}.parquet", [HOUR * i for i in range(hours)], [HOUR] * hours,
            num_gpus=[3.0] * hours, group=["a", "b"] * (hours // 2),
        )  # fmt: skip
        found += [
            answer(gpuplan, path, "--price", "1.29", *more)["results"]
            for more in ((), ("--cluster", "8"))
        ]
    for short, long in ((found[0], found[2]), (found[1], found[3])):
        assert short["usd_per_month"] == long["usd_per_month"]
        for row, other in zip(short["groups"], long["groups"], strict=True):
            assert abs(cents(row["usd_per_month"]) - cents(other["usd_per_month"])) <= 1
    assert found[0]["usd_per_month"] == cents(3 * 1.29 * 730.5) / 100


@given(st.lists(st.fractions(0, 10_000), min_size=1, max_size=40))
def test_cents_add_up_and_no_part_is_off_by_a_cent(parts):
    total = whole_cents(sum(parts, Fraction(0)))
    found = split_cents(total, parts)
    assert sum(found) == total
    assert all(abs(one - part * 100) < 1 for one, part in zip(found, parts, strict=True))


@given(
    st.lists(
        st.tuples(st.floats(0, 2e6), st.floats(0, 4e6), st.integers(1, 8), st.sampled_from("abc")),
        min_size=1, max_size=30,
    ),
)  # fmt: skip
def test_the_runs_that_are_billed_are_those_of_the_jobs(drawn):
    submit, run, gpus, group = zip(*drawn, strict=True)
    if max(s + r for s, r in zip(submit, run, strict=True)) - min(submit) < 1:
        return
    jobs = frame(submit, duration_s=list(run), num_gpus=[float(g) for g in gpus], group=list(group))
    found = billed_runs(in_memory(jobs), ("group",)).runs
    held = sum(r * g for r, g in zip(run, gpus, strict=True)) / HOUR
    gpu_h = (found.end_us - found.start_us) @ found.gpus / HOUR_US
    assert gpu_h == pytest.approx(held, rel=1e-9, abs=1e-7)


def test_what_cannot_be_billed_is_said(gpuplan, tmp_path, two_groups):
    assert "say what a GPU-hour costs" in answer(gpuplan, two_groups, code=2)
    assert "nothing is idle without GPUs that are paid for" in answer(
        gpuplan, two_groups, "--price", "1", "--idle", "spread", code=2
    )
    over = answer(gpuplan, two_groups, "--price", "1", "--cluster", "3")
    assert over["results"]["usd"] == 40.0 and over["results"]["idle_usd"] == 0.0
    said = [text for text in over["warnings"] if "at once" in text]
    assert said and "up to 4 GPUs at once, more than the 3 of --cluster" in said[0]
    assert "a bill needs a number" in answer(
        gpuplan, two_groups, "--price", "1", "--cluster", "x8", code=2
    )
    assert "must be from 0" in answer(gpuplan, two_groups, "--price", "1e9", code=2)
    assert "above 0" in answer(gpuplan, two_groups, "--price", "no", code=2)
    at_once = write_trace(tmp_path / "once.parquet", [0], [0.0])
    assert "no time passes" in answer(gpuplan, at_once, "--price", "1", code=3)
    apart = write_trace(tmp_path / "apart.parquet", [0, 40_000], [HOUR, HOUR])
    for words in (("bill", "--scale-interarrival", "1e6"), ("bill", "--scale-interarrival", "1e5"),
                  ("forecast", "--spend", "--scale-interarrival", "1e5")):  # fmt: skip
        command, *more = words
        code, _, err = gpuplan(command, apart, "--price", "1", *more)
        assert code == 3 and "its jobs span" in err and "at most a century" in err
    with pytest.raises(InputError, match="nothing to bill"):
        billed_runs(in_memory(frame([0.0], duration_s=[None], num_gpus=[1.0])), ("group",))
    with pytest.raises(ValueError, match="total of these parts"):
        split_cents(5, [Fraction(1)])
    with pytest.raises(UsageError, match="several GPU types"):
        cluster_of(["A100", "T4"], [1.0, 1.0], [(None, 4)], is_peak=False)


def test_a_gate_names_the_bill_with_or_without_its_command(gpuplan, two_groups, tmp_path):
    for field in ("usd_per_month", "bill.usd_per_month"):
        words = ("bill", two_groups, "--price", "1", "--fail-if", f"{field} > $2000")
        code, _, err = gpuplan(*words)
        assert code == 1 and "gate tripped" in err
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    for path, price in ((old, "1"), (new, "1.2")):
        assert gpuplan("bill", two_groups, "--price", price, "-o", path)[0] == 0
    for field in ("usd_per_month", "bill.usd_per_month", "bill.groups[a].usd_per_month"):
        assert gpuplan("diff", old, new, "--fail-if", f"{field} > +10%")[0] == 1
        assert gpuplan("diff", old, new, "--fail-if", f"{field} > +30%")[0] == 0


def test_the_answer_is_short_and_the_picture_is_drawn(gpuplan, tmp_path):
    path = lab_trace(tmp_path / "t.parquet", jobs=200)
    picture = tmp_path / "bill.svg"
    code, out, _ = gpuplan("bill", path, "--price", "1.29", "--plot", picture)
    assert code == 0 and len(out.splitlines()) <= 40
    assert "What each month cost" in picture.read_text()


def test_hours_and_dollars_are_of_one_period(gpuplan, tmp_path):
    """60 days, 110 GPU-hours: 55.8 in a month of 730.5 h, at $2; 50 of them above 3 owned GPUs."""
    day = 86_400.0
    log = write_trace(
        tmp_path / "m.parquet", [0, 30 * day, 60 * day - HOUR], [10 * HOUR, 10 * HOUR, HOUR],
        num_gpus=[6.0, 5.0, 0.0], group=["a", "b", "b"], gpu_type=["A100"] * 3,
    )  # fmt: skip
    months = (60 * 24 - 1) / 730.5  # the last submission is the end
    _, out, _ = gpuplan("bill", log, "--price", "2", "--full")
    said = " ".join(out.split())
    assert said.startswith(
        f"${220 / months:,.0f} a month at $2 per GPU-hour: {110 / months:.1f} GPU-hours a month "
        "(110 in 60 d)"
    )
    _, _, table = out.partition("Monthly bill by group")
    header, row = (
        next(x for x in table.splitlines() if x.startswith(s)) for s in (" group", " a ")
    )
    assert "GPU-hours per month" in header
    assert row.split()[:4] == ["a", f"${120 / months:.2f}", "54.5%", f"{60 / months:.1f}"]
    _, out, _ = gpuplan(
        "bill", log, "--contracts", book(tmp_path, owned("A100", 3), price("A100", 2))
    )
    assert f"and {50 / months:.1f} GPU-hours a month above them" in " ".join(out.split())


def test_whole_calendar_months_are_not_scaled(gpuplan, two_months):
    """March 2024, with 288 GPU-hours, is a month as it is; March and April are two."""
    words = ("bill", two_months, "--price", "2", "--from", "2024-03-01")
    _, out, _ = gpuplan(*words, "--to", "2024-04-01")
    assert out.startswith("$576 ") and "That is $" not in out
    _, out, _ = gpuplan(*words, "--to", "2024-05-01")
    usd = float(out.split()[0].lstrip("$"))
    assert f"That is ${usd / 2:,.0f} a month over 2 calendar months." in " ".join(out.split())
    _, out, _ = gpuplan(*words, "--to", "2024-03-16")
    assert "a month of 730.5 h." in " ".join(out.split())


def test_months_of_a_trace_of_another_zone_are_said_to_be_utc(gpuplan, tmp_path):
    """A job that ends at 23:30 of 30 November in New York ends in December UTC."""
    log, trace = tmp_path / "sacct.txt", tmp_path / "t.parquet"
    log.write_text(
        "JobID|User|Account|Partition|State|Submit|Start|End|AllocTRES|ElapsedRaw\n"
        "1|a|x|p|COMPLETED|2025-11-28T10:00:00|2025-11-28T10:00:00|2025-11-30T23:30:00"
        "|gres/gpu=4|221400\n"
    )
    zone = "America/New_York"
    assert gpuplan("ingest", log, "-o", trace, "--time-zone", zone)[0] == 0
    note = f"--time-zone {zone} bills the months of that zone"
    code, out, err = gpuplan("bill", trace, "--price", "1")
    assert code == 0 and note in err and "2025-12" in out
    code, out, err = gpuplan("bill", trace, "--price", "1", "--time-zone", zone)
    assert code == 0 and note not in err and "2025-12" not in out
    assert note not in gpuplan("bill", log, "--price", "1", "--time-zone", zone)[2]


@pytest.mark.parametrize("words", [("bill",), ("forecast", "--spend")])
def test_a_log_that_is_not_there_is_said_before_a_price_that_is_not(gpuplan, tmp_path, words):
    command, *options = words
    code, _, err = gpuplan(command, tmp_path / "nofile.csv", *options)
    assert code == 3 and "nofile.csv: no such file" in err
    log = write_trace(tmp_path / "t.parquet", [0.0, 10.0], [10.0, 10.0])
    code, _, err = gpuplan(command, log, *options)
    assert code == 2 and "no price: say what a GPU-hour costs" in err


def test_hours_above_a_cluster_are_written_in_full(gpuplan, tmp_path):
    log = write_trace(tmp_path / "t.parquet", [0.0, 0.0], [646 * 3600.0] * 2, [2.0, 1.0])
    _, _, err = gpuplan("bill", log, "--price", "1", "--cluster", "2")
    assert "more than the 2 of --cluster, for 646 h" in err
