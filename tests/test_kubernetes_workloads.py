"""Kueue's Workloads as jobs: admissions, evictions, watch streams, versions; by hand."""

import json

import polars as pl
import pytest
from support_kube_workloads import V1, V2, admission, condition, ran, workload
from support_kubernetes import at, container, jobs_of, listed, only, span

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.quota.workloads import read_kueue_log


def test_a_workload_waits_until_it_is_admitted(tmp_path):
    job = only(tmp_path, ran())
    assert span(job) == (0, 10, 100)
    assert (job["queue"], job["cluster_queue"], job["recorded_priority"]) == ("lq", "cq", 3)
    assert (job["num_gpus"], job["gpu_type"], job["group"]) == (4, "H100", "ns")
    assert job["reserved_time"].timestamp() == job["submit_time"].timestamp() + 5


def test_without_an_admission_check_the_reservation_is_the_start(tmp_path):
    made = workload(
        "w", condition("QuotaReserved", 7), condition("Finished", 50, reason="JobFinished"),
        admitted=admission(),
    )  # fmt: skip
    assert span(only(tmp_path, made)) == (0, 7, 50)


@pytest.mark.parametrize(
    ("reason", "state"),
    [("Succeeded", "completed"), ("JobFinished", "completed"), ("Failed", "failed"),
     ("OutOfSync", "cancelled"), ("OwnerNotFound", "cancelled"),
     ("WorkloadSliceReplaced", "completed"), ("Other", "unknown")],
)  # fmt: skip
def test_states(tmp_path, reason, state):
    assert only(tmp_path, ran(reason=reason))["state"] == state


def test_gpus_are_those_admitted_and_several_flavors_have_the_type_of_most(tmp_path):
    both = {"clusterQueue": "cq", "podSetAssignments": [
        {"name": "a", "count": 2, "flavors": {"nvidia.com/gpu": "a100"},
         "resourceUsage": {"nvidia.com/gpu": "16"}},
        {"name": "b", "count": 1, "flavors": {"nvidia.com/gpu": "t4"},
         "resourceUsage": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "7"}},
    ]}  # fmt: skip
    job = only(tmp_path, ran(admitted=both))
    assert (job["num_gpus"], job["num_workers"], job["gpu_type"]) == (18, 3, "A100")


def test_labels_of_the_flavor_name_the_type(tmp_path):
    flavor = {"apiVersion": V2, "kind": "ResourceFlavor", "metadata": {"name": "h100"},
              "spec": {"nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H200"}}}  # fmt: skip
    assert only(tmp_path, listed(ran(), flavor))["gpu_type"] == "H200"


def test_a_workload_that_never_ran_was_cancelled(tmp_path):
    queue = {"apiVersion": V2, "kind": "LocalQueue",
             "metadata": {"name": "lq", "namespace": "ns"},
             "spec": {"clusterQueue": "by-queue"}}  # fmt: skip
    made = workload("w", condition("Finished", 60, reason="OwnerNotFound"))
    job = only(tmp_path, listed(made, queue))
    assert (job["state"], job["duration_s"], job["queue_s"]) == ("cancelled", None, None)
    assert (job["cluster_queue"], job["num_gpus"], job["gpu_type"]) == ("by-queue", 4, None)


def test_what_is_no_job_is_counted_by_kind(tmp_path):
    waiting = condition("QuotaReserved", 5, "False", "WaitingForQuota")
    evicted = condition("Evicted", 50, reason="PodsReadyTimeout")
    items = [
        ran("runs", end=None),
        workload("new"),
        workload("waits", waiting),
        workload("evicted", waiting, condition("Evicted", 50, reason="Preempted")),
        workload("stuck", condition("Admitted", 10), evicted, admitted=admission()),
        workload("off", waiting, spec={"active": False}),
        workload("cpu", spec={"podSets": [{"count": 1}]}),
    ]
    jobs, done = jobs_of(tmp_path, listed(*items))
    assert {name: job["state"] for name, job in jobs.items()} == {"ns/runs": "running"}
    assert done.left_out == {"pending": 3, "stuck": 1, "inactive": 1, "without_gpus": 1}


