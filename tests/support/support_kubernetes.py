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


def span(job):
    """Return submission, start and end of a job, in seconds of that day."""
    submit = job["submit_time"].timestamp() - DAY
    start = None if job["queue_s"] is None else submit + job["queue_s"]
    end = None if start is None or job["duration_s"] is None else start + job["duration_s"]
    return submit, start, end
