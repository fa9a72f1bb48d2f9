"""``gpuplan forecast --spend``: worked out by hand, as laws, and what it refuses."""

import json
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_traces import write_trace

from gpuplan.analysis.base.time_units import DAY_US, HOUR_US
from gpuplan.analysis.prices.contracts import (
    COMMITTED,
    ON_DEMAND,
    OWNED,
    DatedPrice,
    PaidPool,
    make_contracts,
)
from gpuplan.planner.money.bill import IDLE
from gpuplan.planner.money.held_runs import months_of
from gpuplan.planner.money.ledger import HeldRuns, ledger
from gpuplan.planner.money.spend.interval import _rising, intervals
from gpuplan.planner.money.spend.models import MODELS, BacktestForecast, chosen_model, monthly_drift
from gpuplan.planner.money.spend.recorded_use import MonthSpend, RecordedUse, usd_by_label

HOUR = 3600.0
MARCH, APRIL, MAY, JUNE, JULY = 744, 720, 744, 720, 744
POOL_THAT_ENDS = """
[[commitment]]
gpu_type = "A100"
gpus = 3
usd_per_gpu_h = 1.00
until = 2024-04-16

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 2.00

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 3.00
from = 2024-04-11
"""


def log_of(path, *rows, gpu_type="A100"):
    """Write a log of (label, first hour since 1 March 2024, last hour, GPUs)."""
    rows = sorted(rows, key=lambda row: row[1])
    labels, begin, end, gpus = zip(*rows, strict=True)
    lasting = [(last - first) * HOUR for first, last in zip(begin, end, strict=True)]
    return write_trace(
        path, [hour * HOUR for hour in begin], lasting, list(map(float, gpus)),
        group=list(labels), gpu_type=[gpu_type] * len(rows),
    )  # fmt: skip


def months_log(path, *gpus):
    """Write a log that uses so many GPUs in March 2024 and in each month after it."""
    hours = np.cumsum([0, MARCH, APRIL, MAY, JUNE, JULY, 744, 720])
    rows = [("a", *hours[i : i + 2], count) for i, count in enumerate(gpus)]
    return log_of(path, *rows)


def spend_of(gpuplan, log, *words, code=0):
    found, out, err = gpuplan("forecast", log, "--spend", *words, "--output-format", "json")
    assert found == code, err
    return json.loads(out) if code == 0 else err


def usd_of(document):
    return {(row["month"], row["label"]): row["usd"] for row in document["results"]["months"]}


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.toml"
    path.write_text(POOL_THAT_ENDS)
    return path


@pytest.fixture
def march(tmp_path):
    """March: b holds 2 GPUs all the time, a holds 4 in its first half."""
    return log_of(tmp_path / "march.parquet", ("a", 0, 372, 4), ("b", 0, 744, 2))


def test_a_month_with_a_price_change_and_the_end_of_a_pool(gpuplan, march, book):
    # 6 GPUs for 372 h, then 2; the pool covers 3. Per hour of the first half, of the second half:
    # 1-10 April, $2 above the pool:  3 + 3 x 2 = 9 (a 6, b 3),    b 2, idle 1; 240 h of 744 h
    # 11-15 April, $3:                3 + 3 x 3 = 12 (a 8, b 4),   b 2, idle 1; 120 h
    # 16-30 April, without the pool:  6 x 3 = 18 (a 12, b 6),      b 6;         360 h
    document = spend_of(gpuplan, march, "--contracts", book, "--months", "1")
    assert usd_of(document) == {
        ("2024-04", "a"): 6 * 120 + 8 * 60 + 12 * 180,
        ("2024-04", "b"): 5 * 120 + 6 * 60 + 12 * 180,
        ("2024-04", IDLE): 120 + 60,
    }
    (total,) = document["results"]["totals"]
    assert total["usd"] == 6660 and total["paid_usd"] == 3 * 360
    assert document["results"]["usd"] == 6660
    warnings = " ".join(document["warnings"])
    assert "3 committed A100 end on 2024-04-16: their use is on demand then" in warnings
    assert "A100 costs $3 per GPU-hour from 2024-04-11" in warnings


def test_a_price_given_by_date_is_the_same_book(gpuplan, march):
    # 4 GPUs on average: 10 days of April at $2, 20 days at $3.
    words = ("--price", "A100=2,2024-04-11:3", "--months", "1")
    assert spend_of(gpuplan, march, *words)["results"]["usd"] == 4 * (240 * 2 + 480 * 3)


