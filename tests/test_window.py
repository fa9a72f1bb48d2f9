"""One window, one bill: every policy is charged for the same time, and what is left is backlog."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import plain
from gpuplan.planner import compare as compare_module
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.compare import compare as run_all
from gpuplan.planner.engine import Engine
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.window import used_after
from gpuplan.planner.spec_prices import own_price
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.run import Usage
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels

HOUR = 3600.0
MONTH_H = 730.5


def jobs_of(rows, window_s):
    """Return jobs of (submission, run time, GPUs), seconds, that are charged for a window."""
    submit, run, gpus = np.array(rows, np.float64).T
    work = Workload.from_seconds(submit, run, gpus.astype(np.int64), submit + run)
    names = pl.Series("job_id", [str(i) for i in range(work.size)])
    window_us = None if window_s is None else (0, round(window_s * MICROS))
    return TraceJobs(work, names, (), window_us=window_us)


def compared(rows, window_s, *specs):
    named = [PolicySpec(f"{i}", policy, settings) for i, (policy, settings) in enumerate(specs)]
    found = run_all(jobs_of(rows, window_s), named, np.random.default_rng(0))
    return plain(found.rows())


TWO = [(0, HOUR, 2), (0, HOUR, 2)]
"""Two jobs of an hour on 2 GPUs each: 4 GPU-hours."""


def test_the_same_gpus_cost_the_same_whenever_the_last_job_ends():
    # The log ended after 1 h. On 2 GPUs the second job runs in the second hour: its 2 GPU-hours
    # are backlog. 4 GPUs are done in time.
    small, large = compared(
        TWO, HOUR, *(("fifo", {"gpus": gpus, "usd_per_gpu_h": 1.5}) for gpus in (2, 4))
    )
    assert (small["cost_usd"], large["cost_usd"]) == (2 * 1.5, 4 * 1.5)
    assert (small["usd_per_month"], large["usd_per_month"]) == pytest.approx(
        (2 * 1.5 * MONTH_H, 4 * 1.5 * MONTH_H)
    )
    assert (small["backlog_jobs"], small["backlog_gpu_h"]) == (1, pytest.approx(2))
    assert (large["backlog_jobs"], large["backlog_gpu_h"]) == (0, 0)
    assert [row["window_s"] for row in (small, large)] == [HOUR, HOUR]
    assert [row["utilization"] for row in (small, large)] == pytest.approx([1, 1])
    assert [row["paid_gpu_h"] for row in (small, large)] == pytest.approx([2, 4])


def test_idle_gpus_are_paid_to_the_end_of_the_window():
    (row,) = compared(TWO, 4 * HOUR, ("fifo", {"gpus": 4, "usd_per_gpu_h": 1.0}))
    assert (row["cost_usd"], row["utilization"], row["paid_gpu_h"]) == pytest.approx((16, 0.25, 16))


def test_without_a_window_a_policy_pays_until_its_last_finish():
    small, large = compared(
        TWO, None, *(("fifo", {"gpus": gpus, "usd_per_gpu_h": 1.0}) for gpus in (2, 4))
    )
    assert (small["window_s"], large["window_s"]) == (2 * HOUR, HOUR)
    assert small["cost_usd"] == large["cost_usd"] == 4
    assert small["backlog_jobs"] == small["backlog_gpu_h"] == 0


def test_what_is_rented_as_needed_is_paid_within_the_window():
    # `recorded` rents 2 GPUs for each job at once; half of the second hour lies beyond the window.
    rows = [(0, HOUR, 2), (HOUR, HOUR, 2)]
    terms = {"provision_s": 0.0, "usd_per_gpu_h": 1.0}
    (row,) = compared(rows, 1.5 * HOUR, ("recorded", terms))
    assert row["cost_usd"] == pytest.approx(3.0, abs=0.02)
    assert row["backlog_gpu_h"] == pytest.approx(1.0, abs=0.02)


def test_containers_and_workers_are_paid_within_the_window():
    now = {"serverless_startup_s": 0.0, "serverless_startup_sd_s": 0.0}
    (row,) = compared(
        [(0, HOUR, 1)], HOUR / 4,
        ("serverless-only", {**now, "serverless_usd_per_gpu_h": 2.0}),
    )  # fmt: skip
    assert row["cost_usd"] == pytest.approx(0.5)
    assert row["backlog_jobs"] == 1
    steady = {
        f"{p}_startup_{s}s": 0.0 for p in ("marketplace", "conventional") for s in ("", "sd_")
    }
    cloud = {"marketplace_offers": 0, "conventional_usd_per_gpu_h": 2.0}
    for window_s, usd in ((HOUR / 2, 1.0), (10 * HOUR, 2.0)):
        (row,) = compared([(0, HOUR, 1)], window_s, ("serverful-only", {**steady, **cloud}))
        assert row["cost_usd"] == pytest.approx(usd, rel=0.04)  # rented at a tick
        assert row["usd_per_month"] == pytest.approx(usd / (window_s / HOUR) * MONTH_H, rel=0.04)


@pytest.mark.parametrize("policy", ["easy", "equal", "pollux"])
def test_every_policy_of_a_cluster_has_the_same_bill(policy):
    fifo, other = compared(TWO, 3 * HOUR, ("fifo", {"gpus": 4}), (policy, {"gpus": 4}))
    assert fifo["cost_usd"] == other["cost_usd"] == pytest.approx(4 * 3 * 1.29)
    assert fifo["usd_per_month"] == other["usd_per_month"]


def test_a_cluster_rents_from_a_market_where_that_is_asked_for():
    cloud, market, offers = compared(
        TWO, HOUR, ("fifo", {"gpus": 2}), ("fifo", {"gpus": 2, "marketplace_offers": 50}),
        ("fifo", {"gpus": 2, "marketplace_min_usd_per_gpu_h": 0.38}),
    )  # fmt: skip
    assert cloud["cost_usd"] == pytest.approx(2 * 1.29)
    cheapest = np.interp((0.01, 0.03), (0, 0.5), (0.38, 1.08)).sum()
    assert market["cost_usd"] == offers["cost_usd"] == pytest.approx(cheapest)


@hypothesis_settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60), st.integers(1, 4)), min_size=1),
    st.integers(1, 200), st.sampled_from(["fifo", "srtf", "2d-las"]),
)  # fmt: skip
def test_work_is_done_within_the_window_or_is_backlog(rows, window_s, policy):
    rows = sorted((float(at), float(run), gpus) for at, run, gpus in rows)
    free = {"gpus": 4, "checkpoint_s": 0.0, "restore_s": 0.0, "usd_per_gpu_h": 1.0}
    if policy == "fifo":
        free = {"gpus": 4, "usd_per_gpu_h": 1.0}
    (row,) = compared(rows, float(window_s), (policy, free))
    done = row["utilization"] * row["paid_gpu_h"]
    assert done + row["backlog_gpu_h"] == pytest.approx(row["gpu_h"])
    assert row["cost_usd"] == pytest.approx(4 * window_s / HOUR)
    assert 0 <= row["backlog_jobs"] <= len(rows)


def test_gpu_time_after_an_instant():
    usage = Usage(np.array([0, 10, 30]), np.array([2, 3, 0]), np.zeros(3, np.int64))
    assert [used_after(usage, at) for at in (0, 5, 20, 30, 99)] == [80, 70, 30, 0, 0]


def priced(settings, prices, hours):
    (found,) = own_price([PolicySpec("fifo", "fifo", settings)], Prices(prices), hours)
    return found.settings["usd_per_gpu_h"]


def test_a_gpu_costs_what_its_type_costs():
    prices, hours = {"A100": 1.0, "H100": 3.0}, {"A100": 30.0, "H100": 10.0}
    assert priced({"gpus": 8}, prices, hours) == 1.5  # the mix of the log
    assert priced({"cluster": ClusterShape.parse("H100=8")}, prices, hours) == 3.0
    assert priced({"cluster": ClusterShape.parse("8x4")}, prices, hours) == 1.5
    assert priced({"gpus": 8}, {"": 2.0}, hours) == 2.0
    with pytest.raises(UsageError, match="T4 has no price, only A100, H100"):
        priced({"gpus": 8}, prices, {"A100": 1.0, "T4": 1.0})
    own = PolicySpec("fifo", "fifo", {"usd_per_gpu_h": 9.0})
    assert own_price([own], Prices(prices), hours) == [own]


def mixed(tmp_path):
    return write_trace(
        tmp_path / "t.parquet", [0, 0, 0], [HOUR, HOUR, HOUR], num_gpus=[1, 1, 2],
        queue_s=[0.0, HOUR, 0.0], gpu_type=["A100", "A100", "H100"],
    )  # fmt: skip


def test_types_are_priced_each_by_its_own_and_said(gpuplan, tmp_path):
    path = mixed(tmp_path)
    code, out, err = gpuplan(
        *("compare", path, "--gpus", "2,4", "--policy", "fifo", "--policy", "srtf"),
        *("--price", "A100=1", "--price", "H100=3", "--output-format", "json"),
    )
    assert code == 0, err
    found = json.loads(out)
    rows = found["results"]["policies"]
    assert [(row["name"], row["gpus"]) for row in rows] == [
        ("fifo", 2), ("srtf", 2), ("fifo", 4), ("srtf", 4)
    ]  # fmt: skip
    assert {row["window_s"] for row in rows} == {2 * HOUR}
    # 2 GPU-hours on each type: $2 on average.
    assert [row["usd_per_month"] for row in rows] == pytest.approx(
        [gpus * 2.0 * MONTH_H for gpus in (2, 2, 4, 4)]
    )
    today = found["results"]["today"]
    assert today["mean_gpus"] == 2  # GPU-hours over the window, as all come at once
    assert today["usd_per_month"] == pytest.approx((1 * 1 + 1 * 3) * MONTH_H)
    assert "50% of the GPU-hours ran on H100, not on A100" in err
    assert "at $2 per GPU-hour" in err


def test_an_answer_for_one_pool_of_several_types_says_so(gpuplan, tmp_path):
    code, out, err = gpuplan(
        "compare", mixed(tmp_path), "--gpus", "4", "--policy", "fifo", "--policy", "srtf"
    )
    words = " ".join(out.split())
    assert code == 0, err
    assert "if all GPUs count as one type (50% of the GPU-hours did not run on A100)." in words
    _, out, _ = gpuplan("simulate", mixed(tmp_path), "--policy", "gavel", "--cluster",
                        "A100=4,H100=4", "--gpu-speed", "H100=2,A100=1")  # fmt: skip
    assert "one type" not in out


def test_a_price_nobody_pays_is_refused(gpuplan, tmp_path):
    code, out, err = gpuplan("simulate", mixed(tmp_path), "--policy", "fifo", "--price", "T4=1")
    assert (code, out) == (2, "") and "prices only of T4; the GPU types are A100, H100" in err


def test_simulate_takes_one_size(gpuplan, tmp_path):
    for option, text in (("--gpus", "2,4"), ("--cluster", "2x2,4x2")):
        code, out, err = gpuplan("simulate", mixed(tmp_path), "--policy", "fifo", option, text)
        assert (code, out) == (2, "") and "gpuplan compare takes several" in err
    code, out, err = gpuplan("compare", mixed(tmp_path), "--gpus", "2,x")
    assert code == 2 and "--gpus must be a whole number from 1 to" in err


def test_sizes_are_rows_and_a_row_of_its_own_size_is_there_once(gpuplan, tmp_path):
    code, out, err = gpuplan(
        *("compare", mixed(tmp_path), "--cluster", "2x2,A100=8", "--policy", "fifo"),
        *("--policy", "fifo:gpus=3", "--policy", "serverless-only", "--policy", "hpa"),
        *("--output-format", "json"),
    )
    assert code == 0, err
    rows = json.loads(out)["results"]["policies"]
    assert [row["label"] for row in rows] == [
        "fifo:cluster=2x2", "fifo:gpus=3", "serverless-only", "hpa:capacity=4",
        "fifo:cluster=A100=8", "hpa:capacity=8",
    ]  # fmt: skip


def test_the_window_may_be_each_policys_own(gpuplan, tmp_path):
    code, out, err = gpuplan(
        *("compare", mixed(tmp_path), "--gpus", "2,4", "--policy", "fifo", "--window", "run"),
        *("--output-format", "json"),
    )
    assert code == 0, err
    found = json.loads(out)
    assert [row["window_s"] for row in found["results"]["policies"]] == [2 * HOUR, HOUR]
    assert found["results"]["today"] is None


def test_ties_have_no_winner(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 9000], [HOUR, HOUR], queue_s=[0.0, 0.0])
    both = ("--gpus", 8, "--policy", "fifo", "--policy", "srtf")
    code, out, err = gpuplan("compare", path, *both, "--price", "1")
    assert code == 0, err
    assert "the scheduler hardly matters: 7% used, P95 waits differ by 0.0%" in " ".join(
        out.split()
    )
    assert "fastest" not in out and "late" not in out


def test_late_jobs_are_shown_where_the_log_or_the_user_has_deadlines(gpuplan, tmp_path):
    path = mixed(tmp_path)
    code, out, err = gpuplan("compare", path, "--policy", "fifo", "--full")
    assert code == 0 and "late" not in out and "deadline" not in err
    code, out, err = gpuplan("compare", path, "--policy", "fifo", "--deadline-factor", "2")
    assert code == 0 and "late" in out and "deadline" in err
    code, out, err = gpuplan("compare", path, "--policy", "edf", "--gpus", 2)
    assert code == 0 and "late" not in out and "no deadlines, needed by edf" in err


def test_policies_on_several_types_pay_for_the_window_of_the_log(gpuplan, tmp_path):
    """Jobs would end earlier on the fastest type; the window ends where they were recorded."""
    code, out, err = gpuplan(
        "compare", mixed(tmp_path), "--policy", "fifo", "--policy", "fft", "--cluster",
        "A100=2,H100=2", "--gpu-speed", "A100=1,H100=8", "--price", "1", "--output-format", "json",
    )  # fmt: skip
    assert code == 0, err
    results = json.loads(out)["results"]
    windows = {row["window_s"] for row in results["policies"]}
    assert windows == {results["today"]["window_s"]} == {2 * HOUR}


def test_two_clusters_of_one_capacity_are_refused_where_a_policy_rents(gpuplan, tmp_path):
    shapes = "A100=4x8,A100=2x8,4x4,1000"
    code, out, err = gpuplan(
        "compare", mixed(tmp_path), "--policy", "allpass", "--cluster", shapes
    )  # fmt: skip
    assert (code, out) == (2, "") and "allpass rents 16 GPUs at most, as on another" in err


def test_an_interrupt_shows_the_policies_that_are_done(monkeypatch, library_log):
    replayed = compare_module._replayed

    def second_is_interrupted(spec, *shared):
        if spec.label == "srtf":
            raise KeyboardInterrupt
        return replayed(spec, *shared)

    monkeypatch.setattr(compare_module, "_replayed", second_is_interrupted)
    specs = [PolicySpec(name, name, {"usd_per_gpu_h": 2.0}) for name in ("fifo", "srtf")]
    with pytest.raises(KeyboardInterrupt):
        run_all(
            jobs_of([(0, HOUR, 1)], HOUR),
            specs,
            np.random.default_rng(0),
            engine=Engine("threads", 1),
        )
    assert library_log.messages == ["done before the interrupt: fifo: $2, mean JCT 3,600 s"]
