"""``gpuplan run`` and ``gpuplan init``: what runs, what comes from the cache, what is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import support_document as made

from gpuplan.analysis.storage.cache import Cache, hashes_of, key_of, open_cache, usual_folder
from gpuplan.cli.scenario import running

PLAN = """
title = "Lab"
[workload]
trace = "trace.parquet"
[study.characterize]
top = 3
[study.pareto]
budget = ["1.5x", "2x"]
no_replay = true
"""
LOG = """
[workload]
log = { file = "jobs.csv", map = { submit_time = "at", duration_s = "ran", num_gpus = "gpus" } }
[study.characterize]
[output]
dir = "out"
formats = ["json", "svg"]
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario of a small trace, its cache beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made.write_trace(tmp_path / "trace.parquet", 40)
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path / "plan.toml"


@pytest.fixture
def log(plan: Path) -> Path:
    """A scenario of a log with a row that cannot be used."""
    rows = [f"2026-01-05T{hour:02}:00:00Z,{60 * hour},2" for hour in range(20)]
    text = "\n".join(["at,ran,gpus", *rows, "2026-01-06T00:00:00Z,soon,2", ""])
    (plan.parent / "jobs.csv").write_text(text, encoding="utf-8")
    plan.write_text(LOG.replace("{ file", '{ max_rejects = "10%", file'), encoding="utf-8")
    return plan


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were run, not taken from the cache."""
    commands: list[str] = []
    run_study = running.run_study

    def run(command, options, **arguments):
        commands.append(command)
        return run_study(command, options, **arguments)

    monkeypatch.setattr(running, "run_study", run)
    return commands


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no pictures, which take most of the time, where a test does not look at any."""
    monkeypatch.setattr("gpuplan.cli.documents.study.pictures_of", lambda *_: ())


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_second_run_computes_nothing_and_gives_the_same_bytes(gpuplan, plan, ran, tmp_path):
    for name in ("one", "two"):
        code, out, err = gpuplan("run", plan, "-o", tmp_path / name, "--full")
        assert code == 0, err
    assert ran == ["characterize", "pareto"]
    assert "pareto: from the cache" in err and "wrote" in err
    assert "# pareto\n$ gpuplan pareto trace.parquet" in out and "40 jobs" in out
    assert gpuplan("run", plan, "-o", tmp_path / "three", "--no-cache", "-q")[0] == 0
    assert ran == ["characterize", "pareto"] * 2
    one = files_of(tmp_path / "one")
    assert one == files_of(tmp_path / "two") == files_of(tmp_path / "three")
    assert set(one) == {
        *("report.html", "report.md", "report.json", "junit.xml"),
        *(
            f"figures/{name}.{kind}"
            for name in ("characterize", "pareto")
            for kind in ("svg", "png")
        ),
    }


@pytest.mark.usefixtures("undrawn")
def test_only_what_has_changed_runs_again(gpuplan, plan, ran):
    assert gpuplan("run", plan)[0] == 0
    del ran[:]
    assert gpuplan("run", plan, "--set", "study.characterize.top=4")[0] == 0
    assert ran == ["characterize"]
    assert gpuplan("run", plan)[0] == 0  # what was before is there yet
    assert ran == ["characterize"]
    speedups = plan.parent / "speedups.csv"
    for fastest in (1.9, 1.8):
        speedups.write_text(
            f"job_class,num_gpus,throughput\nall,1,1\nall,2,{fastest}\n", encoding="utf-8"
        )
        assert gpuplan("run", plan, "--set", "study.pareto.speedup=table:speedups.csv")[0] == 0
    assert ran == ["characterize", "pareto", "pareto"]
    made.write_trace(plan.parent / "trace.parquet", 41)
    assert "41 jobs" in gpuplan("run", plan)[1]
    assert ran[3:] == ["characterize", "pareto"]


