"""Run Allpass on a workload: check, call the kernel, return what happened."""

from __future__ import annotations

import math

import numpy as np

from gpuplan.simkit.allpass.allpass_run import AllpassRun, Rentals, Timeline, overheads_us
from gpuplan.simkit.allpass.buffers import LOST, TIMELINE, Buffers
from gpuplan.simkit.allpass.kernel import replay
from gpuplan.simkit.allpass.parameters import WINDOW_STEP_S, Allpass, Draws
from gpuplan.simkit.allpass.scalers import ScalingRules
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.renting import pool
from gpuplan.simkit.renting.billing import billed_usd
from gpuplan.simkit.renting.market import NANOS
from gpuplan.simkit.time import FOREVER, MICROS_PER_HOUR, TimeOverflow, to_micros
from gpuplan.simkit.workload import Workload

LEAST_SIZE = 1 << 12
"""Rentals and ticks that the first buffers hold, however few the jobs."""
MOST_SIZE = 1 << 23
"""The same of the last ones, or 8 for each job where that is more: a tick is kept where the
threshold moves, and under a tiny gain it moves at each.
"""


def run_allpass(
    workload: Workload, parameters: Allpass, draws: Draws | np.random.Generator
) -> AllpassRun:
    """Replay a workload under Allpass.

    Args:
        workload: the jobs.
        parameters: the policy, the providers and their prices.
        draws: start-up times, or the generator to draw them from.

    Raises:
        ValueError: a job is wider than ``serverless_limit``; draws of another size; times so long
            that whole microseconds overflow; more than 16 million rentals, a million at once, or
            100,000 for one job; offers or leases that end before any job gets on.
    """
    if isinstance(draws, np.random.Generator):
        draws = Draws.sample(parameters, workload.size, draws)
    if draws.container_us.shape != workload.submit_us.shape:
        raise ValueError(
            f"draws for {draws.container_us.size} containers, but {workload.size} jobs"
        )
    parameters = parameters.on(workload)
    rules = _rules(parameters)
    if workload.gpus.max() > rules.serverless_limit:
        raise ValueError(
            f"a job needs {workload.gpus.max()} GPUs in one container start, more than "
            f"serverless_limit {rules.serverless_limit}"
        )
    checkpoint_us, restore_us = overheads_us(workload, parameters)
    _check_range(workload, rules, draws, checkpoint_us, restore_us)
    market = parameters.offers
    width = math.gcd(rules.tick_us, rules.window_step_us)
    edges, bucket = _buckets(workload.deadline_us, width)
    rentals = notes = -1
    size = max(LEAST_SIZE, 2 * workload.size)
    while notes < 0:
        if size > max(MOST_SIZE, 8 * workload.size):
            raise TimeOverflow(
                "it rents workers or moves its threshold millions of times; a longer tick_s moves "
                "it less often"
            )
        buffers = Buffers.of(workload.size, edges.size, size)
        size *= 4  # what is run again is then a third of the whole at most
        rentals, notes = replay(
            workload.submit_us,
            workload.service_us,
            workload.gpus,
            workload.deadline_us,
            bucket,
            edges,
            draws.container_us,
            checkpoint_us,
            restore_us,
            market.start_us,
            market.first,
            _nanos(market.price),
            draws.marketplace_us,
            draws.conventional_us,
            rules,
            buffers,
        )
    jobs, workers = buffers.jobs, buffers.workers[:, :rentals]
    timeline = dict(zip(TIMELINE, buffers.timeline[:, :notes].copy(), strict=True))
    start, finish, serverless, queue = (jobs[column].copy() for column in range(4))
    demoted = serverless < workload.service_us
    return AllpassRun(
        workload=workload,
        parameters=parameters,
        start_us=start,
        finish_us=finish,
        serverless_us=serverless,
        startup_us=draws.container_us,
        queue_us=queue,
        demotion_us=np.where(demoted, checkpoint_us + jobs[LOST], 0),
        demoted=demoted,
        rentals=_rentals(workers, buffers.bills[:rentals], parameters),
        timeline=Timeline(
            time_us=timeline["time"],
            threshold_us=timeline["threshold"],
            pressure=buffers.pressures[:notes].copy(),
            queued=timeline["queued"],
            ready=timeline["ready"],
            starting=timeline["starting"],
            idle=timeline["idle"],
            serverless=timeline["serverless"],
            marketplace=timeline["marketplace"],
            offers=timeline["offers"],
            paid_usd_per_h=timeline["paid"] / NANOS,
        ),
        end_us=int(finish.max()),
    )


