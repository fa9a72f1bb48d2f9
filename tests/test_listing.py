"""``gpuplan list``: what is listed is what can be used."""

import json
from typing import get_args

import pytest

from gpuplan.analysis.base.option import declared_options
from gpuplan.analysis.log_formats.registry import format_named
from gpuplan.analysis.price_formats.registry import price_format_named
from gpuplan.analysis.prices.catalogue import STARTUP
from gpuplan.cli.commands.listing import ListKind
from gpuplan.planner.baselines import names_of
from gpuplan.planner.policies.allpass_settings import parameters_from, settings_of
from gpuplan.planner.registry import POLICIES, find_policy
from gpuplan.planner.requests.pareto import ParetoRequest
from gpuplan.planner.requests.settings import parse_settings, show_setting
from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.renting.market import price_ladder


def listed(gpuplan, kind):
    code, out, err = gpuplan("list", kind, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"][kind]


def test_every_listed_format_can_be_forced(gpuplan):
    rows = listed(gpuplan, "formats")
    names = [row["name"] for row in rows if row["command"] == "ingest"]
    assert {"philly", "seren", "kalos", "wandb", "sia", "canonical", "csv"} <= set(names)
    assert all(format_named(name).name == name for name in names)
    names = [row["name"] for row in rows if row["command"] == "prices"]
    assert {"canonical", "aws", "prime", "vast", "skypilot"} <= set(names)
    assert all(price_format_named(name).name == name for name in names)


def test_no_word_about_a_format_is_broken(gpuplan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for row in listed(gpuplan, "formats"):
        shown = set(gpuplan("list", "formats", row["name"])[1].split())
        words = set(f"{row['description']} {row['source']}".split())
        assert {word for word in words if len(word) <= 85} <= shown, row["name"]


def test_every_listed_policy_has_its_settings(gpuplan):
    rows = listed(gpuplan, "policies")
    assert "allpass" in {row["policy"] for row in rows}
    for row in rows:
        policy = find_policy(row["policy"])
        listed_settings = {one["setting"]: one["about"] for one in row["settings"]}
        assert listed_settings == {name: one.about for name, one in policy.settings.items()}


def test_a_listed_setting_tells_its_default_unit_and_choices(gpuplan):
    (row,) = (row for row in listed(gpuplan, "policies") if row["policy"] == "allpass")
    settings = {one.pop("setting"): one for one in row["settings"]}
    about = settings["threshold_s"].pop("about")
    assert "leaves its container" in about
    assert settings["threshold_s"] == {
        "kind": "duration", "unit": "s", "default": 300.0, "choices": [], "unlimited": True,
    }  # fmt: skip
    assert settings["controller"]["choices"] == ["adaptive", "fixed"]
    assert settings["controller"]["default"] == "adaptive"
    assert settings["capacity"]["default"] is None and settings["capacity"]["unlimited"]
    assert settings["serverless_usd_per_gpu_h"]["unit"] == "USD"
    assert settings["marketplace_median_usd_per_gpu_h"]["default"] == 1.08
    out = gpuplan("list", "policies", "allpass")[1].split("\nSettings\n")[1]
    lines = {line.split()[0]: " ".join(line.split()) for line in out.splitlines() if line.strip()}
    assert lines["controller"].startswith("controller adaptive adaptive or fixed ")
    assert lines["capacity"].startswith("capacity none whole number; none ")
    assert lines["checkpoint_s"].startswith("checkpoint_s 42 s, or 5m, 2h ")


@pytest.mark.parametrize("name", POLICIES)
def test_listed_defaults_are_what_a_policy_runs_with(name):
    policy = POLICIES[name]
    usual = policy.defaults()
    assert usual.keys() == policy.settings.keys()
    texts = [f"{key}={show_setting(value)}" for key, value in usual.items()]
    assert parse_settings(texts, policy.settings) == usual  # each can be given as it is listed


def test_setting_every_default_changes_nothing():
    assert settings_of(parameters_from(POLICIES["allpass"].defaults())) == settings_of(Allpass())


def test_the_simulator_defaults_are_the_listed_a100s(gpuplan):
    rows = {row["provider"]: row for row in listed(gpuplan, "providers") if row["startup_s"]}
    usual = Allpass()
    for name, price, startup in (
        ("modal", usual.serverless_price, usual.serverless_startup),
        ("lambda", usual.conventional_price, usual.conventional_startup),
    ):
        assert rows[name]["usd_per_gpu_h"] == price
        assert rows[name]["startup_s"] == startup.mean_s
        assert STARTUP[name].sd_s == startup.sd_s
    vast = rows["vast.ai"]
    three = (vast["least_usd_per_gpu_h"], vast["usd_per_gpu_h"], vast["most_usd_per_gpu_h"])
    assert price_ladder(50, *three) == usual.marketplace_prices
    assert vast["startup_s"] == usual.marketplace_startup.mean_s
    assert all(row["source"] and row["as_of"].startswith("2025") for row in rows.values())


def test_speedups_have_sources(gpuplan):
    rows = listed(gpuplan, "speedups")
    assert {"profile:t4", "power:ALPHA"} <= {row["name"] for row in rows}
    assert all(row["source"] for row in rows)


def test_each_policy_is_one_line(gpuplan):
    out = gpuplan("list", "policies")[1]
    text = " ".join(out.split())
    for name, policy in POLICIES.items():
        if policy.listed_with:
            row = text.partition(f" {policy.listed_with} ")[2]
            assert name in row.partition("(also ")[2].partition(")")[0]
        else:
            assert f" {name} {policy.about}" in text


@pytest.mark.parametrize("kind", list(ListKind))
def test_lists_are_short(gpuplan, kind):
    key = {"policies": "policy", "providers": "provider"}.get(kind.value, "name")
    names = {row[key] for row in listed(gpuplan, kind)}
    frame = 8  # title, header, lines, and the hint below
    assert len(gpuplan("list", kind)[1].splitlines()) <= len(names) + frame


@pytest.mark.parametrize("kind", list(ListKind))
def test_a_name_shows_all_there_is_about_one(gpuplan, kind):
    rows = listed(gpuplan, kind)
    key = {"policies": "policy", "providers": "provider"}.get(kind.value, "name")
    name = rows[-1][key]
    code, out, _ = gpuplan("list", kind, name, "--output-format", "json")
    document = json.loads(out)
    assert code == 0 and document["parameters"] == {"name": name}
    assert document["results"][kind.value] == [row for row in rows if row[key] == name]
    message = " ".join(gpuplan("list", kind, name)[1].split())
    assert name in message
    words = [rows[-1].get(field) for field in ("about", "description", "source")]
    assert all(word is None or " ".join(word.split()) in message for word in words)


def test_an_unknown_name_is_answered_with_the_nearest(gpuplan):
    code, _, err = gpuplan("list", "policies", "gitins")
    assert code == 2
    assert "no 'gitins' among the policies (did you mean gittins?)" in err
    assert "next: gpuplan list policies" in err


def test_the_csv_of_a_list_has_what_the_table_leaves_out(gpuplan):
    header, *rows = gpuplan("list", "formats", "--output-format", "csv")[1].splitlines()
    assert header == "name,command,description,source,package"
    assert len(rows) == len(listed(gpuplan, "formats"))


def test_methods_and_baselines_are_those_that_can_be_asked_for(gpuplan):
    methods = listed(gpuplan, "methods")
    (kind,) = [option.kind for option in declared_options(ParetoRequest) if option.name == "method"]
    assert {row["name"] for row in methods} == set(get_args(kind))
    baselines = listed(gpuplan, "baselines")
    assert names_of([row["name"] for row in baselines]) == names_of(["all"])
    assert [row["name"] for row in baselines if row["knob"] is None] == ["recorded"]


@pytest.mark.parametrize("kind", list(ListKind))
def test_lists_fit_a_hundred_columns(gpuplan, kind):
    code, out, _ = gpuplan("list", kind)
    assert code == 0
    assert "…" not in out  # nothing is cut short
    assert max(len(line) for line in out.splitlines()) <= 100


def test_without_a_kind_the_kinds_are_named_on_one_line(gpuplan):
    code, _, err = gpuplan("list")
    kinds = ", ".join(kind.value for kind in ListKind)
    assert code == 2 and f"Choose from: {kinds}" in err
