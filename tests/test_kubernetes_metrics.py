"""Pods by the series of kube-state-metrics, worked out by hand."""

import json
from copy import deepcopy

import pytest
from support_kube_series import ANCHOR, END, HOUR, answer, grid, pod, series
from support_kubernetes import DAY, jobs_of, span

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.job_table.reject_limit import Limit


def job_of(tmp_path, *groups, **more):
    jobs, _ = jobs_of(tmp_path, answer(*groups, ANCHOR), **more)
    del jobs["ns/anchor"]
    (job,) = jobs.values()
    return job


def test_times_that_are_values_are_exact_whatever_the_step(tmp_path):
    job = job_of(tmp_path, pod(submit=100, start=200, end=5000))
    assert span(job) == (100, 200, 5000)
    assert (job["num_gpus"], job["state"], job["group"]) == (8, "completed", "ns")
    assert job["node_list"] == "n1"


def test_a_pod_in_the_last_sample_runs_until_then(tmp_path):
    job = job_of(tmp_path, pod())
    assert (job["state"], span(job)) == ("running", (100, 200, END))


def test_a_pod_deleted_while_it_ran_ends_half_a_step_before_its_last_sample(tmp_path):
    job = job_of(tmp_path, pod(last=10 * HOUR))
    assert (job["state"], span(job)[2]) == ("unknown", 10 * HOUR - HOUR / 2)


def test_such_an_end_is_not_before_the_start(tmp_path):
    job = job_of(tmp_path, pod(submit=100, start=3500, last=HOUR))
    assert span(job) == (100, 3500, 3500)


def test_a_failure_without_completion_time_ends_half_a_step_before_its_phase(tmp_path):
    made = [item for item in pod(end=2 * HOUR, phase="Failed", last=5 * HOUR)
            if item["metric"]["__name__"] != "kube_pod_completion_time"]  # fmt: skip
    job = job_of(tmp_path, made)
    assert (job["state"], span(job)[2]) == ("failed", 2 * HOUR - HOUR / 2)


def test_a_finished_sidecar_alone_does_not_end_a_pod(tmp_path):
    sidecar = series("kube_pod_completion_time", [(t, DAY + 900) for t in grid(900, END)])
    assert job_of(tmp_path, pod(), [sidecar])["state"] == "running"


@pytest.mark.parametrize(("last", "ended"), [(2 * HOUR, True), (20 * HOUR, False)])
def test_without_phases_a_completion_counts_if_the_pod_vanishes_soon(tmp_path, last, ended):
    def bare(group):
        return [s for s in group if s["metric"]["__name__"] != "kube_pod_status_phase"]

    completed = series("kube_pod_completion_time", [(t, DAY + 900) for t in grid(900, last)])
    jobs, _ = jobs_of(tmp_path, answer(bare(pod(last=last)), [completed], bare(ANCHOR)))
    assert span(jobs["ns/p"])[2] == (900 if ended else last - HOUR / 2)


def test_a_preemption_is_named(tmp_path):
    reason = series("kube_pod_status_disruption_reason", [(2 * HOUR, 1)],
                    reason="PreemptionByScheduler")  # fmt: skip
    assert job_of(tmp_path, pod(end=HOUR, phase="Failed"), [reason])["state"] == "preempted"


def test_without_a_scheduled_time_the_first_sample_on_a_node_is_the_start(tmp_path):
    made = [item for item in pod(end=5 * HOUR)
            if item["metric"]["__name__"] != "kube_pod_status_scheduled_time"]  # fmt: skip
    assert span(job_of(tmp_path, made)) == (100, HOUR, 5 * HOUR)


def test_containers_add_up_and_copies_do_not(tmp_path):
    request = {"resource": "nvidia_com_gpu", "node": "n1"}
    more = [
        series("kube_pod_container_resource_requests", [(HOUR, 4)], container="b", **request),
        series("kube_pod_container_resource_requests", [(HOUR, 4)], container="b",
               instance="other", **request),
    ]  # fmt: skip
    assert job_of(tmp_path, pod(end=2000), more)["num_gpus"] == 8 + 4


