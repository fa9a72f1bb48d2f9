"""A study is three files and one line; options, scenario, schema, manual and report follow."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

REQUEST = '''"""What ``gpuplan headcount`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from gpuplan.analysis.base.option import Group, Opt
from gpuplan.analysis.trace.selection import Selection
from gpuplan.planner.requests.declaration import ALWAYS, WORKLOAD, StudyRequest, study
from gpuplan.planner.requests.trace import TRACE


@study(
    "headcount",
    title="Who submits",
    example="gpuplan headcount t.parquet",
    doing="counting",
    usual_for=ALWAYS,
    compared={"count": (WORKLOAD, "people who submit")},
)
@dataclass(frozen=True, slots=True)
class HeadcountRequest(StudyRequest):
    """Count the users or groups of a log.

    Attributes:
        trace: a trace or a log.
        jobs: which of its jobs.
        of: what is counted.
        least: jobs that one must have submitted.
    """

    trace: Annotated[Path, TRACE]
    jobs: Annotated[Selection, Group(without=("spot",))] = field(default_factory=Selection)
    of: Annotated[Literal["user", "group"], Opt("What to count.", common=True)] = "user"
    least: Annotated[int, Opt("Jobs that one must have submitted.", low=1)] = 1
'''

STUDY = '''"""Count who submits."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.planner.requests.headcount import HeadcountRequest


@dataclass(frozen=True, slots=True)
class Headcount:
    """How many there are.

    Attributes:
        count: of users or groups.
    """

    count: int


@dataclass(frozen=True, slots=True)
class HeadcountStudy:
    """The answer."""

    results: Headcount
    inputs: tuple[InputFile, ...]
    warnings: tuple[str, ...]


def headcount(request: HeadcountRequest) -> HeadcountStudy:
    """Count them."""
    trace = read_trace(request.trace, request.jobs, columns=[request.of])
    sizes = trace.jobs[request.of].drop_nulls().value_counts()["count"]
    enough = sizes.filter(sizes >= request.least)
    return HeadcountStudy(Headcount(enough.len()), (trace_input(trace),), trace.notes)
'''

SHOW = '''"""``gpuplan headcount``: who submits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView
from gpuplan.cli.formats.report import Column, Table

if TYPE_CHECKING:
    from gpuplan.planner.studies.headcount import HeadcountStudy


def show(study: HeadcountStudy) -> StudyView:
    """Return the count as people see it."""
    count = study.results.count
    table = Table("Who submits", (Column("count", "count"),), [(count,)])
    return StudyView(headline=f"{count} submit.", tables=(table,))
'''

FILES = {
    "planner/requests/headcount.py": REQUEST,
    "planner/studies/headcount.py": STUDY,
    "cli/commands/headcount.py": SHOW,
}
LINE = '        "headcount": "Count the users or groups of a log.",\n'
BEFORE = '        "bill": "Show'


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Return a copy of the product with a study more, added as CONTRIBUTING says."""
    folder = tmp_path_factory.mktemp("house")
    for part in ("analysis", "cli", "planner", "simkit", "sample_traces"):
        skipped = shutil.ignore_patterns("*.nbi", "*.nbc")  # it runs no kernel
        shutil.copytree(ROOT / part, folder / "gpuplan" / part, ignore=skipped)
    for name, text in FILES.items():
        (folder / "gpuplan" / name).write_text(text)
    table = folder / "gpuplan" / "cli" / "app" / "lazy.py"
    before, found, after = table.read_text().partition(BEFORE)
    assert found
    table.write_text(before + LINE + found + after)
    return folder


LOG = "gpuplan/sample_traces/seren.csv"
SEVERAL = """
import json, runpy, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from gpuplan.cli.app.main import main

answers = []
for words in json.loads(sys.argv[1]):
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        if words[0].startswith("gpuplan."):
            sys.argv = words
            code = runpy.run_module(words[0], run_name="__main__") and 0
        else:
            code = main(words)
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""
SCENARIO = f"""
[workload]
trace = "{LOG}"
[study.headcount]
of = "group"
[output]
dir = "out"
formats = ["json", "md"]
"""
LINES = {
    "--help": ["--help"],
    "help": ["headcount", "--help"],
    "help-all": ["headcount", "--help-all"],
    "json": ["headcount", LOG, "--least", "2", "--output-format", "json"],
    "of job": ["headcount", LOG, "--of", "job"],
    "least 0": ["headcount", LOG, "--least", "0"],
    "onto the log": ["headcount", LOG, "-o", LOG],
    "run": ["run", "s.toml"],
    "report": ["report", LOG, "--study", "headcount", "-o", "page"],
    "all": ["headcount", LOG, "-o", "all.json"],
    "busy": ["headcount", LOG, "--least", "50", "-o", "busy.json"],
    "diff": ["diff", "all.json", "busy.json"],
    "schemas": ["gpuplan.cli.documents.result_schemas"],
    "manual": ["gpuplan.cli.app.manual"],
}


@pytest.fixture(scope="module")
def answers(house):
    """Return the (code, output, errors) of each line and module, all run in one process."""
    (house / "several.py").write_text(SEVERAL)
    (house / "s.toml").write_text(SCENARIO)
    done = subprocess.run(
        [sys.executable, "-m", "several", json.dumps(list(LINES.values()))],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(LINES, json.loads(done.stdout), strict=True))


def test_a_comparison_names_what_it_declares(answers):
    assert "people who submit fell" in " ".join(answers["diff"][1].split()).lower()


def test_a_report_that_names_no_study_has_it(house):
    program = "from gpuplan.cli.documents.assemble import usual_studies; print(usual_studies(()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(house)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['characterize', 'pareto', 'compare', 'headcount']"


def test_it_has_options_and_help(answers):
    whole, page, full = (answers[line][1] for line in ("--help", "help", "help-all"))
    assert "Count the users or groups of a log." in whole
    assert "--of" in page
    assert "--where" in page
    assert "Example:" in page
    assert "--least" not in page  # it is not common
    assert "--least N" in full


def test_it_answers_and_its_json_follows_its_schema(answers, house):
    from jsonschema import Draft202012Validator

    code, out, err = answers["json"]
    assert code == 0, err
    written = json.loads(out)
    assert written["results"]["count"] > 1
    assert written["parameters"]["of"] == "user"
    assert written["parameters"]["least"] == 2
    path = house / "gpuplan" / "cli" / "schemas" / "headcount.json"
    schema = json.loads(path.read_text())
    Draft202012Validator(schema).validate(written)
    least = schema["$defs"]["HeadcountParameters"]["properties"]["least"]
    assert least["description"] == "Jobs that one must have submitted"


def test_bad_values_are_refused(answers):
    of, least, output = (answers[line] for line in ("of job", "least 0", "onto the log"))
    assert of[0] == 2 and "'job': expected one of user, group" in of[2]
    assert least[0] == 2 and "--least" in least[2]
    assert output[0] == 3 and "is the input" in output[2]


def test_it_is_in_the_manual_in_a_scenario_and_in_a_report(answers, house):
    assert "## gpuplan headcount" in answers["manual"][1]
    assert [answers[line][0] for line in ("run", "report")] == [0, 0], answers
    (study,) = json.loads((house / "out" / "report.json").read_text())["studies"]
    assert study["parameters"]["of"] == "group"
    assert "Who submits" in (house / "page" / "report.html").read_text()
