"""Samples of metrics of GPUs, kept compactly while files are read: a series per GPU and metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import FloatArray, IntArray

UTILIZATION, ENGINE, TENSOR, MEMORY_MIB, MEMORY_FREE_MIB, MEMORY_SHARE, POWER_W = (
    "utilization", "engine", "tensor", "memory_mib", "memory_free_mib", "memory_share", "power_w",
)  # fmt: skip
"""What is measured. The share of time in which the engine was active says more than utilization,
which says that some kernel ran; how busy the tensor cores were says how much of it was computed.
All in percent, as is memory as a share of all."""
PERCENTS = (UTILIZATION, ENGINE, TENSOR, MEMORY_SHARE)
PROFILED = (ENGINE, TENSOR)
"""Counters that are shares from 0 to 1, which some exporters write in percent."""

MOST_PERCENT = 101.0
PERCENT_OF_SHARE = 100.0
"""Factor by which a share is too large where an exporter writes it in percent."""
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
        step_s: usual seconds between two samples, lost or not; 0 for fewer than two.
        lost_s: times of samples without a value that can be used, ascending.
    """

    time_s: IntArray
    values: FloatArray
    step_s: float
    lost_s: IntArray = field(default_factory=lambda: np.empty(0, np.int64))


ABOVE, BEYOND = "samples above 100%", "samples beyond any GPU"
NOT_IN_SECONDS = "samples with a time after 2136, as times in milliseconds have"
IN_PERCENT = "samples of DCGM_FI_PROF_... taken as percent, as most are above 1"


@dataclass(slots=True)
class GpuSamples:
    """Samples of GPUs, in the order in which they were read.

    Attributes:
        sources: names of the metrics that were read, in order.
        counts: what was left out, and why -> how many samples.
        read: samples so far, with those left out.
        models: node -> the model of its GPUs, where the metrics name it.
    """

    sources: dict[str, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    read: int = 0
    models: dict[str, str] = field(default_factory=dict)
    _last: SampleTimes = field(default_factory=lambda: np.empty(0, np.uint32))
    _times: dict[tuple[GpuKey, str], list[SampleTimes]] = field(default_factory=dict)
    _values: dict[tuple[GpuKey, str], list[SampleValues]] = field(default_factory=dict)
    _lost: dict[tuple[GpuKey, str], list[SampleTimes]] = field(default_factory=dict)
    _above: Counter[str] = field(default_factory=Counter)
    _within: Counter[str] = field(default_factory=Counter)

    def add(self, gpu: GpuKey, metric: str, time_s: FloatArray, values: FloatArray) -> None:
        """Take samples; what is no number, or not within its range, is lost and counted.

        Samples of `PROFILED` may be in percent: `take` tells, once all of them are read.
        """
        self.read += time_s.size
        with np.errstate(invalid="ignore"):
            is_late = np.isfinite(time_s) & (time_s > LATEST_S)
            is_time = (time_s >= EPOCH_S) & (time_s <= LATEST_S)
            is_number = np.isfinite(values) & is_time
            most = MOST_PERCENT if metric in PERCENTS else MOST_AMOUNT
            if metric in PROFILED:
                self._above[metric] += int(((values > most) & is_number).sum())
                self._within[metric] += int(((values > 0) & (values <= most)).sum())
                most *= PERCENT_OF_SHARE
            is_above = is_number & (values > most)
            kept = is_number & (values >= 0) & (values <= most)
        if not kept.all():
            is_odd = ~is_number & ~is_late
            self.counts[NOT_IN_SECONDS] += int(is_late.sum())
            self.counts["samples that are no number or have no time"] += int(is_odd.sum())
            self.counts[ABOVE if metric in PERCENTS else BEYOND] += int(is_above.sum())
            self.counts["samples below 0"] += int((is_number & (values < 0)).sum())
            lost_s = time_s[~kept & is_time] - EPOCH_S
            self._lost.setdefault((gpu, metric), []).append(lost_s.astype(np.uint32))
            time_s, values = time_s[kept], values[kept]
        if metric in PERCENTS and metric not in PROFILED:
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

    def metrics(self) -> frozenset[str]:
        """Return what is measured of any GPU."""
        return frozenset(metric for _, metric in self._times)

    def is_instant(self, metrics: Iterable[str]) -> bool:
        """Return whether no GPU has samples of two times of any of some metrics."""
        chosen = frozenset(metrics)
        return not any(
            len({int(edge) for part in parts for edge in (part.min(), part.max())}) > 1
            for (_, metric), parts in self._times.items()
            if metric in chosen
        )

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
        lost = np.concatenate([times[:0], *(p for key in keys for p in self._lost.pop(key, []))])
        if metric in PROFILED:
            times, values, above = self._profiled_values(metric, times, values)
            lost = np.append(lost, above)
        every = times
        if lost.size:
            lost = np.setdiff1d(lost, times)  # of copies one can be good
            every = np.union1d(times, lost)
        step_s = float(np.median(np.diff(every))) if every.size > 1 else 0.0
        if not times.size:
            return None
        return MetricSeries(
            times.astype(np.int64) + EPOCH_S, values.astype(np.float64), step_s,
            lost.astype(np.int64) + EPOCH_S,
        )  # fmt: skip

    def _profiled_values(
        self, metric: str, times: SampleTimes, values: SampleValues
    ) -> tuple[SampleTimes, SampleValues, SampleTimes]:
        """Return times and percents of a counter, and the times of those above 100%."""
        if self._above[metric] > self._within[metric]:
            self.counts[IN_PERCENT] += values.size
            return times, np.minimum(values / PERCENT_OF_SHARE, 100.0), times[:0]
        is_above = values > MOST_PERCENT
        self.counts[ABOVE] += int(is_above.sum())
        return times[~is_above], np.minimum(values[~is_above], 100.0), times[is_above]
