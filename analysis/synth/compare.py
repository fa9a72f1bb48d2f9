"""How near a synthetic trace is to its original: statistics, tolerances, distances."""

from __future__ import annotations

from collections.abc import Sequence
from csv import DictReader
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.plain import Hidden, plain
from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US, MICROS
from gpuplan.analysis.characterize.arrivals import find_bursts, interarrival
from gpuplan.analysis.characterize.durations import share_at_most, spread
from gpuplan.analysis.characterize.gpu_time import longest_share
from gpuplan.analysis.characterize.load import Load, load
from gpuplan.analysis.characterize.seasonality import seasonality
from gpuplan.analysis.history.jobs import JobArrays, known_ascending
from gpuplan.analysis.job_table.schema import STATES
from gpuplan.analysis.synth.arrivals import hourly_dispersion
from gpuplan.analysis.synth.model import Reference
from gpuplan.analysis.synth.week import local_hours

FEW_JOBS = 5000
"""Below this many jobs the tolerances grow with the square root of the shortfall."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One line of the comparison.

    Attributes:
        key: name in the results.
        label: what people read.
        unit: of the values: ``s``, ``gpus``, ``gpu_h``, ``share``, ``jobs``, ``1``.
        tolerance: largest difference that passes; None if it is only shown.
        relative: the tolerance is a share of the original's value, not a difference.
    """

    key: str
    label: str
    unit: str
    tolerance: float | None
    relative: bool = False


TABLE = Path(__file__).with_name("compared_statistics.csv").read_text(encoding="utf-8")
STATISTICS = msgspec.convert(
    tuple(DictReader(TABLE.splitlines())), tuple[Statistic, ...], strict=False
)
SMALL = {"s": 1.0, "1": 0.05, "share": 0.0, "gpus": 0.0, "gpu_h": 0.0, "jobs": 1.0}
"""By unit: a difference up to this passes whatever the relative tolerance, as of rounding."""

CHANCE = 2.0
"""A difference beyond its tolerance, but of up to this many standard errors, proves nothing: a few
long wide jobs decide the GPU time, a few bursts the hours and days."""

FEWEST_JOBS = 500
"""Below this many jobs no statistic is judged."""

FLAT_SHARE = 0.5
"""Tolerances of hours and days grow to at most this part of the distance to no rhythm at all."""


class Verdict(StrEnum):
    """The judgment of a difference."""

    within = "within"
    outside = "outside"
    too_few_data = "too_few_data"


@dataclass(frozen=True, slots=True)
class ComparedStatistic:
    """A statistic of the synthetic trace beside that of the original.

    Attributes:
        statistic: its name.
        unit: of its values.
        original: value of the original.
        synthetic: value of the synthetic trace.
        difference: how far apart they are, in the unit of the tolerance.
        allowed: the tolerance; null where there is none.
        explained_by_chance: the largest difference that so few data explain.
        verdict: whether the difference is within the tolerance; null without one.
        label: what people read.
    """

    statistic: str
    unit: str
    original: float
    synthetic: float
    difference: float
    allowed: float | None
    explained_by_chance: float
    verdict: Verdict | None
    label: Hidden[str]


def compared(
    about: Statistic,
    original: float,
    synthetic: float,
    allowed: float | None,
    explained: float = 0.0,
    few: bool = False,
) -> ComparedStatistic:
    """Return a statistic with the judgment of its difference.

    Args:
        about: which one.
        original: its value in the original; 0 for distances.
        synthetic: its value in the synthetic trace.
        allowed: largest difference that passes; None without a tolerance.
        explained: largest difference that so few data explain.
        few: the synthetic trace has too few jobs to judge anything.
    """
    difference, verdict = synthetic - original, None
    if allowed is not None:
        distance = abs(difference)
        verdict = Verdict.within if distance <= allowed else Verdict.outside
        if few or allowed < distance <= explained:
            verdict = Verdict.too_few_data
    return ComparedStatistic(
        statistic=about.key,
        unit=about.unit,
        original=original,
        synthetic=synthetic,
        difference=difference,
        allowed=allowed,
        explained_by_chance=explained,
        verdict=verdict,
        label=about.label,
    )


