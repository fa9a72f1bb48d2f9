"""Add up waste: by kind, user, group, class and partition, with dollars by the price book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import HOUR_US, MONTH_H
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waste.kinds import (
    FAILED,
    FAILED_UNKNOWN,
    HAS_STATE,
    IDLE,
    IDLE_ENDS,
    KINDS,
    LOW,
    PARTLY_IDLE,
    UNKNOWN,
    column_of,
)
from gpuplan.planner.money.bill import NO_LABEL
from gpuplan.planner.money.bill_today import todays_bill
from gpuplan.planner.money.price_book import Prices
from gpuplan.simkit.arrays import FloatArray, IntArray

DOING_NOTHING = (IDLE, IDLE_ENDS, PARTLY_IDLE)
"""Kinds of GPU-hours in which GPUs did nothing."""
OF_STATE = (FAILED, UNKNOWN)
"""Kinds that the log tells of each job, with figures of use or without."""
LEAST_KNOWN_H = 1e-9
"""GPU-hours with figures that are more than rounding."""
GROUPINGS = {"users": "user", "groups": "group", "classes": "job_class", "partitions": "partition"}
"""Name of the rows -> the column of the trace."""


@dataclass(frozen=True, slots=True)
class WasteKind:
    """GPU-hours of one kind.

    Attributes:
        name: ``idle`` (no GPU of the job was ever used), ``idle_ends`` (idle for long at the begin
            or the end), ``partly_idle`` (GPUs never used beside others), ``low_utilization``,
            ``failed`` (failed or timed out, with figures of use or without), or ``unknown``:
            nothing is known of them.
        jobs: with any of it.
        gpu_h: GPU-hours in the log.
        share: of the GPU-hours whose use is known, null where none is; of ``failed`` and
            ``unknown`` of all GPU-hours; of ``failed`` null where the log has no states.
        usd: what they cost in the log; null without a price, or where ``share`` is.
        usd_per_month: the same in a month of 730.5 hours.
    """

    name: str
    jobs: int
    gpu_h: float
    share: float | None
    usd: float | None
    usd_per_month: float | None

    @property
    def is_known(self) -> bool:
        """Whether the log could tell of any."""
        return self.share is not None


@dataclass(frozen=True, slots=True)
class WasteRow:
    """The waste of one user, group, class or partition.

    Attributes:
        name: of it; ``(none)`` where the log names none.
        jobs: that hold GPUs.
        idle_jobs: of them, those with GPUs that did nothing.
        gpu_h: GPU-hours held.
        idle_gpu_h: GPU-hours in which GPUs did nothing.
        low_gpu_h, unknown_gpu_h: of these kinds.
        failed_gpu_h: of this kind; null where the log has no states.
        share: ``idle_gpu_h`` over the GPU-hours whose use is known; null where none is.
        usd: what ``idle_gpu_h`` cost in the log; null without a price, or where ``share`` is.
        usd_per_month: the same in a month of 730.5 hours.
    """

    name: str
    jobs: int
    idle_jobs: int
    gpu_h: float
    idle_gpu_h: float
    low_gpu_h: float
    failed_gpu_h: float | None
    unknown_gpu_h: float
    share: float | None
    usd: float | None
    usd_per_month: float | None


@dataclass(frozen=True, slots=True)
class WasteTable:
    """What each job of a log wasted; arrays of shape (n,).

    Attributes:
        jobs: of the log.
        kinds: as `gpuplan.analysis.waste.kinds.kinds_of_waste` returns them.
        usd: dollars of a GPU-hour of each job; None without a price.
        months: that the log lasts, of 730.5 hours.
    """

    jobs: pl.DataFrame
    kinds: pl.DataFrame
    usd: FloatArray | None
    months: float

    def hours(self, *kinds: str) -> FloatArray:
        """Return the GPU-hours of each job of some kinds, each GPU-hour in one kind.

        The state of a job is known without its use: what failed without figures is `FAILED`.
        """
        hours: FloatArray = np.zeros(self.kinds.height)
        for kind in kinds:
            hours = hours + self.kinds[column_of(kind)].to_numpy()
        failed_unknown: FloatArray = self.kinds[FAILED_UNKNOWN].to_numpy()
        return hours + failed_unknown * ((FAILED in kinds) - (UNKNOWN in kinds))

    @property
    def held(self) -> FloatArray:
        """The GPU-hours of each job."""
        held: FloatArray = self.kinds["held_gpu_h"].to_numpy()
        return held

    @property
    def without_figures(self) -> FloatArray:
        """The GPU-hours of each job without figures of use, whatever became of the job."""
        hours: FloatArray = self.kinds[column_of(UNKNOWN)].to_numpy()
        return hours

    @property
    def has_states(self) -> bool:
        """Whether the log says of any job that held GPUs how it ended."""
        return self.stateless()[0] < int(np.count_nonzero(self.held > 0))

    def stateless(self) -> tuple[int, float]:
        """Return the jobs of which the log has no state, and the GPU-hours that they held."""
        without = ~self.kinds[HAS_STATE].to_numpy() & (self.held > 0)
        return int(np.count_nonzero(without)), float(self.held[without].sum())

    def dollars(self, hours: FloatArray) -> tuple[float | None, float | None]:
        """Return what GPU-hours of the jobs cost in the log and a month; None without a price."""
        return (None, None) if self.usd is None else self._with_month(float(hours @ self.usd))

    def _with_month(self, usd: float) -> tuple[float, float | None]:
        return usd, usd / self.months if self.months else None

    def by_kind(self) -> tuple[WasteKind, ...]:
        """Return the kinds in their order, the unknown last."""
        held = float(self.held.sum())
        known_h = held - float(self.without_figures.sum())
        rows = []
        for kind in (*KINDS, UNKNOWN):
            hours = self.hours(kind)
            base_h = held if kind in OF_STATE else known_h
            total = float(hours.sum())
            is_known = base_h > LEAST_KNOWN_H and (kind != FAILED or self.has_states)
            usd, usd_per_month = self.dollars(hours) if is_known else (None, None)
            rows.append(
                WasteKind(
                    kind, int(np.count_nonzero(hours > 0)), total,
                    total / base_h if is_known else None, usd, usd_per_month,
                )
            )  # fmt: skip
        return tuple(rows)

    def by(self, column: str) -> tuple[WasteRow, ...]:
        """Return the waste by a column, most idle GPU-hours first; nothing where it is empty."""
        if column not in self.jobs.columns:
            return ()
        named = self.jobs[column].cast(pl.String)
        if named.null_count() == len(named):
            return ()
        codes, names = name_codes(named)
        labels = [*map(str, names.to_list()), NO_LABEL]
        code = codes.astype(np.int64)
        idle = self.hours(*DOING_NOTHING)
        usd = None if self.usd is None else idle * self.usd
        sums = [
            np.bincount(code, weights=each, minlength=len(labels))
            for each in (
                self.held > 0, idle > 0, self.held, idle, self.hours(LOW), self.hours(FAILED),
                self.hours(UNKNOWN), self.without_figures,
                np.zeros(idle.size) if usd is None else usd,
            )
        ]  # fmt: skip
        rows, has_states = [], self.has_states
        for place, name in enumerate(labels):
            jobs, idle_jobs, held, idle_h, low, failed, unknown, uncovered, paid = (
                float(each[place]) for each in sums
            )
            if not jobs:
                continue
            known_h = held - uncovered
            is_known = known_h > LEAST_KNOWN_H
            has_dollars = usd is not None and is_known
            rows.append(
                WasteRow(
                    name, int(jobs), int(idle_jobs), held, idle_h, low,
                    failed if has_states else None, unknown,
                    idle_h / known_h if is_known else None,
                    *(self._with_month(paid) if has_dollars else (None, None)),
                )
            )  # fmt: skip
        return tuple(sorted(rows, key=lambda row: (-row.idle_gpu_h, -row.gpu_h, row.name)))


def usd_of_jobs(trace: Trace, prices: Prices) -> FloatArray:
    """Return the dollars of a GPU-hour of each job: what its type costs in the mean of the bill.

    Args:
        trace: with the columns of a bill.
        prices: the price book.

    Raises:
        UsageError: a GPU type without a price.
    """
    codes, names = name_codes(trace.jobs["gpu_type"])
    types: list[str | None] = [*map(str, names.to_list()), None]
    code: IntArray = codes.astype(np.int64)
    arrays = trace.arrays()
    held = np.bincount(code, weights=arrays.gpu_s, minlength=len(types))
    used = [name for name, hours in zip(types, held.tolist(), strict=True) if hours > 0]
    prices.check(used)
    if prices.is_flat(used):
        rates: Mapping[str | None, float] = {name: prices.usd(name) or 0.0 for name in used}
    else:
        rates = _mean_rates(trace, prices, types, held.tolist())
    each = np.array([rates.get(name, 0.0) for name in types])
    usd: FloatArray = each[code]
    return usd


def _mean_rates(
    trace: Trace, prices: Prices, types: Sequence[str | None], held_s: Sequence[float]
) -> dict[str | None, float]:
    """Return dollars per GPU-hour held by type, of a bill with pools or dated prices."""
    bill = todays_bill(trace, "gpu_type", prices).of_labels()
    begin, end = trace.arrays().window_us()
    months = (end - begin) / HOUR_US / MONTH_H
    rates: dict[str | None, float] = {}
    for name, seconds in zip(types, held_s, strict=True):
        label = UNNAMED if name is None else name
        if seconds > 0:
            rates[name] = bill.get(label, 0.0) * months / (seconds / 3600)
    return rates
