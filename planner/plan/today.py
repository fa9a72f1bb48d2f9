"""What the jobs cost as recorded: GPUs owned and committed to today, and the rest on demand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.market_use import held_between


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
    jobs = columns.jobs
    start_s = jobs.submit_s + np.nan_to_num(jobs.wait_s)
    types = jobs.gpu_type.to_numpy()
    edges_s = np.arange(columns.bins.count + 1) * columns.bins.bin_s
    usd_per_h = 0.0
    for number, (gpu_type, market) in enumerate(zip(columns.types, columns.markets, strict=True)):
        rows = types == gpu_type
        held = held_between(
            np.append(start_s[rows], edges_s[:-1]),
            np.append((start_s + jobs.run_s)[rows], edges_s[1:]),
            np.append(jobs.gpus[rows], columns.service_gpus[number]),
            begin_s,
            columns.bins.window_s if end_s is None else end_s,
        )
        above_us = held.levels.gpu_us(None) - held.levels.gpu_us(Fraction(market.standing_today))
        if above_us and market.on_demand_usd is None:
            return None
        usd_per_h += float(above_us / held.window_us) * (market.on_demand_usd or 0.0)
        usd_per_h += market.today_usd_per_h
    return usd_per_h
