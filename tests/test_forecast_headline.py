"""The sentence of ``forecast`` about its models agrees with the table below it."""

from types import SimpleNamespace

import pytest

from gpuplan.cli.tables.forecast_tables import _tested


def _results(last_mae, chosen_mae, chosen="orglinear"):
    models = [
        SimpleNamespace(name="last-value", mae=last_mae),
        SimpleNamespace(name="orglinear", mae=chosen_mae),
    ]
    series = [SimpleNamespace(name="all", chosen=chosen, models=models)]
    wins = int(chosen == "last-value")
    return SimpleNamespace(series=series, models=models, last_value_wins=wins)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (_results(2.02, 2.22), "on 0 of 1 series (MAE 2.22 GPUs, last value 2.02)"),
        (_results(2.02, 1.5), "on 1 of 1 series (MAE 1.5 GPUs, last value 2.02)"),
        (_results(2.02, 1.5, "last-value"), "its MAE is 2.02 GPUs, that of orglinear 1.5."),
    ],
)
def test_a_backtest_is_summed_up_by_its_test_errors(results, words):
    assert words in _tested(results)