@pytest.mark.usefixtures("undrawn")
def test_where_it_runs_does_not_matter(gpuplan, plan, ran):
    plan.write_text(PLAN + "[study.sweep]\nthreshold = 300\nresamples = 0\n", encoding="utf-8")
    assert gpuplan("run", plan)[0] == 0
    code, out, _ = gpuplan(
        "run", plan, "--set", "study.sweep.parallel=1", "--output-format", "json"
    )
    assert code == 0 and ran.count("sweep") == 1
    assert "--parallel=1" in json.loads(out)["studies"][2]["arguments"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("damage", [b"", b"x" * 70, b"{}\n", None])
def test_a_damaged_entry_is_made_again(gpuplan, plan, ran, damage):
    first = gpuplan("run", plan)[1]
    entries = sorted((plan.parent / "cache" / "gpuplan" / "studies").iterdir())
    assert len(entries) == 2
    text = entries[0].read_bytes()
    entries[0].write_bytes(text.replace(b"4", b"5") if damage is None else damage)
    entries[1].write_bytes(entries[1].read_bytes()[:-9])
    assert gpuplan("run", plan)[1] == first
    assert len(ran) == 4 and sorted(entries)[0].read_bytes() == text


def test_a_log_is_ingested_once_and_named_the_same_wherever_the_cache_is(gpuplan, log, ran):
    outputs = []
    for cache in ("a", "кэш é", "a"):
        code, _, err = gpuplan("run", log, "--cache", log.parent / cache)
        assert code == 0, err
        assert "warning: ingest: 1 row cannot be used" in err
        outputs.append(files_of(log.parent / "out"))
    assert ran == ["ingest", "characterize"] * 2
    assert outputs[0] == outputs[1] == outputs[2]
    assert set(outputs[0]) == {"report.json", "figures/characterize.svg"}
    contract = json.loads(outputs[0]["report.json"])
    assert contract["inputs"][0]["path"] == "jobs.parquet"
    assert contract["studies"][0]["arguments"] == ["jobs.parquet"]
    assert str(log.parent) not in outputs[0]["report.json"].decode()
    trace = next((log.parent / "a" / "traces").glob("*[0-9a-f].parquet"))
    trace.write_bytes(b"damaged")
    assert gpuplan("run", log, "--cache", log.parent / "a")[0] == 0
    assert ran[4:] == ["ingest"]
    (log.parent / "jobs.csv").write_text("at,ran,gpus\n2026-01-05,9,1\n", encoding="utf-8")
    assert gpuplan("run", log, "--cache", log.parent / "a")[0] == 0
    assert ran[5:] == ["ingest", "characterize"]


def test_paths_are_relative_to_the_scenario(gpuplan, log, monkeypatch, tmp_path_factory):
    here = tmp_path_factory.mktemp("elsewhere")
    assert gpuplan("run", log)[0] == 0
    first = files_of(log.parent / "out")
    monkeypatch.chdir(here)
    assert gpuplan("run", os.path.relpath(log, here), "--no-cache")[0] == 0
    assert Path.cwd() == here and not list(here.iterdir())
    assert files_of(log.parent / "out") == first


@pytest.mark.usefixtures("undrawn")
def test_list_runs_nothing_and_says_what_is_cached(gpuplan, plan, ran):
    code, out, _ = gpuplan("run", plan, "--list")
    assert code == 0 and not ran
    assert "gpuplan pareto trace.parquet --budget=1.5x,2x --no-replay" in out
    assert not (plan.parent / "cache").exists()
    assert gpuplan("run", plan)[0] == 0
    override = ("--set", "study.pareto.budget=3x")
    code, out, _ = gpuplan("run", plan, "--list", "--output-format", "json", *override)
    assert [one["cached"] for one in json.loads(out)["results"]["studies"]] == [True, False]


def test_a_gate_may_warn(gpuplan, plan, tmp_path):
    gates = 'gates.warn_if=["characterize.jobs > 3"]'
    code, _, err = gpuplan("run", plan, "--set", gates, "-o", tmp_path / "out")
    assert code == 0 and "warning: gate tripped: characterize.jobs > 3" in err
    assert "characterize.jobs &gt; 3" in (tmp_path / "out" / "report.html").read_text()
    code, _, err = gpuplan("run", plan, "--set", "gates.warn_if=['jobs is 3']")
    assert code == 2 and "--warn-if 'jobs is 3'" in err


def test_gates_name_all_that_hold_after_everything_is_written(gpuplan, plan, tmp_path):
    gates = 'gates.fail_if=["characterize.jobs > 3", "duration.p95 < 1h", "pareto.load < 0.001"]'
    code, out, err = gpuplan("run", plan, "--set", gates, "-o", tmp_path / "out")
    assert code == 1
    assert "gate tripped: characterize.jobs > 3" in err
    assert "gate tripped: duration.p95 < 1h" in err and "pareto.load < 0.001" not in err
    assert "Gates" in out and (tmp_path / "out" / "junit.xml").exists()
    code, _, err = gpuplan("run", plan, "--set", 'gates.fail_if="pareto.kne.gpus > 3"')
    assert code == 2 and "pareto.kne.gpus" in err


@pytest.mark.usefixtures("undrawn")
def test_a_study_that_cannot_be_done_is_named_by_its_line(gpuplan, plan):
    code, out, err = gpuplan("run", plan, "--set", "workload.where=num_gpu > 1")
    assert (code, out) == (2, "")
    assert "error: --set workload.where=num_gpu > 1: --where 'num_gpu > 1'" in err
    assert gpuplan("run", plan, "--set", "study.pareto.budget=0.1x")[0] == 4
    synth = 'workload.synth={preset="no", jobs=3}'
    code, _, err = gpuplan("run", plan, "--set", synth)
    assert code == 2 and "--preset no: expected one of" in err


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", ["run", "report"])
def test_studies_that_can_be_made_are_written_without_one_that_cannot(gpuplan, log, command):
    text = log.read_text().replace("[study.char", "[study.forecast]\nspend = true\n[study.char")
    fail_if = '["forecast.months_ahead.usd > $9", "characterize.jobs > 3"]'
    log.write_text(f"{text}[prices]\nprice = 1\n[gates]\nfail_if = {fail_if}\n")
    folder = log.parent / "made"
    code, out, err = gpuplan(command, log, "-o", folder)
    assert code == 3 and "20 jobs" in out  # that of the study, not of the gates
    why = f"{log}:5: jobs.csv: no whole calendar month in the log, which --spend needs"
    assert f"error: {why}\n  next: " in err and err.count("no whole calendar month") == 1
    assert "error: gate tripped: characterize.jobs > 3" in err
    assert err.rstrip().endswith("error: the documents have been written without forecast")
    document = json.loads((folder / "report.json").read_text())
    assert [study["name"] for study in document["studies"]] == ["characterize"]
    assert document["warnings"][0].startswith(f"without forecast: {why}")
    assert [gate["state"] for gate in document["gates"]] == ["unchecked", "failed"]


@pytest.mark.usefixtures("undrawn")
def test_what_is_said_of_the_options(gpuplan, plan, tmp_path):
    assert gpuplan("run", plan, "--no-cache", "--cache", tmp_path)[0] == 2
    code, _, err = gpuplan("run", tmp_path / "no.toml")
    assert code == 3 and "no.toml: no such file" in err
    (tmp_path / "file").touch()
    code, _, err = gpuplan("run", plan, "-o", tmp_path / "file" / "out")
    assert code == 3 and "is a file, not a folder" in err
    code, out, err = gpuplan("run", plan, "--cache", tmp_path / "file")
    assert code == 0 and "40 jobs" in out and err.count("not cached") == 2


@pytest.mark.usefixtures("undrawn")
def test_markdown_on_standard_output(gpuplan, plan):
    code, out, _ = gpuplan("run", plan, "--output-format", "md")
    assert code == 0 and out.startswith("#") and "Lab" in out


@pytest.mark.parametrize("command", ["run", "report"])
def test_a_trace_is_made_elsewhere_where_the_cache_takes_none(
    gpuplan, log, tmp_path, monkeypatch, command
):
    """As in a container whose home is read-only: a file stands where the cache should."""
    assert gpuplan(command, log, "-o", tmp_path / "kept", "-q")[0] == 0
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, _, err = gpuplan(command, log, "-o", tmp_path / "spare", "-q")
    assert code == 0 and err.count("warning: not cached: ") == 1
    kept, spare = ((tmp_path / name / "report.json").read_bytes() for name in ("kept", "spare"))
    assert kept == spare


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_a_scenario_has_a_cache_and_one_of_a_trace_has_none(gpuplan, plan, ran):
    folder = plan.parent
    for options in (("--cache", folder / "own"), ("--cache", folder / "own"), ("--no-cache",)):
        assert gpuplan("report", plan, "-o", folder / "r", "--formats", "json", *options)[0] == 0
    assert ran == ["characterize", "pareto"] * 2  # the second time from the cache
    assert (folder / "own" / "studies").is_dir() and not (folder / "cache").exists()
    assert gpuplan("report", plan, "-o", folder / "r", "--no-cache", "--cache", folder)[0] == 2
    code, _, err = gpuplan("report", folder / "trace.parquet", "-o", folder / "s", "--no-cache")
    assert code == 2 and "only with a scenario" in err


@pytest.mark.slow
def test_runs_that_share_a_cache_do_not_disturb_each_other(log):
    log.write_text(log.read_text().replace('["json", "svg"]', '["json"]'))
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "gpuplan.cli", "run", str(log), "--output-format", "json"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        for _ in range(2)
    ]
    said = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert said[0] and said[0] == said[1]
    assert not list((log.parent / "cache").rglob("*.partial*"))


