"""Pods from the series of kube-state-metrics: whatever the scheduler, as long as Prometheus keeps.

The values of ``kube_pod_created``, ``_status_scheduled_time`` and ``_completion_time`` are times
themselves, exact whatever the step; other times are known to a step.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.analysis.kubernetes.gangs import PLAIN_JOB
from gpuplan.analysis.kubernetes.gpus import (
    INSTANCE_LABEL,
    MIG_PREFIX,
    NODE_REPLICAS,
    PRODUCT_LABELS,
    RESERVATIONS,
    SHARED,
    WHOLE,
    clean_type,
    gpu_fault,
    in_gpus,
    type_of_labels,
)
from gpuplan.analysis.kubernetes.pod_objects import Owner
from gpuplan.analysis.kubernetes.pods import (
    GROUP_ANNOTATIONS,
    INDEXES,
    JOB_NAME,
    KINDS_OF_REPLICAS,
    LABELS,
    LEADER,
    LEADER_GROUP,
    QUEUE_LABELS,
    RAY,
    PodRun,
    Surroundings,
    end_state,
)
from gpuplan.analysis.kubernetes.series import LabelledSeries
from gpuplan.analysis.reading.batch import PENDING

CREATED, SCHEDULED = "kube_pod_created", "kube_pod_status_scheduled_time"
COMPLETED, PHASE = "kube_pod_completion_time", "kube_pod_status_phase"
OWNER, REQUESTS = "kube_pod_owner", "kube_pod_container_resource_requests"
SCHEDULER_REQUESTS = "kube_pod_resource_request"
POD_LABELS, NODE_LABELS = "kube_pod_labels", "kube_node_labels"
DISRUPTION, REASON = "kube_pod_status_disruption_reason", "kube_pod_status_reason"
OF_PODS = frozenset({
    CREATED, SCHEDULED, COMPLETED, PHASE, OWNER, REQUESTS, SCHEDULER_REQUESTS, POD_LABELS,
    DISRUPTION, REASON,
})  # fmt: skip
METRICS = OF_PODS | {NODE_LABELS}
ENDED = ("Succeeded", "Failed")
NOT_A_LETTER = re.compile(r"[^a-zA-Z0-9]")
MIG = re.compile(r"nvidia_com_mig_(?:\d+c_)?([1-7])g_(\d+)gb(?:_[a-z_]+)?")
AT_ONCE_S = 60.0
"""Pods of a plain Job that were created within this time of the first may be a gang."""
STEPS_AFTER_END = 2.0
NEARLY_A_STEP = 0.9
"""A pod is there at the end within this part of a step: scrapes jitter, exporters differ."""


def written(name: str) -> str:
    """Return a label or a resource as metrics write it: ``nvidia_com_gpu``."""
    return NOT_A_LETTER.sub("_", name)


KNOWN_LABELS = {
    f"label_{written(name)}": name
    for name in (*LABELS, *GROUP_ANNOTATIONS, *INDEXES, *KINDS_OF_REPLICAS, *QUEUE_LABELS,
                 *PRODUCT_LABELS, RAY, LEADER, LEADER_GROUP, JOB_NAME, INSTANCE_LABEL,
                 NODE_REPLICAS)
}  # fmt: skip
RESOURCES = {written(name): name for name in (*WHOLE, SHARED)}

Key = tuple[str, str, str]
"""Namespace, name and uid of a pod; the uid is that of the metric, or the creation as text."""


@dataclass(slots=True)
class _Pod:
    """What the series say of one pod."""

    number: int
    source: int
    times: dict[str, float] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    reasons: set[str] = field(default_factory=set)
    owner: Owner = field(default_factory=Owner)
    labels: dict[str, str] = field(default_factory=dict)
    requests: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    stand_ins: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    odd_requests: set[tuple[str, str]] = field(default_factory=set)
    node: tuple[float, str] | None = None
    node_since: float | None = None
    first: float = float("inf")
    last: float = float("-inf")
    priority: int = 0

    def take(self, series: LabelledSeries, user_label: str | None) -> None:
        """Take one of its series, which has a sample, or requests that are no number."""
        samples, labels = series.samples, series.labels
        if not samples:
            self.odd_requests.add(series.requested)
            return
        first, (last, value) = samples[0][0], samples[-1]
        if series.name in (CREATED, SCHEDULED, COMPLETED):
            if value > 0:
                self.times[series.name] = max(self.times.get(series.name, 0.0), value)
        elif series.name == PHASE:
            held = [time for time, is_in in samples if is_in == 1]
            if held:
                phase = labels.get("phase", "")
                self.phases[phase] = min(self.phases.get(phase, held[0]), held[0])
            if not held:
                return  # a phase that it is not in says nothing of the pod
            first, last = held[0], held[-1]
        elif series.name in (DISRUPTION, REASON):
            if any(is_so == 1 for _, is_so in samples):
                self.reasons.add(labels.get("reason", ""))
        elif series.name == OWNER:
            if labels.get("owner_is_controller") == "true":
                self.owner = Owner(labels.get("owner_kind", ""), labels.get("owner_name", ""), "")
        elif series.name == POD_LABELS:
            self.labels.update(_object_labels(labels))
            if user_label and (user := labels.get(f"label_{written(user_label)}")):
                self.labels[user_label] = user
        else:
            self._take_request(series, last, value)
        self.first, self.last = min(self.first, first), max(self.last, last)

    def _take_request(self, series: LabelledSeries, last: float, value: float) -> None:
        labels = series.labels
        requests = self.requests if series.name == REQUESTS else self.stand_ins
        key = series.requested
        if key not in requests or (last, value) > requests[key]:
            requests[key] = (last, value)
        node = labels.get("exported_node") or labels.get("node") or ""
        if node:
            first = series.samples[0][0]
            self.node_since = first if self.node_since is None else min(self.node_since, first)
            if self.node is None or last > self.node[0]:
                self.node = (last, node)
        priority = labels.get("priority", "")
        if re.fullmatch(r"-?\d{1,10}", priority):
            self.priority = int(priority)


@dataclass(slots=True)
class PodSeries:
    """The series of all files, by pod.

    Attributes:
        around: the user's options, and instance types.
        node_types: node -> GPU type, as the user says.
        pods: what is known of each.
        nodes: node -> its labels.
        last: metric -> time of its last sample in any file.
        steps_s: position of a file -> seconds between its samples.
        unread_metrics: metric that is not read -> how many series.
        without_uid: position of the file and series of pods that have no uid there.
        nameless: series of pods that do not say of which.
    """

    around: Surroundings
    node_types: Mapping[str, str] = field(default_factory=dict)
    pods: dict[Key, _Pod] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)
    steps_s: dict[int, float] = field(default_factory=dict)
    unread_metrics: dict[str, int] = field(default_factory=dict)
    without_uid: list[tuple[int, LabelledSeries]] = field(default_factory=list)
    nameless: int = 0

    def add(self, source: int, series: LabelledSeries) -> None:
        """Take a series of the file at a position."""
        name, labels = series.name, series.labels
        if name == NODE_LABELS:
            if node := labels.get("exported_node") or labels.get("node"):
                self.nodes.setdefault(node, {}).update(_object_labels(labels))
            return
        if name not in OF_PODS:
            self.unread_metrics[name] = self.unread_metrics.get(name, 0) + 1
            return
        if not series.samples and not (name == REQUESTS and series.odd):
            return
        if not _names(labels)[1]:
            self.nameless += 1
            return
        if series.samples:
            self.last[name] = max(self.last.get(name, 0.0), series.samples[-1][0])
        if not labels.get("uid"):
            self.without_uid.append((source, series))
            return
        key = (*_names(labels), labels["uid"])
        self._of(key, source, series.number).take(series, self.around.user_label)

    def _of(self, key: Key, source: int, number: int) -> _Pod:
        pod = self.pods.get(key)
        if pod is None:
            pod = self.pods[key] = _Pod(number, source)
        return pod

    def finish(self) -> None:
        """Give the series without a uid to the pods of that name that lived at their times.

        A pod whose own series have no uid is told from others of its name by its creation.
        """
        by_name: dict[tuple[str, str], list[Key]] = defaultdict(list)
        for key in self.pods:
            by_name[key[:2]].append(key)
        creations = [pair for pair in self.without_uid if pair[1].name == CREATED]
        for source, series in creations:
            names = _names(series.labels)
            for value in dict.fromkeys(value for _, value in series.samples):
                same = [
                    key for key in by_name[names]
                    if self.pods[key].times.get(CREATED) == value
                ]  # fmt: skip
                key = same[0] if same else (*names, f"created {value!r}")
                part = LabelledSeries(
                    series.number, CREATED, series.labels,
                    [sample for sample in series.samples if sample[1] == value],
                )  # fmt: skip
                self._of(key, source, series.number).take(part, self.around.user_label)
                if not same:
                    by_name[names].append(key)
        for source, series in self.without_uid:
            if series.name == CREATED:
                continue
            names = _names(series.labels)
            keys = by_name[names]
            if not keys:
                keys.append((*names, ""))
            for key, part in self._shared_out(series, keys):
                self._of(key, source, series.number).take(part, self.around.user_label)

    def _shared_out(
        self, series: LabelledSeries, keys: Sequence[Key]
    ) -> Iterable[tuple[Key, LabelledSeries]]:
        """Yield the samples of a series with the pod of that name that was there then."""
        if len(keys) == 1:
            yield keys[0], series
            return
        since = sorted(
            (self.pods[key].times.get(CREATED, float("-inf")), key)
            for key in keys if key in self.pods
        )  # fmt: skip
        for (_, key), before in zip(
            since, [*(created for created, _ in since[1:]), float("inf")], strict=True
        ):
            start = self.pods[key].times.get(CREATED, float("-inf"))
            samples = [sample for sample in series.samples if start <= sample[0] < before]
            if samples:
                yield key, LabelledSeries(series.number, series.name, series.labels, samples)


def _names(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return namespace and name of a pod: those that are not the exporter's own."""
    if labels.get("exported_pod"):
        return labels.get("exported_namespace") or labels.get("namespace", ""), labels[
            "exported_pod"
        ]
    return labels.get("namespace", ""), labels.get("pod", "")


