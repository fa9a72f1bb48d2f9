"""Replayed waits beside the waits that the log recorded for the same jobs.

Both count from submission to the first start, of all jobs that are replayed, as the tables of a
study do. A replay begins with an empty cluster and the log with a full one: where that alone makes
a difference, the jobs after the first tenth of the time agree, and so does the replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import BoolArray, FloatArray

WARMUP_SHARE = 0.1
"""Of the time of submissions, in which an empty cluster may make the difference."""
FEWEST_JOBS = 20
"""Fewer jobs say nothing about a scheduler."""
FEWEST_OF_A_PART = 100
"""The P95 wait of fewer jobs on one GPU type says nothing against the whole."""
MOST_TIMES, LEAST_GAP_S = 1.5, 600.0
"""Waits differ where one is more than so many times the other, and by more than so many seconds."""


@dataclass(frozen=True, slots=True)
class WaitPairs:
    """The waits of the same jobs, replayed and recorded.

    Attributes:
        replayed_s, recorded_s: seconds, by job; shape (n,), n may be 0.
        gpu_type: of each job; None where there is one type or none is named.
        is_settled: whether each job comes after the warm-up; None where all do.
    """

    replayed_s: FloatArray
    recorded_s: FloatArray
    gpu_type: NDArray[np.object_] | None = None
    is_settled: BoolArray | None = None

    def summary(self) -> WaitMatch | None:
        """Return their means and 95th percentiles; None for fewer than `FEWEST_JOBS` jobs."""
        if self.recorded_s.size < FEWEST_JOBS:
            return None
        types = []
        for name in () if self.gpu_type is None else np.unique(self.gpu_type):
            of_type = self.gpu_type == name
            if np.count_nonzero(of_type) >= FEWEST_OF_A_PART:
                types.append((str(name), self._match(of_type)))
        return self._match(np.ones(self.recorded_s.size, np.bool_), tuple(types))

    def _match(self, chosen: BoolArray, types: tuple[tuple[str, WaitMatch], ...] = ()) -> WaitMatch:
        settled = None
        if self.is_settled is not None:
            late = chosen & self.is_settled
            if FEWEST_JOBS <= np.count_nonzero(late) < np.count_nonzero(chosen):
                settled = _match(self.replayed_s[late], self.recorded_s[late])
        return _match(self.replayed_s[chosen], self.recorded_s[chosen], types, settled)


@dataclass(frozen=True, slots=True)
class WaitMatch:
    """Replayed and recorded waits of the same jobs, in seconds.

    Attributes:
        jobs: that count.
        replayed_mean_wait_s, recorded_mean_wait_s: means.
        replayed_p95_wait_s, recorded_p95_wait_s: 95th percentiles.
        types: the same by GPU type, where there are several, of types with enough jobs.
        settled: the same of the jobs after the warm-up; None where these are all, or too few.
    """

    jobs: int
    replayed_mean_wait_s: float
    recorded_mean_wait_s: float
    replayed_p95_wait_s: float
    recorded_p95_wait_s: float
    types: tuple[tuple[str, WaitMatch], ...] = ()
    settled: WaitMatch | None = None

    @property
    def mean(self) -> tuple[float, float]:
        """The mean waits, replayed and recorded."""
        return self.replayed_mean_wait_s, self.recorded_mean_wait_s

    @property
    def p95(self) -> tuple[float, float]:
        """The P95 waits, replayed and recorded."""
        return self.replayed_p95_wait_s, self.recorded_p95_wait_s

    @property
    def agrees(self) -> bool:
        """Whether the mean and the P95 wait are close to the log's, of all jobs or the settled."""
        if are_close(*self.mean) and are_close(*self.p95):
            return True
        return self.settled is not None and self.settled.agrees

    @property
    def distance(self) -> float:
        """How far apart the waits are: the larger ratio of the two, after `LEAST_GAP_S`."""
        return max(
            (max(pair) + LEAST_GAP_S) / (min(pair) + LEAST_GAP_S) for pair in (self.mean, self.p95)
        )


def _match(
    replayed_s: FloatArray,
    recorded_s: FloatArray,
    types: tuple[tuple[str, WaitMatch], ...] = (),
    settled: WaitMatch | None = None,
) -> WaitMatch:
    return WaitMatch(
        recorded_s.size,
        *(float(replayed_s.mean()), float(recorded_s.mean())),
        *(float(np.percentile(replayed_s, 95)), float(np.percentile(recorded_s, 95))),
        types,
        settled,
    )


def are_close(replayed_s: float, recorded_s: float) -> bool:
    """Return whether two waits differ by at most `MOST_TIMES`, or by at most `LEAST_GAP_S`."""
    low, high = sorted((replayed_s, recorded_s))
    return high - low <= LEAST_GAP_S or high <= MOST_TIMES * low


def paired_waits(jobs: TraceJobs, wait_s: FloatArray) -> WaitPairs:
    """Return the waits of the jobs whose wait the log recorded.

    Args:
        jobs: that were replayed.
        wait_s: their replayed waits; NaN for a job that does not count; shape (n,).
    """
    recorded_s = jobs.recorded_wait_s
    if recorded_s is None or recorded_s.size != wait_s.size:
        return WaitPairs(np.empty(0), np.empty(0))
    submit_us = jobs.workload.submit_us
    begin = submit_us[0] + WARMUP_SHARE * (submit_us[-1] - submit_us[0])
    counts = ~np.isnan(recorded_s) & ~np.isnan(wait_s)
    gpu_type = None
    if jobs.labels is not None and "gpu_type" in jobs.labels.columns:
        named = jobs.labels["gpu_type"]
        if named.n_unique() > 1:
            gpu_type = named.cast(pl.String).fill_null(UNNAMED).to_numpy()[counts]
    return WaitPairs(wait_s[counts], recorded_s[counts], gpu_type, (submit_us >= begin)[counts])


def joined(pairs: Sequence[WaitPairs]) -> WaitPairs:
    """Return the pairs of several clusters as those of one, GPU types among each other."""
    return WaitPairs(
        np.concatenate([each.replayed_s for each in pairs]),
        np.concatenate([each.recorded_s for each in pairs]),
        is_settled=np.concatenate([
            np.ones(each.recorded_s.size, np.bool_) if each.is_settled is None else each.is_settled
            for each in pairs
        ]),
    )  # fmt: skip
