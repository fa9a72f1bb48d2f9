"""A job as every Kubernetes format gives it, and how such jobs become rows of a source."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial

import msgspec

from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.schema import RUN_FIELDS
from gpuplan.analysis.reading.batch import Refused, Rows
from gpuplan.analysis.reading.records import Cell, Flat, open_rows, plain

COLUMNS = (
    "job_id", "user", "group", "job_class", "submit", "wait_end", "start", "end", "seconds",
    "requeue_seconds", "gpus", "workers", "gpu_type", "state", "source_state", "attempts",
    "preemptions", "priority", "queue", "cluster_queue", "reserved", "reason", "nodes",
    "wait_includes_attempts", "runs", "notes", "left_out", "price", "cost",
)  # fmt: skip
MOST_NODES = 64
MOST_S = 2.5e11
"""The year 9999, in seconds after 1970; what lies beyond is no time."""
NOTES_BETWEEN = ","


@dataclass(frozen=True, slots=True)
class Attempt:
    """One interval in which a job held GPUs.

    Attributes:
        start, end: seconds after 1970; an end of None is still to come.
        gpus: held, at most at one time.
        workers: pods, at most at one time.
        state: how it ended, or ``running``.
        source_state: the same as the log has it.
        nodes: where it ran.
    """

    start: float
    end: float | None
    gpus: Fraction
    workers: int
    state: str
    source_state: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class KubeJob:
    """A job of a Kubernetes format.

    Attributes:
        number, source: its place in a file, and the position of that file.
        name: its id, ``namespace/name``; a reused one gets ``#2`` in `numbered`.
        group: its namespace.
        submit: seconds after 1970.
        attempts: its intervals, in order; empty where it never started.
        attempt_count: attempts that the log tells of, also those without an interval.
        gpus, workers: requested or held.
        state, source_state: how it ended.
        past_s: seconds of earlier attempts, where nothing else is known of them.
        starts_over: whether its duration is that of the last attempt, which did all its work.
        last_known: until when a running job is known to run; None where the log does not say.
        price: $ per hour of one instance, where the log says; ``cost`` what it cost.
        notes: what to count of it.
        left_out: why it is no job; empty for one.
        fault: reason, column, what was found and what was expected, where it is refused.
    """

    number: int
    source: int
    name: str
    group: str
    submit: float | None
    attempts: list[Attempt] = field(default_factory=list)
    attempt_count: int = 1
    gpus: Fraction = Fraction(0)
    workers: int = 1
    gpu_type: str | None = None
    state: str = "unknown"
    source_state: str = ""
    job_class: str | None = None
    user: str | None = None
    priority: int | None = None
    queue: str | None = None
    cluster_queue: str | None = None
    preemptions: int | None = None
    reserved: float | None = None
    reason: str | None = None
    wait_includes_attempts: bool | None = None
    past_s: float = 0.0
    starts_over: bool = False
    last_known: float | None = None
    price: float | None = None
    cost: float | None = None
    notes: set[str] = field(default_factory=set)
    left_out: str = ""
    fault: tuple[str, str, str, str] | None = None

    def shown(self) -> str:
        """Return what is kept of it where it is refused: nothing but its name and its times."""
        return msgspec.json.encode({"job_id": self.name, "submit": self.submit}).decode()


def numbered(jobs: Iterable[KubeJob]) -> list[KubeJob]:
    """Return jobs in order of submission; later ones of a name get ``#2``, ``#3``."""
    ordered = sorted(jobs, key=lambda job: (job.submit or 0.0, job.source, job.number))
    seen: Counter[str] = Counter()
    named: list[KubeJob] = []
    for job in ordered:
        if job.left_out or job.fault is not None:
            named.append(job)
            continue
        seen[job.name] += 1
        again = seen[job.name]
        named.append(job if again == 1 else replace(job, name=f"{job.name}#{again}"))
    return named


def rows_of_sources(
    jobs: Iterable[KubeJob],
    refused: Iterable[tuple[int, Refused]],
    sources: int,
    notes: Sequence[str] = (),
) -> list[Rows]:
    """Return the rows of each source, of jobs and of objects that could not be read.

    Args:
        jobs: of all sources together; each belongs to one.
        refused: position of the source, and what was refused there.
        sources: how many there are.
        notes: what the sources say of themselves; on the first.
    """
    flat: dict[int, list[Flat | Refused]] = defaultdict(list)
    for source, row in refused:
        flat[source].append(row)
    for job in jobs:
        flat[job.source].append(_row(job))
    return [
        replace(open_rows(partial(_wanted, flat[i]), COLUMNS), notes=tuple(notes if i == 0 else ()))
        for i in range(sources)
    ]


def _wanted(rows: Sequence[Flat | Refused], wanted: Sequence[str]) -> Iterator[Flat | Refused]:
    at = [COLUMNS.index(name) for name in wanted]
    for row in rows:
        if isinstance(row, Refused):
            yield row
        else:
            number, cells, raw = row
            yield number, tuple(plain(cells[i]) for i in at), raw


