"""``--fail-if``: which field a condition means, units, and what trips it."""

import json
import re
from collections.abc import Iterator

import pytest
from support_gates import RESULTS
from support_schemas import Schema, schema_of

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.cli.formats.units import unit_of
from gpuplan.cli.gates.conditions import read_condition
from gpuplan.cli.gates.gates import (
    GateFailed,
    allowing,
    check,
    check_all,
    raise_tripped,
    warnings_only,
)
from gpuplan.cli.gates.row_keys import DRAWN
from gpuplan.cli.options.outputs import check_output
from gpuplan.cli.options.shared_options import Output


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
        "points.cost_usd > $20",  # any element
        "cost < 15 usd",
        "cost_usd >= $30",
        "price_usd_per_gpu_h < 3 usd",  # dollars per GPU-hour are dollars
        "under_60s > 20%",
        "jct_s_per_gpu > 1m",  # seconds, not GPUs
        "usd_per_month > $999",
        "available.mean > 1",  # null in the other element
        "jobs > -1",
    ],
)
def test_a_condition_that_holds_trips(condition):
    with pytest.raises(GateFailed) as caught:
        raise_tripped(check(RESULTS, [condition]))
    assert str(caught.value).startswith(f"gate tripped: {condition} (")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "condition",
    ["jobs > 100", "jobs < 100", "jobs != 100", "span > 2h", "duration.p95 > 5h", "share > 94%",
     "points.cost_usd > $30", "wait_h > 91m"],
)  # fmt: skip
def test_a_condition_that_does_not_hold_passes(condition):
    raise_tripped(check(RESULTS, [condition]))


def test_every_gate_that_trips_is_named_with_its_value():
    with pytest.raises(GateFailed) as caught:
        raise_tripped(check(RESULTS, ["jobs > 1", "span > 10h", "duration.p95 > 4h"]))
    assert str(caught.value).splitlines() == [
        "gate tripped: jobs > 1 (jobs is 100, limit 1)",
        "error: gate tripped: duration.p95 > 4h (duration_s.p95 is 5 h, limit 4 h)",
    ]


@pytest.mark.parametrize("field", ["queue_s.p95", "nothing"])
def test_a_field_without_a_value_fails_its_gate_unless_that_is_allowed(field, capsys):
    gates = check(RESULTS, [f"{field} > 1"])
    with pytest.raises(GateFailed) as caught:
        raise_tripped(gates)
    assert str(caught.value) == (
        f"gate not checked: {field} > 1 ({field} has no value)\n"
        "  next: name a field and a row that have a value, or add --allow-unchecked to pass without"
    )
    raise_tripped(allowing(gates, allow_unchecked=True))
    assert capsys.readouterr().err == (
        f"warning: --fail-if '{field} > 1' is not checked: {field} has no value\n"
    )


def test_a_gate_that_trips_is_told_beside_one_that_cannot_be_read():
    with pytest.raises(UsageError) as caught:
        raise_tripped(check(RESULTS, ["typo > 3", "jobs > 5", "jobs > 1e9", "p59 > 1"]))
    lines = str(caught.value).splitlines()
    assert lines[0] == "gate tripped: jobs > 5 (jobs is 100, limit 5)"
    assert lines[1].startswith("error: --fail-if 'typo > 3': no field 'typo'")
    assert lines[2].startswith("error: --fail-if 'p59 > 1': no field 'p59'")
    assert lines[3] == "  next: correct the condition; the result itself has been written"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "condition",
    ["", "jobs", "jobs > ", "jobs is 3", "jobs > many", "jobs > .", "jobs > 1,000",
     "jobs => 3", "jobs > --3", "jobs > 4 h x"],
)  # fmt: skip
def test_what_is_no_condition_is_refused(condition):
    with pytest.raises(UsageError, match="expected 'field operator value'"):
        read_condition(condition)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("p95 > 1", "p95 is ambiguous: duration_s.p95 or queue_s.p95"),
        ("duration_s.p59 > 1", "did you mean duration_s.p50 or duration_s.p95"),
        ("duration_s > 4h", "name one of duration_s.p50, duration_s.p95, duration_s.jobs"),
        ("duration > 4h", "duration is a group of fields; name one of duration_s.p50"),
        ("points > 3", "points is a group of fields; name one of points.cost_usd"),
        ("duration_cdf > 1", "no field 'duration_cdf'"),
        ("share_jobs > 1", "no field 'share_jobs'"),
        ("by_hour > 1", "no field 'by_hour'"),
        ("gpuhours > 1", "did you mean gpu_time.gpu_hours"),
        ("xyzzy > 1", "no field 'xyzzy' with a number; see --output-format json"),
        (f"duration_s.{'p95' * 100_000} > 1", "with a number; see --output-format json"),  # quick
        ("state > 1", "no field 'state'"),
        ("ok > 0", "no field 'ok'"),
        ("jobs > 4h", "jobs is not in 'h'"),
        ("span > 4 usd", "span_s is not in dollars"),
        ("duration_s.p95 > $5", "duration_s.p95 is not in dollars"),
        ("duration_s.p95 > 50%", "duration_s.p95 is not a share, so it has no percentage"),
        ("jobs > 150%", "jobs is not a share"),
        ("jobs > $5", "jobs is not in dollars"),
        ("share > $5", "gpu_time.share is not in dollars"),
        ("duration_s.jobs > 1h", "duration_s.jobs is not in 'h'"),  # a count among durations
        ("arrivals.per_h > 30m", "arrivals.per_h is not in 'm'"),
        ("cost_usd > $5h", "expected $ or h, not both"),
    ],
)
def test_a_condition_that_cannot_be_meant_is_refused(condition, message):
    with pytest.raises(UsageError, match=r"^--fail-if") as caught:
        raise_tripped(check(RESULTS, [condition]))
    assert message in str(caught.value)


