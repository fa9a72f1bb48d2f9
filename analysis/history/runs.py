"""The runs of a log: the time of jobs that still run, and the period in which GPUs are counted.

A job still running holds its GPUs for the run time recorded, else until the log was taken: its
last instant, the latest submission, start or end.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import DAY_US, MICROS, as_utc
from gpuplan.analysis.history.jobs import LONGEST_US, PARTS, PARTS_TYPE, PeriodUs
from gpuplan.analysis.job_table.schema import REQUEUE, RUNS

IS_RUNNING = (pl.col("state") == "running").fill_null(False)
SUBMIT_US = pl.col("submit_time").dt.epoch("us")


def _micros(seconds: str) -> pl.Expr:
    seconds_or_0 = pl.col(seconds).fill_nan(None).fill_null(0.0)
    return (seconds_or_0 * MICROS).clip(0, LONGEST_US).round().cast(pl.Int64)


START_US = SUBMIT_US + _micros("queue_s")
END_OF_ONE_RUN_US = START_US + _micros("duration_s")
END_US = END_OF_ONE_RUN_US + _micros(REQUEUE)


UNTIMED = IS_RUNNING & pl.col("duration_s").is_null()
RUNNING = {"running": IS_RUNNING.sum(), "untimed": UNTIMED.sum(), "last_us": END_US.max()}
"""Of all jobs of a log: those still running, those of them without a run time, the last instant."""


LEAST_LOST_S = 1e-3


def requeue_s() -> pl.Expr:
    """Return the seconds of a job that are neither its first wait nor its duration.

    They lie between its runs, and in runs whose work was lost where the duration is that of the
    last one; of the columns `RUNS` and ``duration_s``; null for one run.
    """
    run, field = _started(), pl.element().struct.field
    gap = run.list.eval(_gap_s()).list.sum()
    length_s = (field("end") - field("start")).dt.total_microseconds().clip(0) / MICROS
    lost = run.list.eval(length_s).list.sum() - pl.col("duration_s")
    gap += pl.when(lost > LEAST_LOST_S).then(lost).otherwise(0.0)
    return pl.when(run.list.len() > 1).then(gap)


def run_parts() -> pl.Expr:
    """Return the column `RUNS` as `PARTS`; null for a job with one run."""
    run = _started()
    field = pl.element().struct.field
    length_s = (field("end") - field("start")).dt.total_microseconds() / MICROS
    part = pl.struct(wait_s=_gap_s(), run_s=length_s, gpus=field("gpus"))
    parts = run.list.eval(part).cast(PARTS_TYPE)
    return pl.when(run.list.len() > 1).then(parts).alias(PARTS)


def scaled_parts(factor: float) -> pl.Expr:
    """Return the column `PARTS` with run times times a factor."""
    longer = pl.element().struct.with_fields(pl.field("run_s") * factor)
    return pl.col(PARTS).list.eval(longer)


def _started() -> pl.Expr:
    has_start = pl.element().struct.field("start").is_not_null()
    return pl.col(RUNS).list.eval(pl.element().filter(has_start))


def _gap_s() -> pl.Expr:
    field = pl.element().struct.field
    return (field("start") - field("end").shift(1)).dt.total_microseconds().clip(0) / MICROS


def with_time_so_far(
    scan: pl.LazyFrame, running: int, untimed: int, last_us: int, as_of: datetime | None
) -> tuple[pl.LazyFrame, tuple[str, ...]]:
    """Return jobs in which those still running have the time run so far, and notes on it.

    Args:
        scan: jobs of a log, with all canonical columns.
        running, untimed, last_us: `RUNNING` of the whole log.
        as_of: when the log was taken; None for its last instant.

    Raises:
        UsageError: the log goes on after ``as_of``.
    """
    if not running or (not untimed and as_of is None):
        return scan, ()
    notes: tuple[str, ...] = ()
    if as_of is not None:
        given_us = round(as_utc(as_of).timestamp() * MICROS)
        if given_us < last_us:
            raise UsageError(
                f"--as-of {written(given_us)}: must not be before the log's last instant, "
                f"{written(last_us)}"
            )
        if given_us > last_us + DAY_US:
            notes = (
                f"the log ends on {written(last_us)}, {(given_us - last_us) / DAY_US:,.0f} days "
                "before --as-of: since then only the jobs still running count, and no later job",
            )
        last_us = given_us
    chosen = UNTIMED if as_of is None else IS_RUNNING
    so_far = (last_us - START_US - _micros(REQUEUE)) / MICROS
    duration_s = pl.when(chosen).then(so_far).otherwise(pl.col("duration_s"))
    return scan.with_columns(duration_s=duration_s), notes


def within(
    scan: pl.LazyFrame, begin: datetime | None, end: datetime | None, path: Path
) -> tuple[pl.LazyFrame, PeriodUs, tuple[str, ...]]:
    """Return the jobs submitted in a period or running in it, the period, and notes on it.

    Args:
        scan: jobs, with all canonical columns.
        begin: of the period; None for the first submission.
        end: of the period, not in it; None for the last instant.
        path: of the log, for messages.

    Raises:
        InputError: no job is submitted or runs in the period.
    """
    first_us, last_us = scan.select(first=SUBMIT_US.min(), last=END_US.max()).collect().row(0)
    if first_us is None:
        return scan, (0, 0), ()
    begin_us = first_us if begin is None else round(as_utc(begin).timestamp() * MICROS)
    end_us = last_us if end is None else round(as_utc(end).timestamp() * MICROS)
    if begin is not None and begin_us > last_us:
        raise InputError(
            path,
            f"the log ends on {written(last_us)}, before --from {written(begin_us)}",
            hint="choose another --from",
        )
    if end is not None and end_us <= first_us:
        raise InputError(
            path,
            f"the log begins on {written(first_us)}, not before --to {written(end_us)}",
            hint="choose another --to",
        )
    if begin_us >= end_us:
        raise InputError(
            path,
            f"its jobs are all of {written(first_us)}, a period of no length",
            hint="choose another --from or --to",
        )
    notes: tuple[str, ...] = ()
    if begin_us < first_us // DAY_US * DAY_US or end_us > -(-last_us // DAY_US) * DAY_US:
        notes = (
            f"the log covers {written(first_us)} to {written(last_us)}: in the rest of the period "
            "no GPU counts as held, so its means are too low",
        )
    touches = (SUBMIT_US >= begin_us) | (END_US > begin_us)
    return scan.filter((SUBMIT_US < end_us) & touches), (begin_us, end_us), notes


def written(micros: int) -> str:
    """Return an instant in UTC as it is given on a command line."""
    return datetime.fromtimestamp(micros // int(MICROS), UTC).replace(tzinfo=None).isoformat(" ")
