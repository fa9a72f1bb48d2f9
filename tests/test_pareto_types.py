"""Several GPU types and their prices in gpuplan pareto."""

import json

import pytest
from support_pareto import FREE, results

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.prices.catalogue import CATALOGUE
from gpuplan.analysis.prices.offers import listed_offers
from gpuplan.planner.money.listed_price import median_price
from gpuplan.planner.money.price_request import Price

SIA = ("--gpu", "T4", "--gpu", "RTX2080Ti", "--gpu", "A100")
USD = ("--price", "T4=0.5", "--price", "RTX2080Ti=0.4", "--price", "A100=2.5")


def test_a_mix_in_dollars_as_worked_by_hand(gpuplan, hours):
    # Work of 2 GPU-h an hour on a T4 at $1; an A100 does it twice as fast at $1.5: $1.5/h is least.
    asked = (hours, *FREE, "--speedup", "power:0.5", "--gpu", "T4", "--gpu", "A100=2")
    asked += ("--price", "T4=1", "--price", "A100=1.5", "--max-width", "1")
    found = results(gpuplan, *asked, "--budget", "$1.5/h,$1461/month")
    assert found["min_budget_usd_per_h"] == pytest.approx(1.5)
    assert found["load_gpus"] == pytest.approx(2)
    (least, more) = found["points"]
    assert least["used_gpus"] == {"T4": 0, "A100": pytest.approx(1)}
    assert least["mean_jct_s"] == pytest.approx(1800)
    assert more["budget_usd_per_h"] == pytest.approx(2)
    assert more["used_usd_per_month"] == pytest.approx(1.5 * 730.5)  # no more is of use
    replay = least["replay"]
    assert set(replay["types"]) == {"A100"}
    assert replay["rented_usd_per_h"] == pytest.approx(1.5 * replay["types"]["A100"]["rented_gpus"])
    assert replay["planned_mean_jct_s"] == pytest.approx(1800)
    hourly = results(gpuplan, *asked, "--budget", "$1.5/h", "--billing", "1h")["points"][0][
        "replay"
    ]
    billed = hourly["types"]["A100"]["billed_gpus"]
    assert billed > 1.1 * hourly["types"]["A100"]["rented_gpus"]
    assert hourly["billed_usd_per_h"] == pytest.approx(1.5 * billed)
    assert found["prices"]["A100"]["usd_per_gpu_h"] == 1.5


def test_a_measured_mix_is_no_worse_than_any_type_alone(gpuplan, newtrace):
    asked = (newtrace, "--speedup", "profile:sia", "--horizon", "48h")
    mix = results(gpuplan, *asked, *SIA, *USD, "--budget", "$120/h")
    (point,) = mix["points"]
    assert set(point["used_gpus"]) == {"T4", "RTX2080Ti", "A100"}
    assert sum(point["used_gpus"].values()) > 0
    prices = {"T4": 0.5, "RTX2080Ti": 0.4, "A100": 2.5}
    spent = sum(prices[name] * gpus for name, gpus in point["used_gpus"].items())
    assert spent == pytest.approx(point["used_usd_per_h"])
    for name, usd in prices.items():
        alone = results(
            gpuplan, *asked, "--gpu", name, "--price", f"{name}={usd}", "--budget", "$120/h"
        )
        # Each type alone takes the same jobs as recorded on it, and sizes come from the profile.
        assert alone["points"][0]["mean_jct_s"] >= point["mean_jct_s"]
        assert alone["price_usd_per_gpu_h"] == usd


def test_tables_and_picture_of_a_mix(gpuplan, newtrace, tmp_path):
    picture, rows = tmp_path / "mix.svg", tmp_path / "mix.parquet"
    asked = ("pareto", "--full", newtrace, "--speedup", "profile:sia", *SIA, *USD)
    code, out, err = gpuplan(*asked, "--budget", "$40/h,$80/h", "--plot", picture, "-o", rows)
    assert code == 0, err
    text = " ".join(out.split())
    assert "You need at least $" in text and "more money buys nothing" in text
    assert "In replay, $40.00/h" in text
    assert "$0.40 per RTX2080Ti-hour (--price)" in text
    assert "Replayed at recorded arrivals" in text
    assert max(map(len, out.splitlines())) <= 100
    assert "dollars an hour on average" in picture.read_text()
    code, out, _ = gpuplan(*asked, "--target-jct", "20m", "--no-replay", "--weight", "bert=2")
    assert code == 0 and "JCT 20 min" in out and " weighted " in out
    code, out, _ = gpuplan(*asked, "--output-format", "csv", "--no-replay")
    assert code == 0 and len(out.splitlines()) == 9
    assert out.startswith("budget_usd_per_h,budget_usd_per_month,mean_jct_s,used_gpus_T4")


