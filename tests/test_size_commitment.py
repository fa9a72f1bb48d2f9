"""``gpuplan size --commit``: a company of known truth, a log worked out by hand, a picture."""

import json
import re

import polars as pl
import pytest
from support_answers import command_results
from support_traces import write_trace

DAY_S, HOUR_S = 86_400.0, 3600.0
CONTRACTS = """
[[commitment]]
gpu_type = "A100-80GB"
gpus = 3
usd_per_gpu_h = 1.00
until = 2024-04-01

[[commitment]]
gpu_type = "A100-80GB"
gpus = 2
usd_per_gpu_h = 1.20
from = 2024-04-01

[[owned]]
gpu_type = "A100-80GB"
gpus = 1

[[price]]
gpu_type = "A100-80GB"
kind = "on_demand"
usd_per_gpu_h = 5.00

[[price]]
gpu_type = "A100-80GB"
kind = "on_demand"
usd_per_gpu_h = 2.00
from = 2024-04-10

[[price]]
gpu_type = "T4"
kind = "on_demand"
usd_per_gpu_h = 0.30
"""


def answer(gpuplan, *words):
    return command_results(gpuplan, "size", *words)


@pytest.fixture(scope="module")
def truth(company):
    return json.loads((company / "truth.json").read_text())["commitment"]["runs_as_recorded"]


@pytest.fixture
def log(tmp_path):
    """March and April: 2 A100 all the time, 2 more in the first 10 days of March; a job on a T4."""
    return write_trace(
        tmp_path / "t.parquet", [0, 0, 0], [61 * DAY_S, 10 * DAY_S, HOUR_S], num_gpus=[2, 2, 1],
        gpu_type=["A100-80GB", "A100-80GB", "T4"], queue_s=[0.0] * 3,
    )  # fmt: skip


@pytest.fixture
def contracts(tmp_path):
    path = tmp_path / "contracts.toml"
    path.write_text(CONTRACTS)
    return path


def equals(plan, true):
    """Check a commitment against its truth: dollars to a millionth, counts, shares and months."""
    assert plan["committed_gpus"] == true["optimum"] and plan["today_gpus"] == true["today"]
    assert plan["owned_gpus"] == true["owned_taken_first"]
    assert plan["usd_per_month"] == pytest.approx(float(true["optimum_usd_per_month"]), abs=1e-6)
    for key in ("today_usd_per_month", "today_over_optimum_usd_per_month"):
        assert plan[key] == pytest.approx(float(true[key]), abs=1e-6)
    assert len(plan["curve"]) == len(true["curve"])
    for row, of_truth in zip(plan["curve"], true["curve"], strict=True):
        assert (row["gpus"], row["worst_month"]) == (of_truth["gpus"], of_truth["worst_month"])
        for key in ("usd_per_month", "coverage_share", "utilization", "worst_month_usd"):
            value = of_truth[key]
            assert row[key] == (None if value is None else pytest.approx(float(value), abs=1e-6))


def test_the_command_of_the_issue_is_the_truth_to_the_cent(gpuplan, company, truth, tmp_path):
    rows = tmp_path / "curve.parquet"
    results = answer(
        gpuplan, company / "jobs.csv.gz", "--contracts", company / "contracts.toml",
        "--commit", "A100=1.05", "--on-demand", "A100=1.85", "--owned", "A100=8", "-o", rows,
    )  # fmt: skip
    equals(results["commitment"], truth["A100-80GB"])
    assert pl.read_parquet(rows)["gpus"].to_list() == [0, 5, 7, 8, 9, 10, 11, 14, 24]
    named = {pool["name"]: pool["commitment"] for pool in results["pools"]}
    assert [name for name, plan in named.items() if plan is not None] == ["A100-80GB"]


