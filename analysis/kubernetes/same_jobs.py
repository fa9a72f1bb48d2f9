"""Jobs that several logs of one cluster have: Workloads of Kueue, and the pods that they ran."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.kubernetes.job import KubeJob
from gpuplan.analysis.kubernetes.jobs import KubeRows
from gpuplan.analysis.reading.batch import Rows

FORMATS = ("kueue", "yunikorn", "kube", "kube-metrics")
"""Formats whose logs may have the same jobs; a job that several have is that of the first one."""

IN_ANOTHER_LOG = "in_another_log"
"""Why a job is left out that another log of the same cluster has."""
Spans = Sequence[tuple[float, float]]


@dataclass(slots=True)
class SameJobs:
    """The jobs of the logs of Kubernetes that make one trace, by format.

    A job of pods is that of a Workload of the same namespace if it, or what owns its pods, has the
    name of the Workload or of its owner, and both were there at one time.
    """

    logs: dict[str, tuple[Path, list[KubeJob]]] = field(default_factory=dict)

    def leave_out(self, name: str, path: Path, opened: Iterable[Rows]) -> None:
        """Leave out the jobs of a format that one before it in `FORMATS` has.

        Args:
            name: the format.
            path: its first log.
            opened: its rows, of which none were read.

        Raises:
            InputError: some may be those of another log, and nothing tells.
        """
        if name not in FORMATS:
            return
        jobs = [
            job
            for rows in opened
            if isinstance(rows, KubeRows)
            for job in rows.jobs
            if not job.left_out and job.fault is None
        ]
        for earlier in FORMATS[: FORMATS.index(name)]:
            if earlier in self.logs:
                other_path, other_jobs = self.logs[earlier]
                same, other_same = _same(jobs, other_jobs), _same(other_jobs, jobs)
                rest = [job for job in jobs if id(job) not in same]
                _check(path, rest, other_path, [o for o in other_jobs if id(o) not in other_same])
                for job in jobs:
                    if id(job) in same:
                        job.left_out = IN_ANOTHER_LOG
                jobs = rest
        self.logs[name] = path, jobs


def _names(job: KubeJob) -> set[str]:
    """Return the names of a job and of its owner, with the namespace."""
    name = job.name.partition("#")[0]
    return {name, f"{job.group}/{job.owner}"} if job.owner else {name}


def _span(job: KubeJob) -> tuple[float, float]:
    """Return from when to when a job was there, seconds after 1970."""
    start = job.submit if job.submit is not None else float("-inf")
    last = job.attempts[-1].end if job.attempts else None
    return start, float("inf") if last is None else last


def _same(jobs: Iterable[KubeJob], other_jobs: Iterable[KubeJob]) -> set[int]:
    """Return the ids of the jobs that are among others, by name and time."""
    by_name: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for other in other_jobs:
        for name in _names(other):
            by_name[name].append(_span(other))
    same = set()
    for job in jobs:
        start, end = _span(job)
        spans = [span for name in _names(job) for span in by_name.get(name, ())]
        if any(other_start <= end and start <= other_end for other_start, other_end in spans):
            same.add(id(job))
    return same


def _check(
    path: Path, jobs: Sequence[KubeJob], other_path: Path, other_jobs: Sequence[KubeJob]
) -> None:
    """Refuse logs with jobs that run at one time in one namespace, and may be the same.

    Raises `InputError`.
    """
    running = _running(other_jobs)
    doubtful = [
        job for job in jobs if job.attempts and _overlaps(_run(job), running.get(job.group))
    ]
    if not doubtful:
        return
    raise InputError(
        path,
        f"{counted(len(doubtful), 'job')} may be in {other_path} too (the first: "
        f"{doubtful[0].name}): other jobs of the same namespace ran at that time, and no owner or "
        "label tells which are the same",
        expected="each job in one log, so that none counts twice",
        hint="give one of the two files; those of two clusters make a trace each (gpuplan ingest "
        "FILE -o TRACE), and the traces one",
    )


def _run(job: KubeJob) -> tuple[float, float]:
    last = job.attempts[-1].end
    return job.attempts[0].start, float("inf") if last is None else last


def _running(jobs: Iterable[KubeJob]) -> Mapping[str, Spans]:
    """Return namespace -> times at which any of the jobs ran, in order, apart from each other."""
    by_group: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for job in sorted((job for job in jobs if job.attempts), key=_run):
        start, end = _run(job)
        spans = by_group[job.group]
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return by_group


def _overlaps(run: tuple[float, float], spans: Spans | None) -> bool:
    """Return whether a run shares time with any span."""
    if not spans:
        return False
    first = bisect_left(spans, run[0], key=lambda span: span[1])
    return any(start < run[1] and run[0] < end for start, end in spans[first : first + 2])
