"""One price book: every command that names dollars takes it, and shows the same today."""

from __future__ import annotations

import json
import re
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from support_answers import command_results
from support_scenario import load
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.money.pool_texts import parse_pools, parse_prices, price_steps, price_texts
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest

HOUR, DAY = 3600.0, 86400.0
BOOK = """
[[owned]]
gpu_type = "A100"
gpus = 1
usd_per_gpu_h = 0.5

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 2.0

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 3.0
from = 2024-03-02

[[price]]
gpu_type = "H100"
kind = "on_demand"
usd_per_gpu_h = 4.0
"""
# Two A100 for 48 h and one H100 for the second 24 h: the owned A100 is 48 h at $0.50, the other
# one 24 h at $2 and 24 h at $3, the H100 24 h at $4.
USD = 48 * 0.5 + 24 * 2 + 24 * 3 + 24 * 4
MONTH = USD * 730.5 / 48
AT_END = (96 * 3 + 24 * 4) / 120
"""Mean price of a GPU-hour at the end of the log."""

STUDIES = {
    "bill": (),
    "characterize": (),
    "pareto": ("--budget", "now", "--no-replay"),
    "sweep": ("--threshold", "60", "--set", "serverless_usd_per_gpu_h=5"),
    "compare": ("--policy", "fifo", "--gpus", "4"),
    "simulate": ("--policy", "fifo", "--gpus", "4"),
    "size": ("--gpus", "4"),
}
"""Study that shows today's bill -> what else it needs."""


@pytest.fixture
def log(tmp_path):
    return write_trace(
        tmp_path / "t.parquet", [0.0, DAY], [2 * DAY, DAY], num_gpus=[2.0, 1.0],
        queue_s=[0.0, 0.0], gpu_type=["A100", "H100"],
    )  # fmt: skip


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.toml"
    path.write_text(BOOK)
    return path


def todays_usd(found):
    """Return the dollars a month of today: of a bill its own."""
    return found["today"]["usd_per_month"] if "today" in found else found["usd_per_month"]


@pytest.mark.parametrize("study", STUDIES)
def test_a_book_gives_the_same_today_in_every_study(gpuplan, log, book, study):
    found = command_results(gpuplan, study, log, *STUDIES[study], "--contracts", book)
    assert todays_usd(found) == pytest.approx(MONTH, abs=0.0051)
    rows = found.get("today", {}).get("gpu_types", ())
    types = {row["gpu_type"]: row["usd_per_month"] for row in rows}
    assert study in ("bill", "size") or types == pytest.approx(
        {"A100": (24 + 48 + 72) * 730.5 / 48, "H100": 96 * 730.5 / 48}
    )


@pytest.mark.parametrize("study", STUDIES)
def test_short_forms_make_the_same_book(gpuplan, log, study):
    short = (
        *("--price", "A100=2,2024-03-02:3", "--price", "H100=4"),
        *("--owned", "A100=1@0.5"),
    )
    found = command_results(gpuplan, study, log, *STUDIES[study], *short)
    assert todays_usd(found) == pytest.approx(MONTH, abs=0.0051)


def test_dates_are_of_the_time_zone_of_a_bill(gpuplan, log):
    # 2 March begins 10 h later in Honolulu: 34 h of an A100 at $2, 14 h at $3.
    words = ("--price", "A100=2,2024-03-02:3", "--price", "H100=4")
    found = command_results(gpuplan, "bill", log, *words, "--time-zone", "Pacific/Honolulu")
    usd = 2 * (34 * 2 + 14 * 3) + 24 * 4
    assert todays_usd(found) == pytest.approx(usd * 730.5 / 48, abs=0.0051)


@pytest.mark.parametrize("study", STUDIES)
def test_a_type_without_a_price_is_named_and_has_no_other_price(gpuplan, log, study):
    code, out, err = gpuplan(study, log, *STUDIES[study], "--price", "T4=1,L4=2")
    said = " ".join(err.split())
    assert (code, out) == (2, "") and "--price" in said and "A100" in said and "H100" in said
    code, out, err = gpuplan(study, log, *STUDIES[study], "--price", "A100=1")
    assert (code, out) == (2, "") and "H100 has no price, only A100" in err
    assert "--price H100=USD" in err


