"""Prices and offers over time in a replay: from tables and the built-in list to the bill."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_prices import HEADER, ORIGIN, book
from support_traces import lab_trace, write_trace

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.prices.ladder import ladder_of
from gpuplan.analysis.user_tables.checkpoints import read_checkpoints
from gpuplan.planner.money.price_settings import with_prices
from gpuplan.planner.money.renting_settings import LADDER
from gpuplan.planner.policies.allpass_settings import SETTINGS, parameters_from
from gpuplan.planner.registry import POLICIES
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.renting.market import price_ladder
from gpuplan.simkit.workload import Workload

START = int(ORIGIN.timestamp() * 1e6)
VAST = {"gpu": "A100", "provider": "vast.ai", "kind": "marketplace"}


def vast(hour, price, available=None, region=None):
    return (hour, "vast.ai", "A100", region, "marketplace", price, available)


def steps(ladder):
    """Return (hour, prices) of each step, and when the last ends."""
    hours = ((ladder.edges_us - START) / HOUR_US).tolist()
    prices = np.split(ladder.price, np.cumsum(ladder.offers)[:-1])
    return [(h, p.tolist()) for h, p in zip(hours, prices, strict=False)], hours[-1]


def test_offers_are_what_is_available_at_each_price():
    rows = [vast(0, 1.0, 2), vast(0, 3.0, 1), vast(1, 2.0, 1), vast(2, 2.0, 0), vast(2, 9.0, 2)]
    found = ladder_of(book(rows), **VAST, assumed=50)
    assert found.counted
    assert steps(found) == ([(0, [1.0, 1.0, 3.0]), (1, [2.0]), (2, [9.0, 9.0])], 3)
    assert steps(ladder_of(book(rows), **VAST, assumed=50, most=2))[0][0] == (0, [1.0, 1.0])


def test_regions_add_up_and_one_can_be_chosen():
    rows = [vast(0, 1.0, 1, "a"), vast(0, 0.5, 2, "b"), vast(1, 1.5, 1, "a"), vast(1, 0.5, 2, "b")]
    assert steps(ladder_of(book(rows), **VAST, assumed=9))[0] == [
        (0, [0.5, 0.5, 1.0]),
        (1, [0.5, 0.5, 1.5]),
    ]
    assert steps(ladder_of(book(rows), **VAST, region="a", assumed=9))[0] == [
        (0, [1.0]),
        (1, [1.5]),
    ]
    with pytest.raises(ValueError, match="no prices or availability of A100"):
        ladder_of(book(rows), **VAST, region="c", assumed=9)


def test_where_nothing_is_counted_offers_are_spread_over_the_prices():
    # Four offers at the quantiles 1/8, 3/8, 5/8, 7/8 of 1 and 3.
    found = ladder_of(book([vast(0, 1.0), vast(0, 3.0)]), **VAST, assumed=4)
    assert not found.counted
    assert steps(found)[0] == [(0, [1.0, 1.0, 3.0, 3.0])]


def test_what_was_last_known_holds_on_where_nothing_is():
    # Snapshots every hour; between 3 + 3 h and 20 nothing is known. Availability comes without a
    # price at 21, and a price of none that are available says nothing of those that are.
    rows = [*(vast(h, 1.0, 1) for h in range(4)), *(vast(h, 2.0, 2) for h in (20, 21))]
    found, end = steps(
        ladder_of(book([*rows, vast(22, None, 4), vast(23, 7.0, 0)]), **VAST, assumed=9)
    )
    assert end == 24
    at = dict(found)
    assert at[3] == [1.0]
    assert at[max(h for h in at if h < 20)] == [1.0]
    assert at[20] == [2.0, 2.0]
    assert at[22] == [2.0] * 4
    assert at[23] == []


def test_availability_alone_has_no_prices():
    found = ladder_of(book([vast(0, None, 2), vast(1, None, 0)]), **VAST, assumed=9)
    assert found.price is None
    assert found.offers.tolist() == [2, 0]
    rows = book([vast(0, None, 2), vast(1, None, 0)])
    made = with_prices({"marketplace_min_usd_per_gpu_h": 0.5}, rows, None)
    assert made.settings["market"].price.tolist() == list(price_ladder(2, 0.5, 1.08, 1.66))
    assert any("availability alone" in note for note in made.notes)
    few = with_prices({"marketplace_offers": 50, "capacity": 2}, rows, None).settings["market"]
    assert few.price.tolist() == 2 * list(price_ladder(50, 0.38, 1.08, 1.66)[:2])
    fixed = with_prices({"marketplace_offers": 3}, rows, None).settings["market"]
    assert fixed.price.tolist() == 2 * list(price_ladder(3, 0.38, 1.08, 1.66))


DAY = [vast(h, 1.0 + h, 1 + h) for h in range(4)]  # 4 hours: n offers at n dollars


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 4 * 3600 - 1), st.integers(0, 12 * 3600))
def test_a_market_of_the_calendar_is_the_table_read_round(first_s, later_s):
    found = with_prices({}, book(DAY), START + first_s * 1_000_000)
    market = found.settings["market"]
    assert market.period_us == 4 * HOUR_US
    at = later_s * 1_000_000 % market.period_us
    step = np.searchsorted(market.start_us, at, side="right") - 1
    hour = (first_s + later_s) // 3600 % 4
    assert market.offers[step] == 1 + hour
    assert (np.split(market.price, market.first[1:-1])[step] == 1.0 + hour).all()


def test_prices_of_another_time_begin_with_the_trace():
    for first_us in (None, START - 1, START + 4 * HOUR_US):
        found = with_prices({}, book(DAY), first_us)
        assert found.settings["market"].offers.tolist() == [1, 2, 3, 4]
        assert "begin with it, and repeat" in found.notes[-1]


def test_prices_fill_in_what_is_not_set():
    rows = [
        *DAY,
        *[(h, "modal", "A100", None, "serverless", 2.0 + h) for h in range(2)],
        *[(h, "runpod", "A100", None, "serverless", 1.0) for h in range(2)],
        (0, "aws", "A100", None, "on_demand", 4.0),
        (0, "aws", "A100", None, "spot", 0.1),
    ]
    found = with_prices({}, book(rows), START).settings
    assert found["serverless_usd_per_gpu_h"] == pytest.approx(2.5)  # its start-up time is known
    assert found["conventional_usd_per_gpu_h"] == 4.0
    assert found["market"].offers.tolist() == [1, 2, 3, 4]
    chosen = {"provider": "AWS", "serverless_provider": "run", "conventional_usd_per_gpu_h": 9.0}
    other = with_prices(chosen, book(rows), START).settings
    assert other["serverless_usd_per_gpu_h"] == 1.0
    assert other["conventional_usd_per_gpu_h"] == 9.0
    assert set(other["market"].price) == {0.1}
    assert other["market"].offers.tolist() == [50]  # assumed
    assert not set(chosen) - {"conventional_usd_per_gpu_h"} & set(other)
    assert parameters_from(other).offers.median_usd == 0.1


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ({"provider": "lambda"}, "expected one of vast.ai"),
        ({"gpu": "H100"}, r"have no H100, only A100\n  next: set gpu=A100, or use a price"),
        ({"region": "mars"}, "--set region: .* in mars; it names no region"),
        ({"serverless_provider": "modal"}, "have no serverless one"),
    ],
)
def test_a_choice_that_the_prices_lack_is_refused(chosen, problem):
    with pytest.raises(UsageError, match=problem):
        with_prices(chosen, book(DAY), None)
    two = book([*DAY, (0, "vast.ai", "H100", None, "marketplace", 2.0)])
    with pytest.raises(UsageError, match="one of A100, H100"):
        with_prices({}, two, None)


RICH = [  # of two GPUs, two regions, and two providers of each kind
    (0, provider, gpu, region, kind, usd * (1 if gpu == "A100" else 2), available)
    for provider, region, kind, usd, available in (
        ("vast.ai", "eu", "marketplace", 0.5, 2),
        ("vast.ai", "us", "marketplace", 0.7, 3),
        ("zebra", None, "marketplace", 0.9, 4),
        ("modal", None, "serverless", 2.5, None),
        ("runpod", None, "serverless", 1.5, None),
        ("lambda", None, "on_demand", 1.4, None),
        ("aws", None, "on_demand", 4.0, None),
    )
    for gpu in ("A100", "H100")
]
SAID = {  # what prices say, or choose among them -> another value, and what a run then has
    "serverless_usd_per_gpu_h": (0.25, {"serverless_usd_per_gpu_h": 0.25}),
    "conventional_usd_per_gpu_h": (0.25, {"conventional_usd_per_gpu_h": 0.25}),
    "usd_per_gpu_h": (0.25, {"usd_per_gpu_h": 0.25}),
    "serverless_provider": ("runpod", {"serverless_usd_per_gpu_h": 1.5}),
    "conventional_provider": ("aws", {"conventional_usd_per_gpu_h": 4.0}),
    "provider": ("zebra", {"market": ([4], [0.9] * 4)}),
    "region": ("us", {"market": ([3], [0.7] * 3)}),
    "marketplace_offers": (3, {"market": ([3], [0.5, 0.7, 0.7])}),  # of five: 2 at 0.5, 3 at 0.7
    "gpu": (
        "H100",
        {
            "serverless_usd_per_gpu_h": 5.0,
            "conventional_usd_per_gpu_h": 2.8,
            "market": ([5], [1.0, 1.0, 1.4, 1.4, 1.4]),
        },
    ),
}
ASKED = {f"marketplace_{part}_usd_per_gpu_h" for part in ("min", "median", "max")}


def paid(policy, chosen, rows):
    """Return all that a policy is run with beside the prices of a book."""
    known = POLICIES[policy].settings
    priced = with_prices({"gpu": "A100", **chosen}, book(rows), None, known).settings
    offers = parameters_from({k: v for k, v in priced.items() if k in {*SETTINGS, "market"}}).offers
    found = POLICIES[policy].defaults() | priced
    market = (offers.offers.tolist(), offers.price.tolist())
    return {k: v for k, v in found.items() if k not in LADDER} | {"market": market}


@pytest.mark.parametrize("name", [*SAID, *sorted(ASKED)])
@pytest.mark.parametrize("policy", ["allpass", "serverful-only", "hpa", "serverless-only", "fifo"])
def test_what_prices_say_too_counts_where_it_is_set_or_is_refused(policy, name):
    known = POLICIES[policy].settings
    if name not in known:
        return
    if name in ASKED:
        with pytest.raises(UsageError, match=f"^--set {name}: .* what offers of vast.ai"):
            paid(policy, {name: 0.25}, RICH)
        return
    value, expected = SAID[name]
    usual, found = paid(policy, {}, RICH), paid(policy, {name: value}, RICH)
    rents = {*known, *(["market"] if "provider" in known else [])}
    pays = {key: its for key, its in expected.items() if key in rents}
    assert pays and {key: found[key] for key in pays} == pays
    assert all(usual[key] != its for key, its in pays.items())


@pytest.mark.parametrize("policy", ["allpass", "hpa", "serverless-only", "fifo"])
def test_prices_say_something_of_no_other_setting(policy):
    priced = with_prices({"gpu": "A100"}, book(RICH), None, POLICIES[policy].settings).settings
    assert priced.keys() - {"market"} <= SAID.keys()


def test_offers_that_are_set_are_so_many_all_along():
    found = with_prices({"marketplace_offers": 2}, book(DAY), START)
    assert found.settings["market"].offers.tolist() == [2, 2, 2, 2]
    assert found.settings["market"].price.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert "offers: 2 all along, as set" in found.notes
    assert not any("do not say" in note for note in found.notes)


@pytest.mark.parametrize("rows", [RICH, None, RICH[-8:]])  # with a marketplace, built in, without
@pytest.mark.parametrize("policy", ["allpass", "hpa", "fifo"])
def test_no_offers_are_no_marketplace(policy, rows):
    known = POLICIES[policy].settings
    chosen = {"marketplace_offers": 0, "gpu": "A100", "provider": "vast"}
    found = with_prices(chosen, rows and book(rows), None, known)
    assert found.settings["marketplace_offers"] == 0
    assert "market" not in found.settings
    assert found.settings["conventional_usd_per_gpu_h"] == (1.4 if rows else 1.29)
    assert found.notes[-1] == (
        "marketplace: none, as set (marketplace_offers=0), so provider has no effect"
    )


def test_prices_too_high_for_a_replay_are_refused():
    for row, problem in (
        ((0, "modal", "A100", None, "serverless", 501.0), "serverless_usd_per_gpu_h=N"),
        ((0, "vast.ai", "A100", None, "marketplace", 9999.0, 1), r"asks \$9,999 .*at most \$500"),
    ):
        with pytest.raises(UsageError, match=rf"(?s)^--prices prices.parquet: .*{problem}"):
            with_prices({}, book([*DAY, row]), None)


def test_too_many_offers_are_refused_before_they_are_listed():
    with pytest.raises(UsageError, match=r"1,000,000,000,001 offers over time .*\n.*capacity=N"):
        with_prices({}, book([vast(0, 1.0, 10**12), vast(1, 1.0, 1)]), None)


def test_a_region_or_gpu_that_prices_lack_is_told_beside_those_they_have():
    with pytest.raises(UsageError, match=r"have no L4, only A100, H100\n  next: set gpu to one of"):
        with_prices({"gpu": "L4"}, book(RICH), None)
    with pytest.raises(UsageError, match=r"--set region: .* in mars; expected one of eu, us"):
        with_prices({"gpu": "A100", "region": "mars"}, book(RICH), None)
    only = [*DAY, (0, "aws", "H100", None, "on_demand", 4.0)]
    with pytest.raises(UsageError, match=r"only of A100; it has on-demand .*\n.*or --set market"):
        with_prices({"gpu": "H100"}, book(only), None)


def test_checkpoints_by_class(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("job_class,checkpoint_s,restore_s\nbert,10,20\n*,1,2\n")
    assert read_checkpoints(path) == {"bert": (10, 20), "*": (1, 2)}
    path.write_text("job_class,state_gb,gb_per_s\nbert,80,2\n")
    assert read_checkpoints(path) == {"bert": (40, 40)}
    for text, problem in (
        ("job_class,restore_s\na,1\n", "expected job_class and checkpoint_s and restore_s"),
        ("job_class,checkpoint_s,restore_s\na,1,-2\n", "seconds, at least 0"),
        ("job_class,checkpoint_s,restore_s\na,1,2\na,1,2\n", "one row per class"),
        ("job_class,state_gb,gb_per_s\na,1,0\n", "above 0"),
        (
            "job_class,checkpoint_s,restore_s,state_gb,gb_per_s\na,1,2,3,4\n",
            "found the columns checkpoint_s, restore_s, state_gb, gb_per_s; expected checkpoint_s"
            " and restore_s, or state_gb and gb_per_s\n  next: give one of the two",
        ),
        ("job_class,checkpoint_s,restore_s,state_gb\na,1,2,3\n", "give one of the two"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=problem):
            read_checkpoints(path)


def test_a_table_of_checkpoints_that_is_no_text_does_not_spill(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0], [600.0])
    with pytest.raises(InputError, match=r"t.parquet: is not text; expected a CSV table\n  next: "):
        read_checkpoints(path)
    path = tmp_path / "c.csv"
    path.write_text("job_class," + "x" * 500 + "\na,1\n")
    with pytest.raises(InputError) as error:
        read_checkpoints(path)
    assert "characters) ...xxxxxxxxxx; expected" in str(error.value)
    path.write_text(",".join(f"c{i}" for i in range(99)) + "\n1\n")
    with pytest.raises(InputError, match=r"found c0, .*, c11 and 87 more; expected"):
        read_checkpoints(path)


@pytest.fixture
def replayed(tmp_path, gpuplan):
    """Replay the trace of one job worked by hand in test_allpass_planner, with more options."""
    trace = write_trace(tmp_path / "t.parquet", [0], [600.0], job_class=["bert"])
    exact = {f"{p}_startup_sd_s": 0 for p in ("serverless", "marketplace", "conventional")}
    exact |= {"controller": "fixed", "threshold_s": 60}
    exact |= {"serverless_startup_s": 0, "marketplace_startup_s": 36}
    sets = [word for name, value in exact.items() for word in ("--set", f"{name}={value}")]

    def run(*more):
        out = tmp_path / "r.json"
        plain = (
            "simulate",
            trace,
            "--deadline-factor",
            "1",
            "--window",
            "run",
            "--full",
            "-o",
            out,
            *sets,
        )
        code, _, err = gpuplan(*plain, *more)
        assert code == 0, err
        return json.loads(out.read_text()), err

    return run


def test_the_command_follows_prices_and_checkpoints(replayed, tmp_path, gpuplan):
    # The rental of 618 s from 120 on costs 1 dollar per hour to minute 5 and then 7.
    source, prices = tmp_path / "p.csv", tmp_path / "p.parquet"
    lines = [
        f"2025-01-01T00:{m:02}:00Z,vast.ai,A100-80GB,,marketplace,{p},2"
        for m, p in ((0, 1), (5, 7))
    ]
    source.write_text("\n".join([HEADER, *lines]) + "\n")
    assert gpuplan("prices", source, "-o", prices)[0] == 0
    where = ("--prices", prices, "--set", "provider=vast", "--set", "gpu=A100-80GB")
    found, err = replayed(*where)
    assert found["results"]["cost_marketplace_usd"] == pytest.approx(618 / 3600)
    assert "begin with it, and repeat" in err
    assert found["parameters"]["price_choice"] == {"provider": "vast", "gpu": "A100-80GB"}
    assert found["parameters"]["settings"]["market"]["most_offers"] == 2
    assert [one["path"] for one in found["inputs"]][1:] == [str(prices)]
    in_force, _ = replayed(*where, "--set", "pricing=in-force")
    late = found["results"]["makespan_s"]
    period_s = in_force["parameters"]["settings"]["market"]["days"] * 86_400
    assert period_s >= 600
    bill = sum(1 if t % period_s < 300 else 7 for t in range(120, int(late))) / 3600
    assert in_force["results"]["cost_marketplace_usd"] == pytest.approx(bill)

    table, line = tmp_path / "c.csv", tmp_path / "line.parquet"
    table.write_text("job_class,checkpoint_s,restore_s\n*,2,3\n")
    quick, _ = replayed("--checkpoints", table, "--timeline", line)
    assert quick["results"]["mean_demotion_s"] == 5
    rows = pl.read_parquet(line)
    assert rows.columns[:4] == ["time_s", "threshold_s", "pressure", "queued"]
    assert (rows["marketplace"] + rows["conventional"] == rows["ready"] + rows["starting"]).all()
    assert rows["paid_usd_per_h"].max() == pytest.approx(price_ladder(50, 0.38, 1.08, 1.66)[0])


def test_options_that_a_policy_has_no_use_for_are_refused(tmp_path, gpuplan):
    trace = lab_trace(tmp_path / "t.parquet", jobs=5)
    table = tmp_path / "c.csv"
    table.write_text("job_class,checkpoint_s,restore_s\nnone-such,2,3\n")
    for options, problem in (
        (("--policy", "hpa", "--checkpoints", table), "--checkpoints: none of hpa moves"),
        (("--policy", "fifo", "--checkpoints", table), "--set preemptive=true"),
        (("--policy", "fifo", "--set", "gpu=H100"), "--set gpu=H100: needs --prices"),
        (("--timeline", tmp_path / "x.csv"), "ends in .parquet"),
        (("--set", "provider=vast"), "--set provider=vast: needs"),
        (("--prices", tmp_path / "none.parquet"), "none.parquet"),
        (("--checkpoints", table), "which --checkpoints has no row for"),
    ):
        code, _, err = gpuplan("simulate", trace, *options)
        assert code in (2, 3, 4), err
        assert problem in err.replace("\n", " ")


def test_the_picture_has_every_time_line():
    from gpuplan.cli.figures.time_lines import draw_time_lines
    from gpuplan.planner.policies.allpass import time_lines

    workload = Workload.from_seconds([0], [7200], [2], [600])
    run = run_allpass(workload, Allpass(marketplace_prices=(0.5,)), np.random.default_rng(0))
    threshold, pressure, gpus, queue, price = draw_time_lines(time_lines(run), "allpass").axes
    providers = [line.get_label() for line in gpus.lines]
    assert providers == ["serverless", "marketplace", "conventional"]
    assert [max(line.get_ydata()) for line in gpus.lines] == [2, 1, 1]
    assert np.nanmax(price.lines[0].get_ydata()) == pytest.approx((0.5 + 1.29) / 2)
    assert max(pressure.lines[0].get_ydata()) == 100
    assert max(queue.lines[0].get_ydata()) <= 1
    assert threshold.lines[0].get_ydata()[0] > 0
