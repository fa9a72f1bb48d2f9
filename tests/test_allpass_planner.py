"""From a trace to an Allpass run: what is left out, deadlines, settings, the bill."""

import re

import numpy as np
import pytest
from support_traces import lab_trace, write_trace

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.money.renting_settings import OF_PRICES
from gpuplan.planner.policies.allpass import simulate
from gpuplan.planner.policies.allpass_settings import SETTINGS, parameters_from, settings_of
from gpuplan.planner.registry import POLICIES, find_policy
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.simkit.allpass.parameters import Allpass


def jobs_from(path, factor=None, seed=0, **selection):
    trace = read_trace(path, Selection(**selection), columns=COLUMNS)
    return jobs_of(trace, np.random.default_rng(seed), factor)


def test_jobs_without_gpus_or_duration_are_left_out_and_told(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [5, 6, 7, 9], [10, None, 30, 40], [1, 1, 0, 2.5])
    jobs = jobs_from(path, (3.0, 3.0))
    assert jobs.workload.submit_us.tolist() == [0, 4_000_000]  # after the first that is kept
    assert jobs.workload.gpus.tolist() == [1, 3]
    assert jobs.workload.billed_gpus.tolist() == [1.0, 2.5]
    assert jobs.workload.deadline_us.tolist() == [30_000_000, 124_000_000]
    assert jobs.notes == (
        "1 job is left out because it uses no GPU",
        "1 job is left out because it has no duration",
        "1 job holds parts of GPUs, and replays give it whole ones: 1.2 times the GPU-hours (only "
        "policies that lend GPUs, such as gfs and fgd, place parts)",
        "2 jobs get an assumed deadline of 3 times their duration",
    )


def test_running_jobs_are_left_out_unless_asked_for(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 1], [10.0, 20.0], state=["running", "completed"])
    trace = read_trace(path, Selection(), columns=COLUMNS)
    found = jobs_of(trace, np.random.default_rng(0))
    assert found.workload.service_us.tolist() == [20_000_000]
    assert found.notes[0] == (
        "1 job was still running and is left out of replays (--include-running), not of today: "
        "its recorded duration is a lower bound"
    )
    found = jobs_of(trace, np.random.default_rng(0), include_running=True)
    assert found.workload.service_us.tolist() == [10_000_000, 20_000_000]
    assert "replayed as if it had ended: its recorded duration is a lower" in found.notes[0]
    only = write_trace(tmp_path / "r.parquet", [0], [10.0], state=["running"])
    with pytest.raises(InputError, match=r"has ended[\s\S]*--include-running takes"):
        jobs_from(only)


def test_deadlines_of_the_trace_are_kept_unless_a_factor_is_given(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 1], [100, 100], deadline_s=[250.0, None])
    own = jobs_from(path)
    assert own.workload.deadline_us[0] == 250_000_000
    assert 101_000_000 <= own.workload.deadline_us[1] <= 1_001_000_000
    assert own.notes == ("1 job gets an assumed deadline sampled from 1 to 10 times its duration",)
    forced = jobs_from(path, (2.0, 2.0))
    assert forced.workload.deadline_us.tolist() == [200_000_000, 201_000_000]


def test_deadline_factors_are_drawn_from_their_range(tmp_path):
    path = write_trace(tmp_path / "t.parquet", range(2000), [100.0] * 2000)
    work = jobs_from(path, (2.0, 4.0)).workload
    factor = (work.deadline_us - work.submit_us) / work.service_us
    assert factor.min() >= 2
    assert factor.max() <= 4
    assert factor.mean() == pytest.approx(3, abs=0.05)  # sd of the mean: 0.013


def test_a_trace_that_cannot_be_replayed_says_why(tmp_path):
    timeless = write_trace(tmp_path / "sia.parquet", [0, 1], [None, None])
    with pytest.raises(InputError, match="gpuplan pareto can take job sizes"):
        jobs_from(timeless)
    cpu = write_trace(tmp_path / "cpu.parquet", [0, 1], [5.0, 5.0], [0.0, 0.0])
    with pytest.raises(InputError, match="no job has both GPUs and a duration"):
        jobs_from(cpu)
    with pytest.raises(UsageError, match="deadline-factor"):
        jobs_from(cpu, (3.0, 1.0))


