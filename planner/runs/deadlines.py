"""Soft deadlines of the jobs of a trace: given by it, inferred from it, or drawn."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import CENTURY_S
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.trace.trace import Trace

RULES = ("given", "inferred", "drawn")
INFERRED_FROM = ("job_class", "queue_s")
USUAL_FACTOR = (1.0, 10.0)
USUAL_SHARE = 0.9
"""Inferred deadlines are what this share of a class's jobs met when they were recorded."""


def check_factor(rule: str | None, factor: tuple[float, float] | None) -> str:
    """Return the rule in force: without one, ``drawn`` where there are bounds, else ``given``.

    Raises:
        ValueError: it is none of `RULES`.
        UsageError: the bounds do not ascend, or the rule needs none.
    """
    if rule is not None and rule not in RULES:
        raise ValueError(f"the rule must be one of {', '.join(RULES)}, got {rule!r}")
    if factor is None:
        return rule or "given"
    low, high = factor
    if not 0 < low <= high < np.inf:
        typed, expected = f"{low:g}:{high:g}", "two factors above 0, the lower first"
        if low == high or np.isnan([low, high]).all():
            typed, expected = f"{low:g}", "a factor above 0"
        raise UsageError(f"--deadline-factor {typed}: expected {expected}")
    if rule == "inferred":
        raise UsageError("--deadline inferred draws nothing: leave out --deadline-factor")
    return rule or "drawn"


def soft_deadlines(
    trace: Trace, jobs: pl.DataFrame, rule: str, factor: tuple[float, float] | None
) -> tuple[pl.Series, tuple[str, ...]]:
    """Return when each job should be done, seconds after its submission, and notes.

    - ``given``: the trace's own; drawn where it has none.
    - ``drawn``: duration x a factor uniform between bounds (Allpass, section 5.1).
    - ``inferred``: what users of such jobs are used to: the time from submission to end within
      which 9 in 10 jobs of the class (`USUAL_SHARE`) were done when they were recorded; of all
      jobs where no job of the class has a recorded wait. Jobs still running do not count.

    Drawn and inferred deadlines are at most a century, as the times of a trace are.

    Args:
        trace: for messages.
        jobs: those replayed, with ``at``, the place of each one's factor between the bounds, from 0
            to 1; for ``inferred`` with the columns `INFERRED_FROM`.
        rule: one of `RULES`.
        factor: the bounds; None for `USUAL_FACTOR`.

    Raises:
        InputError: deadlines are to be inferred and no job has a recorded wait.
    """
    if rule == "inferred":
        return _inferred(trace, jobs)
    low, high = factor or USUAL_FACTOR
    deadline = (low + pl.col("at") * (high - low)) * pl.col("duration_s")
    deadline = deadline.clip(upper_bound=CENTURY_S)
    count = jobs.height
    if rule == "given":
        deadline, count = pl.coalesce("deadline_s", deadline), jobs["deadline_s"].null_count()
    times = f"of {low:g}" if low == high else f"sampled from {low:g} to {high:g}"
    gets, their = ("gets", "its") if count == 1 else ("get", "their")
    note = f"{counted(count, 'job')} {gets} an assumed deadline {times} times {their} duration"
    return jobs.select(deadline_s=deadline)["deadline_s"], (note,) if count else ()


def _inferred(trace: Trace, jobs: pl.DataFrame) -> tuple[pl.Series, tuple[str, ...]]:
    took = pl.when(pl.col("state") != "running").then(pl.col("queue_s") + pl.col("duration_s"))
    usual = took.quantile(USUAL_SHARE, "linear")
    times = jobs.select(own=usual.over("job_class"), all=usual)
    if times["all"].null_count():
        raise InputError(
            trace.path,
            "no job that is replayed has a recorded wait, so its usual time to completion is not "
            "known",
            column="queue_s",
            expected="seconds from submission to start, to infer deadlines",
            hint="draw them: --deadline-factor 1:10",
        )
    alone = times["own"].null_count()
    notes = [
        f"{jobs.height:,} jobs get as soft deadline the time in which 9 in 10 jobs of their class "
        "were done when recorded"
    ]
    if alone:
        notes.append(f"{alone:,} of them that of all jobs: their class has no recorded wait")
    each = pl.coalesce("own", "all").clip(upper_bound=CENTURY_S)
    return times.select(deadline_s=each)["deadline_s"], tuple(notes)
