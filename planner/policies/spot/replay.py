"""Replay a trace under a policy that lends GPUs as spot: settings to pools to results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.planner.money.renting_settings import OF_PRICES, RENTED, priced_values
from gpuplan.planner.policies.cluster_bill import ClusterBill, bill_of, terms_of
from gpuplan.planner.policies.spot.lending import demand_bound_by_hour, hourly_demand
from gpuplan.planner.policies.spot.measures import (
    class_results,
    common_results,
    quota_results,
    spot_results,
    starving,
)
from gpuplan.planner.policies.spot.pools import SpotPool, SpotPools, loads_of, pools_of, tenants_of
from gpuplan.planner.policies.spot.run import LentRun, joined
from gpuplan.planner.policies.spot.settings import (
    SPOT_PRICE_SHARE,
    scheduler_with,
    settings_of,
)
from gpuplan.planner.runs.panels import FACTOR, GPUS, JOBS, Panel, TimeLines
from gpuplan.planner.runs.settings import FEWER_JOBS, SettingError, check_values, defaults_of
from gpuplan.planner.runs.simulation import SOON_S, Simulation
from gpuplan.planner.runs.timelines import usage_frame
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.spot.parameters import SpotScheduler
from gpuplan.simkit.spot.pool import MILLI
from gpuplan.simkit.spot.simulator import SpotRun, TooManyRuns, simulate_spot
from gpuplan.simkit.time import MICROS

MOST_NAMED = 5
AFTER_H = 25
"""Hours after the last demand in which forecasts still count."""


def simulate(
    jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator, policy: str
) -> Simulation:
    """Run a policy of `gpuplan.planner.policies.spot.settings` under settings.

    Raises:
        UsageError: settings that no run can have, or a job that does not fit into its pool.
    """
    known = settings_of(policy)
    check_values(known, settings)
    values = priced_values(defaults_of(known), settings)
    scheduler, terms = scheduler_with(policy, values), terms_of(values)
    pools = pools_of(jobs, settings)
    _check_fits(jobs, pools, settings)
    horizon_s = int(_last_submit(pools) + math.ceil(values["drain_s"]))
    seed = int(rng.integers(1 << 31))
    try:
        found = [
            simulate_spot(
                pool.cards,
                pool.workload,
                scheduler,
                lendable_gpus=_lendable(pool, pools, scheduler, values, horizon_s),
                horizon_s=horizon_s,
                seed=seed + at,
            )
            for at, pool in enumerate(pools.pools)
        ]
    except TooManyRuns as error:
        raise UsageError(f"this replay cannot be made: {error}\n  next: {FEWER_JOBS}") from error
    run = joined(pools, found, jobs.workload.submit_us)
    bill = bill_of(run, terms, jobs.window_us, run.gpus)
    work_gpu_us = float((jobs.workload.service_us * jobs.workload.billed_gpus).sum())
    usd = terms.usd_per_gpu_h if terms.usd_per_gpu_h is not None else bill.mean_per_gpu_h or 0.0
    spot_usd = values["spot_usd_per_gpu_h"]
    if spot_usd is None:
        spot_usd = SPOT_PRICE_SHARE * usd
    late = float((run.finish_us > jobs.workload.deadline_us).mean())
    jct_s = (run.finish_us - run.submit_us) / MICROS
    own = known.keys() - OF_PRICES.keys() - RENTED.keys()
    return Simulation(
        policy=policy,
        settings={name: value for name, value in values.items() if name in own}
        | {"cluster": _shape_text(pools), "gpus": run.gpus}
        | terms.effective(),
        results=common_results(run, loads_of(jobs, pools), bill, work_gpu_us, jobs.window_us)
        | {
            "finished_within_10min_share": float((jct_s <= SOON_S).mean()),
            "deadline_miss_share": late,
            "hp": class_results(run, ~pools.is_spot),
            "spot": class_results(run, pools.is_spot),
            **spot_results(run, pools.is_spot, scheduler, spot_usd, jobs.window_us),
            **quota_results(found, scheduler),
            "starving_jobs": sum(starving(one).size for one in found),
        },
        rows=partial(_job_frame, jobs, pools, run, bill),
        warnings=(*pools.notes, *_warnings(jobs, pools, found, run)),
        timeline=partial(_timeline, pools, found, run),
        run=run,
        lines=partial(_lines, pools, found, run, scheduler),
    )


def unplaceable_jobs(jobs: TraceJobs, settings: Mapping[str, Any]) -> IntArray:
    """Return the jobs that would never start on the empty cluster, by their places."""
    found = [pool.unplaceable for pool in pools_of(jobs, settings).pools]
    return np.sort(np.concatenate(found))


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


def _shape_text(pools: SpotPools) -> str:
    return ",".join(str(pool.shape) for pool in pools.pools)


def _warnings(
    jobs: TraceJobs, pools: SpotPools, found: Sequence[SpotRun], run: LentRun
) -> tuple[str, ...]:
    notes: list[str] = []
    if not pools.is_spot.any():
        hint = "" if tenants_of(jobs).has_priorities else "; say which with --spot CONDITION"
        notes.append(f"no job is spot, so nothing is lent{hint}")
    loads = loads_of(jobs, pools)
    notes += [f"{one.text}: more than there is" for one in loads if one.demand_over_capacity > 1]
    waiting = [
        str(jobs.job_id[int(pool.jobs[task])])
        for pool, one in zip(pools.pools, found, strict=True)
        for task in starving(one)
    ]
    if waiting:
        notes.append(
            f"{counted(len(waiting), 'spot job')} larger than the quota for over a week: "
            f"{listed(waiting, MOST_NAMED)}"
        )
    left = int((~run.is_finished).sum())
    if left:
        notes.append(f"{counted(left, 'job')} unfinished at the end; means are without them")
    return tuple(notes)


def _job_frame(jobs: TraceJobs, pools: SpotPools, run: LentRun, bill: ClusterBill) -> pl.DataFrame:
    """Return one row per job; ``cost_usd`` adds up to the whole bill."""
    return pl.DataFrame(
        {
            "job_id": jobs.job_id,
            "submit_s": run.submit_us / MICROS,
            "start_s": run.start_us / MICROS,
            "finish_s": run.finish_us / MICROS,
            "jct_s": (run.finish_us - run.submit_us) / MICROS,
            "jqt_s": run.waited_us / MICROS,
            "gpu_s": jobs.workload.service_us / MICROS * jobs.workload.billed_gpus,
            "cost_usd": bill.shares(run, jobs.workload.gpus),
            "preemptions": run.stops,
            "priority": np.where(pools.is_spot, "spot", "hp"),
            "finished": run.is_finished,
            "wasted_gpu_s": run.wasted_milli_s / MILLI,
        }
    )


def _ticks(
    pools: SpotPools, found: Sequence[SpotRun], run: LentRun
) -> tuple[IntArray, dict[str, FloatArray]]:
    """Return what is known at every tick of any pool, summed over the pools; eta is their mean."""
    time_s = np.unique(np.concatenate([one.tick_s for one in found]))
    names = ("hp_milli", "spot_milli", "quota_milli", "idle_milli")
    values = {name: np.zeros(time_s.size) for name in (*names, "eta", "eviction_rate", "waiting")}
    for pool, one in zip(pools.pools, found, strict=True):
        at = np.searchsorted(one.tick_s, time_s, side="right") - 1
        known = at >= 0
        for name in names:
            own = getattr(one, name)[np.maximum(at, 0)] / MILLI
            if name == "quota_milli":
                own = np.where(own < 0, pool.gpus, own)
            values[name] += np.where(known, own, 0.0)
        for name in ("eta", "eviction_rate"):
            own = getattr(one, name)[np.maximum(at, 0)]
            values[name] += np.where(known, own, 0.0) * pool.gpus / run.gpus
        values["waiting"] += np.where(known, one.spot_waiting[np.maximum(at, 0)], 0)
    # The first tick may come before the first submission.
    return np.maximum(time_s * MICROS - pools.offset_us, 0), values


def _timeline(pools: SpotPools, found: Sequence[SpotRun], run: LentRun) -> pl.DataFrame:
    """Return a row per change of what runs and waits, and per tick of the quota."""
    time_us, values = _ticks(pools, found, run)
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
    pools: SpotPools, found: Sequence[SpotRun], run: LentRun, scheduler: SpotScheduler
) -> TimeLines:
    """Return GPUs of both classes with the quota, eta, and spot jobs waiting."""
    time_us, values = _ticks(pools, found, run)
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