def test_settings_make_parameters_and_show_them():
    made = parameters_from(
        {
            "capacity": 7,
            "serverless_usd_per_gpu_h": 3.0,
            "marketplace_offers": 2,
            "marketplace_median_usd_per_gpu_h": 1.0,
            "serverless_startup_s": 1.0,
        }
    )
    assert made.capacity == 7
    assert made.serverless_price == 3.0
    assert made.marketplace_prices == pytest.approx((0.69, 1.33))  # quantiles 1/4 and 3/4
    assert (made.serverless_startup.mean_s, made.serverless_startup.sd_s) == (1.0, 1.84)
    shown = settings_of(made)
    assert shown["marketplace_usd_per_gpu_h"] == [0.69, 1.33]
    assert parameters_from({}) == Allpass()
    ladder = {key for key in SETTINGS if key.startswith("marketplace_m")}
    assert set(shown) == set(SETTINGS) - ladder - set(OF_PRICES) | {"marketplace_usd_per_gpu_h"}
    with pytest.raises(UsageError, match="--set provider: needs --prices"):
        parameters_from({"provider": "vast"})
    with pytest.raises(UsageError, match="tick_s must be at least 1"):
        parameters_from({"tick_s": 0.0})


def test_a_job_that_ends_at_its_deadline_is_not_late(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 100], [60.0, 60.0])
    exact = {"serverless_startup_s": 0.0, "serverless_startup_sd_s": 0.0}
    for factor, late in ((1.0, 0), (0.999, 1)):
        jobs = jobs_from(path, (factor, factor))
        found = simulate(jobs, exact, np.random.default_rng(0)).results
        assert found["deadline_miss_share"] == late


def test_a_pool_without_measure_is_a_usage_error(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0], [3.1e9], [64.0])
    jobs = jobs_from(path, (1e-4, 1e-4))
    with pytest.raises(UsageError, match="16 million rentals\n  next: set scaling=bounded"):
        simulate(jobs, {"controller": "fixed", "scaling": "literal"}, np.random.default_rng(0))


@pytest.mark.parametrize("policy", ["allpass", "hpa", "serverful-only"])
def test_a_job_of_a_million_workers_is_refused_at_once(gpuplan, tmp_path, policy):
    path = write_trace(tmp_path / "t.parquet", [0, 3600, 7200], [9000.0] * 3, [1e6] * 3)
    code, out, err = gpuplan("simulate", path, "--policy", policy)
    assert (code, out) == (2, "")
    text = " ".join(err.split())
    assert "a job would move to more than 100,000 workers of one GPU next: leave such jobs" in text
    assert "--where 'num_gpus <= 100000'" in text
    if policy == "allpass":  # where such jobs cannot move, they stay serverless
        code, out, _ = gpuplan("simulate", path, "--policy", policy, "--set", "capacity=100000")
        assert code == 0 and "$1.57B a month" in out


def test_a_pool_of_more_than_a_million_workers_is_refused(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0] * 11, [9000.0] * 11, [1e5] * 11)
    with pytest.raises(UsageError, match="1,048,576 workers at once\n  next: set a lower capacity"):
        simulate(jobs_from(path, (1, 2)), {}, np.random.default_rng(0))


