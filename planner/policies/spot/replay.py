"""Replay a trace under a policy that lends GPUs as spot: settings to pools to results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl
from msgspec import UNSET

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.forecast.demand import MOST_HOURS
from gpuplan.planner.policies.cluster_replay import ClusterReplay, replay_settings, replayed
from gpuplan.planner.policies.spot.lending import demand_bound_by_hour, hourly_demand
from gpuplan.planner.policies.spot.pools import SpotPool, SpotPools, loads_of, pools_of, tenants_of
from gpuplan.planner.policies.spot.results import LendingResults
from gpuplan.planner.policies.spot.run import (
    LentRun,
    joined,
    kept_share,
    quota_results,
    spot_results,
    starving,
    tenant_results,
)
from gpuplan.planner.policies.spot.settings import SPOT_PRICE_SHARE, scheduler_with, settings_of
from gpuplan.planner.runs.panels import FACTOR, GPUS, JOBS, Panel, TimeLines, usage_frame
from gpuplan.planner.runs.settings import FEWER_JOBS, SettingError
from gpuplan.planner.runs.simulation import RunBill, Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import FloatArray, IntArray, distinct
from gpuplan.simkit.spot.parameters import SpotScheduler
from gpuplan.simkit.spot.pool import MILLI
from gpuplan.simkit.spot.simulator import SpotRun, TooManyRuns, simulate_spot
from gpuplan.simkit.time import MICROS

MOST_NAMED = 5
MOST_UPDATES = 5_000_000
"""Updates of the quota in a replay: a year has 105,120 of 5 minutes."""
AFTER_H = 25
"""Hours after the last demand in which forecasts still count."""


def simulate(
    jobs: TraceJobs, typed: Mapping[str, Any], rng: np.random.Generator, policy: str
) -> Simulation:
    """Run a policy of `gpuplan.planner.policies.spot.settings` under settings.

    Raises:
        UsageError: settings that no run can have, or a job that does not fit into its pool.
    """
    settings = replay_settings(policy, settings_of(policy), typed)
    scheduler = scheduler_with(policy, settings.values)
    pools = pools_of(jobs, typed)
    _check_fits(jobs, pools, typed)
    horizon_s = int(_last_submit(pools) + math.ceil(settings.values["drain_s"]))
    _check_span(pools, scheduler, horizon_s)
    seed = int(rng.integers(1 << 31))
    try:
        runs = [
            simulate_spot(
                pool.cards,
                pool.workload,
                scheduler,
                lendable_gpus=_lendable(pool, pools, scheduler, settings.values, horizon_s),
                horizon_s=horizon_s,
                seed=seed + at,
            )
            for at, pool in enumerate(pools.pools)
        ]
    except TooManyRuns as error:
        raise UsageError(f"this replay cannot be made: {error}\n  next: {FEWER_JOBS}") from error
    run = joined(pools, runs, jobs.workload.submit_us)

    def measured(bill: RunBill) -> dict[str, Any]:
        spot_usd = settings.values["spot_usd_per_gpu_h"]
        if spot_usd is None:
            usd = settings.usd_per_gpu_h  # not what an owned GPU costs
            usd = bill.mean_usd_per_gpu_h if usd is None else usd
            spot_usd = SPOT_PRICE_SHARE * (usd or 0.0)
        results = LendingResults(
            demand=loads_of(jobs, pools),
            hp=tenant_results(run, ~pools.is_spot),
            spot=tenant_results(run, pools.is_spot),
            **spot_results(run, pools.is_spot, scheduler, spot_usd, jobs.window_us),
            **quota_results(runs, scheduler),
            starving_jobs=sum(starving(pool_run).size for pool_run in runs),
        )
        return {
            **fields_of(results),
            "mean_service_s": float((run.finish_us - run.submit_us - run.waited_us).mean())
            / MICROS,
            "utilization": kept_share(run, bill, jobs.window_us),
            "waiting_mean": UNSET,
        }

    return replayed(
        jobs,
        settings,
        ClusterReplay(
            run=run,
            size={"cluster": ",".join(str(pool.shape) for pool in pools.pools), "gpus": run.gpus},
            billed_by_type=_gpus_by_type(pools),
            measured=measured,
            notes=(*pools.notes, *_warnings(jobs, pools, runs, run)),
            columns=lambda: {
                "priority": np.where(pools.is_spot, "spot", "hp"),
                "finished": run.is_finished,
                "wasted_gpu_s": run.wasted_milli_s / MILLI,
            },
            timeline=partial(_timeline, pools, runs, run),
            lines=cache(partial(_lines, pools, runs, run, scheduler)),
        ),
    )


def unplaceable_jobs(jobs: TraceJobs, settings: Mapping[str, Any]) -> IntArray:
    """Return the jobs that would never start on the empty cluster, by their places."""
    jobs_by_pool = [pool.unplaceable for pool in pools_of(jobs, settings).pools]
    return np.sort(np.concatenate(jobs_by_pool))


def _gpus_by_type(pools: SpotPools) -> dict[str, int]:
    """Return the GPUs of each type; empty where a pool names none."""
    if any(pool.shape.gpu_type is None for pool in pools.pools):
        return {}
    return {pool.name: pool.gpus for pool in pools.pools}


def _check_fits(jobs: TraceJobs, pools: SpotPools, settings: Mapping[str, Any]) -> None:
    """Raise `SettingError` where a job does not fit into the empty pool."""
    for pool in pools.pools:
        if pool.unplaceable.size:
            first = int(pool.unplaceable[0])
            raise SettingError(
                ["gpus" if settings.get("cluster") is None else "cluster"],
                f"{counted(pool.unplaceable.size, 'job')} would never start, such as "
                f"{jobs.job_id[first]} with {jobs.workload.billed_gpus[first]:g} GPUs",
                "allow more GPUs, or leave wide jobs out with --where",
            )


def _check_span(pools: SpotPools, scheduler: SpotScheduler, horizon_s: int) -> None:
    """Raise `UsageError` where a replay has more hours or updates of the quota than can be."""
    work = [pool.workload for pool in pools.pools]
    begin_s = min(int(each.submit_s[0]) for each in work)
    end_s = min(max(int((each.submit_s + each.duration_s).max()) for each in work), horizon_s)
    hours, updates = (end_s - begin_s) // 3600, (end_s - begin_s) // scheduler.tick_s
    if hours > MOST_HOURS:
        raise UsageError(
            f"this replay cannot be made: it takes {hours:,} hours, at most {MOST_HOURS:,} can be\n"
            "  next: leave jobs out that are far from the others, with --since, --until or --where"
        )
    if updates > MOST_UPDATES:
        least_s = -(-(end_s - begin_s) // MOST_UPDATES)
        raise SettingError(
            ["tick_s"],
            f"{updates:,} updates of the quota; expected at most {MOST_UPDATES:,}",
            f"at least {least_s} s between two",
        )


def _last_submit(pools: SpotPools) -> int:
    return max(int(pool.workload.submit_s[-1]) for pool in pools.pools)


def _lendable(
    pool: SpotPool,
    pools: SpotPools,
    scheduler: SpotScheduler,
    values: Mapping[str, Any],
    horizon_s: int,
) -> FloatArray | None:
    """Return the GPUs that a forecast leaves, by hour; None for a policy without one."""
    if scheduler.quota != "forecast":
        return None
    work = pool.workload
    hp = work.hp
    last_s = int((work.submit_s + work.duration_s)[hp].max(initial=0))
    hours = min(max(last_s, int(work.submit_s[-1])), horizon_s) // 3600 + AFTER_H
    if not hp.any():
        return np.full(hours, float(pool.gpus))
    origin, group = pools.origin_us, pools.group[pool.jobs[hp]]
    demand = hourly_demand(
        np.concatenate(([origin], work.submit_s[hp] * MICROS + origin)),
        np.concatenate(([0], work.duration_s[hp] * MICROS)),
        np.concatenate(([0.0], work.size_milli[hp] / MILLI)),
        pl.concat([group[:1], group]),
        has_calendar=pools.has_calendar,
        hours=hours,
    )
    bound = demand_bound_by_hour(
        demand, values["forecast"], scheduler.p, scheduler.guarantee_h, scheduler.aggregate
    )
    bound = np.append(bound, 0.0)  # the trace is over
    return np.maximum(0.0, pool.gpus - bound)


def _warnings(
    jobs: TraceJobs, pools: SpotPools, runs: Sequence[SpotRun], run: LentRun
) -> tuple[str, ...]:
    notes: list[str] = []
    if not pools.is_spot.any():
        hint = "" if tenants_of(jobs).has_priorities else "; say which with --spot CONDITION"
        notes.append(f"no job is spot, so nothing is lent{hint}")
    loads = loads_of(jobs, pools)
    notes += [f"{load.text}: more than there is" for load in loads if load.demand_over_capacity > 1]
    waiting = [
        str(jobs.job_id[int(pool.jobs[task])])
        for pool, pool_run in zip(pools.pools, runs, strict=True)
        for task in starving(pool_run)
    ]
    if waiting:
        notes.append(
            f"{counted(len(waiting), 'spot job')} larger than the quota for over a week: "
            f"{listed(waiting, MOST_NAMED)}"
        )
    left = int((~run.is_finished).sum())
    if left:
        notes.append(f"{counted(left, 'job')} unfinished at the end; means leave them out")
    return tuple(notes)


def _ticks(
    pools: SpotPools, runs: Sequence[SpotRun], run: LentRun
) -> tuple[IntArray, dict[str, FloatArray]]:
    """Return what is known at every tick of any pool, summed over the pools; eta is their mean."""
    time_s = distinct(np.concatenate([pool_run.tick_s for pool_run in runs]))
    names = ("hp_milli", "spot_milli", "quota_milli", "idle_milli")
    values = {name: np.zeros(time_s.size) for name in (*names, "eta", "eviction_rate", "waiting")}
    for pool, pool_run in zip(pools.pools, runs, strict=True):
        at = np.searchsorted(pool_run.tick_s, time_s, side="right") - 1
        has_begun = at >= 0
        for name in names:
            value = getattr(pool_run, name)[np.maximum(at, 0)] / MILLI
            if name == "quota_milli":
                value = np.where(value < 0, pool.gpus, value)
            values[name] += np.where(has_begun, value, 0.0)
        for name in ("eta", "eviction_rate"):
            value = getattr(pool_run, name)[np.maximum(at, 0)]
            values[name] += np.where(has_begun, value, 0.0) * pool.gpus / run.gpus
        values["waiting"] += np.where(has_begun, pool_run.spot_waiting[np.maximum(at, 0)], 0)
    # The first tick may come before the first submission.
    return np.maximum(time_s * MICROS - pools.offset_us, 0), values


def _timeline(pools: SpotPools, runs: Sequence[SpotRun], run: LentRun) -> pl.DataFrame:
    """Return a row per change of what runs and waits, and per tick of the quota."""
    time_us, values = _ticks(pools, runs, run)
    ticks = pl.DataFrame(
        {
            "time_s": time_us / MICROS,
            "hp_gpus": values["hp_milli"],
            "spot_gpus": values["spot_milli"],
            "quota_gpus": values["quota_milli"],
            "eta": values["eta"],
            "spot_waiting": values["waiting"],
        }
    )
    both = pl.concat([usage_frame(run), ticks], how="diagonal")
    return both.sort("time_s", maintain_order=True)


def _lines(
    pools: SpotPools, runs: Sequence[SpotRun], run: LentRun, scheduler: SpotScheduler
) -> TimeLines:
    """Return GPUs of both classes with the quota, eta, and spot jobs waiting."""
    time_us, values = _ticks(pools, runs, run)
    gpus = {"high priority": values["hp_milli"], "spot": values["spot_milli"]}
    quota = {"spot quota": values["quota_milli"]} if scheduler.quota != "none" else {}
    panels = [Panel(f"GPUs in use, of {run.gpus:,}", GPUS, {**gpus, **quota}, float(run.gpus))]
    if scheduler.quota == "forecast":
        panels.append(Panel("Factor of the quota (eta)", FACTOR, {"eta": values["eta"]}, 1.0))
    panels.append(Panel("Spot jobs waiting", JOBS, {"spot jobs waiting": values["waiting"]}))
    rows = [
        ("GPUs of high priority", GPUS, gpus["high priority"]),
        ("GPUs of spot", GPUS, gpus["spot"]),
    ]
    rows += [("spot quota", GPUS, value) for value in quota.values()]
    rows.append(("spot jobs waiting", JOBS, values["waiting"]))
    return TimeLines(
        time_us=time_us,
        end_us=int(run.finish_us.max()),
        panels=tuple(panels),
        rows=tuple(rows),
    )