def test_plans_and_today_have_one_basis(gpuplan, log, book):
    found = command_results(gpuplan, "pareto", log, *STUDIES["pareto"], "--contracts", book)
    (now,), today = found["points"], found["today"]
    assert found["price_usd_per_gpu_h"] == pytest.approx(AT_END)
    # Jobs arrive in one of the two days, so that budgets count twice the GPUs of the log.
    more = now["used_gpus"] - today["mean_gpus"]
    assert now["usd_per_month"] == pytest.approx(MONTH + more * AT_END * 730.5)
    flat = ("--price", "A100=2,H100=4")
    found = command_results(gpuplan, "pareto", log, *STUDIES["pareto"], *flat)
    (now,), mean = found["points"], (96 * 2 + 24 * 4) / 120
    assert found["today"]["usd_per_month"] == pytest.approx(2.5 * mean * 730.5)
    assert now["usd_per_month"] == pytest.approx(now["used_gpus"] * mean * 730.5)


def test_a_budget_in_dollars_buys_what_it_costs(gpuplan, log, book):
    words = ("--contracts", book, "--no-replay", "--budget", "12gpu")
    (point,) = command_results(gpuplan, "pareto", log, *words)["points"]
    usd = MONTH / 730.5 + (12 - 2.5) * AT_END
    words = ("--contracts", book, "--no-replay", "--budget", f"${usd}/h")
    (bought,) = command_results(gpuplan, "pareto", log, *words)["points"]
    assert bought["budget_gpus"] == pytest.approx(point["budget_gpus"])
    code, _, err = gpuplan("pareto", log, "--contracts", book, "--no-replay", "--budget", "$0.1/h")
    assert code == 4 and "raise --budget to at least" in err


def test_the_warning_of_a_mixed_log_says_what_works(gpuplan, tmp_path):
    hours = [HOUR * i for i in range(20)]
    log = write_trace(
        tmp_path / "m.parquet", hours, [HOUR] * 20, gpu_type=["A100", "A100", "A100", "H100"] * 5
    )
    prices = ("--price", "A100=2,H100=4", "--no-replay")
    code, _, err = gpuplan("pareto", log, *prices)
    assert code == 0 and "planned here as one type at $2.50 per GPU-hour" in " ".join(err.split())
    assert "--where \"gpu_type = 'A100'\" one type" in " ".join(err.split())
    for hint in (("--gpu", "A100", "--gpu", "H100=2"), ("--where", "gpu_type = 'A100'")):
        code, _, err = gpuplan("pareto", log, *prices, *hint)
        assert code == 0, err


def test_serverless_gpus_have_a_price_of_their_type_or_none(gpuplan, tmp_path):
    log = write_trace(
        tmp_path / "h.parquet", [600.0 * i for i in range(12)], [HOUR] * 12,
        gpu_type=["H100"] * 12,
    )  # fmt: skip
    words = ("sweep", log, "--threshold", "60", "--resamples", "0")
    code, out, err = gpuplan(*words, "--price", "H100=2.6")
    assert (code, out) == (2, "") and "no serverless price of H100" in err
    book = tmp_path / "book.toml"
    book.write_text(
        "".join(
            f'[[price]]\ngpu_type = "H100"\nkind = "{kind}"\nusd_per_gpu_h = {usd}\n'
            for kind, usd in (("on_demand", 2.6), ("serverless", 4.5))
        )
    )
    code, out, err = gpuplan(*words, "--contracts", book, "--output-format", "json")
    assert code == 0, err
    used = json.loads(out)["parameters"]["settings"]
    assert used["serverless_usd_per_gpu_h"] == 4.5
    assert used["conventional_usd_per_gpu_h"] == 2.6 and used["marketplace_offers"] == 0
    with book.open("a") as more:
        more.write('[[price]]\ngpu_type = "H100"\nkind = "marketplace"\nusd_per_gpu_h = 1.5\n')
    code, out, err = gpuplan(*words, "--contracts", book, "--output-format", "json")
    assert code == 0, err
    offers = json.loads(out)["parameters"]["settings"]["marketplace_usd_per_gpu_h"]
    assert set(offers) == {1.5}
    # The built-in list is asked for the type of the jobs, not for the A100 of the defaults.
    code, out, err = gpuplan(*words, "--prices", "builtin", "--output-format", "json")
    own = json.loads(out)["parameters"]["settings"] if code == 0 else {}
    chosen = json.loads(
        gpuplan(*words, "--prices", "builtin", "--set", "gpu=H100", "--output-format", "json")[1]
    )["parameters"]["settings"]
    assert own["serverless_usd_per_gpu_h"] == chosen["serverless_usd_per_gpu_h"]


