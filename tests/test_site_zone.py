"""The local times of a log are read in the zone of the site's settings, by every command."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from gpuplan.analysis.site.log import has_local_times

pytestmark = pytest.mark.compiled
SITE = Path(str(files("gpuplan.sample_traces"))) / "slurm_site"
LOG = str(SITE / "sacct.txt")
ZONE = "Asia/Tokyo"
OTHER = ("--time-zone", "Europe/Berlin")


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    from gpuplan.cli.app.main import main

    path = tmp_path_factory.mktemp("zone") / "twin.toml"
    dumps = [
        part for name in ("assoc", "qos") for part in ("--sacctmgr", str(SITE / f"{name}.txt"))
    ]
    assert main(["calibrate", LOG, "--time-zone", ZONE, *dumps, "--infer", "-o", str(path)]) == 0
    return path


def results_of(gpuplan, *words):
    code, out, err = gpuplan(*words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out), err


def test_the_rules_of_a_site_explain_its_waits_without_a_zone_on_the_command_line(gpuplan, twin):
    words = ("waits", LOG, "--twin", twin, "--real")
    document, err = results_of(gpuplan, *words)
    named, _ = results_of(gpuplan, *words, "--time-zone", ZONE)
    assert document["results"] == named["results"]
    assert "--time-zone" not in err
    shares = {row["name"]: row["share"] for row in document["results"]["reasons"]}
    assert shares.get("unknown", 0.0) < 0.05 < shares["own limits"]


def test_today_of_a_size_is_read_in_the_zone_of_the_site(gpuplan, twin):
    words = ("size", LOG, "--twin", twin, "--gpu-type", "a100", "--gpus", "16")
    document, err = results_of(gpuplan, *words)
    named, _ = results_of(gpuplan, *words, "--time-zone", ZONE)
    assert document["results"] == named["results"]
    assert "--time-zone" not in err


@pytest.mark.parametrize(
    "words",
    [
        ("waits",),
        ("size", "--gpu-type", "a100", "--gpus", "16"),
        ("whatif", "--scale-load", "1.1"),
        ("options", "--option", "scale-load 1.1"),
        ("eta", "--gpus", "2", "--limit", "1h"),
    ],
    ids=lambda words: words[0],
)
def test_another_zone_than_that_of_the_settings_is_refused_with_both_names(gpuplan, twin, words):
    name, *more = words
    code, _, err = gpuplan(name, LOG, "--twin", twin, *more, *OTHER)
    assert code == 2
    assert f"--time-zone Europe/Berlin: the settings {twin}" in err and ZONE in err


@pytest.mark.slow
def test_a_forecast_takes_the_zone_of_its_settings_by_name(gpuplan, twin):
    words = ("eta", LOG, "--twin", twin, "--gpus", "2", "--limit", "1h", "--replays", "10")
    document, _ = results_of(gpuplan, *words)
    named, _ = results_of(gpuplan, *words, "--time-zone", ZONE)
    assert document["results"] == named["results"]


def test_a_trace_has_no_local_times(gpuplan, twin, tmp_path):
    trace = tmp_path / "log.parquet"
    code, _, err = gpuplan("ingest", LOG, "--time-zone", ZONE, "-o", trace)
    assert code == 0, err
    assert has_local_times(Path(LOG)) and not has_local_times(trace)
    words = ("--twin", twin, "--real")
    of_log, _ = results_of(gpuplan, "waits", LOG, *words)
    of_trace, _ = results_of(gpuplan, "waits", trace, *words)
    assert of_log["results"]["reasons"] == of_trace["results"]["reasons"]
