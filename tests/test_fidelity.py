"""Whether a model may speak: on logs of known rules, in every study that recommends."""

import json

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace
from support_waits import GPUS, write_waits

from gpuplan.analysis.job_table.schema import Provenance
from gpuplan.analysis.trace.selection import Selection
from gpuplan.cli.tables.fidelity_text import contradiction
from gpuplan.planner.runs.recorded_waits import WaitMatch, WaitPairs, are_close, paired_waits
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.site.fidelity import (
    Fidelity,
    TodayReplay,
    fidelity_of,
    least_faithful,
    why_not_today,
)
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.compiled
EASY = ("--policy", "easy", "--cluster", GPUS)


def results_of(gpuplan, *words):
    code, out, err = gpuplan(*words, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


@pytest.fixture(scope="module")
def easy(tmp_path_factory):
    """A log that EASY made."""
    return write_waits(tmp_path_factory.mktemp("easy") / "t.parquet")


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """A log of the same jobs, of which each user may hold 12 GPUs."""
    return write_waits(tmp_path_factory.mktemp("limited") / "t.parquet", user_gpus=12)


def match(replayed_mean, recorded_mean, replayed_p95, recorded_p95, jobs=500, types=()):
    return WaitMatch(jobs, replayed_mean, recorded_mean, replayed_p95, recorded_p95, types)


@pytest.mark.parametrize(
    ("replayed_s", "recorded_s", "close"),
    [
        (0, 600, True),  # ten minutes are nothing, whatever the ratio
        (0, 601, False),
        (6000, 9000, True),  # one and a half times
        (6000, 9001, False),
        (9001, 6000, False),  # in both directions
        (36_000, 36_000, True),
    ],
)
def test_waits_are_close_within_half_again_or_ten_minutes(replayed_s, recorded_s, close):
    assert are_close(replayed_s, recorded_s) is close


def test_mean_and_p95_must_both_agree_and_the_reason_names_the_direction():
    held = fidelity_of(TodayReplay("easy", 64, match(3600, 3600, 3600, 36_000)))
    assert held.verdict == "contradicts" and "limits, partitions" in held.why
    assert (
        "--where" in fidelity_of(TodayReplay("easy", 64, match(0, 3600, 0, 3600), is_part=True)).why
    )
    slow = fidelity_of(TodayReplay("fifo", 64, match(36_000, 3600, 3600, 3600)))
    assert slow.verdict == "contradicts" and "sooner than fifo" in slow.why
    small = fidelity_of(TodayReplay("easy", 64, match(36_000, 0, 36_000, 0), peak_gpus=100))
    assert "100 GPUs held at once" in small.why
    assert fidelity_of(TodayReplay("easy", 64, match(3600, 3000, 3600, 3900))).verdict == "agrees"
    assert fidelity_of(TodayReplay("easy", 64, None)).verdict == "unknown"


def test_a_gpu_type_with_enough_jobs_has_to_stand_alone():
    off = match(0, 7200, 0, 7200, jobs=100)
    whole = match(3600, 3600, 7200, 7200, types=(("A100", match(1, 1, 1, 1)), ("H100", off)))
    told = fidelity_of(TodayReplay("easy", 64, whole))
    assert told.verdict == "contradicts" and "H100" in told.why and told.jobs == 100
    assert "waits 0 s (P95 of the jobs on H100), your log 2 h: limits, partitions" in contradiction(
        told
    )
    assert "Use the site's rules: gpuplan calibrate LOG" in contradiction(told, "slurm")
    assert contradiction(told, "seren").endswith("or from a dump of Kueue.")
    few = Fidelity("contradicts", "w", "easy", 8, 99, 0, 7200, 0, 7200)
    agrees = Fidelity("agrees", "w", "easy", 64, 500, 1, 1, 1, 1)
    assert least_faithful(agrees, [("T4", few)]) is agrees


def test_jobs_without_a_wait_do_not_count_and_an_empty_cluster_contradicts_nothing():
    n = 101  # one job a second: the first tenth are seconds 0 to 9
    work = Workload.from_seconds(np.arange(n), [1.0] * n, [1] * n, np.arange(n) + 1e6)
    recorded = np.full(n, 5.0)
    recorded[:10], recorded[50] = 1e6, np.nan
    jobs = TraceJobs(work, pl.Series([str(i) for i in range(n)]), (), recorded_wait_s=recorded)
    pairs = paired_waits(jobs, np.arange(n, dtype=float))
    assert pairs.recorded_s.size == 100 and 50.0 not in pairs.replayed_s
    whole = pairs.summary()
    assert whole.jobs == 100 and whole.recorded_mean_wait_s == (10 * 1e6 + 90 * 5) / 100
    assert whole.settled.jobs == 90 and whole.settled.recorded_mean_wait_s == 5
    told = fidelity_of(TodayReplay("easy", 64, whole))
    assert told.verdict == "agrees" and "warmed up" in told.why  # 5 s and 55 s: under 10 minutes
    assert told.recorded_mean_wait_s == whole.recorded_mean_wait_s
    recorded[10:] = 1e6
    assert (
        fidelity_of(TodayReplay("easy", 64, paired_waits(jobs, np.zeros(n)).summary())).verdict
        == "contradicts"
    )
    assert WaitPairs(np.zeros(19), np.zeros(19)).summary() is None
    assert WaitPairs(np.zeros(20), np.zeros(20)).summary().jobs == 20


def test_a_peak_that_the_nodes_of_the_log_cannot_have_had_is_not_todays_cluster(gpuplan, tmp_path):
    # Two nodes of 4 GPUs that jobs hold by turns for three hours each. In one hour, as where the
    # clock was set back, the next jobs seem to begin before the others end: 16 GPUs on 8.
    rows = []
    for turn in range(40):
        early = 3600 if turn == 20 else 0
        rows += [(turn * 10_800 - early, 0.0, 10_800.0 + early, node) for node in ("n1", "n2")]
    submit, wait, run, nodes = zip(*rows, strict=True)
    trace = write_trace(
        tmp_path / "t.parquet", submit_s=submit, duration_s=run, num_gpus=[4] * len(rows),
        queue_s=wait, gpu_type=["A100"] * len(rows), node_list=nodes,
    )  # fmt: skip
    code, out, err = gpuplan("size", trace, "--gpus", "8", "--output-format", "json")
    assert code == 0, err
    results = json.loads(out)["results"]
    assert results["today"]["peak_gpus"] == 16 and results["fidelity"]["cluster_gpus"] == 8
    assert "jobs held up to 16 A100 GPUs at once, more than the 8 of the 2 nodes" in err


def test_gpu_types_of_few_jobs_each_are_replayed_where_they_count_together(gpuplan, tmp_path):
    # Of two types 15 jobs, each on all 4 GPUs of its type for an hour, one every 1,000 s: job i
    # waits i times 2,600 s. Fewer than 20 jobs of a type, and 30 in all.
    submit, wait = [1000.0 * i for i in range(15)], [2600.0 * i for i in range(15)]
    trace = write_trace(
        tmp_path / "t.parquet", submit_s=submit * 2, duration_s=[3600.0] * 30, num_gpus=[4] * 30,
        queue_s=wait * 2, gpu_type=["A100"] * 15 + ["H100"] * 15,
    )  # fmt: skip
    fidelity = results_of(gpuplan, "size", trace, "--target", "p95_wait <= 20h")["fidelity"]
    assert (fidelity["verdict"], fidelity["cluster_gpus"], fidelity["jobs"]) == ("agrees", 8, 30)
    assert fidelity["replayed_mean_wait_s"] == fidelity["recorded_mean_wait_s"] == 2600 * 7


def test_changed_or_sampled_jobs_are_not_those_of_the_log():
    log, drawn = Provenance(source_format="slurm"), Provenance(source_format="synthetic")
    assert why_not_today(Selection(), log) == ""
    assert why_not_today(Selection(where="num_gpus > 1"), log) == ""
    assert "--sample" in why_not_today(Selection(sample=5), log)
    assert "--scale-duration" in why_not_today(Selection(scale_duration=2.0), log)
    assert "synthetic" in why_not_today(Selection(), drawn)


def test_size_speaks_on_a_log_that_easy_made(gpuplan, easy):
    results = results_of(gpuplan, "size", easy, *EASY, "--target", "p95_wait <= 2h")
    fidelity = results["fidelity"]
    assert fidelity["verdict"] == "agrees" and fidelity["cluster_gpus"] == GPUS
    assert fidelity["recorded_p95_wait_s"] > 3600  # it says something
    assert fidelity["replayed_mean_wait_s"] == pytest.approx(fidelity["recorded_mean_wait_s"])
    assert fidelity["replayed_p95_wait_s"] == pytest.approx(fidelity["recorded_p95_wait_s"])
    assert fidelity["policy"] == "easy" and results["gpus"] is not None
    assert results["pools"][0]["gpus"] == results["gpus"]
    grown = results_of(
        gpuplan, "size", easy, *EASY, "--target", "p95_wait <= 2h", "--growth", "30%"
    )
    assert grown["fidelity"]["verdict"] == "agrees"  # today is without the growth
    assert grown["gpus"] > results["gpus"]


def test_another_policy_than_that_of_the_log_may_not_speak(gpuplan, easy):
    words = ("size", easy, "--policy", "fifo", "--cluster", GPUS, "--target", "p95_wait <= 2h")
    results = results_of(gpuplan, *words)
    assert results["fidelity"]["verdict"] == "contradicts" and results["gpus"] is None
    assert "sooner than fifo" in results["fidelity"]["why"]


def test_size_is_silent_on_a_log_that_a_limit_held_back(gpuplan, limited):
    words = ("size", limited, *EASY, "--target", "p95_wait <= 2h", "--commit", 1, "--on-demand", 2)
    results = results_of(gpuplan, *words)
    assert results["fidelity"]["verdict"] == "contradicts"
    silent = ("gpus", "nodes", "usd_per_month", "interval", "commitment")
    assert all(results[name] is None for name in silent)
    assert all(results["pools"][0][name] is None for name in silent)
    assert results["targets"][0]["value"] is None
    assert results["points"] and {point["meets"] for point in results["points"]} == {None}
    assert GPUS in {point["gpus"] for point in results["points"]}
    _, out, _ = gpuplan(*words)
    first = " ".join(out.split("\n\n")[0].split())
    assert first.startswith(f"A replay of today's {GPUS} GPUs under easy waits ")
    assert "your log" in first and "gpuplan size LOG --twin twin.toml" in first
    assert "answer" not in out and "too small" not in out


@pytest.mark.parametrize(("limits", "verdict"), [(1, "agrees"), (2, "contradicts")])
@pytest.mark.parametrize(
    "words", [("size", "--target", "p95_wait <= 2h", "--ci", 0), ("simulate",), ("compare",)]
)
def test_a_log_that_names_limits_for_its_waits_is_not_sized_without(
    gpuplan, tmp_path, words, limits, verdict
):
    # EASY made these waits, but the log puts every fifth job or two down to a limit.
    log = write_waits(
        tmp_path / "t.parquet",
        reason=["QOSMaxGRESPerUser" if i % 6 < limits else "Priority" for i in range(600)],
    )
    results = results_of(gpuplan, words[0], log, *EASY, *words[1:])
    assert results["fidelity"]["verdict"] == verdict
    if words[0] == "size":
        assert (results["gpus"] is None) == (verdict == "contradicts")
    _, out, _ = gpuplan(words[0], log, *EASY, *words[1:])
    first = " ".join(out.split("\n\n")[0].split())
    assert first.startswith("Your log names limits") == (verdict == "contradicts")
    if verdict == "contradicts":
        assert "gpuplan calibrate LOG" in first and "easy has none" in first


def test_the_peak_stands_for_a_cluster_that_is_not_given(gpuplan, easy, limited):
    size = ("--policy", "easy", "--target", "p95_wait <= 2h")
    for log, verdict in ((easy, "agrees"), (limited, "contradicts")):
        fidelity = results_of(gpuplan, "size", log, *size)["fidelity"]
        assert fidelity["verdict"] == verdict
        assert fidelity["cluster_gpus"] <= GPUS
    assert results_of(gpuplan, "size", easy, *size)["fidelity"]["cluster_gpus"] == GPUS


def test_policies_are_compared_where_one_of_them_made_the_log(gpuplan, easy, limited):
    words = ("--policy", "easy", "--policy", "srtf", "--cluster", GPUS)
    spoken = results_of(gpuplan, "compare", easy, *words)
    assert spoken["fidelity"]["verdict"] == "agrees" and spoken["fidelity"]["policy"] == "easy"
    assert spoken["fastest"] is not None
    silent = results_of(gpuplan, "compare", limited, *words)
    assert silent["fidelity"]["verdict"] == "contradicts"
    assert silent["fastest"] is None and silent["cheapest"] is None
    _, out, _ = gpuplan("compare", limited, *words)
    assert out.startswith("A replay of today's") and "fastest" not in out


def test_a_larger_candidate_is_not_today_where_the_peak_explains_the_log(gpuplan, easy, limited):
    double = ("--policy", "easy", "--cluster", 2 * GPUS)
    larger = results_of(gpuplan, "simulate", easy, *double)["fidelity"]
    assert (larger["verdict"], larger["cluster_gpus"]) == ("agrees", GPUS)
    smaller = results_of(gpuplan, "simulate", easy, "--policy", "easy", "--cluster", GPUS // 2)
    assert smaller["fidelity"]["cluster_gpus"] == GPUS
    held = results_of(gpuplan, "simulate", limited, *double)["fidelity"]
    assert (held["verdict"], held["cluster_gpus"]) == ("contradicts", 2 * GPUS)


def test_simulate_has_the_fidelity_that_size_has(gpuplan, limited):
    sized = results_of(gpuplan, "size", limited, *EASY, "--target", "p95_wait <= 2h")
    run = results_of(gpuplan, "simulate", limited, *EASY)
    assert run["fidelity"] == sized["fidelity"]
    rented = results_of(gpuplan, "simulate", limited, "--policy", "allpass")["fidelity"]
    assert rented["verdict"] == "unknown" and "allpass" in rented["why"]


def test_a_frontier_names_no_plan_where_today_contradicts_the_log(gpuplan, easy, limited):
    silent = results_of(gpuplan, "pareto", limited)
    assert silent["fidelity"]["verdict"] == "contradicts" and silent["knee"] is None
    _, out, _ = gpuplan("pareto", limited)
    assert out.startswith("A replay of today's") and "best trade-off" not in out
    assert results_of(gpuplan, "pareto", easy)["fidelity"]["verdict"] != "unknown"


def test_a_log_without_waits_is_sized_as_ever(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", range(50), [100.0] * 50)
    results = results_of(gpuplan, "size", trace, "--target", "max_wait <= 0s")
    assert results["fidelity"]["verdict"] == "unknown" and results["gpus"] == 50
    assert "no waits" in results["fidelity"]["why"]
    for command in ("simulate", "compare"):
        found = results_of(gpuplan, command, trace, "--policy", "fifo", "--cluster", 10)
        assert found["fidelity"]["verdict"] == "unknown"
    assert results_of(gpuplan, "pareto", trace)["knee"] is not None


def test_changed_jobs_are_not_checked(gpuplan, limited):
    words = ("size", limited, *EASY, "--target", "p95_wait <= 2h", "--scale-duration", 0.9)
    fidelity = results_of(gpuplan, *words)["fidelity"]
    assert fidelity["verdict"] == "unknown" and "--scale-duration" in fidelity["why"]


def test_easy_plans_with_the_recorded_limits_in_size_as_in_simulate(gpuplan, limited):
    sized = results_of(gpuplan, "size", limited, "--policy", "easy", "--gpus", 40)
    run = results_of(gpuplan, "simulate", limited, "--policy", "easy", "--gpus", 40)
    (point,) = sized["points"]
    assert point["p95_wait_s"] == run["p95_wait_s"] > 0
    assert point["mean_wait_s"] == run["mean_wait_s"]
    other = results_of(
        gpuplan, "size", limited, "--policy", "easy", "--gpus", 40, "--set", "limit_factor=1"
    )
    assert other["points"][0]["mean_wait_s"] != point["mean_wait_s"]


def test_a_site_of_limits_gets_no_size_without_its_rules(gpuplan, shared):
    log = shared / "data/sitelab/dumps/sacct.txt.gz"
    if not log.exists():
        pytest.skip("needs ../shared/data/sitelab")
    results = results_of(gpuplan, "size", log, "--target", "p95_wait <= 6h")
    assert results["fidelity"]["verdict"] == "contradicts" and results["gpus"] is None
    assert results["fidelity"]["replayed_p95_wait_s"] < results["fidelity"]["recorded_p95_wait_s"]


def test_a_replay_on_whole_gpus_says_that_parts_make_the_difference(gpuplan, tmp_path):
    jobs = 60
    log = write_trace(
        tmp_path / "parts.parquet",
        [3600.0 * i for i in range(jobs)],
        [86_000.0] * jobs,
        [0.5] * jobs,
        queue_s=[1200.0] * jobs,
    )
    for words in (
        ("size", log, "--target", "p95_wait <= 1h"),
        ("compare", log, "--policy", "fifo"),
    ):
        results = results_of(gpuplan, *words)
        assert results["fidelity"]["verdict"] == "contradicts"
        assert "hold parts of GPUs" in results["fidelity"]["why"]
        _, out, err = gpuplan(*words)
        assert "60 jobs hold parts of GPUs, and replays give them whole ones: 2 times" in err
        assert "the site starts jobs sooner" not in out
    whole = write_trace(tmp_path / "whole.parquet", [0.0, 60.0] * 20, [600.0] * 40, [2] * 40)
    assert "parts of GPUs" not in gpuplan("compare", whole, "--policy", "fifo")[2]
