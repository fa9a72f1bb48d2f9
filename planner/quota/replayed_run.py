"""A replay under quotas as what every simulator answers about a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.quota.simulator import QuotaRun
from gpuplan.simkit.run import Leases, Usage, one_lease
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload


@dataclass(frozen=True)
class ReplayedQuota:
    """A replay of the jobs of a trace under quotas, in microseconds.

    Attributes:
        workload: the jobs.
        quota: the runs, in whole seconds.
        gpus: GPUs of the site.
    """

    workload: Workload
    quota: QuotaRun
    gpus: int

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
        """How long each job held GPUs, the grace after evictions included."""
        job, start, end = self.runs
        held = np.zeros(self.workload.size, np.int64)
        np.add.at(held, job, end - start)
        return held

    @property
    def waited_us(self) -> IntArray:
        """Time of each job without GPUs."""
        waited: IntArray = self.finish_us - self.submit_us - self.held_us
        return waited

    @property
    def held_gpu_us(self) -> FloatArray:
        """GPU time that each job held."""
        held: FloatArray = self.held_us.astype(np.float64) * self.workload.gpus
        return held

    @property
    def stops(self) -> IntArray:
        """How often each job was evicted."""
        return self.quota.evictions

    @cached_property
    def usage(self) -> Usage:
        """GPUs in use and jobs waiting over time."""
        job, start, end = self.runs
        gpus = self.workload.gpus[job]
        again = self.quota.reason >= 0
        events = (
            (self.submit_us, 0 * self.submit_us, np.ones_like(self.submit_us)),
            (start, gpus, -np.ones_like(start)),
            (end, -gpus, np.where(again, 1, 0)),
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