@pytest.mark.parametrize(
    ("conditions", "status", "attempts", "preemptions"),
    [
        ([], {"schedulingStats": {"evictions": [
            {"reason": "Preempted", "count": 2}, {"reason": "NodeFailures", "count": 1}]}}, 4, 2),
        ([condition("Evicted", 10, "False", "QuotaReserved", "Previously: Preempted")], {}, 2, 0),
        ([condition("Evicted", 10, "False", "QuotaReserved", "no")], {}, 1, 0),
        ([], {}, 1, 0),
    ],
)  # fmt: skip
def test_attempts_that_a_snapshot_forgot_are_in_the_wait(
    tmp_path, conditions, status, attempts, preemptions
):
    made = ran(status=status)
    made["status"] = {**made["status"], **status}
    made["status"]["conditions"] += conditions
    job = only(tmp_path, made)
    assert (job["attempts"], job["preemptions"]) == (attempts, preemptions)
    assert job["wait_includes_attempts"] is (attempts > 1)


@pytest.mark.parametrize(
    "name", ["accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"]
)
def test_the_time_of_past_attempts_is_run_time_and_no_wait(tmp_path, name):
    stats = {"schedulingStats": {"evictions": [{"reason": "Preempted", "count": 1}]}, name: 30}
    made = ran(start=50, end=100)
    made["status"] = {**made["status"], **stats}
    job = only(tmp_path, made)
    assert (job["queue_s"], job["duration_s"]) == (20, 80)
    assert job["wait_includes_attempts"] is False


def stream(*versions):
    return "\n".join(
        json.dumps({"type": "ADDED" if i == 0 else "MODIFIED", "object": {
            **item, "metadata": {**item["metadata"], "resourceVersion": str(100 + i)}}}, indent=4)
        for i, item in enumerate(versions)
    )  # fmt: skip


def test_a_watch_stream_gives_every_attempt(tmp_path):
    first = [condition("Admitted", 10)]
    evicted = condition("Evicted", 60, reason="Preempted")
    again = [condition("Admitted", 80), condition("Evicted", 80, "False")]
    versions = [
        workload("w"),
        workload("w", *first, admitted=admission(4)),
        workload("w", *first, evicted, admitted=admission(4)),
        workload("w", condition("Admitted", 61, "False"), evicted),
        workload("w", *again, admitted=admission(2, flavor="a100")),
        workload("w", *again, condition("Finished", 200, reason="Failed"),
                 admitted=admission(2, flavor="a100")),
    ]  # fmt: skip
    job = only(tmp_path, stream(*versions))
    assert [(run["gpus"], run["state"]) for run in job["runs"]] == [(4, "preempted"), (2, "failed")]
    assert (job["queue_s"], job["duration_s"], job["requeue_s"]) == (10, 50 + 120, 20)
    assert (job["attempts"], job["preemptions"]) == (2, 1)
    assert job["wait_includes_attempts"] is False
    assert job["gpu_type"] == "A100"


def test_attempts_hold_shares_of_gpus_and_resources_of_the_option(tmp_path):
    shared = "nvidia.com/gpu.shared"
    template = {"nodeSelector": {"nvidia.com/gpu.replicas": "4"}, "containers": [container(2)]}
    pods = {"name": "main", "count": 1, "template": {"spec": template}}
    use = {"name": "main", "count": 1, "resourceUsage": {shared: "4", "acme.com/npu": "2"}}
    held = {"clusterQueue": "cq", "podSetAssignments": [use]}
    again = [condition("Admitted", 80), condition("Evicted", 80, "False")]
    versions = [
        workload("w", condition("Admitted", 10), admitted=held, spec={"podSets": [pods]}),
        workload(
            "w", condition("Admitted", 10), condition("Evicted", 60, reason="Preempted"),
            admitted=held, spec={"podSets": [pods]},
        ),
        workload(
            "w", *again, condition("Finished", 200, reason="Succeeded"), admitted=held,
            spec={"podSets": [pods]},
        ),
    ]  # fmt: skip
    job = only(tmp_path, stream(*versions))
    assert [run["gpus"] for run in job["runs"]] == [job["num_gpus"]] * 2 == [1, 1]
    job = only(tmp_path, stream(*versions), options={"gpu_resources": ("acme.com/npu",)})
    assert [run["gpus"] for run in job["runs"]] == [job["num_gpus"]] * 2 == [3, 3]


def test_versions_are_read_in_the_order_of_their_numbers(tmp_path):
    text = stream(workload("w"), ran(end=None), ran())
    events = [json.loads(part) for part in text.replace("}\n{", "}\0{").split("\0")]
    job = only(tmp_path, "\n".join(map(json.dumps, reversed(events))))
    assert (job["state"], span(job)) == ("completed", (0, 10, 100))