def measure(
    jobs: JobArrays,
    users: int | None,
    zone: str | None,
    gpu_points: Sequence[float] | None = None,
    *,
    with_load: bool = True,
) -> Reference:
    """Return the statistics of some jobs; ``gpu_points`` are the GPU counts of its CDFs.

    GPUs held over time, which take most of the memory, are left out on request.
    """
    ascending = known_ascending(jobs.duration_s)
    wide = jobs.num_gpus > 0
    timed = jobs.holding()
    held = load(jobs) if with_load else Load()
    statistics: dict[str, float | None] = {
        **{f"duration_s.{k}": v for k, v in plain(spread(ascending)).items() if k != "jobs"},
        "short_jobs.under_60s": share_at_most(ascending, 60.0),
        "short_jobs.under_600s": share_at_most(ascending, 600.0),
        "gpus.mean": float(jobs.num_gpus[wide].mean()) if wide.any() else None,
        "gpus.cpu_only_share": float(1 - np.count_nonzero(wide) / jobs.jobs),
        **{f"interarrival.{k}": v for k, v in plain(interarrival(jobs.submit_us)).items()},
        **{f"queue_s.{k}": v for k, v in _waits(jobs).items()},
        **_bursts(jobs, zone),
        "load.p95_gpus": held.p95_gpus,
        "load.peak_gpus": held.peak_gpus,
        "users": users,
    }
    gpu_s = float(jobs.gpu_s[timed].sum())
    if gpu_s > 0:
        statistics["gpu_time.gpu_hours_per_job"] = gpu_s / HOUR_S / np.count_nonzero(timed)
        statistics["gpu_time.top10pct_longest_share"] = longest_share(
            jobs.duration_s[timed], jobs.gpu_s[timed], 10
        )
    counts = np.bincount(jobs.state, minlength=len(STATES)) / jobs.jobs
    by_hour, by_weekday = _pattern(jobs, zone)
    return Reference(
        statistics={key: float(value) for key, value in statistics.items() if value is not None},
        duration_cdf=_duration_cdf(ascending),
        gpu_cdf=_cdf(jobs.num_gpus[wide], np.ones(np.count_nonzero(wide)), gpu_points),
        gpu_time_cdf=_cdf(jobs.num_gpus[timed], jobs.gpu_s[timed], gpu_points),
        states={STATES[code]: float(counts[code]) for code in np.flatnonzero(counts)},
        by_hour=by_hour,
        by_weekday=by_weekday,
    )


def compare(
    jobs: JobArrays, users: int | None, zone: str | None, to: Reference
) -> list[ComparedStatistic]:
    """Return the statistics of the reference next to those of the synthetic jobs.

    A distance is the largest difference of two distribution functions at the reference's points,
    or half the sum of the differences of shares (hours, days, states).
    """
    points = sorted({gpus for gpus, _ in (*to.gpu_cdf, *to.gpu_time_cdf)})
    with_load = "load.p95_gpus" in to.statistics
    here = measure(jobs, users, zone, points, with_load=with_load)
    distances = {
        "duration_cdf.distance": _duration_distance(jobs, to),
        "gpu_cdf.distance": _largest(here.gpu_cdf, to.gpu_cdf),
        "gpu_time_cdf.distance": _largest(here.gpu_time_cdf, to.gpu_time_cdf),
        "by_hour.distance": _half(here.by_hour, to.by_hour),
        "by_weekday.distance": _half(here.by_weekday, to.by_weekday),
        "states.distance": _half(
            [here.states.get(state, 0.0) for state in STATES],
            [to.states.get(state, 0.0) for state in STATES] if to.states else [],
        ),
    }
    chance = _chance(jobs, here)
    flat = {
        "by_hour.distance": _from_flat(to.by_hour),
        "by_weekday.distance": _from_flat(to.by_weekday),
    }
    wider = max(1.0, FEW_JOBS / jobs.jobs) ** 0.5
    rows = []
    for statistic in STATISTICS:
        if statistic.key in distances:
            original, synthetic = 0.0, distances[statistic.key]
        else:
            original = to.statistics.get(statistic.key)  # type: ignore[assignment]
            synthetic = here.statistics.get(statistic.key)
        if original is None or synthetic is None:
            continue
        stated = statistic.tolerance
        if stated is None:
            rows.append(compared(statistic, original, synthetic, None))
            continue
        scale = abs(original) if statistic.relative else 1.0
        most = max(stated, FLAT_SHARE * flat.get(statistic.key, np.inf))
        explained = max(stated * wider, CHANCE * chance.get(statistic.key, 0.0)) * scale
        allowed = max(min(stated * wider, most) * scale, SMALL[statistic.unit])
        few = jobs.jobs < FEWEST_JOBS
        rows.append(compared(statistic, original, synthetic, allowed, explained, few))
    return rows


def _from_flat(shares: Sequence[float]) -> float:
    """Return the distance of shares to equal ones."""
    return float(np.abs(np.asarray(shares) - 1 / max(len(shares), 1)).sum() / 2)