T4_LIKE = ("--speedup", "profile:t4", "--gpu", "T4", "--gpu", "A100=2.5")
T4_LIKE += ("--price", "T4=0.5", "--price", "A100=1.3")


def test_speeds_that_were_not_measured_are_told(gpuplan, newtrace):
    code, _, err = gpuplan(
        "pareto", "--full", newtrace, *T4_LIKE, "--budget", "$100/h", "--no-replay"
    )
    text = " ".join(err.split())
    assert code == 0 and "every job is assumed to be 2.5 times as fast on A100 as on T4" in text
    measured = gpuplan(
        "pareto", "--full", newtrace, "--speedup", "profile:sia", *SIA, *USD, "--no-replay"
    )
    assert "every job is taken" not in " ".join(measured[2].split())


def test_limits_nodes_and_peaks_of_a_mix(gpuplan, newtrace, tmp_path):
    asked = (newtrace, *T4_LIKE, "--budget", "$75/h,$90/h", "--cluster", "x8")
    found = results(gpuplan, *asked, "--max-gpus", "100")
    free = results(gpuplan, *asked)
    for point, unlimited in zip(found["points"], free["points"], strict=True):
        replay, prices = point["replay"], {"T4": 0.5, "A100": 1.3}
        types = replay["types"]
        assert sum(prices[t] * one["node_rounding_gpus"] for t, one in types.items()) == (
            pytest.approx(replay["node_rounding_usd_per_h"])
        )
        assert replay["node_rounding_usd_per_h"] > 0
        assert replay["spent_over_budget"] == pytest.approx(
            replay["billed_usd_per_h"] / point["budget_usd_per_h"]
        )
        for one in types.values():
            assert 0 <= one["above_max_gpus_share_law"] <= 1
            assert 0 <= one["above_max_gpus_share_replayed"] <= 1
            assert one["peak_gpus"] <= 100
        for one in unlimited["replay"]["types"].values():
            assert one["above_max_gpus_share_law"] is None
    picture = tmp_path / "mix.svg"
    code, out, err = gpuplan("pareto", "--full", *asked, "--max-gpus", "100", "--plot", picture)
    assert code == 0, err
    text, said = " ".join(out.split()), " ".join(err.split())
    assert "The replays by GPU type" in text and "time above 100" in text
    assert "whole nodes" in text and "Over time (the budget, $75.00/h)" in text
    assert "a budget is an average over time" in said
    assert "$/h rented in the replay (the budget, $75.00/h on average)" in picture.read_text()


def test_the_time_line_of_a_mix_keeps_dollars_and_gpus(gpuplan, newtrace):
    found = results(gpuplan, newtrace, *T4_LIKE, "--budget", "$90/h")
    (point,), line = found["points"], found["timeline"]
    width_h = line[1]["time_h"] - line[0]["time_h"]
    hours = found["horizon_h"]
    usd = sum(row["mean_usd_per_h"] for row in line) * width_h / hours
    assert usd == pytest.approx(point["replay"]["rented_usd_per_h"])
    assert max(row["peak_usd_per_h"] for row in line) == point["replay"]["peak_usd_per_h"]
    for name, one in point["replay"]["types"].items():
        held = sum(row["mean_gpus"][name] for row in line) * width_h / hours
        assert held == pytest.approx(one["rented_gpus"])
        assert max(row["peak_gpus"][name] for row in line) == one["peak_gpus"]


def test_a_bill_above_the_budget_is_told_with_one_that_keeps_it(gpuplan, newtrace):
    asked = ("pareto", "--full", newtrace, *T4_LIKE, "--cluster", "x8", "--billing", "1h")
    code, _, err = gpuplan(*asked, "--budget", "$90/h")
    assert code == 0
    said = " ".join(err.split())
    assert "the last jobs): billed $" in said and "for $90.00/h (+" in said
    instead = said.partition("--budget '")[2].partition("'")[0]
    assert instead.startswith("$")
    found = results(gpuplan, *asked[1:], "--budget", instead)
    assert found["points"][0]["replay"]["billed_usd_per_h"] <= 90


def test_the_built_in_price_of_a_gpu_is_named(gpuplan, hours):
    asked = ("--speedup", "power:0.5", "--prices", "builtin", "--gpu", "A100")
    found = results(gpuplan, hours, *FREE, *asked, "--provider", "aws", "--budget", "$5000/month")
    listed = next(
        one.typical
        for one in CATALOGUE
        if (one.provider, one.gpu_type, one.kind) == ("aws", "A100", "on_demand")
    )
    assert found["price_usd_per_gpu_h"] == listed == 2.74
    assert found["price"]["offers"] == ["aws:on_demand"]
    assert found["price"]["as_of"] == "2025-10-25T00:00:00+00:00"
    assert found["points"][0]["budget_gpus"] == pytest.approx(5000 / 730.5 / 2.74)
    _, out, _ = gpuplan("pareto", "--full", hours, *FREE, *asked)
    text = " ".join(out.split())
    # On demand: lambda 1.29, aws 2.74, gcp 3.67, azure 3.67.
    assert "at $3.205 per A100-hour (median of aws:on_demand, azure:on_demand, gcp:" in text
    assert "as of 2025-10-25" in text


