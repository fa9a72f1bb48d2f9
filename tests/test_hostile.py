"""Hostile names through every command and every form of output, and into every error."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from support_hostile import CHECKS, HOSTILE, check_text

GATED = ("@octocat and @org/team", "a | b \\| c", "::add-mask::secret", "/close")
FORMS = (".txt", ".csv", ".json", ".md")
START = datetime(2026, 3, 2, tzinfo=UTC)

pytestmark = pytest.mark.no_cover  # whole commands again, for the names they show


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace in which every name is hostile."""
    count = 4 * len(HOSTILE)
    names = [HOSTILE[i % len(HOSTILE)] for i in range(count)]
    frame = pl.DataFrame(
        {
            "job_id": [f"{i}{name}" for i, name in enumerate(names)],
            "submit_time": [START + timedelta(seconds=300 * i) for i in range(count)],
            "duration_s": [float(60 + 37 * i % 900) for i in range(count)],
            "queue_s": [float(i % 60) for i in range(count)],
            "num_gpus": [float(1 + i % 2) for i in range(count)],
            **{name: names for name in ("user", "group", "job_class", "gpu_type")},
        }
    )
    path = tmp_path_factory.mktemp("hostile") / "=::t @octocat #1 ##[x]\x1b[2J\u202e.parquet"
    frame.write_parquet(path)
    return path