def test_models_are_tested_on_past_months(gpuplan, tmp_path):
    # Mean GPUs 1, 2, 3, then 6 at $1. At the end of May, of June's 6 x 720 = 4,320:
    # last month 3, mean of 3 2, drift 3 x exp(the median of ln 2, ln 1.5, ln 3 / 2) = 3 x 3^0.5.
    log = months_log(tmp_path / "t.parquet", 1, 2, 3, 6)
    results = spend_of(gpuplan, log, "--price", "1", "--months", "2")["results"]
    past = {row["model"]: row for row in results["backtest"]}
    assert {row["target"] for row in past.values()} == {"2024-06"}
    assert past["last-month"]["forecast_usd"] == pytest.approx(3 * JUNE)
    assert past["mean-of-3"]["error_usd"] == pytest.approx(2 * JUNE - 6 * JUNE)
    assert past["drift"]["forecast_usd"] == pytest.approx(3 * 3**0.5 * JUNE, rel=1e-4)
    assert results["model"] == "drift" and len(results["backtest"]) == 4
    # Slopes of 1, 2, 3, 6: ln 2 twice, ln 1.5, ln 3 / 2 twice, ln 6 / 3; the median of the six.
    growth = np.exp((np.log(3) / 2 + np.log(6) / 3) / 2)
    assert results["drift_per_month"] == pytest.approx(growth - 1)
    july, august = (total["usd"] for total in results["totals"])
    assert july == pytest.approx(6 * growth * JULY, rel=1e-3)
    assert august == pytest.approx(6 * growth**2 * 744, rel=1e-3)
    chosen = next(model for model in results["models"] if model["is_chosen"])
    assert chosen["ahead"] == [
        {"months_ahead": 1, "forecasts": 1,
         "mean_absolute_error_usd": chosen["mean_absolute_error_usd"]}
    ]  # fmt: skip
    assert chosen["mean_absolute_error_share"] == pytest.approx(1 - 3**0.5 / 2, rel=1e-3)


def test_weekdays_are_those_of_the_month(gpuplan, tmp_path):
    # Mondays 7 GPUs, else none; b holds one GPU from March to May. June 2024 has 4 Mondays, July 5.
    mondays = range(3, 92, 7)  # 4 March 2024 is a Monday
    rows = [("a", 24 * day, 24 * day + 24, 7) for day in mondays]
    log = log_of(tmp_path / "t.parquet", *rows, ("b", 0, 24 * 92, 1))
    words = ("--price", "1", "--model", "seasonal", "--months", "2")
    assert usd_of(spend_of(gpuplan, log, *words)) == {
        ("2024-06", "a"): 4 * 24 * 7, ("2024-06", "b"): JUNE,
        ("2024-07", "a"): 5 * 24 * 7, ("2024-07", "b"): JULY,
    }  # fmt: skip


def test_days_of_other_lengths_count_by_their_hours(gpuplan, tmp_path):
    # One GPU all the time at $1: a month costs its hours, March 2025 in Berlin 743 of them.
    log = log_of(tmp_path / "t.parquet", ("a", -1, 24 * 337, 1))
    for model in MODELS:
        words = ("--price", "1", "--model", model, "--time-zone", "Europe/Berlin", "--months", "3")
        usd = [total["usd"] for total in spend_of(gpuplan, log, *words)["results"]["totals"]]
        assert usd == [672, 743, 720]  # February to April


def test_equal_errors_go_to_the_simpler_model(gpuplan, tmp_path):
    log = months_log(tmp_path / "t.parquet", 2, 2, 2, 2, 2)
    results = spend_of(gpuplan, log, "--price", "1")["results"]
    assert results["model"] == "last-month"
    for row in (*results["months"], *results["totals"]):
        assert row["low"] == row["usd"] == row["high"]  # nothing has ever changed
    assert all(row["error_usd"] == 0 for row in results["backtest"])
    assert chosen_model("auto", {}) == "last-month"
    assert chosen_model("seasonal", {}) == "seasonal"