def test_a_market_of_one_type_is_not_for_jobs_of_several(gpuplan, log):
    code, out, err = gpuplan("sweep", log, "--threshold", "60", "--prices", "builtin")
    said = " ".join(err.split())
    assert (code, out) == (2, "") and "the jobs ran on A100, H100, and allpass rents" in said
    code, _, err = gpuplan(
        "sweep", log, "--threshold", "60", "--prices", "builtin", "--set", "gpu=H100"
    )
    assert code == 0, err


def test_a_book_and_a_market_are_taken_together(gpuplan, log, book):
    market = ("--contracts", book, "--prices", "builtin", "--set", "gpu=H100")
    for study, words in (
        ("sweep", ("--threshold", "60", "--resamples", "0")), ("simulate", ("--policy", "allpass")),
    ):  # fmt: skip
        code, out, err = gpuplan(study, log, *words, *market, "--output-format", "json")
        assert code == 0, err
        document = json.loads(out)
        assert todays_usd(document["results"]) == pytest.approx(MONTH, abs=0.0051)
        assert document["parameters"]["settings"]["conventional_usd_per_gpu_h"] == 4.0


def test_without_a_price_one_is_assumed_for_all_types_and_said(gpuplan, log):
    found = command_results(gpuplan, "compare", log, *STUDIES["compare"])
    assert found["today"]["price_is_assumed"] is True
    assert {row["usd_per_gpu_h"] for row in found["today"]["gpu_types"]} == {1.29}
    out = gpuplan("compare", log, *STUDIES["compare"])[1]
    assert "a month for the hours held, at an assumed $1.29 per GPU-hour" in " ".join(out.split())


def test_a_scenario_gives_its_book_to_every_study(tmp_path, log, book):
    text = f"""
        [workload]
        trace = "{log}"
        [prices]
        contracts = "{book}"
        [study.characterize]
        [study.pareto]
        [study.compare]
        policy = ["fifo"]
        gpus = "4"
        [study.sweep]
        set = ["serverless_usd_per_gpu_h=5"]
    """
    scenario = load(tmp_path, text)
    assert not scenario.warnings
    for study in scenario.studies:
        assert f"--contracts={book}" in study.arguments, study.name


def test_a_report_shows_one_today_in_every_section(gpuplan, tmp_path, log, book):
    studies = ("characterize", "bill", "pareto", "size", "compare")
    words = [word for name in studies for word in ("--study", name)]
    folder = tmp_path / "out"
    code, out, err = gpuplan(
        "report", log, *words, "--contracts", book, "--set", "size.gpus=4",
        "--set", "pareto.no_replay=true", "--set", "compare.policy=fifo", "--set",
        "compare.gpus=4", "-o", folder, "--formats", "json,html,md",
    )  # fmt: skip
    assert code == 0, err
    document = json.loads((folder / "report.json").read_text())
    sections = {study["name"]: study["results"] for study in document["studies"]}
    assert list(sections) == list(studies)
    for name, found in sections.items():
        assert todays_usd(found) == pytest.approx(MONTH, abs=0.0051), name
    gpus = {found["today"]["mean_gpus"] for found in sections.values() if "today" in found}
    assert gpus == {2.5}
    summary = (folder / "report.md").read_text().split("##")[0]
    assert "$3,650 a month" in summary and "Recommended" not in summary and "Option" in summary
    assert "$3,650" in out and "assumed $" not in summary


