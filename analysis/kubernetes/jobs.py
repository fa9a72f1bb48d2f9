"""How jobs of Kubernetes become rows of a source."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter

import msgspec
import polars as pl
from msgspec.structs import replace

from gpuplan.analysis.base.far_times import IMPOSSIBLE, OtherTimes
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.schema import RUN_FIELDS
from gpuplan.analysis.kubernetes.job import Attempt, KubeJob
from gpuplan.analysis.reading.batch import ROW, Batch, Refused, Rows
from gpuplan.analysis.reading.records import ROWS_PER_BATCH, Cell, plain

MOST_NODES = 64
MOST_S = 2.5e11
"""The year 9999, in seconds after 1970; what lies beyond is no time."""
NOTES_BETWEEN = ","


@dataclass(frozen=True, slots=True)
class KubeRows(Rows):
    """The rows of a source, with the jobs that they are made of, as long as none was read.

    ``until`` is the last instant that all sources tell of, seconds after 1970; None for none.
    """

    jobs: Sequence[KubeJob] = ()
    until: float | None = None


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
    taken_s: float | None = None,
) -> list[Rows]:
    """Return the rows of each source, of jobs and of objects that could not be read.

    Args:
        jobs: of all sources together; each belongs to one.
        refused: position of the source, and what was refused there.
        sources: how many there are.
        notes: what the sources say of themselves; on the first.
        taken_s: when the sources were taken or later, seconds after 1970; None where only the jobs
            tell.
    """
    jobs = list(jobs)
    _mark_far(jobs)
    until = _last_instant(jobs, taken_s)
    _set_last_known(jobs, until)
    rows: dict[int, list[Refused | KubeJob]] = defaultdict(list)
    for source, row in refused:
        rows[source].append(row)
    for job in jobs:
        rows[job.source].append(job)
    return [
        KubeRows(
            COLUMNS,
            (),
            partial(_batches, rows[i]),
            tuple(notes if i == 0 else ()),
            [row for row in rows[i] if isinstance(row, KubeJob)],
            until,
        )
        for i in range(sources)
    ]


def _batches(
    rows: Sequence[Refused | KubeJob], wanted: Sequence[str]
) -> Iterator[Callable[[], Batch]]:
    for start in range(0, len(rows), ROWS_PER_BATCH):
        yield partial(_batch, rows[start : start + ROWS_PER_BATCH], wanted)


def _batch(rows: Sequence[Refused | KubeJob], wanted: Sequence[str]) -> Batch:
    """Return some jobs as a table of text, made only now: it is larger than they are."""
    jobs: list[KubeJob] = []
    refused: list[Refused] = []
    for row in rows:
        problem = row if isinstance(row, Refused) else _problem(row)
        if problem is not None:
            refused.append(problem)
        elif isinstance(row, KubeJob):
            jobs.append(row)
    columns = {name: [CELLS[name](job) for job in jobs] for name in wanted}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String))
    numbers = pl.Series(ROW, [job.number for job in jobs], pl.Int64)
    return Batch(
        frame.with_columns(numbers),
        lambda positions: [jobs[i].shown() for i in positions],
        refused,
    )


def _problem(job: KubeJob) -> Refused | None:
    """Return a job as a refused row; None where it is a row of the trace, or no job."""
    if job.left_out:
        return None
    if job.fault is None and any(abs(at) > MOST_S for at in _instants(job)):
        job.fault = ("unreadable", "submit", "a time beyond the year 9999", "a time")
    if job.fault is None:
        return None
    reason, column, cell, expected = job.fault
    return Refused(job.number, reason, column, plain(cell), expected, plain(job.shown()) or "")


def _instants(job: KubeJob) -> Iterator[float]:
    for attempt in job.attempts:
        yield attempt.start
        if attempt.end is not None:
            yield attempt.end
    yield job.submit or 0.0
    yield job.reserved or 0.0


def _mark_far(jobs: Iterable[KubeJob]) -> None:
    """Refuse jobs of impossible times, and note those that are far from the others."""
    spans = []
    for job in jobs:
        if not job.left_out and job.fault is None:
            instants = [at for at in _instants(job) if 0 < at <= MOST_S]
            if instants:
                spans.append((job, (min(instants), max(instants))))
    other_times = OtherTimes.of(span for _, span in spans)
    for job, span in spans:
        if other_times.is_impossible(span):
            job.fault = ("out_of_range", "time", shown_time(other_times.outer(span)), IMPOSSIBLE)
        elif other_times.is_far(span):
            job.notes |= {"far"}


def _last_instant(jobs: Sequence[KubeJob], taken_s: float | None) -> float | None:
    """Return the last instant that a log tells of; None where it has no times.

    The jobs that wait count: one of them may have come long after the last start or end.
    """
    spans = [span for job in jobs if (span := _span(job)) is not None]
    others = OtherTimes.of(spans)
    ends = [last for first, last in spans if not others.is_far((first, last))]
    if taken_s is not None and not others.is_far((taken_s, taken_s)):
        ends.append(taken_s)
    return max(ends, default=None)


def _set_last_known(jobs: Sequence[KubeJob], until: float | None) -> None:
    """Let jobs that still run do so until an instant, where nothing else is known of them."""
    for job in jobs:
        is_open = bool(job.attempts) and job.attempts[-1].end is None and job.state == "running"
        if until is not None and is_open and job.last_known is None:
            job.last_known = max(until, job.attempts[-1].start)


def _span(job: KubeJob) -> tuple[float, float] | None:
    """Return the first and the last time that a job tells of; None for none."""
    instants = [at for at in (*_instants(job), job.told or 0.0) if 0 < at <= MOST_S]
    return (min(instants), max(instants)) if instants else None


def _text(name: str) -> Callable[[KubeJob], Cell]:
    """Return what makes the cell of a text of a job."""
    value = attrgetter(name)
    return lambda job: plain(value(job))


def _instant(name: str) -> Callable[[KubeJob], Cell]:
    """Return what makes the cell of a number of a job."""
    value = attrgetter(name)
    return lambda job: _number(value(job))


def _count(name: str) -> Callable[[KubeJob], Cell]:
    """Return what makes the cell of a whole number of a job."""
    value = attrgetter(name)
    return lambda job: None if (number := value(job)) is None else str(number)


def _start(job: KubeJob) -> Cell:
    return repr(float(job.attempts[-1].start)) if job.attempts else None


def _last_end(job: KubeJob) -> Cell:
    return _number(_end(job, job.attempts[-1])) if job.attempts else None


def _seconds(job: KubeJob) -> Cell:
    """Return how long a job ran in all; None where it has not started, or an end is not known."""
    lengths = []
    for attempt in job.attempts:
        end = _end(job, attempt)
        if end is None:
            return None
        lengths.append(end - attempt.start)
    if not lengths:
        return None
    return repr(float(lengths[-1] if job.starts_over else sum(lengths) + job.past_s))


def _requeue_seconds(job: KubeJob) -> Cell:
    """Return how long a job waited between its attempts, or all that came before the last."""
    if len(job.attempts) < 2:
        return None
    ends = [_end(job, attempt) for attempt in job.attempts]
    gaps = [
        max(0.0, later.start - end)
        for later, end in zip(job.attempts[1:], ends, strict=False)
        if end is not None
    ]
    if job.starts_over and gaps:
        return _number(job.attempts[-1].start - job.attempts[0].start)
    return _number(sum(gaps)) if gaps else None


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


def _word(value: bool | None) -> Cell:
    return None if value is None else str(value).lower()


def _nodes(job: KubeJob) -> Cell:
    names = list(dict.fromkeys(node for attempt in job.attempts for node in attempt.nodes))
    return plain(",".join(names[:MOST_NODES]) or None)


def _runs_of_several(job: KubeJob) -> Cell:
    return plain(_runs(job)) if len(job.attempts) > 1 else None


CELLS: Mapping[str, Callable[[KubeJob], Cell]] = {
    "job_id": _text("name"),
    "user": _text("user"),
    "group": lambda job: plain(job.group) or None,
    "job_class": _text("job_class"),
    "submit": _instant("submit"),
    "wait_end": lambda job: _number(_wait_end(job)),
    "start": _start,
    "end": _last_end,
    "seconds": _seconds,
    "requeue_seconds": _requeue_seconds,
    "gpus": _instant("gpus"),
    "workers": _count("workers"),
    "gpu_type": _text("gpu_type"),
    "state": attrgetter("state"),
    "source_state": lambda job: plain(job.source_state) or None,
    "attempts": lambda job: str(max(job.attempt_count, len(job.attempts), 1)),
    "preemptions": _count("preemptions"),
    "priority": _count("priority"),
    "queue": _text("queue"),
    "cluster_queue": _text("cluster_queue"),
    "reserved": _instant("reserved"),
    "reason": _text("reason"),
    "nodes": _nodes,
    "preemptible": lambda job: _word(job.preemptible),
    "wait_includes_attempts": lambda job: _word(job.wait_includes_attempts),
    "runs": _runs_of_several,
    "notes": lambda job: NOTES_BETWEEN.join(sorted(job.notes)) if job.notes else None,
    "left_out": lambda job: job.left_out or None,
    "price": _instant("price"),
    "cost": _instant("cost"),
}
"""Column -> what makes its cell of a job."""
COLUMNS = tuple(CELLS)


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
