"""Kueue's Workloads, as kubectl prints them in JSON: a snapshot, or a stream of watch events.

One Workload is one job. A snapshot has the last admission of a workload; a stream has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.kubernetes.collection import ObjectsByKind, collected
from gpuplan.analysis.kubernetes.heads import KUEUE as GROUP
from gpuplan.analysis.kubernetes.heads import WORKLOADS as COMMAND
from gpuplan.analysis.kubernetes.heads import kinds_in
from gpuplan.analysis.kubernetes.job import KubeJob
from gpuplan.analysis.kubernetes.jobs import history_note, numbered, rows_of_sources
from gpuplan.analysis.kubernetes.objects import read_objects
from gpuplan.analysis.kubernetes.times import StreamTimes
from gpuplan.analysis.kubernetes.workloads import QueueSite, workload_job
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat
from gpuplan.analysis.log_formats.kubernetes_jobs import (
    ADD_FLAVORS,
    job_plan,
    kept_columns,
    surroundings,
    user_note,
)
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.source import Head, SourceStream

WORKLOAD = "Workload"
HISTORY = "Workloads vanish with their jobs, so what ended earlier may be missing"


class _QueueSpec(Struct):
    cluster_queue: str | None = member(name="clusterQueue", default=None)
    node_labels: dict[str, str] | None = member(name="nodeLabels", default=None)


class _Configured(Struct):
    spec: _QueueSpec | None = None


_AS_CONFIGURED = msgspec.json.Decoder(_Configured)


def _open_all(streams: Sequence[SourceStream], choices: IngestOptions) -> list[Rows]:
    files = [read_objects(stream, i) for i, stream in enumerate(streams)]
    objects, times = collected(files), StreamTimes([file.objects for file in files])
    files.clear()
    site = _site(objects, choices, times)
    jobs = list(_workloads(objects, site))
    objects.forget()
    jobs = numbered(jobs)
    if not jobs and not objects.refused:
        kinds = ", ".join(sorted(objects.counts)) or "nothing"
        raise InputError(streams[0].path, f"has no Workloads of Kueue; found {kinds}", hint=COMMAND)
    notes = [history_note(jobs, HISTORY), *objects.other_kinds_note((WORKLOAD,))]
    notes += user_note(jobs, choices)
    return rows_of_sources(jobs, objects.refused, len(streams), notes)


def _site(objects: ObjectsByKind, choices: IngestOptions, times: StreamTimes) -> QueueSite:
    queues: dict[tuple[str, str], str] = {}
    flavors: dict[str, Mapping[str, str]] = {}
    items = (*objects.of("LocalQueue"), *objects.of("ResourceFlavor"))
    for item, configured in objects.read(items, lambda item: item.read(_AS_CONFIGURED)):
        spec = configured.spec or _QueueSpec()
        if spec.cluster_queue is not None:
            queues[item.namespace, item.name] = spec.cluster_queue
        if item.kind == "ResourceFlavor":
            flavors[item.name] = spec.node_labels or {}
    return QueueSite(queues, flavors, surroundings(choices), times)


def _workloads(objects: ObjectsByKind, site: QueueSite) -> Iterable[KubeJob]:
    items = (item for item in objects.drained(WORKLOAD) if item.api_group in (GROUP, ""))
    jobs = objects.read(items, lambda item: workload_job(objects.versions_of(item), site))
    return (job for _, job in jobs)


def _open(stream: SourceStream) -> Rows:
    return _open_all([stream], IngestOptions())[0]


def _recognizes(head: Head) -> str | None:
    kinds = kinds_in(head)
    if not kinds or not kinds[0][0].startswith(f"{GROUP}/"):
        return None
    version, kind = kinds[0]
    return f"an object of Kueue: {kind or 'no kind'}, {version}"


KUEUE = LogFormat(
    name="kueue",
    description="Workloads of Kueue, a snapshot or a watch stream (JSON)",
    source=f"your cluster: {COMMAND}",
    recognizes=_recognizes,
    plan=partial(job_plan, types=ADD_FLAVORS),
    open=_open,
    open_all=_open_all,
    kubernetes=("gpu_resources", "user_label", "include_cpu"),
    kept=kept_columns,
)
