"""Statistics of arrivals: gaps between submissions, the daily and weekly pattern, bursts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import IntArray
from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US, MICROS, time_of
from gpuplan.analysis.characterize.clock import is_zone, local_time
from gpuplan.analysis.characterize.seasonality import Seasonality, seasonality
from gpuplan.analysis.history.jobs import JobArrays
from gpuplan.analysis.job_table.schema import Provenance
from gpuplan.analysis.statistics.chunks import chunks, run_lengths

QUARTER_US = 900 * MICROS
BURST_QUANTILE = 0.999


@dataclass(frozen=True, slots=True)
class Interarrival:
    """Gaps between successive submissions; None without gaps, or with only zeros.

    Attributes:
        mean_s: mean gap.
        scv: squared coefficient of variation, population variance / mean^2; 1 for Poisson.
        zero_share: share of gaps that are zero at the clock's resolution.
    """

    mean_s: float | None = None
    scv: float | None = None
    zero_share: float | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    """A run of successive hours whose arrivals all exceed the bound.

    Attributes:
        start_s: start in seconds after the first submission.
        start: the same as a UTC time; None where the source has no calendar.
        hours: length.
        jobs: arrivals in it.
    """

    start_s: float
    start: str | None
    hours: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts of a trace.

    Attributes:
        mean_jobs_per_hour: arrivals per hour over all hours of the trace.
        bound_jobs_per_hour: a Poisson stream of that mean stays within it in 999 hours of 1,000.
        hours: hours above the bound.
        share_hours: the same as a share of all hours.
        share_jobs: share of jobs that arrive in them.
        windows: runs of successive such hours.
        largest: the windows with the most arrivals, in descending order.
    """

    mean_jobs_per_hour: float
    bound_jobs_per_hour: int
    hours: int
    share_hours: float
    share_jobs: float
    windows: int
    largest: tuple[Burst, ...]


@dataclass(frozen=True, slots=True)
class ArrivalStatistics:
    """Daily and weekly pattern and bursts.

    Attributes:
        time_zone: zone of the pattern; None if the source has no calendar.
        by_hour: submissions by hour of the day, 0 to 23; None without a calendar.
        by_weekday: submissions by day of the week, Monday first; None without a calendar.
        bursts: hours with more arrivals than chance explains.
        seasonality: how strong the daily and weekly rhythm is.
    """

    time_zone: str | None
    by_hour: tuple[int, ...] | None
    by_weekday: tuple[int, ...] | None
    bursts: Bursts
    seasonality: Seasonality


def interarrival(submit_us: IntArray) -> Interarrival:
    """Return the statistics of the gaps of ascending submissions; shape (n,)."""
    if submit_us.size < 2:
        return Interarrival()
    gap_s = np.empty(submit_us.size - 1)
    for part in chunks(gap_s.size):
        gap_s[part] = np.diff(submit_us[part.start : part.stop + 1]) / MICROS
    mean = float(gap_s.mean())
    zero_share = 1 - int(np.count_nonzero(gap_s)) / gap_s.size
    gap_s -= mean  # in place: the gaps themselves are not needed any more
    gap_s *= gap_s
    return Interarrival(
        mean_s=mean,
        scv=float(gap_s.mean()) / mean**2 if mean > 0 else None,
        zero_share=zero_share,
    )


def arrivals(jobs: JobArrays, provenance: Provenance, *, top: int) -> ArrivalStatistics:
    """Return the pattern of arrivals, in the time zone of the source if known, otherwise in UTC."""
    zone = zone_of(provenance)
    hourly, daily = (None, None) if zone is None else _pattern(jobs.submit_us, zone)
    return ArrivalStatistics(
        time_zone=zone,
        by_hour=hourly,
        by_weekday=daily,
        bursts=find_bursts(jobs.submit_us, calendar=not provenance.relative_time, top=top),
        seasonality=seasonality(jobs.submit_us, zone),
    )


def zone_of(provenance: Provenance) -> str | None:
    """Return the time zone of the source, UTC if unknown; None without a calendar."""
    if provenance.relative_time:
        return None
    zone = provenance.time_zone
    return zone if zone is not None and is_zone(zone) else "UTC"


def find_bursts(submit_us: IntArray, *, calendar: bool, top: int) -> Bursts:
    """Return the hours with more arrivals than a Poisson stream would explain.

    The trace is cut into hours from the first submission on; the last one counts as a full hour.
    With m arrivals per hour on average, an hour is a burst if it has more than b, the least integer
    with P(Poisson(m) <= b) >= 0.999. Successive such hours form one window. A Poisson stream of
    constant rate has one such hour in a thousand; a daily pattern alone causes more.
    """
    hours_seen, counts = run_lengths(submit_us, HOUR_US, int(submit_us[0]))
    hours = int(hours_seen[-1]) + 1
    mean = submit_us.size / hours
    bound = poisson_quantile(mean, BURST_QUANTILE)
    over = counts > bound
    at, size = hours_seen[over], counts[over]
    first = np.flatnonzero(np.diff(at, prepend=at[:1] - 2) > 1)  # an hour after a quiet one
    lengths = np.diff(first, append=at.size)
    totals = np.add.reduceat(size, first) if at.size else size
    ranked = np.lexsort((at[first], -totals))[:top]
    origin = time_of(int(submit_us[0]))
    largest = tuple(
        Burst(
            start_s=float(at[first[i]] * HOUR_S),
            start=(origin + timedelta(hours=int(at[first[i]]))).isoformat() if calendar else None,
            hours=int(lengths[i]),
            jobs=int(totals[i]),
        )
        for i in ranked
    )
    return Bursts(
        mean_jobs_per_hour=mean,
        bound_jobs_per_hour=bound,
        hours=at.size,
        share_hours=at.size / hours,
        share_jobs=int(size.sum()) / submit_us.size,
        windows=first.size,
        largest=largest,
    )


def poisson_quantile(mean: float, q: float) -> int:
    """Return the least b with P(Poisson(mean) <= b) >= q, by summing the probabilities.

    The sum starts 12 standard deviations below the mean, where less than 1e-20 is left out.
    """
    reach = 12 * mean**0.5 + 40
    k = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1, dtype=np.float64)
    # log of P(k) / P(k[0]); the constant drops out when the sum is scaled to 1.
    steps = np.log(mean) - np.log(k[1:])
    log_p = np.concatenate([[0.0], np.cumsum(steps)])
    p = np.exp(log_p - log_p.max())
    return int(k[np.searchsorted(np.cumsum(p), q * p.sum(), side="left")])


def _pattern(submit_us: IntArray, zone: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return counts by hour of day and by weekday in a time zone.

    Time zones differ from UTC by whole quarters of an hour, so one conversion per quarter is
    enough. (Before 1900 some do not, but a trace of that age has a wrong clock anyway.)
    """
    quarter, counts = run_lengths(submit_us, QUARTER_US)
    local = local_time(pl.Series(quarter * QUARTER_US), zone)
    by_hour = np.bincount(local.dt.hour().to_numpy(), counts, minlength=24)
    by_weekday = np.bincount(local.dt.weekday().to_numpy() - 1, counts, minlength=7)
    return tuple(int(c) for c in by_hour), tuple(int(c) for c in by_weekday)
