"""``gpuplan simulate`` with the schedulers of one cluster."""

import json

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace

from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.planner.requests.settings import parse_settings, show_setting
from gpuplan.planner.runs.settings import Setting

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("policy", SCHEDULERS)
def test_jobs_and_summary_agree(gpuplan, lab, tmp_path, policy):
    code, out, err = gpuplan(
        *("simulate", lab, "--policy", policy, "--gpus", 8, "--set", "restore_s=1m"),
        *("--set", "marketplace_offers=50"),
        *("-o", tmp_path / "jobs.parquet", "--output-format", "json"),
    )
    assert code == 0, err
    document = json.loads(out)
    results, frame = document["results"], pl.read_parquet(tmp_path / "jobs.parquet")
    assert document["parameters"]["settings"]["gpus"] == results["gpus"] == 8
    assert results["policy"] == policy and results["jobs"] == frame.height == 400
    assert results["mean_jct_s"] == pytest.approx(frame["jct_s"].mean())
    assert results["mean_jct_s"] == pytest.approx(
        results["mean_service_s"] + results["mean_jqt_s"] + results["mean_preemption_s"]
    )
    hours = results["window_s"] / 3600 * 8
    eight = np.interp((np.arange(8) + 0.5) / 50, (0, 0.5, 1), (0.38, 1.08, 1.66)).mean()
    assert results["mean_usd_per_gpu_h"] == pytest.approx(eight)
    assert results["cost_usd"] == pytest.approx(hours * eight)
    assert results["cost_marketplace_usd"] == results["cost_usd"]
    assert results["cost_conventional_usd"] == 0
    assert frame["cost_usd"].sum() == pytest.approx(results["cost_usd"])
    assert results["paid_gpu_h"] == pytest.approx(hours)
    assert results["utilization"] <= results["gpu_busy_share"] <= 1
    assert results["preemptions"] == frame["preemptions"].sum()
    assert (results["preemptions"] > 0) == SCHEDULERS[policy].preemptive


def test_the_table_and_picture_are_for_people(gpuplan, lab, tmp_path):
    code, out, _ = gpuplan(
        *("simulate", lab, "--policy", "2d-las", "--cluster", "2x4"),
        *("--plot", tmp_path / "t.svg", "--full"),
    )
    assert code == 0
    assert (
        "On 8 GPUs ($7,540 a month busy or not, at $1.29 per GPU-hour), 2d-las takes"
        in " ".join(out.split())
    )
    assert "fragmented" in out and "mean $/GPU-h" in out and "serverless" not in out
    assert max(map(len, out.splitlines())) <= 100
    assert "GPUs in use, of 8" in (tmp_path / "t.svg").read_text()


def test_fragmented_is_the_share_of_gpu_time_that_only_nodes_leave_idle(gpuplan, tmp_path):
    # Two nodes of 4. Jobs 0 and 1 leave one GPU each, so job 2 waits from 1 to 10 for 2 in one
    # node: 9 s x 2 GPUs of 20 s x 8.
    path = write_trace(tmp_path / "t.parquet", [0, 0, 1], [10.0, 20.0, 5.0], [3.0, 3.0, 2.0])
    code, out, err = gpuplan(
        *("simulate", path, "--policy", "first-fit", "--cluster", "2x4"),
        *("--output-format", "json"),
    )
    assert code == 0, err
    results = json.loads(out)["results"]
    assert results["makespan_s"] == 20
    assert results["fragmented_share"] == pytest.approx(9 * 2 / (20 * 8))


def test_without_a_size_nobody_waits(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 1, 2], [9.0, 9.0, 9.0], [2.0, 1.0, 0.5])
    code, out, err = gpuplan("simulate", path, "--policy", "fifo", "--output-format", "json")
    results = json.loads(out)["results"]
    assert code == 0 and results["gpus"] == 4 and results["mean_jqt_s"] == 0
    assert "the cluster has 4 GPUs" in err
    code, out, _ = gpuplan(
        *("simulate", path, "--policy", "fifo", "--cluster", "x8"),
        *("--output-format", "json", "--plot", tmp_path / "t.png"),
    )
    assert code == 0 and json.loads(out)["results"]["gpus"] == 8


@pytest.mark.parametrize("policy", SCHEDULERS)
def test_without_a_size_nobody_waits_for_nodes(gpuplan, tmp_path, policy):
    # 16 GPUs are in use at once, but no two of these gangs fit into one node.
    path = write_trace(tmp_path / "t.parquet", [0, 1, 2], [9.0, 9.0, 9.0], [5.0, 5.0, 6.0])
    arguments = ("simulate", path, "--policy", policy, "--cluster", "x8")
    code, out, err = gpuplan(*arguments, "--output-format", "json")
    results = json.loads(out)["results"]
    assert code == 0 and results["gpus"] == 24
    assert results["mean_jqt_s"] == 0 and results["preemptions"] == 0
    assert "24 GPUs, the fewest nodes of 8 on which no job waits or is stopped" in err


