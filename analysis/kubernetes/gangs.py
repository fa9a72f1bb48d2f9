"""Jobs from pods: which pods are one gang, and which of them are its attempts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from gpuplan.analysis.kubernetes.job import Attempt, KubeJob
from gpuplan.analysis.kubernetes.pods import (
    GROUP_ANNOTATIONS,
    INDEXES,
    JOB_INDEX,
    JOB_NAME,
    KINDS_OF_REPLICAS,
    LABELS,
    LEADER,
    LEADER_GROUP,
    RAY,
    PodRun,
    distinct,
    is_service,
    preemptible_of,
)
from gpuplan.analysis.kubernetes.quantities import Amount

PLAIN_JOB = "Job"
GANG_OWNERS = frozenset(
    {"PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JobSet", "RayCluster"}
)
"""Kinds of controllers all of whose pods are one gang, where no label says it."""
RANDOM_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""What controllers add to the name of a pod; these letters never make words."""

Key = tuple[str, str, str, str]
"""Namespace, sort, name and uid of a gang."""


def group_of(pod: PodRun) -> tuple[str, str] | None:
    """Return the label that makes a pod one of a gang, and the gang's name; None for no gang."""
    if pod.labels or pod.annotations:
        for label in LABELS:
            if pod.labels.get(label):
                return label, pod.labels[label]
        for annotation in GROUP_ANNOTATIONS:
            if pod.annotations.get(annotation):
                return "annotation", pod.annotations[annotation]
        if pod.labels.get(RAY):
            return RAY, pod.labels[RAY]
        if pod.labels.get(LEADER) and pod.labels.get(LEADER_GROUP):
            return LEADER, f"{pod.labels[LEADER]}-{pod.labels[LEADER_GROUP]}"
    if pod.owner.kind in GANG_OWNERS and pod.owner.name:
        return pod.owner.kind, pod.owner.name
    if pod.owner.kind == PLAIN_JOB and pod.labels.get(JOB_NAME):
        return JOB_NAME, pod.labels[JOB_NAME]
    return None


def jobs_of_pods(pods: Iterable[PodRun], gang_jobs: Collection[str] = ()) -> list[KubeJob]:
    """Return the jobs of pods: gangs, and the pods that are jobs of their own.

    Args:
        pods: of all sources together.
        gang_jobs: uids, and ``namespace/name`` of plain Jobs all of whose pods run at once.
    """
    jobs: list[KubeJob] = []
    gangs: dict[tuple[str, str, str], list[PodRun]] = defaultdict(list)
    for pod in pods:
        group = None if pod.left_out else group_of(pod)
        if group is not None and group[0] == JOB_NAME and not _runs_at_once(pod, gang_jobs):
            group = None
        if group is None:
            jobs.append(_alone(pod))
        else:
            gangs[pod.namespace, *group].append(pod)
    for (_, _, name), members in gangs.items():
        jobs += [_gang(name, same) for same in _by_owner(name, members)]
    return jobs


def _runs_at_once(pod: PodRun, gang_jobs: Collection[str]) -> bool:
    return pod.owner.uid in gang_jobs or f"{pod.namespace}/{pod.owner.name}" in gang_jobs


def _by_owner(name: str, pods: Sequence[PodRun]) -> list[list[PodRun]]:
    """Return the pods of each object that had this name, in order of creation.

    A pod whose owner is not the object itself belongs to the one that was there when it was made.
    """
    by_uid: dict[str, list[PodRun]] = defaultdict(list)
    loose: list[PodRun] = []
    for pod in pods:
        is_named = pod.owner.name == name and bool(pod.owner.uid)
        (by_uid[pod.owner.uid] if is_named else loose).append(pod)
    if not by_uid:
        return [loose]
    owners = sorted(by_uid.values(), key=_submitted)
    for pod in loose:
        since = [same for same in owners if _submitted(same) <= (pod.submit or 0.0)]
        (since or owners[:1])[-1].append(pod)
    return owners


def _submitted(pods: Iterable[PodRun]) -> float:
    return min((pod.submit for pod in pods if pod.submit is not None), default=0.0)


def _alone(pod: PodRun) -> KubeJob:
    """Return the job of a pod of no gang."""
    return KubeJob(
        pod.number,
        pod.source,
        f"{pod.namespace}/{pod.name}",
        pod.namespace,
        pod.submit,
        [] if pod.start is None else [_attempt([pod])],
        gpus=pod.gpus,
        gpu_type=pod.gpu_type,
        state=pod.state,
        source_state=pod.source_state,
        job_class=_job_class([pod]),
        user=pod.user or None,
        priority=pod.priority,
        preemptible=pod.preemptible,
        queue=pod.queue or None,
        owner=pod.owner.name or pod.labels.get(JOB_NAME, ""),
        notes=pod.notes,
        left_out=pod.left_out,
        reason=pod.reason,
        fault=pod.fault,
    )


def _job_class(pods: Sequence[PodRun]) -> str | None:
    return "service" if any(is_service(pod.owner) for pod in pods) else None


