"""One history of GPUs held: jobs that still run, and periods that cut runs, worked out by hand."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_traces import in_memory, write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.characterize.today import today
from gpuplan.analysis.history.jobs import job_arrays
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace

HOUR, DAY = 3600.0, 86_400.0
ORIGIN = datetime(2026, 2, 28, tzinfo=UTC)
MARCH = ("--from", "2026-03-01", "--to", "2026-04-01")
MARCH_H = 31 * 24
COMMIT = ("--commit", "0.5", "--on-demand", "2")
POLICIES = ("fifo", "equal", "gfs")


@pytest.fixture
def log(tmp_path):
    """Four jobs: over the begin of March, within it, still running over its end, never started.

    The last is submitted on 2 April at midnight, the log's last instant.
    """
    at = [DAY / 2, 10 * DAY, 30 * DAY, 33 * DAY]
    return write_trace(
        tmp_path / "t.parquet", at,
        [3 * DAY, 10 * HOUR, None, None], num_gpus=[8, 4, 16, 2],
        queue_s=[0.0, HOUR, 0.0, None], user=["ann", "bo", "bo", "ann"],
        state=["completed", "completed", "running", "not_started"],
    )  # fmt: skip


@pytest.fixture(autouse=True)
def begin(monkeypatch):
    monkeypatch.setattr("support_traces.START", ORIGIN)


def results(gpuplan, *words):
    code, out, err = gpuplan(*words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


def test_running_jobs_hold_their_gpus_to_the_last_instant_everywhere(gpuplan, log):
    held = 8 * 72 + 4 * 10 + 16 * 72  # the third from 30 March to 2 April
    found = results(gpuplan, "characterize", log, "--price", "1")
    assert found["today"]["gpu_h"] == pytest.approx(held)
    assert found["today"]["running_gpu_h"] == pytest.approx(16 * 72)
    assert found["gpu_time"]["gpu_hours"] == pytest.approx(held)
    assert found["load"]["peak_gpus"] == found["today"]["peak_gpus"] == 16
    window_h = 32.5 * 24  # 28 February at noon to 2 April
    assert found["load"]["window_mean_gpus"] == pytest.approx(held / window_h)
    assert found["today"]["mean_gpus"] == pytest.approx(held / window_h)
    assert found["duration_s"]["jobs"] == 2 and found["today"]["mean_run_s"] == 41 * HOUR
    rows = {row["name"]: row["gpu_hours"] for row in found["groups"]["user"]["rows"]}
    assert rows == pytest.approx({"ann": 8 * 72, "bo": 40 + 16 * 72})
    bill = results(gpuplan, "bill", log, "--price", "1", "--by", "user")
    assert bill["usd"] == pytest.approx(held) and bill["gpu_types"][0]["peak_gpus"] == 16
    assert bill["usd_per_month"] == pytest.approx(found["today"]["usd_per_month"], abs=0.01)


def test_the_time_the_log_was_taken_can_be_given(gpuplan, log):
    later = ("--as-of", "2026-04-03")
    assert results(gpuplan, "bill", log, "--price", "1", *later)["gpu_h"] == 8 * 72 + 40 + 16 * 96
    code, _, err = gpuplan("bill", log, "--price", "1", "--as-of", "2026-04-01")
    assert code == 2 and "must not be before the log's last instant, 2026-04-02 00:00:00" in err
    # A recorded run time counts, unless the time is given.
    so_far = pl.when(pl.col("state") == "running").then(HOUR).otherwise(pl.col("duration_s"))
    jobs = pl.read_parquet(log).with_columns(duration_s=so_far)
    jobs.write_parquet(log)
    assert results(gpuplan, "bill", log, "--price", "1")["gpu_h"] == 8 * 72 + 40 + 16
    assert results(gpuplan, "bill", log, "--price", "1", *later)["gpu_h"] == 8 * 72 + 40 + 16 * 96


def test_policies_are_charged_for_the_window_of_today(gpuplan, tmp_path):
    """A job of 4 GPUs runs throughout the 11 d; one of 8 GPUs comes at 1 d and runs for a day."""
    path = write_trace(
        tmp_path / "t.parquet", [0.0, DAY, 11 * DAY], [None, DAY, None], num_gpus=[4, 8, 1],
        queue_s=[0.0, 0.0, None], state=["running", "completed", "not_started"],
    )  # fmt: skip
    held = 4 * 11 * 24 + 8 * 24
    # Behind the job of 4 GPUs, which takes the window, the other waits for its end under fifo.
    whole = ("fifo", "--include-running")
    for words, used, left in ((whole, 4 * 11 * 24, 8 * 24), *(((p,), 8 * 24, 0) for p in POLICIES)):
        found = results(
            gpuplan, "simulate", path, "--gpus", "8", "--price", "1", "--policy", *words
        )
        assert found["window_s"] == found["today"]["window_s"] == 11 * DAY
        assert found["today"]["mean_gpus"] == pytest.approx(held / (11 * 24))
        assert found["cost_usd"] == pytest.approx(8 * 11 * 24)
        assert found["utilization"] == pytest.approx(used / (8 * 11 * 24), rel=0.01)
        assert found["backlog_gpu_h"] == pytest.approx(left, abs=0.1)
    sized = results(gpuplan, "size", path, "--gpus", "8", "--ci", "0")
    assert sized["points"][0]["utilization"] == pytest.approx(8 * 24 / (8 * 11 * 24))
    bill = results(gpuplan, "bill", path, "--price", "1")
    assert bill["window_s"] == 11 * DAY and bill["mean_gpus"] == pytest.approx(held / (11 * 24))


def test_every_today_goes_on_until_the_log_was_taken(gpuplan, log, tmp_path):
    held, window_h = 8 * 72 + 40 + 16 * 96, 33.5 * 24
    scenario = tmp_path / "plan.toml"
    scenario.write_text(
        f'[workload]\ntrace = "{log}"\nas_of = "2026-04-03"\n'
        '[study.simulate]\npolicy = "fifo"\n[study.characterize]\nprice = 1\n'
    )
    code, _, err = gpuplan("run", scenario, "-o", tmp_path / "out")
    assert code == 0, err
    studies = json.loads((tmp_path / "out" / "report.json").read_text())["studies"]
    shown = [study["results"]["today"] for study in studies]
    words = ("--as-of", "2026-04-03", "--gpus", "16")
    shown.append(results(gpuplan, "compare", log, "--policy", "fifo", *words)["today"])
    for usage in shown:
        assert usage["gpu_h"] == held
        assert usage["mean_gpus"] == pytest.approx(held / window_h)
    for command in ("sweep", "pareto"):
        assert "--as-of" in gpuplan(command, "--help-all")[1]


def test_a_period_cuts_runs(gpuplan, log):
    held = {"ann": 8 * 60, "bo": 4 * 10 + 16 * 48}
    found = results(gpuplan, "characterize", log, *MARCH)
    total = sum(held.values())
    for one in (found["load"]["mean_gpus"], found["load"]["window_mean_gpus"],
                found["today"]["mean_gpus"]):  # fmt: skip
        assert one == pytest.approx(total / MARCH_H)
    assert found["load"]["peak_gpus"] == found["today"]["peak_gpus"] == 16
    line = found["load"]["timeline"]
    assert line[0]["start_s"] == 0 and line[0]["mean_gpus"] == 8 and line[-1]["mean_gpus"] == 16
    rows = {row["name"]: row for row in found["groups"]["user"]["rows"]}
    assert {name: row["gpu_hours"] for name, row in rows.items()} == pytest.approx(held)
    assert {name: row["jobs"] for name, row in rows.items()} == {"ann": 0, "bo": 2}
    # Jobs, waits and durations are those of jobs submitted in March.
    assert found["jobs"] == 2 and found["duration_s"]["mean"] == 10 * HOUR
    assert found["queue_s"]["mean"] == HOUR / 2
    bill = results(gpuplan, "bill", log, "--price", "1", "--by", "user", *MARCH)
    assert {row["name"]: row["usd"] for row in bill["groups"]} == pytest.approx(held)
    assert [month["name"] for month in bill["months"]] == ["2026-03"]
    assert bill["mean_gpus"] == found["today"]["mean_gpus"]


def test_the_time_line_goes_on_to_the_end_of_a_period(gpuplan, log):
    words = ("--from", "2026-03-02", "--to", "2026-03-21")
    line = results(gpuplan, "characterize", log, *words)["load"]["timeline"]
    held = sum(one["mean_gpus"] for one in line) / len(line) * 19 * 24
    assert held == pytest.approx(8 * 36 + 40) and line[-1]["mean_gpus"] == 0
    code, _, err = gpuplan("characterize", log, *words, "--full")
    assert code == 0, err


def test_a_period_is_called_by_its_name_and_a_month_may_be_given(gpuplan, log):
    def begins(*words):
        code, out, err = gpuplan("characterize", str(log), *words)
        assert code == 0, err
        return " ".join(out.split())

    assert " March 2026: " in begins(*MARCH) and " Today: " in begins()
    assert begins("--from", "2026-03", "--to", "2026-04") == begins(*MARCH)
    err = gpuplan("characterize", str(log), "--from", "March")[2]
    assert "2026-01 (UTC unless it has an offset)" in err
    march = begins("--from", "2026-03-02", "--to", "2026-03-21")
    assert " 2026-03-02 to 2026-03-21: " in march
    assert " From 2026-03-02 on: " in begins("--from", "2026-03-02")
    assert " Until 2026-03-21 12:00:00: " in begins("--to", "2026-03-21T12:00:00")


def test_since_and_until_still_choose_jobs_by_submission(gpuplan, log):
    chosen = ("--since", "2026-03-01", "--until", "2026-04-01")
    bill = results(gpuplan, "bill", log, "--price", "1", *chosen)
    assert bill["gpu_h"] == 4 * 10 + 16 * 72  # to the last instant of the log, not of the selection


def test_a_commitment_is_that_of_the_period(gpuplan, log):
    words = ("--gpus", "16", "--on-demand", "1", "--include-running", "--ci", "0")
    committed = []
    for commit in ("0.05", "0.9"):
        found = results(gpuplan, "size", log, *MARCH, "--commit", commit, *words)["commitment"]
        mean = found["on_demand_mean_gpus"] + found["committed_gpus"] * (found["utilization"] or 0)
        assert mean == pytest.approx((8 * 60 + 4 * 10 + 16 * 48) / MARCH_H)
        committed.append(found["committed_gpus"])
    # Over 5% of March (37 h) 16 GPUs are held for 48 h, over 90% none.
    assert committed == [16, 0]


@pytest.mark.parametrize(
    "words", [("characterize",), ("bill", "--price", "1"), ("size", *COMMIT, "--ci", "0")]
)
def test_a_choice_by_submission_is_told_from_a_period(gpuplan, log, words):
    for chosen, is_said in (("--since", True), ("--from", False)):
        code, _, err = gpuplan(words[0], log, *words[1:], chosen, "2026-03-01")
        assert code == 0, err
        assert ("next: --from and --to count what ran in a period" in err) is is_said


def test_a_commitment_alone_counts_jobs_that_only_run(gpuplan, log):
    """Of 31 March and 1 April: 16 GPUs of the job that runs since 30 March, in all 768 GPU-h."""
    words = ("size", log, *COMMIT, "--ci", "0", "--from", "2026-03-31", "--to", "2026-04-02")
    code, out, err = gpuplan(*words, "--output-format", "json")
    assert code == 0 and "left out" not in err, err
    found = json.loads(out)["results"]
    assert found["commitment"]["committed_gpus"] == 16 == found["today"]["mean_gpus"]
    assert found["commitment"]["usd_per_month"] == pytest.approx(16 * 0.5 * 730.5)
    assert results(gpuplan, "bill", *words[1:2], "--price", "1", *words[-4:])["gpu_h"] == 768
    code, _, err = gpuplan(*words, "--target", "p95_wait <= 1h")
    assert code == 3 and "no job is submitted in the period" in err
    code, _, err = gpuplan("size", log, *COMMIT, "--ci", "0")
    assert code == 0 and "left out" not in err


def test_studies_without_a_period_say_so_in_the_report(gpuplan, log, tmp_path):
    scenario = tmp_path / "plan.toml"
    scenario.write_text(
        f'[workload]\ntrace = "{log}"\nfrom = "2026-03-01"\n[study.bill]\nprice = 1\n'
        '[study.simulate]\npolicy = "fifo"\ngpus = 16\n'
    )
    code, _, err = gpuplan("run", scenario, "-o", tmp_path / "out")
    note = "study simulate: simulate takes no period and uses the whole log, without from"
    assert code == 0 and note in err and "study bill" not in err
    assert note in (tmp_path / "out" / "report.json").read_text()


def test_a_log_that_ends_long_before_it_was_taken_is_told(gpuplan, log):
    for command, *words in (("forecast", "--by", "all"), ("bill", "--price", "1")):
        for at, is_said in (("2026-04-03", False), ("2026-06-18", True)):
            code, _, err = gpuplan(command, log, *words, "--as-of", at)
            assert code == 0, err
            told = "the log ends on 2026-04-02 00:00:00, 77 days before --as-of"
            assert (told in err) is is_said


def test_times_may_have_an_offset(gpuplan, log):
    for begin in ("2026-03-01T02:00:00+02:00", "2026-03-01 00:00:00Z"):
        words = ("bill", log, "--price", "1", "--from", begin, "--to", "2026-04-01")
        assert results(gpuplan, *words)["gpu_h"] == 8 * 60 + 40 + 16 * 48
    code, _, err = gpuplan("bill", log, "--price", "1", "--from", "May")
    assert code == 2 and "UTC unless it has an offset" in err and "2026-01-31T08:30:00+01:00" in err


def test_a_forecast_counts_the_gpus_held_now(gpuplan, tmp_path):
    # 388 GPUs in jobs that come and go; 326 more in one that has waited a day and still runs.
    hours = 400
    path = write_trace(
        tmp_path / "t.parquet", [*(h * HOUR for h in range(hours)), 300 * HOUR],
        [*[HOUR] * hours, None], num_gpus=[*[388] * hours, 326],
        queue_s=[*[0.0] * hours, DAY], state=[*["completed"] * hours, "running"],
    )  # fmt: skip
    found = results(gpuplan, "forecast", path, "--by", "all", "--model", "last-value",
                    "--cluster", "1000")  # fmt: skip
    assert found["series"][0]["next_hours"][0]["mean_gpus"] == 714
    assert max(one["gpus"] for one in found["lendable"]) <= 286


def test_the_parameters_and_a_scenario_have_the_period(gpuplan, log, tmp_path):
    code, out, err = gpuplan("characterize", log, *MARCH, "--output-format", "json")
    assert code == 0, err
    assert json.loads(out)["parameters"]["period"] == {
        "from": "2026-03-01T00:00:00", "to": "2026-04-01T00:00:00",
    }  # fmt: skip
    scenario = tmp_path / "plan.toml"
    scenario.write_text(
        f'[workload]\ntrace = "{log}"\nfrom = "2026-03-01"\nto = "2026-04-01"\n'
        'as_of = "2026-04-02"\n[prices]\nprice = 1\n[study.bill]\n[study.characterize]\n'
    )
    code, _, err = gpuplan("run", scenario, "-o", tmp_path / "out")
    assert code == 0, err
    for study in json.loads((tmp_path / "out" / "report.json").read_text())["studies"]:
        words = study["arguments"]
        assert {"--from=2026-03-01", "--to=2026-04-01", "--as-of=2026-04-02"} <= set(words)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("--from", "2026-04-01", "--to", "2026-03-01"), 2, "must be after --from"),
        (
            ("--from", "2027-04-01"),
            3,
            "ends on 2026-04-02 00:00:00, before --from 2027-04-01",
        ),
        (("--to", "2025-04-01"), 3, "begins on 2026-02-28 12:00:00, not before --to 2025-04-01"),
        ((*MARCH, "--scale-duration", "2"), 2, "not with --scale-duration"),
        (
            ("--from", "2026-03-15", "--to", "2026-03-16"),
            3,
            "none of its 4 jobs is left after --where, --since, --until, --from and --to",
        ),
    ],
)
def test_a_period_that_cannot_be_billed(gpuplan, log, words, code, problem):
    found, _, err = gpuplan("bill", log, "--price", "1", *words)
    assert (found, problem in err) == (code, True), err


def test_a_period_beyond_the_log_is_told(gpuplan, log):
    code, _, err = gpuplan(
        "bill", log, "--price", "1", "--from", "2026-03-01", "--to", "2026-05-01"
    )
    assert code == 0 and "the log covers 2026-02-28 12:00:00 to 2026-04-02 00:00:00" in err


def test_intervals_are_not_of_a_period(gpuplan, log):
    code, _, err = gpuplan("characterize", log, *MARCH, "--ci", "95")
    assert code == 2 and "--since and --until" in err


def test_times_without_a_zone_are_of_utc(log):
    assert read_trace(log, Selection(since=datetime(2026, 3, 1))).jobs.height == 3
    with pytest.raises(UsageError, match="--to 2026-03-01"):
        Selection(period_from=datetime(2026, 3, 1), period_to=datetime(2026, 3, 1, tzinfo=UTC))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 30), st.integers(0, 5)),
        min_size=1, max_size=20,
    ),
    st.integers(0, 60), st.integers(1, 40),
)  # fmt: skip
def test_a_period_agrees_with_a_count_second_by_second(drawn, begin, length):
    submit, queue, run, gpus = (
        list(map(float, column)) for column in zip(*sorted(drawn), strict=True)
    )
    epoch = int(ORIGIN.timestamp())
    frame = pl.DataFrame({
        "submit_time": pl.Series([(epoch + s) * 10**6 for s in submit]).cast(pl.Int64)
        .cast(pl.Datetime("us", "UTC")),
        "queue_s": queue, "duration_s": run, "num_gpus": gpus,
    })  # fmt: skip
    trace = in_memory(frame)
    edges = ((epoch + begin) * 10**6, (epoch + begin + length) * 10**6)
    jobs = job_arrays(trace.jobs, edges)
    held = np.zeros(200)
    for s, q, d, g in zip(submit, queue, run, gpus, strict=True):
        held[int(s + q) : int(s + q + d)] += g
    part = held[begin : begin + length]
    assert jobs.gpu_s.sum() == part.sum()
    assert jobs.earlier == sum(s < begin for s in submit)
    found = today(replace(trace, period=edges))
    if found is not None:
        assert found.usage.peak_gpus == part.max(initial=0)
        assert found.usage.mean_gpus == pytest.approx(part.mean())
