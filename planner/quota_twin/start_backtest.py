"""How well starts of workloads of a dump of Kueue would have been forecast."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.planner.parallel import run_all
from gpuplan.planner.quota.model import QuotaModel
from gpuplan.planner.quota_twin.instant import QuotaInstant, quota_instant
from gpuplan.planner.quota_twin.start_replays import NewWorkload, quota_start_replays
from gpuplan.planner.site.backtest import (
    HISTORY,
    HISTORY_DAYS,
    LEAST_JOBS,
    STILL_WAITING_DAYS,
    BacktestPlan,
    PastForecast,
    StartBacktest,
    as_many_of_each_size,
    scored,
    waits_of,
)

CYCLE_S = 10
"""About as long as Kueue takes to look at a workload again."""
WAITED_S = 60
"""Workloads that waited no longer count in no interval."""
AT_ONCE_S = 300
"""A workload that starts within this has started at once."""
LEAST_AGE = 0.2
"""Share of a dump at its end of which only the workloads that waited little have started, where
that is shorter than `STILL_WAITING_DAYS`."""


def quota_backtest(
    log: KueueLog, document: QuotaDocument, model: QuotaModel, instant: QuotaInstant, level: str,
    plan: BacktestPlan, progress: Callable[[float], None] | None = None,
) -> StartBacktest | None:  # fmt: skip
    """Return how well starts before an instant would have been forecast.

    Args:
        log: the dump. ``document``: the site. ``model``: the same as the simulator takes it.
        instant: what is known; nothing later is used.
        level: the rules that count.
        plan: how to test.
        progress: called with the share done.

    Returns:
        None where there are fewer than `LEAST_JOBS` workloads that can be used.
    """
    rows = scored_workloads(instant, plan)
    if len(rows) < LEAST_JOBS:
        return None
    every = scored_workloads(instant, plan, least_s=0)
    names = instant.jobs["job_id"]
    items = [(row, names[row]) for row in dict.fromkeys((*rows, *every))]
    shared = (log, document, model, instant, level, plan)
    forecasts = run_all(_forecast, items, shared=shared, progress=progress)
    until = int(instant.jobs["submit"][rows].max())  # type: ignore[arg-type]
    by_row = dict(zip((row for row, _ in items), forecasts, strict=True))
    tested = scored([by_row[row] for row in rows], plan.replays, until)
    return with_at_once(tested, [by_row[row] for row in every])


def with_at_once(tested: StartBacktest, forecasts: list[PastForecast]) -> StartBacktest:
    """Return a test with how many that were forecast to start at once did so.

    Args:
        tested: the test.
        forecasts: of workloads that waited or not, as the site has them.
    """
    last = math.ceil((1 - tested.tail) * (tested.replays - 1))
    waits = np.array([each.wait_s for each in forecasts if each.at_once > last])
    if waits.size < LEAST_JOBS:
        return tested
    share = float((waits <= AT_ONCE_S).mean())
    return replace(tested, at_once_jobs=int(waits.size), at_once_share=share)


def scored_workloads(
    instant: QuotaInstant, plan: BacktestPlan, least_s: int = WAITED_S + 1
) -> list[int]:
    """Return positions of workloads to forecast: as many of each size, those that waited.

    ``least_s`` is how long they waited at least; 0 takes those that did not wait too.
    Left out are workloads whose first start the dump has forgotten.
    """
    span = instant.at - instant.first
    begins = instant.first + min(HISTORY * span, HISTORY_DAYS * DAY_S)
    ends = instant.at - min(LEAST_AGE * span, STILL_WAITING_DAYS * DAY_S)
    chosen = (
        pl.col("start").is_not_null()
        & pl.col("is_first")
        & pl.col("submit").is_between(begins, ends)
        & (pl.col("start") >= pl.col("submit") + least_s)
    )
    rows = np.flatnonzero(instant.jobs.select(chosen.fill_null(False)).to_series().to_numpy())
    sampled = as_many_of_each_size(instant.jobs["gpus"].to_numpy()[rows], plan.jobs, plan.seed)
    return [int(row) for row in rows[sampled]]


def _forecast(
    item: tuple[int, str], log: KueueLog, document: QuotaDocument, model: QuotaModel,
    last: QuotaInstant, level: str, plan: BacktestPlan,
) -> PastForecast:  # fmt: skip
    """Return the forecast of a workload from what was known when it was created."""
    row, name = item
    job: dict[str, Any] = last.jobs.row(row, named=True)
    quota = last.work.quota
    new = NewWorkload(
        int(quota.queue[row]), int(quota.priority[row]), quota.shapes[int(quota.pods[row])]
    )
    instant = quota_instant(log, document, model, job["submit"], without=name)
    tables = quota_start_replays(instant, model, level, [new])
    waits = waits_of(tables, 0, plan.seed, range(plan.replays))
    wait = job["start"] - job["submit"]
    past = instant.jobs.select((pl.col("start") - pl.col("submit")).clip(0).mean()).item()
    return PastForecast.of(waits, wait, CYCLE_S, float(past or 0.0))
