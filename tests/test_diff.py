"""What ``gpuplan diff`` says of two documents, and how it matches them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_diff import PARETO, changed_by, compared, output, version

from gpuplan.cli.diff.changes import compare
from gpuplan.cli.diff.gates import check_changes
from gpuplan.cli.diff.show import report_of
from gpuplan.cli.formats.render import as_csv, as_json, as_markdown, as_text


def test_nothing_changed():
    found = compared(PARETO, PARETO)
    assert not found.changed(0.0) and not found.answers and not found.asked and not found.only
    report = report_of(found, tolerance=0.0, top=5, gates=())
    assert report.headline == "Nothing changed: all 11 numbers are the same."
    assert report.answer == ()  # no table without a row


def test_no_number_changed_by_more_than_the_tolerance():
    new = changed_by("cheapest", to="srtf")
    new["knee"]["mean_jct_s"] = 3600.1
    report = report_of(compared(PARETO, new), tolerance=0.001, top=5, gates=())
    assert report.headline == "No number changed by more than 0.1%."
    assert [table.title for table in report.answer] == ["Other answers"]


@pytest.mark.parametrize("lost", [[], None, [None, None]])
def test_rows_of_one_document_are_counted_in_the_headline(lost):
    new = changed_by("points", to=lost)
    for old, its, side in ((PARETO, new, "old"), (new, PARETO, "new")):
        report = report_of(compared(old, its), tolerance=0.001, top=5, gates=())
        assert report.headline == (
            f"No number changed by more than 0.1%; 2 rows only in the {side} document."
        )


def test_the_replayed_time_at_the_knee_is_the_one_that_a_plan_is_compared_by():
    plan = {"knee": {"mean_jct_s": 100.0, "replay": {"mean_jct_s": 200.0}}}
    replay = {"knee": {"mean_jct_s": 100.0, "replay": {"mean_jct_s": 240.0}}}
    report = report_of(compared(plan, replay), tolerance=0.001, top=5, gates=())
    assert report.headline.startswith(
        "Mean JCT at the best trade-off rose 20.0% from 3.33 to 4 min."
    )


@pytest.mark.parametrize(("days", "count"), [(9.0, 1), (7.01, 0)])
def test_logs_of_different_lengths_are_warned_of(days, count):
    old, new = ({"today": {"window_s": 86_400.0 * one}, "jobs": 5} for one in (7.0, days))
    report = report_of(compared(old, new), tolerance=0.001, top=5, gates=())
    assert len(report.warnings) == count
    assert all(
        "covers 7 d, the new one 9 d: compare what is per month" in w for w in report.warnings
    )


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
    assert report.warnings == ("x: its rows have no names, so it is not compared",)


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
    report = report_of(found, tolerance=0.0, top=5, gates=())
    tables = {table.title: table for table in report.tables}
    assert tables["Options and inputs"].rows == [
        ("all", "seed", "0", "1"),
        ("a", "budget", '"2x"', '"3x"'),
    ]


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
