"""The jobs and services of a plan, and the bins of time over which their GPUs are counted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.history.jobs import BY
from gpuplan.analysis.history.runs import IS_RUNNING
from gpuplan.analysis.trace.conditions import read_condition
from gpuplan.analysis.trace.trace import Trace
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

MOST_BINS = 4000
BIN_S = 60.0
LABELS = ("job_class", "group")
ALL, NONE = "all", "none"
ROUNDING = 1e-9
COLUMNS = (
    "submit_time",
    "queue_s",
    "duration_s",
    "num_gpus",
    "gpu_type",
    "state",
    *LABELS,
)
"""Canonical columns that a plan reads, besides those of its conditions."""


@dataclass(frozen=True, slots=True)
class TimeBins:
    """Bins of equal length from the first submission to the last recorded end.

    Attributes:
        window_s: their length together, > 0.
        count: how many there are.
    """

    window_s: float
    count: int

    @property
    def bin_s(self) -> float:
        """Length of a bin."""
        return self.window_s / self.count

    @property
    def edges_s(self) -> FloatArray:
        """Begin of each bin, and the end of the last; shape (count + 1,)."""
        return np.arange(self.count + 1, dtype=np.float64) * self.bin_s

    def means(self, begin_s: FloatArray, end_s: FloatArray, amount: FloatArray) -> FloatArray:
        """Return the exact mean per bin of the step function that intervals add up to.

        An interval adds its amount to every bin between its two ends, and in proportion to the
        bins in which they are. What is after the last bin does not count.

        Args:
            begin_s, end_s: seconds after the begin of the first bin; shape (k,), >= 0.
            amount: of each interval; shape (k,).
        """
        time = np.minimum(np.concatenate((begin_s, end_s)), self.window_s)
        step = np.concatenate((amount, -amount))
        at = time / self.bin_s
        place = np.minimum(at.astype(np.int64), self.count - 1)
        part = np.bincount(place, step * (place + 1 - at), self.count)
        means: FloatArray = part.astype(np.float64)
        means[1:] += np.cumsum(np.bincount(place, step, self.count))[:-1]
        return means


def bins_of(window_s: float) -> TimeBins:
    """Return bins of a minute, or as many as are planned with at most, of a longer window."""
    return TimeBins(window_s, min(MOST_BINS, math.ceil(window_s / BIN_S)))


@dataclass(frozen=True, slots=True)
class ServiceLoad:
    """GPUs that services hold beside the jobs: a step function that repeats until the log ends.

    Attributes:
        time_s: when it changes, ascending from 0; shape (k,).
        gpus: held from then on; shape (k,).
        horizon_s: length of a period.
    """

    time_s: FloatArray
    gpus: FloatArray
    horizon_s: float

    def means(self, bins: TimeBins) -> FloatArray:
        """Return the exact mean per bin; the first bin begins with a period."""
        step_s = np.concatenate((self.time_s, [self.horizon_s]))
        area = np.concatenate(([0.0], np.cumsum(np.diff(step_s) * self.gpus)))
        periods, rest_s = np.divmod(bins.edges_s, self.horizon_s)
        before = np.interp(rest_s, step_s, area, left=0.0)
        result: FloatArray = np.diff(periods * area[-1] + before) / bins.bin_s
        return result

    def intervals(self, bins: TimeBins) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return begins, ends and GPUs whose sum in each bin is its mean, up to whole GPUs."""
        held = np.ceil(self.means(bins) - ROUNDING).astype(np.int64)
        begins, ends, gpus = [], [], []
        open_: list[tuple[int, int]] = []  # (first bin, GPUs), the latest last
        for at, (before, now) in enumerate(zip([0, *held], [*held, 0], strict=True)):
            if now > before:
                open_.append((at, int(now - before)))
            drop = int(before - now)
            while drop > 0:
                first, count = open_.pop()
                ended = min(count, drop)
                begins.append(first)
                ends.append(at)
                gpus.append(ended)
                drop -= ended
                if count > ended:
                    open_.append((first, count - ended))
        order = np.argsort(begins, kind="stable")
        begin, end = (np.array(bin_, np.float64)[order] * bins.bin_s for bin_ in (begins, ends))
        return begin, end, np.array(gpus, np.int64)[order]


@dataclass(frozen=True, slots=True)
class PlannedJobs:
    """Jobs that ran on GPUs, in order of submission; arrays have shape (n,).

    Attributes:
        submit_s: seconds after the first submission, ascending.
        run_s: recorded run time.
        gpus: that each held; may be a fraction.
        wait_s: recorded wait; NaN where it is unknown.
        label: what tells their classes apart.
        gpu_type: empty where the log names none.
        is_spot: whether each may run on spot GPUs.
        is_deferred: whether each may wait for idle GPUs that are paid for.
        left_out: jobs of the log that did not run, or held no GPU.
        still_running: jobs whose run time is only what the log saw of it, and their GPU-hours.
        labelled_by: column of the labels; ``all`` for one label.
        begin_us: the first submission, microseconds since 1970.
    """

    submit_s: FloatArray
    run_s: FloatArray
    gpus: FloatArray
    wait_s: FloatArray
    label: pl.Series
    gpu_type: pl.Series
    is_spot: BoolArray
    is_deferred: BoolArray
    left_out: int = 0
    still_running: tuple[int, float] = (0, 0.0)
    labelled_by: str = ALL
    begin_us: int = 0

    @property
    def size(self) -> int:
        """How many there are."""
        return self.submit_s.size

    @property
    def recorded_s(self) -> FloatArray:
        """From submission to the end, as recorded; a wait that is not recorded counts as none."""
        result: FloatArray = np.nan_to_num(self.wait_s) + self.run_s
        return result

    @property
    def window_s(self) -> float:
        """From the first submission to the last recorded end."""
        return float((self.submit_s + self.recorded_s).max())

    def first(self, count: int) -> PlannedJobs:
        """Return the first jobs alone."""
        arrays = ("submit_s", "run_s", "gpus", "wait_s", "label", "gpu_type")
        kept = {name: getattr(self, name)[:count] for name in (*arrays, "is_spot", "is_deferred")}
        return replace(self, **kept)

    @property
    def gpu_s(self) -> FloatArray:
        """GPU-seconds of each, as recorded."""
        return self.gpus * self.run_s