@pytest.mark.parametrize("months", [1, 2, 3])
def test_under_four_months_nothing_is_tested(gpuplan, tmp_path, months):
    log = months_log(tmp_path / "t.parquet", *range(1, months + 1))
    document = spend_of(gpuplan, log, "--price", "1")
    results = document["results"]
    assert results["model"] == "last-month" and results["backtest"] == []
    assert all(model["mean_absolute_error_usd"] is None for model in results["models"])
    words = f"{months} whole month{'s' * (months > 1)}, and a test needs 4"
    assert words in " ".join(document["warnings"])
    lacking = {1: {"mean-of-3", "drift", "seasonal"}, 2: {"mean-of-3", "drift"}, 3: set()}
    assert set(results["models_left_out"]) == lacking[months]
    assert (results["drift_per_month"] is None) == (months < 3)
    code, out, _ = gpuplan("forecast", log, "--spend", "--price", "1")
    assert code == 0 and "is not tested on past months" in " ".join(out.split())


def test_only_whole_months_count_and_the_begun_one_is_known_so_far(gpuplan, tmp_path):
    # From 11 February to 10 April: March is whole, and April is known for 10 days.
    log = log_of(tmp_path / "t.parquet", ("a", -19 * 24, MARCH + 240, 2))
    results = spend_of(gpuplan, log, "--price", "1")["results"]
    assert results["whole_months"] == 1
    assert [month["is_partial"] for month in results["history"]] == [True, False, True]
    assert results["totals"][0] | {"low": 0, "high": 0} == {
        "month": "2024-04", "usd": 2 * APRIL, "low": 0, "high": 0, "paid_usd": 0,
        "so_far_usd": 480, "so_far_hours": 240,
    }  # fmt: skip
    _, out, _ = gpuplan("forecast", log, "--spend", "--price", "1")
    assert "$480 of 2024-04 is billed already" in " ".join(out.split())


def test_a_label_that_cost_more_already_than_its_forecast_is_told(gpuplan, tmp_path):
    """Team a grows from 1 GPU to 20 in April, of which 10 days are in the log; b stays at 2."""
    rows = [("a", 0, MARCH, 1), ("b", 0, MARCH + 240, 2), ("a", MARCH, MARCH + 240, 20)]
    log = log_of(tmp_path / "t.parquet", *rows, ("c", MARCH, MARCH + 240, 1))
    warnings = spend_of(gpuplan, log, "--price", "1")["warnings"]
    (said,) = [text for text in warnings if "already" in text]
    assert f"a ${20 * 240:,}, forecast ${APRIL:,.0f}; c $240, forecast $0" in said
    assert "b $" not in said
    assert not any("already" in text for text in spend_of(
        gpuplan, log, "--price", "1", "--by", "all")["warnings"])  # fmt: skip


def test_a_log_without_dates_has_months_of_730_hours(gpuplan, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_time,duration_s,num_gpus\n1,0,10519200,1\n2,10519190,10,1\n")
    document = spend_of(gpuplan, path, "--price", "1", "--months", "2")
    results = document["results"]
    assert results["whole_months"] == 4 and results["models_left_out"] == ["seasonal"]
    assert [(row["month"], row["usd"]) for row in results["totals"]] == [
        ("month 5", 730.5), ("month 6", 730.5),
    ]  # fmt: skip


def test_any_column_of_the_log_is_a_label(gpuplan, march):
    for by, labels in (("all", {"all"}), ("type", {"A100"}), ("gpu_type", {"A100"})):
        document = spend_of(gpuplan, march, "--price", "1", "--by", by, "--months", "1")
        assert {row["label"] for row in document["results"]["months"]} == labels
        assert document["results"]["usd"] == pytest.approx(4 * 372 * 30 / 31 + 2 * APRIL, abs=0.01)


def test_the_answer_is_short_and_full_has_the_models(gpuplan, tmp_path, book):
    log = months_log(tmp_path / "t.parquet", 4, 5, 6, 6, 7)
    words = ("forecast", log, "--spend", "--contracts", book)
    code, out, _ = gpuplan(*words)
    text = " ".join(out.split())
    assert code == 0 and len(out.splitlines()) <= 20
    assert "2024-08 will cost about $" in text and "80% interval" in text
    assert "Past forecasts" not in text and "Models" not in text
    assert "Models, with the mean absolute error" in gpuplan(*words, "--backtest")[1]
    full = gpuplan(*words, "--full")[1]
    assert "Past forecasts of the total" in full and "The bill so far" in full
    assert gpuplan(*words)[1] == out
    _, rows, _ = gpuplan(*words, "--output-format", "csv")
    assert rows.startswith("month,label,usd,low,high\n") and "2024-09,total," in rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--spend",), "no price"),
        (("--months", "2"), "--months: only with --spend"),
        (("--months", "3"), "--months: only with --spend"),
        (("--price", "2"), "--price: only with --spend"),
        (("--owned", "A100=8"), "--owned: only with --spend"),
        (("--spend", "--price", "1", "--horizon", "2h"), "--horizon: is of the next hours"),
        (("--spend", "--price", "1", "--at", "2024-03-05"), "--at: is of the next hours"),
        (("--spend", "--price", "1", "--cluster", "8"), "--cluster: is of the next hours"),
        (("--spend", "--price", "1", "--spot", "num_gpus > 1"), "--spot: is of the next hours"),
        (("--spend", "--price", "1", "--model", "dlinear"), "no such model of spend"),
        (("--spend", "--price", "1", "--model", "drift"), "--model drift: needs 3 whole months"),
        (("--model", "drift"), "no such model"),
        (("--spend", "--price", "1", "--by", "group,user"), "--spend takes one column"),
        (("--spend", "--price", "1", "--months", "13"), "--months"),
        (("--spend", "--price", "T4=1"), "A100"),
    ],
)
def test_what_cannot_be_meant_is_refused(gpuplan, march, words, message):
    code, _, err = gpuplan("forecast", march, *words)
    assert code == 2 and message in err


