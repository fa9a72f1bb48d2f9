"""``gpuplan compare`` and ``simulate`` under quotas: what is ranked, and what evictions cost."""

import json

import pytest
from support_kueue import ANYONE, cluster_queue, write_list
from support_schemas import SAMPLES
from support_traces import write_trace

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.tables.fidelity_text import contradiction
from gpuplan.planner.site.fidelity import Fidelity

pytestmark = pytest.mark.compiled
QUEUES = [
    cluster_queue("q1", 16, preemption=ANYONE),
    cluster_queue("q2", 8, limit=16, preemption=ANYONE),
    cluster_queue("q3", 8, preemption=ANYONE),
]
"""Golden r6: jobs of these queues evict each other again and again."""


@pytest.fixture
def loop(tmp_path):
    """A site and a trace whose jobs evict each other in a loop: the options of a command."""
    site = write_list(tmp_path / "s.json", QUEUES)
    rows = [(0, 1800, 14, "q1"), (1, 1800, 4, "q2"), (2, 1800, 6, "q3"), (10, 900, 1, "q3"),
            (20, 300, 8, "q2"), (30, 300, 8, "q3")]  # fmt: skip
    submit, run, gpus, group = (list(column) for column in zip(*rows, strict=True))
    trace = write_trace(tmp_path / "t.parquet", submit, list(map(float, run)),
                        list(map(float, gpus)), group=group,
                        recorded_priority=[200, 200, 200, 0, 100, 100])  # fmt: skip
    return [trace, "--site", site]


@pytest.fixture
def two_types(tmp_path):
    """A site of 8 H100 and 8 A100, and a trace that wants 16 H100: the options of a command."""
    site = write_list(tmp_path / "s.json", [cluster_queue("q", flavors={"h100": 8, "a100": 8})])
    trace = write_trace(tmp_path / "t.parquet", [0, 0, 100], [1000.0, 1000.0, 10.0],
                        [8.0, 8.0, 1.0], group=["x"] * 3,
                        gpu_type=["H100", "H100", "A100"])  # fmt: skip
    return [trace, "--site", site]


