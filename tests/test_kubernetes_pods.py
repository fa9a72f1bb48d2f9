"""Pods as jobs: GPUs, times, states and gangs, worked out by hand."""

import json
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_kubernetes import at, container, jobs_of, listed, node, only, pod, span

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.reject_limit import Limit
from gpuplan.analysis.kubernetes.quantities import device_count, quantity
from gpuplan.analysis.log_formats.format import IngestOptions

ALL = Limit.of("100%")


# --- quantities


@pytest.mark.parametrize("written", ["8", 8, "8.0", 8.0, "8000m", "8e0", "0.008k"])
def test_eight_is_written_in_many_ways(written):
    assert device_count(written) == 8


@pytest.mark.parametrize(
    ("written", "value"),
    [("1E", 10**18), ("1E3", 1000), ("1e-3", Fraction(1, 1000)), ("2Gi", 2 << 30),
     (".5", Fraction(1, 2)), ("5n", Fraction(5, 10**9)), ("-1", -1), ("1Ki", 1024), ("1k", 1000)],
)  # fmt: skip
def test_suffixes(written, value):
    assert quantity(written) == value


@pytest.mark.parametrize("written", ["", "x", "1K", "8 ", "1ee3", "0x8", "1e9999", "NaN", "1e400"])
def test_other_text_is_no_quantity(written):
    with pytest.raises(ValueError, match="quantity"):
        device_count(written)


@pytest.mark.parametrize("written", ["0.5", "1500m", "-1", "1E"])
def test_devices_are_whole(written):
    with pytest.raises(ValueError, match="quantity"):
        device_count(written)


@given(st.integers(0, 10**6), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "u", "n"]))
def test_a_quantity_is_its_number_times_its_suffix(number, suffix):
    one = quantity(f"1{suffix}")
    assert quantity(f"{number}{suffix}") == number * one
    assert quantity(f"{number}.50{suffix}") == (number + Fraction(1, 2)) * one


@given(st.fractions(0, 1000, max_denominator=1000))
def test_a_quantity_in_thousandths_is_that_many(value):
    assert quantity(f"{int(value * 1000)}m") == Fraction(int(value * 1000), 1000)


# --- GPUs of a pod


def test_containers_add_up_and_init_containers_run_before(tmp_path):
    spec = {
        "containers": [container(2), container(1)],
        "initContainers": [
            container(1, restartPolicy="Always"),
            container(4),
        ],
    }
    # 2 + 1 + 1 that always restarts = 4; the init container runs beside the one before it: 4 + 1
    assert only(tmp_path, pod(spec=spec))["num_gpus"] == 5


def test_an_init_container_before_one_that_always_restarts_runs_alone(tmp_path):
    spec = {
        "containers": [container(2)],
        "initContainers": [container(4), container(1, restartPolicy="Always")],
        "overhead": {"nvidia.com/gpu": "1"},
    }
    assert only(tmp_path, pod(spec=spec))["num_gpus"] == 4 + 1


def test_limits_count_where_there_are_no_requests(tmp_path):
    limits = {"resources": {"limits": {"nvidia.com/gpu": 4}, "requests": {"cpu": "1"}}}
    assert only(tmp_path, pod(spec={"containers": [limits]}))["num_gpus"] == 4


@pytest.mark.parametrize(
    ("resource", "gpus", "share"),
    [
        ("nvidia.com/mig-1g.10gb", 1, 1 / 7),
        ("nvidia.com/mig-3g.40gb", 2, 6 / 7),
        ("nvidia.com/mig-1g.10gb.shared", 1, 1 / 7),
        ("amd.com/gpu", 8, 8),
        ("gpu.intel.com/i915", 1, 1),
        ("habana.ai/gaudi", 8, 8),
        ("nvidia.com/gpu.shared", 1, 1),
    ],
)
def test_gpu_resources(tmp_path, resource, gpus, share):
    job = only(tmp_path, pod(spec={"containers": [container(gpus, resource)]}))
    assert job["num_gpus"] == pytest.approx(share)