def test_use_above_a_pool_that_ends_needs_a_price(gpuplan, march, tmp_path):
    path = tmp_path / "pool.toml"
    path.write_text(
        '[[commitment]]\ngpu_type = "A100"\ngpus = 8\nusd_per_gpu_h = 1\nuntil = 2024-04-20\n'
    )
    err = spend_of(gpuplan, march, "--contracts", path, code=2)
    assert "no pay-per-use price of A100 from 2024-04-20" in err and "2024-03" in err
    priced = spend_of(gpuplan, march, "--contracts", path, "--on-demand", "A100=2", "--months=1")
    assert priced["results"]["totals"][0]["paid_usd"] == 8 * 19 * 24


def test_a_log_without_a_whole_month_and_a_table_of_demand_are_refused(gpuplan, tmp_path):
    short = log_of(tmp_path / "t.parquet", ("a", 24, 480, 1))
    assert "no whole calendar month" in spend_of(gpuplan, short, "--price", "1", code=3)
    demand = tmp_path / "demand.csv"
    demand.write_text("hour,a\n" + "".join(f"{hour},3\n" for hour in range(100)))
    assert "no runs to bill" in spend_of(gpuplan, demand, "--price", "1", code=2)


def test_the_picture_shows_the_past_and_the_months_ahead(gpuplan, tmp_path, book):
    log = months_log(tmp_path / "t.parquet", 4, 5, 6, 6, 7)
    words = ("forecast", log, "--spend", "--contracts", book, "-o", tmp_path / "p.svg")
    assert gpuplan(*words)[0] == 0
    text = (tmp_path / "p.svg").read_text()
    for word in ("2024-03", "2024-07", "2024-10", "80% interval", ">a <", "US dollars"):
        assert word in text


SCENARIO = """
[workload]
trace = "t.parquet"

[prices]
price = "A100=2"

[study.spend]
command = "forecast"
spend = true
months = 1

[study.demand]
command = "forecast"

[gates]
fail_if = ["spend.totals[2024-08].usd > $10"]
"""


def test_a_scenario_has_spend_and_demand_with_prices_for_spend_alone(gpuplan, tmp_path):
    months_log(tmp_path / "t.parquet", 4, 5, 6, 6, 7)
    (tmp_path / "plan.toml").write_text(SCENARIO)
    folder = tmp_path / "out"
    code, out, err = gpuplan("report", tmp_path / "plan.toml", "-o", folder, "--no-cache")
    assert code == 1 and "spend.totals[2024-08].usd" in out + err, err
    page = (folder / "report.md").read_text()
    assert "## What the next months cost: spend" in page
    assert "## Demand of the next hours: demand" in page
    document = json.loads((folder / "report.json").read_text())
    studies = {study["name"]: study for study in document["studies"]}
    assert studies["spend"]["parameters"]["spend"]["usd_per_gpu_h"] == {"A100": 2}
    assert "spend" not in studies["demand"]["parameters"]