def results_of(gpuplan, *arguments):
    code, out, err = gpuplan(*arguments, "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


def test_pooling_of_gpu_types_is_not_called_faster(gpuplan, two_types):
    policies = ["--policy", "kueue", "--policy", "first-fit"]
    results = results_of(gpuplan, "compare", *two_types, *policies)
    kueue, pooled = results["policies"]
    assert (kueue["mean_wait_s"], kueue["p95_wait_s"] > 0) == (pytest.approx(1000 / 3), True)
    assert pooled["mean_wait_s"] == pytest.approx(900 / 3)  # the A100 job waits for H100 jobs
    assert results["fastest"] is None and results["cheapest"] is None
    assert not (kueue["is_ranked"] or pooled["is_ranked"] or pooled["non_dominated"])
    code, out, err = gpuplan("compare", *two_types, *policies)
    said = " ".join(out.split())
    assert code == 0 and "None is called the fastest: kueue keeps jobs to 8 " in said
    assert "first-fit runs any job on any of 16 GPUs" in said and "is fastest" not in said
    assert "--gpus 8." in said and "--where \"gpu_type = 'H100" in said
    assert "kueue keeps the types apart; first-fit treats all GPUs as one type" in err


def test_gpus_of_types_kept_apart_cost_their_own_prices(gpuplan, two_types):
    # 8 H100 at $3 and 8 A100 at $1 around the clock; pooled: the mean of 16,000 and 10 GPU-seconds.
    policies = ["--policy", "kueue", "--policy", "first-fit", "--price", "H100=3,A100=1"]
    kueue, pooled = results_of(gpuplan, "compare", *two_types, *policies)["policies"]
    assert kueue["usd_per_month"] == pytest.approx((8 * 3 + 8 * 1) * MONTH_H)
    assert kueue["mean_usd_per_gpu_h"] == 2
    assert pooled["usd_per_month"] == pytest.approx(16 * (16_000 * 3 + 10) / 16_010 * MONTH_H)
    _, _, err = gpuplan("compare", *two_types, *policies)
    treated = "kueue keeps the types apart; first-fit treats all GPUs as one type at $3.00 per GPU-"
    assert treated in err
    _, _, err = gpuplan("simulate", *two_types, "--policy", "kueue", *policies[4:])
    assert "kueue keeps the types apart" in err and "the mean of their prices" not in err
    code, out, err = gpuplan(
        *("simulate", *two_types, "--policy", "kueue", "--price", "H100=3"),
        *("--where", "gpu_type = 'H100'", "--output-format", "json"),
    )
    assert code == 0, err  # the A100 are nobody's
    assert json.loads(out)["results"]["usd_per_month"] == pytest.approx(8 * 3 * MONTH_H)


def test_one_type_at_a_time_is_ranked(gpuplan, two_types):
    policies = ["--policy", "kueue", "--policy", "first-fit", "--where", "gpu_type = 'H100'"]
    whole = results_of(gpuplan, "compare", *two_types, *policies)
    assert whole["fastest"] is None  # 16 GPUs for jobs that Kueue keeps to 8
    assert [row["gpus"] for row in whole["policies"]] == [8, 16]
    sized = results_of(gpuplan, "compare", *two_types, *policies, "--gpus", "8")
    assert all(row["is_ranked"] for row in sized["policies"])
    assert sized["fastest"] is not None
    kueue, other = sized["policies"]
    assert kueue["gpus"] == other["gpus"] == 8 and kueue["cost_usd"] == other["cost_usd"]
    code, out, err = gpuplan("compare", *two_types, *policies, "--gpus", "8", "--full")
    assert code == 0 and "8 GPUs of a100 do not count: no job may run on them" in err + out


def test_any_flavor_is_one_pool_as_others_have(gpuplan, two_types):
    results = results_of(
        gpuplan, "compare", *two_types, "--policy", "kueue:flavor=any", "--policy", "first-fit"
    )
    assert all(row["is_ranked"] for row in results["policies"])


def test_a_policy_in_a_loop_of_evictions_is_not_ranked(gpuplan, loop):
    policies = ["--policy", "kueue", "--policy", "first-fit"]
    results = results_of(gpuplan, "compare", *loop, *policies)
    kueue, other = results["policies"]
    assert (kueue["is_ranked"], kueue["non_dominated"], other["is_ranked"]) == (False, False, True)
    assert results["fastest"] == results["cheapest"] == "first-fit"
    code, out, _ = gpuplan("compare", *loop, *policies)
    said = " ".join(out.split())
    assert code == 0 and "kueue ends in a loop of evictions: 2 jobs of q2, q3" in said
    assert "job 3 30 times, so it is not ranked" in said
    assert "evictions" in said and " 59 " in said
    code, out, _ = gpuplan("simulate", *loop, "--policy", "kueue")
    assert code == 0 and "kueue ends in a loop of evictions: 2 jobs of q2, q3" in " ".join(
        out.split()
    )


def test_work_lost_is_a_part_of_the_completion_time(gpuplan, tmp_path):
    # Of the 1000 s of job 0, 100 s and 30 s of grace are lost when job 1 wants its GPUs back.
    queues = [cluster_queue("a", 8, preemption=ANYONE), cluster_queue("b", 4, preemption=ANYONE)]
    site = write_list(tmp_path / "s.json", queues)
    trace = write_trace(tmp_path / "t.parquet", [0, 100], [1000.0, 100.0], [12.0, 8.0],
                        group=["b", "a"])  # fmt: skip
    arguments = ["simulate", trace, "--site", site, "--policy", "kueue"]
    results = results_of(gpuplan, *arguments)
    assert results["mean_lost_s"] == pytest.approx(130 / 2)
    assert results["lost_gpu_h"] == pytest.approx(130 * 12 / 3600)
    assert results["mean_wait_s"] == results["mean_jqt_s"] == pytest.approx((100 + 30) / 2)
    assert results["p95_wait_s"] == pytest.approx(results["p95_jqt_s"])
    parts = results["mean_service_s"] + results["mean_queue_s"] + results["mean_lost_s"]
    assert parts == pytest.approx(results["mean_jct_s"])
    _, out, _ = gpuplan(*arguments)
    assert "work lost to evictions" in out and "GPU-h lost" in " ".join(out.split())


KUEUE_SAMPLE = SAMPLES / "kueue" / "workloads.json"


def test_today_costs_what_the_gpus_of_the_site_cost_busy_or_not(gpuplan):
    # (48 x $2.50 + 16 x $1.29) x 730.5 h, as ``bill --cluster`` has it.
    options = [KUEUE_SAMPLE, "--price", "A100-80GB=1.29,H100-80GB=2.5"]
    compared = ["compare", *options, "--policy", "kueue", "--policy", "kai", "--site", KUEUE_SAMPLE]
    results = results_of(gpuplan, *compared)
    bill = results_of(gpuplan, "bill", *options, "--cluster", "H100-80GB=6x8,A100-80GB=2x8")
    assert results["today_cluster"] == {"gpus": 64, "usd_per_month": pytest.approx(102_737.52)}
    assert results["policies"][0]["usd_per_month"] == pytest.approx(bill["usd_per_month"])
    _, out, _ = gpuplan(*compared)
    said = " ".join(out.split())
    assert said.startswith("Today: 64 GPUs for $103,000 a month, 37.9 held on average (peak 63)")
    assert "64 (37.9 held) $103,000" in said
    assert "any of 64 GPUs, so their waits do not compare" in said  # kai waits longer than kueue
    _, out, _ = gpuplan("compare", *options, "--policy", "kai", "--site", KUEUE_SAMPLE)
    assert "$65,100 a month for the hours held." in " ".join(out.split())  # no price per GPU


def test_what_was_asked_is_told_beside_the_check(gpuplan):
    policies = ["--policy", "fifo", "--policy", "srtf", "--cluster", "6x8"]
    _, out, _ = gpuplan("compare", KUEUE_SAMPLE, *policies)
    said = " ".join(out.split())
    assert (
        "Replayed on 48 GPUs, all jobs have a P95 wait of 6.09 h (srtf) to 16.4 h (fifo), vs. 5.76 "
        "h in the log; none is recommended. Use the site's quotas"
    ) in said


@pytest.mark.parametrize("command", ["simulate", "size", "pareto"])
def test_the_next_step_is_one_that_a_kueue_log_can_take(gpuplan, command):
    policy = ["--policy", "fifo", "--gpus", 63] if command == "simulate" else []
    target = ["--target", "p95_wait <= 1h", "--policy", "srtf"] if command == "size" else []
    code, out, err = gpuplan(command, KUEUE_SAMPLE, *policy, *target)
    said = " ".join(out.split())
    assert code == 0, err
    assert "gpuplan whatif LOG --twin twin.toml replays them with --set" in said
    assert "quotas, limits or another order of the queue make jobs wait" in said
    assert "gpuplan size LOG" not in said and "partitions" not in said


def test_waste_of_kubernetes_names_no_program_of_slurm(gpuplan):
    code, _, err = gpuplan("waste", KUEUE_SAMPLE)
    said = " ".join(err.split())
    assert code == 0 and "to see use, give series with --metrics FILE (DCGM" in said
    assert "sacct" not in said


def test_a_log_of_pods_says_that_a_dump_of_kueue_is_needed():
    fidelity = Fidelity("contradicts", "the site starts jobs sooner than fifo does", "fifo", 8,
                        30, 9000.0, 10.0, 20_000.0, 20.0)  # fmt: skip
    assert "a dump of Kueue's objects" in contradiction(fidelity, "kube-metrics")
    assert "gpuplan size LOG --twin" in contradiction(fidelity, "slurm")
    assert "gpuplan size LOG --twin" not in contradiction(fidelity, "kube")


def test_a_mean_wait_says_which_jobs_it_leaves_out(gpuplan, tmp_path):
    twin = tmp_path / "twin.toml"
    results = results_of(gpuplan, "calibrate", KUEUE_SAMPLE, "-o", twin)
    scored, jobs = results["scored_jobs"], results["replayed_jobs"]
    note = f"waits are of {scored} of {jobs} jobs: the {jobs - scored} of the first tenth"
    code, _, err = gpuplan("calibrate", KUEUE_SAMPLE, "-o", twin)
    assert code == 0 and scored < jobs and note in err
    change = ["--set", "clusterqueue.team-a.nominalQuota.h100=16"]
    code, _, err = gpuplan("whatif", KUEUE_SAMPLE, "--twin", twin, *change)
    assert code == 0 and note in err
    code, _, err = gpuplan("calibrate", KUEUE_SAMPLE, "-o", twin, "--warmup", "0s")
    assert code == 0 and "waits are of" not in err


@pytest.mark.parametrize("policy", ["kai", "kueue"])
def test_a_size_that_a_site_does_not_take_is_told_and_nobody_is_ranked(gpuplan, tmp_path, policy):
    site = write_list(tmp_path / "s.json", [cluster_queue("q", 16)])
    trace = write_trace(tmp_path / "t.parquet", [0, 0, 100], [1000.0, 1000.0, 10.0],
                        [8.0, 8.0, 1.0], group=["x"] * 3)  # fmt: skip
    words = ["compare", trace, "--site", site, "--policy", policy, "--policy", "first-fit"]
    results = results_of(gpuplan, *words, "--gpus", "8", "--price", "2")
    assert [row["gpus"] for row in results["policies"]] == [16, 8]
    assert not any(row["is_ranked"] for row in results["policies"])
    assert results["fastest"] is None and results["cheapest"] is None
    code, out, _ = gpuplan(*words, "--gpus", "8")
    said = " ".join(out.split())
    assert code == 0
    assert f"--gpus 8 does not apply to {policy}, which runs on the 16 GPUs of --site" in said
    assert "On equal GPUs: --gpus 16" in said
    equal = results_of(gpuplan, *words, "--gpus", "16")
    assert all(row["is_ranked"] for row in equal["policies"])
    assert "does not apply" not in gpuplan(*words, "--gpus", "16")[1]
