"""What the jobs cost as recorded: GPUs owned and committed to today, and the rest on demand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.money.gpus_in_use import GpusInUse
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.market_use import held_between, use_of
from gpuplan.simkit.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class TermToday:
    """A commitment of a price book that is in force at the end of the log.

    Attributes:
        gpus: how many.
        usd_per_gpu_h: paid for each hour of each.
        begin, until: of it, in UTC; null where the book has no date.
    """

    gpus: int
    usd_per_gpu_h: float
    begin: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class CommittedToday:
    """GPUs of a type under commitments in force at the end of the log.

    Attributes:
        gpu_type: as the log names it.
        gpus: how many.
        usd_per_month: that they cost, used or not.
        until: the day on which the last of them ends; empty where none is known.
        terms: each of them; empty where they are not of a price book.
    """

    gpu_type: str
    gpus: int
    usd_per_month: float
    until: str
    terms: Hidden[tuple[TermToday, ...]] = ()


def recorded_usd_per_h(
    columns: RouteColumns, begin_s: float = 0.0, end_s: float | None = None
) -> float | None:
    """Return dollars an hour of the jobs as recorded, at the prices of the plan, exact in time.

    Commitments of today are paid for, used or not, and what is above them and the owned GPUs is on
    demand. Commitments that an older plan made stand in for those of the price book.

    Args:
        columns: of all jobs.
        begin_s, end_s: only the time between counts, seconds after the first submission; an end of
            None is that of the window.

    Returns:
        None where GPUs above these have no price on demand.
    """
    window_s = columns.bins.window_s if end_s is None else end_s
    usd_per_h = 0.0
    for market, held in zip(
        columns.markets, _held(columns, _recorded_start_s(columns), begin_s, window_s), strict=True
    ):
        above_usd = _above_usd_per_h(held, market.standing_today, market.on_demand_usd)
        if above_usd is None:
            return None
        usd_per_h += above_usd + market.today_usd_per_h
    return usd_per_h


def at_once_usd_per_h(columns: RouteColumns) -> float | None:
    """Return dollars an hour of every job started at once, as wide as recorded, exact in time.

    What is above the owned GPUs and the terms that go on is on demand; deferred jobs do not wait.

    Returns:
        None where a type cannot be rented.
    """
    usd_per_h = 0.0
    held_of = _held(columns, columns.jobs.submit_s, 0.0, columns.bins.window_s)
    for market, held in zip(columns.markets, held_of, strict=True):
        above_usd = _above_usd_per_h(held, market.standing, market.on_demand_usd)
        if above_usd is None or market.on_demand_usd is None:
            return None
        usd_per_h += above_usd + market.held_usd_per_h
    return usd_per_h


def recorded_gpus(columns: RouteColumns) -> tuple[float, float]:
    """Return the mean and the peak of the GPUs of jobs as recorded, exact in time.

    Services and deferred jobs are left out.
    """
    jobs, start_s = columns.jobs, _recorded_start_s(columns)
    rows = ~jobs.is_deferred
    held = held_between(
        start_s[rows], (start_s + jobs.run_s)[rows], jobs.gpus[rows], 0.0, columns.bins.window_s
    )
    used = use_of("", "", held)
    return used.mean_gpus, used.peak_gpus


def _recorded_start_s(columns: RouteColumns) -> FloatArray:
    """Return when jobs started; at their submission where the wait is not known."""
    start_s: FloatArray = columns.jobs.submit_s + np.nan_to_num(columns.jobs.wait_s)
    return start_s


def _held(
    columns: RouteColumns, start_s: FloatArray, begin_s: float, end_s: float
) -> list[GpusInUse]:
    """Return the GPUs of each type that jobs and services hold, of jobs that start at some time."""
    jobs = columns.jobs
    edges_s = columns.bins.edges_s
    held = []
    for number, _, _, rows in columns.by_type():
        of_type = held_between(
            np.append(start_s[rows], edges_s[:-1]),
            np.append((start_s + jobs.run_s)[rows], edges_s[1:]),
            np.append(jobs.gpus[rows], columns.service_gpus[number]),
            begin_s,
            end_s,
        )
        held.append(of_type)
    return held


def _above_usd_per_h(held: GpusInUse, standing: float, usd_per_gpu_h: float | None) -> float | None:
    """Return dollars an hour of what is above some GPUs; None if there is, and it has no price."""
    above_us = held.levels.gpu_us(None) - held.levels.gpu_us(Fraction(standing))
    if above_us and usd_per_gpu_h is None:
        return None
    return float(above_us / held.window_us) * (usd_per_gpu_h or 0.0)
