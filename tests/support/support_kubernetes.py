"""Small objects of Kubernetes, and their jobs after ingest."""

import json
from datetime import UTC, datetime

import polars as pl

from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.log_formats.format import IngestOptions, KubernetesOptions

DAY = datetime(2026, 11, 2, tzinfo=UTC).timestamp()


def at(seconds):
    """Return a time of that day as Kubernetes writes it."""
    return datetime.fromtimestamp(DAY + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def container(gpus=1, resource="nvidia.com/gpu", **more):
    return {"name": "c", "resources": {"requests": {resource: str(gpus)}}, **more}


def pod(name="p", *, submit=0, start=10, end=110, phase=None, gpus=1, owner=None, **more):
    """Return a pod that ran from start to end; of a start or end of None there is no trace."""
    phase = phase or ("Running" if end is None else "Succeeded")
    state = {} if end is None else {"terminated": {"finishedAt": at(end)}}
    scheduled = {"type": "PodScheduled", "status": "True",
                 "lastTransitionTime": at(start or 0)}  # fmt: skip
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": more.pop("uid", f"uid-{name}"),
        "creationTimestamp": at(submit),
        "labels": more.pop("labels", {}),
        "annotations": more.pop("annotations", {}),
        **more.pop("metadata", {}),
    }
    if owner is not None:
        kind, of = owner
        metadata["ownerReferences"] = [
            {"kind": kind, "name": of, "uid": f"uid-{kind}-{of}", "controller": True}
        ]
    status = {
        "phase": phase,
        "conditions": [] if start is None else [scheduled],
        "containerStatuses": [{"name": "c", "state": state}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container(gpus)], **more.pop("spec", {})},
        "status": {**status, **more.pop("status", {})},
    }


def listed(*items):
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def node(name="n", **labels):
    labels = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def jobs_of(tmp_path, *values, name="dump.json", options=None, limit=None, forced=None):
    """Return the jobs of objects (or of texts) by id, and the account of their ingest."""
    paths = []
    for i, value in enumerate(values):
        path = tmp_path / (name if i == 0 else f"{i}-{name}")
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        paths.append(path)
    choices = IngestOptions(kubernetes=KubernetesOptions(**(options or {})))
    more = {} if limit is None else {"limit": limit}
    done = ingest(paths, tmp_path / "out.parquet", source_format=forced, choices=choices, **more)
    rows = pl.read_parquet(tmp_path / "out.parquet").rows(named=True)
    return {row["job_id"]: row for row in rows}, done


def only(tmp_path, *values, **more):
    """Return the only job of some objects."""
    jobs, _ = jobs_of(tmp_path, *values, **more)
    (job,) = jobs.values()
    return job


def span(job):
    """Return submission, start and end of a job, in seconds of that day."""
    submit = job["submit_time"].timestamp() - DAY
    start = None if job["queue_s"] is None else submit + job["queue_s"]
    end = None if start is None or job["duration_s"] is None else start + job["duration_s"]
    return submit, start, end


def texts():
    """Return a small log of each format of Kubernetes: name -> (format, file, text)."""
    gang = {"labels": {"training.kubeflow.org/job-name": "g"}}
    pods = [
        pod("a", submit=0, end=500),
        pod("b", phase="Pending"),
        pod("c", gpus=0),
        pod("d", end=None, spec={"nodeName": "n"}),
        *(pod(f"g-{i}", gpus=8, **gang) for i in range(2)),
        node(nvidia_com__gpu_product="NVIDIA-A100-SXM4-80GB"),
    ]
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": at(time)}
        for kind, reason, time in (("QuotaReserved", "Pending", 5), ("Admitted", "Admitted", 9),
                                   ("Finished", "Succeeded", 99))
    ]  # fmt: skip
    admission = {"clusterQueue": "cq", "podSetAssignments": [
        {"name": "main", "count": 1, "flavors": {"nvidia.com/gpu": "h100"},
         "resourceUsage": {"nvidia.com/gpu": "4"}}]}  # fmt: skip
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "uid": "u", "creationTimestamp": at(0)},
        "spec": {"queueName": "lq", "priority": 1,
                 "podSets": [{"count": 1, "template": {"spec": {"containers": [container(4)]}}}]},
        "status": {"admission": admission, "conditions": conditions},
    }  # fmt: skip
    waiting = {**workload, "status": {}, "metadata": {**workload["metadata"], "uid": "v"}}
    running = {**workload, "status": {"admission": admission, "conditions": conditions[:2]}}
    events = [
        {"type": kind, "object": item}
        for kind, item in (
            ("ADDED", {**workload, "status": {}}),
            ("MODIFIED", running),
            ("DELETED", workload),
        )
    ]
    series = [
        {"metric": {"__name__": name, "namespace": "ns", "pod": "p", "uid": "u", **more},
         "values": [[DAY + time, str(value)] for time in (3600, 7200, 10800)]}
        for name, value, more in (
            ("kube_pod_created", DAY, {}),
            ("kube_pod_status_scheduled_time", DAY + 60, {}),
            ("kube_pod_container_resource_requests", 8,
             {"container": "c", "resource": "nvidia_com_gpu", "node": "n"}),
            ("kube_pod_status_phase", 1, {"phase": "Running"}))
    ]  # fmt: skip
    lines = [
        "{" + ", ".join(f'{key}="{value}"' for key, value in item["metric"].items())
        + f"}} {value} {int(time * 1000)}"
        for item in series for time, value in item["values"]
    ]  # fmt: skip
    instance = {"name": "p5", "resources": {"gpus": [{"name": "H100", "memory_mib": 81559}]}}
    submission = {"submission_num": 0, "submitted_at": at(5), "finished_at": at(90),
                  "status": "done",
                  "job_provisioning_data": {"price": 3.5, "instance_type": instance}}  # fmt: skip
    runs = {"project": "p", "runs": [
        {"id": "1", "project_name": "p", "user": "ada", "submitted_at": at(0), "status": "done",
         "cost": 1.5, "run_spec": {"run_name": "r", "configuration": {"type": "task"}},
         "jobs": [{"job_submissions": [submission]}]}]}  # fmt: skip
    applications = [
        {"applicationID": "a", "queueName": "root.t", "user": "ada",
         "submissionTime": int(DAY * 1e9), "finishedTime": int((DAY + 110) * 1e9),
         "applicationState": "Completed",
         "stateLog": [{"time": int((DAY + 10) * 1e9), "applicationState": "Running"}],
         "resourceUsage": {"p4d.24xlarge": {"nvidia.com/gpu": 800}}}]  # fmt: skip
    return {
        "kube": ("kube", "kube.json", json.dumps(listed(*pods), indent=1)),
        "kueue": ("kueue", "kueue.json", json.dumps(listed(workload, waiting), indent=1)),
        "kueue_watch": ("kueue", "watch.json", "\n".join(map(json.dumps, events))),
        "kube_metrics": ("kube-metrics", "pods.json", json.dumps(series)),
        "promtool": ("kube-metrics", "dump.txt", "\n".join(lines) + "\n"),
        "dstack": ("dstack", "runs.json", json.dumps(runs)),
        "yunikorn": ("yunikorn", "applications.json", json.dumps(applications)),
    }