def _object_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that matter, under the names that objects have."""
    return {KNOWN_LABELS[name]: value for name, value in labels.items() if name in KNOWN_LABELS}


def pod_runs(series: PodSeries) -> list[PodRun]:
    """Return the pods of the series as intervals, once `PodSeries.finish` was called."""
    has_phases = PHASE in series.last
    return [_run(key, pod, series, has_phases) for key, pod in series.pods.items()]


def _run(key: Key, pod: _Pod, series: PodSeries, has_phases: bool) -> PodRun:
    namespace, name, _ = key
    around = series.around
    labels = dict(pod.labels)
    if pod.owner.kind == PLAIN_JOB:
        labels.setdefault(JOB_NAME, pod.owner.name)
    node = None if pod.node is None else pod.node[1]
    node_labels = series.nodes.get(node or "", {})
    queue = next((labels[label] for label in QUEUE_LABELS if labels.get(label)), None)
    run = PodRun(
        pod.number, pod.source, namespace, name, labels, labels, pod.owner,
        submit=pod.times.get(CREATED),
        node=node,
        queue=queue,
        user=labels.get(around.user_label or ""),
        priority=pod.priority,
    )  # fmt: skip
    if namespace == RESERVATIONS:
        run.left_out = "gpu_reservation"
        return run
    try:
        count = in_gpus(_amounts(pod, around.gpu_resources), node_labels)
        run.gpus, run.notes = count.gpus, count.notes
    except ValueError as error:
        run.fault = gpu_fault(error)
    if not run.gpus and run.fault is None and not around.include_cpu:
        has_requests = not {REQUESTS, SCHEDULER_REQUESTS}.isdisjoint(series.last)
        run.left_out = "without_gpus" if has_requests else "gpus_unknown"
        return run
    node_type = series.node_types.get(node or "")
    run.gpu_type = (clean_type(node_type) if node_type else None) or type_of_labels(
        node_labels, around.instances
    )
    if run.submit is None:
        run.fault = run.fault or ("missing", CREATED, "no creation time", f"a series {CREATED}")
        return run
    _set_times(run, pod, series, has_phases)
    return run


def _amounts(pod: _Pod, more: Iterable[str]) -> dict[str, float]:
    """Return GPU resource -> amount over all containers."""
    names = RESOURCES | {written(name): name for name in more}
    amounts: dict[str, float] = defaultdict(float)
    for _, resource in sorted(pod.odd_requests - pod.requests.keys()):
        if _is_gpu(resource, names):
            raise ValueError(f"requests of {resource} that are NaN or infinite")
    for (_, resource), (_, amount) in (pod.requests or pod.stand_ins).items():
        plain = written(resource)
        if plain in names:
            amounts[names[plain]] += amount
        elif (match := MIG.fullmatch(plain)) is not None:
            amounts[f"nvidia.com/mig-{match[1]}g.{match[2]}gb"] += amount
        elif _is_gpu(resource, names):
            raise ValueError(f"the MIG slice {resource}")
    return amounts


def _is_gpu(resource: str, names: Mapping[str, str]) -> bool:
    """Return whether a resource is GPUs or slices of them, also slices that no GPU has."""
    plain = written(resource)
    return plain in names or plain.startswith(written(MIG_PREFIX))


def _set_times(run: PodRun, pod: _Pod, series: PodSeries, has_phases: bool) -> None:
    step_s = series.steps_s.get(pod.source, 0.0)
    run.start = pod.times.get(SCHEDULED)
    if run.start is None and pod.node_since is not None:
        run.start = max(pod.node_since, run.submit or 0.0)
        run.notes |= {"start_by_sample"}
    completed = pod.times.get(COMPLETED)
    ended = max((phase for phase in ENDED if phase in pod.phases), key=pod.phases.__getitem__,
                default=None)  # fmt: skip
    answer_end = max(series.last.values(), default=0.0)
    is_at_end = pod.last >= answer_end - NEARLY_A_STEP * step_s
    reasons = sorted(pod.reasons)
    if ended is not None:
        run.state = end_state(ended, reasons)
        run.source_state = "/".join([ended, *reasons])
        run.end = completed
        if completed is None:
            run.end = max(pod.phases[ended] - step_s / 2, run.start or 0.0)
            run.notes |= {"end_by_phase"}
    elif (
        not has_phases
        and completed is not None
        and pod.last - completed <= STEPS_AFTER_END * step_s
    ):
        run.end, run.state, run.source_state = completed, "unknown", "completed"
    elif run.start is None:
        run.left_out = PENDING
    elif is_at_end:
        run.state, run.source_state = "running", "Running"
    else:
        run.end = max(pod.last - step_s / 2, run.start)
        run.state = "preempted" if "PreemptionByScheduler" in pod.reasons else "unknown"
        run.source_state = "/".join(["deleted", *reasons])
        run.notes |= {"end_by_last_sample"}
    if run.start is None and not run.left_out:
        run.end, run.state = None, "not_started"


def gang_owners(pods: Iterable[PodRun]) -> set[str]:
    """Return the plain Jobs whose pods were made together and ran together, ``namespace/name``."""
    by_owner: dict[str, list[PodRun]] = defaultdict(list)
    for pod in pods:
        if pod.owner.kind == PLAIN_JOB and not pod.left_out and pod.fault is None:
            by_owner[f"{pod.namespace}/{pod.owner.name}"].append(pod)
    return {name for name, same in by_owner.items() if len(same) > 1 and _is_gang(same)}


def _is_gang(pods: Sequence[PodRun]) -> bool:
    created = [pod.submit or 0.0 for pod in pods]
    if max(created) - min(created) > AT_ONCE_S:
        return False
    starts = [pod.start for pod in pods if pod.start is not None]
    ends = [float("inf") if pod.end is None else pod.end for pod in pods]
    return len(starts) == len(pods) and max(starts) < min(ends)