def _row(job: KubeJob) -> Flat | Refused:
    if not job.left_out and any(abs(at) > MOST_S for at in _instants(job)):
        job.fault = job.fault or ("unreadable", "submit", "a time beyond the year 9999", "a time")
    if job.fault is not None and not job.left_out:
        reason, column, cell, expected = job.fault
        return Refused(job.number, reason, column, plain(cell), expected, plain(job.shown()) or "")
    cells = _cells(job)
    return job.number, tuple(cells.get(name) for name in COLUMNS), job.shown()


def _instants(job: KubeJob) -> Iterator[float]:
    for attempt in job.attempts:
        yield attempt.start
        if attempt.end is not None:
            yield attempt.end
    yield job.submit or 0.0
    yield job.reserved or 0.0


def _cells(job: KubeJob) -> Mapping[str, Cell]:
    ends = [_end(job, attempt) for attempt in job.attempts]
    lengths = [
        end - run.start for run, end in zip(job.attempts, ends, strict=True) if end is not None
    ]
    gaps = [
        max(0.0, later.start - end)
        for later, end in zip(job.attempts[1:], ends, strict=False)
        if end is not None
    ]
    is_whole = len(lengths) == len(job.attempts) > 0
    run_s, requeue_s = sum(lengths) + job.past_s, sum(gaps)
    if job.starts_over and lengths:
        run_s = lengths[-1]
        requeue_s = job.attempts[-1].start - job.attempts[0].start
    return {
        "job_id": job.name,
        "user": job.user,
        "group": job.group or None,
        "job_class": job.job_class,
        "submit": _number(job.submit),
        "wait_end": _number(_wait_end(job)),
        "start": _number(job.attempts[-1].start if job.attempts else None),
        "end": _number(ends[-1] if ends else None),
        "seconds": _number(run_s) if is_whole else None,
        "requeue_seconds": _number(requeue_s) if gaps else None,
        "gpus": repr(float(job.gpus)),
        "workers": str(job.workers),
        "gpu_type": job.gpu_type,
        "state": job.state,
        "source_state": job.source_state or None,
        "attempts": str(max(job.attempt_count, len(job.attempts), 1)),
        "preemptions": None if job.preemptions is None else str(job.preemptions),
        "priority": None if job.priority is None else str(job.priority),
        "queue": job.queue,
        "cluster_queue": job.cluster_queue,
        "reserved": _number(job.reserved),
        "reason": job.reason,
        "nodes": _nodes(job.attempts),
        "wait_includes_attempts": None
        if job.wait_includes_attempts is None
        else str(job.wait_includes_attempts).lower(),
        "runs": _runs(job) if len(job.attempts) > 1 else None,
        "notes": NOTES_BETWEEN.join(sorted(job.notes)) or None,
        "left_out": job.left_out or None,
        "price": _number(job.price),
        "cost": _number(job.cost),
    }


def _wait_end(job: KubeJob) -> float | None:
    """Return when a job first held GPUs: past attempts of known length ended before the last."""
    if not job.attempts:
        return None
    start = job.attempts[0].start
    if not job.past_s or job.submit is None:
        return start
    return max(start - job.past_s, min(job.submit, start))


def _end(job: KubeJob, attempt: Attempt) -> float | None:
    return job.last_known if attempt.end is None else attempt.end


def _number(value: float | None) -> Cell:
    return None if value is None else repr(float(value))


def _nodes(attempts: Sequence[Attempt]) -> Cell:
    names = list(dict.fromkeys(node for attempt in attempts for node in attempt.nodes))
    return ",".join(names[:MOST_NODES]) or None


def _runs(job: KubeJob) -> str:
    """Return the attempts as `runs_of_text` reads them: a line of JSON each."""
    lines = []
    for attempt in job.attempts:
        end = _end(job, attempt)
        run = dict.fromkeys(RUN_FIELDS, None) | {
            "start": _micros(attempt.start),
            "end": None if end is None else _micros(end),
            "gpus": float(attempt.gpus),
            "nodes": attempt.workers,
            "state": attempt.state,
            "submit_time": None if job.submit is None else _micros(job.submit),
            "partition": job.cluster_queue or job.queue,
            "recorded_priority": job.priority,
            "node_list": ",".join(attempt.nodes[:MOST_NODES]) or None,
            "reason": attempt.source_state or None,
        }
        lines.append(msgspec.json.encode(run).decode())
    return "\n".join(lines)


def _micros(seconds: float) -> int:
    return round(seconds * MICROS)


def shown_time(seconds: float) -> str:
    """Return an instant in UTC for people."""
    if abs(seconds) > MOST_S:
        return f"{seconds:g} s after 1970"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def history_note(jobs: Iterable[KubeJob], what: str) -> str:
    """Return from when to when the input has jobs that ended.

    Args:
        jobs: of the input.
        what: what is read, and when it vanishes.
    """
    ends = [
        attempt.end
        for job in jobs
        if not job.left_out and job.fault is None and job.state != "running"
        for attempt in job.attempts[-1:]
        if attempt.end is not None
    ]
    if not ends:
        return f"no job in the input has ended; {what}"
    first, last = shown_time(min(ends)), shown_time(max(ends))
    return f"{len(ends):,} jobs ended, from {first} to {last} UTC; {what}"