def test_mig_and_other_resources(tmp_path):
    slices = series("kube_pod_container_resource_requests", [(HOUR, 2)], container="m",
                    resource="nvidia_com_mig_1g_10gb", node="n1")  # fmt: skip
    assert job_of(tmp_path, pod(gpus=0, end=2000), [slices])["num_gpus"] == pytest.approx(2 / 7)


def test_pods_that_wait_or_have_no_gpus_are_counted(tmp_path):
    _, done = jobs_of(tmp_path, answer(pod("w", start=None), pod("c", gpus=0), ANCHOR))
    assert done.left_out == {"without_gpus": 1, "pending": 1}


def test_names_that_are_not_the_exporters_count(tmp_path):
    labels = {"exported_namespace": "team", "exported_pod": "real"}
    job = job_of(tmp_path, pod("exporter", end=2000, **labels))
    assert (job["job_id"], job["group"]) == ("team/real", "team")


def test_without_uids_creations_tell_pods_of_one_name_apart(tmp_path):
    first = pod(end=2000, last=2 * HOUR, uid=None)
    second = pod(submit=10 * HOUR, start=10 * HOUR + 50, end=12 * HOUR + 7, gpus=2, uid=None)
    jobs, _ = jobs_of(tmp_path, answer(first, second, ANCHOR))
    assert span(jobs["ns/p"]) == (100, 200, 2000)
    assert span(jobs["ns/p#2"]) == (36000, 36050, 12 * HOUR + 7)
    assert (jobs["ns/p"]["num_gpus"], jobs["ns/p#2"]["num_gpus"]) == (8, 2)


def test_the_schedulers_requests_stand_in(tmp_path):
    made = [item for item in pod(end=2000)
            if item["metric"]["__name__"] != "kube_pod_container_resource_requests"]  # fmt: skip
    request = series("kube_pod_resource_request", [(HOUR, 4)], uid=None, node="n1",
                     resource="nvidia.com/gpu", priority="7")  # fmt: skip
    job = job_of(tmp_path, made, [request])
    assert (job["num_gpus"], job["recorded_priority"], job["node_list"]) == (4, 7, "n1")


@pytest.mark.parametrize(
    ("gap", "gang", "jobs"),
    [(30, None, 1), (90, None, 2), (30, "pod", 2), (90, "job", 1)],
)
def test_pods_of_a_plain_job_made_at_once_are_a_gang(tmp_path, gap, gang, jobs):
    pods = [pod(f"j-{i}", submit=100 + gap * i, start=300, end=9000, owner=("Job", "j"))
            for i in range(2)]  # fmt: skip
    found, _ = jobs_of(tmp_path, answer(*pods, ANCHOR), options={"gang": gang})
    del found["ns/anchor"]
    assert len(found) == jobs
    if jobs == 1:
        assert found["ns/j"]["num_gpus"] == 16


def test_owners_make_gangs_and_services(tmp_path):
    gang = [pod(f"t-{i}", end=9000, owner=("PyTorchJob", "t")) for i in range(2)]
    jobs, _ = jobs_of(tmp_path, answer(*gang, pod("s", owner=("ReplicaSet", "s-1")), ANCHOR))
    assert (jobs["ns/t"]["num_gpus"], jobs["ns/t"]["num_workers"]) == (16, 2)
    assert jobs["ns/s"]["job_class"] == "service"


def test_labels_of_pods_and_nodes_in_other_files(tmp_path):
    labels = series("kube_pod_labels", [(HOUR, 1)], label_owner_name="ada",
                    label_kueue_x_k8s_io_queue_name="q")  # fmt: skip
    nodes = {"metric": {"__name__": "kube_node_labels", "node": "n1",
                        "label_nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"},
             "values": [[DAY, "1"]]}  # fmt: skip
    jobs, _ = jobs_of(
        tmp_path, answer(pod(end=2000), ANCHOR), answer([labels]), answer([nodes]),
        options={"user_label": "owner.name"},
    )  # fmt: skip
    job = jobs["ns/p"]
    assert (job["gpu_type"], job["user"], job["queue"]) == ("A100-80GB", "ada", "q")


