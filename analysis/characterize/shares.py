"""Shares of jobs and GPU time by GPU count, state, class, user and group.

The interval of the number of distinct users: a bootstrap cannot give it, as users who came once are
missing from most resamples and no new one is in any. Ecology estimates the number of species from
how many samples each occurs in; here samples are blocks of consecutive jobs.

Sources: Chao, "Estimating the population size for capture-recapture data with unequal
catchability", Biometrics 43, 1987; Colwell, Mao and Chang, "Interpolating, extrapolating, and
comparing incidence-based species accumulation curves", Ecology 85, 2004 (unconditional variance).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.plain import Inlined
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S
from gpuplan.analysis.characterize.durations import percentile
from gpuplan.analysis.history.jobs import JobArrays, known_ascending
from gpuplan.analysis.job_table.schema import STATES
from gpuplan.analysis.reading.computed import number_text
from gpuplan.analysis.statistics.chunks import chunks, counts_and_sums, distinct

LEAST_BLOCKS = 10


def block_of_a_day(jobs: int, span_s: float) -> int:
    """Return the jobs of an average day, ``n^(1/3)`` if that is more, at most a tenth of all.

    It is a sample of users, not a block of a bootstrap: who came today is counted once.
    """
    a_day = jobs * DAY_S / span_s if span_s > 0 else 0.0
    return int(max(1, min(max(np.ceil(jobs ** (1 / 3)), a_day), jobs // LEAST_BLOCKS)))


def distinct_interval(names: pl.Series, block: int, level: float) -> tuple[float, float] | None:
    """Return a confidence interval of the number of distinct names; None without a second block.

    With s names seen and u estimated unseen ones the variance is ``s u / (s + u)``. Of t blocks,
    q1 names in one block only and q2 in two, u is ``(t - 1) / t q1^2 / (2 q2)``, and
    ``(t - 1) / t q1 (q1 - 1) / 2`` where q2 is 0.

    Args:
        names: one per job, in order of submission; null where unknown.
        block: consecutive jobs in a block.
        level: confidence, percent.
    """
    blocks = -(-len(names) // block)
    where = pl.Series("block", np.arange(len(names)) // block)
    sightings = pl.DataFrame([names.alias("name"), where]).drop_nulls("name").unique()
    seen_in = sightings.group_by("name").len()["len"]
    seen = len(seen_in)
    if not seen or blocks < 2:
        return None
    once, twice = int((seen_in == 1).sum()), int((seen_in == 2).sum())
    pairs = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    unseen = (blocks - 1) / blocks * pairs
    deviation = (seen * unseen / (seen + unseen)) ** 0.5
    reach = NormalDist().inv_cdf(0.5 + level / 200) * deviation
    return max(seen - reach, 1.0), seen + reach


@dataclass(frozen=True, slots=True)
class Share:
    """Jobs and GPU time of a part of the trace.

    Attributes:
        jobs: its jobs.
        share_jobs: their share of all jobs.
        gpu_hours: their GPU-hours.
        share_gpu_hours: their share of all GPU-hours.
    """

    jobs: int
    share_jobs: float
    gpu_hours: float | None
    share_gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class GpuCount:
    """The part of the jobs of one GPU count.

    Attributes:
        num_gpus: the GPU count.
    """

    num_gpus: float
    share: Inlined[Share]


@dataclass(frozen=True, slots=True)
class StateShare:
    """The part of the jobs that ended in one state.

    Attributes:
        state: the state.
    """

    state: str
    share: Inlined[Share]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The jobs of one class, user or group.

    Attributes:
        name: the class, user or group; null for jobs that name none.
        median_duration_s: their median run time.
        p90_duration_s: the 90th percentile of their run times.
        mean_num_gpus: mean GPUs of those that use GPUs.
        mean_wait_s: mean of their recorded waits; null where the log records none.
        p50_wait_s: the median of these.
        p95_wait_s: the 95th percentile of these.
        usd_per_month: dollars per month for their GPU-hours; null without a price.
    """

    name: str | None
    share: Inlined[Share]
    median_duration_s: float | None
    p90_duration_s: float | None
    mean_num_gpus: float | None
    mean_wait_s: float | None
    p50_wait_s: float | None
    p95_wait_s: float | None
    usd_per_month: float | None = None