def test_a_gate_on_a_plan_says_so_and_names_the_replay():
    at = {"mean_jct_s": 600.0, "replay": {"mean_jct_s": 720.0}}
    points = [{"requested": "now", **at}, {"requested": "2x", "mean_jct_s": 660.0, "replay": None}]
    studies = {"pareto": {"knee": at, "points": points}}
    conditions = ["knee.mean_jct > 5m", "knee.replay.mean_jct > 5m", "points.mean_jct < 11m"]
    planned, replayed, rows = (gate.detail for gate in check_all(studies, conditions))
    assert planned == (
        "pareto.knee.mean_jct_s is 10 min, limit 5 min; this is planned, "
        "pareto.knee.replay.mean_jct_s is 12 min"
    )
    assert replayed == "pareto.knee.replay.mean_jct_s is 12 min, limit 5 min"
    assert "planned, pareto.points[now].replay.mean_jct_s is 12 min" in rows


def test_gates_over_several_studies_name_the_study():
    studies = {
        "pareto": {"knee": {"mean_jct_s": 7200.0}},
        "tight": {"knee": {"mean_jct_s": 100.0}, "jobs": 5},
        "timeline": {"cost_usd": None},  # named as a curve is
    }
    conditions = ["pareto.knee.mean_jct > 1h", "knee.mean_jct > 1h", "jobs > 5", "cost > $1"]
    gates = check_all(studies, conditions)
    assert [gate.state for gate in gates] == ["failed", "error", "passed", "unchecked"]
    assert plain(gates[0].outcome()) == {
        "condition": "pareto.knee.mean_jct > 1h",
        "state": "failed",
        "path": "pareto.knee.mean_jct_s",
        "value": 7200.0,
        "limit": 3600.0,
        "detail": "pareto.knee.mean_jct_s is 2 h, limit 60 min",
    }
    assert gates[3].path == "timeline.cost_usd"
    json.dumps([plain(gate.outcome()) for gate in gates], allow_nan=False)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("pareto.jobs > 1", "pareto.jobs"),  # the whole path of one study
        ("characterize.jobs > 1", "characterize.jobs"),  # and not that of its durations
        ("best > 1", "pareto.best_s"),
        ("jobs > 1", "jobs is ambiguous: characterize.jobs or pareto.jobs"),
        ("p95 > 1", "characterize: p95 is ambiguous: duration_s.p95 or queue_s.p95"),
        (
            "mean > 1",
            "mean is ambiguous: pareto.mean; characterize: mean is ambiguous: duration_s",
        ),
        ("pareto.jops > 1", "pareto: no field 'jops' with a number; did you mean jobs"),
        ("bast > 1", "no field 'bast' with a number; did you mean pareto.best_s?"),
    ],
)
def test_a_name_means_one_field_of_one_study(condition, found):
    statistics = {"jobs": 9, "p95": 8.0, "mean": 7.0}
    studies = {
        "characterize": {"jobs": 10, "duration_s": statistics, "queue_s": statistics},
        "pareto": {"jobs": 10, "best_s": 3.0, "mean": 4.0},
    }
    (gate,) = check_all(studies, [condition])
    assert gate.path == found or gate.detail.startswith(found), gate


def test_the_unit_of_a_study_may_be_left_out_too():
    (gate,) = check_all({"night_h": {"jobs": 5}, "day_h": {"jobs": 9}}, ["day.jobs > 6"])
    assert (gate.path, gate.tripped) == ("day_h.jobs", True)