def test_shared_gpus_count_by_the_replicas_of_their_node(tmp_path):
    shared = pod(spec={"containers": [container(2, "nvidia.com/gpu.shared")], "nodeName": "n"})
    labels = node(nvidia_com__gpu_replicas="8")
    assert only(tmp_path, listed(shared, labels))["num_gpus"] == 2 / 8


def test_fractions_of_kai(tmp_path):
    half = pod("h", gpus=0, annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"})
    memory = pod("m", gpus=0, annotations={"gpu-memory": "20480"}, spec={"nodeName": "n"})
    labels = node(nvidia_com__gpu_memory="81920")
    reservation = pod("gpu-reservation")
    reservation["metadata"]["namespace"] = "kai-resource-reservation"
    jobs, done = jobs_of(tmp_path, listed(half, memory, labels, reservation))
    assert {name: job["num_gpus"] for name, job in jobs.items()} == {"ns/h": 1.0, "ns/m": 0.25}
    assert done.left_out == {"gpu_reservation": 1}


def test_gpus_that_are_not_in_the_pod_are_rejected_with_what_would_tell(tmp_path):
    memory = pod("m", gpus=0, annotations={"gpu-memory": "20480"})
    claim = pod("d", gpus=0, spec={"resourceClaims": [{"name": "g"}]})
    hami = pod("h", spec={"containers": [container(1), container(3000, "nvidia.com/gpumem")]})
    half = pod("x", spec={"containers": [container("500m")]})
    _, done = jobs_of(tmp_path, listed(memory, claim, hami, half, pod()), limit=ALL)
    assert done.rejected_by_reason == {"gpu_share": 1, "missing": 2, "unreadable": 1}
    rows = pl.read_parquet(tmp_path / "out.rejects.parquet")
    assert any("resourceclaims" in text for text in rows["found"])


def test_claims_count_by_what_was_allocated(tmp_path):
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "made", "namespace": "ns"},
        "status": {"allocation": {"devices": {"results": [
            {"driver": "gpu.nvidia.com"}, {"driver": "gpu.nvidia.com"}, {"driver": "dra.net"}
        ]}}},
    }  # fmt: skip
    claiming = pod(
        gpus=0,
        spec={"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]},
        status={"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "made"}]},
    )
    assert only(tmp_path, listed(claiming, claim))["num_gpus"] == 2


def test_other_resources_are_gpus_where_the_user_says_so(tmp_path):
    tpu = pod(spec={"containers": [container(4, "google.com/tpu")]})
    assert only(tmp_path, tpu, options={"gpu_resources": ("google.com/tpu",)})["num_gpus"] == 4
    _, done = jobs_of(tmp_path, listed(tpu, pod("q")))
    assert done.left_out == {"without_gpus": 1}


@pytest.mark.parametrize(
    ("labels", "selector", "gpu_type"),
    [
        ({"nvidia_com__gpu_product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, {}, "H100-80GB"),
        ({"nvidia_com__gpu_product": "NVIDIA-A100-SXM4-80GB-SHARED"}, {}, "A100-80GB"),
        ({}, {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "T4"),
        ({}, {"node.kubernetes.io/instance-type": "p5.48xlarge"}, "H100-80GB"),
        ({}, {"node.kubernetes.io/instance-type": "Standard_NC6"}, "K80"),
        ({}, {}, None),
    ],
)
def test_gpu_types(tmp_path, labels, selector, gpu_type):
    item = pod(spec={"nodeName": "n", "nodeSelector": selector})
    kind = only(tmp_path, listed(item, node(**labels)))["gpu_type"]
    assert kind == gpu_type or (gpu_type == "H100-80GB" and kind == "H100")


# --- times and states


def test_a_pod_waits_until_it_is_scheduled_and_holds_its_gpus_until_all_containers_end(tmp_path):
    ends = [{"state": {"terminated": {"finishedAt": at(t)}}} for t in (100, 150)]
    job = only(tmp_path, pod(submit=5, start=20, status={"containerStatuses": ends}))
    assert span(job) == (5, 20, 150)
    assert job["state"] == "completed"


@pytest.mark.parametrize(
    ("status", "state", "end"),
    [
        ({"reason": "Evicted"}, "failed", 90),
        ({"reason": "DeadlineExceeded"}, "timeout", 90),
        ({"reason": "Preempting"}, "preempted", 90),
        ({"reason": "NodeLost"}, "node_fail", 90),
        ({}, "failed", 90),
    ],
)
def test_a_failed_pod_without_containers_ends_by_its_conditions(tmp_path, status, state, end):
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(10)},
        {"type": "Ready", "status": "False", "lastTransitionTime": at(end)},
    ]
    made = pod(phase="Failed", status={"conditions": conditions, "containerStatuses": [], **status})
    job = only(tmp_path, made)
    assert (job["state"], span(job)[2]) == (state, end)


def test_a_disruption_says_when_and_why(tmp_path):
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(10)},
        {"type": "Ready", "status": "False", "lastTransitionTime": at(95)},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
         "lastTransitionTime": at(80)},
    ]  # fmt: skip
    made = pod(phase="Failed", status={"conditions": conditions, "containerStatuses": None})
    job = only(tmp_path, made)
    assert (job["state"], span(job)[2]) == ("preempted", 80)


