"""What a CI service gets, by its variables; without them nothing is written."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from gpuplan.cli.documents.gates import MOST_SUMMARY_BYTES, announce, gates_table
from gpuplan.cli.gates.gates import allowing, check

RESULTS = {"jobs": 100, "share": 0.5, "wait_s": None}
GATES = check(RESULTS, ["jobs > 1", "share > 90%", "wait > 1s", "nobs > 1"])
GITHUB = {"GITHUB_ACTIONS": "true"}


def markdown() -> str:
    return "| a | é |\n"


def test_nothing_is_said_without_a_service(capsys):
    announce(GATES, lambda: pytest.fail("no summary is wanted"), environment={})
    announce(GATES, markdown, environment={"GITHUB_ACTIONS": "false", "GITLAB_CI": ""})
    assert capsys.readouterr() == ("", "")


def test_github_gets_a_command_per_gate_that_needs_a_look(capsys):
    announce(GATES, lambda: pytest.fail("no summary is wanted"), environment=GITHUB)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "::error title=gpuplan gate failed::jobs > 1 (jobs is 100, limit 1)",
        "::error title=gpuplan gate not checked::wait > 1s (wait_s has no value)",
        "::error title=gpuplan invalid gate::nobs > 1 (no field 'nobs' with a number; "
        "did you mean jobs?)",
    ]


def test_a_gate_that_may_be_unchecked_is_a_warning(capsys):
    announce(allowing(GATES[2:3], allow_unchecked=True), markdown, environment=GITHUB)
    assert capsys.readouterr().err.startswith("::warning title=gpuplan gate not checked::wait")


def test_a_command_stays_one_line_and_one_command(capsys):
    (gate,) = check(RESULTS, ["share > 10%\n::error::forged"])
    announce([gate, *check(RESULTS, ["share > 10%"])], markdown, environment=GITHUB)
    forged, plain = capsys.readouterr().err.splitlines()
    assert "%0A::error::forged" in forged
    assert plain.endswith("::share > 10%25 (share is 50.0%25, limit 10.0%25)")


def test_the_summary_of_a_step_is_appended_to(tmp_path, capsys):
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    for _ in range(2):
        announce((), markdown, environment={"GITHUB_STEP_SUMMARY": str(path)})
    assert path.read_text(encoding="utf-8") == "before\n" + "| a | é |\n\n" * 2
    assert capsys.readouterr() == ("", "")


def test_a_summary_that_cannot_be_written_fails_nothing(tmp_path, capsys):
    announce((), markdown, environment={"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "x.md")})
    assert "cannot be written" in capsys.readouterr().err
    path = tmp_path / "summary.md"
    path.write_bytes(b"x" * (MOST_SUMMARY_BYTES - 5))
    announce((), markdown, environment={"GITHUB_STEP_SUMMARY": str(path)})
    assert "has no room" in capsys.readouterr().err
    assert path.stat().st_size == MOST_SUMMARY_BYTES - 5


@pytest.mark.parametrize(("gates", "folded"), [(GATES, ""), (GATES[1:2], "[collapsed=true]")])
def test_gitlab_gets_a_section_of_the_log(gates, folded, capsys):
    announce(gates, markdown, environment={"GITLAB_CI": "true"}, clock=lambda: 1700000000.5)
    out, err = capsys.readouterr()
    assert out == ""
    section = re.fullmatch(
        r"\x1b\[0Ksection_start:1700000000:(gpuplan_gates_[0-9a-f]{8})(\[[^]]*\])?\r\x1b\[0K"
        r"gpuplan gates: 1 of \d passed\n(.*)\x1b\[0Ksection_end:1700000000:\1\r\x1b\[0K\n",
        err,
        re.DOTALL,
    )
    assert section is not None and (section[2] or "") == folded
    assert len(section[3].splitlines()) == len(gates)
    assert "passed: share > 90% (share is 50.0%, limit 90.0%)" in section[3]


def test_gitlab_gets_no_empty_section(capsys):
    announce((), markdown, environment={"GITLAB_CI": "true"})
    assert capsys.readouterr().err == ""


def test_the_table_shows_conditions_as_they_are():
    assert "| share &gt; 90% | passed | share is 50.0%, limit 90.0% |" in gates_table(GATES)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.parquet"
    times = pl.Series(range(0, 40_000_000, 1_000_000)).cast(pl.Datetime("us", "UTC"))
    frame = {"submit_time": times, "duration_s": [60.0 + i for i in range(40)], "num_gpus": 1.0}
    pl.DataFrame(frame).write_parquet(path)
    return path


def test_a_command_with_gates_tells_the_service(gpuplan, trace, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code, plain, err = gpuplan("characterize", trace, "--output-format", "json")
    assert code == 0 and "::" not in err and not summary.exists()
    code, out, err = gpuplan(
        "characterize", trace, "--output-format", "json", "--fail-if", "jobs > 1"
    )
    assert code == 1 and out == plain
    assert "::error title=gpuplan gate failed::jobs > 1 (jobs is 40, limit 1)\n" in err
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("**Today: ") and "| jobs &gt; 1 | failed | jobs is 40, limit 1 |" in text


def test_a_report_tells_the_service_once(gpuplan, trace, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    made = tmp_path / "report"
    options = ("--study", "characterize", "--formats", "md", "--fail-if", "jobs > 1")
    code, _, err = gpuplan("report", trace, "-o", made, *options)
    assert code == 1, err
    assert err.count("::error") == 1
    assert (
        summary.read_text(encoding="utf-8").rstrip()
        == (made / "report.md").read_text(encoding="utf-8").rstrip()
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [("o'brien", "o'brien"), ("a,b::c", "a,b::c"), ("x%\n::error::y", "x%25%0A::error::y")],
)
def test_the_title_of_a_command_holds_no_name_of_a_log(name, shown, capsys):
    results = {"users": [{"name": name, "jobs": 3}]}
    gates = check(results, [f"users[{name}].jobs > 1", f"users[{name}].hours > 1"])
    announce(gates, lambda: pytest.fail("no summary is wanted"), environment=GITHUB)
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 2
    titles = re.findall(r"^::error title=([^:]*)::", told, re.MULTILINE)
    assert titles == ["gpuplan gate failed", "gpuplan invalid gate"]
    assert f"::users[{shown}].jobs > 1" in told