def test_a_limit_beyond_all_numbers_in_the_unit_of_its_field_is_no_limit():
    (gate,) = check_all({"waits": {"p95_wait_s": 5.0}}, ["waits.p95_wait_s < 1e308d"])
    assert gate.limit is None and gate.value is None
    assert gate.detail == "p95_wait_s is a duration, and 1e+308 d is too large"


@pytest.mark.parametrize("condition", ["jobs > 1e999", "jobs > $-", "jobs > $+$5"])
def test_an_amount_must_be_a_finite_number(condition):
    with pytest.raises(UsageError, match=r"^--fail-if"):
        read_condition(condition)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("jobs > 3e", "no unit 'e'; expected s, min, h, d"),
        ("p95 > 4 parsecs", "no unit 'parsecs'; expected s, min, h, d"),
        ("p95 > 10 minutes", "no unit 'minutes'; did you mean min?"),
        ("p95 > 10 hour", "no unit 'hour'; did you mean h?"),
    ],
)
def test_an_unknown_unit_is_refused_before_there_is_a_result(condition, message):
    with pytest.raises(UsageError, match=r"^--fail-if") as caught:
        read_condition(condition)
    assert message in str(caught.value)


def test_a_study_that_is_not_there_is_refused_before_there_is_a_result():
    studies = {"characterize": "characterize", "policy": "compare"}
    with pytest.raises(UsageError, match=r"no study 'charcterize'; did you mean 'characterize'\?"):
        read_condition("charcterize.duration.p95 > 4h", studies)
    with pytest.raises(UsageError, match="no study 'sweep'; expected one of characterize, policy"):
        read_condition("sweep.recommended.cost > $4", studies)
    for field in ("characterize.jobs", "policies[fifo].cost", "duration.p95", "jobs", "policy.x"):
        assert read_condition(f"{field} > 4", studies).field == field
    assert read_condition("charcterize.duration.p95 > 4h").unit == "h"  # of one study: a field


@pytest.mark.parametrize(
    ("path", "condition"),
    [
        ("knee.replay.efficiency", "efficiency < 70%"),
        ("gpu_time.gpu_hours", "gpu_time.gpu_hours > 0.4 gpu_h"),
        ("workers_peak", "workers_peak > 0.4 workers"),
        ("workers_mean", "workers_mean > 0.4 workers"),
        ("recommended.capacity", "capacity < 1 worker"),
        ("knee.used_gpus.A100", "used_gpus.A100 > 0.4 gpus"),
        ("bands.mean_jct_s.high", "mean_jct.high < 1 min"),
        ("bands.above_cap_share.low", "above_cap_share.low > 40%"),
        ("offers.age_days", "age_days < 13h"),
        ("bursts.hours", "bursts.hours < 31 min"),
    ],
)
def test_a_field_takes_its_unit(path, condition):
    results = 0.5
    for name in reversed(path.split(".")):
        results = {name: results}
    (gate,) = check(results, [condition])
    assert (gate.state, gate.path) == ("failed", path), gate


PURE = re.compile(
    r"(\w+_)?(jobs|rows|users|names|values|zeros|windows|regions|epochs?|replicas|resamples|waits)"
    r"|(rows|jobs|statistics)_\w+|distinct|preemptions|losses|waiting_\w+|free_parameters"  # counts
    r"|\w+_per_(h|hour|day|job)"  # rates
    r"|(\w+_)?ratio|(\w+_)?times|\w+_over_\w+|budget_x_load|multiplier|weight|knob"  # ratios
    r"|(\w+_)?p|p_value|z|level(_pct|_percent)?"  # of tests and intervals
    r"|ks|ks_at|(delta_)?aic|log_likelihood|index(_se)?|shape|sigma|(\w+_)?scv"  # of fits
    r"|median_(difference|first|second)|allowed|difference|original|synthetic"  # of any field
    r"|ftf_\w+|slowdown_\w+|switches|migrations|rounds(_above_gap)?|solver_gap_max"  # of rounds
    r"|utilization_by_type\.NAME"  # a share by GPU type
    r"|unfinished|never_(placed|started)|starving|evictions|guarantees|spot_runs|\w+_evictions|hp_\w+|\w+_rate|mean_eta"
    r"|(rejected|skipped)_by_reason\.NAME|left_out\.NAME|explained_by_chance|(available|supply)\.(mean|least|most)|scv\.(low|high|value)"
)
"""Fields that have no unit: the end of the path, its last name or the last two."""


