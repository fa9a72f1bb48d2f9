"""What a log shows today: hand-worked logs, and laws against a count second by second."""

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_traces import write_trace

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.today import COLUMNS, today
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.formats.today_text import today_text
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.studies.policy_prices import backlog_note


def shown(path, usd_per_gpu_h=None):
    found = today(read_trace(path, columns=COLUMNS))
    return found if usd_per_gpu_h is None else found.at_prices(Prices(usd_per_gpu_h).usd)


def test_a_log_worked_out_by_hand(tmp_path):
    # 4 GPUs from 10 to 110, 2 more from 60 to 160; submissions end at 160 with a job of no GPUs.
    path = write_trace(
        tmp_path / "t.parquet", [0, 20, 160], [100.0, 100.0, 5.0], num_gpus=[4, 2, 0],
        queue_s=[10.0, 40.0, 0.0], gpu_type=["A100", "H100", None],
    )  # fmt: skip
    found = shown(path, usd_per_gpu_h={"A100": 1.0, "H100": 3.0})
    assert found.window_s == 160
    assert found.usage.gpu_h == pytest.approx(600 / 3600)
    assert found.usage.mean_gpus == pytest.approx(600 / 160)
    assert found.usage.peak_gpus == 6
    assert found.usage.p95_gpus == 6  # held for 50 of 160 s
    assert (found.mean_wait_s, found.mean_run_s, found.mean_jct_s) == (25, 100, 125)
    a100, h100 = found.gpu_types
    assert (a100.gpu_type, a100.peak_gpus, a100.usd_per_month) == (
        "A100", 4, pytest.approx(400 / 160 * MONTH_H)
    )  # fmt: skip
    assert h100.usd_per_month == pytest.approx(3 * 200 / 160 * MONTH_H)
    assert found.usage.usd_per_month == pytest.approx(a100.usd_per_month + h100.usd_per_month)
    assert found.usage.usd_per_gpu_h == pytest.approx((400 + 3 * 200) / 600)


def test_jobs_that_name_no_type_have_the_price_of_the_unknown_or_of_every_type(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 50], [100.0, 100.0])
    for prices in ({"unknown": 2.0}, {"": 2.0}):
        assert shown(path, usd_per_gpu_h=prices).usage.usd_per_gpu_h == pytest.approx(2)


def test_a_month_has_730_5_hours():
    assert MONTH_H == 730.5


def test_a_log_without_waits_has_no_completion_time(tmp_path):
    found = shown(write_trace(tmp_path / "t.parquet", [0, 50], [100.0, 100.0]))
    assert (found.mean_wait_s, found.mean_jct_s, found.p95_jct_s, found.jobs_with_wait) == (
        None,
    ) * 3 + (0,)
    assert found.mean_run_s == 100
    assert found.usage.usd_per_month is None


def test_a_type_without_a_price_leaves_the_bill_of_all_open(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 0], [10.0, 10.0], gpu_type=["A100", None])
    found = shown(path, usd_per_gpu_h={"A100": 1.0})
    assert found.usage.usd_per_month is None
    assert {each.gpu_type: each.usd_per_gpu_h for each in found.gpu_types} == {
        "A100": 1.0, "unknown": None
    }  # fmt: skip


def test_a_log_without_run_times_shows_nothing(tmp_path):
    assert shown(write_trace(tmp_path / "t.parquet", [0], [None])) is None


JOBS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(1, 30), st.integers(1, 8)),
    min_size=1, max_size=12,
)  # fmt: skip


@given(JOBS)
def test_it_agrees_with_a_count_second_by_second(tmp_path_factory, jobs):
    jobs = sorted(jobs)
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    submit, wait, run, gpus = (list(column) for column in zip(*jobs, strict=True))
    write_trace(path, submit, run, num_gpus=gpus, queue_s=wait)
    found = shown(path)
    first = submit[0]
    seconds = np.zeros(max(s + w + r for s, w, r, _ in jobs) - first)
    for s, w, r, g in jobs:
        seconds[s + w - first : s + w + r - first] += g
    span = max(submit) - first or seconds.size
    assert (found.window_s, found.span_s) == (seconds.size, span)
    assert found.usage.mean_gpus == pytest.approx(seconds.sum() / seconds.size)
    assert found.at_arrival_rate().usage.mean_gpus == pytest.approx(seconds.sum() / span)
    assert found.usage.peak_gpus == seconds.max()
    held = np.sort(seconds)
    assert found.usage.p95_gpus == held[int(np.ceil(0.95 * held.size)) - 1]
    assert sum(each.gpu_h for each in found.gpu_types) == pytest.approx(found.usage.gpu_h)