def test_two_forecasts_are_compared_by_month(gpuplan, tmp_path):
    log = months_log(tmp_path / "t.parquet", 4, 5, 6, 6, 8)
    for name, price in (("old", "1"), ("new", "1.5")):
        code, _, err = gpuplan(
            "forecast", log, "--spend", "--price", price, "-o", tmp_path / f"{name}.json"
        )
        assert code == 0, err
    gate = "totals[2024-08].usd > +20%"
    words = ("diff", tmp_path / "old.json", tmp_path / "new.json", "--fail-if", gate)
    code, out, err = gpuplan(*words)
    assert code == 1 and "50.0%" in out + err


# Laws -------------------------------------------------------------------------------------------

ZONE = UTC
FIRST_US = (datetime(2025, 1, 1, tzinfo=ZONE) - datetime(1970, 1, 1, tzinfo=UTC)).days * DAY_US
MONTHS = months_of((FIRST_US, FIRST_US + 365 * DAY_US), ZONE)


def use_of(runs, book, known=4):
    edges = MONTHS.edges_us[: known + 1]
    entries = ledger(runs, book, edges)
    hours = np.zeros(known)
    for cell in entries.cells:
        hours[cell.period] += float(cell.gpu_h) if cell.label is not None else 0
    names = tuple("abc"[: runs.labels])
    return RecordedUse(runs, names, book, entries.gpu_types, MONTHS, known, hours, ZONE), [
        *usd_by_label(entries, names)
    ]


@st.composite
def uses(draw):
    """Runs of three labels and two types in the first four months, and a book without dates."""
    count = draw(st.integers(1, 12))
    hours = st.integers(0, 120 * 24 - 1)
    rows = [
        (draw(hours), draw(st.integers(1, 900)), draw(st.sampled_from([0.5, 1, 2, 4, 8])),
         draw(st.integers(0, 2)), draw(st.integers(0, 1)))
        for _ in range(count)
    ]  # fmt: skip
    begin, lasting, gpus, label, kind = (np.array(column) for column in zip(*rows, strict=True))
    start = FIRST_US + begin * HOUR_US
    end = np.minimum(start + lasting * HOUR_US, FIRST_US + 120 * DAY_US)
    runs = HeldRuns(start, end, gpus.astype(float), label, kind, 3, ("A100", "T4"))
    pools = [
        PaidPool(market, "A100", draw(st.integers(1, 6)), Fraction(draw(st.integers(0, 9)), 4))
        for market in draw(st.lists(st.sampled_from([OWNED, COMMITTED]), max_size=2))
    ]
    prices = [DatedPrice("A100", ON_DEMAND, Fraction(3)), DatedPrice("T4", ON_DEMAND, Fraction(1))]
    return runs, make_contracts(pools, prices)


@settings(max_examples=30)
@given(uses())
def test_a_month_like_itself_costs_its_bill_and_pools_cost_what_they_cost(drawn):
    use, actual = use_of(*drawn)
    for month in range(use.recorded_months):
        same = use.as_in_month(month, month)
        assert same.usd == actual[month]
        assert same.total >= use.paid_usd(month)
        ahead = use.as_in_month(month, use.recorded_months)
        lengths = [end - begin for begin, end in pairwise(MONTHS.edges_us.tolist())]
        share = Fraction(lengths[use.recorded_months], lengths[month])
        assert ahead.usd == {name: usd * share for name, usd in actual[month].items()}
        assert ahead.total >= use.paid_usd(use.recorded_months)


@settings(max_examples=30)
@given(uses(), st.fractions(Fraction(1, 4), 4, max_denominator=4))
def test_growth_is_that_of_every_run(drawn, growth):
    # Multiples of 4 keep the grown GPUs exact in the runs of the other side.
    runs, book = drawn
    quadrupled = HeldRuns(
        runs.start_us, runs.end_us, runs.gpus * 4, runs.label, runs.gpu_type, 3, runs.gpu_types
    )
    grown = HeldRuns(
        runs.start_us, runs.end_us, runs.gpus * 4 * float(growth), runs.label, runs.gpu_type, 3,
        runs.gpu_types,
    )  # fmt: skip
    if growth.denominator == 3:  # thirds of a GPU are rounded in the other side
        growth, grown = Fraction(1), quadrupled
    first, second = (use_of(each, book)[0] for each in (quadrupled, grown))
    left, right = first.as_in_month(1, 4, growth).usd, second.as_in_month(1, 4).usd
    for name in left.keys() | right.keys():
        assert float(left.get(name, 0)) == pytest.approx(float(right.get(name, 0)), abs=1e-9)


