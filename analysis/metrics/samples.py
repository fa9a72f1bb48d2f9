"""Samples of metrics of GPUs, kept compactly while files are read: a series per GPU and metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import FloatArray, IntArray

UTILIZATION, ENGINE, MEMORY_MIB, MEMORY_FREE_MIB, MEMORY_SHARE, POWER_W = (
    "utilization", "engine", "memory_mib", "memory_free_mib", "memory_share", "power_w",
)  # fmt: skip
"""What is measured. The share of time in which the engine was active says more than utilization,
which says that some kernel ran; both in percent. Memory as a share of all is in percent too."""
PERCENTS = (UTILIZATION, ENGINE, MEMORY_SHARE)

MOST_PERCENT = 101.0
MOST_AMOUNT = 1e7
EPOCH_S = 946_684_800
"""Samples are of 2000 or later; their seconds fit 32 bits until 2136."""
LATEST_S = EPOCH_S + 2**32 - 1

SampleTimes: TypeAlias = NDArray[np.uint32]
SampleValues: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, order=True)
class GpuKey:
    """A GPU.

    Attributes:
        node: the host; empty where the metrics are of a job.
        gpu: its index there.
        job: the job that a label names; empty where there is none.
    """

    node: str
    gpu: str
    job: str = ""


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A metric of a GPU over time; arrays of shape (n,).

    Attributes:
        time_s: seconds since 1970, ascending, each once.
        values: what was measured.
        step_s: usual seconds between two samples; 0 for fewer than two.
    """

    time_s: IntArray
    values: FloatArray
    step_s: float


ABOVE, BEYOND = "samples above 100%", "samples beyond any GPU"


@dataclass(slots=True)
class GpuSamples:
    """Samples of GPUs, in the order in which they were read.

    Attributes:
        sources: names of the metrics that were read, in order.
        counts: what was left out, and why -> how many samples.
        read: samples so far, with those left out.
    """

    sources: dict[str, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    read: int = 0
    _last: SampleTimes = field(default_factory=lambda: np.empty(0, np.uint32))
    _times: dict[tuple[GpuKey, str], list[SampleTimes]] = field(default_factory=dict)
    _values: dict[tuple[GpuKey, str], list[SampleValues]] = field(default_factory=dict)

    def add(self, gpu: GpuKey, metric: str, time_s: FloatArray, values: FloatArray) -> None:
        """Take samples; what is no number, or not within its range, is left out and counted."""
        self.read += time_s.size
        with np.errstate(invalid="ignore"):
            is_time = (time_s >= EPOCH_S) & (time_s <= LATEST_S)
            is_number = np.isfinite(values) & is_time
            most = MOST_PERCENT if metric in PERCENTS else MOST_AMOUNT
            is_above = is_number & (values > most)
            kept = is_number & (values >= 0) & (values <= most)
        if not kept.all():
            self.counts["samples that are no number or have no time"] += int((~is_number).sum())
            self.counts[ABOVE if metric in PERCENTS else BEYOND] += int(is_above.sum())
            self.counts["samples below 0"] += int((is_number & (values < 0)).sum())
            time_s, values = time_s[kept], values[kept]
        if metric in PERCENTS:
            values = np.minimum(values, 100.0)
        if time_s.size:
            key = gpu, metric
            times = (time_s - EPOCH_S).astype(np.uint32)
            if np.array_equal(times, self._last):  # most series of an answer share their times
                times = self._last
            self._last = times
            self._times.setdefault(key, []).append(times)
            self._values.setdefault(key, []).append(values.astype(np.float32))

    def gpus(self) -> list[GpuKey]:
        """Return the GPUs with samples, in order."""
        return sorted({gpu for gpu, _ in self._times})

    def take(self, gpus: Sequence[GpuKey], metric: str) -> MetricSeries | None:
        """Return the samples of a metric of what is one GPU, and drop them; None without any.

        In order of time; of several samples of one second the first one read counts.
        """
        keys = [(gpu, metric) for gpu in gpus if (gpu, metric) in self._times]
        if not keys:
            return None
        times = np.concatenate([part for key in keys for part in self._times.pop(key)])
        values = np.concatenate([part for key in keys for part in self._values.pop(key)])
        if times.size > 1 and not bool((times[1:] > times[:-1]).all()):
            times, first = np.unique(times, return_index=True)
            self.counts["samples that are copies of another"] += values.size - times.size
            values = values[first]
        step_s = float(np.median(np.diff(times))) if times.size > 1 else 0.0
        return MetricSeries(times.astype(np.int64) + EPOCH_S, values.astype(np.float64), step_s)
