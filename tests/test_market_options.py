"""One price table and one table of checkpoints for simulate, compare and sweep alike."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from support_prices import HEADER, ORIGIN, book
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.price_settings import with_prices
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.spec_prices import price

START = int(ORIGIN.timestamp() * 1e6)
TABLE = (
    ("vast.ai", "A100-80GB", "marketplace", (0.5, 4), (1.5, 9), (0.7, 2)),
    ("modal", "A100-80GB", "serverless", (2.5, "")),
    ("lambda", "A100-80GB", "on-demand", (1.4, "")),
    ("lambda", "H100-80GB", "on-demand", (3.0, "")),
)
RENTING = (
    *("allpass", "fixed-threshold:threshold_s=60,capacity=5"),
    *("hpa", "serverless-only", "serverful-only"),
)
STOPPING = ("srtf:provider=vast", "fifo:preemptive=true,provider=vast")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A trace of two classes, prices that change every six hours, checkpoints of each class."""
    from gpuplan.cli.app.main import main

    folder = tmp_path_factory.mktemp("market")
    rng = np.random.default_rng(0)
    n = 200
    trace = write_trace(
        folder / "t.parquet",
        np.sort(rng.uniform(0, 86_400, n)),
        np.minimum(rng.lognormal(np.log(400), 1.5, n), 20_000),
        rng.choice([0.5, 1.0, 1.0, 2.0, 4.0], n).tolist(),
        job_class=rng.choice(["bert", "gpt"], n).tolist(),
    )
    lines = [
        f"2025-01-01T{6 * i:02}:00:00Z,{provider},{gpu},,{kind},{usd},{count}"
        for provider, gpu, kind, *steps in TABLE
        for i, (usd, count) in enumerate(steps)
    ]
    (folder / "p.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    prices = folder / "p.parquet"
    assert main(["prices", str(folder / "p.csv"), "-o", str(prices)]) == 0
    table = folder / "c.csv"
    table.write_text("job_class,checkpoint_s,restore_s\nbert,5,10\ngpt,60,90\n")
    return trace, ("--prices", prices, "--checkpoints", table, "--set", "gpu=A100-80GB")


def as_json(gpuplan, *words):
    code, out, err = gpuplan(*words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)


def test_compare_finds_what_simulate_finds_at_these_prices(gpuplan, files):
    trace, market = files
    policies = (*RENTING, *STOPPING)
    given = [word for policy in policies for word in ("--policy", policy)]
    together = as_json(gpuplan, "compare", trace, *given, *market, "--set", "fifo.gpus=8")
    assert [one["rows"] for one in together["inputs"][1:]] == [2, 6]
    effective = {one["label"]: one["settings"] for one in together["parameters"]["policies"]}
    for row in together["results"]["policies"]:
        name, _, own = row["label"].partition(":")
        own = [*own.split(","), *(["gpus=8"] if name == "fifo" else [])]
        sets = [word for text in own if text for word in ("--set", text)]
        takes = market if "restore_s" in POLICIES[name].settings else (*market[:2], *market[4:])
        alone = as_json(gpuplan, "simulate", trace, "--policy", name, *takes, *sets)
        for whole in ("today", "fidelity"):  # of the whole comparison
            del alone["results"][whole]
        assert alone["results"] == {key: row[key] for key in alone["results"]}
        assert alone["parameters"]["settings"] == effective[row["label"]]
        chosen = {"provider": "vast"} if "provider" in row["label"] else {}
        assert alone["parameters"]["price_choice"] == {"gpu": "A100-80GB", **chosen}
    for name in ("hpa", STOPPING[0]):
        assert effective[name]["conventional_usd_per_gpu_h"] == 1.4
        assert effective[name]["market"]["most_offers"] == 9
    assert effective[STOPPING[1]]["market"]["most_offers"] == 8  # its GPUs
    assert effective["serverless-only"]["serverless_usd_per_gpu_h"] == 2.5
    elsewhere = as_json(
        *(gpuplan, "compare", trace, *given, *market, "--set", "fifo.gpus=8"),
        *("--engine", "processes", "--parallel", 2),
    )
    assert elsewhere["results"] == together["results"]


def test_a_point_of_a_sweep_is_a_replay_at_these_prices(gpuplan, files):
    trace, market = files
    swept = as_json(gpuplan, "sweep", trace, "--threshold", "60,600", "--capacity", "3,8", *market)
    assert [one["rows"] for one in swept["inputs"][1:]] == [2, 6]
    points = swept["results"]["points"]
    assert len(points) == 6
    for point in points:
        alone = as_json(
            *(gpuplan, "simulate", trace, "--policy", "allpass", *market),
            *("--set", f"controller={point['policy']}", "--set", f"capacity={point['capacity']}"),
            *("--set", f"threshold_s={point['threshold_s']:g}"),
        )["results"]
        both = {name: pytest.approx(point.pop(name)) for name in ("usd_per_month",)}  # summed apart
        assert {**alone, **point, "policy": "allpass"} == {**point, **alone}
        assert both == {name: alone[name] for name in both}
    # 4 offers at 0.5, 8 of 9 at 1.5 and 2 at 0.7: the second step alone is more than half.
    form = swept["results"]["closed_form"]
    assert (form["serverless_usd_per_gpu_h"], form["serverful_usd_per_gpu_h"]) == (2.5, 1.5)
    assert form["migration_usd_per_gpu"] > 0


def test_the_threshold_falls_to_what_moves_of_these_classes_take(gpuplan, files):
    trace, market = files
    takes = {"bert": 15, "gpt": 150}
    mean_s = pl.read_parquet(trace)["job_class"].replace_strict(takes).mean()
    given = (trace, *market[2:4])
    found = as_json(gpuplan, "simulate", *given)
    assert found["parameters"]["settings"]["min_threshold_s"] == pytest.approx(mean_s)
    swept = as_json(gpuplan, "sweep", *given, "--threshold", "60")
    assert swept["parameters"]["settings"]["min_threshold_s"] == pytest.approx(mean_s)
    point = next(one for one in swept["results"]["points"] if one["policy"] == "adaptive")
    assert point["cost_usd"] == found["results"]["cost_usd"]
    low = as_json(gpuplan, "simulate", *given, "--set", "threshold_s=5", "--set", "gain_up_s=0")
    (warning,) = [one for one in low["warnings"] if "less than the" in one]
    assert f"less than the {mean_s:g} s that a move takes" in warning
    assert f"--set min_threshold_s={math.ceil(mean_s)} " in warning


def test_what_stops_cost_is_the_class_own_on_a_cluster(gpuplan, files, tmp_path):
    trace, market = files
    plain = ("simulate", trace, "--policy", "srtf", "--gpus", 4, *market)
    plain += ("--set", "provider=vast")
    out = tmp_path / "jobs.parquet"
    found = as_json(gpuplan, *plain, "-o", out)
    classes = pl.read_parquet(trace)["job_class"].to_list()
    rows = pl.read_parquet(out).with_columns(job_class=pl.Series(classes))
    assert found["results"]["preemptions"] > 20
    pays = {"bert": 15, "gpt": 150}
    for job_class, stops, paid_s in rows.select("job_class", "preemptions", "preemption_s").rows():
        assert paid_s <= stops * pays[job_class] + 1e-9
    once = rows.filter(preemptions=1)
    assert {
        (job_class, round(paid_s, 6))
        for job_class, paid_s in once.select("job_class", "preemption_s").rows()
    } == set(pays.items())
    hours = found["results"]["window_s"] / 3600  # of the four offers of the first six hours
    assert found["results"]["cost_usd"] == pytest.approx(hours * 4 * 0.5)
    code, _, err = gpuplan(*plain, "--set", "reference=true")
    assert code == 2 and "without --checkpoints" in err


def test_no_offers_beside_prices_are_the_conventional_cloud_alone(gpuplan, files):
    trace, market = files
    for name in ("hpa", "fifo"):
        without = f"{name}:marketplace_offers=0"
        both = ("--policy", name, "--policy", without)
        found = as_json(gpuplan, "compare", trace, *both, *market[:2], "--gpus", 8)
        with_market, alone = found["results"]["policies"]
        assert with_market["cost_marketplace_usd"] > 0 == alone["cost_marketplace_usd"]
        assert alone["cost_usd"] == alone["cost_conventional_usd"] > with_market["cost_usd"]


def test_checkpoints_need_a_policy_that_uses_them(gpuplan, files):
    trace, market = files
    both = ("--policy", "hpa", "--policy", "fifo")
    code, _, err = gpuplan("compare", trace, *both, *market[2:4])
    assert code == 2 and "hpa and fifo has no use" not in err
    assert "--checkpoints: none of hpa, fifo moves or stops jobs" in err
    assert as_json(gpuplan, "compare", trace, *both, "--policy", "srtf", *market[2:4])


def priced(policy, rows, **settings):
    return with_prices(settings, rows, START, POLICIES[policy].settings)


def test_each_policy_gets_the_prices_it_pays():
    rows = book(
        [
            (0, "vast.ai", "A100", None, "marketplace", 1.0, 2),
            (0, "modal", "A100", None, "serverless", 2.5),
            (0, "lambda", "A100", None, "on_demand", 1.4),
        ]
    )
    assert priced("serverless-only", rows).settings == {"serverless_usd_per_gpu_h": 2.5}
    for name in ("hpa", "fifo"):
        found = priced(name, rows).settings
        assert found.keys() == {"conventional_usd_per_gpu_h", "market"}
        assert found["conventional_usd_per_gpu_h"] == 1.4
        assert found["market"].price.tolist() == [1.0, 1.0]
        assert priced(name, None, gpu="H100") == priced("hpa", None, gpu="H100")
    assert priced("fifo", rows, gpus=1).settings["market"].price.tolist() == [1.0]


def test_a_cluster_has_the_prices_that_there_are():
    alone = book([(0, "lambda", "A100", None, "on_demand", 1.4)])
    found = priced("fifo", alone)
    assert found.settings == {"conventional_usd_per_gpu_h": 1.4, "marketplace_offers": 0}
    assert (
        found.notes[1] == "marketplace: none with A100, so the cluster is of the conventional cloud"
    )
    market = book([(0, "vast.ai", "A100", None, "marketplace", 1.0, 2)])
    for name in ("hpa", "fifo"):
        found = priced(name, market)
        assert found.settings.keys() == {"market"}
        assert found.notes[0] == (
            "on-demand price: $1.29, the default of an A100, as the prices have none"
        )
    found = priced("fifo", market, usd_per_gpu_h=9.0, gpu="H100")
    assert found.settings == {"usd_per_gpu_h": 9.0}
    assert found.notes == ("price of every GPU: as set, whatever --prices says",)
    with pytest.raises(UsageError, match="have no H100, only A100"):
        priced("fifo", alone, gpu="H100")
    other = book(
        [(0, "lambda", "A100", None, "on_demand", 1.4), (0, "m", "H100", None, "serverless", 9)]
    )
    with pytest.raises(UsageError, match=r"no offers of H100 on .*\n  next: --set usd_per_gpu_h=N"):
        priced("fifo", other, gpu="H100")
    own = priced("fifo", other, gpu="H100", conventional_usd_per_gpu_h=2.0)
    assert own.settings == {"conventional_usd_per_gpu_h": 2.0, "marketplace_offers": 0}
    with pytest.raises(UsageError, match="no offers of A100 on a marketplace or as spot"):
        priced("hpa", alone, gpu="A100")
    with pytest.raises(
        UsageError, match=r"provider: the prices of .* have no marketplace with A100"
    ):
        priced("fifo", alone, provider="vast")
    with pytest.raises(
        UsageError, match=r"conventional_provider: the prices of .* have no on-demand"
    ):
        priced("fifo", market, conventional_provider="aws")
    modal = book([(0, "modal", "A100", None, "serverless", 2.5)])
    with pytest.raises(UsageError, match="no offers of A100 on a marketplace, as spot"):
        priced("fifo", modal)


def test_policies_are_priced_on_one_gpu():
    rows = book(
        [
            (0, "vast.ai", "A100", None, "marketplace", 1.0, 2),
            (0, "modal", "H100", None, "serverless", 3.0),
        ]
    )
    both = [PolicySpec("hpa", "hpa", {}), PolicySpec("modal", "serverless-only", {})]
    different = (
        r"^--prices prices.parquet: .*different GPUs, A100 \({}\) and H100 \(modal\)\n  next"
    )
    with pytest.raises(UsageError, match=different.format("hpa")):
        price(both, rows, START)
    with pytest.raises(UsageError, match=different.format("a sweep")):
        price(both[1:], rows, START, other_gpu=("A100", "a sweep"))
    own = [PolicySpec("a", "hpa", {"gpu": "A100"}), replace(both[1], settings={"gpu": "H100"})]
    with pytest.raises(UsageError, match=different.format("a")):
        price(own, rows, START)
    owned = PolicySpec("fifo", "fifo", {"usd_per_gpu_h": 1.0})
    assert price([both[0], owned], rows, START)[0][1] == owned  # of any GPU
    for other_gpu in (None, ("H100", "a sweep")):
        same, notes = price(both[1:] * 2, rows, START, other_gpu=other_gpu)
        assert same[0] == same[1] and same[0].settings == {"serverless_usd_per_gpu_h": 3.0}
        assert notes == ("serverless price: modal, $3 per GPU-hour",)


def test_no_command_compares_different_gpus(gpuplan, files):
    trace, _ = files
    prices = ("--prices", "builtin")
    both = ("--policy", "fifo:gpu=H100", "--policy", "allpass", "--set", "gpu=A100")
    for words in (
        ("compare", trace, *both, *prices),
        ("sweep", trace, "--against", "fifo:gpus=32,gpu=H100", "--threshold", "60", *prices),
    ):
        code, _, err = gpuplan(*words)
        assert code == 2 and "--prices builtin: the policies would pay for different GPUs" in err
        assert "A100 (allpass)" in err and "next: --set gpu=NAME alone, one for all" in err


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "t.parquet"),
        ("sweep", "t.parquet"),
        ("compare", "t.parquet"),
        ("report", "t.parquet", "--study", "sweep", "--set", "sweep.prices=p.parquet", "-o", "r"),
        ("run", "s.toml"),
    ],
    ids=lambda words: words[0],
)
def test_no_command_pays_a100_prices_for_another_gpu(gpuplan, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    write_trace(tmp_path / "t.parquet", [0.0, 60.0], [600.0, 60.0])
    (tmp_path / "p.csv").write_text(
        f"{HEADER}\n"
        "2025-01-01T00:00:00Z,vast.ai,H100,,marketplace,2.0,4\n"
        "2025-01-01T00:00:00Z,lambda,H100,,on-demand,3.0,\n"
    )
    assert gpuplan("prices", "p.csv", "-o", "p.parquet")[0] == 0
    text = '[workload]\ntrace = "t.parquet"\n[study.sweep]\nprices = "p.parquet"\nSET'
    (tmp_path / "s.toml").write_text(text.replace("SET", ""))
    given = words[0] in ("simulate", "sweep", "compare")
    words = (*words, "--prices", "p.parquet") if given else words
    code, _, err = gpuplan(*words)
    assert code == 2 and "no serverless price of H100" in err and "p.parquet" in err
    assert "next: --set serverless_usd_per_gpu_h=N" in err
    (tmp_path / "s.toml").write_text(text.replace("SET", 'set = ["serverless_usd_per_gpu_h=4"]'))
    setting = f"{'' if given else 'sweep.set='}serverless_usd_per_gpu_h=4"
    full = ("--full",) if given else ()
    code, _, err = gpuplan(*words, *full, *(() if words[0] == "run" else ("--set", setting)))
    assert code == 0, err
    said = (tmp_path / "r" / "report.md").read_text() if words[0] == "report" else err
    assert "serverless price: as set" in said


def test_what_needs_offers_that_change_is_told_to_change_nothing_elsewhere(gpuplan, files):
    trace, market = files
    for policy, given, idle in (
        (
            "allpass",
            ("reclaim=true", "pricing=in-force"),
            "reclaim=true and pricing=in-force have",
        ),
        ("hpa", ("reclaim=true",), "reclaim=true has"),
        ("fifo", ("pricing=in-force",), "pricing=in-force has"),
        ("fifo", ("pricing=in-force", "usd_per_gpu_h=1"), None),
        ("allpass", (), None),
        ("allpass", ("grace_s=30", "reclaim=true"), "reclaim=true has"),
    ):
        sets = [word for one in given for word in ("--set", one)]
        words = ("simulate", trace, "--policy", policy, *sets)
        message = [
            one for one in as_json(gpuplan, *words)["warnings"] if "these offers never" in one
        ]
        assert len(message) == (idle is not None)
        assert all(one.startswith(f"{idle} no effect, because these offers") for one in message)
        priced = as_json(gpuplan, *words, *market[:2], *market[4:])["warnings"]
        assert not any("the offers never" in one for one in priced)
    alone = as_json(gpuplan, "simulate", trace, "--policy", "allpass", "--set", "grace_s=30")
    assert "grace_s has no effect without reclaim=true" in alone["warnings"]
