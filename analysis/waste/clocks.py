"""Whether the clocks of a log and of its metrics agree, by when GPUs were held and when busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.metrics.samples import MetricSeries
from gpuplan.analysis.waste.holders import NodeRuns

SHIFTS_H = tuple(half / 2 for half in range(-28, 29))
"""Differences that time zones have, in hours."""
MOST_POINTS = 2000
MOST_NODES = 64
LEAST_RUNS = 8
"""Within the time of the metrics; a few jobs fit many shifts by chance."""
LEAST_GAIN = 0.1
MOST_MISFIT = 0.5
"""Or what is left, of what the match lacks to 1 as it is: long jobs match well an hour off too."""
LEAST_RELATIVE_GAIN = 0.005
LEAST_MATCH = 0.3
LEAST_VARIANCE = 1e-9
STRANGE_MATCH = 0.5
STRANGE_SHARE = 0.05
"""Best match below which, and share of use outside all jobs above which, both are of others."""


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """A shift with which a log fits its metrics clearly better than as it is.

    Attributes:
        later_h: hours by which the log must be moved later; negative for earlier.
        match: correlation of the GPUs held and the GPUs in use with the log so moved.
        match_as_is: the same without the shift.
    """

    later_h: float
    match: float
    match_as_is: float

    def warning(self) -> str:
        """Return what to say, with the next step."""
        return (
            f"the clocks of the log and of the metrics differ: jobs and busy GPUs fit best with "
            f"the log moved {abs(self.later_h):g} h {'later' if self.later_h > 0 else 'earlier'} "
            f"(match {self.match:.2f}, as it is {self.match_as_is:.2f})\n  next: name the zone "
            "of the log's times with --time-zone"
        )


class ClockCheck:
    """Compares the GPUs in use at each time with those that jobs held, for some shifts of the log.

    Where clocks agree, they rise and fall together.
    """

    def __init__(self) -> None:
        self._nodes = 0
        self._points = 0
        self._runs = 0
        self._used = np.zeros(2)
        self._held = np.zeros((len(SHIFTS_H), 2))
        self._both = np.zeros(len(SHIFTS_H))
        self._outside = 0.0

    def add(self, runs: NodeRuns, gpus: Sequence[MetricSeries]) -> None:
        """Take a node: its runs, and the utilization of its GPUs."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            return
        times = _grid(gpus)
        used = sum((_at(gpu, times) for gpu in gpus), np.zeros(times.size))
        self._points += times.size
        within = (runs.start_s < times[-1]) & (runs.end_s > times[0])
        self._runs += int(np.count_nonzero(within))
        self._used += used.sum(), (used**2).sum()
        for i, shift in enumerate(SHIFTS_H):
            held = _held(runs, times + round(shift * HOUR_S))
            self._held[i] += held.sum(), (held**2).sum()
            self._both[i] += (held * used).sum()
            if not shift:
                self._outside += np.maximum(used - held, 0).sum()

    def _matches(self) -> FloatArray:
        """Return the correlation for each shift; 0 where one of the two does not change."""
        mean, square = self._used / self._points
        means, squares = (self._held / self._points).T
        variance = (square - mean**2) * (squares - means**2)
        match = np.zeros(len(SHIFTS_H))
        both = self._both / self._points - mean * means
        np.divide(
            both, np.sqrt(np.maximum(variance, 0.0)), out=match, where=variance > LEAST_VARIANCE
        )
        return match

    def strange(self) -> str:
        """Return why the metrics are not of the jobs of the log; empty where they may be."""
        used = self._used[0]
        if self._runs < LEAST_RUNS or used <= 0:
            return ""
        match, outside = float(self._matches().max()), self._outside / used
        if match >= STRANGE_MATCH or outside <= STRANGE_SHARE:
            return ""
        return (
            f"the metrics do not fit the log: GPUs are in use when no job holds them "
            f"({outside:.0%} of their use; match {match:.2f} at best)"
        )

    def difference(self) -> ClockDifference | None:
        """Return by how much the clocks differ; None where the log fits as it is."""
        if self._runs < LEAST_RUNS:
            return None
        match = self._matches()
        best = int(np.argmax(match))
        as_it_is = match[SHIFTS_H.index(0.0)]
        gain = match[best] - as_it_is
        is_halved = 1 - match[best] <= MOST_MISFIT * (1 - as_it_is) and gain >= LEAST_RELATIVE_GAIN
        if match[best] < LEAST_MATCH or not (gain >= LEAST_GAIN or is_halved):
            return None
        return ClockDifference(-SHIFTS_H[best], float(match[best]), float(as_it_is))


def _grid(gpus: Sequence[MetricSeries]) -> IntArray:
    begin = min(int(gpu.time_s[0]) for gpu in gpus)
    end = max(int(gpu.time_s[-1]) for gpu in gpus)
    return np.linspace(begin, end, MOST_POINTS).astype(np.int64)


def _at(gpu: MetricSeries, times: IntArray) -> FloatArray:
    """Return 1 where the last sample before a time was of a busy GPU."""
    place = np.searchsorted(gpu.time_s, times, "right") - 1
    return ((place >= 0) & (gpu.values[np.maximum(place, 0)] > 0)).astype(np.float64)


def _held(runs: NodeRuns, times: IntArray) -> FloatArray:
    """Return the GPUs that runs hold at some times."""
    total = np.zeros(times.size)
    for edge, sign in ((runs.start_s, 1.0), (runs.end_s, -1.0)):
        order = np.argsort(edge, kind="stable")
        sums = np.append(0.0, np.cumsum(runs.gpus[order]))
        total += sign * sums[np.searchsorted(edge[order], times, "right")]
    return total