def test_the_price_of_every_gpu_may_be_one(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0], [3600.0], num_gpus=[2])
    found = shown(path, usd_per_gpu_h={"": 1.5})
    assert found.usage.usd_per_month == pytest.approx(2 * 1.5 * 730.5)
    assert pl.DataFrame(plain(found)["gpu_types"])["usd_per_month"].sum() == pytest.approx(
        found.usage.usd_per_month
    )


def test_pareto_leads_with_today_and_takes_budgets_relative_to_it(gpuplan, tmp_path):
    # A job of 2 GPUs for 3,600 s each 1,800 s: 4 GPUs on average, 2 h per job.
    count = 41
    path = write_trace(
        tmp_path / "t.parquet", [1800.0 * i for i in range(count)], [3600.0] * count,
        num_gpus=[2] * count, queue_s=[3600.0] * count,
    )  # fmt: skip
    law = ("--speedup", "power:0.8", "--price", "2", "--rescale", "0")
    code, out, err = gpuplan("pareto", path, *law, "--budget", "now,now+20%,now-5%")
    assert code == 0, err
    text = " ".join(out.split())
    # All this waiting is none of the cluster's: a replay finds all GPUs free.
    assert text.startswith(
        "A replay of today's 4 GPUs under first-fit waits 0 s (P95), your log 60"
    )
    assert (
        "Today: 3.7 GPUs on average (peak 4; 4.1 while jobs arrive, the base of all budgets), "
        "2 h per job (60 min waiting, 60 min running), "
        "$5,400 a month. "
    ) in text
    code, out, _ = gpuplan(
        "pareto", path, *law, "--budget", "now,now+20%,now-5%", "--output-format", "json"
    )
    found = json.loads(out)["results"]
    # 82 GPU-hours: 20 h of arrivals, and 22 h to the last recorded end, as in every command.
    now = 82 / 20
    assert found["today"]["mean_gpus"] == pytest.approx(82 / 22)
    others = ("characterize", path, "--price", "2", "--output-format", "json")
    assert json.loads(gpuplan(*others)[1])["results"]["today"] == found["today"]
    assert (found["today"]["mean_wait_s"], found["today"]["mean_jct_s"]) == (3600, 7200)
    budgets = {point["requested"]: point["budget_gpus"] for point in found["points"]}
    assert budgets == {
        "now": pytest.approx(now), "now+20%": pytest.approx(1.2 * now),
        "now-5%": pytest.approx(0.95 * now),
    }  # fmt: skip
    for point in found["points"]:
        within = point["replay_within_today_peak"]
        assert within["today_peak_gpus"] == 4 and within["peak_gpus"] <= 4
        assert within["mean_jct_s"] >= point["replay"]["mean_jct_s"] - 1e-6


@pytest.mark.parametrize(("text", "gpus"), [("quarter", 3 * 730.5), ("year", 12 * 730.5)])
def test_budgets_per_quarter_and_year(gpuplan, tmp_path, text, gpus):
    path = write_trace(tmp_path / "t.parquet", [0, 3600], [3600.0] * 2)
    asked = ("pareto", path, "--speedup", "power:0.8", "--price", "1", "--no-replay")
    code, out, err = gpuplan(
        *asked, "--budget", f"${3 * gpus:.1f}/{text}", "--output-format", "json"
    )
    assert code == 0, err
    (point,) = json.loads(out)["results"]["points"]
    assert point["budget_gpus"] == pytest.approx(3)


def test_a_bare_percentage_names_what_it_may_be_of(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 3600], [3600.0] * 2)
    code, _, err = gpuplan("pareto", path, "--budget", "+20%")
    assert code == 2 and "next: --budget now+20%" in err