def test_a_report_without_prices_marks_its_dollars(gpuplan, tmp_path, log):
    folder = tmp_path / "out"
    code, out, err = gpuplan("report", log, "-o", folder, "--formats", "md")
    assert code == 0, err
    text = " ".join(out.split())
    assert "assumed $2,360 a month" in text
    said = [line for line in re.split(r"(?<=\.) ", text.partition("wrote")[0]) if "$" in line]
    assert said and all("assumed $" in line for line in said)


@pytest.mark.parametrize(
    ("texts", "prices"),
    [
        (["2.60"], {"": 2.6}),
        (["H100=2.60"], {"H100": 2.6}),
        (["H100=2.60,2026-04-01:3.00"], {"H100": {"": 2.6, "2026-04-01": 3.0}}),
        (["A100=1,H100=2.60,2026-04-01:3.00,T4=$0.5"],
         {"A100": 1.0, "H100": {"": 2.6, "2026-04-01": 3.0}, "T4": 0.5}),
        (["2.60,2026-04-01:3.00"], {"": {"": 2.6, "2026-04-01": 3.0}}),
        (["T4=1,2026-04-01T12:00+02:00:2"], {"T4": {"": 1.0, "2026-04-01T12:00+02:00": 2.0}}),
    ],
)  # fmt: skip
def test_prices_by_type_and_date(texts, prices):
    assert parse_prices(texts, "--price") == prices
    assert parse_prices(price_texts(prices), "--price") == prices


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-04-01:3", "expected dollars"),
        ("H100=2,April:3", "expected a date such as"),
        ("H100=2,2026-04-01:-3", "above 0"),
        ("H100=2,2026-04-01:3,2026-04-01:4", "each once"),
        ("H100=2,H100=3", "given twice"),
        ("2,60", "comma in a number\n  next: --price 2.60"),
        ("H100=2,60", "next: --price H100=2.60"),
        ("H100=T4=1", "expected dollars"),
        ("H100=0", "above 0"),
        ("nan", "finite"),
    ],
)
def test_prices_that_cannot_be_read(text, said):
    with pytest.raises(UsageError, match=said):
        parse_prices([text], "--price")


def test_a_price_holds_from_its_date_on_in_its_time_zone():
    dated = {"": 2.6, "2026-04-01": 3.0}
    first, second = price_steps(dated, UTC, "H100")
    assert (float(first.usd_per_gpu_h), float(second.usd_per_gpu_h)) == (2.6, 3.0)
    april = 1_775_001_600_000_000  # 2026-04-01 00:00 UTC
    assert second.from_us == april
    berlin = price_steps(dated, ZoneInfo("Europe/Berlin"), "H100")[1]
    assert berlin.from_us == april - 2 * 3600 * 1_000_000
    prices = Prices({"H100": dated})
    assert prices.at(april - 1).usd("H100") == 2.6
    assert prices.at(april).usd("H100") == prices.usd("H100") == 3.0
    assert not prices.is_flat(["H100"]) and Prices({"": 1.0}).is_flat(["H100", None])


def test_the_book_comes_before_other_prices_and_these_before_a_table(tmp_path):
    path = tmp_path / "book.toml"
    path.write_text('[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = 1.5\n')
    request = PriceRequest({"A100": 2.0, "T4": 0.4}, prices="builtin", contracts=path)
    prices = Prices.read(request)
    assert prices.usd("A100-80GB") == 1.5 and prices.of("A100").source == str(path)
    assert prices.usd("T4") == 0.4 and prices.usd("H100") > 0
    with pytest.raises(UsageError, match="K80, P100 have no price, only A100, T4"):
        prices.check(["A100", "K80", "P100"])


