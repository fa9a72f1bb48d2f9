"""Run Allpass on a workload: check, call the kernel, return what happened."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.allpass.buffers import LOST, TIMELINE, Buffers
from gpuplan.simkit.allpass.kernel import replay
from gpuplan.simkit.allpass.parameters import WINDOW_STEP_S, Allpass, Draws
from gpuplan.simkit.allpass.scalers import ScalingRules
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.renting import pool
from gpuplan.simkit.renting.billing import billed_us, billed_usd
from gpuplan.simkit.renting.market import NANOS
from gpuplan.simkit.run import Leases, Usage
from gpuplan.simkit.time import FOREVER, MICROS_PER_HOUR, TimeOverflow, to_micros
from gpuplan.simkit.workload import Workload

LEAST_SIZE = 1 << 12
"""Rentals and ticks that the first buffers hold, however few the jobs."""


@dataclass(frozen=True, slots=True)
class Rentals:
    """Workers of the serverful tier, one GPU each, in the order of request; arrays of shape (k,).

    Attributes:
        offer: place of the marketplace offer among all, the cheapest first, or -1 for the
            conventional cloud.
        price: at its request, US dollars per GPU-hour.
        request_us, ready_us, release_us: microseconds after the first submission; ``ready_us`` may
            lie after ``release_us`` where the run ended first.
        busy_us: time it held jobs, restoring included.
        reclaimed: whether the marketplace took it back.
        metered_usd: price x time from request to release.
        billed_usd: the same for the time billed (``minimum_billing_s``, ``billing_step_s``).
    """

    offer: IntArray
    price: FloatArray
    request_us: IntArray
    ready_us: IntArray
    release_us: IntArray
    busy_us: IntArray
    reclaimed: BoolArray
    metered_usd: FloatArray
    billed_usd: FloatArray


@dataclass(frozen=True, slots=True)
class Timeline:
    """The state after each tick at which it changed; arrays of one shape (k,).

    Attributes:
        time_us: time of the tick.
        threshold_us: threshold in force from then on.
        pressure: p(t) that the scalers saw.
        queued: jobs in the serverful queue.
        ready, starting, idle: workers; idle ones are ready too.
        serverless: GPUs in containers, starting ones included.
        marketplace: workers of the marketplace, starting ones included; the rest is conventional.
        offers: how many the marketplace has, those rented included.
        paid_usd_per_h: price of all workers together, US dollars per hour.
    """

    time_us: IntArray
    threshold_us: IntArray
    pressure: FloatArray
    queued: IntArray
    ready: IntArray
    starting: IntArray
    idle: IntArray
    serverless: IntArray
    marketplace: IntArray
    offers: IntArray
    paid_usd_per_h: FloatArray

    @property
    def mean_price(self) -> FloatArray:
        """What a worker costs on average, US dollars per GPU-hour; NaN without workers."""
        held = self.ready + self.starting
        price: FloatArray = self.paid_usd_per_h / np.where(held > 0, held, np.nan)
        return price


@dataclass(frozen=True, slots=True)
class AllpassRun:
    """What happened to every job, worker and tick; times in microseconds.

    ``finish_us - submit_us = service_us + startup_us + queue_us + demotion_us`` exactly.

    Attributes:
        workload: the jobs, in whose order all arrays of shape (n,) are.
        parameters: of the run, as `Allpass.on` completes them for its jobs.
        start_us: when the job first ran.
        finish_us: when it ended.
        serverless_us: its run time in a container; the rest of its service was on workers.
        startup_us: start-up of its container.
        queue_us: waiting for a container (under a limit) and for workers.
        demotion_us: checkpoint, restores and, where workers were reclaimed, work done in vain; 0
            for a job that ended in its container.
        demoted: whether it left its container.
        rentals: the workers.
        timeline: the ticks.
        end_us: the last finish, when every worker is released.
    """

    workload: Workload
    parameters: Allpass
    start_us: IntArray
    finish_us: IntArray
    serverless_us: IntArray
    startup_us: IntArray
    queue_us: IntArray
    demotion_us: IntArray
    demoted: BoolArray
    rentals: Rentals
    timeline: Timeline
    end_us: int

    @property
    def jct_us(self) -> IntArray:
        """Job completion times."""
        return self.finish_us - self.workload.submit_us

    @property
    def submit_us(self) -> IntArray:
        """Submission of each job."""
        return self.workload.submit_us

    @property
    def waited_us(self) -> IntArray:
        """Time without GPUs that run: start-ups of containers and queues."""
        return self.startup_us + self.queue_us

    @property
    def held_gpu_us(self) -> FloatArray:
        """GPU time that each job held, in its container and on workers."""
        held: FloatArray = self.container_us * self.workload.gpus + self.worker_us.astype(float)
        return held

    @property
    def stops(self) -> IntArray:
        """1 for a job that moved from its container to workers."""
        return self.demoted.astype(np.int64)

    @property
    def usage(self) -> Usage:
        """GPUs in containers and busy workers, and jobs waiting for workers, at each tick."""
        line = self.timeline
        return Usage(line.time_us, line.serverless + line.ready - line.idle, line.queued)

    @property
    def capacity(self) -> int | None:
        """Most workers rented at once; containers come on top."""
        return self.parameters.capacity

    @property
    def rented(self) -> Leases:
        """The workers, from request to release."""
        held = self.rentals
        return Leases(held.request_us, held.release_us, np.ones_like(held.request_us))

    @property
    def worker_us(self) -> IntArray:
        """Worker time each job held in the serverful tier, restoring included; shape (n,)."""
        checkpoint_us, _ = overheads_us(self.workload, self.parameters)
        held = self.demotion_us - checkpoint_us + self.workload.service_us - self.serverless_us
        return np.where(self.demoted, self.workload.gpus * held, 0)

    @property
    def container_us(self) -> IntArray:
        """Time each job held its container once that was ready: run and checkpoint; shape (n,)."""
        saving = np.where(self.demoted, overheads_us(self.workload, self.parameters)[0], 0)
        held: IntArray = self.serverless_us + saving
        return held

    @property
    def serverless_usd(self) -> FloatArray:
        """Serverless bill of each job: run and checkpoint, not start-up; shape (n,)."""
        return self._containers_usd(self.container_us)

    @property
    def if_serverless_usd(self) -> FloatArray:
        """The same had every job stayed in its container; shape (n,)."""
        return self._containers_usd(self.workload.service_us)

    def _containers_usd(self, held_us: IntArray) -> FloatArray:
        rules = self.parameters
        billed = billed_us(
            held_us, rules.serverless_billing_step_s, rules.serverless_minimum_billing_s
        )
        hours = billed / MICROS_PER_HOUR
        bill: FloatArray = hours * self.workload.billed_gpus * rules.serverless_price
        return bill

    @property
    def rental_usd(self) -> FloatArray:
        """Bill of each rental, from request to release; shape (k,)."""
        return self.rentals.billed_usd

    @property
    def job_usd(self) -> FloatArray:
        """Serverless bill plus share of all rentals in proportion to worker time; shape (n,).

        The rentals of a run that no job ever used are spread over all jobs alike.
        """
        held = self.worker_us.astype(np.float64)
        if not held.any():
            held = np.ones(held.size)
        bill: FloatArray = self.serverless_usd + self.rental_usd.sum() * held / held.sum()
        return bill


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
            100,000 for one job; offers that vanish before any job gets on.
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

    unlimited = 1 << 40
    return ScalingRules(
        threshold_us=micros(parameters.threshold_s),
        adaptive=parameters.controller == "adaptive",
        live=parameters.threshold_rule == "live",
        serve_queue=parameters.scale_out == "queue",
        bounded=parameters.scaling == "bounded",
        in_force=parameters.pricing == "in-force",
        reclaim=parameters.reclaim,
        save_every_us=micros(parameters.save_every_s),
        market_period_us=parameters.offers.period_us,
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


def overheads_us(workload: Workload, parameters: Allpass) -> tuple[IntArray, IntArray]:
    """Return the time to save, and to load, each job: its own, or the one of the run."""
    return workload.overheads_us(parameters.checkpoint_s, parameters.restore_s)


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
