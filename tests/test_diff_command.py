"""``gpuplan diff`` on files: which ones it reads and refuses, and what it prints of them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import threading
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from support_diff import PARETO, changed_by, output
from support_docs import undocumented

from gpuplan.analysis.base.errors import InputError
from gpuplan.cli.diff.read import read_versions


@pytest.fixture
def files(tmp_path):
    """Write two documents; returns their paths."""

    def write(old: dict[str, Any], new: dict[str, Any]) -> tuple[Path, Path]:
        paths = tmp_path / "old.json", tmp_path / "new.json"
        for path, document in zip(paths, (old, new), strict=True):
            path.write_text(json.dumps(document), encoding="utf-8")
        return paths

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.json:1: is not JSON: Expecting value"),
        ('{\n"a": }', "x.json:2: is not JSON"),
        ("[]", "has no schema_version or no command or no gpuplan_version; expected JSON output"),
        ('{"schema_version": 1}', "has no command or no gpuplan_version"),
        ('{"a": NaN}', "NaN is not a number of JSON"),
        ('{"a": 1e999}', "1e999 is not a number of JSON, or is too large"),
        (f'{{"a": {"9" * 400}}}', "is not a number of JSON, or is too large"),
        (f'{{"a": {17 * 10**307}}}', "is not a number of JSON, or is too large"),
        ("[" * 100_000, "is not JSON output of gpuplan"),
        ("[" * 60 + "]" * 60, "it is more than 50 levels deep"),
        (r'{"a": "\ud800"}', "it has half of a surrogate pair"),
        (json.dumps(output("pareto", {}, schema_version=2)), "has schema_version 2; expected 1"),
        (json.dumps(output("pareto", [])), "it has no results"),
        (json.dumps(output("report", {}, studies=[{"name": "a"}])), "study 1 has no command"),
        (json.dumps(output("report", {}, studies=[3])), "study 1 has no name"),
    ],
)
def test_what_is_no_output_is_refused(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_versions(path, path)
    assert message in str(caught.value) and caught.value.exit_code == 3


def test_a_pipe_is_read_and_so_is_a_mark_of_the_byte_order(tmp_path):
    pipe, path = tmp_path / "pipe", tmp_path / "x.json"
    text = json.dumps(output("pareto", PARETO))
    path.write_text(text, encoding="utf-8-sig")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    old, new = read_versions(pipe, path)
    writer.join()
    assert old.studies == new.studies
    assert old.sha256 == hashlib.sha256(text.encode()).hexdigest() != new.sha256


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"x\.json: is not JSON; expected JSON output of gpuplan"):
        read_versions(path, path)


def test_two_studies_of_one_name_are_refused(files):
    study = output("pareto", {"jobs": 1}, name="a")
    document = output("report", {}, studies=[study, study])
    with pytest.raises(InputError, match="has two studies named 'a'"):
        read_versions(*files(document, document))


def test_different_commands_are_refused(files):
    paths = files(output("pareto", {"jobs": 1}), output("sweep", {"jobs": 1}))
    with pytest.raises(InputError, match="expected two outputs of one command"):
        read_versions(*paths)
    reports = [
        output("report", {}, studies=[output(command, {"jobs": 1}, name="a")])
        for command in ("pareto", "sweep")
    ]
    with pytest.raises(InputError, match="study 'a' is of gpuplan sweep"):
        read_versions(*files(*reports))


def test_every_key_is_documented(gpuplan, files):
    new = changed_by("cheapest", to="las") | {"jobs": 90}
    new["points"] = new["points"][:1]
    paths = files(
        output("pareto", PARETO), output("pareto", new, parameters={"seed": 1, "ci": None})
    )
    code, out, _ = gpuplan("diff", *paths, "--output-format", "json", "--fail-if", "jobs > +1%")
    results = json.loads(out)["results"]
    assert code == 0 and all(results[name] for name in ("changes", "answers", "asked", "only"))
    assert undocumented(results, ["gates.md"]) == []


def test_the_sentence_names_the_largest_change_of_each_subject(gpuplan, files):
    new = changed_by("knee", "mean_jct_s", to=7200.0)
    new["knee"]["budget_gpus"] = 7.0
    code, out, err = gpuplan("diff", *files(output("pareto", PARETO), output("pareto", new)))
    assert (code, err) == (0, "")
    assert " ".join(out.split()).startswith(
        "GPUs at the best trade-off fell 12.5% from 8 to 7 GPUs; planned mean JCT at the best "
        "trade-off rose 100.0% from 60 min to 2 h. Workload is unchanged. 2 of 11 "
        "numbers changed by more than 0.1%."
    )


def test_every_form_has_the_changes(gpuplan, files, tmp_path):
    new = changed_by("points", 0, "mean_jct_s", to=7000.0)
    paths = files(output("pareto", PARETO), output("pareto", new))
    code, out, _ = gpuplan("diff", *paths, "--output-format", "json", "--fail-if", "jobs != 0")
    results = json.loads(out)["results"]
    assert code == 0 and (results["numbers"], results["changed"]) == (11, 1)
    assert results["changes"] == [
        {
            "about": None,
            "study": None,
            "field": "points[budget_gpus=4].mean_jct_s",
            "old": 7200.0,
            "new": 7000.0,
            "change": -200.0,
            "change_share": pytest.approx(-1 / 36),
            "unit": "s",
        }
    ]
    assert [gate["state"] for gate in results["gates"]] == ["passed"]
    code, out, _ = gpuplan("diff", *paths, "--output-format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["field"] for row in rows][-1] == "points[budget_gpus=4].mean_jct_s"
    assert rows[0] == {
        **{"about": "workload", "study": "", "field": "jobs", "old": "100", "new": "100"},
        **{"change": "0", "change_share": "0.0", "unit": ""},
    }
    code, out, _ = gpuplan("diff", *paths, "--output-format", "md", "--top", "0")
    assert "And 1 more row; JSON has all." in out
    assert out.startswith("**Workload, cost and completion time are unchanged. ")


def test_several_studies_are_compared_by_name(gpuplan, files):
    def document(cost: float, *more: dict[str, Any]) -> dict[str, Any]:
        simulated = output("simulate", {"jobs": 5, "cost_usd": cost}, name="fifo")
        return output("report", {}, studies=[*more, simulated])

    other = output("pareto", PARETO, name="pareto")
    paths = files(document(100.0), document(160.0, other))
    code, out, err = gpuplan(
        "diff", *paths, "--fail-if", "fifo.cost > +$50", "--fail-if", "jobs < -1"
    )
    assert code == 1
    assert err == (
        "error: gate tripped: fifo.cost > +$50"
        " (fifo.cost_usd went from $100.00 to $160.00, +60.0%)\n"
    )
    assert "Cost (fifo) rose 60.0% from $100.00 to $160.00" in out
    assert "new       pareto  all of it" in out


def test_what_came_or_went_is_told(gpuplan, files):
    old = output("simulate", {"jobs": 5, "cost_usd": 100.0}, name="a", inputs=["t.parquet"])
    new = output("simulate", {"jobs": 5, "cost_usd": None}, name="a", inputs=["u.parquet"])
    gone = output("simulate", {"jobs": 5}, name="b")
    paths = files(output("report", {}, studies=[old, gone]), output("report", {}, studies=[new]))
    code, out, err = gpuplan("diff", *paths)
    assert (code, err) == (0, "--full shows 1 more table\n")
    code, out, err = gpuplan("diff", *paths, "--full")
    assert (code, err) == (0, "")
    shown = [line.split() for line in out.splitlines()]
    assert "Cost (a) has no value now ($100.00 before)." in out
    assert ["cost", "a", "cost_usd", "$100.00", "-", "-", "-"] in shown
    assert ["a", "input", "t.parquet", "u.parquet"] in shown
    assert ["old", "b", "all", "of", "it"] in shown
    _, out, _ = gpuplan("diff", *reversed(paths))
    assert "Cost (a) is $100.00 (no value before)." in out


def test_gates_are_test_cases_and_annotations(gpuplan, files, tmp_path, monkeypatch):
    summary, junit = tmp_path / "summary.md", tmp_path / "gates.xml"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    paths = files(output("pareto", PARETO), output("pareto", changed_by("jobs", to=90)))
    gates = ("--fail-if", "jobs < -5%", "--fail-if", "knee.mean_jct > +1%")
    code, _, err = gpuplan("diff", *paths, *gates, "--junit", junit)
    assert code == 1
    assert err.splitlines()[:2] == [
        f"wrote {junit}",
        "::error title=gpuplan gate failed::jobs < -5%25 (jobs went from 100 to 90, -10.0%25)",
    ]
    text = summary.read_text(encoding="utf-8")
    assert text.startswith(
        "**Jobs fell 10.0% from 100 to 90. Cost and completion time are unchanged. "
    )
    assert "| jobs &lt; -5% | failed |" in text
    cases = ET.fromstring(junit.read_bytes()).iter("testcase")
    assert [[part.tag for part in case] for case in cases] == [["failure"], ["system-out"]]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--tolerance", "soon"), 2, "--tolerance 'soon': expected a share from 0 to 1"),
        (("--tolerance", "101%"), 2, "--tolerance '101%': expected a share"),
        (("--tolerance", "nan"), 2, "--tolerance must be a finite number"),
        (("--fail-if", "jobs > 5%"), 2, "a change has a sign"),
        (("--junit", "old.json"), 3, "old.json: is the input"),
        (("-o", "x.svg"), 2, "expected a name that ends in one of .json, .md, .csv, .txt"),
        (("--fail-if", "nobs > +5%"), 2, "did you mean jobs"),
    ],
)
def test_what_cannot_be_meant_is_refused(gpuplan, files, monkeypatch, arguments, code, message):
    paths = files(output("pareto", PARETO), output("pareto", PARETO))
    monkeypatch.chdir(paths[0].parent)
    found, _, err = gpuplan("diff", "old.json", "new.json", *arguments)
    assert found == code and message in " ".join(err.split())


def test_a_file_that_is_not_there_is_named(gpuplan, tmp_path):
    code, _, err = gpuplan("diff", tmp_path / "no.json", tmp_path / "no.json")
    assert code == 3 and "no.json: no such file" in err
