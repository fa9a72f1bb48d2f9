"""``gpuplan diff``: what it says of two documents, how it matches them, and its gates."""

from __future__ import annotations

import copy
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
from hypothesis import given
from hypothesis import strategies as st
from support_docs import undocumented

from gpuplan.analysis.errors import InputError, UsageError
from gpuplan.cli.diff.changes import compare
from gpuplan.cli.diff.gates import check_changes, read_change
from gpuplan.cli.diff.read import Version, read_versions
from gpuplan.cli.diff.show import report_of
from gpuplan.cli.render import as_csv, as_json, as_markdown, as_text


def output(command: str, results: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the JSON output of a command."""
    return {
        "schema_version": 1,
        "command": command,
        "inputs": [{"path": "t.parquet", "sha256": "ab" * 32, "rows": 10}],
        "parameters": {"seed": 0, "ci": None},
        "results": results,
        "warnings": [],
        "gpuplan_version": "0.1.0",
    } | more


def version(document: dict[str, Any], path: str = "x.json") -> Version:
    studies = document.get("studies")
    named = {"": document} if studies is None else {one["name"]: one for one in studies}
    return Version(Path(path), "00", document["command"], named, document["gpuplan_version"])


def compared(old: dict[str, Any], new: dict[str, Any], command: str = "pareto"):
    return compare(version(output(command, old)), version(output(command, new)))


PARETO = {
    "jobs": 100,
    "load_gpus": 4.0,
    "price": None,
    "cheapest": "fifo",
    "knee": {"budget_gpus": 8.0, "mean_jct_s": 3600.0, "utilization": 0.5, "wait_s": 0.0},
    "points": [
        {"budget_gpus": 4.0, "mean_jct_s": 7200.0},
        {"budget_gpus": 8.0, "mean_jct_s": 3600.0},
    ],
    "duration_cdf": [{"duration_s": 1.0}],
    "by_hour": [1, 2],
}


def changed_by(*path: Any, to: Any) -> dict[str, Any]:
    """Return `PARETO` with one value changed."""
    new = copy.deepcopy(PARETO)
    place: Any = new
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return new


@pytest.fixture
def files(tmp_path):
    """Write two documents; returns their paths."""

    def write(old: Any, new: Any) -> tuple[Path, Path]:
        paths = tmp_path / "old.json", tmp_path / "new.json"
        for path, document in zip(paths, (old, new), strict=True):
            text = document if isinstance(document, str) else json.dumps(document)
            path.write_text(text, encoding="utf-8")
        return paths

    return write


# What has changed


def test_nothing_changed():
    found = compared(PARETO, PARETO)
    assert not found.changed(0.0) and not found.answers and not found.asked and not found.only
    report = report_of(found, tolerance=0.0, top=5, gates=())
    assert report.headline == "Nothing changed: all 11 numbers are the same."


def test_changes_are_told_with_their_size():
    found = compared(PARETO, changed_by("knee", "mean_jct_s", to=4500.0))
    (one,) = found.changed(0.001)
    assert (one.address, one.old, one.new) == ("knee.mean_jct_s", 3600.0, 4500.0)
    assert (one.change, one.share, one.unit) == (900.0, 0.25, "s")


@pytest.mark.parametrize(("tolerance", "count"), [(0.0, 1), (0.0009, 1), (0.001, 0), (1.0, 0)])
def test_the_tolerance_is_a_share_of_the_larger(tolerance, count):
    # 0.1% of 1000 is 1: a change of exactly the tolerance is none.
    found = compared({"jobs": 999}, {"jobs": 1000})
    assert len(found.changed(tolerance)) == count


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [
        (2.0, 3.0, 0.5),
        (-2.0, -3.0, -0.5),
        (0.0, 0.0, 0.0),
        (0.0, 2.0, float("inf")),
        (0.0, -2.0, float("-inf")),
        (1e-30, 2e-30, 1.0),
        (None, 2.0, None),
        (2.0, None, None),
    ],
)
def test_the_share_of_a_change(old, new, share):
    (one,) = compared({"a": old}, {"a": new}).numbers
    assert one.share == share
    assert one.is_above(0.0) == (old != new)


def test_rows_are_matched_by_what_they_are_about():
    old = {"points": [{"policy": p, "threshold_s": t, "cost_usd": c} for p, t, c in OLD_ROWS]}
    new = {"points": [{"policy": p, "threshold_s": t, "cost_usd": c} for p, t, c in NEW_ROWS]}
    found = compared(old, new, "sweep")
    assert [(one.address, one.change) for one in found.changed(0.0)] == [
        ("points[fixed, threshold_s=300].cost_usd", 1.0)
    ]
    assert [(one.name, one.side) for one in found.only] == [
        ("points[fixed, threshold_s=30]", "old"),
        ("points[fixed, threshold_s=900]", "new"),
    ]


OLD_ROWS = [("fixed", 30.0, 1.0), ("fixed", 300.0, 2.0), ("adaptive", 300.0, 3.0)]
NEW_ROWS = [("adaptive", 300.0, 3.0), ("fixed", 300, 3.0), ("fixed", 900.0, 9.0)]


def test_budgets_are_matched_as_multiples_of_the_load_where_that_matches_more():
    old = {"points": [{"budget_gpus": 4.0 * x, "budget_x_load": x} for x in (1.0, 2.0)]}
    new = {"points": [{"budget_gpus": 5.0 * x, "budget_x_load": x} for x in (1.0, 2.0)]}
    assert [one.address for one in compared(old, new).changed(0.0)] == [
        "points[budget_x_load=1].budget_gpus",
        "points[budget_x_load=2].budget_gpus",
    ]
    same = compared(old, old)
    assert same.numbers[0].address == "points[budget_gpus=4].budget_gpus"


def test_rows_within_rows_are_told_once():
    def rows(*classes: str) -> dict[str, Any]:
        widths = [{"job_class": name, "epoch": 0, "width": 2.0} for name in classes]
        return {"points": [{"budget_gpus": 4.0, "widths": widths}]}

    found = compared(rows("a", "b"), rows("b", "c"))
    assert [(one.name, one.side) for one in found.only] == [
        ("points[budget_gpus=4].widths[a]", "old"),
        ("points[budget_gpus=4].widths[c]", "new"),
    ]
    other = {"points": [{"budget_gpus": 5.0, "widths": []}]}
    assert [one.name for one in compared(rows("a"), other).only] == [
        "points[budget_gpus=4]",
        "points[budget_gpus=5]",
    ]


def test_rows_that_nothing_tells_apart_are_not_compared_and_that_is_said():
    found = compared({"a": 1, "x": [{"v": 1}, {"v": 2}]}, {"a": 1, "x": [{"v": 2}, {"v": 1}]})
    assert found.unmatched == ["x"] and [one.path for one in found.numbers] == ["a"]
    report = report_of(found, tolerance=0.0, top=5, gates=())
    assert report.warnings == ("x: nothing tells its rows apart, so it is not compared",)


def test_words_that_differ_are_answers():
    new = changed_by("cheapest", to="las") | {"price": {"source": "list"}, "recommended": True}
    found = compared(PARETO, new)
    assert [(one.name, one.old, one.new) for one in found.answers] == [
        ("cheapest", "fifo", "las"),
        ("price.source", None, "list"),
        ("recommended", None, "true"),
    ]
    assert not found.changed(0.0)


def test_what_was_asked_is_told():
    policy = {"label": "las", "settings": {"gpus": 8}}
    old = output("compare", {"jobs": 1}, parameters={"policies": [policy], "ci": None, "seed": 0})
    new = output(
        "compare",
        {"jobs": 1},
        parameters={"policies": [policy | {"settings": {"gpus": 16}}], "seed": 1, "fits": False},
        inputs=[{"path": "u.parquet", "sha256": "cd" * 32, "rows": 2000}],
        gpuplan_version="0.2.0",
    )
    found = compare(version(old), version(new))
    assert [(one.name, one.old, one.new) for one in found.asked] == [
        (
            "input",
            "t.parquet, 10 rows, SHA-256 abababababab",
            "u.parquet, 2,000 rows, SHA-256 cdcdcdcdcdcd",
        ),
        ("policies[las].settings.gpus", "8", "16"),
        ("seed", "0", "1"),
        ("gpuplan_version", "0.1.0", "0.2.0"),
    ]
    assert not found.same_inputs


VALUES = st.none() | st.integers(-5, 5) | st.floats(-1e6, 1e6) | st.sampled_from(["a", "b"])
ROWS = st.lists(st.tuples(st.sampled_from("pqrs"), VALUES), unique_by=lambda row: row[0])
RESULTS = st.fixed_dictionaries({}, optional={"a": VALUES, "b": VALUES, "rows": ROWS})


def with_rows(drawn: dict[str, Any]) -> dict[str, Any]:
    rows = [{"name": name, "v": value} for name, value in drawn.get("rows", [])]
    return {**drawn, "rows": rows, "one": {"x": 1.0}}


@given(RESULTS, RESULTS, st.randoms())
def test_laws_of_every_comparison(first, second, random):
    one, other = with_rows(first), with_rows(second)
    there, back = compared(one, other), compared(other, one)
    turned = {change.address: change for change in back.numbers}
    assert {change.address for change in there.numbers} == set(turned)
    for change in there.numbers:
        twin = turned[change.address]
        assert (change.old, change.new) == (twin.new, twin.old)
        assert change.is_above(0.01) == twin.is_above(0.01)
    assert {(row.name, row.side) for row in there.only} == {
        (row.name, "old" if row.side == "new" else "new") for row in back.only
    }
    shuffled = {**one, "rows": random.sample(one["rows"], len(one["rows"]))}
    again = compared(one, shuffled)
    assert not again.changed(0.0) and not again.answers and not again.only


def test_what_is_next_to_nothing_is_no_change_unless_any_is():
    found = compared({"peak_p": 1e-30, "a": 0.0}, {"peak_p": 2e-30, "a": 1e-13})
    assert not found.changed(0.001) and len(found.changed(0.0)) == 2


def test_what_was_asked_of_every_study_is_told_once():
    def document(seed: int, budget: str) -> dict[str, Any]:
        one = output("pareto", PARETO, name="a", parameters={"seed": seed, "budget": budget})
        other = output("sweep", {"jobs": 1}, name="b", parameters={"seed": seed})
        return output("report", {}, studies=[one, other])

    found = compare(version(document(0, "2x")), version(document(1, "3x")))
    tables = {table.title: table for table in report_of(found, **PLAIN).tables}
    assert tables["What was asked"].rows == [
        ("all", "seed", "0", "1"),
        ("a", "budget", '"2x"', '"3x"'),
    ]


PLAIN: dict[str, Any] = {"tolerance": 0.0, "top": 5, "gates": ()}


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("a]\n")
NAMES = st.sampled_from(["label", "policy", "name", "cost_usd", "jobs", "x.y", "", "timeline"])
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, ANY, max_size=4), st.dictionaries(NAMES, ANY, max_size=4))
def test_anything_that_is_json_can_be_compared_and_shown(old, new):
    found = compared(old, new, "compare")
    gates = check_changes(found, [f"{one.address} != 0" for one in found.numbers])
    report = report_of(found, tolerance=0.0, top=2, gates=gates)
    for text in (as_json(report), as_csv(report), as_markdown(report)):
        text.encode()
    as_text(report, io.StringIO())
    same = compared(old, old, "compare")
    assert not same.changed(0.0) and not same.only and not same.answers


# Gates on changes


@pytest.mark.parametrize(
    ("condition", "value", "tripped"),
    [
        ("knee.mean_jct > +10%", 0.25, True),
        ("knee.mean_jct_s > +25%", 0.25, False),
        ("knee.mean_jct >= +25%", 0.25, True),
        ("knee.mean_jct > +10m", 900.0, True),
        ("knee.mean_jct > +0.25h", 900.0, False),
        ("knee.mean_jct > +899", 900.0, True),
        ("knee.mean_jct != 0", 900.0, True),
        ("knee.mean_jct < -1%", 0.25, False),
        ("jobs != 0", 0.0, False),
        ("knee.budget < -1 gpus", -2.0, True),
        ("knee.budget < -20%", -0.25, True),
        ("knee.utilization > +4pp", 0.05, True),
        ("knee.utilization > +6pp", 0.05, False),
        ("knee.utilization > +9%", 0.1, True),
        ("knee.wait > +1000%", float("inf"), True),
        ("cost_usd > +$50", 60.0, True),
        ("cost_usd > +$60", 60.0, False),
        ("cost_usd > $+50", 60.0, True),
    ],
)
def test_a_gate_is_on_the_change(condition, value, tripped):
    new = PARETO | {"cost_usd": 160.0}
    new["knee"] = {"budget_gpus": 6.0, "mean_jct_s": 4500.0, "utilization": 0.55, "wait_s": 1.0}
    (gate,) = check_changes(compared(PARETO | {"cost_usd": 100.0}, new), [condition])
    assert gate.state == ("failed" if tripped else "passed"), gate
    assert gate.value == pytest.approx(value)


def test_of_rows_the_worst_that_trips_is_named():
    new = changed_by("points", 0, "mean_jct_s", to=14_400.0)
    new["points"][1]["mean_jct_s"] = 4500.0
    new["points"].reverse()
    found = compared(PARETO, new)
    (gate,) = check_changes(found, ["points.mean_jct > +5%"])
    assert (gate.path, gate.value) == ("points[budget_gpus=4].mean_jct_s", 1.0)
    assert gate.detail == "points[budget_gpus=4].mean_jct_s went from 2 to 4 h, +100.0%"
    (gate,) = check_changes(found, ["points[8].mean_jct > +25%"])
    assert (gate.path, gate.tripped) == ("points[budget_gpus=8].mean_jct_s", False)


def test_what_differs_by_rounding_alone_trips_nothing_and_is_told_as_the_same():
    new = changed_by("knee", "mean_jct_s", to=3600.0 * (1 + 2e-16 * 4))
    assert new["knee"]["mean_jct_s"] != 3600.0
    gates = check_changes(compared(PARETO, new), ["knee.mean_jct > +0%", "knee.mean_jct != 0"])
    assert [gate.tripped for gate in gates] == [False, False]
    assert {gate.detail for gate in gates} == {"knee.mean_jct_s is 60 min in both"}


def test_a_value_that_is_gone_is_not_checked():
    (gate,) = check_changes(
        compared({"jobs": 1, "wait_s": 3.0}, {"jobs": 1, "wait_s": None}), ["wait > +1%"]
    )
    assert (gate.state, gate.detail) == ("unchecked", "wait_s has no value in one of the two")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("knee.mean_jct > 10%", "a change has a sign"),
        ("cost_usd > $50", "a change has a sign"),
        ("jobs", "expected 'field operator value'"),
    ],
)
def test_a_condition_that_is_no_change_is_refused_before_the_work(condition, message):
    with pytest.raises(UsageError, match=message):
        read_change(condition)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("knee.mean_jct > +5pp", "knee.mean_jct_s is no share, so it has no percentage"),
        ("knee.mean_jct > +$5", "knee.mean_jct_s is not in dollars"),
        ("knee.mean_jcd > +5%", "did you mean knee.mean_jct_s"),
        ("mean_jct > +5%", "mean_jct may be knee.mean_jct_s or points.mean_jct_s"),
    ],
)
def test_a_condition_that_cannot_be_meant_is_an_error(condition, message):
    (gate,) = check_changes(compared(PARETO, PARETO), [condition])
    assert gate.state == "error" and message in gate.detail


# What is read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.json:1: is no JSON: Expecting value"),
        ('{\n"a": }', "x.json:2: is no JSON"),
        ("[]", "has no schema_version or no command or no gpuplan_version; expected JSON output"),
        ('{"schema_version": 1}', "has no command or no gpuplan_version"),
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": 1e999}', "1e999 is no number of JSON, or too large"),
        (f'{{"a": {"9" * 400}}}', "is no number of JSON, or too large"),
        ("[" * 100_000, "is no JSON output"),
        ("[" * 60 + "]" * 60, "it is more than 50 levels deep"),
        (r'{"a": "\ud800"}', "is no JSON output: 'utf-8' codec can't encode"),
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
    with pytest.raises(InputError, match="is no JSON output"):
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


# The command


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
        "Workload as before; GPUs at the knee fell 12.5% from 8 to 7 GPUs; mean JCT at the knee "
        "rose 100.0% from 60 min to 2 h; 2 of 11 numbers changed by more than 0.1%."
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
    assert "And 1 more row; JSON has all." in out and out.startswith("**Workload as before; ")


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
    assert "Workload as before; cost (fifo) rose 60.0% from $100.00 to $160.00" in out
    assert "new       pareto  all of it" in out


def test_what_came_or_went_is_told(gpuplan, files):
    old = output("simulate", {"jobs": 5, "cost_usd": 100.0}, name="a", inputs=["t.parquet"])
    new = output("simulate", {"jobs": 5, "cost_usd": None}, name="a", inputs=["u.parquet"])
    gone = output("simulate", {"jobs": 5}, name="b")
    paths = files(output("report", {}, studies=[old, gone]), output("report", {}, studies=[new]))
    code, out, err = gpuplan("diff", *paths)
    assert (code, err) == (0, "")
    shown = [line.split() for line in out.splitlines()]
    assert "cost (a) has no value now ($100.00 before);" in out
    assert ["cost", "a", "cost_usd", "$100.00", "-", "-", "-"] in shown
    assert ["a", "input", "t.parquet", "u.parquet"] in shown
    assert ["old", "b", "all", "of", "it"] in shown
    _, out, _ = gpuplan("diff", *reversed(paths))
    assert "cost (a) is $100.00 (no value before);" in out


def test_gates_are_test_cases_and_annotations(gpuplan, files, tmp_path, monkeypatch):
    summary, junit = tmp_path / "summary.md", tmp_path / "gates.xml"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    paths = files(output("pareto", PARETO), output("pareto", changed_by("jobs", to=90)))
    gates = ("--fail-if", "jobs < -5%", "--fail-if", "knee.mean_jct > +1%")
    code, _, err = gpuplan("diff", *paths, *gates, "--junit", junit)
    assert code == 1
    assert err.splitlines()[0] == (
        "::error title=gpuplan gate failed::jobs < -5%25 (jobs went from 100 to 90, -10.0%25)"
    )
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("**Jobs fell 10.0% from 100 to 90; cost as before; ")
    assert "| jobs &lt; -5% | failed |" in text
    cases = ET.fromstring(junit.read_bytes()).iter("testcase")
    assert [[part.tag for part in case] for case in cases] == [["failure"], ["system-out"]]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--tolerance", "soon"), 2, "--tolerance 'soon': expected a share from 0 to 1"),
        (("--tolerance", "101%"), 2, "--tolerance '101%': expected a share"),
        (("--tolerance", "nan"), 2, "--tolerance 'nan': expected a share"),
        (("--fail-if", "jobs > 5%"), 2, "a change has a sign"),
        (("--junit", "old.json"), 3, "old.json: is the input"),
        (("-o", "x.svg"), 2, "expected one of .json, .md, .csv, .txt"),
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