def test_a_map_of_nodes_by_the_user(tmp_path):
    types = tmp_path / "types.json"
    types.write_text('{"n1": "Tesla-T4"}')
    job = job_of(tmp_path, pod(end=2000), options={"node_types": types})
    assert job["gpu_type"] == "T4"
    types.write_text("[1]")
    with pytest.raises(InputError, match="map of nodes"):
        job_of(tmp_path, pod(end=2000), options={"node_types": types})


def test_files_of_one_metric_each_may_lack_its_name(tmp_path):
    by_metric = {}
    for item in deepcopy([*pod(end=2000), *ANCHOR]):
        by_metric.setdefault(item["metric"].pop("__name__"), []).append(item)
    created = by_metric.pop("kube_pod_created")
    texts = [answer(created), *(answer(group) for group in by_metric.values())]
    names = {name: f"{i}-x.json" for i, name in enumerate(by_metric, 1)}
    jobs, _ = jobs_of(
        tmp_path, *texts, name="x.json",
        options={"metrics": {**names, "kube_pod_created": "x.json"}}, forced="kube-metrics",
    )  # fmt: skip
    assert span(jobs["ns/p"]) == (100, 200, 2000)
    with pytest.raises(UsageError, match="must be one of the files"):
        jobs_of(tmp_path, *texts, options={"metrics": {"a": "none"}}, forced="kube-metrics")
    with pytest.raises(InputError, match="without a name of their metric"):
        jobs_of(tmp_path, *texts, name="x.json", forced="kube-metrics")


@pytest.mark.parametrize("container", ["answer", "array", "lines", "two answers", "instant"])
def test_containers(tmp_path, container):
    result = [*pod(end=2000, last=END), *ANCHOR]
    if container == "array":
        text = json.dumps(result)
    elif container == "lines":
        text = "\n".join(
            "{" + ", ".join(f'{key}="{value}"' for key, value in item["metric"].items())
            + f"}} {float(value):.9e} {int(time * 1000)}"
            for item in result for time, value in item["values"]
        )  # fmt: skip
    elif container == "two answers":
        text = json.dumps(answer(result[:3])) + "\n" + json.dumps(answer(result[3:]))
    elif container == "instant":
        parts = [{"metric": i["metric"], "value": i["values"][-1]} for i in result]
        text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": parts}})
    else:
        text = json.dumps(answer(result))
    jobs, _ = jobs_of(tmp_path, text)
    assert span(jobs["ns/p"]) == (100, 200, 2000)


def test_odd_values_are_missing(tmp_path):
    odd = series("kube_pod_completion_time", [(HOUR, "NaN"), (2 * HOUR, "+Inf")])
    assert job_of(tmp_path, pod(), [odd])["state"] == "running"


def test_warnings_are_repeated(tmp_path):
    _, done = jobs_of(tmp_path, answer(pod(end=2000), ANCHOR, warnings=["partial response"]))
    assert "Prometheus warns: partial response" in done.notes


def test_what_is_no_series_is_set_aside(tmp_path):
    jobs, done = jobs_of(
        tmp_path, answer(pod(end=2000), ANCHOR, [{"metric": 3}]), limit=Limit.of("100%")
    )
    assert sorted(jobs) == ["ns/anchor", "ns/p"]
    assert done.rejected_by_reason == {"unreadable": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"status":"error","errorType":"timeout","error":"query timed out"}', "query timed out"),
        (json.dumps(answer(ANCHOR))[:200], "ends in the middle"),
        ('{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
         "no series of kube-state-metrics"),
    ],
)  # fmt: skip
def test_other_answers_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=f"(?s){message}.*next:"):
        jobs_of(tmp_path, text)