def test_owned_gpus_are_those_of_the_option_where_a_file_has_them_too(book):
    (owned,) = parse_pools(["A100=3@0.25"], "--owned")
    prices = Prices.read(PriceRequest(contracts=book, owned=(owned,)))
    assert [(p.gpus, float(p.usd_per_gpu_h)) for p in prices.book.pools] == [(3, 0.25)]
    (other,) = parse_pools(["H100=2"], "--owned")
    both = Prices.read(PriceRequest(contracts=book, owned=(other,))).book.pools
    assert sorted((p.gpu_type, p.gpus) for p in both) == [("A100", 1), ("H100", 2)]


def test_two_prices_of_one_date_are_refused(tmp_path):
    path = tmp_path / "book.toml"
    path.write_text('[[price]]\ngpu_type = "A100"\nkind = "on_demand"\nusd_per_gpu_h = 1.5\n')
    (on_demand,) = price_steps(2.0, gpu_type="A100")
    with pytest.raises(UsageError, match="two prices of A100"):
        Prices.read(PriceRequest(contracts=path, on_demand=(on_demand,)))


def test_the_company_has_one_today(gpuplan, shared):
    folder = shared / "data" / "company"
    if not folder.is_dir():
        pytest.skip("the company of known truth (../shared/data/company) is not here")
    log, book = folder / "jobs.csv.gz", ("--contracts", folder / "contracts.toml")
    billed = command_results(gpuplan, "bill", log, *book)
    for study, words in (
        ("characterize", ()), ("pareto", STUDIES["pareto"]),
        ("compare", ("--policy", "fifo", "--gpus", "256")),
    ):  # fmt: skip
        today = command_results(gpuplan, study, log, *words, *book)["today"]
        assert today["usd_per_month"] == pytest.approx(billed["usd_per_month"], abs=0.0051)
        types = {row["gpu_type"]: row["usd_per_month"] for row in today["gpu_types"]}
        for row in billed["gpu_types"]:
            assert types[row["gpu_type"]] == pytest.approx(row["usd_per_month"], abs=0.02)


def test_todays_gpus_under_a_scheduler_cost_what_today_does(gpuplan, log, book):
    words = ("compare", log, "--policy", "fifo", "--policy", "easy", "--contracts", book)
    code, out, err = gpuplan(*words, "--gpus", "3")
    text = " ".join(out.split())
    # They hold the same GPU-hours, so their cost is today's bill, not 3 GPUs busy or not.
    assert code == 0, err
    assert "On today's 3 GPUs ($3,650 a month, paid as today's bill is)" in text
    assert "busy or not" not in text
    _, out, _ = gpuplan(*words, "--gpus", "4")
    assert "busy or not" in out
    # Of two sizes the larger one does not cost less: both are busy or not.
    _, out, _ = gpuplan(*words, "--gpus", "2,3")
    assert "paid as today's bill" not in " ".join(out.split())
    # A policy that grows pays for what it rents, and not for today's GPUs.
    grows = ("--policy", "pollux-autoscaling")
    _, out, _ = gpuplan(*words, *grows, "--gpus", "3")
    assert "paid as today's bill" not in " ".join(out.split())


def test_a_range_of_bills_is_told_where_widths_change_the_gpu_hours(gpuplan, log, book):
    words = ("--policy", "fifo", "--policy", "equal", "--contracts", book, "--gpus", "3")
    code, out, err = gpuplan("compare", log, *words)
    assert code == 0, err
    (dollars,) = re.findall(r"On today's 3 GPUs \((.*?) a month", " ".join(out.split()))
    rows = [line.split() for line in out.splitlines()]
    cells = {row[0]: row[2] for row in rows if row and row[0] in ("fifo", "equal")}
    assert dollars == " to ".join(dict.fromkeys(cells[name] for name in ("fifo", "equal")))


def test_plans_on_named_types_say_what_today_costs_at_their_prices(gpuplan, log, book):
    words = ("--contracts", book, "--gpu", "A100", "--gpu", "H100=2", "--budget", "$40/h")
    code, out, err = gpuplan("pareto", log, *words, "--no-replay")
    assert code == 0, err
    # 96 h at $3 and 24 h at $4 in 48 h
    assert "today's GPUs cost $5,840 a month" in " ".join(out.split())
    assert "compare plans with that" in " ".join(out.split())


