"""A replay under quotas as what every simulator answers about a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.quota.kai_simulator import KaiRun
from gpuplan.simkit.quota.simulator import QuotaRun
from gpuplan.simkit.run import Leases, Usage, one_lease
from gpuplan.simkit.time import MICROS, MICROS_PER_HOUR
from gpuplan.simkit.workload import Workload


@dataclass(frozen=True)
class ReplayedQuota:
    """A replay of the jobs of a trace under quotas, in microseconds.

    Attributes:
        workload: the jobs.
        quota: the runs, in whole seconds.
        gpus: GPUs of the site.
        run_gpus: GPUs of each run; shape (runs,).
    """

    workload: Workload
    quota: QuotaRun | KaiRun
    gpus: int
    run_gpus: IntArray

    @cached_property
    def runs(self) -> tuple[IntArray, IntArray, IntArray]:
        """The job, start and end of each run, until its GPUs are free; microseconds.

        A job runs as long as the trace says, not to the next whole second.
        """
        quota, work = self.quota, self.workload
        held = np.where(quota.reason >= 0, quota.grace_s, 0)
        end = (quota.end_s + held) * MICROS
        early = quota.jobs.run * MICROS - work.service_us
        end -= np.where(quota.reason < 0, early[quota.job], 0)
        return quota.job, quota.start_s * MICROS, np.maximum(end, quota.start_s * MICROS)

    @property
    def submit_us(self) -> IntArray:
        """Submission of each job."""
        return self.workload.submit_us

    @cached_property
    def start_us(self) -> IntArray:
        """When each job first ran; when it came where it never did."""
        job, start, _ = self.runs
        first = np.full(self.workload.size, np.iinfo(np.int64).max)
        np.minimum.at(first, job, start)
        return np.where(first == np.iinfo(np.int64).max, self.submit_us, first)

    @cached_property
    def finish_us(self) -> IntArray:
        """When each job last ran."""
        job, _, end = self.runs
        last = self.start_us.copy()
        np.maximum.at(last, job, end)
        return last

    @cached_property
    def held_us(self) -> IntArray:
        """How long each job held its GPUs, the grace after evictions included."""
        held: IntArray = (self.held_gpu_us / self.workload.gpus).round().astype(np.int64)
        return held

    @property
    def waited_us(self) -> IntArray:
        """Time of each job without GPUs."""
        waited: IntArray = self.finish_us - self.submit_us - self.held_us
        return waited

    @cached_property
    def held_gpu_us(self) -> FloatArray:
        """GPU time that each job held."""
        job, start, end = self.runs
        held = np.zeros(self.workload.size)
        np.add.at(held, job, (end - start).astype(np.float64) * self.run_gpus)
        return held

    def lost_work(self, _: object = None) -> dict[str, float]:
        """Return the run time that evictions undo, their grace included: mean of a job, and all."""
        lost_us = np.maximum(self.held_us - self.workload.service_us, 0)
        asked_us = self.workload.service_us.astype(np.float64) * self.workload.gpus
        lost_gpu_us = np.maximum(self.held_gpu_us - asked_us, 0.0)[self.stops > 0]
        return {
            "mean_lost_s": float(lost_us.mean()) / MICROS,
            "lost_gpu_h": float(lost_gpu_us.sum()) / MICROS_PER_HOUR,
        }

    @property
    def stops(self) -> IntArray:
        """How often each job was evicted."""
        return self.quota.evictions

    @cached_property
    def usage(self) -> Usage:
        """GPUs in use and jobs waiting over time."""
        job, start, end = self.runs
        gpus = self.run_gpus
        first, last = _stretches(job, start, end)
        events = (
            (self.submit_us, 0 * self.submit_us, np.ones_like(self.submit_us)),
            (start, gpus, -first.astype(np.int64)),
            (end, -gpus, last.astype(np.int64)),
            (self.finish_us, 0 * self.submit_us, -np.ones_like(self.submit_us)),
        )
        time, used, waiting = (np.concatenate(column) for column in zip(*events, strict=True))
        order = np.argsort(time, kind="stable")
        at = np.flatnonzero(np.diff(time[order], append=time.max() + 1))
        return Usage(time[order][at], np.cumsum(used[order])[at], np.cumsum(waiting[order])[at])

    @property
    def capacity(self) -> int:
        """GPUs of the site."""
        return self.gpus

    @property
    def rented(self) -> Leases:
        """All GPUs of the site, from the first submission to the last end."""
        return one_lease(int(self.submit_us[0]), int(self.finish_us.max()), self.gpus)


def _stretches(job: IntArray, start: IntArray, end: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return which runs begin and which end a stretch in which their job holds GPUs.

    Runs of one job overlap where parts of it are evicted apart.
    """
    order = np.lexsort((end, start, job))
    of, begin, until = job[order], start[order], end[order]
    first, last = np.zeros(job.size, np.bool_), np.zeros(job.size, np.bool_)
    at = 0
    while at < order.size:
        following, latest = at + 1, at
        while (
            following < order.size and of[following] == of[at]
            and begin[following] <= until[latest]
        ):  # fmt: skip
            latest = following if until[following] > until[latest] else latest
            following += 1
        first[order[at]] = last[order[latest]] = True
        at = following
    return first, last
