"""What a cluster still has: pods and controllers, as kubectl prints them in JSON.

``kubectl get pods,jobs,nodes -A -o json``, also with JobSets, training jobs, RayJobs and Volcano's
Jobs. Objects vanish hours to days after a job, so such a log is a quick start and no history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.kubernetes.collection import ObjectsByKind, collected, drained
from gpuplan.analysis.kubernetes.controllers import (
    KINDS,
    PlainJob,
    controller_job,
    plain_job,
)
from gpuplan.analysis.kubernetes.gangs import group_of, jobs_of_pods
from gpuplan.analysis.kubernetes.heads import kinds_in
from gpuplan.analysis.kubernetes.job import KubeJob
from gpuplan.analysis.kubernetes.jobs import history_note, numbered, rows_of_sources
from gpuplan.analysis.kubernetes.objects import UNREADABLE, read_objects
from gpuplan.analysis.kubernetes.pod_objects import (
    AS_POD,
    gpus_of_claim,
    group_spec,
    heartbeat_of,
    labels_of,
)
from gpuplan.analysis.kubernetes.pods import PodRun, Surroundings, pod_run
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat
from gpuplan.analysis.log_formats.kubernetes_jobs import (
    job_plan,
    kept_columns,
    surroundings,
    user_note,
)
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.source import Head, SourceStream

COMMAND = "kubectl get pods,jobs,nodes -A -o json > kube.json"
HISTORY = "pods and Jobs vanish hours to days after they end, so this is no full history"
POD, NODE, CLAIM, POD_GROUP = "Pod", "Node", "ResourceClaim", "PodGroup"
EMPTY = re.compile(rb'"items"\s*:\s*\[\s*\]')
LIST = re.compile(rb'"kind"\s*:\s*"[A-Za-z]*List"')
OF_KUEUE = "kueue.x-k8s.io"


def _open_all(streams: Sequence[SourceStream], choices: IngestOptions) -> list[Rows]:
    objects = collected(read_objects(stream, i) for i, stream in enumerate(streams))
    around = _surroundings(objects, choices)
    pods = list(_pods(objects, around))
    plain = list(_plain_jobs(objects))
    gangs = _chosen_gangs(choices, plain, pods)
    without_pods = list(_controllers(objects, pods, plain, around))
    reported = _last_heartbeat(objects)
    objects.forget()
    named = numbered([*jobs_of_pods(drained(pods), gangs), *without_pods])
    notes = [history_note(named, HISTORY), *objects.other_kinds_note((POD, *KINDS))]
    notes += user_note(named, choices)
    if "Workload" in objects.counts:
        notes.append("the Workloads of Kueue were not read: --source-format kueue reads them")
    if not named and not objects.refused:
        kinds = ", ".join(sorted(objects.counts)) or "nothing"
        raise InputError(streams[0].path, f"has no pods and no jobs; found {kinds}", hint=COMMAND)
    return rows_of_sources(named, objects.refused, len(streams), notes, reported)


def _last_heartbeat(objects: ObjectsByKind) -> float | None:
    """Return when a node last reported, which pods that run were there to see; None for none."""
    beats = (heartbeat_of(item) for item in objects.of(NODE))
    return max((at for at in beats if at is not None), default=None)


def _chosen_gangs(
    choices: IngestOptions, plain: Sequence[PlainJob], pods: Sequence[PodRun]
) -> set[str]:
    """Return which plain Jobs are gangs, as the user or the Jobs say."""
    gang = choices.kubernetes.gang
    if gang == "pod":
        return set()
    if gang == "job":
        return {pod.owner.uid or f"{pod.namespace}/{pod.owner.name}" for pod in pods}
    return {job.key for job in plain if job.is_gang}


def _surroundings(objects: ObjectsByKind, choices: IngestOptions) -> Surroundings:
    nodes = objects.read(objects.of(NODE), labels_of)
    claims = objects.read(objects.of(CLAIM), gpus_of_claim)
    groups = objects.read(objects.of(POD_GROUP), group_spec)
    return replace(
        surroundings(choices),
        nodes={item.name: labels for item, labels in nodes},
        claims={(item.namespace, item.name): gpus for item, gpus in claims},
        groups={(item.namespace, item.name): spec for item, spec in groups if spec is not None},
    )


def _pods(objects: ObjectsByKind, around: Surroundings) -> Iterable[PodRun]:
    for item, pod in objects.read(objects.drained(POD), lambda item: item.read(AS_POD)):
        yield pod_run(pod, item, around)


def _plain_jobs(objects: ObjectsByKind) -> Iterable[PlainJob]:
    batch = (item for item in objects.of("Job") if item.api_group == "batch")
    return (job for _, job in objects.read(batch, plain_job))


def _controllers(
    objects: ObjectsByKind,
    pods: Sequence[PodRun],
    plain: Sequence[PlainJob],
    around: Surroundings,
) -> Iterable[KubeJob]:
    """Yield the jobs of controllers none of whose pods are in the input."""
    if not any(objects.of(kind) for kind in KINDS):
        return
    with_pods = {(pod.namespace, pod.owner.name) for pod in pods}
    with_pods |= {(pod.namespace, group[1]) for pod in pods if (group := group_of(pod))}
    starts: dict[tuple[str, str], float] = {}
    for child in plain:
        for maker in child.makers:
            if child.start is not None:
                key = (child.namespace, maker)
                starts[key] = min(starts.get(key, child.start), child.start)
    owned: set[str] = set()
    for kind in KINDS:
        for item in objects.of(kind):
            try:
                since = starts.get((item.namespace, item.uid or item.name))
                made = controller_job(item, around, since)
            except UNREADABLE as error:
                if kind != "Job":  # that was told above
                    objects.refuse(item, error)
                continue
            if made is None:
                continue
            if item.uid:
                owned.add(item.uid)
            has_pods = any((item.namespace, name) in with_pods for name in made.pods_as)
            if not has_pods and not owned & made.makers:
                yield made.job


def _open(stream: SourceStream) -> Rows:
    return _open_all([stream], IngestOptions())[0]


def _recognizes(head: Head) -> str | None:
    kinds = kinds_in(head)
    if not kinds and head.is_json and EMPTY.search(head.data) and LIST.search(head.data):
        return "a List of Kubernetes without objects"
    if not kinds or any(version.startswith(OF_KUEUE) for version, _ in kinds[:1]):
        return None
    version, kind = kinds[0]
    return f"an object of Kubernetes: {kind}, {version or 'no version'}"


KUBE = LogFormat(
    name="kube",
    description="pods and jobs that Kubernetes still has: kubectl get -o json",
    source=f"your cluster: {COMMAND}",
    recognizes=_recognizes,
    plan=job_plan,
    open=_open,
    open_all=_open_all,
    kubernetes=("gpu_resources", "user_label", "include_cpu", "gang"),
    kept=kept_columns,
)
