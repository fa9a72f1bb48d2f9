"""What the jobs cost as recorded: GPUs owned and committed to today, and the rest on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.market_use import held_between, use_of
from gpuplan.planner.plan.plan_file import PlanCommitment
from gpuplan.simkit.arrays import FloatArray


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
    terms: Hidden[tuple[PlanCommitment, ...]] = ()


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
    standing = [(market.standing_today, market.today_usd_per_h) for market in columns.markets]
    window_s = columns.bins.window_s if end_s is None else end_s
    return _usd_per_h(columns, _recorded_start_s(columns), standing, begin_s, window_s)


def at_once_usd_per_h(columns: RouteColumns) -> float | None:
    """Return dollars an hour of every job started at once, as wide as recorded, exact in time.

    What is above the owned GPUs and the terms that go on is on demand; deferred jobs do not wait.

    Returns:
        None where a type cannot be rented.
    """
    if any(market.on_demand_usd is None for market in columns.markets):
        return None
    standing = [(market.standing, market.held_usd_per_h) for market in columns.markets]
    return _usd_per_h(columns, columns.jobs.submit_s, standing, 0.0, columns.bins.window_s)


def recorded_gpus(columns: RouteColumns) -> tuple[float, float]:
    """Return the mean and the peak of the GPUs of jobs as recorded, exact in time."""
    jobs, start_s = columns.jobs, _recorded_start_s(columns)
    held = held_between(start_s, start_s + jobs.run_s, jobs.gpus, 0.0, columns.bins.window_s)
    used = use_of("", "", held)
    return used.mean_gpus, used.peak_gpus


def _recorded_start_s(columns: RouteColumns) -> FloatArray:
    """Return when jobs started; at their submission where the wait is not known."""
    start_s: FloatArray = columns.jobs.submit_s + np.nan_to_num(columns.jobs.wait_s)
    return start_s


def _usd_per_h(
    columns: RouteColumns,
    start_s: FloatArray,
    standing: Sequence[tuple[float, float]],
    begin_s: float,
    end_s: float,
) -> float | None:
    """Return dollars an hour of jobs that start at some time, and of services, between two times.

    Args:
        columns: of all jobs.
        start_s: of each job.
        standing: GPUs of each type that are there, and the dollars an hour that they cost.
        begin_s, end_s: the times.

    Returns:
        None where GPUs above those that are there have no price on demand.
    """
    jobs, edges_s = columns.jobs, columns.bins.edges_s
    usd_per_h = 0.0
    for number, _, market, rows in columns.by_type():
        held = held_between(
            np.append(start_s[rows], edges_s[:-1]),
            np.append((start_s + jobs.run_s)[rows], edges_s[1:]),
            np.append(jobs.gpus[rows], columns.service_gpus[number]),
            begin_s,
            end_s,
        )
        gpus, standing_usd_per_h = standing[number]
        above_us = held.levels.gpu_us(None) - held.levels.gpu_us(Fraction(gpus))
        if above_us and market.on_demand_usd is None:
            return None
        above_usd_per_h = float(above_us / held.window_us) * (market.on_demand_usd or 0.0)
        usd_per_h += above_usd_per_h + standing_usd_per_h
    return usd_per_h