@dataclass(frozen=True, slots=True)
class OtherGroups:
    """The jobs of all names without a row of their own.

    Attributes:
        names: how many names.
        usd_per_month: dollars per month for their GPU-hours; null without a price.
    """

    names: int
    share: Inlined[Share]
    usd_per_month: float | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """The jobs by class, user or group.

    Attributes:
        distinct: how many names there are.
        rows: the largest ones.
        others: all other names; null where every name has a row.
    """

    distinct: int
    rows: tuple[GroupRow, ...]
    others: OtherGroups | None


@dataclass(frozen=True, slots=True)
class _Tally:
    """Jobs and GPU-seconds by code; shape (codes,)."""

    jobs: IntArray
    gpu_s: FloatArray
    timed: bool

    def present(self) -> IntArray:
        """Return the codes with jobs or GPU time."""
        return np.flatnonzero((self.jobs > 0) | (self.gpu_s > 0))

    def share(self, codes: Any) -> Share:
        """Return the part of one code or of several."""
        jobs, gpu_s = int(np.sum(self.jobs[codes])), float(np.sum(self.gpu_s[codes]))
        total, every = float(self.gpu_s.sum()), int(self.jobs.sum())
        return Share(
            jobs=jobs,
            share_jobs=jobs / every if every else 0.0,
            gpu_hours=gpu_s / HOUR_S if self.timed else None,
            share_gpu_hours=gpu_s / total if total > 0 else None,
        )


def _tally(code: Callable[[slice], NDArray[Any]], size: int, jobs: JobArrays) -> _Tally:
    """Return the parts of ``size`` codes; ``code`` returns those of a range of jobs."""
    count, gpu_s = counts_and_sums(code, jobs.gpu_s, size)
    count -= np.bincount(code(slice(0, jobs.earlier)), minlength=size)
    return _Tally(count, gpu_s, timed=jobs.gpu_hours is not None)


def by_gpu_count(jobs: JobArrays) -> tuple[GpuCount, ...]:
    """Return the GPU counts that occur, ascending, each with its part of the GPU jobs."""
    counts = distinct(jobs.num_gpus)
    tally = _tally(lambda part: np.searchsorted(counts, jobs.num_gpus[part]), counts.size, jobs)
    first = int(counts[0] == 0)  # CPU-only jobs do not count in the GPU mix
    tally = _Tally(tally.jobs[first:], tally.gpu_s[first:], tally.timed)
    return tuple(GpuCount(float(count), tally.share(i)) for i, count in enumerate(counts[first:]))


def by_state(jobs: JobArrays) -> tuple[StateShare, ...]:
    """Return the states that occur, in the order of the schema."""
    tally = _tally(lambda part: jobs.state[part], len(STATES), jobs)
    return tuple(StateShare(STATES[code], tally.share(code)) for code in tally.present())


def by_name(names: pl.Series, jobs: JobArrays, *, top: int) -> Groups | None:
    """Return the table of a text or categorical column; None where the column is empty.

    Names of equal GPU time are sorted by jobs, then by name.
    """
    codes, distinct = name_codes(names)
    if distinct.is_empty():
        return None
    nameless = len(distinct)
    tally = _tally(lambda part: codes[part], nameless + 1, jobs)
    present = tally.present()
    ranked = present[np.lexsort((-tally.jobs[present], -tally.gpu_s[present]))]
    shown = ranked[:top]
    codes = codes[jobs.earlier :]
    positions_of_groups = _positions(codes, shown, tally.jobs)
    submitted = jobs.submitted()
    rows = tuple(
        _row(
            None if code == nameless else distinct[int(code)],
            tally.share(code),
            positions,
            submitted,
        )
        for code, positions in zip(shown, positions_of_groups, strict=True)
    )
    rest = ranked[top:]
    others = OtherGroups(rest.size, tally.share(rest)) if rest.size else None
    return Groups(distinct=nameless, rows=rows, others=others)


