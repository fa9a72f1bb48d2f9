"""What a log tells of one instant: what ran, what waited, what had happened; nothing later."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S
from gpuplan.analysis.site.log import SiteLog

ARRAY = r"^(\d+)_"
TASKS = re.compile(r"^(\d+)_\[([\d,\-:]+)(?:%(\d+))?\]?$")
AT_ONCE = r"--array[ =]\S*%(\d+)"
TYPE_REQUESTED = r"(?:--gres|--gpus\S*|-G)[ =]?(?:gres[:/])?(?:gpu:)?([A-Za-z][\w.-]*):\d"
SPAN = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?(?::([0-9]{1,15}))?")
MOST_TASKS = 10_000
MOST_AFTER_S, MOST_IDLE_S = HOUR_S, DAY_S
"""An instant may be this long after the last time of a log; the second where nothing runs then."""


@dataclass(frozen=True, slots=True)
class SiteInstant:
    """The jobs of a site at an instant, in the columns of `SITE_COLUMNS`.

    Attributes:
        at: the second.
        running: jobs that run; ``run_s`` is how long they did, ``end`` is null.
        waiting: jobs that wait, with a column ``at_once``: tasks of their array that may run at
            the same time; null for no such limit.
        past: every run of a job submitted before, as known then.
        first: the first second that the log tells of.
        all_eligible: whether nothing tells which jobs wait for a dependency or a hold.
    """

    at: int
    running: pl.DataFrame
    waiting: pl.DataFrame
    past: pl.DataFrame
    first: int
    all_eligible: bool = False

    @property
    def finished(self) -> pl.DataFrame:
        """Runs that had ended."""
        return self.past.filter(pl.col("start").is_not_null() & pl.col("end").is_not_null())


def last_second(log: SiteLog) -> int:
    """Return the last second that a log tells of: when it was taken, where jobs still run."""
    seen = pl.col("start") + pl.col("run_s")
    times = [log.waiting["submit"].max(), log.jobs.select(seen.max()).item()]
    times += [log.jobs[name].max() for name in ("submit", "start", "end")]
    return max((int(time) for time in times if time is not None), default=0)


def utc(second: int) -> str:
    """Return a second after 1970 as the date and minute of UTC."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M")


def all_jobs(log: SiteLog) -> pl.DataFrame:
    """Return the jobs of a log, also those that wait; of one that runs the end is not known."""
    runs = pl.col("state") == "running"
    jobs = pl.concat([log.jobs, log.waiting])
    return jobs.with_columns(end=pl.when(~runs.fill_null(False)).then("end"))


def first_second(jobs: pl.DataFrame) -> int:
    """Return the second from which a log has all jobs: it begins with those that end then."""
    first = jobs.select(pl.coalesce(pl.col("end").min(), pl.col("submit").max())).item()
    return int(first or 0)


def instant_of(log: SiteLog, at: int | None, queue: SiteLog | None = None) -> SiteInstant:
    """Return what a log, and a listing of the queue, tell of an instant.

    Args:
        log: the log; what it tells of later times is hidden.
        at: the second; None for the last that the queue, or else the log, tells of.
        queue: jobs that run and wait at the instant; None to take them from the log.

    Raises:
        InputError: the queue is of a time before the log.
        UsageError: the instant is before the log or long after it.
    """
    moment = last_second(queue or log) if at is None else at
    every = all_jobs(log)
    rows = every if queue is None else all_jobs(queue)
    if at is None and rows.is_empty():
        raise UsageError("no job runs or waits, which tells no time: give --at TIME")
    first = first_second(every)
    if moment < first and at is None and queue is not None and queue is not log:
        raise InputError(
            queue.path, f"its jobs are of {utc(moment)} UTC and before, and the log tells all jobs "
            f"only from {utc(first)} on", expected="the queue at a time of the log or after it",
            hint="check that LOG is the log and --queue the queue",
        )  # fmt: skip
    if moment < first:
        raise UsageError(f"--at must not lie before the log begins ({utc(first)} UTC)")
    is_idle = not every["end"].null_count()
    most = MOST_IDLE_S if is_idle else MOST_AFTER_S
    if queue is None and moment > last_second(log) + most:
        raise UsageError(
            f"--at must be at most {most // HOUR_S} h after the last time of the log, which cannot "
            "tell what runs later; give --queue FILE, or a newer log"
        )
    past = known_at(every, moment)
    state = past if queue is None else known_at(rows, moment, with_reasons=True)
    running = state.filter(pl.col("start").is_not_null() & pl.col("end").is_null())
    waiting = state.filter(pl.col("start").is_null() & pl.col("end").is_null())
    if queue is not None:
        past = _as_of_queue(past, running)
    missing = (queue or log).missing
    return SiteInstant(moment, running, tasks(waiting), past, first, "eligible" in missing)