def test_a_container_of_unknown_start_has_an_end(tmp_path):
    unknown = {"terminated": {"startedAt": None, "finishedAt": at(60),
                              "reason": "ContainerStatusUnknown"}}  # fmt: skip
    job = only(tmp_path, pod(status={"containerStatuses": [{"state": unknown}]}))
    assert span(job) == (0, 10, 60)


def test_the_year_1970_is_no_time(tmp_path):
    never = {"terminated": {"finishedAt": "1970-01-01T00:00:00Z"}}
    _, done = jobs_of(
        tmp_path,
        listed(pod("a", status={"containerStatuses": [{"state": never}]}), pod("b")),
        limit=ALL,
    )
    assert done.rejected_by_reason == {"missing": 1}


def test_init_containers_alone_may_tell_the_end(tmp_path):
    ended = [{"state": {"terminated": {"finishedAt": at(70)}}}]
    made = pod(phase="Failed", status={"containerStatuses": None, "initContainerStatuses": ended})
    assert span(only(tmp_path, made))[2] == 70


def test_pods_that_wait_are_left_out_and_counted(tmp_path):
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
             "lastTransitionTime": None}  # fmt: skip
    waiting = pod("w", phase="Pending", status={"conditions": [gated]})
    bare = pod("n")
    del bare["status"]
    jobs, done = jobs_of(tmp_path, listed(waiting, bare, pod("r", end=None)))
    assert done.left_out == {"pending": 2}
    assert jobs["ns/r"]["state"] == "running"
    assert jobs["ns/r"]["duration_s"] == 0  # it started at the last instant of the dump


def test_a_pod_being_deleted_still_runs(tmp_path):
    made = pod(end=None, metadata={"deletionTimestamp": at(50)})
    assert only(tmp_path, made)["state"] == "running"


def test_a_pod_deleted_in_a_watch_ends_then(tmp_path):
    gone = pod(end=None, metadata={"deletionTimestamp": at(50)})
    events = [{"type": "ADDED", "object": pod(end=None)}, {"type": "DELETED", "object": gone}]
    job = only(tmp_path, "\n".join(json.dumps(event, indent=4) for event in events))
    assert (job["state"], span(job)[2]) == ("unknown", 50)


def test_one_name_used_twice_is_two_jobs(tmp_path):
    first, second = pod(uid="1"), pod(uid="2", submit=200, start=210, end=300)
    jobs, _ = jobs_of(tmp_path, listed(second, first))
    assert {name: span(job)[0] for name, job in jobs.items()} == {"ns/p": 0, "ns/p#2": 200}


def test_snapshots_of_several_files_are_one_pod(tmp_path):
    running = pod(end=None, metadata={"resourceVersion": "5"})
    ended = pod(metadata={"resourceVersion": "9"})
    assert only(tmp_path, listed(ended), listed(running))["state"] == "completed"


def test_queue_user_and_priority(tmp_path):
    made = pod(
        labels={"kueue.x-k8s.io/queue-name": "q"},
        annotations={"example.com/who": "ada"},
        spec={"priority": -5},
    )
    job = only(tmp_path, made, options={"user_label": "example.com/who"})
    assert (job["queue"], job["user"], job["recorded_priority"]) == ("q", "ada", -5)
    assert job["group"] == "ns"