def test_init_writes_a_scenario_that_runs_as_it_is(gpuplan, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    code, _, err = gpuplan("init")
    assert code == 0 and "next: gpuplan run scenario.toml" in err
    text = Path("scenario.toml").read_text(encoding="utf-8")
    small = ("--set", "workload.synth.jobs=300", "--set", "study.sweep.resamples=40")
    code, out, err = gpuplan("run", "scenario.toml", *small)
    assert code == 0, err
    assert len(out.splitlines()) <= 45 and "--full shows the tables" in err
    code, out, err = gpuplan("run", "scenario.toml", *small, "--full")
    assert "no study takes" not in err
    for study in ("characterize", "pareto", "sweep", "compare"):
        assert f"# {study}\n$ gpuplan {study} seren.parquet" in out
    assert out.count("passed") == 2
    assert gpuplan("init")[0] == 3
    Path("scenario.toml").write_text("x", encoding="utf-8")
    assert gpuplan("init", "--force")[0] == 0
    assert Path("scenario.toml").read_text(encoding="utf-8") == text
    assert gpuplan("init", "plan.yaml")[0] == 2


def test_what_the_example_leaves_out_may_be_put_in(tmp_path):
    """Every line of the example that is commented out is right too."""
    from importlib.resources import files

    from gpuplan.cli.scenario.loading import load_scenario

    made.write_trace(tmp_path / "trace.parquet", 3)
    (tmp_path / "sacct.txt").touch()
    text = (files("gpuplan.cli.scenario") / "example.toml").read_text(encoding="utf-8")
    head, body = text.split("title =", 1)
    lines = [
        line.removeprefix("# ") if "=" in line or "# [" in line else line
        for line in ("title =" + body).splitlines()
    ]
    for source in ("trace =", "log =", "synth ="):
        kept = [
            line
            for line in lines
            if line.startswith(source) or not line.startswith(("trace =", "log =", "synth ="))
        ]
        path = tmp_path / "all.toml"
        path.write_text(head + "\n".join(kept), encoding="utf-8")
        scenario = load_scenario(path)
        assert [one.name for one in scenario.studies][-1] == "small_cluster"
        assert scenario.documents is not None and not scenario.warnings


def test_keys_tell_apart_what_differs(tmp_path):
    (tmp_path / "a,b").write_text("1", encoding="utf-8")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "d").write_text("2", encoding="utf-8")
    found = hashes_of(f"--speedup=table:{tmp_path}/a,b", f"{tmp_path}/c", "x" * 5000, "--a=\0")
    assert list(found) == [f"{tmp_path}/a,b", f"{tmp_path}/c/d"]
    keys = {key_of("study", a=1), key_of("study", a=2), key_of("trace", a=1), key_of("study", b=1)}
    assert len(keys) == 4


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert usual_folder() == tmp_path / ".cache" / "gpuplan"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert usual_folder() == tmp_path / "x" / "gpuplan"
    with open_cache(None) as cache:
        cache.keep("studies", "k", "text")
        assert cache.read("studies", "k") == "text" and cache.folder.exists()
    assert not cache.folder.exists()
    assert Cache(tmp_path).read("studies", "nothing") is None
