"""Which GPUs of a node a job held, where the log tells the node and not the GPUs.

Jobs of a whole node held all of them. Of others the series tell: a job takes those GPUs, of the
ones that no earlier job still holds, that were busy for most of its time. Which of two idle GPUs it
takes makes no difference to what it used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.metrics.samples import MetricSeries

BUSY_MIB = 256.0
"""Memory in use above which some job holds a GPU; drivers alone use less."""


@dataclass(frozen=True, slots=True)
class NodeRuns:
    """Runs of jobs on one node, by start; arrays of shape (n,).

    Attributes:
        job: place of the job in the log.
        start_s, end_s: seconds since 1970.
        gpus: GPUs held on this node.
    """

    job: IntArray
    start_s: IntArray
    end_s: IntArray
    gpus: IntArray


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """When a GPU was busy; arrays of shape (m,).

    Attributes:
        time_s: of the samples.
        is_busy: whether a job held it then, as far as its metrics show.
    """

    time_s: IntArray
    is_busy: BoolArray

    def share(self, start_s: IntArray, end_s: IntArray) -> FloatArray:
        """Return the share of the samples of each span in which it was busy; 0 without any."""
        before = np.append(0, np.cumsum(self.is_busy))
        first, last = (np.searchsorted(self.time_s, edge) for edge in (start_s, end_s))
        samples = last - first
        busy = (before[last] - before[first]).astype(np.float64)
        share: FloatArray = np.zeros(samples.size)
        np.divide(busy, samples, out=share, where=samples > 0)
        return share


def busy_times(memory_mib: MetricSeries | None, use: MetricSeries) -> BusyTimes:
    """Return when a GPU was busy: by its memory where that is there, else by its use."""
    if memory_mib is None:
        return BusyTimes(use.time_s, use.values > 0)
    return BusyTimes(memory_mib.time_s, memory_mib.values > BUSY_MIB)


def held_gpus(runs: NodeRuns, busy: list[BusyTimes]) -> BoolArray:
    """Return which GPUs of a node each run held; shape (runs, GPUs).

    A run of more GPUs than the node has samples of holds all of them.
    """
    held = np.zeros((runs.job.size, len(busy)), np.bool_)
    held[runs.gpus >= len(busy)] = True
    if held.all():
        return held
    shares = np.column_stack([gpu.share(runs.start_s, runs.end_s) for gpu in busy])
    free_from = np.full(len(busy), np.iinfo(np.int64).min)
    for run, (start, end, gpus) in enumerate(
        zip(runs.start_s.tolist(), runs.end_s.tolist(), runs.gpus.tolist(), strict=True)
    ):
        if gpus < len(busy):
            is_free = free_from <= start
            # Stable: of equals the first GPU. One that is not free comes last.
            order = np.argsort(-(shares[run] + 2.0 * is_free), kind="stable")
            held[run, order[:gpus]] = True
        free_from[held[run]] = np.maximum(free_from[held[run]], end)
    return held
