"""The runs of a trace that hold GPUs, with who pays for them, and the period of a bill."""

from __future__ import annotations

from calendar import month_name, monthrange
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray, distinct
from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import CENTURY_S, HOUR_US, MICROS, MONTH_H, micros_of, time_of
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.characterize.load import PARTS_PER_GPU, levels_until
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.history.jobs import BY
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.bill import IDLE, NAMED_IDLE, NO_LABEL
from gpuplan.planner.money.ledger import HeldRuns

MONTH_US = round(MONTH_H * HOUR_US)
MOST_YEARS = 100
"""Years of a bill."""
EXACT_MONTH_US = Fraction(MONTH_H) * HOUR_US


@dataclass(frozen=True, slots=True)
class BilledRuns:
    """The runs of a log, and who pays for them.

    Attributes:
        runs: that hold GPUs.
        labels: of each code of a run, the name and, of a bill by two columns, the part.
        jobs: that hold GPUs, by label; shape (labels,).
        window_us: the period asked for, or first submission to last submission or end.
        peak_gpus: most GPUs of each type held at once; shape (types,).
        running: jobs still running, and the GPU-hours that they have held so far.
        job: place of the job of each run among the jobs; shape (n,).
        is_running: whether the job of each run is still running; shape (n,).
    """

    runs: HeldRuns
    labels: tuple[tuple[str, str], ...]
    jobs: IntArray
    window_us: tuple[int, int]
    peak_gpus: FloatArray
    running: tuple[int, float]
    job: IntArray
    is_running: BoolArray

    def within(self, spans_us: Sequence[tuple[int, int]]) -> BilledRuns:
        """Return these runs with the jobs, peaks and running jobs of parts of the time."""
        runs = self.runs
        peaks = np.zeros(len(runs.gpu_types))
        held_us = np.zeros(self.job.size, np.int64)
        for begin, end in spans_us:
            first, last = np.clip(runs.start_us, begin, end), np.clip(runs.end_us, begin, end)
            held_us += last - first
            for code in distinct(runs.gpu_type[last > first]):
                part = (runs.gpu_type == code) & (last > first)
                peak = _peak(first[part], last[part], runs.gpus[part])
                peaks[code] = max(peaks[code], peak)
        holds = held_us > 0
        running = holds & self.is_running
        return replace(
            self,
            jobs=_jobs_of(runs.label[holds], self.job[holds], len(self.labels)),
            peak_gpus=peaks,
            running=(
                int(distinct(self.job[running]).size),
                float(held_us[running] @ runs.gpus[running]) / HOUR_US,
            ),
        )

    @property
    def used_types(self) -> list[str | None]:
        """GPU types that the runs hold."""
        peaks = zip(self.runs.gpu_types, self.peak_gpus.tolist(), strict=True)
        return [name for name, peak in peaks if peak > 0]

    @property
    def running_note(self) -> tuple[str, ...]:
        """What to say of jobs still running; empty where there are none."""
        count, held_h = self.running
        if not count:
            return ()
        jobs = counted(count, "job")
        return (f"{jobs} still running: billed for the {held_h:,.0f} GPU-hours so far",)


def billed_runs(trace: Trace, by: tuple[str, ...]) -> BilledRuns:
    """Return the runs of a trace, labelled.

    Args:
        trace: with the columns of `gpuplan.analysis.characterize.today` and those of ``by``.
        by: one or two of `BY`, or other columns of the trace; none for one label.

    Raises:
        InputError: no job has both a run time and GPUs, or no time passes.
    """
    jobs = trace.arrays()
    holding = jobs.holding()
    if not holding.any():
        raise InputError(
            trace.path,
            "no job has both a run time and GPUs, so there is nothing to bill",
            hint="see gpuplan ingest LOG for what was read, or loosen the selection",
        )
    window = jobs.window_us()
    if window[1] <= window[0]:
        raise InputError(trace.path, "no time passes in it, so it has no bill for a month")
    columns = [_codes(trace.jobs[BY.get(name, name)]) for name in by]
    held = jobs.runs()
    labels: tuple[tuple[str, str], ...] = (("", ""),)
    label = np.zeros(held.job.size, np.int64)
    if columns:
        held_codes = np.stack([code[held.job] for _, code in columns])
        pairs, label = np.unique(held_codes, axis=1, return_inverse=True)
        names = [names for names, _ in columns]
        lacking = [UNNAMED if BY.get(name, name) == "gpu_type" else NO_LABEL for name in by]
        labels = tuple(
            (
                NAMED_IDLE if names[0][pair[0]] == IDLE else names[0][pair[0]] or lacking[0],
                names[1][pair[1]] or lacking[1] if len(pair) > 1 else "",
            )
            for pair in pairs.T.tolist()
        )
    types, type_of = _codes(trace.jobs["gpu_type"])
    peaks = [
        levels_until(jobs.only(holding & (type_of == code)), 0)[2] / PARTS_PER_GPU
        for code in range(len(types))
    ]
    label = label.reshape(-1).astype(np.int64)
    return BilledRuns(
        runs=HeldRuns(
            held.start_us,
            held.end_us,
            held.gpus,
            label,
            type_of[held.job],
            len(labels),
            tuple(types),
        ),
        labels=labels,
        jobs=_jobs_of(label, held.job, len(labels)),
        window_us=window,
        peak_gpus=np.array(peaks),
        running=jobs.running(),
        job=held.job,
        is_running=jobs.censored[held.job],
    )