def names_of(values: pl.Series) -> pl.Series:
    """Return the values of a column as names; whole numbers have no fraction."""
    if values.dtype.is_numeric():
        return number_text(values.cast(pl.Float64))
    return values if values.dtype == pl.Categorical else values.cast(pl.String)


def name_codes(names: pl.Series) -> tuple[NDArray[Any], pl.Series]:
    """Return the place of each name among the distinct ones, and those, sorted.

    Args:
        names: text, categorical, or of a column that a trace keeps.

    Returns:
        Codes of shape (n,), of the shortest type that holds them; a null has the number of
        distinct names. Then these names as text.
    """
    names = names_of(names)
    names = names if names.dtype == pl.Categorical else names.cast(pl.Categorical)
    physical = names.to_physical()
    used = physical.drop_nulls().to_numpy()
    unknown = int(used.max()) + 1 if used.size else 0
    del used

    def stored(part: slice) -> NDArray[Any]:
        return physical[part].fill_null(unknown).to_numpy()

    example = np.full(unknown + 1, -1)  # the position of one job of each name
    for part in chunks(len(names)):
        example[stored(part)] = np.arange(part.start, part.stop)
    example = example[:unknown]
    seen = names.gather(example[example >= 0]).cast(pl.String)
    order = seen.arg_sort().to_numpy()
    place = np.full(unknown + 1, len(seen), dtype=np.min_scalar_type(len(seen)))
    place[np.flatnonzero(example >= 0)[order]] = np.arange(len(seen))
    codes = np.empty(len(names), dtype=place.dtype)
    for part in chunks(len(names)):
        codes[part] = place[stored(part)]
    return codes, seen.gather(order)


def _positions(
    codes: NDArray[Any], shown: IntArray, jobs: IntArray
) -> list[NDArray[np.unsignedinteger[Any]]]:
    """Return the ascending positions of each code of ``shown``.

    ``jobs`` is how often each code occurs. One array holds all positions, code by code, and is
    filled chunk by chunk; NumPy sorts short integers in linear time.
    """
    rank = np.full(jobs.size, shown.size, dtype=np.min_scalar_type(shown.size))
    rank[shown] = np.arange(shown.size)
    end = np.cumsum(jobs[shown])
    filled = end - jobs[shown]
    positions = np.empty(int(end[-1]), dtype=np.min_scalar_type(codes.size))
    for part in chunks(codes.size):
        ranks = rank[codes[part]]
        order = np.argsort(ranks, kind="stable")
        counts = np.bincount(ranks, minlength=shown.size)[: shown.size]
        order = order[: int(counts.sum())]  # codes that are not shown have the largest rank
        first = np.repeat(filled - (np.cumsum(counts) - counts), counts)
        positions[first + np.arange(order.size)] = order + part.start
        filled += counts
    return np.split(positions, end[:-1])


def _row(name: str | None, share: Share, chosen: NDArray[Any], jobs: JobArrays) -> GroupRow:
    mean_s, median_s, p95_s = _waits(jobs.queue_s[chosen])  # frees its copy before the next
    duration_s = known_ascending(jobs.duration_s[chosen])
    num_gpus = jobs.num_gpus[chosen]
    wide = np.count_nonzero(num_gpus)
    return GroupRow(
        name=name,
        share=share,
        median_duration_s=percentile(duration_s, 50) if duration_s.size else None,
        p90_duration_s=percentile(duration_s, 90) if duration_s.size else None,
        mean_num_gpus=float(num_gpus.sum()) / wide if wide else None,
        mean_wait_s=mean_s,
        p50_wait_s=median_s,
        p95_wait_s=p95_s,
    )


def _waits(queue_s: FloatArray) -> tuple[float | None, float | None, float | None]:
    """Return the mean, the median and P95 of the recorded waits; None without any."""
    wait_s = known_ascending(queue_s)
    if not wait_s.size:
        return None, None, None
    return float(wait_s.mean()), percentile(wait_s, 50), percentile(wait_s, 95)