@pytest.mark.parametrize("options", [{}, {"user_label": "example.com/who"}])
def test_without_a_label_the_namespace_is_the_user(tmp_path, options):
    assert only(tmp_path, pod(), options=options)["user"] == "ns"


@pytest.mark.parametrize("key", ["pod-group-name", "scheduling.k8s.io/group-name"])
def test_the_queue_of_a_pod_group_is_that_of_its_pods(tmp_path, key):
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
             "metadata": {"name": "g", "namespace": "ns"}, "spec": {"queue": "q"}}  # fmt: skip
    job = only(tmp_path, listed(pod(annotations={key: "g"}), group))
    assert (job["job_id"], job["queue"], job["preemptible"]) == ("ns/g", "q", None)


@pytest.mark.parametrize(
    ("word", "preemptible"),
    [("preemptible", True), ("non-preemptible", False), ("", None), ("semi", None)],
)
def test_a_pod_group_says_whether_its_pods_may_be_preempted(tmp_path, word, preemptible):
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
             "metadata": {"name": "g", "namespace": "ns"},
             "spec": {"preemptibility": word}}  # fmt: skip
    of_group = {"annotations": {"pod-group-name": "g"}}
    pods = [pod("a"), *(pod(name, uid=name, **of_group) for name in ("b", "c"))]
    jobs, _ = jobs_of(tmp_path, listed(*pods, group))
    assert {name: job["preemptible"] for name, job in jobs.items()} == {
        "ns/a": None, "ns/g": preemptible,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\nitems:\n- kind: Pod\n", "YAML of Kubernetes"),
        ("NAMESPACE  NAME  READY  STATUS\nns  p  1/1  Running\n", "table that kubectl prints"),
        ("No resources found\n", "message of kubectl"),
        (json.dumps(listed(pod()))[:-40], "ends in the middle"),
        ('{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no"}',
         "error of the API server: no"),
        (json.dumps(listed()), "no pods and no jobs"),
    ],
)  # fmt: skip
def test_other_output_of_kubectl_is_refused_with_the_next_step(tmp_path, text, message):
    with pytest.raises(InputError, match=f"(?s){message}.*next:"):
        jobs_of(tmp_path, text)


# --- gangs

GANGS = {
    "pod group of Kueue": {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}},
    "JobSet": {"labels": {"jobset.sigs.k8s.io/jobset-name": "g"}},
    "training job": {"labels": {"training.kubeflow.org/job-name": "g"}},
    "Volcano": {"labels": {"volcano.sh/job-name": "g"}},
    "KAI": {"annotations": {"pod-group-name": "g"}},
    "group annotation": {"annotations": {"scheduling.k8s.io/group-name": "g"}},
    "Ray": {"labels": {"ray.io/cluster": "g"}},
}


@pytest.mark.parametrize("kind", GANGS)
def test_pods_of_a_group_are_one_job(tmp_path, kind):
    pods = [pod(f"g-{i}", gpus=8, start=10 + i, end=100 + i, **GANGS[kind]) for i in range(3)]
    job = only(tmp_path, listed(*pods))
    assert job["job_id"] == "ns/g"
    assert (job["num_gpus"], job["num_workers"], job["attempts"]) == (24, 3, 1)
    assert span(job) == (0, 10, 102)


def test_groups_of_a_leader_are_told_apart(tmp_path):
    def member(i, group):
        labels = {"leaderworkerset.sigs.k8s.io/name": "l",
                  "leaderworkerset.sigs.k8s.io/group-index": str(group)}  # fmt: skip
        return pod(f"l-{group}-{i}", labels=labels, owner=("StatefulSet", f"l-{group}"))

    jobs, _ = jobs_of(tmp_path, listed(*(member(i, g) for i in range(2) for g in range(2))))
    assert sorted(jobs) == ["ns/l-0", "ns/l-1"]
    assert {job["job_class"] for job in jobs.values()} == {"service"}


