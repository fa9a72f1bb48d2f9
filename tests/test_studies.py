"""Commands run as studies: options by name, reports kept and nothing printed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.documents.emit import collecting
from gpuplan.cli.documents.studies import arguments_of, check_study, run_study, study_options


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.parquet"
    pl.DataFrame(
        {
            "submit_time": pl.Series(range(0, 40_000_000, 1_000_000)).cast(
                pl.Datetime("us", "UTC")
            ),
            "duration_s": [float(60 + i) for i in range(40)],
            "num_gpus": [1.0 + i % 2 for i in range(40)],
        }
    ).write_parquet(path)
    return path


def test_options_become_arguments() -> None:
    assert arguments_of("pareto", {"budget": ["1.2x", "2x"], "max_width": 8}) == [
        "--budget=1.2x,2x",
        "--max-width=8",
    ]
    assert arguments_of("sweep", {"set": ["checkpoint_s=20", "restore_s=5"]}) == [
        "--set=checkpoint_s=20",
        "--set=restore_s=5",
    ]
    assert arguments_of("sweep", {"include_running": True}) == ["--include-running"]
    assert arguments_of("sweep", {"include_running": False}) == []
    assert arguments_of("characterize", {"since": date(2026, 1, 31)}) == ["--since=2026-01-31"]


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("paretto", {}, "did you mean 'pareto'"),
        ("pareto", {"budgett": "2x"}, "did you mean 'budget'"),
        ("pareto", {"fail_if": "x > 1"}, "no option 'fail_if'"),
        ("pareto", {"quiet": True}, "no option 'quiet'"),
        ("sweep", {"include_running": "yes"}, "expected true or false"),
        ("pareto", {"budget": {"a": 1}}, "expected a text or a number"),
    ],
)
def test_what_is_no_option_is_refused(command: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        arguments_of(command, options)


def test_every_option_has_a_help() -> None:
    for command in ("characterize", "pareto", "sweep", "simulate"):
        assert all(option.help for option in study_options(command).values())


def test_a_study_keeps_its_report_and_prints_nothing(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run_study("pareto", [str(trace), *arguments_of("pareto", {"budget": "1.5x"})])
    assert report.command == "pareto"
    assert report.results["points"][0]["budget_x_load"] == pytest.approx(1.5)
    assert capsys.readouterr().out == ""


def test_collecting_ends_with_its_block(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError), collecting():
        raise UsageError("stopped")
    from gpuplan.cli.app.main import main

    assert main(["characterize", str(trace)]) == 0
    assert "40 jobs" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["characterize", "pareto", "sweep", "simulate", "compare"])
def test_options_are_checked_without_the_trace(command: str) -> None:
    check_study(command, ["not-there.parquet"])  # raises nothing


def test_a_checked_command_finds_its_own_mistakes() -> None:
    with pytest.raises(UsageError, match=r"--budget '1\.2y'"):
        check_study("pareto", ["not-there.parquet", "--budget=1.2y"])
    with pytest.raises(UsageError, match="expected key=value"):
        check_study("compare", ["not-there.parquet", "--set=capacity"])
    with pytest.raises(UsageError, match="--threshold"):
        check_study("sweep", ["not-there.parquet", "--threshold=soon"])


def test_a_study_talks_as_much_as_the_whole(trace: Path) -> None:
    from gpuplan.cli.app import messages

    messages.manners.quiet, messages.manners.debug = True, True
    try:
        run_study("characterize", [str(trace)])
        assert messages.manners.quiet and messages.manners.debug
    finally:
        messages.manners.quiet = messages.manners.debug = False