@pytest.mark.kernels
def test_a_simulation_adds_up(tmp_path):
    jobs = jobs_from(lab_trace(tmp_path / "t.parquet", jobs=60))
    found = simulate(jobs, {"capacity": 12}, np.random.default_rng(0))
    frame, results = found.frame, found.results
    assert frame.columns[:8] == [
        "job_id",
        "submit_s",
        "start_s",
        "finish_s",
        "jct_s",
        "jqt_s",
        "gpu_s",
        "cost_usd",
    ]
    parts = frame.select(
        frame[c] for c in ("serverless_s", "serverful_s", "startup_s", "queue_s", "demotion_s")
    ).sum_horizontal()
    np.testing.assert_allclose(frame["jct_s"], parts, rtol=0, atol=1e-6)
    np.testing.assert_allclose(frame["finish_s"] - frame["submit_s"], frame["jct_s"], atol=1e-6)
    np.testing.assert_allclose(frame["jqt_s"], frame["startup_s"] + frame["queue_s"], atol=1e-6)
    bill = sum(results[f"cost_{k}_usd"] for k in ("serverless", "marketplace", "conventional"))
    assert results["cost_usd"] == pytest.approx(bill, rel=1e-12)
    assert frame["cost_usd"].sum() == pytest.approx(bill, rel=1e-9)
    assert results["mean_jct_s"] == pytest.approx(frame["jct_s"].mean())
    assert results["workers_peak"] <= 12
    waits = sum(results[f"mean_{k}_s"] for k in ("service", "startup", "queue", "demotion"))
    assert results["mean_jct_s"] == pytest.approx(waits)
    assert results["finished_serverless_share"] == pytest.approx((frame["demotion_s"] == 0).mean())
    assert results["mean_jqt_s"] == pytest.approx(frame["jqt_s"].mean())
    assert results["mean_startup_s"] > 0


def test_the_numbers_of_a_tiny_run(tmp_path):
    # One GPU for 600 s at once, due at 600: 60 s in the container (no start-up), 42 s checkpoint,
    # queued at 102. The tick at 120 rents a worker, ready at 156: 42 s + 540 s, until 738.
    path = write_trace(tmp_path / "t.parquet", [0], [600.0])
    exact = {f"{p}_startup_sd_s": 0.0 for p in ("serverless", "marketplace", "conventional")}
    settings = exact | {
        "controller": "fixed",
        "threshold_s": 60.0,
        "serverless_startup_s": 0.0,
        "marketplace_startup_s": 36.0,
        "marketplace_offers": 1,
    }
    found = simulate(jobs_from(path, (1.0, 1.0)), settings, np.random.default_rng(0)).results
    assert found["mean_jct_s"] == 738
    assert found["mean_queue_s"] == 156 - 102
    assert found["mean_demotion_s"] == 84
    assert found["deadline_miss_share"] == 1
    assert found["makespan_s"] == 738
    assert found["cost_serverless_usd"] == pytest.approx(2.10 * 102 / 3600)
    assert found["cost_marketplace_usd"] == pytest.approx(1.08 * (738 - 120) / 3600)
    assert found["mean_marketplace_usd_per_gpu_h"] == pytest.approx(1.08)
    assert found["worker_busy_share"] == pytest.approx(582 / 618)
    assert found["workers_mean"] == pytest.approx(618 / 738)


def test_wide_jobs_that_never_leave_are_counted_and_told(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 1], [900.0, 900.0], [8.0, 1.0])
    found = simulate(jobs_from(path), {"capacity": 4}, np.random.default_rng(0))
    assert found.results["never_demotable_jobs"] == 1
    assert "1 job of more GPUs than the capacity of 4 workers" in found.warnings[0]
    with pytest.raises(UsageError, match="num_gpus <= 4"):
        simulate(jobs_from(path), {"serverless_limit": 4}, np.random.default_rng(0))


def test_long_waits_are_explained(tmp_path):
    path = write_trace(tmp_path / "t.parquet", range(10), [900.0] * 10)
    for settings, reason in (
        ({"scale_out": "window"}, "deadlines less than 30 min ahead; --set scale_out=queue"),
        ({"capacity": 1}, "all 1 workers of the capacity"),
    ):
        found = simulate(jobs_from(path, (9.0, 9.0)), settings, np.random.default_rng(0))
        assert len(found.warnings) == 1
        assert reason in found.warnings[0]
    served = simulate(jobs_from(path, (9.0, 9.0)), {}, np.random.default_rng(0))
    assert served.warnings == ()


