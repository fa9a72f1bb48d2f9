"""When a workload would have its quota at a site of Kueue, and what would start sooner.

A backtest says how well past starts would have been forecast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from msgspec import structs

from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.analysis.storage.cache import key_of
from gpuplan.planner.parallel import run_all
from gpuplan.planner.quota.model import QuotaModel, quota_model
from gpuplan.planner.quota_twin.calibrate import HELD_BY_OTHERS
from gpuplan.planner.quota_twin.instant import QuotaInstant, quota_instant
from gpuplan.planner.quota_twin.new_workload import QUEUE, QuotaSubmitter
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
    day_of,
    kept,
    scored,
    waits_of,
)
from gpuplan.planner.site.eta import EtaPlan, EtaResults, eta_results, local_time
from gpuplan.planner.site.new_job import JobWish

CYCLE_S = 10
"""About as long as Kueue takes to look at a workload again."""
WAITED_S = 60
"""Workloads that waited no longer count in no interval."""
AT_ONCE_S = 300
"""A workload that starts within this has started at once."""
LEAST_AGE = 0.2
"""Share of a dump at its end of which only the workloads that waited little have started, where
that is shorter than `STILL_WAITING_DAYS`."""
NOT_MODELED = (
    "not modeled: admission checks, topology, node failures to come, and that others react; the "
    "start is the reservation of quota"
)
DRAWN = (
    "run times of unfinished workloads are sampled from similar past workloads; later arrivals are "
    "those of past weeks"
)


@dataclass(frozen=True, slots=True)
class ForecastPlan:
    """How to forecast.

    Attributes:
        wish: the workload.
        at: the second at which it is submitted; None for the end of the dump.
        replays, seed: of the forecast.
        test: the backtest to make; ``is_kept``: whether the cache, or the settings, may have it.
        settings_sha256: of the file of settings.
    """

    wish: JobWish
    at: int | None
    replays: int
    seed: int
    test: BacktestPlan
    is_kept: bool
    settings_sha256: str


@dataclass(frozen=True, slots=True)
class QuotaForecast:
    """When a workload would start, and what the user should know, one sentence each."""

    results: EtaResults
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def quota_forecast(
    log: KueueLog, document: QuotaDocument, calibration: CalibrationTable, plan: ForecastPlan,
    progress: Callable[[float], None], tests: Callable[[float], None],
) -> QuotaForecast:  # fmt: skip
    """Replay a site of Kueue from an instant on until a workload has its quota.

    Args:
        log: the dump. ``document``: the site. ``calibration``: the rules that count.
        plan: how to forecast.
        progress, tests: called with the share done of the forecast, and of its backtest.

    Raises:
        InputError: no workload is of the site.
        UsageError: the workload names what the site does not have, or can never start.
    """
    model, level = quota_model(document), calibration.level
    instant = quota_instant(log, document, model, plan.at)
    submitter = QuotaSubmitter(model, instant)
    job, assumed = submitter.job(plan.wish)
    alternatives = submitter.alternatives(job)
    new = [submitter.workload(each) for each in (job, *(other.job for other in alternatives))]
    tables = quota_start_replays(instant, model, level, new)
    tested: StartBacktest | None = None
    stored = calibration.eta

    def test(at: int | None = plan.at) -> StartBacktest | None:
        before = instant if at == plan.at else quota_instant(log, document, model, at)
        return quota_backtest(log, document, model, before, level, plan.test, tests)

    if instant.finished.is_empty():
        pass  # nothing tells how long workloads run
    elif not plan.is_kept:
        tested = test()
    elif stored is not None and stored.until <= instant.at:
        tested = StartBacktest(**structs.asdict(stored))
    else:
        day = day_of(instant.at, instant.first)
        key = key_of(
            "start-backtest-at-once", log=log.sha256, settings=plan.settings_sha256, day=day,
            plan={"jobs": plan.test.jobs, "replays": plan.test.replays, "seed": plan.test.seed},
        )  # fmt: skip
        tested = kept(key, lambda: test(day))
    results = eta_results(
        tables, instant, job, alternatives,
        EtaPlan(plan.replays, plan.seed, CYCLE_S, level, "UTC", QUEUE), tested, progress,
    )  # fmt: skip
    if not calibration.explains_waits:
        results = _widened(results, instant)
    warnings = [*log.warnings]
    if tested is None:
        warnings.append("how often such intervals hold is unknown: too few past jobs to test")
    warnings.extend(outlasting_warnings(instant))
    if tables.unplaced:
        warnings.append(
            f"{counted(tables.unplaced, 'running workload')} do not fit the quotas of the "
            "settings and are left out"
        )
    if forgotten := int((~instant.jobs["is_first"]).sum()):
        warnings.append(
            f"{counted(forgotten, 'workload')} evicted before: the dump keeps only their last "
            "start, so that earlier instants show them as waiting"
        )
    return QuotaForecast(
        results,
        tuple(warnings),
        (
            *(f"assumed {text}" for text in assumed),
            *instant.work.notes,
            *(() if instant.finished.is_empty() else (DRAWN,)),
            NOT_MODELED,
        ),
    )


def outlasting_warnings(instant: QuotaInstant) -> list[str]:
    """Return a warning where the end of running workloads is only assumed."""
    outlasting = instant.jobs.filter(pl.Series(instant.is_outlasting))
    if outlasting.is_empty():
        return []
    is_one = outlasting.height == 1
    gpus = counted(int(outlasting["gpus"].sum()), "GPU")
    have, they_last = ("has", "it lasts") if is_one else ("have", "they last")
    return [
        f"{counted(outlasting.height, 'running workload')} ({gpus}) {have} run longer than any "
        f"that ended; the forecast assumes that {they_last} about as long again (median)"
    ]


def _widened(results: EtaResults, instant: QuotaInstant) -> EtaResults:
    """Return a forecast whose interval holds the recorded waits too, with why."""
    started = instant.jobs.filter(pl.col("start").is_not_null())
    of_queue = started.filter(pl.col("queue") == results.job.partition)
    waits = (of_queue if of_queue.height else started).select(
        (pl.col("start") - pl.col("submit")).clip(0)
    )
    doubt = f"The rules explain none of the recorded waits. {HELD_BY_OTHERS}"
    if waits.is_empty():
        return replace(results, doubt=doubt)
    low, high = (int(wait) for wait in np.quantile(waits.to_series().to_numpy(), (0.1, 0.9)))
    p10 = None if results.p10_s is None else min(results.p10_s, low)
    p90 = None if results.p90_s is None else max(results.p90_s, high)
    return replace(
        results,
        doubt=f"{doubt} The interval holds those waits.",
        p10_s=p10,
        p90_s=p90,
        p10_at=None if p10 is None else local_time(instant.at + p10, results.zone),
        p90_at=None if p90 is None else local_time(instant.at + p90, results.zone),
    )


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
