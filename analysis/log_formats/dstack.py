"""dstack's runs: ``dstack ps -a --json``. One run is a job, its submissions are its attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction

import msgspec
import polars as pl
from msgspec import Raw, Struct
from msgspec import field as member

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.kubernetes.gangs import attempts_of
from gpuplan.analysis.kubernetes.job import KubeJob
from gpuplan.analysis.kubernetes.jobs import history_note, numbered, rows_of_sources
from gpuplan.analysis.kubernetes.objects import UNREADABLE, read_text
from gpuplan.analysis.kubernetes.pod_objects import NO_OWNER
from gpuplan.analysis.kubernetes.pods import PodRun
from gpuplan.analysis.kubernetes.times import seconds
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat
from gpuplan.analysis.log_formats.kubernetes_jobs import job_plan, kept_columns
from gpuplan.analysis.reading.batch import Refused, Rows
from gpuplan.analysis.reading.source import Head, SourceStream

COMMAND = "dstack ps -a --json > runs.json"
HISTORY = "dstack keeps its runs; starts are those of submissions, so run times have provisioning"
STATES = {
    "done": "completed",
    "failed": "failed",
    "terminated": "cancelled",
    "aborted": "cancelled",
}
REASONS = {
    "interrupted_by_no_capacity": "preempted",
    "instance_unreachable": "node_fail",
    "max_duration_exceeded": "timeout",
    "terminated_by_user": "cancelled",
    "aborted_by_user": "cancelled",
}
NOT_STARTED = frozenset({"pending", "submitted", "provisioning", "pulling"})


class _Gpu(Struct):
    name: str = ""
    memory_mib: float | None = None


class _Resources(Struct):
    gpus: list[_Gpu] | None = None
    spot: bool | None = None


class _Instance(Struct):
    name: str = ""
    resources: _Resources = member(default_factory=_Resources)


class _Provisioned(Struct):
    price: float | None = None
    instance_type: _Instance = member(default_factory=_Instance)


class _Submission(Struct):
    submission_num: int = 0
    submitted_at: datetime | None = None
    finished_at: datetime | None = None
    status: str = ""
    termination_reason: str | None = None
    job_provisioning_data: _Provisioned | None = None


class _Job(Struct):
    job_submissions: list[_Submission] | None = None


class _Configuration(Struct):
    type: str | None = None


class _RunSpec(Struct):
    run_name: str | None = None
    configuration: _Configuration = member(default_factory=_Configuration)


class _Run(Struct):
    id: str = ""
    project_name: str | None = None
    user: str | None = None
    submitted_at: datetime | None = None
    status: str = ""
    cost: float | None = None
    run_spec: _RunSpec = member(default_factory=_RunSpec)
    jobs: list[_Job] | None = None


class _Listing(Struct):
    project: str | None = None
    runs: list[Raw] | None = None


_AS_LISTING, _AS_RUN = msgspec.json.Decoder(_Listing), msgspec.json.Decoder(_Run)


def _open_all(streams: Sequence[SourceStream], choices: IngestOptions) -> list[Rows]:
    by_run: dict[str, KubeJob] = {}
    refused: list[tuple[int, Refused]] = []
    for source, stream in enumerate(streams):
        try:
            listing = _AS_LISTING.decode(read_text(stream, "runs", COMMAND))
        except UNREADABLE as error:
            raise InputError(
                stream.path, f"is no list of runs ({error})", expected="runs", hint=COMMAND
            ) from error
        for number, raw in enumerate(listing.runs or (), 1):
            try:
                run = _AS_RUN.decode(raw)
                job = _job(run, number, source, listing.project)
                by_run[run.id or f"{source} {number}"] = job  # of a run listed again the last one
            except UNREADABLE as error:
                row = Refused(number, "unreadable", None, str(error), "a run of dstack", "")
                refused.append((source, row))
    jobs = list(by_run.values())
    if not jobs and not refused:
        raise InputError(streams[0].path, "has no runs", hint=COMMAND)
    return rows_of_sources(numbered(jobs), refused, len(streams), [history_note(jobs, HISTORY)])


def _job(run: _Run, number: int, source: int, project: str | None) -> KubeJob:
    parts = [part.job_submissions or [] for part in run.jobs or ()]
    submitted = seconds(run.submitted_at)
    job = KubeJob(
        number,
        source,
        run.run_spec.run_name or run.id,
        run.project_name or project or "",
        submitted,
        job_class=run.run_spec.configuration.type,
        user=run.user,
        cost=run.cost,
        source_state=run.status,
        state=STATES.get(run.status, "unknown"),
    )
    held = [
        (item, item.job_provisioning_data)
        for part in parts for item in part if item.job_provisioning_data is not None
    ]  # fmt: skip
    if not held:
        job.left_out = "pending" if run.status in NOT_STARTED else "never_provisioned"
        return job
    intervals = [_interval(*submission, number, source) for submission in held]
    job.attempts = attempts_of(intervals)
    job.attempt_count = max(map(len, parts))
    last = job.attempts[-1]
    job.gpus, job.workers = last.gpus, last.workers
    provisioned = max(held, key=lambda submission: seconds(submission[0].submitted_at) or 0.0)[1]
    gpus = provisioned.instance_type.resources.gpus or ()
    job.gpu_type = next((_type(gpu) for gpu in gpus if gpu.name), None)
    job.price = provisioned.price
    if last.end is None:
        job.state = "running" if run.status not in STATES else job.state
        if job.state != "running":
            job.fault = ("missing", "finished_at", "a run that ended without a time", "its end")
    elif job.state in ("cancelled", "failed", "unknown") and last.state != "unknown":
        job.state = last.state
    if not job.gpus:
        job.left_out = "without_gpus"
    return job


def _interval(submission: _Submission, on: _Provisioned, number: int, source: int) -> PodRun:
    """Return when a submission held its instance; one per node, or per replica of a service."""
    start, end = seconds(submission.submitted_at), seconds(submission.finished_at)
    if start is None:
        raise ValueError("a submission without submitted_at")
    state = REASONS.get(
        submission.termination_reason or "", STATES.get(submission.status, "unknown")
    )
    return PodRun(
        number,
        source,
        "",
        "",
        {},
        {},
        NO_OWNER,
        start=start,
        end=end,
        gpus=Fraction(len(on.instance_type.resources.gpus or ())),
        state="running" if end is None else state,
        source_state=submission.termination_reason or "",
    )


def _type(gpu: _Gpu) -> str:
    memory_gb = None if gpu.memory_mib is None else gpu.memory_mib / 1024
    return gpu_name(gpu.name, memory_gb)


def _kept(head: Head, columns: Sequence[str], choices: IngestOptions) -> Mapping[str, pl.DataType]:
    return {
        **kept_columns(head, columns, choices),
        "price": pl.Float64(),
        "cost": pl.Float64(),
    }


def _open(stream: SourceStream) -> Rows:
    return _open_all([stream], IngestOptions())[0]


def _recognizes(head: Head) -> str | None:
    if head.mentions("runs", "run_spec") or head.mentions("runs", "job_submissions"):
        return "runs with run_spec or job_submissions"
    return None


DSTACK = LogFormat(
    name="dstack",
    description="runs of dstack: dstack ps -a --json",
    source=f"your project: {COMMAND}",
    recognizes=_recognizes,
    plan=job_plan,
    open=_open,
    open_all=_open_all,
    kept=_kept,
)