def test_a_report_of_a_book_has_bill_commitment_and_spend(gpuplan, tmp_path, log, book):
    folder = tmp_path / "out"

    def studies(*words):
        words = ("report", log, "--contracts", book, "-o", folder, "--formats", "json", *words)
        code, out, err = gpuplan(*words)
        assert code == 0, err
        document = json.loads((folder / "report.json").read_text())
        return {study["name"] for study in document["studies"]}, out, err

    names, _, err = studies()
    assert "bill" in names and "size" not in names
    assert "without forecast" in err and "month" in err  # no whole month in two days
    book.write_text(BOOK.replace("owned", "commitment"))
    assert "size" in studies()[0]
    names, out, err = studies("--study", "bill", "--study", "sweep")
    assert names == {"bill"} and "without sweep" in err and "serverless price" in err
    assert "GPUs today" in out and "$3,650 a month" in out
    code, _, err = gpuplan("report", log, "--study", "spend", "-o", folder)
    assert code == 2 and "--study forecast --set forecast.spend=true" in err


def test_a_run_leaves_out_what_only_lacks_serverless_prices(gpuplan, tmp_path, log, book):
    path = tmp_path / "s.toml"
    text = f'[workload]\ntrace = "{log}"\n[prices]\ncontracts = "{book}"\n[study.sweep]\n'
    path.write_text(f"{text}[study.bill]\n")
    words = ("run", path, "--output-format", "json", "--no-cache")
    code, _, err = gpuplan(*words)
    assert code == 0 and "without sweep" in err, err
    path.write_text(text)
    code, _, err = gpuplan(*words)
    assert code == 2 and "no serverless price" in err


@pytest.mark.parametrize(
    ("words", "expected", "next_step"),
    [
        (["--on-demand", "1.29"], "TYPE=USD", "--price 1.29"),
        (["--commit", "0.9"], "TYPE=GPUS@USD", "gpuplan plan --commit 0.9"),
    ],
)
def test_a_price_for_purchase_plans_names_its_option_here(gpuplan, log, words, expected, next_step):
    code, _, err = gpuplan("bill", log, *words)
    assert code == 2
    assert f"expected {expected}" in err and next_step in err


@pytest.mark.parametrize("study", [study for study in STUDIES if study != "bill"])
def test_today_of_a_part_has_no_contracts_of_other_types(gpuplan, tmp_path, book, study):
    """An H100 at $4 all the time; the A100 owned is of the jobs that are left out."""
    log = write_trace(
        tmp_path / "p.parquet", [0.0, 0.0, DAY], [2 * DAY, DAY, DAY], num_gpus=[2.0, 1.0, 1.0],
        queue_s=[0.0] * 3, gpu_type=["A100", "H100", "H100"],
    )  # fmt: skip
    part = ("--where", "gpu_type = 'H100'", "--contracts", book)
    results = command_results(gpuplan, study, log, *STUDIES[study], *part)
    assert results["today"]["usd_per_month"] == pytest.approx(4.0 * 730.5)
    if study == "size":  # a budget is over the owned GPUs of these types alone
        words = ("--budget", "$3000/month", "--speedup", "power:0.8", "--holdout", "0")
        plan = command_results(gpuplan, "plan", log, *part, *words)
        assert {row["gpu_type"] for row in plan["markets"]} == {"H100"}


VARIANT_BOOK = """
[[owned]]
gpu_type = "A100-80GB"
gpus = 1
usd_per_gpu_h = 0.5

[[price]]
gpu_type = "A100-80GB"
kind = "on_demand"
usd_per_gpu_h = 2.0
"""


@pytest.fixture
def variants(tmp_path):
    """Return a log of two A100-80GB for 48 h, and a book under that name."""
    path = tmp_path / "book.toml"
    path.write_text(VARIANT_BOOK)
    rows = [0.0, 24 * HOUR], [24 * HOUR] * 2, [2.0, 2.0]
    types = {"gpu_type": ["A100-80GB"] * 2}
    return write_trace(tmp_path / "v.parquet", *rows, **types), path