COMMANDS = {
    "characterize": ["--fits"],
    "pareto": ["--budget", "1.2x", "--no-replay"],
    "sweep": ["--threshold", "60", "--resamples", "0"],
    "simulate": ["--policy", "fifo"],
    "compare": ["--policy", "fixed", "--policy", "fifo"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_form_of_every_command_holds(gpuplan, trace, tmp_path, command):
    more = (".png",) if command == "simulate" else ()  # drawn as the SVG is
    files = [tmp_path / f"x{suffix}" for suffix in (*FORMS, ".svg", *more)]
    outputs = [text for file in files for text in ("-o", file)]
    code, out, err = gpuplan(command, trace, *COMMANDS[command], *outputs)
    assert code == 0, err
    check_text(out)
    check_text(err)
    for file in (file for file in files if file.suffix in CHECKS):
        CHECKS[file.suffix](file.read_text(encoding="utf-8"))


def test_two_traces_are_compared_under_hostile_names(gpuplan, trace, tmp_path):
    other = tmp_path / "$\\frac$ ::b @c.parquet"
    other.write_bytes(trace.read_bytes())
    files = [tmp_path / f"x{suffix}" for suffix in (*FORMS, ".svg")]
    code, out, err = gpuplan(
        "characterize", trace, other, *(t for file in files for t in ("-o", file))
    )
    assert code == 0, err
    check_text(out + err)
    for file in files:
        CHECKS[file.suffix](file.read_text(encoding="utf-8"))


def test_a_report_holds_in_every_file(gpuplan, trace, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    studies = ("--study", "characterize", "--study", "pareto")
    settings = ("--set", "pareto.no_replay=true", "--set", "characterize.top=100")
    gates = (f"characterize.groups.user.rows[{name}].jobs > 1" for name in GATED)
    options = [*settings, *(text for gate in gates for text in ("--fail-if", gate))]
    title = ("--title", "::error::@octocat <b>#1</b> ##[x]\x1b[2J")
    folder = tmp_path / "report"
    code, out, err = gpuplan("report", trace, "-o", folder, *studies, *title, *options)
    assert code == 1, err
    check_text(out)
    check_text(err)
    files = [path for path in folder.rglob("*") if path.suffix in CHECKS]
    assert {path.suffix for path in files} == {".html", ".md", ".json", ".xml", ".svg"}
    for file in (*files, summary):
        CHECKS[file.suffix](file.read_text(encoding="utf-8"))
    # What a diff of two such reports says of their rows
    document = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    for row in document["studies"][0]["results"]["groups"]["user"]["rows"]:
        row["jobs"] += 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(document))
    made = [tmp_path / f"diff{suffix}" for suffix in FORMS]
    outputs = [text for file in made for text in ("-o", file)]
    gate = "characterize.groups.user.rows.jobs > +1%"
    code, out, err = gpuplan(
        "diff", folder / "report.json", changed, *outputs, "--junit", tmp_path / "d.xml",
        "--fail-if", gate, "--top", "1000",
    )  # fmt: skip
    assert code == 1, err
    check_text(out)
    check_text(err)
    for file in (*made, tmp_path / "d.xml"):
        CHECKS[file.suffix](file.read_text(encoding="utf-8"))
    for service in ("GITHUB_ACTIONS", "GITLAB_CI"):
        with monkeypatch.context() as patch:
            patch.setenv(service, "true")
            code, out, err = gpuplan("diff", folder / "report.json", changed, "--fail-if", gate)
        commands = [line for line in err.split("\n") if line.lstrip().startswith("::")]
        assert len(commands) == (service == "GITHUB_ACTIONS")


def test_a_scenario_holds_in_every_form(gpuplan, trace, tmp_path):
    scenario = tmp_path / "s.toml"
    studies = "study.pareto = { no_replay = true }\nstudy.characterize = {}\n"
    scenario.write_text(f"workload.trace = {json.dumps(str(trace))}\n{studies}", encoding="utf-8")
    for form, suffix in (("table", ".txt"), ("json", ".json"), ("md", ".md")):
        for more in ((), ("--list",)):
            options = ("--output-format", form, "--cache", tmp_path / "cache", *more)
            code, out, err = gpuplan("run", scenario, *options)
            assert code == 0, err
            CHECKS[suffix](out)
            check_text(err)


@pytest.mark.parametrize("name", HOSTILE)
def test_errors_show_names_of_files_columns_and_cells(gpuplan, tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = name.replace("/", "_").replace("\0", "")[:80] + ".csv"
    cell = name.replace('"', '""')
    Path(file).write_text(f'job,"{cell}",d\n1,"{cell}",2\n', encoding="utf-8", newline="")
    paths = (f"./{file}", f"./missing {file}")
    for path in paths:
        for arguments in (
            ("ingest", path, "-o", "t.parquet"),
            ("ingest", path, "-o", "t.parquet", "--map", f"submit_time={name}"),
            ("ingest", path, "-o", "t.parquet", "--map", "submit_time=job", "--map", "num_gpus=d"),
            ("prices", path, "-o", "p.parquet"),
            ("characterize", path),
            ("pareto", path, "--speedup", f"table:{path}"),
            ("diff", path, path),
            ("run", path),
            ("report", path, "-o", "r", "--fail-if", f"jobs[{name}] > 1"),
        ):
            code, out, err = gpuplan(*arguments)
            assert code in (0, 1, 2, 3), (arguments, err)
            check_text(out)
            check_text(err)
    code, _, err = gpuplan("characterize", f"./{file}", "--debug")
    check_text(err)


def test_a_name_that_is_no_text_is_told(gpuplan, trace, tmp_path):
    path = os.fsencode(tmp_path) + b"/t\xff.parquet"
    try:
        Path(os.fsdecode(path)).write_bytes(trace.read_bytes())
    except OSError:
        pytest.skip("this file system has no such names")
    code, _, err = gpuplan("characterize", os.fsdecode(path), "-o", tmp_path / "x.json")
    assert code == 2 and r"must be UTF-8, got" in err and r"t\xff.parquet" in err


def test_rejected_rows_stay_raw_and_the_account_of_them_does_not(gpuplan, tmp_path):
    log = tmp_path / "log.csv"
    lines = [f'{i},2026-03-02 00:00:00,"{c}",1' for i, c in enumerate(("=1\x1b[2J", "::error::"))]
    log.write_text("\n".join(["id,t,d,g", *lines]) + "\n", encoding="utf-8")
    columns = {"job_id": "id", "submit_time": "t", "duration_s": "d", "num_gpus": "g"}
    options = [text for pair in columns.items() for text in ("--map", "=".join(pair))]
    out_file = tmp_path / "t.parquet"
    code, out, err = gpuplan(
        "ingest", log, "-o", out_file, *options, "--time-zone", "UTC", "--max-rejects", "100%"
    )
    check_text(out + err)
    rejected = pl.read_parquet(tmp_path / "t.rejects.parquet")
    assert any("\x1b[2J" in str(cell) for row in rejected.rows() for cell in row), (code, err)
