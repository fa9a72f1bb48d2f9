"""Commands run as studies: options by name, reports kept and nothing printed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.documents.studies import (
    check_study,
    given_options,
    read_study,
    run_study,
    study_options,
    words_of,
)


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


def arguments_of(command: str, options: dict[str, object]) -> list[str]:
    return list(words_of(given_options(command, options)))


def test_options_are_shown_as_arguments() -> None:
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
    report = run_study("pareto", given_options("pareto", {"budget": "2x"}), trace=trace)
    assert report.command == "pareto"
    assert report.results["points"][0]["budget_x_load"] == pytest.approx(2)
    assert capsys.readouterr().out == ""


def test_a_study_never_passes_through_the_command_line(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuplan.cli.app import main

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a study has started the program again")

    monkeypatch.setattr(main, "app", refuse)
    given = given_options("compare", {"policy": ["fifo", "srtf"], "gpus": 4, "seed": 7})
    report = run_study("compare", given, trace=trace)
    assert [one["policy"] for one in report.results["policies"]] == ["fifo", "srtf"]
    assert (report.parameters["gpus"], report.parameters["seed"]) == (4, 7)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("characterize", {"top": 3, "where": "num_gpus > 1", "since": date(1970, 1, 1)}),
        ("pareto", {"budget": ["1.5x", "2x"], "weight": ["bert=2"], "no_replay": True}),
        ("sweep", {"threshold": "30,none", "set": ["checkpoint_s=20"], "resamples": 0}),
        ("simulate", {"policy": "las", "gpus": 8, "deadline": "inferred"}),
        ("compare", {"policy": ["hpa", "fixed:threshold_s=60"], "parallel": 1}),
    ],
)
def test_options_by_name_make_the_request_of_the_command_line(
    command: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuplan.cli.app.main import execute
    from gpuplan.cli.documents.study_command import StudyCommand

    requests = []
    monkeypatch.setattr(StudyCommand, "show", lambda self, _, study: requests.append(study))
    given = given_options(command, options)
    execute([command, "trace.parquet", *words_of(given)])
    assert read_study(command, given, trace="trace.parquet").request == requests[0].request


@pytest.mark.parametrize("command", ["characterize", "pareto", "sweep", "simulate", "compare"])
def test_options_are_checked_without_the_trace(command: str) -> None:
    check_study(command, (), trace="not-there.parquet")  # raises nothing


def test_a_checked_command_finds_its_own_mistakes() -> None:
    def check(command: str, **options: object) -> None:
        check_study(command, given_options(command, options), trace="not-there.parquet")

    with pytest.raises(UsageError, match=r"--budget '1\.2y'"):
        check("pareto", budget="1.2y")
    with pytest.raises(UsageError, match="expected key=value"):
        check("compare", set="capacity")
    with pytest.raises(UsageError, match="--threshold"):
        check("sweep", threshold="soon")


def test_a_value_of_another_kind_is_told_as_on_the_command_line() -> None:
    from gpuplan.cli.app.main import CLICK_ERROR
    from gpuplan.cli.app.parser_errors import usage_message

    with pytest.raises(CLICK_ERROR) as error:
        check_study("characterize", given_options("characterize", {"top": 2.5}), trace="t.parquet")
    assert usage_message(error.value) == (
        "--top must be a whole number, got '2.5'\n  next: gpuplan characterize --help"
    )


def test_a_study_talks_as_much_as_the_whole(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpuplan.cli.app import messages

    messages.manners.quiet, messages.manners.debug = True, True
    try:
        run_study("simulate", (), trace=trace)
        assert messages.manners.quiet and messages.manners.debug
        assert capsys.readouterr().err == ""
    finally:
        messages.manners.quiet = messages.manners.debug = False