def test_every_type_of_the_company_is_the_truth_to_the_cent(gpuplan, company, truth):
    """Prices on demand, owned GPUs and today's commitments are those of the book at its end."""
    prices = [f"{name}={true['committed_usd_per_gpu_h']}" for name, true in truth.items()]
    results = answer(
        gpuplan, company / "jobs.csv.gz", "--contracts", company / "contracts.toml",
        "--commit", ",".join(prices), "--ci", "0",
    )  # fmt: skip
    plans = {pool["name"]: pool["commitment"] for pool in results["pools"]}
    for name, true in truth.items():
        equals(plans[name], true)
    both = results["commitment"]
    total = sum(float(true["optimum_usd_per_month"]) for true in truth.values())
    assert both["usd_per_month"] == pytest.approx(total, abs=1e-6)
    assert {row["gpu_type"] for row in both["curve"]} == set(truth)


def test_a_log_worked_out_by_hand(gpuplan, log, contracts):
    """Above the owned GPU 3 are in use for 240 h and 1 for 1,224 h; on demand costs $2 at the end.

    At $1.20 one is best: the third would work 16% of the time, and 60% would pay.
    """
    plan = answer(gpuplan, log, "--contracts", contracts, "--ci", "0")["commitment"]
    assert (plan["owned_gpus"], plan["today_gpus"], plan["committed_gpus"]) == (1, 2, 1)
    hours = 61 * 24
    assert plan["usd_per_month"] == pytest.approx((1.2 + 2 * 2 * 240 / hours) * 730.5)
    assert plan["today_usd_per_month"] == pytest.approx((2.4 + 2 * 240 / hours) * 730.5)
    assert plan["coverage_share"] == pytest.approx(hours / (hours + 480))
    assert plan["utilization"] == 1.0 and plan["break_even_share"] == pytest.approx(0.6)
    assert [row["gpus"] for row in plan["curve"]] == [0, 1, 2]
    worst = [(row["worst_month"], row["worst_month_usd"]) for row in plan["curve"]]
    march = 31 * 24
    assert worst == [
        ("2024-03", pytest.approx(2 * (march + 480))),
        ("2024-03", pytest.approx(1.2 * march + 2 * 480)),
        ("2024-03", pytest.approx(2.4 * march + 2 * 240)),
    ]


def test_options_stand_in_place_of_the_book(gpuplan, log, contracts):
    def plan(*words):
        return answer(gpuplan, log, "--contracts", contracts, "--ci", "0", *words)["commitment"]

    assert plan("--owned", "A100=2")["owned_gpus"] == 2
    dear = plan("--commit", "A100=1.9")
    assert dear["today_gpus"] == 2 and dear["committed_gpus"] == 1
    # Today's commitment is paid at its own price, the curve at the price of the option.
    assert dear["today_usd_per_month"] == plan()["today_usd_per_month"]
    assert dear["curve"][2]["usd_per_month"] > dear["today_usd_per_month"]
    assert plan("--commit", "A100=3@1.5")["today_gpus"] == 3
    assert plan("--commit", "A100=0@1.5,1.9:1y")["today_gpus"] == 0  # in place of the book's 2
    both = plan("--commit", "A100=3@1.5,1.9:1y")  # today's price is no offer beside another
    assert (both["today_gpus"], both["commit_usd_per_gpu_h"]) == (3, 1.9)
    assert plan("--commit", "A100=1.2", "--on-demand", "A100=1.1")["committed_gpus"] == 0
    alone = answer(gpuplan, log, "--commit", "A100=1.2", "--on-demand", "A100=2", "--ci", "0")
    assert alone["commitment"]["today_gpus"] is None and alone["commitment"]["owned_gpus"] == 0


def test_gpus_owned_and_committed_cost_their_own_prices_in_a_cluster(gpuplan, log, contracts):
    """6 A100 around the clock: 1 owned, 2 committed to at $1.20, 3 on demand at $2."""
    words = ("--contracts", contracts, "--target", "p95_wait <= 1m", "--gpus", "4,6")
    results = answer(gpuplan, log, *words, "--where", "gpu_type = 'A100-80GB'")
    usd = {point["gpus"]: point["usd_per_month"] for point in results["points"]}
    assert usd[4] == pytest.approx((2 * 1.2 + 2) * 730.5)
    assert usd[6] == pytest.approx((2 * 1.2 + 3 * 2) * 730.5)
    assert results["gpus"] == 4 and results["usd_per_month"] == usd[4]
    assert results["pools"][0]["usd_per_gpu_h"] == pytest.approx(4.4 / 4)
    out = " ".join(gpuplan("size", log, *words, "--where", "gpu_type = 'A100-80GB'")[1].split())
    assert "$3,210 a month around the clock" in out and "a month as billed" in out