def test_the_median_price():
    offers = listed_offers()
    assert median_price(offers, "NVIDIA A100", "lambda").usd_per_gpu_h == 1.29
    assert median_price(offers, "T4", "gcp:spot").usd_per_gpu_h == 0.14
    assert median_price(offers, "T4", "vast.ai:marketplace").offers == ("vast.ai:marketplace",)
    assert median_price(offers, "T4", "vast.ai").offers == ("vast.ai:marketplace",)  # its only kind
    with pytest.raises(UsageError, match=r"no spot price of T4 at vast.ai\n.*aws:on_demand"):
        median_price(offers, "T4", "vast.ai:spot")
    with pytest.raises(UsageError, match="a kind is one of on_demand, spot"):
        median_price(offers, "T4", "aws:cheap")
    with pytest.raises(UsageError, match="no price of TPU, only of"):
        median_price(offers, "TPU")
    assert Price(2.0).text == "$2 per GPU-hour (--price)"
    with pytest.raises(UsageError, match="--price -1: must be from 0"):
        Price(-1.0)


def test_a_price_table_is_an_input(gpuplan, hours, tmp_path):
    listing = tmp_path / "vast.csv"
    listing.write_text(
        "timestamp,provider,gpu_type,kind,price_usd_per_gpu_hour\n"
        "2026-01-01T00:00:00Z,acme,A100,on_demand,2.0\n"
        "2026-01-01T00:00:00Z,bolt,A100,on_demand,3.0\n"
    )
    table = tmp_path / "prices.parquet"
    assert gpuplan("prices", listing, "-o", table)[0] == 0
    asked = (
        "pareto",
        "--full",
        hours,
        *FREE,
        "--speedup",
        "power:0.5",
        "--prices",
        table,
        "--gpu",
        "A100",
    )
    code, out, err = gpuplan(*asked, "--output-format", "json")
    assert code == 0, err
    document = json.loads(out)
    assert document["results"]["price_usd_per_gpu_h"] == 2.5
    assert [source["path"] for source in document["inputs"]] == [str(hours), str(table)]
    assert document["parameters"]["prices"] == str(table)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpu", "T4=2"], "a speed is over that of another --gpu"),
        (["--gpu", "T4", "--gpu", "A100"], "say how fast each is"),
        (["--gpu", "T4", "--gpu", "A100=2", "--price", "T4=1"], "next: --price A100=USD"),
        (["--gpu", "T4", "--gpu", "A100=2", "--price", "1"], "need a price each"),
        (["--gpu", "T4", "--gpu", "T4"], "given twice"),
        (["--price", "T4=1"], "or --gpu NAME with their type"),
        (["--price", "dear"], "expected dollars per GPU-hour"),
        (["--prices", "builtin"], "do not name their GPU"),
        (["--provider", "aws"], "needs --prices"),
        (["--recorded-on", "T4"], "expected one of several --gpu TYPE"),
        (["--gpu", "T4", "--gpu", "A100=2", "--price", "T4=1", "--price", "A100=2", "--budget",
          "60"], "have budgets in dollars"),
        (["--speedup", "profile:sia", "--gpu", "T4", "--gpu", "A100=2"], "types are measured"),
        (["--speedup", "profile:sia", "--gpu", "H100"], "has no GPU 'H100'"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(gpuplan, hours, arguments, said):
    code, _, err = gpuplan("pareto", "--full", hours, *FREE, *arguments)
    assert (code, said in err) == (2, True), err


def test_a_measured_curve_does_not_change_with_the_name_of_a_gpu(gpuplan, newtrace):
    asked = (
        "pareto",
        "--full",
        newtrace,
        "--speedup",
        "profile:t4",
        "--gpu",
        "A100",
        "--price",
        "2",
    )
    code, _, err = gpuplan(*asked)
    assert code == 0 and "--gpu A100 only names the price" in err
    assert "--gpu" not in gpuplan(*asked[:4])[2]


def test_too_small_a_budget_for_a_mix(gpuplan, hours):
    asked = (hours, *FREE, "--speedup", "power:0.5", "--gpu", "T4", "--gpu", "A100=2")
    asked += ("--price", "T4=1", "--price", "A100=1.5")
    code, _, err = gpuplan("pareto", "--full", *asked, "--budget", "$100/month")
    assert code == 4
    assert "$100.00/month: " in err and "next: raise --budget to at least '$1095.75/month'" in err
    code, _, err = gpuplan("pareto", "--full", *asked, "--budget", "$1095.75/month")
    assert code == 0, err