def _peak(start_us: IntArray, end_us: IntArray, gpus: FloatArray) -> float:
    """Return the most GPUs that runs hold at once."""
    parts = np.rint(gpus * PARTS_PER_GPU).astype(np.int64)
    at, change = np.concatenate([start_us, end_us]), np.concatenate([parts, -parts])
    order = np.lexsort((change, at))  # what ends makes room for what starts then
    return float(np.cumsum(change[order]).max()) / PARTS_PER_GPU


def _jobs_of(label: IntArray, job: IntArray, labels: int) -> IntArray:
    """Return the jobs of each label; a job with several runs counts once."""
    first = np.unique(job, return_index=True)[1]
    return np.bincount(label[first], minlength=labels)


def _codes(column: pl.Series) -> tuple[list[str | None], IntArray]:
    """Return the distinct names, None last, and the place of each among them."""
    codes, names = name_codes(column)
    return [*map(str, names.to_list()), None], codes.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Months:
    """The months of a bill.

    Attributes:
        edges_us: of the months within the period; shape (m + 1,).
        names: ``2026-03``; ``month 1`` where the log has no dates.
        whole_us: begin and end of each whole month.
    """

    edges_us: IntArray
    names: tuple[str, ...]
    whole_us: tuple[tuple[int, int], ...]

    @property
    def is_partial(self) -> tuple[bool, ...]:
        """Whether the period has not the whole month."""
        parts = pairwise(self.edges_us.tolist())
        return tuple(
            part != whole_month for part, whole_month in zip(parts, self.whole_us, strict=True)
        )


def months_of(period_us: tuple[int, int], zone: tzinfo) -> Months:
    """Return the calendar months of a period in a time zone."""
    begin, end = period_us
    at = time_of(begin, zone)
    edges, names, whole_us = [begin], [], []
    first = date(at.year, at.month, 1)
    while edges[-1] < end:
        following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
        whole_month = midnight_us(first, zone), midnight_us(following, zone)
        edges.append(min(whole_month[1], end))
        names.append(f"{first:%Y-%m}")
        whole_us.append(whole_month)
        first = following
    return Months(np.array(edges, np.int64), tuple(names), tuple(whole_us))


def month_words(name: str) -> str:
    """Return ``January 2026`` for ``2026-01``; other names as they are."""
    year, _, month = name.partition("-")
    return f"{month_name[int(month)]} {year}" if month else name


def days_of_month(name: str, hours: float) -> str:
    """Return ``14 of 31 days`` for 336 hours of ``2026-03``."""
    year, _, month = name.partition("-")
    whole = monthrange(int(year), int(month))[1]
    return f"{round(hours / 24, 1):g} of {whole} days"


def months_without_dates(period_us: tuple[int, int]) -> Months:
    """Return stretches of 730.5 hours of a log that has no dates."""
    edges = [*range(period_us[0], period_us[1], MONTH_US), period_us[1]]
    names = tuple(f"month {place}" for place in range(1, len(edges)))
    whole_us = tuple((begin, begin + MONTH_US) for begin in edges[:-1])
    return Months(np.array(edges, np.int64), names, whole_us)


def paid_period(trace: Trace, runs: BilledRuns, zone: tzinfo) -> tuple[int, int]:
    """Return the time in which pools are paid for: the period asked for, or whole days of the log.

    A log without dates is paid for in its window.

    Raises:
        InputError: the log is longer than a century.
        UsageError: the period asked for is.
    """
    period_us = runs.window_us if trace.period is None else trace.period
    years = (period_us[1] - period_us[0]) / MICROS / CENTURY_S * 100
    if years > MOST_YEARS and trace.period is not None:
        raise UsageError(
            f"--from and --to: a period of {years:,.0f} years\n  next: one of at most a century"
        )
    if years > MOST_YEARS:
        raise InputError(
            trace.path, f"its jobs span {years:,.0f} years", expected="at most a century",
            hint="leave out the times that are wrong with --since and --until",
        )  # fmt: skip
    is_whole = trace.period is not None or trace.provenance.relative_time
    return period_us if is_whole else whole_days(period_us, zone)


def whole_days(window_us: tuple[int, int], zone: tzinfo) -> tuple[int, int]:
    """Return a window from the beginning of its first day to the end of its last one."""
    first, last = (time_of(at, zone) for at in window_us)
    begin, end = midnight_us(first.date(), zone), midnight_us(last.date(), zone)
    if end < window_us[1] or end == begin:
        end = midnight_us(last.date() + timedelta(days=1), zone)
    return begin, end


def midnight_us(day: date, zone: tzinfo) -> int:
    """Return the first instant of a day in a time zone, microseconds since 1970."""
    return micros_of(datetime(day.year, day.month, day.day, tzinfo=zone))