def _chance(jobs: JobArrays, here: Reference) -> dict[str, float]:
    """Return the differences to expect of chance alone.

    Of the GPU time, its standard error. Of hours and days, the mean of half the sum of |normal|
    errors with the variance of a count that has the dispersion of hourly (daily) counts.
    """
    gpu_s = jobs.gpu_s[jobs.holding()]
    error = float(gpu_s.std() / gpu_s.mean()) / gpu_s.size**0.5 if gpu_s.any() else 0.0
    differences = {"gpu_time.gpu_hours_per_job": error, "gpu_time_cdf.distance": error}
    at_s = (jobs.submit_us - jobs.submit_us[0]) // MICROS
    for name, shares, bin_s in (
        ("by_hour", here.by_hour, HOUR_S),
        ("by_weekday", here.by_weekday, 24 * HOUR_S),
    ):
        counts = np.bincount(at_s // bin_s)
        dispersion = max(1.0, float(counts.var() / counts.mean()))
        errors = np.sqrt(np.asarray(shares) * dispersion / jobs.jobs)
        differences[f"{name}.distance"] = float(errors.sum() * (2 / np.pi) ** 0.5 / 2)
    return differences


def _bursts(jobs: JobArrays, zone: str | None) -> dict[str, float | None]:
    """Return how jobs gather in hours, from two days on."""
    if jobs.span_s < 48 * HOUR_S:
        return {}
    bursts = find_bursts(jobs.submit_us, calendar=False, top=1)
    return {
        "arrivals.hourly_dispersion": hourly_dispersion(jobs.submit_us),
        "arrivals.burst_share_hours": bursts.share_hours,
        "arrivals.burst_share_jobs": bursts.share_jobs,
        "arrivals.weekly_strength": None
        if zone is None
        else seasonality(jobs.submit_us, zone).weekly_strength,
    }


def _waits(jobs: JobArrays) -> dict[str, float | None]:
    summary = plain(spread(known_ascending(jobs.queue_s)))
    return {name: summary[name] for name in ("mean", "p50", "p90")}


def _pattern(jobs: JobArrays, zone: str | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the shares of submissions by hour and weekday; empty without a calendar."""
    if zone is None:
        return (), ()
    hours, counts = np.unique(jobs.submit_us // HOUR_US, return_counts=True)
    hour, weekday = local_hours(hours, zone)
    return (
        tuple(float(x) for x in np.bincount(hour, counts, minlength=24) / jobs.jobs),
        tuple(float(x) for x in np.bincount(weekday, counts, minlength=7) / jobs.jobs),
    )


def _duration_cdf(ascending: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """Return the distribution function at powers of 2 seconds, as published figures show it."""
    if not ascending.size:
        return ()
    points = 2.0 ** np.arange(max(1, int(np.ceil(np.log2(max(ascending[-1], 1)))) + 1))
    shares = np.searchsorted(ascending, points, side="right") / ascending.size
    return tuple((float(p), float(s)) for p, s in zip(points, shares, strict=True))


def _duration_distance(jobs: JobArrays, to: Reference) -> float | None:
    ascending = known_ascending(jobs.duration_s)
    if not to.duration_cdf or not ascending.size:
        return None
    points, shares = np.asarray(to.duration_cdf).T
    here = np.searchsorted(ascending, points, side="right") / ascending.size
    return float(np.abs(here - shares).max())


def _cdf(
    values: NDArray[np.float64], weights: NDArray[np.float64], points: Sequence[float] | None
) -> tuple[tuple[float, float], ...]:
    """Return the weighted distribution function at ``points``, default at every value."""
    total = float(weights.sum())
    if not total:
        return ()
    distinct, code = np.unique(values, return_inverse=True)
    held = np.cumsum(np.bincount(code, weights)) / total
    at = distinct if points is None else np.asarray(points, dtype=np.float64)
    position = np.searchsorted(distinct, at, side="right")
    shares = np.concatenate([[0.0], held])[position]
    return tuple((float(p), float(s)) for p, s in zip(at, shares, strict=True))


def _largest(
    here: tuple[tuple[float, float], ...], to: tuple[tuple[float, float], ...]
) -> float | None:
    if not to or not here:
        return None
    shares = dict(here)
    return max(abs(shares[point] - share) for point, share in to)


def _half(here: Sequence[float], to: Sequence[float]) -> float | None:
    if not len(to) or not len(here):
        return None
    return float(np.abs(np.asarray(here) - np.asarray(to)).sum() / 2)