def _gang(name: str, pods: Sequence[PodRun]) -> KubeJob:
    """Return the job of the pods of one gang."""
    if len(pods) == 1:
        job = _alone(pods[0])
        job.name = f"{job.group}/{name}"
        return job
    first = min(pods, key=lambda pod: (pod.submit or 0.0, pod.source, pod.number))
    started = [pod for pod in pods if pod.start is not None]
    generations = _generations(started)
    attempts = [_attempt(generation) for generation in generations]
    last = generations[-1] if generations else pods
    state, source_state = _ending(last)
    most_gpus = max((attempt.gpus for attempt in attempts), default=None)
    notes = frozenset().union(*(pod.notes for pod in pods))
    types = distinct(pod.gpu_type for pod in last)
    if len(types) > 1:
        notes |= {"mixed_types"}
    job = KubeJob(
        first.number,
        first.source,
        f"{first.namespace}/{name}",
        first.namespace,
        min((pod.submit for pod in pods if pod.submit is not None), default=None),
        attempts,
        attempt_count=_most_pods_per_replica(started),
        gpus=sum(pod.gpus for pod in pods) if most_gpus is None else most_gpus,
        workers=max((attempt.workers for attempt in attempts[-1:]), default=len(pods)),
        gpu_type=_most_held(last),
        state=state,
        source_state=source_state,
        job_class=_job_class(pods),
        user=next(iter(distinct(pod.user for pod in pods)), None),
        priority=max(pod.priority for pod in pods),
        preemptible=preemptible_of(pod.preemptible for pod in pods),
        queue=next(iter(distinct(pod.queue for pod in pods)), None),
        owner=first.owner.name,
        notes=notes,
        left_out=first.left_out,
        fault=next((pod.fault for pod in pods if pod.fault is not None), None),
        starts_over=len(attempts) > 1,
    )
    if job.attempt_count > 1 or len(attempts) > 1:
        job.notes |= {"attempts"}
    return job


def attempts_of(pods: Sequence[PodRun]) -> list[Attempt]:
    """Return the generations of pods that started, each as one interval, in their order."""
    return [_attempt(generation) for generation in _generations(pods)]


def _generations(pods: Sequence[PodRun]) -> list[list[PodRun]]:
    """Return pods that run at one time together; a generation starts when the others have ended."""
    generations: list[list[PodRun]] = []
    ends = float("-inf")
    for pod in sorted(pods, key=lambda pod: (pod.start or 0.0, pod.number)):
        start = pod.start or 0.0
        if not generations or start >= ends:
            generations.append([])
        generations[-1].append(pod)
        ends = max(ends, float("inf") if pod.end is None else pod.end)
    return generations


def _attempt(pods: Sequence[PodRun]) -> Attempt:
    """Return a generation of pods as one interval, with the most that it held at one time."""
    if len(pods) == 1:
        (pod,) = pods
        nodes = () if pod.node is None else (pod.node,)
        start = 0.0 if pod.start is None else pod.start
        return Attempt(start, pod.end, pod.gpus, 1, pod.state, pod.source_state, nodes)
    steps: list[tuple[float, int, Amount]] = []
    for pod in pods:
        steps.append((pod.start or 0.0, 1, pod.gpus))
        if pod.end is not None:
            steps.append((pod.end, -1, -pod.gpus))
    gpus: Amount = 0
    most_gpus: Amount = 0
    workers, most_workers = 0, 0
    for _, pods_more, gpus_more in sorted(steps, key=lambda step: (step[0], step[1])):
        gpus, workers = gpus + gpus_more, workers + pods_more
        most_gpus, most_workers = max(most_gpus, gpus), max(most_workers, workers)
    if not most_workers:  # its pods end when they start
        most_gpus, most_workers = sum(pod.gpus for pod in pods), len(pods)
    ends = [pod.end for pod in pods]
    state, source_state = _ending(pods)
    return Attempt(
        min(pod.start for pod in pods if pod.start is not None),
        None if None in ends else max(end for end in ends if end is not None),
        most_gpus,
        most_workers,
        state,
        source_state,
        tuple(distinct(pod.node for pod in pods)),
    )


WORST_FIRST = (
    "running",
    "node_fail",
    "preempted",
    "timeout",
    "failed",
    "cancelled",
    "unknown",
    "not_started",
)


def _ending(pods: Sequence[PodRun]) -> tuple[str, str]:
    """Return the state of pods that ran together, and its word: the worst one."""
    states = {pod.state: pod.source_state for pod in reversed(pods)}
    worst = merged_states(states)
    return worst, states.get(worst, "")


def merged_states(states: Collection[str]) -> str:
    """Return the state of a whole by those of its parts: the worst one."""
    return next((state for state in WORST_FIRST if state in states), "completed")


def _most_held(pods: Sequence[PodRun]) -> str | None:
    held: Counter[str] = Counter()
    for pod in pods:
        if pod.gpu_type is not None:
            held[pod.gpu_type] += max(1, round(pod.gpus * 1000))
    return max(held, key=lambda name: (held[name], name), default=None)


def replica_of(pod: PodRun) -> tuple[str, ...]:
    """Return what tells the replicas of a gang apart: an index, or the name without its suffix."""
    index = next((pod.labels[label] for label in INDEXES if pod.labels.get(label)), None)
    if index is None:
        return ("", RANDOM_SUFFIX.sub("", pod.name))
    kind = next((pod.labels[label] for label in KINDS_OF_REPLICAS if pod.labels.get(label)), "")
    return (kind, pod.labels.get(JOB_INDEX, ""), index)


def _most_pods_per_replica(pods: Sequence[PodRun]) -> int:
    """Return the most pods that one replica had; replicas that run at once may share a name."""
    by_replica: dict[tuple[str, ...], list[PodRun]] = defaultdict(list)
    for pod in pods:
        by_replica[replica_of(pod)].append(pod)
    return max((-(-len(same) // _attempt(same).workers) for same in by_replica.values()), default=1)
