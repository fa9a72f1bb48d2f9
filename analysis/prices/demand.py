"""The GPU time of a trace by GPU type and hour, which prices are applied to.

A job holds its GPUs from submission + wait for its duration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.arrays import FloatArray
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.gpu_names import gpu_name
from gpuplan.analysis.jobs import job_arrays
from gpuplan.analysis.time_units import HOUR_S
from gpuplan.analysis.trace import Trace

COLUMNS = ("submit_time", "queue_s", "duration_s", "num_gpus", "state", "gpu_type")
"""Canonical columns that a bill reads."""
US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class HourlyDemand:
    """GPU time of the jobs of one GPU type, in hours of the Unix epoch.

    Attributes:
        gpu_type: the GPU; None where it is not known.
        jobs: timed jobs that hold GPUs.
        gpu_hours: duration x GPUs, summed.
        start_h, end_h: when each job holds its GPUs; shape (n,). Empty without a calendar.
        num_gpus: GPUs held; shape (n,).
    """

    gpu_type: str | None
    jobs: int
    gpu_hours: float
    start_h: FloatArray
    end_h: FloatArray
    num_gpus: FloatArray

    def in_hours(self, first: int, count: int) -> FloatArray:
        """Return the GPU-hours in each of ``count`` hours from ``first`` on; shape (count,)."""
        begin = np.clip(self.start_h - first, 0.0, count)
        end = np.clip(self.end_h - first, 0.0, count)
        into, out = begin.astype(np.int64), end.astype(np.int64)  # floors: nothing is below 0
        gpus, within = self.num_gpus, into == out
        held = np.zeros(count + 2)
        held += np.bincount(into, gpus * (np.where(within, end, into + 1) - begin), count + 2)
        held += np.bincount(out, gpus * np.where(within, 0.0, end - out), count + 2)
        whole = np.where(within, 0.0, gpus)  # held throughout the hours between
        steps = np.bincount(into + 1, whole, count + 2) - np.bincount(out, whole, count + 2)
        result: FloatArray = (held + np.cumsum(steps).round(9))[:count]  # rounding leaves no GPU
        return result


def demands(trace: Trace, gpu: str | None, *, include_running: bool) -> tuple[HourlyDemand, ...]:
    """Return the GPU time of a trace by GPU type, in order of names, the unknown last.

    Args:
        trace: read with at least `COLUMNS`.
        gpu: the GPU of jobs that name none.
        include_running: count jobs still running with the time they have run so far.
    """
    jobs = job_arrays(trace.jobs, include_running=include_running)
    chosen = jobs.timed_gpu()
    codes, written = name_codes(trace.jobs["gpu_type"])
    named = [*map(gpu_name, written), gpu]  # the last code is that of jobs that name none
    found = np.zeros(len(named), dtype=np.bool_)
    found[codes[chosen]] = True
    calendar = not trace.provenance.relative_time

    def of(gpu_type: str | None) -> HourlyDemand:
        mine = np.array([name == gpu_type for name in named])[codes] & chosen
        duration_h, gpus = jobs.duration_s[mine] / HOUR_S, jobs.num_gpus[mine]
        count, gpu_hours = gpus.size, float((duration_h * gpus).sum())
        if not calendar:
            none = np.zeros(0)
            return HourlyDemand(gpu_type, count, gpu_hours, start_h=none, end_h=none, num_gpus=none)
        start_h = jobs.submit_us[mine] / US_PER_S / HOUR_S
        start_h += np.nan_to_num(jobs.queue_s[mine]) / HOUR_S
        return HourlyDemand(gpu_type, count, gpu_hours, start_h, start_h + duration_h, gpus)

    types = {name for name, some in zip(named, found, strict=True) if some}
    return tuple(of(one) for one in sorted(types, key=lambda name: (name is None, name or "")))