def test_commitments_of_some_types_are_not_set_beside_the_bill_of_all(gpuplan, log, contracts):
    words = ("--contracts", contracts, "--commit", "T4=0.2", "--ci", "0")
    out = " ".join(gpuplan("size", log, *words)[1].split("\n\n")[0].split())
    assert out.startswith("Commit to none of T4: all on demand costs $0.15 a month. Today: ")
    assert out.count("a month") == 1


def test_the_answer_says_what_today_costs_over_the_optimum(gpuplan, log, contracts):
    code, out, err = gpuplan("size", log, "--contracts", contracts)
    text = " ".join(out.split())
    assert code == 0, err
    assert "commit to 1 A100-80GB" in text and "instead of 2, beside the 1 that you own" in text
    # (1.20 + 4 x 240/1,464) x 730.5 = $1,356 and (2.40 + 2 x 240/1,464) x 730.5 = $1,993
    assert (
        "$1,360 a month, $637 less than the $1,990 of today's commitments and rent of A100-80GB at "
        "the prices in force at the end, owned GPUs left out" in text
    )
    assert "The commitment has paid for itself once 60% of its term is over" in text
    assert len(out.splitlines()) <= 20 and "T4: not asked what to commit to" in err
    assert re.search(r"1 +\$1,356 .* optimum", out) and re.search(r"2 +\$1,993 .* today", out)


def test_terms_say_when_they_have_paid_for_themselves(gpuplan, log, contracts):
    terms = ("--contracts", contracts, "--commit", "A100=1.00:1y,0.80:3y", "--ci", "0")
    plan = answer(gpuplan, log, *terms)["commitment"]
    assert [(t["name"], t["months"], t["usd_per_gpu_h"]) for t in plan["terms"]] == [
        ("1y", 12, 1.0), ("3y", 36, 0.8),
    ]  # fmt: skip
    assert [term["break_even_month"] for term in plan["terms"]] == pytest.approx([6, 14.4])
    # With 20% less use, of 2 and 4 GPUs 0.6 and 2.2 are above the owned one: the committed one
    # works 0.6 of 1,224 h and all of 240.
    share = 0.5 / ((0.6 * 1224 + 240) / 1464)
    first = plan["terms"][0]
    assert first["growth"] == [-0.2, 0.5]
    assert first["low_growth_break_even_month"] == pytest.approx(12 * share)
    assert first["high_growth_break_even_month"] == 6.0
    code, out, _ = gpuplan("size", log, *terms)
    text = " ".join(out.split())
    assert code == 0 and "after 6 months (1y, 1 at $1) or 14 months (3y, 1 at $0.80)" in text
    assert "With 20% less use that is 9 or 22 months, with 50% more use 6 or 14 months" in text
    assert "Terms: months until they have paid for themselves" in out
    ranged = answer(gpuplan, log, *terms, "--growth", "-50%:0%")["commitment"]["terms"][0]
    assert ranged["growth"] == [-0.5, 0.0] and ranged["low_growth_break_even_month"] is None
    grown = answer(gpuplan, log, *terms, "--growth", "10%")
    assert grown["growth"] == 0.1 and grown["commitment"]["terms"][0]["growth"] == [0.0, 0.0]


def test_months_of_a_short_log_and_of_a_grown_one(gpuplan, log, contracts, tmp_path):
    short = write_trace(
        tmp_path / "s.parquet", [0], [5 * DAY_S], gpu_type=["A100-80GB"], queue_s=[0.0]
    )
    words = ("--commit", "1", "--on-demand", "2", "--ci", "0")
    curve = answer(gpuplan, short, *words)["commitment"]["curve"]
    assert all(row["worst_month"] is row["worst_month_usd"] is None for row in curve)
    grown = answer(gpuplan, log, "--contracts", contracts, "--growth", "10%", "--ci", "0")
    assert grown["commitment"]["curve"][0]["worst_month"] == "month 1"


