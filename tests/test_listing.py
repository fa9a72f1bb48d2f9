"""``gpuplan list``: what is listed is what can be used."""

import json

import pytest

from gpuplan.analysis.ingest.registry import format_named
from gpuplan.planner.policies import find_policy
from gpuplan.simkit.allpass.parameters import Allpass


def listed(gpuplan, kind):
    code, out, err = gpuplan("list", kind, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"][kind]


def test_every_listed_format_can_be_forced(gpuplan):
    names = [row["name"] for row in listed(gpuplan, "formats")]
    assert {"philly", "seren", "kalos", "wandb", "sia", "canonical", "csv"} <= set(names)
    assert all(format_named(name).name == name for name in names)


def test_every_listed_policy_has_its_settings(gpuplan):
    rows = listed(gpuplan, "policies")
    assert "allpass" in {row["policy"] for row in rows}
    for row in rows:
        policy = find_policy(row["policy"])
        listed_settings = {one["setting"]: one["about"] for one in row["settings"]}
        assert listed_settings == {name: one.about for name, one in policy.settings.items()}


def test_the_listed_prices_are_those_of_the_simulator(gpuplan):
    prices = {row["kind"]: row["usd_per_gpu_h"] for row in listed(gpuplan, "providers")}
    assert float(prices["serverless"]) == Allpass().serverless_price
    assert float(prices["conventional"]) == Allpass().conventional_price
    assert prices["marketplace"].endswith("50 offers")


def test_speedups_have_sources(gpuplan):
    rows = listed(gpuplan, "speedups")
    assert {"profile:t4", "power:ALPHA"} <= {row["name"] for row in rows}
    assert all(row["source"] for row in rows)


@pytest.mark.parametrize("kind", ["formats", "policies", "speedups", "providers"])
def test_lists_fit_a_hundred_columns(gpuplan, kind):
    code, out, _ = gpuplan("list", kind)
    assert code == 0
    assert "…" not in out  # nothing is cut short
    assert max(len(line) for line in out.splitlines()) <= 100
