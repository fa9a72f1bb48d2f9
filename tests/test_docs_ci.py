"""The examples for CI services run as they stand, with stand-ins for pip and git alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the dev extra")
ROOT = Path(__file__).parents[1]
CI = ROOT / "docs" / "ci"
SCENARIO = """
workload.synth = {{ preset = "seren", jobs = {jobs}, days = 1, seed = 1 }}
study.pareto = {{ no_replay = true }}
gates.fail_if = "pareto.jobs > {most}"
"""


def github_steps():
    workflow = yaml.safe_load((CI / "github.yml").read_text())
    (job,) = workflow["jobs"].values()
    # GitHub runs each step in a shell of its own that stops at the first error; later ones run
    # if they say so.
    return [(step["run"], step.get("if")) for step in job["steps"] if "run" in step]


def gitlab_steps():
    (job,) = yaml.safe_load((CI / "gitlab.yml").read_text()).values()
    return [("\n".join(job["script"]), None)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A checkout with the base branch in base, and commands that do nothing for pip and git."""
    tools = tmp_path / "tools"
    for folder in (tools, tmp_path / "base"):
        folder.mkdir()
    for name in ("pip", "git"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    path = (str(tools), str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def scenarios(project, *, base_jobs, jobs, most):
    (project / "base/gpuplan.toml").write_text(SCENARIO.format(jobs=base_jobs, most=most))
    (project / "gpuplan.toml").write_text(SCENARIO.format(jobs=jobs, most=most))


def run(project, steps):
    """Run the steps as the service would; returns the exit code of the job and what it says."""
    code, said = 0, ""
    for script, when in steps:
        if code and when != "always()":
            continue
        shell = ["bash", "-e", "-o", "pipefail", "-c", script]
        done = subprocess.run(shell, cwd=project, capture_output=True, text=True, check=False)
        code = code or done.returncode
        said += done.stdout + done.stderr
    return code, said


def test_github_lets_no_change_pass_and_shows_the_report(project, monkeypatch):
    scenarios(project, base_jobs=300, jobs=300, most=10_000)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    code, said = run(project, github_steps())
    assert code == 0 and "::error" not in said, said
    summary = (project / "summary.md").read_text()
    assert summary.count("pareto.jobs &gt; 10000") == 1  # of this branch, not of the base
    assert "knee.budget &gt; +10%" in summary
    written = {path.name for path in (project / "report").iterdir()}
    assert written == {"report.html", "report.md", "report.json", "junit.xml", "diff.xml"}


def test_gitlab_compares_and_then_keeps_the_exit_code_of_a_gate(project, monkeypatch):
    scenarios(project, base_jobs=300, jobs=300, most=10)
    monkeypatch.setenv("GITLAB_CI", "true")
    code, said = run(project, gitlab_steps())
    assert code == 1 and "gate tripped: pareto.jobs" in said, said
    assert said.count("section_start") == 2, said  # the scenario's gates and those on the change
    (job,) = yaml.safe_load((CI / "gitlab.yml").read_text()).values()
    for file in job["artifacts"]["reports"]["junit"]:
        assert (project / file).is_file()
    assert (project / "report/report.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("base", ["no = scenario", "report"])
def test_the_request_that_brings_the_scenario_is_not_compared(project, monkeypatch, base):
    scenarios(project, base_jobs=300, jobs=300, most=10_000)
    there = project / "base/gpuplan.toml"
    if base == "no = scenario":
        there.write_text(base)
    else:
        there.unlink()
    if base == "report":  # one that the base branch keeps is not of its scenario
        (project / "base/report").mkdir()
        (project / "base/report/report.json").write_text("{}")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, said = run(project, github_steps())
    assert code == 0 and "::notice title=gpuplan::not compared" in said, said
    monkeypatch.delenv("GITHUB_ACTIONS")
    (project / "report/report.html").unlink()
    code, said = run(project, gitlab_steps())
    assert code == 0 and "not compared: the target branch" in said, said
    assert (project / "report/report.html").is_file()


def test_without_a_base_a_gate_trips_as_ever(project):
    scenarios(project, base_jobs=300, jobs=300, most=10)
    (project / "base/gpuplan.toml").unlink()
    assert [run(project, steps())[0] for steps in (github_steps, gitlab_steps)] == [1, 1]
