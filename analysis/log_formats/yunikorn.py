"""YuniKorn's completed applications: ``GET /ws/v1/partition/default/applications/completed``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import msgspec
from msgspec import Raw, Struct
from msgspec import field as member

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.kubernetes.gpus import in_gpus, is_gpu
from gpuplan.analysis.kubernetes.job import Attempt, KubeJob
from gpuplan.analysis.kubernetes.jobs import history_note, numbered, rows_of_sources
from gpuplan.analysis.kubernetes.objects import UNREADABLE, read_text
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat
from gpuplan.analysis.log_formats.kubernetes_jobs import job_plan, kept_columns
from gpuplan.analysis.price_formats.instances import instance_models
from gpuplan.analysis.reading.batch import Refused, Rows
from gpuplan.analysis.reading.source import Head, SourceStream

COMMAND = "curl -s $YUNIKORN/ws/v1/partition/default/applications/completed > yunikorn.json"
HISTORY = "YuniKorn keeps completed applications for 3 days"
NS, MS = 1e9, 1e3
MOST_GPU_SECONDS = 10**18
NEAR = 0.1
"""How far a mean number of GPUs may be from a whole one that is meant."""
STARTS = ("Running", "Starting")
STATES = {
    "Completed": "completed",
    "Completing": "completed",
    "Expired": "completed",
    "Failed": "failed",
    "Failing": "failed",
    "Rejected": "cancelled",
}


class _Change(Struct):
    time: int | None = None
    state: str = member(name="applicationState", default="")


class _Application(Struct):
    id: str = member(name="applicationID", default="")
    queue: str | None = member(name="queueName", default=None)
    user: str | None = None
    submitted_ns: int | None = member(name="submissionTime", default=None)
    finished_ns: int | None = member(name="finishedTime", default=None)
    started_ms: int | None = member(name="startTime", default=None)
    state: str = member(name="applicationState", default="")
    changes: list[_Change] | None = member(name="stateLog", default=None)
    usage: dict[str, dict[str, int | float]] | None = member(name="resourceUsage", default=None)
    preempted: dict[str, dict[str, int | float]] | None = member(
        name="preemptedResource", default=None
    )


_AS_LIST, _AS_APPLICATION = msgspec.json.Decoder(list[Raw]), msgspec.json.Decoder(_Application)


def _open_all(streams: Sequence[SourceStream], choices: IngestOptions) -> list[Rows]:
    jobs: list[KubeJob] = []
    refused: list[tuple[int, Refused]] = []
    seen: set[tuple[str, int | None]] = set()
    for source, stream in enumerate(streams):
        try:
            parts = _AS_LIST.decode(read_text(stream, "applications", COMMAND))
        except UNREADABLE as error:
            raise InputError(
                stream.path, f"is no array of applications ({error})", expected="applications",
                hint=COMMAND,
            ) from error  # fmt: skip
        for number, raw in enumerate(parts, 1):
            try:
                application = _AS_APPLICATION.decode(raw)
                key = (application.id, application.submitted_ns)
                if not application.id or key not in seen:  # the answers of two days overlap
                    jobs.append(_job(application, number, source, choices))
                seen.add(key)
            except UNREADABLE as error:
                row = Refused(number, "unreadable", None, str(error), "an application", "")
                refused.append((source, row))
    if not jobs and not refused:
        raise InputError(streams[0].path, "has no applications", hint=COMMAND)
    return rows_of_sources(numbered(jobs), refused, len(streams), [history_note(jobs, HISTORY)])


def _job(app: _Application, number: int, source: int, choices: IngestOptions) -> KubeJob:
    changes = app.changes or ()
    submitted = app.submitted_ns / NS if app.submitted_ns else None
    word = app.state or (changes[-1].state if changes else "")
    job = KubeJob(
        number,
        source,
        app.id,
        (app.queue or "").rpartition(".")[2],
        submitted,
        user=app.user,
        queue=app.queue,
        source_state=word,
        state=STATES.get(word, "running" if word in STARTS else "unknown"),
    )
    starts = {change.state: change.time for change in reversed(changes) if change.time}
    start_ns = next((starts[state] for state in STARTS if state in starts), None)
    start = start_ns / NS if start_ns else (app.started_ms or 0) / MS or None
    end = app.finished_ns / NS if app.finished_ns else None
    gpu_seconds, job.gpu_type = _gpu_seconds(app, choices.kubernetes.gpu_resources)
    if start is None:
        job.left_out = "pending" if end is None else "never_provisioned"
        return job
    if not gpu_seconds and not choices.kubernetes.include_cpu:
        job.left_out = "without_gpus"
        return job
    if not app.id:
        job.fault = ("missing", "applicationID", "an application without an id", "its id")
    elif end is None and job.state != "running":
        job.fault = ("missing", "finishedTime", "an application without an end", "its end")
    elif end is not None and end <= start and gpu_seconds:
        job.fault = ("end_before_start", "finishedTime", "an end that is no later", "a later end")
    elif end is not None:
        mean = gpu_seconds / Fraction(end - start) if gpu_seconds else Fraction(0)
        whole_gpus = Fraction(round(mean))
        job.gpus = (
            whole_gpus if whole_gpus and abs(mean - whole_gpus) <= NEAR * whole_gpus else mean
        )
        job.notes |= {"mean_gpus"}
    job.attempts = [Attempt(start, end, job.gpus, 1, job.state, word)]
    if any(amount for used in (app.preempted or {}).values() for amount in used.values()):
        job.notes |= {"preempted_resource"}
    return job


def _gpu_seconds(app: _Application, more: Sequence[str]) -> tuple[Fraction, str | None]:
    """Return the GPU-seconds of an application, and the GPU type that has most of them."""
    by_type: dict[str | None, Fraction] = {}
    for instance, used in (app.usage or {}).items():
        for resource, amount in used.items():
            if is_gpu(resource, more) and amount > 0:
                if amount > MOST_GPU_SECONDS:
                    raise ValueError(f"{resource}: more GPU-seconds than there are")
                of_one = in_gpus({resource: 1}, {}).gpus
                model = instance_models().get(instance.lower())
                kind = None if model is None else gpu_name(model)
                by_type[kind] = by_type.get(kind, Fraction(0)) + of_one * Fraction(amount)
    kind = max(by_type, key=lambda name: (by_type[name], name or ""), default=None)
    return sum(by_type.values(), Fraction(0)), kind


def _open(stream: SourceStream) -> Rows:
    return _open_all([stream], IngestOptions())[0]


def _recognizes(head: Head) -> str | None:
    if head.mentions("applicationID", "queueName") and head.data.lstrip().startswith(b"["):
        return "an array of applications with applicationID and queueName"
    return None


YUNIKORN = LogFormat(
    name="yunikorn",
    description="completed applications of YuniKorn, by its REST API",
    source=f"your cluster: {COMMAND}",
    recognizes=_recognizes,
    plan=job_plan,
    open=_open,
    open_all=_open_all,
    kubernetes=("gpu_resources", "include_cpu"),
    kept=kept_columns,
)
