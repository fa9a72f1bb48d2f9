"""Unusual but legal objects of Kubernetes, one rule each, worked out by hand."""

import json

import polars as pl
import pytest
from support_kube_series import ANCHOR, END, HOUR, answer, series
from support_kube_series import pod as pod_series
from support_kube_workloads import admission, condition, ran, workload
from support_kubernetes import DAY, at, container, jobs_of, listed, node, only, pod, span

from gpuplan.analysis.history.runs import END_US, requeue_s, run_parts
from gpuplan.analysis.job_table.reject_limit import Limit

ALL = Limit.of("100%")
GANG = {"training.kubeflow.org/job-name": "g"}


# --- containers and times


@pytest.mark.parametrize("empty", [[], None])
def test_an_empty_typed_list_beside_a_full_one_has_no_objects(tmp_path, empty):
    lists = [{"kind": "JobList", "apiVersion": "batch/v1", "items": empty}, listed(pod())]
    job, done = jobs_of(tmp_path, lists)
    assert list(job) == ["ns/p"] and not done.rows_rejected


def test_a_typed_list_gives_its_objects_their_kind(tmp_path):
    bare = [{key: value for key, value in pod(f"p{i}").items() if key not in ("kind", "apiVersion")}
            for i in range(2)]  # fmt: skip
    jobs, _ = jobs_of(tmp_path, {"kind": "PodList", "apiVersion": "v1", "items": bare})
    assert sorted(jobs) == ["ns/p0", "ns/p1"]


@pytest.mark.parametrize("missing", ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", None])
def test_zero_times_are_missing(tmp_path, missing):
    status = {"startTime": at(20), "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": missing}]}  # fmt: skip
    assert span(only(tmp_path, pod(status=status))) == (0, 20, 110)


def test_times_in_other_zones_and_with_fractions(tmp_path):
    job = only(tmp_path, pod(metadata={"creationTimestamp": "2026-11-02T02:00:00.5+02:00"}))
    assert span(job) == (0.5, 10, 110)


# --- pods


def test_the_end_before_a_restart_is_not_the_end(tmp_path):
    states = [{"state": {"waiting": {"reason": "CrashLoopBackOff"}},
               "lastState": {"terminated": {"finishedAt": at(50)}}}]  # fmt: skip
    status = {"containerStatuses": states, "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(10)},
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
         "lastTransitionTime": at(80)}]}  # fmt: skip
    job = only(tmp_path, pod(phase="Failed", status=status))
    assert (span(job), job["state"]) == ((0, 10, 80), "node_fail")


def test_a_disruption_that_did_not_come_tells_nothing(tmp_path):
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(10)},
        {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler",
         "lastTransitionTime": at(60)}]  # fmt: skip
    job = only(tmp_path, pod(phase="Failed", status={"conditions": conditions}))
    assert (job["state"], span(job)) == ("failed", (0, 10, 110))


@pytest.mark.parametrize(
    ("status", "what"),
    [
        (None, "pending"),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
          "reason": "SchedulingGated", "lastTransitionTime": at(5)}]}, "pending"),
    ],
    ids=["no status", "gated"],
)  # fmt: skip
def test_pods_before_their_start_are_pending(tmp_path, status, what):
    waiting = {**pod("w"), "status": status}
    _, done = jobs_of(tmp_path, listed(pod(), waiting))
    assert done.left_out == {what: 1}


def test_reservation_pods_of_kai_are_left_out(tmp_path):
    space = {"namespace": "kai-resource-reservation"}
    spec = {"containers": [container(0)], "nodeName": "n"}
    share = pod("half", annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"},
                spec=spec)  # fmt: skip
    jobs, done = jobs_of(tmp_path, listed(share, pod("hold", metadata=space), node("n")))
    assert {name: job["num_gpus"] for name, job in jobs.items()} == {"ns/half": 1}
    assert done.left_out == {"gpu_reservation": 1}


# --- gangs


def test_a_gang_that_started_over_has_the_duration_of_its_last_attempt(tmp_path):
    first = [pod(f"g-{i}-x7k2p", labels=GANG, phase="Failed", start=10, end=60) for i in range(2)]
    again = [pod(f"g-{i}-b4c8d", labels=GANG, submit=70, start=80, end=200) for i in range(2)]
    job = only(tmp_path, listed(*first, *again))
    assert (job["queue_s"], job["duration_s"], job["requeue_s"]) == (10, 120, 70)
    assert [run["end"].timestamp() - DAY for run in job["runs"]] == [60, 200]
    trace = pl.read_parquet(tmp_path / "out.parquet").with_columns(requeue_s(), run_parts())
    assert trace.select(END_US / 1e6 - DAY).item() == 200
    (parts,) = trace["run_parts"].to_list()
    assert [part["run_s"] for part in parts] == [50, 120]  # the lost attempt held GPUs too


