"""The gates of ``gpuplan diff``: conditions on how much a number changed."""

from __future__ import annotations

import pytest
from support_diff import PARETO, changed_by, compared

from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.diff.gates import check_changes, read_change


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
    assert (gate.state, gate.detail) == ("unchecked", "wait_s has a value in the old document only")


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
        ("knee.mean_jct > +5pp", "knee.mean_jct_s is not a share, so it has no percentage"),
        ("knee.mean_jct > +$5", "knee.mean_jct_s is not in dollars"),
        ("knee.mean_jcd > +5%", "did you mean knee.mean_jct_s"),
        ("mean_jct > +5%", "mean_jct is ambiguous: knee.mean_jct_s or points.mean_jct_s"),
    ],
)
def test_a_condition_that_cannot_be_meant_is_an_error(condition, message):
    (gate,) = check_changes(compared(PARETO, PARETO), [condition])
    assert gate.state == "error" and message in gate.detail


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("cost_usd > +00", "single quotes"),
        ("cost_usd > +500", "as in '> +$500'"),
        ("cost_usd < -100%", "can never fail"),  # a sum loses all of itself at most
        ("share > +100pp", "can never fail"),
    ],
)
def test_a_change_that_cannot_be_meant_is_refused(condition, message):
    results = {"cost_usd": 5.0, "share": 0.5}
    (gate,) = check_changes(compared(results, results), [condition])
    assert gate.state == "error" and message in gate.detail


def test_all_of_a_sum_may_go():
    (gate,) = check_changes(compared({"usd": 5.0}, {"usd": 0.0}), ["usd <= -100%"])
    assert gate.state == "failed"