def test_without_a_size_nobody_waits_for_whole_seconds(gpuplan, tmp_path):
    # The second ends at 1 s and the third comes at 1.2 s; in whole seconds that is at 2 and at 1.
    path = write_trace(tmp_path / "t.parquet", [0.0, 0.5, 1.2], [0.2, 0.5, 1.0])
    arguments = ("simulate", path, "--policy", "fifo", "--set", "reference=true")
    code, out, err = gpuplan(*arguments, "--output-format", "json")
    results = json.loads(out)["results"]
    assert code == 0, err
    assert results["gpus"] == 2 and results["mean_jqt_s"] == 0


def test_jobs_without_length_are_shown_too(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0.0], [0.0])
    code, out, _ = gpuplan(
        *("simulate", path, "--policy", "srtf", "--plot", tmp_path / "t.svg"),
        *("--output-format", "json"),
    )
    results = json.loads(out)["results"]
    assert code == 0 and results["cost_usd"] == 0 and results["utilization"] is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy", "fifo", "--gpus", 3], "the widest job takes 4 GPUs"),
        (["--policy", "serverless-only", "--gpus", 3], "has no cluster and rents no workers"),
        (["--policy", "fifo", "--gpus", 8, "--set", "gpus=16"], "--gpus 8 and --set gpus=16"),
        (["--policy", "hpa", "--gpus", 8, "--set", "capacity=9"], "give one of the two"),
        (["--policy", "fifo", "--set", "limits_s=3"], "no setting 'limits_s'"),
        (["--policy", "las", "--set", "limits_s=3/3"], "limits_s must be above 0"),
        (["--policy", "las", "--set", "limits_s=3/x"], "expected a duration"),
        (["--policy", "2d-las", "--set", "limits_gpu_s=3/x"], "expected a number"),
        (["--policy", "las", "--set", "preemptive=maybe"], "expected true or false"),
        (["--cluster", "2x4", "--gpus", 8], "--gpus 8 and --cluster 2x4: both are the size"),
        (["--policy", "sjf", "--cluster", "0"], "--cluster '0': each number must be from 1 to"),
        (["--policy", "sjf", "--cluster", "4x0"], "--cluster '4x0': each number must be from 1 to"),
        (["--policy", "sjf", "--cluster", "8x"], "--cluster '8x': must be like A100=4x8"),
        (["--policy", "sjf", "--cluster", "2x4", "--set", "gpus=8"], "2x4 and --set gpus=8"),
        (["--policy", "sjf", "--set", "cluster=2x4", "--set", "gpus=8"], "=2x4 and --set gpus=8"),
        (["--policy", "sjf", "--cluster", "3"], "allow at least 4, or leave wide jobs out"),
        (["--policy", "sjf", "--cluster", "1x3"], "--cluster 1x3: the widest job takes 4 GPUs"),
        (["--policy", "hpa", "--cluster", "x4"], "--cluster x4: hpa rents workers one by one"),
        (
            ["--policy", "fifo", "--cluster", "A100=4x8,T4=12x4"],
            "the speeds of jobs on A100, T4 are not known",
        ),
        (["--policy", "hpa", "--cluster", "A100=4,T4=4"], "next: --cluster A100=4 for one of"),
        (["--policy", "sjf", "--set", "gpus_per_node=4"], "next: --cluster 4x4 (4 nodes of 4"),
        (["--policy", "fifo", "--set", "reference=yes", "--cluster", "2x4"], "set cluster=8, or"),
        (["--policy", "fifo", "--node-gpus", "4"], "--node-gpus\n  next: --cluster x8 (as many"),
        (["--policy", "sjf", "--set", "usd_per_gpu_h=-1"], "usd_per_gpu_h must be at least 0"),
        (["--policy", "las", "--set", "reference=yes", "--set", "restore_s=1"], "with restore_s=0"),
    ],
)
def test_usage_errors_name_the_option(gpuplan, lab, arguments, problem):
    code, out, err = gpuplan("simulate", lab, *arguments)
    assert (code, out) == (2, "")
    assert problem in err