def test_waits_for_containers_are_told_from_waits_for_workers(tmp_path):
    # Ten jobs of 900 s, one container at a time, start-up 3 s: they wait 0, 902, ... 9 x 902 s.
    path = write_trace(tmp_path / "t.parquet", range(10), [900.0] * 10)
    few = {"serverless_limit": 1, "serverless_startup_s": 3.0, "serverless_startup_sd_s": 0.0}
    for policy, more in (("allpass", {"capacity": 0}), ("serverless-only", {})):
        found = POLICIES[policy].run(jobs_from(path), few | more, np.random.default_rng(0))
        assert found.results["mean_container_queue_s"] == 4.5 * 902
        assert found.results["mean_queue_s"] == 4.5 * 902
        message = found.warnings[-1]
        assert (
            "wait longer for containers than they run: at most 1 GPU may be serverless" in message
        )
        assert not any("workers of the capacity" in warning for warning in found.warnings)
    found = simulate(jobs_from(path, (9.0, 9.0)), {"capacity": 1}, np.random.default_rng(0))
    assert found.results["mean_container_queue_s"] == 0 < found.results["mean_queue_s"]


def test_a_threshold_that_falls_below_what_a_move_takes_is_told(tmp_path):
    # A job an hour with much time: the pressure stays low, and F falls by 2 s a minute.
    path = write_trace(tmp_path / "t.parquet", range(0, 36_000, 3_600), [900.0] * 10)
    jobs = jobs_from(path, (9.0, 9.0))
    for settings, is_advised in (
        ({"min_threshold_s": 0.0}, True),
        ({"threshold_s": 60.0}, True),
        ({"min_threshold_s": 90.0}, False),
        ({}, False),
    ):
        found = simulate(jobs, settings, np.random.default_rng(0))
        average_s = found.results["mean_threshold_s"]
        assert (average_s < 84) is is_advised
        assert [
            f"was {average_s:.3g} s on average, less than the 84 s" in w for w in found.warnings
        ] == ([True] if is_advised else [])


@pytest.mark.parametrize(
    "settings",
    [
        {"min_threshold_s": 0.0},
        {"threshold_s": 60.0},
        {"checkpoint_s": 600.0, "restore_s": 600.5},
        {"checkpoint_s": 3000.0, "restore_s": 1500.0},
    ],
)
def test_what_is_advised_about_a_low_threshold_can_be_done_and_helps(tmp_path, settings):
    path = write_trace(tmp_path / "t.parquet", range(0, 36_000, 3_600), [900.0] * 10)
    jobs = jobs_from(path, (9.0, 9.0))
    (warning,) = simulate(jobs, settings, np.random.default_rng(0)).warnings
    advised = {name: float(value) for name, value in re.findall(r"--set (\w+)=(\d+)", warning)}
    assert set(advised) <= {"min_threshold_s", "threshold_s", "max_threshold_s"}
    assert simulate(jobs, settings | advised, np.random.default_rng(0)).warnings == ()


def test_a_bill_above_all_serverless_is_told(tmp_path):
    # Ten days on one GPU, late from the start: 481 workers for a job that uses one.
    path = write_trace(tmp_path / "t.parquet", [0], [864_000.0])
    jobs = jobs_from(path, (1e-4, 1e-4))
    for scaling, is_advised in (("literal", True), ("bounded", False)):
        found = simulate(jobs, {"scaling": scaling}, np.random.default_rng(0))
        assert found.results["cost_if_serverless_usd"] == pytest.approx(240 * 2.10)
        assert (
            any("above the $504.00 of serverless alone" in w for w in found.warnings) is is_advised
        )


def test_policies_are_found_by_name():
    assert find_policy("allpass") is POLICIES["allpass"]
    with pytest.raises(UsageError, match=r"did you mean allpass\?\); expected one of allpass"):
        find_policy("Allpas")
