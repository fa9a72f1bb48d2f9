"""What happened in a run of Allpass: to its jobs, its rentals, and over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.allpass.parameters import Allpass
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.renting.billing import billed_us
from gpuplan.simkit.run import Leases, Usage
from gpuplan.simkit.time import MICROS_PER_HOUR
from gpuplan.simkit.workload import Workload


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
        demotion_us: checkpoint, restores and, where workers were reclaimed, work that was lost; 0
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


def overheads_us(workload: Workload, parameters: Allpass) -> tuple[IntArray, IntArray]:
    """Return the time to save, and to load, each job: its own, or the one of the run."""
    return workload.overheads_us(parameters.checkpoint_s, parameters.restore_s)