def test_the_picture_has_a_curve_for_each_type(gpuplan, log, contracts, tmp_path):
    names = ["A100-80GB", "H100-80GB", "L40S", "T4"]
    many = write_trace(
        tmp_path / "m.parquet", [0.0] * 4, [DAY_S * d for d in (9, 5, 3, 1)],
        num_gpus=[8.0, 4.0, 2.0, 1.0], gpu_type=names, queue_s=[0.0] * 4,
    )  # fmt: skip
    picture = tmp_path / "curve.svg"
    words = ("--commit", "1", "--on-demand", "2", "--plot", picture, "--ci", "0")
    code, _, err = gpuplan("size", many, *words)
    text = picture.read_text()
    assert code == 0 and "Warning" not in err, err
    assert all(f"Dollars a month by GPUs committed, {name}" in text for name in names)
    assert text.count("optimum: ") == 4 and "no sizes" not in text
    code, _, err = gpuplan("size", log, "--contracts", contracts, "--plot", picture)
    text = picture.read_text()
    assert code == 0 and "optimum: 1 GPU," in text and "today: 2 GPUs, $1,993" in text
    assert "beside 1 owned" in text
    code, _, err = gpuplan("size", many, "--gpus", "8", *words)
    text = picture.read_text()
    assert code == 0 and "Waits against cost" in text and "optimum: " in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--commit", "A100=1"), "a commitment needs both prices"),
        (("--owned", "A100=8"), "say what waits you accept"),
        (("--contracts", "C", "--growth", "20%:10%"), "expected LOW:HIGH"),
        (("--contracts", "C", "--growth=-100%:10%"), "more than -100%"),
        (("--contracts", "C", "--gpus", "8", "--growth", "0%:10%"), "a range is for a commitment"),
        (("--contracts", "C", "--commit", "H100=1"), "--commit H100: no job of the log is on H100"),
        (("--contracts", "C", "--where", "gpu_type = 'T4'"), "no commitment is in force"),
        (
            ("--contracts", "C", "--commit", "A100=1.0", "--commit", "A100-80GB=1.1"),
            "--commit A100: may be the A100-80GB of the log, which --commit names too",
        ),
        (("--on-demand", "2", "--price", "2"), "say what waits you accept"),
        (("--gpus", "8", "--on-demand", "2", "--price", "2"), "a commitment needs both prices"),
    ],
)
def test_what_cannot_be_answered_is_said(gpuplan, log, contracts, words, message):
    words = [contracts if word == "C" else word for word in words]
    code, _, err = gpuplan("size", log, *words)
    assert code == 2 and message in " ".join(err.split()), err


def test_on_demand_prices_may_be_of_a_list_as_in_plan(gpuplan, log):
    """`--price` and `--prices` say what is rented, as in `gpuplan plan`."""
    commit = ("--commit", "A100-80GB=0.9")
    typed = answer(gpuplan, log, *commit, "--on-demand", "A100-80GB=1.5")["commitment"]
    priced = answer(gpuplan, log, *commit, "--price", "A100-80GB=1.5,T4=0.3")["commitment"]
    assert typed == priced and typed["on_demand_usd_per_gpu_h"] == 1.5
    table = answer(gpuplan, log, *commit, "--prices", "builtin")["commitment"]
    plan = command_results(
        gpuplan, "plan", log, *commit, "--prices", "builtin", "--holdout", "0", "--levers",
        "commitment",
    )  # fmt: skip
    rented = next(row for row in plan["markets"] if row["name"] == "on_demand")
    usd_per_gpu_h = rented["usd_per_month"] / rented["mean_gpus"] / 730.5
    assert table["on_demand_usd_per_gpu_h"] == pytest.approx(usd_per_gpu_h)