def plain_job(name, completions, parallelism, **more):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-Job-{name}",
                     "creationTimestamp": at(0)},
        "spec": {"completions": completions, "parallelism": parallelism,
                 "template": {"spec": {"containers": [container(2)]}}},
        "status": more.get("status", {}),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("job", "ids"),
    [
        (plain_job("j", 2, 2), ["ns/j"]),
        (plain_job("j", 4, 2), ["ns/j-0", "ns/j-1"]),
        (None, ["ns/j-0", "ns/j-1"]),
    ],
)
def test_a_plain_job_is_a_gang_if_all_its_pods_run_at_once(tmp_path, job, ids):
    labels = {"batch.kubernetes.io/job-name": "j"}
    pods = [pod(f"j-{i}", labels=labels, owner=("Job", "j")) for i in range(2)]
    jobs, _ = jobs_of(tmp_path, listed(*pods, *([job] if job else [])))
    assert sorted(jobs) == ids


def test_generations_of_a_gang_are_its_attempts(tmp_path):
    labels = {"training.kubeflow.org/job-name": "g"}
    first = [pod(f"g-{i}-x7k2p", labels=labels, phase="Failed", start=10, end=60) for i in range(2)]
    again = [pod(f"g-{i}-b4c8d", labels=labels, submit=70, start=80, end=200) for i in range(2)]
    job = only(tmp_path, listed(*first, *again))
    assert (job["num_gpus"], job["num_workers"], job["attempts"]) == (2, 2, 2)
    assert job["state"] == "completed"
    assert span(job)[:2] == (0, 10)
    assert [(run["state"], run["gpus"]) for run in job["runs"]] == [("failed", 2), ("completed", 2)]
    assert (job["duration_s"], job["requeue_s"]) == (120, 70)  # the last attempt did the work


def test_a_pod_made_again_beside_running_ones_is_an_attempt_in_one_run(tmp_path):
    def member(i, start, end, suffix):
        labels = {"training.kubeflow.org/job-name": "g",
                  "training.kubeflow.org/replica-index": str(i)}  # fmt: skip
        return pod(f"g-{i}{suffix}", labels=labels, start=start, end=end)

    job = only(
        tmp_path,
        listed(member(0, 10, 200, ""), member(1, 10, 50, ""), member(1, 60, 200, "-b4c8d")),
    )
    assert (job["attempts"], job["num_gpus"], job["runs"]) == (2, 2, None)
    assert span(job) == (0, 10, 200)


def test_a_gang_of_that_name_made_later_is_another_job(tmp_path):
    labels = {"training.kubeflow.org/job-name": "g"}
    first = [pod(f"g-{i}", uid=f"a{i}", labels=labels, owner=("PyTorchJob", "g")) for i in (0, 1)]
    later = [
        pod(f"g-{i}", uid=f"b{i}", labels=labels, submit=500, start=510, end=600,
            owner=("PyTorchJob", "g"))
        for i in (0, 1)
    ]  # fmt: skip
    for item in later:
        item["metadata"]["ownerReferences"][0]["uid"] = "another"
    jobs, _ = jobs_of(tmp_path, listed(*later, *first))
    assert {name: span(job)[0] for name, job in jobs.items()} == {"ns/g": 0, "ns/g#2": 500}


# --- controllers without pods