@pytest.mark.parametrize(
    ("metric", "reason", "state"),
    [
        ("kube_pod_status_disruption_reason", "PreemptionByScheduler", "preempted"),
        ("kube_pod_status_disruption_reason", "DeletionByTaintManager", "node_fail"),
        ("kube_pod_status_disruption_reason", "DeletionByPodGC", "node_fail"),
        ("kube_pod_status_disruption_reason", "TerminationByKubelet", "failed"),
        ("kube_pod_status_reason", "NodeLost", "node_fail"),
        ("kube_pod_status_reason", "NodeShutdown", "node_fail"),
        ("kube_pod_status_reason", "Evicted", "failed"),
    ],
)
def test_the_reason_of_a_failure_says_what_it_was(tmp_path, metric, reason, state):
    told = series(metric, [(2 * HOUR, 1)], reason=reason)
    job = job_of(tmp_path, pod(end=HOUR, phase="Failed"), [told])
    assert (job["state"], job["source_state"]) == (state, f"Failed/{reason}")


def test_a_reason_that_is_not_the_case_says_nothing(tmp_path):
    told = series("kube_pod_status_reason", [(2 * HOUR, 0)], reason="NodeShutdown")
    job = job_of(tmp_path, pod(end=HOUR, phase="Failed"), [told])
    assert (job["state"], job["source_state"]) == ("failed", "Failed")


def test_pods_without_any_series_of_requests_are_not_pods_without_gpus(tmp_path):
    requests = "kube_pod_container_resource_requests"
    asked = [item for item in pod() if item["metric"]["__name__"] != requests]
    jobs, done = jobs_of(tmp_path, answer(asked))
    assert not jobs and done.left_out == {"gpus_unknown": 1}
    jobs, done = jobs_of(tmp_path, answer(asked, ANCHOR))  # others of the answer have them
    assert list(jobs) == ["ns/anchor"] and done.left_out == {"without_gpus": 1}


REQUESTS = "kube_pod_container_resource_requests"


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_a_gang_with_an_unknown_request_is_rejected_not_smaller(tmp_path, value):
    gang = {"owner": ("PyTorchJob", "g")}
    whole, part = pod("g-0", end=2000, **gang), pod("g-1", end=2000, **gang)
    both, _ = jobs_of(tmp_path, answer(whole, part, ANCHOR))
    assert both["ns/g"]["num_gpus"] == 16
    for item in part:
        if item["metric"]["__name__"] == REQUESTS:
            item["values"] = [[time, value] for time, _ in item["values"]]
    jobs, done = jobs_of(tmp_path, answer(whole, part, ANCHOR), limit=Limit.of("50%"))
    assert jobs.keys() == {"ns/anchor"} and done.rejected_by_reason == {"unreadable": 1}
    assert done.left_out == {}


def test_unknown_requests_of_other_resources_say_nothing_of_gpus(tmp_path):
    cpu = series(REQUESTS, [(HOUR, "NaN")], container="c", resource="cpu", node="n1")
    assert job_of(tmp_path, pod(end=2000), [cpu])["num_gpus"] == 8


def test_a_number_among_odd_samples_counts(tmp_path):
    odd = series(REQUESTS, [(HOUR, "NaN"), (2 * HOUR, 4)], container="d",
                 resource="nvidia_com_gpu", node="n1")  # fmt: skip
    assert job_of(tmp_path, pod(end=2000), [odd])["num_gpus"] == 8 + 4


def test_series_without_a_pod_are_told(tmp_path):
    lost = series("kube_pod_created", [(HOUR, DAY)])
    del lost["metric"]["pod"]
    jobs, done = jobs_of(tmp_path, answer(pod(end=2000), [lost], ANCHOR))
    assert jobs.keys() == {"ns/p", "ns/anchor"}
    assert "series left out because they have no pod label: 1" in done.notes


def test_slices_that_no_gpu_has_are_not_zero_gpus(tmp_path):
    slices = series(REQUESTS, [(HOUR, 1)], container="m", resource="nvidia_com_mig_9g_80gb",
                    node="n1")  # fmt: skip
    pods = answer(pod(gpus=0, end=2000), [slices], ANCHOR)
    _, done = jobs_of(tmp_path, pods, limit=Limit.of("50%"))
    assert done.rejected_by_reason == {"unreadable": 1} and done.left_out == {}