def test_replicas_of_one_name_that_run_at_once_are_one_attempt(tmp_path):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns",
           "uid": "uid-Job-j"}, "spec": {"completions": 3, "parallelism": 3}}  # fmt: skip
    labels = {"batch.kubernetes.io/job-name": "j"}
    pods = [pod(f"j-{suffix}", labels=labels, owner=("Job", "j"))
            for suffix in ("x7k2p", "b4c8d", "z9v5w")]  # fmt: skip
    gang = only(tmp_path, listed(job, *pods))
    assert (gang["job_id"], gang["num_gpus"], gang["attempts"]) == ("ns/j", 3, 1)


# --- controllers


def job_set():
    part = {"replicas": 2, "template": {"spec": {"parallelism": 1, "template": {
        "spec": {"containers": [container(4)]}}}}}  # fmt: skip
    ended = {"type": "Completed", "status": "True", "lastTransitionTime": at(90)}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "s", "namespace": "ns", "uid": "s1", "creationTimestamp": at(0)},
            "spec": {"replicatedJobs": [part]},
            "status": {"conditions": [ended]}}  # fmt: skip


def test_a_job_set_starts_with_its_first_job(tmp_path):
    children = [
        {"apiVersion": "batch/v1", "kind": "Job",
         "metadata": {"name": f"s-w-{i}", "namespace": "ns", "uid": f"j{i}",
                      "creationTimestamp": at(1),
                      "ownerReferences": [{"kind": "JobSet", "name": "s", "uid": "s1",
                                           "controller": True}]},
         "spec": {"parallelism": 1, "template": {"spec": {"containers": [container(4)]}}},
         "status": {"startTime": at(start), "completionTime": at(90)}}
        for i, start in enumerate((30, 20))
    ]  # fmt: skip
    job = only(tmp_path, listed(*children, job_set()))
    assert (job["job_id"], job["num_gpus"], span(job)) == ("ns/s", 8, (0, 20, 90))


def test_a_job_set_alone_does_not_say_when_it_started(tmp_path):
    jobs, done = jobs_of(tmp_path, listed(pod(), job_set()), limit=ALL)
    assert list(jobs) == ["ns/p"] and done.rows_rejected == 1


def test_pods_of_a_ray_job_win_over_it(tmp_path):
    ray = {"apiVersion": "ray.io/v1", "kind": "RayJob",
           "metadata": {"name": "r", "namespace": "ns", "uid": "r1", "creationTimestamp": at(0)},
           "spec": {"rayClusterSpec": {"headGroupSpec": {"template": {
               "spec": {"containers": [container(1)]}}}}},
           "status": {"rayClusterName": "r-raycluster-x7k2p", "startTime": at(10),
                      "endTime": at(90), "jobStatus": "SUCCEEDED"}}  # fmt: skip
    head = pod("r-head", labels={"ray.io/cluster": "r-raycluster-x7k2p"})
    assert only(tmp_path, listed(ray, head))["job_id"] == "ns/r-raycluster-x7k2p"


# --- workloads


def test_a_node_selector_names_the_type_before_the_flavor(tmp_path):
    pods = {"name": "main", "count": 1, "template": {"spec": {
        "containers": [container(4)],
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}}}}  # fmt: skip
    job = only(tmp_path, ran(admitted=admission(flavor="default-flavor"),
                             spec={"podSets": [pods]}))  # fmt: skip
    assert job["gpu_type"].startswith("A100")


def test_shared_gpus_of_a_workload_count_by_the_labels_of_its_flavor(tmp_path):
    admitted = {"clusterQueue": "cq", "podSetAssignments": [
        {"name": "main", "count": 1, "flavors": {"nvidia.com/gpu.shared": "t4"},
         "resourceUsage": {"nvidia.com/gpu.shared": "2"}}]}  # fmt: skip
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
              "metadata": {"name": "t4"},
              "spec": {"nodeLabels": {"nvidia.com/gpu.replicas": "4"}}}  # fmt: skip
    assert only(tmp_path, listed(flavor, ran(admitted=admitted)))["num_gpus"] == 0.5


def test_workers_of_an_assignment_without_a_count_are_those_of_its_pod_set(tmp_path):
    pods = {"name": "main", "count": 3, "template": {"spec": {"containers": [container(4)]}}}
    admitted = admission(gpus=12)
    del admitted["podSetAssignments"][0]["count"]
    job = only(tmp_path, ran(admitted=admitted, spec={"podSets": [pods]}))
    assert (job["num_gpus"], job["num_workers"]) == (12, 3)