def test_all_types_that_a_cluster_lacks_are_named(gpuplan, tmp_path):
    log = write_trace(
        tmp_path / "t.parquet", [0, 0, 0], [HOUR_S] * 3, num_gpus=[1] * 3,
        gpu_type=["A100-80GB", "T4", "L4"], queue_s=[0.0] * 3,
    )  # fmt: skip
    code, _, err = gpuplan("size", log, "--gpus", "4", "--price", "1", "--cluster", "A100=4")
    assert code == 2 and "the log also has jobs on T4, L4" in err


def test_today_is_of_the_types_to_commit_to(gpuplan, log):
    words = ("--commit", "A100-80GB=0.9", "--on-demand", "A100-80GB=1.5")
    code, out, err = gpuplan("size", log, *words)
    text = " ".join(out.split())
    assert code == 0, err
    # 2 all the time and 2 more in 10 of 61 days, without the T4
    assert "2.33 A100-80GB (peak 4) held on average" in text and "T4" not in text


def test_owned_gpus_that_are_enough_are_no_bill_of_nothing(gpuplan, log):
    words = ("--commit", "0.9", "--on-demand", "1.5", "--where", "gpu_type = 'A100-80GB'")
    code, out, err = gpuplan("size", log, *words, "--owned", "A100-80GB=9")
    assert code == 0, err
    text = " ".join(out.split())
    assert "Commit to none: the 9 GPUs that you own are enough" in text
    assert "$0.00 a month" not in text


def test_owned_gpus_that_no_job_uses_are_named(gpuplan, log, contracts):
    code, _, err = gpuplan("size", log, "--contracts", contracts, "--owned", "H100=8")
    assert code == 0 and "--owned: no job of the log is on H100" in err


def test_a_report_and_a_gate_have_the_commitment(gpuplan, log, contracts, tmp_path):
    gate = ("--fail-if", "size.commitment.today_over_optimum_usd_per_month > $500")
    assert gpuplan("size", log, "--contracts", contracts, *gate)[0] == 1
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        f'workload.trace = "{log}"\n[study.size]\ncontracts = "{contracts}"\n'
        'commit = ["A100=1.00:1y,0.80:3y"]\nowned = ["A100=1"]\n'
    )
    code, _, err = gpuplan("run", scenario, "-o", tmp_path / "out")
    assert code == 0, err
    study = json.loads((tmp_path / "out" / "report.json").read_text())["studies"][0]
    assert study["results"]["commitment"]["committed_gpus"] == 1
    assert study["parameters"]["commit_usd_per_gpu_h"] == {"A100:1y": 1.0, "A100:3y": 0.8}
    assert "optimum" in (tmp_path / "out" / "figures" / "size.svg").read_text()


def test_fewer_gpus_apply_when_todays_commitment_ends(gpuplan, log, contracts):
    code, out, err = gpuplan("size", log, "--contracts", contracts)
    assert code == 0 and "fewer can apply" not in out  # the book names no end
    contracts.write_text(
        CONTRACTS.replace("from = 2024-04-01", "from = 2024-04-01\nuntil = 2025-04-01")
    )
    assert answer(gpuplan, log, "--contracts", contracts)["commitment"]["today_until"] == (
        "2025-04-01"
    )
    code, out, err = gpuplan("size", log, "--contracts", contracts)
    assert code == 0, err
    assert "today's run until 2025-04-01, fewer can apply only from then on" in " ".join(
        out.split()
    )


def test_of_several_terms_the_cheapest_that_the_range_of_use_bears_is_named(
    gpuplan, log, contracts
):
    terms = ("--contracts", contracts, "--commit", "A100=1.00:1y,0.80:3y", "--ci", "0")
    text = " ".join(gpuplan("size", log, *terms)[1].split())
    assert "Of the terms, 3y is the cheapest" in text
    assert "what comes before, the curve and the interval are of 1y" in text
    unborne = gpuplan("size", log, *terms, "--growth", "-90%:0%")[1]
    assert "With 90% less use none of them pays" in " ".join(unborne.split())
