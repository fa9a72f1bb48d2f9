"""How ``gpuplan diff`` finds a row again: by what was requested, never by what was computed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support_diff import PARETO, compared, output
from support_document import write_trace

from gpuplan.cli.diff.gates import check_changes


@pytest.fixture
def pair(gpuplan, tmp_path):
    """Returns a function that runs a command twice and gates the change of the two results."""

    def run(command: list[str], first: list[str], second: list[str], condition: str):
        trace = tmp_path / "t.parquet"
        write_trace(trace)
        paths = [tmp_path / "old.json", tmp_path / "new.json"]
        for path, more in zip(paths, (first, second), strict=True):
            code, _, err = gpuplan(command[0], trace, *command[1:], *more, "-o", path)
            assert code == 0, err
        return gpuplan("diff", *paths, "--fail-if", condition)

    return run


@pytest.mark.parametrize(
    "condition", ["points[fixed, threshold_s=60].cost > +1%", "cases.closed_form.best_cost > +1%"]
)
def test_points_of_a_sweep_are_found_again_after_a_price_change(pair, condition):
    prices = [["--set", f"serverless_usd_per_gpu_h={usd}"] for usd in (2, 9)]
    code, _, err = pair(["sweep", "--threshold", "60,300", "--resamples", "0"], *prices, condition)
    assert code == 1
    assert err.splitlines()[-1].startswith(f"error: gate tripped: {condition} (")


@pytest.mark.parametrize(
    "row",
    [
        "points[15gpu].utilization",
        "points[1.2x].budget",
        "points[budget_gpus=15].utilization",
        "points[target_jct_s=3000].budget",
    ],
)
def test_budgets_in_any_unit_are_found_again_after_a_change_of_the_load(pair, row):
    requested = ["--budget", "1.2x,15", "--target-jct", "3000s", "--no-replay"]
    change = ["--scale-interarrival", "0.9"]
    code, _, err = pair(["pareto", *requested], [], change, f"{row} > +5%")
    assert code == 1 and f"error: gate tripped: {row} > +5% (points[" in err


def rows(name: str, *found: dict[str, Any]) -> dict[str, Any]:
    return {"jobs": 1, name: list(found)}


def sweep_row(threshold_s: float, ratio: float, cost_usd: float) -> dict[str, Any]:
    row = {"policy": "fixed", "threshold_s": threshold_s, "capacity": None}
    return row | {"price_ratio": ratio, "cost_usd": cost_usd}


def test_price_ratios_tell_rows_apart_where_several_were_requested():
    old = rows("points", sweep_row(60.0, 0.3, 1.0), sweep_row(60.0, 0.5, 2.0))
    new = rows("points", sweep_row(60.0, 0.5, 2.0), sweep_row(60.0, 0.7, 5.0))
    found = compared(old, new, "sweep")
    assert not found.changed(0.0)
    assert [one.name for one in found.only] == [
        "points[price_ratio=0.3]",
        "points[price_ratio=0.7]",
    ]


def test_widths_are_matched_by_rank_and_not_by_the_width_that_was_found():
    def widths(*found: float) -> dict[str, Any]:
        return rows("widths", *({"job_class": "a", "epoch": 0, "width": w} for w in found))

    changed = compared(widths(2.0, 3.0), widths(4.0, 5.0)).changed(0.0)
    assert [(one.address, one.change) for one in changed] == [
        ("widths[width_rank=1].width", 2.0),
        ("widths[width_rank=2].width", 2.0),
    ]
    (gate,) = check_changes(compared(widths(2.0, 3.0), widths(4.0, 5.0)), ["widths[3].width > +1"])
    assert gate.tripped


def test_clusters_of_a_baseline_are_matched_by_rank_where_their_sizes_follow_the_load():
    def sizes(*gpus: float) -> dict[str, Any]:
        found = [{"baseline": "equal", "knob": size, "mean_jct_s": size} for size in gpus]
        return rows("baselines", {"baseline": "recorded", "knob": None, "mean_jct_s": 1.0}, *found)

    found = compared(sizes(4.0, 8.0), sizes(5.0, 10.0))
    assert not found.only
    (gate,) = check_changes(found, ["baselines[equal, knob=8].mean_jct > +1s"])
    assert gate.tripped and gate.path == "baselines[equal, knob_rank=2].mean_jct_s"


def test_a_verdict_in_words_is_an_answer_and_no_name_of_its_row():
    def synth(verdict: str, value: float) -> dict[str, Any]:
        told = {"unit": "s", "verdict": verdict, "synthetic": value}
        return rows("compared", {"statistic": "mean"} | told, {"statistic": "p95"} | told)

    found = compared(synth("yes", 1.0), synth("no", 2.0), "synth")
    assert not found.only and len(found.changed(0.0)) == 2
    assert [one.name for one in found.answers] == [
        "compared[mean].verdict",
        "compared[p95].verdict",
    ]


@pytest.mark.parametrize(
    ("old", "new", "condition", "why"),
    [
        (
            rows("points", sweep_row(60.0, 0.5, 1.0), sweep_row(90.0, 0.5, 1.0)),
            rows("points", sweep_row(70.0, 0.5, 1.0), sweep_row(80.0, 0.5, 1.0)),
            "points.cost > +1%",
            "points.cost_usd has no row in both documents: the old one has threshold_s=60 or "
            "threshold_s=90; the new, threshold_s=70 or threshold_s=80",
        ),
        ({"a": 1, "w": None}, {"a": 1, "w": None}, "w != 0", "w has no value in either document"),
        ({"a": 1, "w": 1}, {"a": 1}, "w != 0", "w has a value in the old document only"),
        (
            rows("x", {"v": 1}, {"v": 2}),
            rows("x", {"v": 1}, {"v": 2}),
            "x.v > +1%",
            "x.v is in a list whose rows have no names",
        ),
    ],
)
def test_a_gate_that_cannot_be_checked_fails_and_says_why(
    gpuplan, tmp_path, old, new, condition, why
):
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, results in zip(paths, (old, new), strict=True):
        path.write_text(json.dumps(output("pareto", results)))
    code, _, err = gpuplan("diff", *paths, "--fail-if", condition)
    assert code == 1
    assert f"error: gate not checked: {condition} ({why})\n  next: name a field" in err
    code, _, err = gpuplan("diff", *paths, "--fail-if", condition, "--allow-unchecked")
    assert (code, f"warning: --fail-if {condition!r} is not checked: {why}" in err) == (0, True)


def test_a_study_that_one_report_lacks_is_not_checked(gpuplan, tmp_path):
    one, other = (output("pareto", PARETO, name=name) for name in ("main", "tight"))
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, studies in zip(paths, ([one], [one, other]), strict=True):
        path.write_text(json.dumps(output("report", {}, studies=studies)))
    gate = ("--fail-if", "tight.knee.mean_jct > +1%")
    code, _, err = gpuplan("diff", *paths, *gate)
    assert code == 1 and "tight.knee.mean_jct_s is in the new document only" in err
    assert gpuplan("diff", *paths, *gate, "--allow-unchecked")[0] == 0


def gate_on_cost(old, new):
    (gate,) = check_changes(compared(old, new, "sweep"), ["points.cost > +1%"])
    return gate


def test_rows_that_the_new_document_lacks_are_not_checked():
    old = rows("points", sweep_row(60.0, 0.5, 1.0), sweep_row(90.0, 0.5, 1.0))
    new = rows("points", sweep_row(60.0, 0.5, 1.0), sweep_row(80.0, 0.5, 1.0))
    gate = gate_on_cost(old, new)
    assert (gate.state, gate.value) == ("unchecked", None)
    assert gate.detail.startswith(
        "points.cost_usd: 1 of 2 rows cannot be compared (not in the new document: "
    )
    assert "threshold_s=90); the other rows pass: points[" in gate.detail
    assert gate.detail.endswith("; 1 row is only in the new document, not checked")


def test_a_row_that_trips_fails_whatever_is_missing():
    old = rows("points", sweep_row(60.0, 0.5, 1.0), sweep_row(90.0, 0.5, 1.0))
    gate = gate_on_cost(old, rows("points", sweep_row(60.0, 0.5, 2.0)))
    assert (gate.state, gate.value) == ("failed", 1.0)
    assert "1 of 2 rows cannot be compared (not in the new document: " in gate.detail


def test_rows_that_only_the_new_document_has_are_counted():
    old = rows("points", sweep_row(60.0, 0.5, 1.0))
    new = rows("points", *(sweep_row(s, 0.5, 1.0) for s in (60.0, 80.0, 90.0)))
    gate = gate_on_cost(old, new)
    assert gate.state == "passed"
    assert gate.detail.endswith("; 2 rows are only in the new document, not checked")


@pytest.mark.parametrize(("first", "second", "side"), [(1.0, None, "new"), (None, 1.0, "old")])
def test_a_row_with_a_value_on_one_side_is_not_checked(first, second, side):
    old = rows("points", sweep_row(60.0, 0.5, 1.0), sweep_row(90.0, 0.5, first))
    new = rows("points", sweep_row(60.0, 0.5, 1.0), sweep_row(90.0, 0.5, second))
    gate = gate_on_cost(old, new)
    assert gate.state == "unchecked"
    assert (
        f"1 of 2 rows cannot be compared (without a value in the {side} document: " in gate.detail
    )
    assert gate_on_cost(old, old).state == "passed"


def test_a_row_that_neither_document_has_is_not_checked():
    old = rows("points", sweep_row(60.0, 0.5, 1.0))
    (gate,) = check_changes(compared(old, old, "sweep"), ["points[600].cost > +1%"])
    assert gate.state == "unchecked" and gate.detail.startswith("points has no row '600'")
