"""``--fail-if``: which field a condition means, units, and what trips it."""

import numpy as np
import pytest

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.gates import GateFailed, check_gates, read_condition

RESULTS = {
    "jobs": 100,
    "span_s": 7200.0,
    "duration_s": {"p50": 60.0, "p95": 18_000.0, "jobs": 90},
    "queue_s": {"p95": None},
    "gpu_time": {"gpu_hours": 12.5, "share": 0.93},
    "price_usd_per_gpu_h": 2.5,
    "wait_h": np.float64(1.5),
    "points": [{"cost_usd": 10.0}, {"cost_usd": 30.0}, {"cost_usd": None}],
    "named": {"state": "completed", "ok": True},
}


@pytest.mark.parametrize(
    "condition",
    [
        "jobs > 99",  # the whole path wins over duration_s.jobs
        "jobs>=100",
        "jobs == 100",
        "jobs != 99",
        "span < 3h",  # the unit may be left out
        "span_s<=7200",
        "duration_s.p95 > 4h",
        "duration.p95 > 299 min",
        "duration_s.p95 > 1.7e4",
        "p50 < 1.5m",  # the last part, where only one field has it
        "gpu_hours > 12",
        "share > 90%",
        "share > .9",
        "price_usd_per_gpu_h > $2",
        "wait_h > 80m",
        "points.cost_usd > 20",  # any element
        "cost < 15 usd",
        "jobs > -1",
    ],
)
def test_a_condition_that_holds_trips(condition):
    with pytest.raises(GateFailed) as caught:
        check_gates(RESULTS, [condition])
    assert str(caught.value).startswith(f"gate tripped: {condition} (")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "condition",
    ["jobs > 100", "jobs < 100", "jobs != 100", "span > 2h", "duration.p95 > 5h", "share > 94%",
     "points.cost_usd > 30", "wait_h > 91m"],
)  # fmt: skip
def test_a_condition_that_does_not_hold_passes(condition):
    check_gates(RESULTS, [condition])


def test_every_gate_that_trips_is_named_with_its_value():
    with pytest.raises(GateFailed) as caught:
        check_gates(RESULTS, ["jobs > 1", "span > 10h", "duration.p95 > 4h"])
    assert str(caught.value).splitlines() == [
        "gate tripped: jobs > 1 (jobs is 100)",
        "gate tripped: duration.p95 > 4h (duration_s.p95 is 18000)",
    ]


def test_a_field_without_a_value_is_said_not_to_be_checked(capsys):
    check_gates(RESULTS, ["queue_s.p95 > 1h"])
    assert capsys.readouterr().err == (
        "warning: --fail-if 'queue_s.p95 > 1h' is not checked: queue_s.p95 has no value\n"
    )


@pytest.mark.parametrize(
    "condition",
    ["", "jobs", "jobs > ", "jobs is 3", "jobs > many", "jobs > .", "jobs > 3e", "jobs > 1,000",
     "jobs => 3", "jobs > --3", "jobs > 4 h x"],
)  # fmt: skip
def test_what_is_no_condition_is_refused(condition):
    if condition == "jobs > 3e":  # reads as 3 of a unit "e", refused when the field is known
        with pytest.raises(UsageError, match="is not in 'e'"):
            check_gates(RESULTS, [condition])
        return
    with pytest.raises(UsageError, match="expected 'field operator value'"):
        read_condition(condition)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("p95 > 1", "p95 may be duration_s.p95 or queue_s.p95"),
        ("duration_s.p59 > 1", "no field 'duration_s.p59'; try duration_s.p95"),
        ("state > 1", "no field 'state'"),
        ("ok > 0", "no field 'ok'"),
        ("jobs > 4h", "jobs is not in 'h'"),
        ("span > 4 usd", "span_s is not in 'usd'"),
    ],
)
def test_a_condition_that_cannot_be_meant_is_refused(condition, message):
    with pytest.raises(UsageError, match=r"^--fail-if") as caught:
        check_gates(RESULTS, [condition])
    assert message in str(caught.value)
