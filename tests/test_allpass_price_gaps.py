"""Prices that a table lacks: refused, or filled only with prices of the same GPU."""

import pytest
from support_prices import ORIGIN, book

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.money.price_settings import with_prices
from gpuplan.planner.money.renting_settings import LADDER
from gpuplan.planner.policies.allpass_settings import parameters_from
from gpuplan.planner.registry import POLICIES
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.renting.market import price_ladder

START = int(ORIGIN.timestamp() * 1e6)


VAST = {"gpu": "A100", "provider": "vast.ai", "kind": "marketplace"}


def vast(hour, price, available=None, region=None):
    return (hour, "vast.ai", "A100", region, "marketplace", price, available)


HOLES = [
    (0, "vast.ai", "H100", None, "marketplace", 2.0, 3),
    (0, "modal", "H100", None, "serverless", 4.0),
    (0, "lambda", "H100", None, "on_demand", 3.0),
]


NEXT = {  # what is left out -> the setting that stands for it
    "serverless": "serverless_usd_per_gpu_h",
    "on_demand": "conventional_usd_per_gpu_h",
}


@pytest.mark.parametrize("kind", NEXT)
@pytest.mark.parametrize("policy", ["allpass", "hpa", "fifo", "serverless-only"])
def test_a_price_of_an_a100_fills_no_hole_of_another_gpu(policy, kind):
    known, setting = POLICIES[policy].settings, NEXT[kind]
    rows = [row for row in HOLES if row[4] != kind]
    if setting not in known:
        return
    word = kind.replace("_", "-")
    with pytest.raises(UsageError, match=rf"no {word} price of H100.*\n  next: --set {setting}=N$"):
        with_prices({}, book(rows), None, known)
    found = with_prices({setting: 5.0}, book(rows), None, known)
    assert found.settings[setting] == 5.0 and f"{word} price: as set" in found.notes
    same = [(*row[:2], "A100-80GB", *row[3:]) for row in rows]
    found = with_prices({"gpu": "A100-80GB"}, book(same), None, known)
    usd = {"serverless": "2.10", "on_demand": "1.29"}[kind]
    message = f"{word} price: ${usd}, the default of an A100, as the prices have none"
    assert setting not in found.settings and message in found.notes


def test_what_is_set_of_the_built_in_marketplace_is_told():
    usual = with_prices({"gpu": "H100"}, None, None)
    assert "marketplace: vast.ai, H100" in usual.notes
    dear = {f"marketplace_{part}_usd_per_gpu_h": 9.0 for part in ("median", "max")}
    found = with_prices({"gpu": "H100"} | dear, None, None)
    assert "marketplace: vast.ai, H100, median, max price as set" in found.notes


def test_the_built_in_list_fills_no_hole_with_prices_of_an_a100():
    with pytest.raises(
        UsageError, match=r"^--prices builtin: no serverless price of V100, and the"
    ):
        with_prices({"gpu": "V100"}, None, None)
    found = with_prices({"gpu": "V100", "serverless_usd_per_gpu_h": 1.0}, None, None)
    assert found.settings["conventional_usd_per_gpu_h"] == 0.55
    with pytest.raises(
        UsageError, match=r"no on-demand price of RTX4090.*\n.*conventional_usd_per"
    ):
        with_prices({"gpu": "RTX4090"}, None, None, POLICIES["fifo"].settings)


def test_availability_of_another_gpu_takes_no_prices_of_an_a100():
    rows = [*HOLES[1:], (0, "vast.ai", "H100", None, "marketplace", None, 3)]
    with pytest.raises(UsageError, match=r"availability of H100 alone(?s:.)*next: --set marketpl"):
        with_prices({}, book(rows), None)
    asked = dict(zip([name for name in LADDER if "usd" in name], (1.0, 2.0, 3.0), strict=True))
    assert with_prices(asked, book(rows), None).settings["market"].price.tolist() == pytest.approx(
        [4 / 3, 2.0, 8 / 3]
    )


def test_a_table_without_a_marketplace_says_what_it_has_and_what_works():
    for chosen in ({}, {"gpu": "H100"}):
        with pytest.raises(UsageError, match=r"or as spot, only on-demand and serverless prices\n"):
            with_prices(chosen, book(HOLES[1:]), None)
        found = with_prices({**chosen, "marketplace_offers": 0}, book(HOLES[1:]), None)
        assert found.gpu == "H100"
        assert found.settings["conventional_usd_per_gpu_h"] == 3.0


def test_the_only_gpu_of_a_table_needs_no_choice():
    alone = with_prices(
        *({"serverless_usd_per_gpu_h": 3.0}, book([HOLES[0], HOLES[2]])),
        *(None, POLICIES["serverless-only"].settings),
    )
    assert (alone.gpu, alone.settings) == ("H100", {"serverless_usd_per_gpu_h": 3.0})


def test_the_built_in_list_has_the_defaults_and_other_gpus():
    assert parameters_from(with_prices({}, None, None).settings) == Allpass()
    h100 = parameters_from(with_prices({"gpu": "h100"}, None, None).settings)
    assert (h100.serverless_price, h100.conventional_price) == (3.96, 2.49)
    assert h100.marketplace_prices == price_ladder(50, 1.53, 2.05, 2.62)
    other = with_prices({"provider": "data", "serverless_provider": "runpod"}, None, None).settings
    assert other["marketplace_median_usd_per_gpu_h"] == 0.71
    assert other["serverless_usd_per_gpu_h"] == 1.39
    with pytest.raises(UsageError, match="built-in prices do not have"):
        with_prices({"gpu": "K80"}, None, None)