def _as_of_queue(past: pl.DataFrame, running: pl.DataFrame) -> pl.DataFrame:
    """Return the past without unfinished runs that the queue does not have: they have ended."""
    is_open = pl.col("start").is_not_null() & pl.col("end").is_null()
    return past.filter(~is_open | pl.col("job_id").is_in(running["job_id"].to_list()))


def known_at(jobs: pl.DataFrame, at: int, *, with_reasons: bool = False) -> pl.DataFrame:
    """Return the rows submitted until an instant, without what became known after it.

    A job that started later waits; its resources are those that it requested: a GPU type counts
    only where its command line names it, or where the log has no command lines. The reason of one
    that waits may be a later one, and counts only ``with_reasons``.
    """
    began = (pl.col("start") <= at).fill_null(False)
    ended = (pl.col("end") <= at).fill_null(False)
    lines = bool(jobs["submit_line"].count())
    requested = pl.col("submit_line").str.extract(TYPE_REQUESTED).str.to_lowercase()

    def when(condition: pl.Expr, name: str) -> pl.Expr:
        return pl.when(condition).then(pl.col(name)).alias(name)

    return jobs.filter(pl.col("submit") <= at).with_columns(
        when(began, "start"),
        when(ended, "end"),
        when((pl.col("eligible") <= at).fill_null(False), "eligible"),
        pl.when(began & ended).then("run_s").when(began).then(at - pl.col("start")).alias("run_s"),
        pl.when(ended).then("state").when(began).then(pl.lit("running"))
        .otherwise(pl.lit("waiting")).alias("state"),
        when(began | ended, "priority"),
        when(began, "node_list"),
        when(began, "billing"),
        pl.when(began | ended | (not lines)).then("gpu_type").otherwise(requested)
        .alias("gpu_type"),
        when(ended | with_reasons, "reason"),
    )  # fmt: skip


def tasks(waiting: pl.DataFrame) -> pl.DataFrame:
    """Return waiting jobs with a row per task of an array, and how many may run at once."""
    packed = waiting["job_id"].str.contains(r"_\[")
    limit = pl.coalesce(
        pl.col("job_id").str.extract(r"%(\d+)"), pl.col("submit_line").str.extract(AT_ONCE)
    ).cast(pl.Int64, strict=False)
    waiting = waiting.with_columns(at_once=limit)
    if not packed.any():
        return waiting
    ids = [task_ids(text) for text in waiting["job_id"].to_list()]
    spread = waiting.with_columns(job_id=pl.Series(ids, dtype=pl.List(pl.String)))
    return spread.explode("job_id")


def task_ids(job_id: str) -> list[str]:
    """Return the ids of ``12_[0-3,7%2]``; the id itself where it is another."""
    match = TASKS.match(job_id)
    if match is None:
        return [job_id]
    ids: list[str] = []
    for part in match[2].split(","):
        span = SPAN.fullmatch(part)
        if span is None:
            continue
        low, high, step = int(span[1]), int(span[2] or span[1]), int(span[3] or 1)
        numbers = range(low, high + 1, max(step, 1))
        ids += [f"{match[1]}_{number}" for number in numbers[:MOST_TASKS]]
    return ids[:MOST_TASKS] or [job_id]


def array_of() -> pl.Expr:
    """Return the array of a task; null for a job of no array."""
    return pl.col("job_id").str.extract(ARRAY)