@settings(max_examples=20)
@given(uses())
def test_no_model_forgets_the_pools_and_constant_use_is_forecast_by_all(drawn):
    use, _ = use_of(*drawn)
    for model in MODELS.values():
        spend = model.forecast(use, use.recorded_months - 1, use.recorded_months)
        assert float(spend.total) >= float(use.paid_usd(use.recorded_months)) - 1e-9
        assert all(usd >= 0 for usd in spend.usd.values())
    book = drawn[1]
    always = HeldRuns(
        np.array([FIRST_US]), np.array([FIRST_US + 120 * DAY_US]), np.array([3.0]),
        np.array([0]), np.array([0]), 3, ("A100", "T4"),
    )  # fmt: skip
    use, actual = use_of(always, book)
    assert monthly_drift(use, 3) == 0
    for model in MODELS.values():
        spend = model.forecast(use, 3, 4)
        assert spend.usd == actual[0]  # January and May have 31 days


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 9)), min_size=1, max_size=5))
def test_errors_further_ahead_never_fall_and_keep_their_weight(steps):
    values, counts = zip(*steps, strict=True)
    rising = _rising(values, counts)
    assert all(before <= after + 1e-6 for before, after in pairwise(rising))
    assert np.dot(rising, counts) == pytest.approx(np.dot(values, counts), abs=1e-3)
    if all(before <= after for before, after in pairwise(values)):
        assert rising == list(values)


def test_intervals_hold_about_four_of_five_months():
    # Spend as a random walk with 8% a month; nine months known, the tenth forecast.
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(150):
        months = 50_000 * np.exp(np.cumsum(rng.normal(0, 0.08, 10)))
        weeks = months[:, None] * np.exp(rng.normal(0, 0.02, (10, 4)))
        usd = weeks.mean(axis=1)
        exact = [{"a": Fraction(month)} for month in usd]
        past = [BacktestForecast("m", i, i + 1, exact[i], exact[i + 1]) for i in range(2, 8)]
        last = tuple({"a": Fraction(week)} for week in weeks[8])
        spend = MonthSpend(exact[8], lambda last=last: last)
        total, of_label = intervals(
            spend, past, ahead=1, length_us=30 * DAY_US, paid_usd=Fraction(0),
            rng=np.random.default_rng(1),
        )  # fmt: skip
        assert total == pytest.approx(of_label["a"], rel=1e-9)
        inside += total[0] <= usd[9] <= total[1]
    assert 0.7 <= inside / 150 <= 0.92


def test_an_interval_stays_within_what_is_possible():
    # Idle GPUs cost at most their pool, a label nothing at least, all at least the pools.
    weeks = tuple({"a": Fraction(usd), IDLE: Fraction(90)} for usd in (0, 10, 500, 0))
    past = [BacktestForecast("m", 2, 3, {"a": Fraction(900)}, {IDLE: Fraction(500)})]
    spend = MonthSpend({"a": Fraction(10), IDLE: Fraction(90)}, lambda: weeks)
    total, of_label = intervals(
        spend, past, ahead=1, length_us=30 * DAY_US, paid_usd=Fraction(95),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert of_label["a"][0] == 0 and of_label["a"][1] > 10
    assert of_label[IDLE] == (0, 95)
    assert total[0] == 95


def test_errors_on_one_side_are_told(gpuplan, tmp_path):
    """Use that rises each month was always forecast too low by the last month, falling too high."""
    rising = months_log(tmp_path / "up.parquet", 20, 24, 28, 32, 36, 40, 44)
    falling = months_log(tmp_path / "down.parquet", 44, 40, 36, 32, 28, 24, 20)
    uneven = months_log(tmp_path / "both.parquet", 30, 34, 28, 36, 30, 38, 30)
    for log, side in ((rising, "too low"), (falling, "too high"), (uneven, None)):
        words = ("forecast", log, "--spend", "--price", "1", "--model", "last-month")
        code, out, _ = gpuplan(*words)
        said = " ".join(out.split())
        past = spend_of(gpuplan, log, *words[3:])["results"]["backtest"]
        errors = [row["error_usd"] for row in past if row["model"] == "last-month"]
        assert code == 0 and len(errors) >= 4
        if side is None:
            assert "too low" not in said and "too high" not in said
        else:
            assert f"All {len(errors)} were {side}, on average by $" in said