def test_typed_gpus_are_those_that_the_book_has_under_a_longer_name(gpuplan, variants):
    log, book = variants
    words = ("--contracts", book)
    bills = [
        command_results(gpuplan, "bill", log, *words, "--owned", f"{name}=2@0.25")
        for name in ("A100", "A100-80GB", "a100-80")
    ]
    assert bills[0] == bills[1] == bills[2]
    (row,) = bills[0]["gpu_types"]
    assert row["gpu_type"] == "A100-80GB"
    assert row["usd_per_month"] == pytest.approx(2 * 0.25 * 730.5)
    plans = [
        command_results(gpuplan, "plan", log, *words, "--owned", f"{name}=2", "--holdout", "0")
        for name in ("A100", "A100-80GB")
    ]
    assert plans[0] == plans[1]
    owned = next(row for row in plans[0]["markets"] if row["name"] == "owned")
    assert (owned["gpu_type"], owned["gpus"]) == ("A100-80GB", 2)
    commits = [
        command_results(gpuplan, "bill", log, *words, "--commit", f"{name}=1@1.0")
        for name in ("A100", "A100-80GB")
    ]
    assert commits[0] == commits[1]


@pytest.mark.parametrize(
    ("more", "words", "said"),
    [
        ("A100-40GB", ("--owned", "A100=2"), "--owned: A100 may be A100-80GB or A100-40GB of"),
        ("A100", ("--by", "gpu_type"), "A100 may be the A100-80GB of the log, which has an entry"),
        ("T4", ("--owned", "BANANA=2"), "--owned BANANA: no job of the log is on it"),
        ("T4", ("--on-demand", "A100=1"), "two prices of A100-80GB"),
    ],
)
def test_gpus_that_may_be_several_types_are_refused(gpuplan, variants, more, words, said):
    log, book = variants
    pool = f'[[owned]]\ngpu_type = "{more}"\ngpus = 1\n'
    price = f'[[price]]\ngpu_type = "{more}"\nkind = "on_demand"\nusd_per_gpu_h = 1.0\n'
    book.write_text(VARIANT_BOOK + pool + price)
    code, _, err = gpuplan("bill", log, "--contracts", book, *words)
    assert code == 2 and said in " ".join(err.split()), err


def test_a_bill_of_a_part_says_that_it_has_all_contracts(gpuplan, tmp_path, variants):
    log = write_trace(
        tmp_path / "m.parquet", [30 * DAY * month for month in range(5)], [20 * DAY] * 5, [2.0] * 5,
        gpu_type=["A100-80GB"] * 5, user=["ann"] * 5,
    )  # fmt: skip
    for words in (("bill", log), ("forecast", log, "--spend")):
        words = (*words, "--contracts", variants[1], "--full")
        code, _, err = gpuplan(*words, "--where", "num_gpus >= 1")
        assert code == 0 and "all GPUs owned or committed are billed, also those that" in err
        assert "all GPUs owned" not in gpuplan(*words)[2]


def test_a_pool_of_several_types_of_the_log_is_refused_in_every_study(gpuplan, tmp_path):
    rows = [0.0, 24 * HOUR], [24 * HOUR] * 2, [2.0, 2.0]
    log = write_trace(tmp_path / "v.parquet", *rows, gpu_type=["A100-80GB", "A100-40GB"])
    words = ("--owned", "A100=2", "--price", "1")
    for command, *more in (("bill",), ("size", "--commit", "0.9"), ("plan", "--commit", "0.9")):
        code, _, err = gpuplan(command, log, *words, *more)
        text = " ".join(err.split())
        assert code == 2 and "A100 is A100-" in text and "in the log next: name each" in text, text


def test_owned_gpus_of_no_job_are_said(gpuplan, variants):
    log, book = variants
    code, _, err = gpuplan("bill", log, "--contracts", book, "--owned", "V100=2")
    assert code == 0 and "--owned: no job of the log is on V100" in err
