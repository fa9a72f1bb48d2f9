"""Policies that choose widths under simulate and compare: by hand, by laws, and as baselines."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import COLUMNS as CLASS_COLUMNS
from gpuplan.planner.elastic.job_classes import workload_of
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.registry import BASELINES, POLICIES, find_baseline, find_policy
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.planner.speedup.registry import load_speedup
from gpuplan.simkit.cluster_shape import ClusterShape

AT_ONCE = {"provision_s": 0.0, "release_s": 0.0}
STANDING = ("equal", "pollux")


def jobs_in(path):
    read = read_trace(path, Selection(), columns=[*COLUMNS, "job_class"])
    return jobs_of(read, np.random.default_rng(0), (2.0, 2.0))


def run(jobs, policy, **given):
    return POLICIES[policy].run(jobs, given, np.random.default_rng(0))


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """An hour on 4 GPUs at 0 s, and 10 min on one GPU at 60 s; both on whole minutes."""
    path = tmp_path_factory.mktemp("two") / "t.parquet"
    return jobs_in(write_trace(path, [0, 60], [3600.0, 600.0], [4.0, 1.0]))


@pytest.mark.kernels
def test_recorded_worked_by_hand(two):
    # Nodes of one GPU come after 90 s and are billed from then on: 4 for an hour, 1 for 10 min.
    found = run(two, "recorded", usd_per_gpu_h=2.0, release_s=0.0)
    assert found.frame["start_s"].to_list() == [90, 150]
    assert found.frame["finish_s"].to_list() == [3690, 750]
    assert found.frame["gpu_s"].to_list() == [4 * 3600, 600]
    assert found.results["cost_usd"] == pytest.approx(2 * (4 * 3600 + 600) / 3600)
    assert found.results["gpu_h"] == pytest.approx(4 + 1 / 6)
    assert found.results["mean_service_s"] == 2100 and found.results["mean_queue_s"] == 90


@pytest.mark.kernels
def test_fixed_width_worked_by_hand(two):
    # s(k) = sqrt(k): the first job's work is 2 h; on 4 GPUs it takes an hour, the other 5 min.
    given = {"speedup": "power:0.5", "usd_per_gpu_h": 1.0, **AT_ONCE}
    found = run(two, "fixed-width", width=4, **given)
    assert found.frame["jct_s"].to_list() == [3600, 300]
    assert found.results["cost_usd"] == pytest.approx((4 * 3600 + 4 * 300) / 3600)
    # With 4 GPUs at most the second job waits for the first, and is late: due after 20 min.
    found = run(two, "fixed-width", width=4, gpus=4, **given)
    assert found.frame["jct_s"].to_list() == [3600, 3840]
    assert found.results["deadline_miss_share"] == 0.5
    assert found.results["gpus"] == 4 and found.results["waiting_peak"] == 1


@pytest.mark.kernels
def test_equal_and_pollux_worked_by_hand(two):
    # 4 GPUs, s = sqrt(k). The first job has all until 60 s: 120 of 7200 s of work. Then two each:
    # the second ends after 600 / sqrt(2) = 424.3 s, and the first has all again from 540 s on.
    given = {"speedup": "power:0.5", "gpus": 4, "usd_per_gpu_h": 1.0}
    for policy in STANDING:
        found = run(two, policy, **given)
        left = 7200 - 2 * 60 - 2**0.5 * 480
        assert found.frame["jct_s"].to_list() == pytest.approx([540 + left / 2, 600 / 2**0.5])
        assert found.results["cost_usd"] == pytest.approx(4 * (540 + left / 2) / 3600)
        assert found.results["preemptions"] == 2  # the first job is resized twice
        assert found.run.usage.used.max() == 4 and not found.run.usage.waiting.any()


@pytest.mark.kernels
def test_autoscaling_worked_by_hand(tmp_path):
    # The efficiency of sqrt(k) is 0.5 at 4 GPUs, ready after 90 s: from the round of 120 s on.
    one = jobs_in(write_trace(tmp_path / "t.parquet", [0], [3600.0]))
    found = run(one, "pollux-autoscaling", speedup="power:0.5", usd_per_gpu_h=1.0)
    assert found.frame["jct_s"].to_list() == [1920] and found.frame["jqt_s"].to_list() == [120]
    assert found.results["gpus"] == 4
    assert found.results["cost_usd"] == pytest.approx(4 * 1920 / 3600)


@pytest.mark.kernels
def test_the_cheapest_offers_are_held_longest(two):
    # Offers at $1, $2 and $3: the first job holds all three and a GPU of the cloud at $10, the
    # second a fifth GPU at $10 for its 10 minutes.
    offers = {
        "marketplace_offers": 3,
        "marketplace_min_usd_per_gpu_h": 1.0,
        "marketplace_median_usd_per_gpu_h": 2.0,
        "marketplace_max_usd_per_gpu_h": 3.0,
        "conventional_usd_per_gpu_h": 10.0,
        "billing_step_s": 0.0,
        "minimum_billing_s": 0.0,
    }
    found = run(two, "recorded", **AT_ONCE, **offers)
    assert found.results["cost_marketplace_usd"] == pytest.approx(6)
    assert found.results["cost_conventional_usd"] == pytest.approx(10 + 10 / 6)
    assert found.frame["cost_usd"].sum() == pytest.approx(found.results["cost_usd"])


@pytest.mark.kernels
@pytest.mark.parametrize("policy", BASELINES)
def test_a_policy_does_the_same_as_a_baseline(policy, tmp_path):
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 3600, 30)).tolist()
    durations = rng.integers(60, 3600, 30).astype(float).tolist()
    path = write_trace(tmp_path / "t.parquet", submit, durations, rng.integers(1, 5, 30).tolist())
    jobs, known = jobs_in(path), BASELINES[policy]
    workload = workload_of(
        read_trace(path, Selection(), columns=CLASS_COLUMNS),
        load_speedup("power:0.7"),
        ClassOptions(rescale_s=20.0),
    )
    cluster = RentedCluster(node_gpus=2)
    knob = {"fixed-width": 3.0, "pollux-autoscaling": 0.6}.get(policy, 12.0)
    theirs = known.run(workload, cluster, knob)
    given = {"speedup": "power:0.7"} if "speedup" in POLICIES[policy].settings else {}
    name = {"fixed-width": "width", "pollux-autoscaling": "target_efficiency"}.get(policy)
    given |= {name: int(knob) if knob > 1 else knob} if name else {}
    shape = "6x2" if policy in STANDING else "x2"
    ours = run(jobs, policy, cluster=ClusterShape.parse(shape), rescale_s=20.0, **given)
    assert ours.frame["jct_s"].to_numpy() == pytest.approx(theirs.jct_s, abs=1e-4)
    assert ours.frame["jqt_s"].to_numpy() == pytest.approx(theirs.jqt_s, abs=1e-4)
    assert ours.results["gpu_h"] == pytest.approx(theirs.held_gpu_h)
    assert ours.run.rented.gpu_us / 3.6e9 == pytest.approx(theirs.rented_gpu_h)
    assert (ours.run.stops == np.maximum(theirs.rescales - 1, 0)).all()


@pytest.mark.kernels
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), policy=st.sampled_from(list(BASELINES)))
def test_laws_of_every_run(seed, policy, tmp_path_factory):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 20))
    submit = np.sort(rng.integers(0, 2000, n)).tolist()
    durations = rng.integers(1, 3000, n).astype(float).tolist()
    path = tmp_path_factory.mktemp("laws") / "t.parquet"
    jobs = jobs_in(write_trace(path, submit, durations, rng.integers(1, 5, n).tolist()))
    most = int(rng.integers(4, 12))
    rescale_s = float(rng.integers(0, 30))
    found = run(jobs, policy, gpus=most, rescale_s=rescale_s)
    happened, usage = found.run, found.run.usage
    # Capacity: never more than there is, nor more than is rented.
    assert happened.capacity == most and usage.used.max() <= most and usage.used.min() >= 0
    rented = happened.rented
    at = usage.time_us[:, None]
    there = ((rented.begin_us <= at) & (at < rented.end_us)) @ rented.gpus
    assert (usage.used <= there).all()
    # The usage adds up to what jobs held and waited; GPUs left in a round stay idle in it.
    lasting = np.diff(usage.time_us)
    assert usage.used[:-1] @ lasting == pytest.approx(happened.held_gpu_us.sum(), abs=2 * n)
    assert usage.waiting[:-1] @ lasting == pytest.approx(happened.waited_us.sum(), abs=2 * n)
    assert usage.used[-1] == usage.waiting[-1] == 0
    # Jobs: in order of time, paid in full.
    assert (happened.start_us >= happened.submit_us).all()
    assert (happened.finish_us >= happened.start_us).all()
    assert (happened.waited_us <= happened.finish_us - happened.submit_us).all()
    assert found.frame["cost_usd"].sum() == pytest.approx(found.results["cost_usd"])
    assert found.results["mean_jct_s"] == pytest.approx(
        found.results["mean_service_s"] + found.results["mean_queue_s"]
    )
    # Work conserving: no job waits for a round beside an idle GPU. Pollux lets one that just came
    # wait for a round if a start costs anything.
    if policy == "equal" or (policy == "pollux" and not rescale_s):
        rounds = np.isin(usage.time_us, np.arange(0, usage.time_us[-1] + 1, 60_000_000))
        waits = rounds & (usage.waiting > 0)
        assert (usage.used[waits] == most).all()


@pytest.mark.kernels
def test_must_run(gpuplan, lab, tmp_path):
    three = [part for name in ("pollux", "srtf", "fixed-width") for part in ("--policy", name)]
    code, out, err = gpuplan(
        *("compare", lab, "--cluster", 64, *three, "--output-format", "json"),
        *("--plot", tmp_path / "c.svg", "--timeline", tmp_path / "line.parquet"),
    )
    assert code == 0, err
    rows = json.loads(out)["results"]["policies"]
    assert [row["policy"] for row in rows] == ["pollux", "srtf", "fixed-width"]
    assert [row["gpus"] <= 64 for row in rows] == [True] * 3
    assert set(pl.read_parquet(tmp_path / "line.parquet")["policy"]) == {r["policy"] for r in rows}
    for row in rows:
        name = row["policy"]
        code, out, err = gpuplan(
            *("simulate", lab, "--cluster", 64, "--policy", name, "--output-format", "json"),
            *("--plot", tmp_path / "s.svg"),
        )
        assert code == 0, err
        alone = json.loads(out)["results"]
        assert alone.keys() - row.keys() <= {"today", "fidelity"}  # of the whole comparison
        assert {**row, **alone} == {**alone, **row}
        assert "GPUs in use, of 64" in (tmp_path / "s.svg").read_text()


@pytest.mark.kernels
def test_speedups_by_class_and_what_is_wrong_with_them(gpuplan, tmp_path, newtrace):
    code, _, err = gpuplan(
        *("compare", newtrace, "--policy", "pollux:gpus=16,speedup=profile:t4", "--policy"),
        *("fixed-width:speedup=profile:t4,width=2", "--output-format", "json", "--sample", 40),
    )
    assert code in (0, 3), err  # a trace without durations cannot be replayed
    path = write_trace(tmp_path / "t.parquet", [0], [60.0])
    for text, problem in (
        ("profile:t4", "has no job class"),
        ("powr:0.8", "did you mean power"),
        ("power:0.6..0.9", "not the range"),
        ("table:no.csv", "no.csv"),
    ):
        code, _, err = gpuplan("simulate", path, "--policy", "equal", "--set", f"speedup={text}")
        assert code in (2, 3), err
        assert problem in err.replace("\n", " "), err


@pytest.mark.parametrize(
    ("policy", "given", "problem"),
    [
        ("recorded", {"gpus": 3}, r"widest job takes 4 GPUs(.|\n)*allow at least 4"),
        ("fixed-width", {"width": 0}, "width must be at least 1"),
        ("pollux", {"cluster": ClusterShape.parse("A100=4,T4=4")}, "one GPU type"),
        ("pollux-autoscaling", {"target_efficiency": 0.0}, "above 0"),
        ("equal", {"gpu": "A100"}, "needs --prices"),
    ],
)
def test_settings_that_no_run_can_have(two, policy, given, problem):
    with pytest.raises(UsageError, match=problem):
        run(two, policy, **given)


def test_old_names_stand_for_one_policy_each():
    assert find_policy("fixed") is POLICIES["fixed-threshold"]
    assert find_baseline("fixed") is POLICIES["fixed-width"]
    assert "fixed" not in POLICIES
    with pytest.raises(UsageError, match="expected one of recorded, fixed-width, equal"):
        find_baseline("srt")


def test_a_size_nobody_gave_is_told(two):
    found = run(two, "equal")
    assert found.results["gpus"] == 5  # both at once on their recorded GPUs
    assert "the cluster has 5 GPUs" in found.warnings[0]
    assert any("assumed to scale as power:0.8" in text for text in found.warnings)
    assert not any("assumed" in text for text in run(two, "recorded").warnings)