def numbers_in(schema: Schema, definitions: Schema, path: str = "") -> Iterator[str]:
    """Give the path of every number that a schema describes."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    for option in schema.get("anyOf", ()):
        yield from numbers_in(option, definitions, path)
    kinds = {schema["type"]} if isinstance(schema.get("type"), str) else {*schema.get("type", ())}
    for name, inner in schema.get("properties", {}).items():
        if not (name in DRAWN and "items" in inner):
            yield from numbers_in(inner, definitions, f"{path}.{name}" if path else name)
    items = schema.get("items")
    if isinstance(items, dict) and "$ref" in items:
        yield from numbers_in(items, definitions, path)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from numbers_in(schema["additionalProperties"], definitions, f"{path}.NAME")
    if kinds & {"number", "integer"} and kinds <= {"number", "integer", "null"}:
        yield path


@pytest.mark.parametrize(
    "command",
    ["characterize", "pareto", "sweep", "simulate", "compare", "ingest", "synth", "prices"],
)
def test_every_field_of_every_schema_has_a_unit_or_is_a_pure_number(command):
    schema = schema_of(command)
    paths = list(numbers_in(schema["properties"]["results"], schema["$defs"]))
    assert len(paths) >= 3
    for path in paths:
        path = path.replace("short_jobs.NAME", "short_jobs.under_60s")
        ends = [path.rpartition(".")[2], ".".join(path.split(".")[-2:])]
        is_pure = any(PURE.fullmatch(end) for end in ends)
        assert unit_of(path) or is_pure, f"{path} has no unit"


def test_a_gate_that_only_warns_is_told_and_ends_nothing(capsys):
    gates = warnings_only(check(RESULTS, ["duration.p95 > 4h", "queue_s.p95 > 1", "jobs > 1e9"]))
    assert [gate.state for gate in gates] == ["warned", "unchecked", "passed"]
    raise_tripped(allowing(gates, allow_unchecked=False))
    assert capsys.readouterr().err.splitlines() == [
        "warning: gate tripped: duration.p95 > 4h (duration_s.p95 is 5 h, limit 4 h)",
        "warning: --warn-if 'queue_s.p95 > 1' is not checked: queue_s.p95 has no value",
    ]
    with pytest.raises(UsageError, match="no field 'typo'"):
        raise_tripped(warnings_only(check(RESULTS, ["typo > 3"])))


@pytest.mark.parametrize("condition", ["knee.replay.mean_jct > +10%", "utilization < -5pp"])
def test_a_change_needs_two_documents_and_is_refused_before_any_work(condition, tmp_path):
    # The log is not even opened.
    output = Output(fail_if=[condition])
    with pytest.raises(UsageError, match=r"(?s)an earlier result.*gpuplan diff OLD NEW --fail-if"):
        check_output(output, picture=True, rows=False, inputs=[tmp_path / "none.csv"])
    check_output(Output(fail_if=["effect_s < -60", "jobs > 1e+3"]), picture=True, rows=False)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("cost_usd > +00", "'+00' begins with 0, as what is left of $500; a shell replaces $5"),
        ("cost_usd > 00", "single quotes"),
        ("duration_s.p95 > 00h", "begins with 0"),
        ("cost_usd > +", "expected 'field operator value'"),
        ("cost_usd > ", "single quotes"),
        ("cost_usd > 500", "cost_usd is in dollars, so its limit needs $ or USD, as in '> $500'"),
        ("cost > 0", "cost_usd is in dollars"),  # what a shell leaves of $50
        ("price_usd_per_gpu_h < 3", "as in '< $3'"),
        ("cost == -5", "as in '== -$5'"),
    ],
)
def test_dollars_that_a_shell_ate_are_refused_with_the_way_out(condition, message):
    (gate,) = check(RESULTS, [condition])
    assert gate.state == "error" and message in gate.detail
    with pytest.raises(UsageError, match="single quotes"):
        raise_tripped([gate])


def test_dollars_are_asked_for_before_any_work_where_the_name_says_so(tmp_path):
    for text in ("bill.usd > 500", "groups[vision].usd_per_month > +500", "usd > +00"):
        with pytest.raises(UsageError, match=r"(?s)--fail-if .*single quotes"):
            read_condition(text)
    assert read_condition("usd > 500 USD").unit == read_condition("usd > $500").unit == "usd"
    assert read_condition("cost > 500").value == 500  # the result says whether these are dollars


@pytest.mark.parametrize(
    ("path", "condition", "can_fail"),
    [
        ("usd", "usd < $0", False),
        ("usd", "usd <= -$1", False),
        ("usd", "usd <= $0", True),
        ("usd", "usd == -$1", False),
        ("usd", "usd < $1", True),
        ("groups.gpu_h", "gpu_h < -5", False),
        ("jobs", "jobs < 0", False),
        ("idle_share", "idle_share > 100%", False),
        ("idle_share", "idle_share >= 100%", True),
        ("idle_share", "idle_share > 1.2", False),
        ("idle_share", "idle_share < 0%", False),
        ("change.usd", "change.usd < $0", True),  # a difference
        ("saved_usd_per_month", "saved_usd_per_month < $0", True),
        ("saving_share", "saving_share < -10%", True),
        ("coverage_share", "coverage_share > 120%", False),
        ("utilization", "utilization > 110%", True),  # superlinear speedups
        ("bias_s", "bias_s < -1h", True),
    ],
)
def test_a_gate_that_can_never_fail_is_refused(path, condition, can_fail):
    results = 1.0
    for name in reversed(path.split(".")):
        results = {name: results}
    (gate,) = check(results, [condition])
    assert (gate.state == "error") is not can_fail
    if not can_fail:
        assert gate.detail.startswith(f"this gate can never fail: {path} is never ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mean_wait_s > 3 GPUs", "mean_wait_s is a duration, and 3 GPUs is not"),
        ("mean_wait_s > $3", "mean_wait_s is not in dollars"),
        ("cost_usd < 3 h", "cost_usd is in dollars, and 3 h is not"),
        ("peak_gpus > 2 h", "peak_gpus is a number of GPUs, and 2 h is not"),
    ],
)
def test_a_unit_that_cannot_fit_is_refused_before_the_work(text, problem):
    with pytest.raises(UsageError) as error:
        read_condition(text)
    assert problem in str(error.value)


def test_units_fit_in_any_case_and_changes_stay():
    for text in ("mean_wait_s > 3 h", "mean_wait > 3 GPUs", "peak_gpus > 3 GPUs",
                 "cost_usd > +10%", "idle_share > 10%", "cost_usd > 3 USD"):  # fmt: skip
        assert read_condition(text).text == text


@pytest.mark.parametrize(
    ("condition", "value", "state"),
    [
        ("confirmed == false", False, "failed"),
        ("confirmed == false", True, "passed"),
        ("confirmed != true", False, "failed"),
        ("plan.confirmed == true", True, "failed"),
        ("confirmed == false", None, "unchecked"),
    ],
)
def test_a_field_that_is_true_or_false_is_compared_with_one_of_these(condition, value, state):
    (gate,) = check({"confirmed": value, "usd": 1.0}, [condition], "plan")
    assert (gate.state, gate.path) == (state, "confirmed")
    if value is not None:
        assert gate.detail.startswith(f"confirmed is {str(value).lower()}, limit ")


def test_what_is_no_field_of_a_group_is_none_where_the_group_is_null():
    summary = {"p95_wait_s": 20484.0, "wait_h": 9.0}
    commands = {"waits": "waits", "characterize": "characterize"}
    for waits in (summary, None):  # null where arrivals are scaled
        studies = {"waits": summary, "characterize": {"waits": waits}}
        gate, exact = check_all(
            studies, ["waits.wait_s.p95 > 4h", "characterize.waits.p95_wait < 1s"], commands
        )
        assert gate.state == "error"
        assert gate.detail == (
            "waits: no field 'wait_s.p95' with a number; did you mean p95_wait_s or wait_h?"
        )
        assert exact.path == "characterize.waits.p95_wait_s"
        assert exact.state == ("unchecked" if waits is None else "passed")
        (alone,) = check({"waits": waits}, ["waits.wait_s.p95 > 4h"], "characterize")
        assert alone.state == "error"


def test_a_field_of_a_group_that_is_null_has_no_value():
    results = {"holdout": None, "usd": 1.0}
    conditions = ["holdout.saved == false", "plan.holdout.plan.usd_per_month > $3"]
    for gate in check(results, conditions, "plan"):
        assert gate.state == "unchecked" and gate.detail.endswith(" has no value")
    (wrong,) = check(results, ["usd.saved == false"])
    assert wrong.state == "error" and "no field 'usd.saved'" in wrong.detail
    (other,) = check({"holdout": {"saved": True}}, ["holdout.saved == false"])
    assert (other.state, other.path) == ("passed", "holdout.saved")


def test_true_and_false_have_no_order_and_are_no_numbers():
    (ordered,) = check({"confirmed": True}, ["confirmed < true"])
    assert ordered.state == "error" and "compared with == or !=" in ordered.detail
    (number,) = check({"usd": 1.0}, ["usd == true"])
    assert number.state == "error" and "no field 'usd'" in number.detail