def _buckets(deadline_us: IntArray, width_us: int) -> tuple[IntArray, IntArray]:
    """Return deadlines rounded up, ascending and each once, and the place of each job's there."""
    late = -(-deadline_us // width_us)
    first = late.min()
    if late.max() - first >= 8 * late.size:
        edges, bucket = np.unique(late, return_inverse=True)
        return edges * width_us, bucket.astype(np.int64)
    # Dense as they mostly are, to mark them is several times as fast as to sort them.
    marked = np.zeros(late.max() - first + 1, bool)
    marked[late - first] = True
    return (np.flatnonzero(marked) + first) * width_us, (np.cumsum(marked) - 1)[late - first]


def _rules(parameters: Allpass) -> ScalingRules:
    def micros(seconds: float) -> int:
        return int(to_micros(seconds))

    unlimited, offers = 1 << 40, parameters.offers
    return ScalingRules(
        threshold_us=micros(parameters.threshold_s),
        adaptive=parameters.controller == "adaptive",
        live=parameters.threshold_rule == "live",
        serve_queue=parameters.scale_out == "queue",
        bounded=parameters.scaling == "bounded",
        in_force=parameters.pricing == "in-force",
        reclaim=parameters.reclaim,
        save_every_us=micros(parameters.save_every_s),
        grace_us=micros(parameters.grace_s),
        lease_us=micros(parameters.lease_s),
        patience_us=offers.period_us if offers.start_us.size > 1 else micros(parameters.lease_s),
        market_period_us=offers.period_us,
        tick_us=micros(parameters.tick_s),
        window_us=micros(parameters.window_s),
        window_step_us=micros(WINDOW_STEP_S),
        capacity=unlimited if parameters.capacity is None else parameters.capacity,
        serverless_limit=parameters.serverless_limit or unlimited,
        conventional_price=int(_nanos(parameters.conventional_price)),
        min_threshold_us=micros(parameters.least_threshold_s),
        max_threshold_us=micros(parameters.max_threshold_s),
        gain_up=float(parameters.gain_up_s),
        limit_up=float(parameters.limit_up_s),
        gain_down=float(parameters.gain_down_s),
        limit_down=float(parameters.limit_down_s),
        max_pressure=float(parameters.max_pressure),
        by_submission=parameters.queue_order == "submission",
        by_utilization=parameters.scaling == "utilization",
        target=float(parameters.target_utilization),
        tolerance=float(parameters.utilization_tolerance),
        stabilization_us=micros(parameters.stabilization_s),
        min_workers=parameters.min_workers,
    )


def _rentals(workers: IntArray, bills: FloatArray, parameters: Allpass) -> Rentals:
    request, release = workers[pool.REQUEST].copy(), workers[pool.RELEASE].copy()
    metered = bills / NANOS / MICROS_PER_HOUR
    last_price = workers[pool.PRICE] / NANOS
    return Rentals(
        offer=workers[pool.OFFER].copy(),
        price=workers[pool.ASKED] / NANOS,
        request_us=request,
        ready_us=workers[pool.READY].copy(),
        release_us=release,
        busy_us=workers[pool.BUSY].copy(),
        reclaimed=workers[pool.RECLAIMED] > 0,
        metered_usd=metered,
        billed_usd=billed_usd(parameters.rental_terms, metered, release - request, last_price),
    )


def _nanos(usd: FloatArray | float) -> IntArray:
    """Return dollars as whole billionths."""
    return np.floor(np.asarray(usd, np.float64) * NANOS + 0.5).astype(np.int64)


def _check_range(
    workload: Workload,
    rules: ScalingRules,
    draws: Draws,
    checkpoint_us: IntArray,
    restore_us: IntArray,
) -> None:
    """Refuse what could leave the range of int64: the end of the run, or all work added up."""
    each = {
        None: workload.service_us.astype(np.float64),
        "serverless_startup": draws.container_us.astype(np.float64),
        "checkpoint_s": checkpoint_us.astype(np.float64),
        "restore_s": restore_us.astype(np.float64),
    }
    work = {name: float((us * workload.gpus).sum()) for name, us in each.items()}
    end = {name: float(us.sum()) for name, us in each.items()} | {
        "marketplace_startup": workload.size * float(draws.marketplace_us.max(initial=0)),
        "conventional_startup": workload.size * float(draws.conventional_us.max(initial=0)),
        "tick_s": 2.0 * workload.size * rules.tick_us,
    }
    end[None] += max(float(workload.submit_us[-1]), float(workload.deadline_us.max()))
    for parts in (end, work):
        if sum(parts.values()) > FOREVER:
            raise TimeOverflow(
                "the jobs add up to more than 36,000 years of worker time",
                max(parts, key=lambda name: parts[name]),
            )