def test_finished_after_an_eviction_without_a_new_admission_has_no_duration(tmp_path):
    evicted = [condition("Admitted", 60, "False"), condition("Evicted", 60, reason="Deactivated"),
               condition("Finished", 70, reason="OwnerNotFound")]  # fmt: skip
    job = only(tmp_path, workload("w", *evicted))
    assert (job["state"], job["duration_s"]) == ("cancelled", None)


def test_an_eviction_at_the_end_of_a_stream_forgets_no_attempt(tmp_path):
    evicted = [condition("Admitted", 61, "False"), condition("Evicted", 60, reason="Preempted")]
    versions = [ran(end=None), workload("w", *evicted)]
    events = [{"type": "MODIFIED", "object": item} for item in versions]
    job = only(tmp_path, "\n".join(json.dumps(event, indent=1) for event in events))
    assert (job["state"], span(job), job["attempts"]) == ("preempted", (0, 10, 60), 2)
    assert job["wait_includes_attempts"] is False


def test_past_time_is_at_most_the_time_since_the_submission(tmp_path):
    past = {"accumulatedPastExecutionTimeSeconds": 20, "schedulingStats": {
        "evictions": [{"reason": "Preempted", "count": 1}]}}  # fmt: skip
    assert only(tmp_path, ran(start=10, status=past))["queue_s"] == 0


# --- series


def test_containers_that_the_exporter_renamed_add_up(tmp_path):
    renamed = {"exported_namespace": "ns", "exported_pod": "p", "exported_node": "n7",
               "node": "monitor-1", "container": "kube-state-metrics"}  # fmt: skip
    times = range(HOUR, END + 1, HOUR)
    requests = [
        series("kube_pod_container_resource_requests", [(t, 4) for t in times], "ksm",
               namespace="monitoring", uid="u", resource="nvidia_com_gpu",
               exported_container=name, **renamed)
        for name in ("a", "b")
    ]  # fmt: skip
    created = series("kube_pod_created", [(t, DAY + 100) for t in times], "ksm", uid="u",
                     namespace="monitoring", **renamed)  # fmt: skip
    started = series("kube_pod_status_scheduled_time", [(t, DAY + 200) for t in times], "ksm",
                     uid="u", namespace="monitoring", **renamed)  # fmt: skip
    jobs, _ = jobs_of(tmp_path, answer([*requests, created, started], ANCHOR))
    assert (jobs["ns/p"]["num_gpus"], jobs["ns/p"]["node_list"]) == (8, "n7")


def test_reservation_pods_in_series_are_left_out(tmp_path):
    hold = pod_series("hold", namespace="kai-resource-reservation", end=5000)
    jobs, done = jobs_of(tmp_path, answer(hold, ANCHOR))
    assert list(jobs) == ["ns/anchor"] and done.left_out == {"gpu_reservation": 1}


@pytest.mark.parametrize(("last", "state"), [(END - 600, "running"), (END - HOUR, "unknown")])
def test_a_pod_near_the_last_sample_runs(tmp_path, last, state):
    times = [*range(HOUR, last - HOUR, HOUR), last]
    made = [series("kube_pod_created", [(t, DAY + 100) for t in times]),
            series("kube_pod_status_scheduled_time", [(t, DAY + 200) for t in times]),
            series("kube_pod_container_resource_requests", [(t, 8) for t in times], container="c",
                   resource="nvidia_com_gpu", node="n"),
            series("kube_pod_status_phase", [(t, 1) for t in times], phase="Running")]  # fmt: skip
    jobs, _ = jobs_of(tmp_path, answer(made, ANCHOR))
    assert jobs["ns/p"]["state"] == state


# --- OpenCost


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"code": 200, "data": [{"__idle__": {"name": "__idle__", "properties": {},
                    "minutes": 1440, "gpuHours": 24, "gpuCost": 60.0, "totalCost": 70.0}}]}),
        "Date,Namespace,ControllerKind,ControllerName,Pod,Container,GPUs,CPUCost,GPUCost,TotalCost"
        "\n2026-11-02,ns,Job,j,p,c,8,1,20,21\n",
    ],
    ids=["allocation", "CSV"],
)  # fmt: skip
def test_allocations_of_opencost_are_refused_by_name(gpuplan, tmp_path, text):
    path = tmp_path / "cost.txt"
    path.write_text(text)
    code, _, err = gpuplan("ingest", path, "-o", tmp_path / "o.parquet")
    assert code == 3
    assert "OpenCost" in err and "kube-metrics" in err
