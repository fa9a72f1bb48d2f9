"""Every answer tells the same waits of a log: from submission, of all jobs that started."""

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from gpuplan.cli.formats.units import show_duration

pytestmark = pytest.mark.compiled
SITE = Path(str(files("gpuplan.sample_traces"))) / "slurm_site"
LOG = str(SITE / "sacct.txt")
DUMPS = ("assoc.txt", "qos.txt", "events.txt")
FIGURES = ("mean_wait_s", "p95_wait_s")


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    from gpuplan.cli.app.main import main

    path = tmp_path_factory.mktemp("twin") / "twin.toml"
    dumps = [part for name in DUMPS for part in ("--sacctmgr", str(SITE / name))]
    conf = str(SITE / "slurm.conf")
    assert main(["calibrate", LOG, "--slurm-conf", conf, *dumps, "-o", str(path)]) == 0
    return path


def results_of(gpuplan, name, *words):
    code, out, err = gpuplan(name, LOG, *words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"], " ".join(err.split())


@pytest.fixture
def waited(gpuplan):
    """What ``waits`` tells: mean and P95."""
    results, _ = results_of(gpuplan, "waits")
    assert results["never_started"] > 0  # so that other definitions would differ
    assert results["mean_eligible_wait_s"] < results["mean_wait_s"]
    return [results[name] for name in FIGURES]


def test_today_has_the_waits_that_the_reasons_are_of(gpuplan, waited):
    results, _ = results_of(gpuplan, "characterize")
    for told in (results["waits"], results["today"]):
        assert [told[name] for name in FIGURES] == waited


@pytest.mark.parametrize(
    "words",
    [
        ("size", "--gpus", "64"),
        ("simulate", "--policy", "easy", "--cluster", "64"),
        ("compare", "--policy", "easy", "--policy", "first-fit", "--cluster", "64"),
        ("pareto",),
    ],
    ids=lambda words: words[0],
)
def test_a_replay_of_today_is_beside_the_same_recorded_waits(gpuplan, waited, words):
    results, _ = results_of(gpuplan, *words)
    fidelity = results["fidelity"]
    assert [fidelity[f"recorded_{name}"] for name in FIGURES] == waited
    today = results.get("today")
    assert today is None or today["p95_wait_s"] == waited[1]


def test_the_sites_rules_are_beside_the_same_recorded_waits(gpuplan, waited, twin):
    words = ("--twin", twin, "--gpus", "16", "--gpu-type", "a100")
    results, err = results_of(gpuplan, "size", *words)
    told = [results["fidelity"][f"recorded_{name}"] for name in FIGURES]
    np.testing.assert_allclose(told, waited, atol=1)  # a site counts whole seconds
    assert results["today"]["p95_wait_s"] == waited[1]
    assert "waits here are from when a job is eligible" in err


@pytest.mark.parametrize(
    "words",
    [("whatif", "--scale-load", "1.1"), ("options", "--option", "scale-load 1.1")],
    ids=lambda words: words[0],
)
def test_a_study_of_fewer_jobs_says_how_many_and_what_all_waited(gpuplan, waited, twin, words):
    _, err = results_of(gpuplan, *words, "--twin", twin)
    assert err.count("waits here are from when a job is eligible, of 703 jobs") == 1
    assert "that warm the replay up" in err
    assert f"{show_duration(waited[1])} (gpuplan waits)" in err