@pytest.mark.parametrize(
    ("item", "gpus", "end", "state"),
    [
        (plain_job("j", 2, 2, status={"startTime": at(10), "completionTime": at(90)}), 4, 90,
         "completed"),
        (plain_job("j", 2, 2, status={"startTime": at(10), "conditions": [
            {"type": "Failed", "status": "True", "lastTransitionTime": at(70)}]}), 4, 70, "failed"),
        ({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
          "spec": {"pytorchReplicaSpecs": {
              "Master": {"replicas": 1, "template": {"spec": {"containers": [container(8)]}}},
              "Worker": {"replicas": 3, "template": {"spec": {"containers": [container(8)]}}}}},
          "status": {"completionTime": at(90), "startTime": at(5), "conditions": [
              {"type": "Running", "status": "True", "lastTransitionTime": at(10)},
              {"type": "Succeeded", "status": "True", "lastTransitionTime": at(90)}]}},
         32, 90, "completed"),
        ({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
          "spec": {"replicatedJobs": [{"replicas": 2, "template": {"spec": {
              "parallelism": 3, "template": {"spec": {"containers": [container(1)]}}}}}]},
          "status": {"startTime": at(10), "conditions": [
              {"type": "Completed", "status": "True", "lastTransitionTime": at(90)}]}},
         6, 90, "completed"),
        ({"apiVersion": "ray.io/v1", "kind": "RayJob",
          "spec": {"rayClusterSpec": {
              "headGroupSpec": {"template": {"spec": {"containers": [container(1)]}}},
              "workerGroupSpecs": [{"replicas": 2, "numOfHosts": 2, "template": {"spec": {
                  "containers": [container(4)]}}}]}},
          "status": {"startTime": at(10), "endTime": at(90), "jobStatus": "SUCCEEDED"}},
         17, 90, "completed"),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
          "spec": {"queue": "q", "tasks": [{"replicas": 2, "template": {"spec": {
              "containers": [container(4)]}}}]},
          "status": {"retryCount": 1, "conditions": [
              {"status": "Pending", "lastTransitionTime": at(1)},
              {"status": "Running", "lastTransitionTime": at(10)}],
              "state": {"phase": "Completed", "lastTransitionTime": at(90)}}},
         8, 90, "completed"),
    ],
    ids=["Job", "failed Job", "PyTorchJob", "JobSet", "RayJob", "Volcano"],
)  # fmt: skip
def test_a_controller_whose_pods_are_gone(tmp_path, item, gpus, end, state):
    item = {"metadata": {"name": "j", "namespace": "ns", "creationTimestamp": at(0)}, **item}
    job = only(tmp_path, item)
    assert job["num_gpus"] == gpus
    assert span(job) == (0, 10, end)
    assert job["state"] == state


# --- what is not said


def test_nothing_secret_is_copied(tmp_path):
    secret = {"name": "c", "env": [{"name": "TOKEN", "value": "s3cret"}], "args": ["s3cret"],
              "resources": {"requests": {"nvidia.com/gpu": "1"}}}  # fmt: skip
    broken = {**secret, "resources": {"requests": {"nvidia.com/gpu": "0.5"}}}
    made = [
        pod("a", spec={"containers": [secret]}, annotations={"note": "s3cret"}),
        pod("b", spec={"containers": [broken]}, annotations={"note": "s3cret"}),
        {**pod("c", annotations={"note": "s3cret"}), "spec": {"containers": "s3cret"}},
    ]
    jobs_of(tmp_path, listed(*made), limit=ALL)
    for file in ("out.parquet", "out.rejects.parquet"):
        rows = pl.read_parquet(tmp_path / file)
        assert "s3cret" not in str(rows.rows()), file


def test_an_object_that_cannot_be_read_is_set_aside_alone(tmp_path):
    odd = pod("odd", metadata={"creationTimestamp": "yesterday"})
    jobs, done = jobs_of(tmp_path, listed(odd, pod()), limit=ALL)
    assert list(jobs) == ["ns/p"]
    assert done.rejected_by_reason == {"unreadable": 1}
    assert "odd" in pl.read_parquet(tmp_path / "out.rejects.parquet")["raw"][0]


def test_objects_without_jobs_are_named(tmp_path):
    with pytest.raises(InputError, match=r"no pods and no jobs; found Node.*\n.*kubectl get pods"):
        jobs_of(tmp_path, listed(node()))


def test_a_log_without_started_jobs_says_what_it_has(tmp_path):
    with pytest.raises(InputError, match="has no jobs: 1 pods or workloads that have not started"):
        jobs_of(tmp_path, pod(phase="Pending"))


def test_options_for_other_formats_are_defaults():
    assert IngestOptions().kubernetes == type(IngestOptions().kubernetes)()


def test_slices_that_no_gpu_has_are_not_zero_gpus(tmp_path):
    odd = pod("odd", gpus=0)
    odd["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/mig-9g.80gb": "1"}}
    _, done = jobs_of(tmp_path, listed(pod("a"), odd), limit=Limit.of("50%"))
    assert done.rejected_by_reason == {"unreadable": 1} and done.left_out == {}
