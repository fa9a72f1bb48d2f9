"""Workloads of Kueue as jobs: admissions and evictions, from one snapshot or a watch stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gpuplan.analysis.kubernetes.gpus import (
    PodGpus,
    clean_type,
    gpu_fault,
    gpus_of,
    in_gpus,
    is_gpu,
    type_of_labels,
)
from gpuplan.analysis.kubernetes.job import Attempt, KubeJob
from gpuplan.analysis.kubernetes.objects import DELETED, KubeObject, in_order, newest
from gpuplan.analysis.kubernetes.pods import Surroundings, is_service, user_of
from gpuplan.analysis.kubernetes.quantities import Amount, pod_count
from gpuplan.analysis.kubernetes.times import (
    TRUE,
    StreamTimes,
    condition,
    holds,
    latest,
    seconds,
    true_at,
)
from gpuplan.analysis.kubernetes.workload_objects import (
    ADMITTED,
    EVICTED,
    FINISHED,
    FINISHED_STATES,
    PREEMPTED,
    PREVIOUSLY,
    RESERVED,
    SLICE,
    KueuePodSet,
    KueueWorkload,
    WorkloadAdmission,
    WorkloadSpec,
    WorkloadStatus,
)
from gpuplan.analysis.reading.batch import PENDING

EVICTED_STATES = {"NodeFailures": "node_fail", "PodsReadyTimeout": "failed",
                  "Deactivated": "cancelled"}  # fmt: skip
"""Reason of an eviction -> state of the attempt; any other one is a preemption: it is queued."""


AS_WORKLOAD = msgspec.json.Decoder(KueueWorkload)


@dataclass(frozen=True, slots=True)
class QueueSite:
    """What the configuration of Kueue in the input says of queues and flavors.

    Attributes:
        cluster_queues: (namespace, queue) -> cluster queue.
        flavors: name of a flavor -> labels of its nodes.
        around: the user's options, and instance types.
        times: of the events of the input, for what was deleted without a time.
    """

    cluster_queues: Mapping[tuple[str, str], str] = field(default_factory=dict)
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    around: Surroundings = field(default_factory=Surroundings)
    times: StreamTimes = field(default_factory=lambda: StreamTimes(()))


@dataclass(slots=True)
class _Times:
    """What all versions of a workload say of its times, in seconds after 1970."""

    starts: dict[float, WorkloadAdmission | None] = field(default_factory=dict)
    ends: set[float] = field(default_factory=set)
    evictions: dict[float, str] = field(default_factory=dict)
    reserved: float | None = None
    reason: str | None = None


def workload_job(kept: Sequence[KubeObject], site: QueueSite) -> KubeJob:
    """Return a workload as a job, of all its versions in the input, in order.

    Raises ValueError where it cannot be read.
    """
    last = newest(list(kept))
    ordered = in_order(kept)
    versions = [item.read(AS_WORKLOAD) for item in ordered]
    newest_version = versions[next(i for i, item in enumerate(ordered) if item is last)]
    meta, status = newest_version.metadata, newest_version.status or WorkloadStatus()
    labels = meta.labels or {}
    times = _times(versions)
    queue = newest_version.spec.queue
    job = KubeJob(
        last.number,
        last.source,
        f"{meta.namespace}/{meta.name}",
        meta.namespace,
        seconds(meta.created),
        job_class="service" if is_service(meta.owner) else None,
        user=user_of(labels, meta.annotations or {}, site.around.user_label),
        priority=newest_version.spec.priority or 0,
        queue=queue,
        cluster_queue=site.cluster_queues.get((meta.namespace, queue or "")),
        owner=meta.owner.name,
        reserved=times.reserved,
        reason=times.reason,
        told=latest(condition.at for condition in status.conditions or ()),
    )
    admissions = [item.status.admission for item in versions if item.status is not None]
    admission = next((a for a in reversed(admissions) if a is not None), None)
    if admission is not None and admission.cluster_queue:
        job.cluster_queue = admission.cluster_queue
    try:
        _set_gpus(job, newest_version.spec, admission, site)
    except ValueError as error:
        job.fault = gpu_fault(error)
    if not job.gpus and job.fault is None and not site.around.include_cpu:
        job.left_out = "without_gpus"
        return job
    deleted = seconds(meta.deleted) if last.event == DELETED else None
    is_finished = holds(status.conditions, FINISHED) is not None
    if last.event == DELETED and deleted is None and times.starts and not is_finished:
        deleted = site.times.until(last)
        job.notes |= {"end_by_last_event"}
    _set_times(job, newest_version, times, site, last.event == DELETED, deleted)
    if len(kept) == 1 and not job.left_out:
        _leave_out_held(job, status, newest_version)
    _set_attempts(job, status, times)
    return job


def _times(versions: Sequence[KueueWorkload]) -> _Times:
    times = _Times()
    for item in versions:
        status = item.status or WorkloadStatus()
        conditions = status.conditions
        admitted = condition(conditions, ADMITTED) or condition(conditions, RESERVED)
        if admitted is not None and (at := seconds(admitted.at)) is not None:
            if admitted.status == TRUE:
                times.starts[at] = status.admission or times.starts.get(at)
            else:
                times.ends.add(at)
        evicted = holds(conditions, EVICTED)
        if evicted is not None and (at := seconds(evicted.at)) is not None:
            times.evictions[at] = evicted.reason or ""
        reserved = condition(conditions, RESERVED)
        if reserved is not None and reserved.status == TRUE and times.reserved is None:
            times.reserved = seconds(reserved.at)
        elif reserved is not None and reserved.status != TRUE and times.reserved is None:
            times.reason = reserved.reason
    return times


@dataclass(slots=True)
class _HeldGpus:
    """GPUs by type and pods of an admission, and what is special about them."""

    by_type: dict[str | None, Amount] = field(default_factory=dict)
    workers: int = 0
    notes: frozenset[str] = frozenset()

    def add(self, gpu_type: str | None, count: PodGpus, pods: int = 1) -> None:
        """Add the GPUs of some pods of a type."""
        self.by_type[gpu_type] = self.by_type.get(gpu_type, 0) + pods * count.gpus
        self.notes |= count.notes

    @property
    def gpus(self) -> Amount:
        """Of all types."""
        return sum(self.by_type.values())


def _admitted(
    spec: WorkloadSpec, admission: WorkloadAdmission | None, site: QueueSite
) -> _HeldGpus:
    """Return what an admission holds. Raises ValueError where an amount cannot be read."""
    held = _HeldGpus()
    pod_sets = {pods.name: pods for pods in spec.pod_sets or ()}
    for part in (admission.assignments if admission is not None else None) or ():
        pod_set = pod_sets.get(part.name, KueuePodSet(count=0))
        selector = pod_set.template.spec.node_selector or {}
        held.workers += pod_count(pod_set.count if part.count is None else part.count)
        for name, amount in (part.usage or {}).items():
            if is_gpu(name, site.around.gpu_resources):
                flavor = (part.flavors or {}).get(name, "")
                labels = site.flavors.get(flavor, {})
                gpu_type = type_of_labels(selector, site.around.instances)
                gpu_type = gpu_type or type_of_labels(labels, site.around.instances)
                held.add(
                    gpu_type or clean_type(flavor), in_gpus({name: amount}, {**labels, **selector})
                )
    return held


def _requested(spec: WorkloadSpec, site: QueueSite) -> _HeldGpus:
    """Return what the pods of a workload ask for. Raises ValueError as `_admitted`."""
    held = _HeldGpus()
    for pods in spec.pod_sets or ():
        replicas, template = pod_count(pods.count), pods.template
        selector = template.spec.node_selector or {}
        annotations = template.metadata.annotations or {}
        count = gpus_of(template.spec, annotations, selector, site.around.gpu_resources)
        held.add(type_of_labels(selector, site.around.instances), count, replicas)
        held.workers += replicas
    return held


def _set_gpus(
    job: KubeJob, spec: WorkloadSpec, admission: WorkloadAdmission | None, site: QueueSite
) -> None:
    held = _admitted(spec, admission, site)
    job.notes |= held.notes
    if not held.gpus:
        held = _requested(spec, site)
        job.notes |= held.notes
    job.gpus, job.workers = held.gpus, max(held.workers, 1)
    of_type = {name: gpus for name, gpus in held.by_type.items() if gpus}
    job.gpu_type = max(of_type, key=lambda name: (of_type[name], name or ""), default=None)
    if len(of_type) > 1:
        job.notes |= {"mixed_types"}


def _set_times(
    job: KubeJob,
    latest: KueueWorkload,
    times: _Times,
    site: QueueSite,
    is_deleted: bool,
    deleted: float | None,
) -> None:
    """Set the attempts and the state of a job, or leave it out where it is none yet."""
    status = latest.status or WorkloadStatus()
    finished = holds(status.conditions, FINISHED)
    end = None if finished is None else seconds(finished.at)
    if finished is not None:
        reason = finished.reason or ""
        job.state, job.source_state = FINISHED_STATES.get(reason, "unknown"), reason
        if reason == SLICE:
            job.notes |= {"slice"}
        if end is None:
            job.fault = job.fault or (
                "missing", FINISHED, "a condition without a time", "when it finished"
            )  # fmt: skip
    elif is_deleted:
        job.state, job.source_state, end = "unknown", DELETED, deleted
    else:
        job.state, job.source_state = "running", ADMITTED
    if not times.starts:
        if finished is not None:
            job.state = "cancelled"
        else:
            job.left_out = "deleted" if is_deleted else _why_waiting(latest)
        return
    starts = sorted(times.starts)
    for i, start in enumerate(starts):
        following = starts[i + 1] if i + 1 < len(starts) else None
        held = _held(times.starts[start], job, latest.spec, site)
        attempt = _attempt(job, times, start, following, end, held)
        if attempt is not None:
            job.attempts.append(attempt)
        else:
            job.wait_includes_attempts = True
    last = job.attempts[-1] if job.attempts else None
    is_ended = last is not None and last.end is not None
    if finished is not None or not is_ended:
        if is_deleted and finished is None and not is_ended:
            job.fault = job.fault or (
                "missing", "end", "deleted without a time", "the end of the workload"
            )  # fmt: skip
        return
    if last is not None and not is_deleted:
        job.state, job.source_state = last.state, last.source_state


def _leave_out_held(job: KubeJob, status: WorkloadStatus, latest: KueueWorkload) -> None:
    """Leave a workload out that a snapshot shows evicted: it waits, or is stuck."""
    ended = job.attempts and job.attempts[-1].end is not None
    is_finished = holds(status.conditions, FINISHED) is not None
    if ended and not is_finished and job.source_state != DELETED:
        is_held = true_at(status.conditions, ADMITTED) or true_at(status.conditions, RESERVED)
        job.left_out = "stuck" if is_held else _why_waiting(latest)


def _attempt(
    job: KubeJob,
    times: _Times,
    start: float,
    following: float | None,
    end: float | None,
    held: tuple[Amount, int],
) -> Attempt | None:
    """Return the interval that starts at a time; None where its end is not in the input."""
    before = float("inf") if following is None else following
    evicted = min((at for at in times.evictions if start <= at <= before), default=None)
    stopped = min((at for at in times.ends if start < at <= before), default=None)
    gpus, workers = held
    if evicted is not None and (end is None or evicted < end or following is not None):
        reason = times.evictions[evicted]
        state = EVICTED_STATES.get(reason, "preempted")
        return Attempt(start, evicted, gpus, workers, state, reason)
    if following is not None or (end is None and stopped is not None):
        if stopped is None:
            return None
        return Attempt(start, stopped, gpus, workers, "preempted", "")
    return Attempt(start, end, gpus, workers, job.state, job.source_state)


def _held(
    admission: WorkloadAdmission | None, job: KubeJob, spec: WorkloadSpec, site: QueueSite
) -> tuple[Amount, int]:
    """Return GPUs and pods of an admission; those of the job where it does not say."""
    try:
        held = _admitted(spec, admission, site)
    except ValueError:
        return job.gpus, job.workers
    return (held.gpus or job.gpus), (held.workers or job.workers)


def _why_waiting(latest: KueueWorkload) -> str:
    return "inactive" if latest.spec.active is False else PENDING


def _set_attempts(job: KubeJob, status: WorkloadStatus, times: _Times) -> None:
    """Set how often it was admitted and preempted, and what its wait includes."""
    evictions = (status.stats.evictions if status.stats is not None else None) or ()
    counts = [max(0, item.count) for item in evictions]
    if status.stats is not None:
        stops = sum(counts)
    else:
        evicted = condition(status.conditions, EVICTED)
        stops = int(
            evicted is not None
            and (evicted.status == TRUE or (evicted.message or "").startswith(PREVIOUSLY))
        )
    stops = max(stops, len(job.attempts) - 1)
    job.attempt_count = 1 + stops
    job.preemptions = sum(
        count for item, count in zip(evictions, counts, strict=True) if item.reason == PREEMPTED
    )
    seen = sum(attempt.source_state == PREEMPTED for attempt in job.attempts)
    job.preemptions = max(job.preemptions, seen)
    waits_again = bool(job.attempts) and job.attempts[-1].end in (*times.evictions, *times.ends)
    lacks = job.attempt_count > len(job.attempts) + waits_again > 0 < len(job.attempts)
    past_s = status.past_s or status.past_misspelled_s or 0.0
    if lacks and past_s > 0 and len(job.attempts) == 1:
        job.past_s = past_s
        job.notes |= {"past_time"}
        lacks = False
    job.wait_includes_attempts = bool(job.wait_includes_attempts) or lacks
    if len(job.attempts) > 1:
        job.notes |= {"attempts"}
