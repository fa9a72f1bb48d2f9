"""Forecasts of spend of a made-up company against its known truth."""

import json

import pytest

MODELS = {"last-month": "last month", "mean-of-3": "mean of 3"}


@pytest.fixture(scope="module")
def truth(company):
    return json.loads((company / "truth.json").read_text())["spend_forecast"]


@pytest.fixture(scope="module")
def auto(company, run_forecast):
    return run_forecast()


@pytest.fixture(scope="module")
def run_forecast(company):
    from gpuplan.analysis.base.plain import plain
    from gpuplan.planner.money.price_request import PriceRequest
    from gpuplan.planner.money.spend_request import SpendRequest
    from gpuplan.planner.requests.forecast import ForecastRequest
    from gpuplan.planner.studies.forecast import forecast

    def run(model="auto"):
        spending = SpendRequest(
            spend=True, prices=PriceRequest(contracts=company / "contracts.toml")
        )
        request = ForecastRequest(company / "jobs.csv.gz", spending=spending, model=model)
        return plain(forecast(request).results)

    return run


def test_past_forecasts_and_their_errors_are_the_truth(auto, truth):
    assert auto["whole_months"] == len(truth["whole_months"])
    models = {model["name"]: model for model in auto["models"]}
    for name, of_truth in MODELS.items():
        true = truth["backtest"][of_truth]
        past = [row for row in auto["backtest"] if row["model"] == name]
        assert len(past) == len(true["forecasts"])
        for row, expected in zip(past, true["forecasts"], strict=True):
            assert row["last_month_known"] == expected["last_month_known"]
            assert (row["target"], row["months_ahead"]) == (expected["target"], expected["horizon"])
            for key in ("forecast", "actual", "error"):
                assert row[f"{key}_usd"] == pytest.approx(float(expected[key]), abs=1e-8)
        model = models[name]
        error = float(true["mean_absolute_error"])
        assert model["mean_absolute_error_usd"] == pytest.approx(error, abs=1e-8)
        by_ahead = {
            str(row["months_ahead"]): row["mean_absolute_error_usd"] for row in model["ahead"]
        }
        assert by_ahead == pytest.approx({k: float(v) for k, v in true["by_horizon"].items()})
        by_label = {row["label"]: row["mean_absolute_error_usd"] for row in model["labels"]}
        assert by_label == pytest.approx({k: float(v) for k, v in true["by_label"].items()})
    errors = {name: models[name]["mean_absolute_error_usd"] for name in MODELS}
    assert MODELS[min(errors, key=errors.get)] == truth["chosen_of_the_two"]
    tested = [model["mean_absolute_error_usd"] for model in auto["models"]]
    assert models[auto["model"]]["mean_absolute_error_usd"] == min(tested)


@pytest.mark.parametrize("name", MODELS)
def test_the_months_ahead_are_the_truth_to_the_cent(run_forecast, truth, name):
    results = run_forecast(name)
    assert results["model"] == name
    for total in results["totals"]:
        true = truth["ahead"][MODELS[name]][total["month"]]
        assert total["usd"] == round(float(true["total"]), 2)
        rows = {row["label"]: row for row in results["months"] if row["month"] == total["month"]}
        assert rows.keys() == true.keys() - {"total"}
        for label, row in rows.items():
            assert abs(row["usd"] - float(true[label])) < 0.01
            assert row["low"] <= row["usd"] <= row["high"]
        assert sum(round(100 * row["usd"]) for row in rows.values()) == round(100 * total["usd"])
        assert total["low"] <= total["usd"] <= total["high"]
    assert [total["month"] for total in results["totals"]] == [*truth["ahead"]["last month"]]


def test_what_the_begun_month_cost_so_far_is_in_the_interval_of_the_whole(auto):
    # March is known to the 14th: its rate so far says what the whole month comes to.
    march = auto["totals"][0]
    rest = march["usd"] and march["so_far_usd"] * 744 / march["so_far_hours"]
    assert march["so_far_hours"] == 336 and march["low"] < rest < march["high"]
    assert [total["so_far_usd"] for total in auto["totals"][1:]] == [None, None]