def jobs_of_trace(
    trace: Trace, *, by: str | None = None, spot: str | None = None, defer: str | None = None
) -> PlannedJobs:
    """Return the jobs of a trace that ran on GPUs.

    Args:
        trace: with `COLUMNS`, and the columns that the conditions name.
        by: ``class``, ``group``, ``user``, ``type``, another column, or ``all``; None for the
            first of job class and group that any job has.
        spot, defer: SQL conditions; None for no such job. A job of both is deferred.

    Raises:
        InputError: no job ran on GPUs, or they took no time.
        UsageError: a condition cannot be read or matches no job, or there is no such column.
    """
    jobs = trace.jobs
    ran = (
        (pl.col("num_gpus") > 0)
        & pl.col("duration_s").is_not_null()
        & (pl.col("state") != "not_started").fill_null(True)
    )
    kept = jobs.filter(ran)
    if kept.is_empty():
        raise InputError(
            trace.path,
            "no job ran on GPUs, so there is nothing to plan for",
            column="duration_s",
            expected="jobs with num_gpus above 0 and a run time",
            hint="loosen --where, or map the run times: gpuplan ingest LOG --map duration_s=COLUMN",
        )
    conditions = {"--spot": spot, "--defer": defer}
    is_spot, is_deferred = (
        _matches(kept, condition, option) for option, condition in conditions.items()
    )
    label, labelled_by = _labels(kept, by)
    submit_us = kept["submit_time"].dt.epoch("us").to_numpy()
    waits = (
        kept["queue_s"] if "queue_s" in kept.columns else pl.repeat(None, kept.height, eager=True)
    )
    running = kept.filter(IS_RUNNING)
    planned = PlannedJobs(
        submit_s=(submit_us - submit_us[0]) / MICROS,
        run_s=kept["duration_s"].cast(pl.Float64).to_numpy(),
        gpus=kept["num_gpus"].cast(pl.Float64).to_numpy(),
        wait_s=waits.cast(pl.Float64).fill_null(float("nan")).to_numpy(),
        label=label,
        gpu_type=kept["gpu_type"].cast(pl.String).fill_null(""),
        is_spot=is_spot & ~is_deferred,
        is_deferred=is_deferred,
        left_out=jobs.height - kept.height,
        still_running=(
            running.height,
            float((running["num_gpus"] * running["duration_s"]).sum()) / HOUR_S,
        ),
        labelled_by=labelled_by,
        begin_us=int(submit_us[0]),
    )
    if round(planned.window_s * MICROS) <= 0:
        raise InputError(
            trace.path,
            "all jobs are submitted at once and take no time, so there are no GPUs to plan",
            column="duration_s",
            expected="at least one run time above 0",
        )
    return planned


def _matches(jobs: pl.DataFrame, condition: str | None, option: str) -> BoolArray:
    if condition is None:
        return np.zeros(jobs.height, bool)
    predicate = read_condition(condition, jobs.lazy(), option)
    # with_columns: one value, as of 'true', stands for every job.
    marked = jobs.with_columns(predicate.fill_null(False).alias("matches"))
    matching: BoolArray = marked["matches"].to_numpy()
    if not matching.any():
        raise UsageError(
            f"{option} {condition!r}: matches none of the {jobs.height:,} jobs\n"
            f"  next: a condition on what the log has, or no {option}"
        )
    return matching.copy()


def _labels(jobs: pl.DataFrame, by: str | None) -> tuple[pl.Series, str]:
    """Return the label of each job, and the column that it is of."""
    column = BY.get(by, by) if by is not None else None
    if column is None:
        filled = (name for name in LABELS if name in jobs.columns and _has_any(jobs[name]))
        column = next(filled, ALL)
    if column == ALL:
        return pl.repeat(ALL, jobs.height, dtype=pl.String, eager=True), ALL
    if column not in jobs.columns:
        raise UsageError(
            f"--by {by}: the log has no column {column!r}\n"
            "  next: --by class, group, user, type or all, or a column that --map fills"
        )
    label = jobs[column].cast(pl.String).fill_null("")
    return label.replace({"": NONE}), column


def _has_any(column: pl.Series) -> bool:
    return bool((column.cast(pl.String).fill_null("") != "").any())


def codes_of(values: pl.Series) -> tuple[list[str], IntArray]:
    """Return the distinct texts in order, and the place of each value among them."""
    names = values.unique().sort().to_list()
    places = values.replace_strict(names, range(len(names)), return_dtype=pl.Int64)
    return names, places.to_numpy()
