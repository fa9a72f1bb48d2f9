"""Rows of a result in a condition: chosen by brackets, named as people read them."""

import pytest
from support_gates import RESULTS

from gpuplan.cli.gates.fields import fields_of
from gpuplan.cli.gates.gates import (
    GateFailed,
    allowing,
    check,
    check_all,
    raise_tripped,
)
from gpuplan.cli.gates.row_keys import layout_of

COMPARED = {
    "policies": [
        {"label": "fifo", "cost_usd": 300.0, "kinds": [{"kind": "spot"}]},
        {"label": "las, wide", "cost_usd": 200.0},
    ],
    "points": [
        {"policy": policy, "threshold_s": threshold, "capacity": None, "cost_usd": threshold}
        for policy in ("adaptive", "fixed")
        for threshold in (30.0, 300.0)
    ],
}


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("policies[fifo].cost_usd > $250", 300.0),
        ("policies[label=fifo].cost > $250", 300.0),
        ("points[threshold=30].cost_usd > $1", 30.0),
        ("points[fixed, threshold_s=300].cost_usd > $50", 300.0),
        ("points[300].cost_usd > $50", 300.0),
        ("points.cost_usd > $50", 300.0),  # any row
        ("policies[las, wide].cost_usd > $50", 200.0),  # a name with a comma
    ],
)
def test_brackets_choose_rows(condition, value):
    (gate,) = check(COMPARED, [condition])
    assert (gate.tripped, gate.value) == (True, value)


def test_rows_are_named_by_what_tells_them_apart():
    fields = fields_of(COMPARED, layout_of(COMPARED))
    addresses = [field.address for field in fields if field.path.endswith("cost_usd")]
    assert addresses == [
        "policies[fifo].cost_usd",
        "policies[las, wide].cost_usd",
        "points[adaptive, threshold_s=30].cost_usd",
        "points[adaptive, threshold_s=300].cost_usd",
        "points[fixed, threshold_s=30].cost_usd",
        "points[fixed, threshold_s=300].cost_usd",
    ]


def test_a_row_that_is_not_there_is_not_checked():
    condition = "policies[las].cost_usd > $1"
    (gate,) = check(COMPARED, [condition])
    assert (gate.state, gate.path, gate.limit) == ("unchecked", "policies.cost_usd", 1.0)
    assert gate.detail == "policies has no row 'las'; expected fifo or las, wide"
    with pytest.raises(GateFailed, match="gate not checked: policies"):
        raise_tripped([gate])
    raise_tripped(allowing([gate], allow_unchecked=True))
    for one in (condition, f"a.{condition}"):
        (gate,) = check_all({"a": COMPARED, "b": {"jobs": 1}}, [one])
        assert (gate.state, gate.path) == ("unchecked", "a.policies.cost_usd"), gate
    (gate,) = check_all({"a": COMPARED, "b": COMPARED}, [condition])
    assert gate.state == "unchecked" and "b.policies has no row 'las'" in gate.detail


@pytest.mark.parametrize(
    "condition", ["policies[las].price > 1", "policies[las].cost_usd > 1h", "points > 1"]
)
def test_a_row_that_is_not_there_hides_no_mistake(condition):
    (gate,) = check(COMPARED, [condition])
    assert gate.state == "error"


def test_brackets_on_what_is_no_list_are_an_error():
    (gate,) = check({"a": {"b": 1}}, ["a[x].b > 1"])
    assert (gate.state, gate.detail) == ("error", "a has no row 'x'; it has no rows by name")


def test_rows_without_a_value_are_counted():
    (gate,) = check(RESULTS, ["points.cost_usd > $30"])
    assert gate.state == "passed" and gate.detail.endswith("; 1 of 3 rows has no value")


@pytest.mark.parametrize(
    ("condition", "detail"),
    [
        ("points.cost > $25", "points[adaptive, threshold_s=300].cost_usd is $300.00, limit $25.00"
         " (4 of 4 rows)"),
        ("points.cost < $100", "points[adaptive, threshold_s=30].cost_usd is $30.00, limit $100.00"
         " (2 of 4 rows)"),
        ("policies.cost > $400", "policies[fifo].cost_usd is $300.00, limit $400.00"),
        ("policies.cost == $200", "policies[las, wide].cost_usd is $200.00, limit $200.00"
         " (1 of 2 rows)"),
        ("policies.cost != $200", "policies[fifo].cost_usd is $300.00, limit $200.00"
         " (1 of 2 rows)"),
        ("policies.cost < $300.001", "policies[las, wide].cost_usd is $200.00, limit $300.00"
         " (2 of 2 rows)"),
        ("policies[fifo].cost < $300.001", "policies[fifo].cost_usd is 300.0, limit 300.001"),
    ],
)  # fmt: skip
def test_the_worst_row_is_named_as_people_read_it(condition, detail):
    (gate,) = check(COMPARED, [condition])
    assert gate.detail == detail
