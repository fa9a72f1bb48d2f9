"""Jobs from the objects that make pods, where the pods are gone: batch Jobs, training jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.kubernetes.gpus import (
    PodSpec,
    gpu_fault,
    gpus_of,
    type_of_labels,
)
from gpuplan.analysis.kubernetes.job import Attempt, KubeJob
from gpuplan.analysis.kubernetes.objects import KubeObject
from gpuplan.analysis.kubernetes.pod_objects import PodMeta
from gpuplan.analysis.kubernetes.pods import Surroundings, user_of
from gpuplan.analysis.kubernetes.quantities import Amount
from gpuplan.analysis.kubernetes.times import StatusCondition, holds, seconds, true_at
from gpuplan.analysis.reading.batch import PENDING

TRAINING = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
}
KINDS = ("JobSet", "RayJob", *TRAINING, "Job")
"""Kinds of controllers that are jobs; those that make others come first."""
BATCH, VOLCANO = "batch", "batch.volcano.sh"
VOLCANO_ENDS = {
    "Completed": "completed",
    "Failed": "failed",
    "Terminated": "cancelled",
    "Aborted": "cancelled",
}
JOB_SET = "JobSet"
A_START = "its start: add its Jobs or pods, kubectl get pods,jobs,nodes"
DEADLINE = "DeadlineExceeded"


class Template(Struct):
    """What the pods of a controller are made of."""

    metadata: PodMeta = member(default_factory=PodMeta)
    spec: PodSpec = member(default_factory=PodSpec)


class _JobSpec(Struct):
    parallelism: int | None = None
    completions: int | None = None
    template: Template = member(default_factory=Template)


class _JobTemplate(Struct):
    spec: _JobSpec = member(default_factory=_JobSpec)


class _ReplicatedJob(Struct):
    replicas: int | None = None
    template: _JobTemplate = member(default_factory=_JobTemplate)


class _Replicas(Struct):
    """Pods that are alike: of a training job, of a task of Volcano, or of a group of Ray."""

    replicas: int | None = None
    hosts: int | None = member(name="numOfHosts", default=None)
    template: Template = member(default_factory=Template)


class _RayCluster(Struct):
    head: _Replicas | None = member(name="headGroupSpec", default=None)
    workers: list[_Replicas] | None = member(name="workerGroupSpecs", default=None)


class _ControllerSpec(_JobSpec):
    replicated: list[_ReplicatedJob] | None = member(name="replicatedJobs", default=None)
    pytorch: dict[str, _Replicas] | None = member(name="pytorchReplicaSpecs", default=None)
    mpi: dict[str, _Replicas] | None = member(name="mpiReplicaSpecs", default=None)
    tensorflow: dict[str, _Replicas] | None = member(name="tfReplicaSpecs", default=None)
    xgboost: dict[str, _Replicas] | None = member(name="xgbReplicaSpecs", default=None)
    paddle: dict[str, _Replicas] | None = member(name="paddleReplicaSpecs", default=None)
    ray: _RayCluster | None = member(name="rayClusterSpec", default=None)
    tasks: list[_Replicas] | None = None
    queue: str | None = None


class _VolcanoState(Struct):
    phase: str = ""
    at: datetime | None = member(name="lastTransitionTime", default=None)


class _ControllerStatus(Struct):
    conditions: list[StatusCondition] | None = None
    started: datetime | None = member(name="startTime", default=None)
    completed: datetime | None = member(name="completionTime", default=None)
    ended: datetime | None = member(name="endTime", default=None)
    ray_cluster: str | None = member(name="rayClusterName", default=None)
    job_status: str | None = member(name="jobStatus", default=None)
    state: _VolcanoState | None = None
    retries: int | None = member(name="retryCount", default=None)


class _Controller(Struct):
    metadata: PodMeta
    spec: _ControllerSpec = member(default_factory=_ControllerSpec)
    status: _ControllerStatus | None = None


AS_CONTROLLER = msgspec.json.Decoder(_Controller)


@dataclass(frozen=True, slots=True)
class ControllerJob:
    """The job of a controller.

    Attributes:
        job: from the controller alone.
        makers: uids of what made it.
        pods_as: names under which its pods would be found.
    """

    job: KubeJob
    makers: set[str]
    pods_as: set[str]


@dataclass(frozen=True, slots=True)
class PlainJob:
    """A batch Job, as far as it says which pods are one gang.

    Attributes:
        namespace: of the Job.
        key: its uid, else ``namespace/name``.
        is_gang: whether as many pods run at once as there are completions, above 1.
        makers: uids and names of what made it.
        start: seconds after 1970; None before it.
    """

    namespace: str
    key: str
    is_gang: bool
    makers: frozenset[str]
    start: float | None


def plain_job(item: KubeObject) -> PlainJob:
    """Return a batch Job. Raises ValueError where it cannot be read."""
    made = item.read(AS_CONTROLLER)
    owners = made.metadata.owners or ()
    makers = frozenset(word for owner in owners for word in (owner.uid, owner.name) if word)
    start = seconds(made.status.started) if made.status is not None else None
    pods = made.spec.parallelism or 0
    is_gang = made.spec.completions == made.spec.parallelism and pods > 1
    key = item.uid or f"{item.namespace}/{item.name}"
    return PlainJob(item.namespace, key, is_gang, makers, start)


def controller_job(
    item: KubeObject, around: Surroundings, children_start: float | None = None
) -> ControllerJob | None:
    """Return the job of a controller; None for another kind.

    ``children_start`` is when the first Job that it made started: a JobSet does not say itself.
    Its GPUs are those that all its pods request. Raises ValueError where it cannot be read.
    """
    if item.kind == "Job" and item.api_group not in (BATCH, VOLCANO):
        return None
    made = item.read(AS_CONTROLLER)
    meta, status = made.metadata, made.status or _ControllerStatus()
    labels, annotations = meta.labels or {}, meta.annotations or {}
    job = KubeJob(
        item.number,
        item.source,
        f"{item.namespace}/{item.name}",
        item.namespace,
        seconds(meta.created),
        user=user_of(labels, annotations, around.user_label),
        queue=made.spec.queue or labels.get("kueue.x-k8s.io/queue-name"),
        notes=frozenset({"controller"}),
    )
    result = ControllerJob(
        job,
        {owner.uid for owner in meta.owners or () if owner.uid},
        {name for name in (item.name, status.ray_cluster) if name},
    )
    try:
        _set_gpus(job, list(_templates(item, made.spec)), around)
    except ValueError as error:
        job.fault = gpu_fault(error)
    if not job.gpus and job.fault is None and not around.include_cpu:
        job.left_out = "without_gpus"
        return result
    _set_times(job, item, status, children_start)
    return result


def _templates(item: KubeObject, spec: _ControllerSpec) -> Iterator[tuple[int, Template]]:
    """Yield each template with the number of its pods."""
    if item.kind == "Job" and item.api_group == BATCH:
        yield _count(spec.parallelism), spec.template
    elif item.kind == "Job":
        yield from ((_count(task.replicas), task.template) for task in spec.tasks or ())
    elif item.kind == "JobSet":
        for part in spec.replicated or ():
            child = part.template.spec
            yield _count(part.replicas) * _count(child.parallelism), child.template
    elif item.kind == "RayJob":
        if spec.ray is not None:
            if spec.ray.head is not None:
                yield 1, spec.ray.head.template
            for group in spec.ray.workers or ():
                yield _count(group.replicas) * _count(group.hosts), group.template
    else:
        specs = (spec.pytorch, spec.mpi, spec.tensorflow, spec.xgboost, spec.paddle)
        for replicas in specs:
            yield from ((_count(r.replicas), r.template) for r in (replicas or {}).values())


def _count(value: int | None) -> int:
    if value is not None and value < 0:
        raise ValueError(f"{value} pods")
    return 1 if value is None else value


def _set_gpus(job: KubeJob, templates: list[tuple[int, Template]], around: Surroundings) -> None:
    gpus: Amount = 0
    most: Amount = 0
    workers = 0
    for pods, template in templates:
        selector = template.spec.node_selector or {}
        annotations = template.metadata.annotations or {}
        count = gpus_of(template.spec, annotations, selector, around.gpu_resources)
        if not count.gpus:
            continue
        gpus, workers = gpus + pods * count.gpus, workers + pods
        job.notes |= count.notes
        if pods * count.gpus > most:
            most = pods * count.gpus
            job.gpu_type = type_of_labels(selector, around.instances)
        job.priority = max(job.priority or 0, template.spec.priority or 0)
    job.gpus, job.workers = gpus, max(workers, 1)


def _set_times(
    job: KubeJob, item: KubeObject, status: _ControllerStatus, children_start: float | None
) -> None:
    """Set when it ran, or leave it out where it has not started."""
    if item.kind == "Job" and item.api_group == VOLCANO:
        start, end, state, word = _volcano_times(status)
        job.attempt_count = 1 + max(0, status.retries or 0)
    else:
        start, end, state, word = _times(item, status)
    start = start or children_start
    job.state, job.source_state = state, word
    if start is None and state == "running":
        job.left_out = PENDING
    elif start is None and (state == "completed" or item.kind == JOB_SET):
        job.fault = job.fault or ("missing", "start", "no time at which it started", A_START)
    elif start is None:
        job.state = "not_started"
    else:
        job.attempts = [Attempt(start, end, job.gpus, job.workers, state, word)]
        if end is None and state != "running":
            job.fault = job.fault or ("missing", "end", "no time at which it ended", "its end")


def _times(
    item: KubeObject, status: _ControllerStatus
) -> tuple[float | None, float | None, str, str]:
    """Return start, end, state and its word."""
    conditions = status.conditions
    start = seconds(status.started)
    if item.kind in TRAINING:
        start = true_at(conditions, "Running") or start
    end = seconds(status.completed) or seconds(status.ended)
    for kind, state in (("Failed", "failed"), ("Complete", "completed"), ("Completed", "completed"),
                        ("Succeeded", "completed")):  # fmt: skip
        ended = holds(conditions, kind)
        if ended is not None:
            is_late = state == "failed" and ended.reason == DEADLINE
            word = "/".join(filter(None, (kind, ended.reason)))
            return start, end or seconds(ended.at), "timeout" if is_late else state, word
    if item.kind == "RayJob" and end is not None:
        word = status.job_status or ""
        states = {"SUCCEEDED": "completed", "FAILED": "failed", "STOPPED": "cancelled"}
        return start, end, states.get(word, "unknown"), word
    return (start, end, "completed", "") if end is not None else (start, None, "running", "Running")


def _volcano_times(status: _ControllerStatus) -> tuple[float | None, float | None, str, str]:
    """Return start, end, state and its word: Volcano keeps the latest time of each phase."""
    phases = {item.status: seconds(item.at) for item in status.conditions or ()}
    now = status.state or _VolcanoState()
    start = phases.get("Running")
    if now.phase in VOLCANO_ENDS:
        return start, seconds(now.at) or phases.get(now.phase), VOLCANO_ENDS[now.phase], now.phase
    return start, None, "running", now.phase or "Pending"
