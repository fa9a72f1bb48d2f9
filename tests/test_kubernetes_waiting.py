"""What still waits at the end of a log of Kubernetes, and until when its jobs ran; by hand."""

import json

import pytest
from support_kubernetes import at, jobs_of, listed, node, pod
from support_kueue import cluster_queue, condition, local_queue, workload, write_list

HOUR = 3600
SITE = [cluster_queue("a-cq", 8, None), local_queue("a", "a-cq")]


def waiting(name, submit, gpus=8):
    """Return a workload that waits for quota."""
    made = workload(name, "a", submit, gpus=gpus)
    made["status"]["conditions"] = [
        condition("QuotaReserved", submit, "WaitingForQuota", status="False")
    ]
    return made


@pytest.fixture
def queue(tmp_path):
    """A dump: ten workloads that started at once, one that runs, and two that wait behind it."""
    done = [workload(f"d{i}", "a", i * HOUR, i * HOUR, i * HOUR + 1800) for i in range(10)]
    runs = workload("run", "a", 12 * HOUR, 12 * HOUR, gpus=8)
    late = [waiting("w1", 13 * HOUR), waiting("w2", 36 * HOUR, gpus=1)]
    return write_list(tmp_path / "kueue.json", [*SITE, *done, runs, *late])


def text(out):
    return " ".join(out.split())


def test_a_queue_behind_jobs_that_started_at_once_is_no_empty_queue(gpuplan, queue):
    code, out, _ = gpuplan("waits", queue)
    assert code == 0 and "No job with GPUs waits" not in out
    assert text(out).startswith(
        "No job that started had to wait. 2 workloads (9 GPUs) still wait at the end of the log, "
        "the longest for 23 h so far, mostly: quota in use."
    )


def test_a_running_workload_runs_until_the_last_that_came(tmp_path, queue):
    jobs, done = jobs_of(tmp_path, queue.read_text())
    assert jobs["a/run"]["state"] == "running"
    assert jobs["a/run"]["duration_s"] == 24 * HOUR  # from 12 h to the workload of 36 h
    assert done.left_out == {"pending": 2}


def test_a_clock_that_was_wrong_is_no_end_of_the_log(tmp_path, queue):
    objects = json.loads(queue.read_text())
    objects["items"].append(waiting("w3", 30 * 365 * 24 * HOUR))
    jobs, _ = jobs_of(tmp_path, objects)
    assert jobs["a/run"]["duration_s"] == 24 * HOUR


def test_pods_run_until_the_last_report_of_a_node(tmp_path):
    reports = {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": at(5 * HOUR)}]}}
    items = [pod("done"), pod("more", end=900), pod("runs", start=100, end=None)]
    jobs, _ = jobs_of(tmp_path, listed(*items, node("n1")))
    assert jobs["ns/runs"]["duration_s"] == 800
    jobs, _ = jobs_of(tmp_path, listed(*items, node("n1") | reports))
    assert jobs["ns/runs"]["duration_s"] == 5 * HOUR - 100
    jobs, _ = jobs_of(tmp_path, listed(*items, node("n1") | {"status": {"conditions": "?"}}))
    assert jobs["ns/runs"]["duration_s"] == 800


def test_what_is_left_out_of_demand_is_told_by_every_command(gpuplan, queue):
    for command in (("size", "--target", "p95_wait <= 1h"), ("characterize",)):
        code, _, err = gpuplan(command[0], queue, *command[1:])
        assert code == 0
        assert "2 pods or workloads still wait for their first start and are left out" in err


def test_a_dump_of_which_all_waits_is_not_called_filtered(gpuplan, tmp_path):
    path = write_list(tmp_path / "k.json", [*SITE, waiting("w1", 0), waiting("w2", 60)])
    code, _, err = gpuplan("waits", path)
    assert code == 3 and "none of them has run yet" in err and "filter" not in err


def test_pods_that_wait_are_told_by_what_the_scheduler_says(gpuplan, tmp_path):
    def held(name, reason, submit):
        scheduled = {"type": "PodScheduled", "status": "False", "reason": reason}
        return pod(name, submit=submit, phase="Pending", gpus=8, status={"conditions": [scheduled]})

    path = tmp_path / "kube.json"
    items = [
        *(pod(f"p{i}", submit=i, start=i + 2 * HOUR, end=i + 3 * HOUR) for i in range(4)),
        held("w1", "Unschedulable", HOUR), held("w2", "Unschedulable", 2 * HOUR),
        held("g", "SchedulingGated", 3 * HOUR + 3),
    ]  # fmt: skip
    path.write_text(json.dumps(listed(*items)))
    code, out, _ = gpuplan("waits", path, "--output-format", "json")
    told = json.loads(out)["results"]["waiting"]
    assert code == 0 and [
        (row["name"], row["meaning"], row["jobs"], row["gpus"], row["longest_wait_s"])
        for row in told
    ] == [
        ("Unschedulable", "no node fits", 2, 16, 2 * HOUR + 3),
        ("SchedulingGated", "held by a scheduling gate", 1, 8, 0),
    ]
    code, out, _ = gpuplan("waits", path)
    assert "3 pods (24 GPUs) still wait at the end of the log, the longest for 2 h so far" in text(
        out
    )
    assert "too small? The waits that are over cannot tell: in 0%" in text(out)


def test_a_change_says_nothing_of_workloads_that_wait(gpuplan, queue):
    code, out, _ = gpuplan("whatif", queue, "--set", "clusterqueue.a-cq.nominalQuota=16")
    assert code == 0 and (
        "no wait changes. 2 workloads (9 GPUs) still wait and are not in these waits, as their run "
        "times are unknown."
    ) in text(out)


def test_changes_that_are_replayed_alone_are_told_so(gpuplan, queue):
    more = ("--set", "clusterqueue.a-cq.nominalQuota=16", "--scale-load", "1.1")
    alone = "each change is replayed alone: --together makes all of them at once"
    assert alone in gpuplan("whatif", queue, *more)[2]
    assert alone not in gpuplan("whatif", queue, *more, "--together")[2]
    assert alone not in gpuplan("whatif", queue, *more[:2])[2]


def test_what_can_be_lent_of_several_types_is_told_as_one_pool(gpuplan, tmp_path):
    def team(name, flavor):
        return [
            workload(f"{name}{i}", name, i * HOUR, i * HOUR, (i + 2) * HOUR, flavor=flavor)
            for i in range(90)
        ]

    two = write_list(tmp_path / "two.json", [*SITE, *team("a", "h100"), *team("b", "a100")])
    said = "GPUs of 2 types (A100, H100) count as one pool"
    assert said in gpuplan("forecast", two)[2]
    code, _, err = gpuplan("forecast", two, "--by", "gpu_type")
    assert code == 0 and "count as one pool" not in err
    one = write_list(tmp_path / "one.json", [*SITE, *team("a", "h100"), *team("b", "h100")])
    code, _, err = gpuplan("forecast", one)
    assert code == 0 and "count as one pool" not in err


@pytest.mark.parametrize("by", ["cluster_queue", "queue"])
def test_a_bill_of_a_dump_is_split_by_queue_as_that_of_its_trace_is(gpuplan, queue, tmp_path, by):
    trace = tmp_path / "trace.parquet"
    assert gpuplan("ingest", queue, "-o", trace)[0] == 0
    options = ("--price", "2", "--by", by, "--output-format", "json")
    groups = []
    for source in (queue, trace):
        code, out, _ = gpuplan("bill", source, *options)
        assert code == 0
        groups.append([(row["name"], row["gpu_h"]) for row in json.loads(out)["results"]["groups"]])
    assert groups[0] == groups[1]
