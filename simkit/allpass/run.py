"""Run Allpass on a workload: check, call the kernel, return what happened."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.allpass.kernel import TIMELINE, Rules, replay
from gpuplan.simkit.allpass.parameters import WINDOW_STEP_S, Allpass, Draws, price_ranks
from gpuplan.simkit.workload import FOREVER, MICROS, FloatArray, IntArray, Workload, to_micros

MICROS_PER_HOUR = 3600.0 * MICROS


@dataclass(frozen=True, slots=True)
class Rentals:
    """Workers of the serverful tier, one GPU each, in the order of request; arrays of shape (k,).

    Attributes:
        offer: number of the marketplace offer, or -1 for the conventional cloud.
        price: US dollars per GPU-hour.
        request_us, ready_us, release_us: microseconds after the first submission; ``ready_us`` may
            lie after ``release_us`` where the run ended first.
        busy_us: time it held jobs, restoring included.
    """

    offer: IntArray
    price: FloatArray
    request_us: IntArray
    ready_us: IntArray
    release_us: IntArray
    busy_us: IntArray


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
    """

    time_us: IntArray
    threshold_us: IntArray
    pressure: FloatArray
    queued: IntArray
    ready: IntArray
    starting: IntArray
    idle: IntArray
    serverless: IntArray


@dataclass(frozen=True, slots=True)
class AllpassRun:
    """What happened to every job, worker and tick; times in microseconds.

    ``finish_us - submit_us = service_us + startup_us + queue_us + demotion_us`` exactly.

    Attributes:
        workload: the jobs, in whose order all arrays of shape (n,) are.
        parameters: of the run.
        start_us: when the job first ran.
        finish_us: when it ended.
        serverless_us: its run time in a container; the rest of its service was on workers.
        startup_us: start-up of its container.
        queue_us: waiting for a container (under a limit) and for workers.
        demotion_us: checkpoint and restore; 0 for a job that ended in its container.
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
    demoted: np.ndarray[tuple[int], np.dtype[np.bool_]]
    rentals: Rentals
    timeline: Timeline
    end_us: int

    @property
    def jct_us(self) -> IntArray:
        """Job completion times."""
        return self.finish_us - self.workload.submit_us

    @property
    def worker_us(self) -> IntArray:
        """Worker time each job held in the serverful tier, restoring included; shape (n,)."""
        restore = to_micros(self.parameters.restore_s)
        held = restore + self.workload.service_us - self.serverless_us
        return np.where(self.demoted, self.workload.gpus * held, 0)

    @property
    def container_us(self) -> IntArray:
        """Time each job is billed for in its container: run and checkpoint; shape (n,)."""
        saving = np.where(self.demoted, to_micros(self.parameters.checkpoint_s), 0)
        billed: IntArray = self.serverless_us + saving
        return billed

    @property
    def serverless_usd(self) -> FloatArray:
        """Serverless bill of each job: run and checkpoint, not start-up; shape (n,)."""
        hours = self.container_us / MICROS_PER_HOUR
        bill: FloatArray = hours * self.workload.billed_gpus * self.parameters.serverless_price
        return bill

    @property
    def rental_usd(self) -> FloatArray:
        """Bill of each rental, from request to release; shape (k,)."""
        least = to_micros(self.parameters.minimum_billing_s)
        billed = np.maximum(self.rentals.release_us - self.rentals.request_us, least)
        bill: FloatArray = billed / MICROS_PER_HOUR * self.rentals.price
        return bill

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
            that whole microseconds overflow; more than 16 million rentals.
    """
    if isinstance(draws, np.random.Generator):
        draws = Draws.sample(parameters, workload.size, draws)
    if draws.container_us.shape != workload.submit_us.shape:
        raise ValueError(
            f"draws for {draws.container_us.size} containers, but {workload.size} jobs"
        )
    rules = _rules(parameters)
    if workload.gpus.max() > rules.serverless_limit:
        raise ValueError(
            f"a job needs {workload.gpus.max()} GPUs in one container start, more than "
            f"serverless_limit {rules.serverless_limit}"
        )
    _check_range(workload, rules, draws)
    width = math.gcd(rules.tick_us, rules.window_step_us)
    edges, bucket = np.unique(-(-workload.deadline_us // width) * width, return_inverse=True)
    offer_rank = price_ranks(parameters)[0]
    jobs, workers, timeline, pressure = replay(
        workload.submit_us,
        workload.service_us,
        workload.gpus,
        workload.deadline_us,
        bucket.astype(np.int64),
        edges,
        draws.container_us,
        offer_rank,
        draws.marketplace_us,
        draws.conventional_us,
        rules,
    )
    start, finish, serverless, queue = (jobs[:, column].copy() for column in range(4))
    demoted = serverless < workload.service_us
    overhead = rules.checkpoint_us + rules.restore_us
    offer = workers[:, 0].copy()
    prices = np.array([*parameters.marketplace_prices, parameters.conventional_price])
    columns = dict(zip(TIMELINE, timeline.T, strict=True))
    return AllpassRun(
        workload=workload,
        parameters=parameters,
        start_us=start,
        finish_us=finish,
        serverless_us=serverless,
        startup_us=draws.container_us,
        queue_us=queue,
        demotion_us=np.where(demoted, overhead, 0),
        demoted=demoted,
        rentals=Rentals(offer, prices[offer], *(workers[:, c].copy() for c in range(1, 5))),
        timeline=Timeline(
            time_us=columns["time"],
            threshold_us=columns["threshold"],
            pressure=pressure,
            queued=columns["queued"],
            ready=columns["ready"],
            starting=columns["starting"],
            idle=columns["idle"],
            serverless=columns["serverless"],
        ),
        end_us=int(finish.max()),
    )


def _rules(parameters: Allpass) -> Rules:
    def micros(seconds: float) -> int:
        return int(to_micros(seconds))

    unlimited = 1 << 40
    return Rules(
        threshold_us=micros(parameters.threshold_s),
        adaptive=parameters.controller == "adaptive",
        live=parameters.threshold_rule == "live",
        serve_queue=parameters.scale_out == "queue",
        bounded=parameters.scaling == "bounded",
        checkpoint_us=micros(parameters.checkpoint_s),
        restore_us=micros(parameters.restore_s),
        tick_us=micros(parameters.tick_s),
        window_us=micros(parameters.window_s),
        window_step_us=micros(WINDOW_STEP_S),
        capacity=unlimited if parameters.capacity is None else parameters.capacity,
        serverless_limit=parameters.serverless_limit or unlimited,
        conventional_rank=price_ranks(parameters)[1],
        min_threshold_us=micros(parameters.min_threshold_s),
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


def _check_range(workload: Workload, rules: Rules, draws: Draws) -> None:
    """Refuse what could leave the range of int64: the end of the run, or all work added up."""
    overhead = rules.checkpoint_us + rules.restore_us
    each = workload.service_us.astype(np.float64) + draws.container_us + overhead
    wait = float(draws.conventional_us.max(initial=0)) + float(draws.marketplace_us.max(initial=0))
    last = max(float(workload.submit_us[-1]), float(workload.deadline_us.max()))
    end = last + each.sum() + workload.size * (wait + 2.0 * rules.tick_us)
    if max(end, float((each * workload.gpus).sum())) > FOREVER:
        raise ValueError("the jobs add up to more than 36,000 years of worker time")
