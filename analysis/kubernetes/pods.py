"""Pods as intervals in which GPUs are held, from their objects."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import Struct

from gpuplan.analysis.kubernetes.gpus import (
    RESERVATIONS,
    PodSpec,
    UnknownGpusError,
    gpu_fault,
    gpus_of,
    type_of_labels,
)
from gpuplan.analysis.kubernetes.objects import DELETED, KubeObject
from gpuplan.analysis.kubernetes.pod_objects import (
    PREEMPTIBLE,
    GroupSpec,
    Owner,
    Pod,
    PodMeta,
    PodStatus,
)
from gpuplan.analysis.kubernetes.quantities import Amount
from gpuplan.analysis.kubernetes.times import (
    TRUE,
    condition,
    earliest,
    holds,
    latest,
    seconds,
    true_at,
)
from gpuplan.analysis.reading.batch import PENDING

NODE_FAILURES = frozenset({"NodeLost", "NodeShutdown", "DeletionByTaintManager", "DeletionByPodGC"})
PREEMPTIONS = frozenset({"PreemptionByScheduler", "Preempting"})
TIMEOUT = "DeadlineExceeded"
QUEUE_LABELS = ("kueue.x-k8s.io/queue-name", "kai.scheduler/queue")
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
NOTHING: Mapping[str, str] = {}
"""No labels, of any object."""
SERVICES = frozenset(
    {"ReplicaSet", "StatefulSet", "InferenceService", "LeaderWorkerSet", "RayCluster"}
)
ENDED = ("Succeeded", "Failed")

LABELS = (
    "kueue.x-k8s.io/pod-group-name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
)
"""Labels with the name of a gang, best first."""
GROUP_ANNOTATIONS = ("pod-group-name", "scheduling.k8s.io/group-name")
"""Annotations with the PodGroup of a pod: of KAI, of Volcano."""
RAY = "ray.io/cluster"
LEADER, LEADER_GROUP = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"
JOB_NAME = "batch.kubernetes.io/job-name"
INDEXES = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
)
KINDS_OF_REPLICAS = ("training.kubeflow.org/replica-type", "volcano.sh/task-spec",
                     "jobset.sigs.k8s.io/replicatedjob-name", "ray.io/group")  # fmt: skip
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
GANG_LABELS = frozenset(
    {*LABELS, *GROUP_ANNOTATIONS, RAY, LEADER, LEADER_GROUP, JOB_NAME, *INDEXES,
     *KINDS_OF_REPLICAS, JOB_INDEX}
)  # fmt: skip
"""All of them."""


class PodRun(Struct, gc=False):
    """A pod as an interval in which it holds GPUs.

    Attributes:
        number: its place in its file.
        source: position of the file.
        namespace, name: the pod.
        labels, annotations: those that its gang follows from.
        owner: its controller.
        submit, start, end: seconds after 1970; None where there is none.
        gpus: whole GPUs and shares of them.
        gpu_type: their model, if known.
        state: as the trace has it.
        source_state: phase and reason as the log has them.
        node: where it ran.
        queue: of the scheduler; None without one.
        user: if a label tells.
        priority: its number.
        preemptible: whether it may be preempted, where its group says so.
        notes: what to count of it.
        left_out: why it is no job; empty for one.
        reason: why it is not scheduled, where it waits.
        fault: reason, column, what was found and what was expected, where it is refused.
    """

    number: int
    source: int
    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: Owner
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    gpus: Amount = 0
    gpu_type: str | None = None
    state: str = "unknown"
    source_state: str = ""
    node: str | None = None
    queue: str | None = None
    user: str | None = None
    priority: int = 0
    preemptible: bool | None = None
    notes: frozenset[str] = frozenset()
    left_out: str = ""
    reason: str | None = None
    fault: tuple[str, str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the pods of an input are read with.

    Attributes:
        nodes: name -> labels of a node.
        claims: (namespace, name) -> GPUs of a claim.
        groups: (namespace, name) -> what a PodGroup says, of Volcano or KAI.
        instances: instance type -> GPU model.
        gpu_resources: more resources that are GPUs at this site.
        user_label: label or annotation that names the user; None for the namespace.
        include_cpu: whether pods without GPUs are jobs.
    """

    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], int] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], GroupSpec] = field(default_factory=dict)
    instances: Mapping[str, str] = field(default_factory=dict)
    gpu_resources: Collection[str] = ()
    user_label: str | None = None
    include_cpu: bool = False


def pod_run(pod: Pod, item: KubeObject, around: Surroundings) -> PodRun:
    """Return a pod as an interval, or why it is none.

    Args:
        pod: what is read of it.
        item: the object, whose event says whether the pod is gone.
        around: nodes, claims and the user's options.
    """
    meta, spec = pod.metadata, pod.spec
    status = pod.status or PodStatus()
    labels, annotations = meta.labels or NOTHING, meta.annotations or NOTHING
    node = around.nodes.get(spec.node_name or "", NOTHING)
    reasons = _reasons(status)
    groups = list(_groups_of(meta, around.groups))
    run = PodRun(
        item.number,
        item.source,
        sys.intern(meta.namespace),
        meta.name,
        _read_for_gangs(labels),
        _read_for_gangs(annotations),
        meta.owner,
        submit=seconds(meta.created),
        node=None if spec.node_name is None else sys.intern(spec.node_name),
        queue=_queue(labels, annotations, groups),
        user=user_of(labels, annotations, around.user_label),
        priority=spec.priority or 0,
        preemptible=preemptible_of(PREEMPTIBLE.get(group.preemptibility or "") for group in groups),
        source_state=_word(status.phase, reasons),
    )
    if meta.namespace == RESERVATIONS:
        run.left_out = "gpu_reservation"
        return run
    try:
        count = gpus_of(spec, annotations, node, around.gpu_resources)
        run.gpus = count.gpus + _claimed(spec, status, meta.namespace, around.claims)
    except ValueError as error:
        run.fault = gpu_fault(error)
    else:
        run.notes = count.notes
        if not run.gpus and not around.include_cpu:
            run.left_out = "without_gpus"
            return run
    if status.phase in ("", "Pending"):
        run.left_out = PENDING if status.phase or item.event != DELETED else "deleted"
        scheduled = condition(status.conditions, "PodScheduled")
        if scheduled is not None:
            run.reason = "Scheduled" if scheduled.status == TRUE else scheduled.reason
        return run
    run.gpu_type = type_of_labels(node, around.instances) or type_of_labels(
        spec.node_selector or NOTHING, around.instances
    )
    _set_times(run, meta, status, reasons, is_deleted=item.event == DELETED)
    return run


