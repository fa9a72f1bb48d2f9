"""Budgets and prices of gpuplan pareto."""

import pytest
from support_pareto import FREE, results

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.frontier.budget import DOLLARS, LOADS, Budget, parse_budgets


def test_dollars(gpuplan, hours):
    found = results(
        gpuplan, hours, *FREE, "--speedup", "power:0.5", "--price", "1.5",
        "--budget", "$6/h,$4383/month",
    )  # fmt: skip
    assert [p["budget_gpus"] for p in found["points"]] == pytest.approx([4, 4])
    point = found["points"][0]
    assert point["usd_per_month"] == pytest.approx(4383)
    per_gpu = point["marginal_jct_s_per_gpu"]
    assert point["marginal_jct_s_per_100_usd_month"] == pytest.approx(per_gpu / (1.5 * 7.305))
    priced = ("pareto", "--full", hours, *FREE, "--speedup", "power:0.5", "--price", "1.5")
    _, out, _ = gpuplan(*priced, "--output-format", "md")
    assert "| $/month |" in out
    assert "| next $100 a month saves |" in out


def test_dollars_are_paid_for_gpus_in_use(gpuplan, hours):
    # 64 GPUs per job hold 2 x 64^0.5 = 16 GPUs; of a budget of 40 the rest is never rented.
    found = results(
        gpuplan, hours, *FREE, "--speedup", "power:0.5", "--price", "1.5", "--budget", "40"
    )  # fmt: skip
    (point,) = found["points"]
    assert (point["budget_gpus"], point["used_gpus"]) == (40, pytest.approx(16))
    assert point["usd_per_month"] == pytest.approx(16 * 1.5 * 730.5)


@pytest.mark.parametrize(
    ("asked", "price", "said", "raised"),
    [
        ("2", None, "a budget of 2 GPUs", "2.062gpu"),
        ("0.9x", None, "0.9x: a budget of", "2.062gpu"),
        ("$1000/month", "1", "$1,000.00/month: a budget of", "'$1506.30/month'"),
        ("$1/hour", "1", "$1.00/h: a budget of", "'$2.07/h'"),
    ],
)
def test_too_small_a_budget_says_which_is_enough(gpuplan, hours, asked, price, said, raised):
    # 2 GPUs of load and a start of 111 s twice an hour: 2 (3600 + 111) / 3600 = 2.0617 GPUs.
    trace = (hours, "--speedup", "power:0.8", "--rescale", "111s")
    extra = () if price is None else ("--price", price)
    code, _, err = gpuplan("pareto", "--full", *trace, *extra, "--budget", asked)
    assert code == 4
    assert said in err and "the least is 2.062 GPUs" in err
    assert f"next: raise --budget to at least {raised}" in err
    code, _, err = gpuplan("pareto", "--full", *trace, *extra, "--budget", raised.strip("'"))
    assert code == 0, err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60", [Budget(60)]),
        ("60gpu, 1.5x", [Budget(60), Budget(1.5, LOADS)]),
        ("1x:2x:3", [Budget(1, LOADS), Budget(1.5, LOADS), Budget(2, LOADS)]),
        ("10:30:3,$4/h", [Budget(10), Budget(20), Budget(30), Budget(4, DOLLARS)]),
        ("$1461/month", [Budget(1461, DOLLARS, "month")]),
        ("$1/hour:$2/h:2", [Budget(1, DOLLARS), Budget(2, DOLLARS)]),
        ("1e2gpus", [Budget(100)]),
    ],
)
def test_budgets(text, expected):
    assert parse_budgets(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "x", "-5", "0", "$1/h:$2/month:3", "$5", "5/h", "$5x", "1:2", "1x:2:3", "2:1:3", "1:2:1",
     "1:2:3:4", "1,,2", "1:2:1.5", "nan", "inf"],
)  # fmt: skip
def test_budgets_that_mean_nothing(text):
    with pytest.raises(UsageError, match="--budget"):
        parse_budgets(text)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("$10,000/month", "$10000/month"),
        ("$1,250,000/month,$2/h", "$1250000/month,$2/h"),
        ("10,000gpu", "10000gpu"),
    ],
)
def test_a_comma_between_thousands_is_told(text, instead):
    with pytest.raises(UsageError, match="thousands take none") as error:
        parse_budgets(text)
    assert f"next: '{instead}'" in str(error.value)
    assert [budget.value for budget in parse_budgets("60,100gpu,1000")] == [60, 100, 1000]


@pytest.mark.parametrize("count", ["1e9", "200000", "1", "9" * 5000])
def test_a_range_has_no_more_points_than_can_be_looked_at(count):
    with pytest.raises(UsageError, match="a range has 2 to 10,000 points, as a whole number"):
        parse_budgets(f"1:5:{count}")
    assert len(parse_budgets("1:5:10000")) == 10_000