def test_now_needs_run_times(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 3600], [None, None], job_class=["bert", "bert"])
    code, _, err = gpuplan("pareto", path, "--speedup", "profile:t4", "--budget", "now")
    assert code in (2, 3) and "Traceback" not in err


def test_a_backlog_of_one_gpu_hour_is_singular():
    gfs = SimpleNamespace(backlog_gpu_h=1.0, backlog_jobs=1, gpu_h=4.0)
    fifo = SimpleNamespace(backlog_gpu_h=105.0, backlog_jobs=1, gpu_h=4.0)
    (note,) = backlog_note([("gfs", gfs), ("fifo", fifo)])
    assert note.endswith("gfs 1 GPU-hour (1 job), fifo 105 GPU-hours (1 job)")


def test_users_and_groups_have_their_bill(gpuplan, tmp_path):
    # 7,200 s: ann holds 2 A100 for an hour and 1 H100 for an hour, bo an A100, cy a T4.
    path = write_trace(
        tmp_path / "t.parquet", [0, 1800, 3600, 3600], [3600.0] * 4, num_gpus=[2, 1, 1, 1],
        gpu_type=["A100", "H100", "A100", "T4"], user=["ann", "ann", "bo", "cy"],
        group=["x", "y", "x", "x"],
    )  # fmt: skip
    asked = ("characterize", path, "--top", "1", "--output-format", "json")
    priced = (*asked, "--price", "A100=1", "--price", "H100=4")
    code, out, err = gpuplan(*priced, "--price", "T4=2")
    assert code == 0, err
    groups = json.loads(out)["results"]["groups"]
    (ann,), rest = groups["user"]["rows"], groups["user"]["others"]
    month = 730.5 / 2  # of the two hours of the log
    assert ann["usd_per_month"] == pytest.approx(6 * month)
    assert rest["usd_per_month"] == pytest.approx(3 * month)
    (x,), y = groups["group"]["rows"], groups["group"]["others"]
    assert (x["usd_per_month"], y["usd_per_month"]) == pytest.approx((5 * month, 4 * month))
    code, out, err = gpuplan(*asked, "--price", "A100=1,H100=4,T4=2,V100=2")
    assert code == 0, err
    assert "--price: the price of V100 is not used" in json.loads(out)["warnings"][0]
    code, out, err = gpuplan(*asked, "--price", "A100=1,H100=4")
    assert (code, out) == (2, "") and "--price: T4 has no price" in err
    free = json.loads(gpuplan(*asked)[1])["results"]["groups"]["user"]
    assert free["rows"][0]["usd_per_month"] is None
    text = gpuplan("characterize", path, "--full", *priced[6:], "--price", "T4=2")[1]
    assert "$2,190" in next(line for line in text.splitlines() if line.startswith(" ann"))


def test_bills_of_users_count_the_running_jobs_of_their_table(gpuplan, tmp_path):
    # ann used an A100 for an hour; bo has held two H100s for an hour, and still runs.
    path = write_trace(
        tmp_path / "t.parquet", [0, 3600], [3600.0] * 2, num_gpus=[1, 2],
        gpu_type=["A100", "H100"], user=["ann", "bo"], state=["completed", "running"],
    )  # fmt: skip
    asked = ("characterize", path, "--price", "A100=1,H100=4", "--output-format", "json")
    code, out, err = gpuplan(*asked)
    assert code == 0, err
    rows = json.loads(out)["results"]["groups"]["user"]["rows"]
    found = {row["name"]: row["usd_per_month"] for row in rows}
    assert found == pytest.approx({"ann": 730.5 / 2, "bo": 8 * 730.5 / 2})


def test_jobs_still_running_have_a_wait_but_no_run_time(tmp_path):
    columns = {"queue_s": [60.0, 120.0], "state": ["completed", "running"]}
    path = write_trace(tmp_path / "t.parquet", [0, 10], [600.0, 30.0], [1.0, 1.0], **columns)
    text = today_text(shown(path))
    assert "where wait and run time are known (1 of 2 jobs)" in text