def _read_for_gangs(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return the labels or annotations that tell gangs and replicas; the others can be long."""
    return {name: value for name, value in labels.items() if name in GANG_LABELS} or NOTHING


def _queue(
    labels: Mapping[str, str], annotations: Mapping[str, str], groups: Iterable[GroupSpec]
) -> str | None:
    for label in QUEUE_LABELS:
        if queue := labels.get(label):
            return queue
    queue = annotations.get(QUEUE_ANNOTATION)
    return queue or next((group.queue for group in groups if group.queue), None)


def _groups_of(meta: PodMeta, groups: Mapping[tuple[str, str], GroupSpec]) -> Iterator[GroupSpec]:
    """Yield what the PodGroups of a pod say."""
    if groups and meta.annotations:
        for annotation in GROUP_ANNOTATIONS:
            name = meta.annotations.get(annotation)
            if name and (group := groups.get((meta.namespace, name))) is not None:
                yield group


def preemptible_of(answers: Iterable[bool | None]) -> bool | None:
    """Return the first answer to whether pods may be preempted; None where there is none."""
    return next((answer for answer in answers if answer is not None), None)


def user_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], key: str | None
) -> str | None:
    """Return the user that a label or an annotation names."""
    return None if key is None else labels.get(key) or annotations.get(key)


def _claimed(
    spec: PodSpec,
    status: PodStatus,
    namespace: str,
    claims: Mapping[tuple[str, str], int],
) -> int:
    """Return the GPUs of a pod's claims. Raises `UnknownGpusError` for one that is not there."""
    if not spec.claims:
        return 0
    made = {item.name: item.claim for item in status.claims or ()}
    gpus = 0
    for claim in spec.claims:
        name = made.get(claim.name) or claim.claim
        if name is None or (namespace, name) not in claims:
            raise UnknownGpusError(
                "missing",
                "GPUs by a claim that is not in the input: kubectl get pods,resourceclaims,nodes",
                "its ResourceClaim: kubectl get pods,resourceclaims,nodes -A -o json",
            )
        gpus += claims[namespace, name]
    return gpus


def _set_times(
    run: PodRun, meta: PodMeta, status: PodStatus, reasons: Sequence[str], *, is_deleted: bool
) -> None:
    conditions = status.conditions
    run.start = (
        true_at(conditions, "PodScheduled")
        or seconds(status.started)
        or earliest(_container_starts(status))
    )
    if status.phase in ENDED:
        run.end = (
            latest(s.terminated.finished for s in status.states if s.terminated is not None)
            or true_at(conditions, "DisruptionTarget")
            or true_at(conditions, "Ready", "False")
            or seconds(meta.deleted)
        )
        run.state = end_state(status.phase, reasons)
        if run.end is None:
            run.fault = run.fault or (
                "missing", "end", "no time at which its containers finished", "the end of the pod"
            )  # fmt: skip
    elif is_deleted:
        run.end = seconds(meta.deleted)
        run.state = "unknown"
        if run.end is None:
            run.fault = run.fault or (
                "missing", "end", "deleted without a time", "the end of the pod"
            )  # fmt: skip
    else:
        run.state = "running"
    if run.start is None and run.fault is None:
        if run.state in ("completed", "running"):
            run.fault = ("missing", "start", "no time at which it was scheduled", "its start")
        run.end, run.state = None, "not_started"


def _container_starts(status: PodStatus) -> Iterator[datetime | None]:
    for state in (*status.states, *status.last_states):
        if state.terminated is not None:
            yield state.terminated.started
        if state.running is not None:
            yield state.running.started


def _reasons(status: PodStatus) -> Sequence[str]:
    target = holds(status.conditions, "DisruptionTarget")
    if target is None and status.reason is None:
        return ()
    return [word for word in (target and target.reason, status.reason) if word]


def _word(phase: str, reasons: Sequence[str]) -> str:
    """Return the phase and the reasons, as words."""
    words = "/".join(dict.fromkeys([phase, *reasons])) if reasons else phase
    return sys.intern(words.strip("/"))


def end_state(phase: str, reasons: Sequence[str]) -> str:
    """Return the state of a pod that ended."""
    if phase == "Succeeded":
        return "completed"
    if not reasons:
        return "failed"
    if PREEMPTIONS.intersection(reasons):
        return "preempted"
    if NODE_FAILURES.intersection(reasons):
        return "node_fail"
    return "timeout" if TIMEOUT in reasons else "failed"


def is_service(owner: Owner) -> bool:
    """Return whether a pod serves until it is told to stop."""
    return owner.kind in SERVICES


def distinct(values: Iterable[str | None]) -> list[str]:
    """Return the values that are there, each once."""
    return list(dict.fromkeys(value for value in values if value))