def test_an_evicted_workload_that_waits_again_keeps_its_attempt_in_a_stream(tmp_path):
    evicted = condition("Evicted", 60, reason="NodeFailures")
    job = only(
        tmp_path,
        stream(
            ran(end=None),
            workload("w", condition("Admitted", 61, "False"), evicted),
        ),
    )
    assert (job["state"], span(job)) == ("node_fail", (0, 10, 60))


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("Preempted", "preempted"),
        ("PodsReadyTimeout", "failed"),
        ("AdmissionCheck", "preempted"),
        ("ClusterQueueStopped", "preempted"),
        ("LocalQueueStopped", "preempted"),
        ("FlavorMigration", "preempted"),
        ("NodeFailures", "node_fail"),
        ("Deactivated", "cancelled"),
    ],
)
def test_the_state_of_an_attempt_by_the_reason_of_its_eviction(tmp_path, reason, state):
    evicted = condition("Evicted", 60, reason=reason)
    waits_again = workload("w", condition("Admitted", 61, "False"), evicted)
    job = only(tmp_path, stream(ran(end=None), waits_again))
    assert (job["state"], span(job)) == (state, (0, 10, 60))


def test_an_attempt_whose_end_no_event_shows_is_lost_and_said(tmp_path):
    versions = [ran(start=10, end=None), ran(start=80, end=100)]
    job = only(tmp_path, stream(*versions))
    assert span(job) == (0, 80, 100)
    assert job["wait_includes_attempts"] is True


def test_a_running_workload_that_is_deleted_ends_then(tmp_path):
    gone = ran(end=None, deletionTimestamp=at(70))
    events = [{"type": "ADDED", "object": ran(end=None)}, {"type": "DELETED", "object": gone}]
    job = only(tmp_path, "\n".join(map(json.dumps, events)))
    assert (job["state"], span(job)) == ("unknown", (0, 10, 70))


def test_one_deleted_without_a_time_ends_with_what_the_stream_told_before(tmp_path):
    events = [
        {"type": "ADDED", "object": ran(end=None)},
        {"type": "ADDED", "object": ran("other", start=40, end=90)},
        {"type": "DELETED", "object": ran(end=None)},
        {"type": "ADDED", "object": ran("later", start=300, end=400)},
    ]
    jobs, done = jobs_of(tmp_path, "\n".join(map(json.dumps, events)))
    assert (jobs["ns/w"]["state"], span(jobs["ns/w"])) == ("unknown", (0, 10, 90))
    assert any("deleted while they ran, without a time" in note for note in done.notes)
    path = tmp_path / "watch.json"
    path.write_text("\n".join(map(json.dumps, events)))
    row = read_kueue_log(path).jobs.row(by_predicate=pl.col("job_id") == "ns/w", named=True)
    assert (row["run_s"], row["end"] - row["submit"]) == (85, 90)  # quota was held from 5 on


def test_both_api_versions_give_the_same_jobs(tmp_path):
    new = only(tmp_path, ran())
    old = ran(version=V1, spec={"priorityClassName": "high", "priorityClassSource": "x"})
    assert only(tmp_path, old) == new


def test_a_workload_of_another_group_is_none(tmp_path):
    other = {**ran(), "apiVersion": "scheduling.k8s.io/v1alpha1"}
    with pytest.raises(InputError, match=r"no Workloads of Kueue.*\n.*workloads\.kueue\.x-k8s\.io"):
        jobs_of(tmp_path, listed({**ran("q"), "kind": "ClusterQueue"}, other))


def test_a_workload_that_cannot_be_read_is_set_aside(tmp_path):
    odd = ran("odd", spec={"podSets": [{"count": "two"}]})
    jobs, done = jobs_of(tmp_path, listed(odd, ran()), limit=Limit.of("100%"))
    assert list(jobs) == ["ns/w"]
    assert done.rejected_by_reason == {"unreadable": 1}


def test_an_empty_list_inside_a_workload_is_no_empty_dump(tmp_path):
    pods = {"count": 1, "template": {"spec": {"containers": [container(4)],
                                              "volumes": [{"secret": {"items": []}}]}}}  # fmt: skip
    assert only(tmp_path, listed(ran(spec={"podSets": [pods]})))["num_gpus"] == 4


def test_the_history_is_said(tmp_path):
    _, done = jobs_of(tmp_path, listed(ran("a", end=50), ran("b", end=100)))
    assert done.span.first_end.endswith("T00:00:50Z")
    assert done.span.last_end.endswith("T00:01:40Z")
    assert any("2 jobs ended, from 2026-11-02 00:00:50" in note for note in done.notes)
