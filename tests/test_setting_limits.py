"""No price, time or number that can be set is so large that a replay overflows or dies of it."""

import pytest
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.requests.settings import parse_settings, show_setting
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.allpass.scalers import next_threshold
from gpuplan.simkit.allpass.simulator import _rules
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.limits import MOST_GPUS
from gpuplan.simkit.renting.market import MOST_OFFERS, price_ladder
from gpuplan.simkit.time import CENTURY_S

EVERY = {name: one for policy in POLICIES.values() for name, one in policy.settings.items()}
TOO_MUCH = {"duration": "1e15", "durations": "60/1e15", "usd": "1e308", "count": "100000000000"}


@pytest.mark.parametrize("name", [name for name, one in EVERY.items() if one.kind in TOO_MUCH])
def test_too_much_is_refused_by_name_and_told_how_much_may_be(name):
    kind, most = EVERY[name].kind, EVERY[name].most
    with pytest.raises(
        UsageError, match=rf"^--set {name}.* (expected|must be) .*at most [0-9]"
    ) as error:
        parse_settings([f"{name}={TOO_MUCH[kind]}"], EVERY)
    limit = str(error.value).rpartition("at most ")[2].partition(" and ")[0]
    limit = limit.partition(", got")[0].replace(",", "")
    (read,) = parse_settings([f"{name}={limit}"], EVERY).values()
    assert (read[0] if kind == "durations" else read) == pytest.approx(most)


def test_without_limit_is_too_long_where_a_duration_must_end():
    with pytest.raises(UsageError, match=r"^--set gain_up_s 'inf': .* at most 36525d$"):
        parse_settings(["gain_up_s=inf"], EVERY)
    assert parse_settings(["save_every_s=inf"], EVERY) == {"save_every_s": float("inf")}


def test_a_price_below_0_is_refused_by_name():
    for name in ("serverless_usd_per_gpu_h", "usd_per_gpu_h"):
        with pytest.raises(
            UsageError, match=rf"^--set {name}=\$-1: {name} must be at least 0 .*got -1"
        ):
            parse_settings([f"{name}=$-1"], EVERY)


def test_what_is_shown_of_a_long_duration_can_be_read_again():
    for seconds in (84.0, 0.5, 1e6, 2.5e7):
        text = f"checkpoint_s={show_setting(seconds)}"
        assert parse_settings([text], EVERY) == {"checkpoint_s": seconds}


def test_the_longest_steps_of_the_threshold_do_not_overflow():
    steps = {"gain_up_s": CENTURY_S, "limit_up_s": CENTURY_S, "max_threshold_s": CENTURY_S}
    rules = _rules(Allpass(**steps))
    assert next_threshold(rules.max_threshold_us, 100.0, rules) == rules.max_threshold_us


def test_gpus_and_offers_are_limited_before_anything_is_made_of_them():
    with pytest.raises(ValueError, match="gpus must be 1 to 16,777,216"):
        Cluster(gpus=MOST_GPUS + 1)
    with pytest.raises(ValueError, match="offers must be at most 1,000,000"):
        price_ladder(10**12, 0.0, 1.0, 2.0)
    assert len(price_ladder(MOST_OFFERS, 0.0, 1.0, 2.0)) == MOST_OFFERS


def test_the_commands_name_the_option(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0.0, 60.0], [600.0, 60.0], [2.0, 1.0])
    for command, option in (
        (("simulate", "--policy", "fifo", "--gpus", 10**11), "--gpus"),
        (("compare", "--gpus", 10**11), "--gpus"),
        (("simulate", "--policy", "fifo", "--set", "gpus=100000000000"), "--set gpus"),
        (("simulate", "--set", "marketplace_offers=999999999"), "--set marketplace_offers"),
        (("simulate", "--set", "serverless_usd_per_gpu_h=1e308"), "serverless_usd_per_gpu_h"),
        (("sweep", "--value-of-time", "1e308"), "--value-of-time"),
        (("sweep", "--price-ratio", "0.5,1e308"), "--price-ratio"),
        (("sweep", "--capacity", "10,100000000000"), "--capacity"),
        (("sweep", "--threshold", "1e15"), "--threshold"),
    ):
        code, out, err = gpuplan(command[0], trace, *command[1:])
        assert (code, out) == (2, ""), err
        assert option in err and "Traceback" not in err