def test_the_published_rules_count_whole_seconds(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0.0, 1.4], [5.6, 2.4])
    code, _, err = gpuplan(
        *("simulate", path, "--policy", "srtf", "--gpus", 1, "--set", "reference=true"),
        *("-o", tmp_path / "jobs.parquet"),
    )
    assert code == 0, err
    # 6 s from 0 and 2 s from 1: the second stops the first at 1 and ends at 3.
    assert pl.read_parquet(tmp_path / "jobs.parquet")["finish_s"].to_list() == [8.0, 3.0]


def test_a_stop_costs_what_a_move_costs_allpass_unless_it_is_as_published(gpuplan, tmp_path):
    # At 1 s the second job stops the first, which pays 84 s when it comes back at 3 s.
    path = write_trace(tmp_path / "t.parquet", [0.0, 1.0], [100.0, 2.0])
    for sets, end_s, paid in (
        ((), 186.0, 42.0),
        (("--set", "reference=true"), 102.0, 0.0),
        (("--set", "reference=false"), 186.0, 42.0),
        (("--set", "checkpoint_s=0", "--set", "restore_s=0"), 102.0, 0.0),
    ):
        code, out, err = gpuplan(
            *("simulate", path, "--policy", "srtf", "--gpus", 1, *sets),
            *("-o", tmp_path / "jobs.parquet", "--output-format", "json"),
        )
        assert code == 0, err
        settings = json.loads(out)["parameters"]["settings"]
        assert settings["checkpoint_s"] == settings["restore_s"] == paid
        assert pl.read_parquet(tmp_path / "jobs.parquet")["finish_s"].to_list() == [end_s, 3.0]


@pytest.mark.parametrize(
    ("policy", "settings", "message"),
    [
        ("fifo", ["restore_s=10"], "fifo never stops a job, so restore_s has no effect"),
        ("fifo", ["restore_s=10", "preemptive=true"], None),
        ("fifo", ["restore_s=0"], None),
        ("2d-las", [], None),
        ("2d-las", ["preemptive=false"], "new, so 2d-las is first-fit"),
        ("las", ["preemptive=false", "skipping=false"], "new, so las is fifo"),
        ("gittins", ["preemptive=false"], "new, so gittins is first-fit"),
    ],
)
def test_what_a_setting_does_not_change_is_told(gpuplan, lab, policy, settings, message):
    sets = [part for one in settings for part in ("--set", one)]
    code, _, err = gpuplan("simulate", lab, "--policy", policy, "--gpus", 8, *sets)
    assert code == 0
    assert message in err if message else "so " not in err


def test_published_queues_find_some_demotions_late(gpuplan, tmp_path):
    # 4 GPUs reach 12 GPU-s at 3 s. As published, what comes at 2 s looks 12 s - 2 s over 4 GPUs,
    # rounded down, ahead: to 4 s.
    path = write_trace(tmp_path / "t.parquet", [0.0, 2.0], [20.0, 2.0], [4.0, 4.0])
    arguments = ("simulate", path, "--policy", "2d-las", "--gpus", 4, "--set", "limits_gpu_s=12")
    free = ("--set", "checkpoint_s=0", "--set", "restore_s=0")
    for reference, expected in (("true", [22.0, 6.0]), ("false", [22.0, 5.0])):
        out = tmp_path / f"{reference}.parquet"
        assert gpuplan(*arguments, *free, "--set", f"reference={reference}", "-o", out)[0] == 0
        assert pl.read_parquet(out)["finish_s"].to_list() == expected


@pytest.mark.parametrize(("policy", "name"), [("las", "limits_s"), ("2d-las", "limits_gpu_s")])
@pytest.mark.parametrize(
    ("sets", "limits"),
    [
        ([], [3250.0]),
        (["reference=true"], [3250.0, 7200.0]),
        (["reference=true", "{}=3250"], [3250.0]),
        (["reference=false"], [3250.0]),
    ],
)
def test_there_are_two_queues_and_three_as_published(gpuplan, lab, policy, name, sets, limits):
    given = [part for one in sets for part in ("--set", one.format(name))]
    arguments = ("simulate", lab, "--policy", policy, "--gpus", 8, *given)
    code, out, err = gpuplan(*arguments, "--output-format", "json")
    assert code == 0, err
    assert json.loads(out)["parameters"]["settings"][name] == limits


def test_numbers_and_flags_are_read_and_shown():
    known = {"a": Setting("numbers", ""), "b": Setting("flag", ""), "c": Setting("durations", "")}
    assert parse_settings(["a=3250,7200", "b=Yes"], known) == {"a": (3250.0, 7200.0), "b": True}
    assert parse_settings(["c=5m/2h"], known) == {"c": (300.0, 7200.0)}
    assert show_setting((3250.0, 7200.0)) == "3250/7200" and show_setting(False) == "false"
