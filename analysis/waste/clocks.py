"""Whether the clocks of a log and of its metrics agree, by when GPUs were held and when busy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.metrics.samples import Series
from gpuplan.analysis.waste.holders import NodeRuns

SHIFTS_H = tuple(half / 2 for half in range(-28, 29))
"""Differences that time zones have, in hours."""
MOST_POINTS = 2000
MOST_NODES = 64
LEAST_GAIN = 0.1
LEAST_MATCH = 0.3


def clock_warning(nodes: Sequence[tuple[NodeRuns, Sequence[Series]]]) -> str | None:
    """Return a warning where the log fits the metrics better at another time; None where it fits.

    At each time the GPUs in use are compared with those that jobs held: where clocks agree, they
    rise and fall together.

    Args:
        nodes: runs and the utilization of the GPUs of each node.
    """
    held: list[list[FloatArray]] = []
    used: list[FloatArray] = []
    for runs, gpus in nodes[:MOST_NODES]:
        times = _grid(gpus)
        if times.size < 2:
            continue
        used.append(sum((_at(gpu, times) for gpu in gpus), np.zeros(times.size)))
        held.append([_held(runs, times + round(shift * HOUR_S)) for shift in SHIFTS_H])
    if not used:
        return None
    busy = np.concatenate(used)
    match = [_correlation(busy, np.concatenate(parts)) for parts in zip(*held, strict=True)]
    best = int(np.argmax(match))
    as_it_is = match[SHIFTS_H.index(0.0)]
    if match[best] < LEAST_MATCH or match[best] < as_it_is + LEAST_GAIN:
        return None
    hours = SHIFTS_H[best]
    return (
        f"the clocks of the log and of the metrics differ: jobs and busy GPUs fit best with "
        f"the log moved {abs(hours):g} h {'later' if hours < 0 else 'earlier'} (match "
        f"{match[best]:.2f}, as it is {as_it_is:.2f})\n  next: name the zone of the log's times "
        "with --time-zone"
    )


def _grid(gpus: Sequence[Series]) -> IntArray:
    begin = min(int(gpu.time_s[0]) for gpu in gpus)
    end = max(int(gpu.time_s[-1]) for gpu in gpus)
    return np.linspace(begin, end, MOST_POINTS).astype(np.int64)


def _at(gpu: Series, times: IntArray) -> FloatArray:
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


def _correlation(first: FloatArray, second: FloatArray) -> float:
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])
