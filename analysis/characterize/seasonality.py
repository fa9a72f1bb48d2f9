"""The daily and weekly share of the variation in arrivals, and the strongest period.

The series is the square root of the number of submissions in each whole hour of the trace; the root
gives Poisson counts of every rate the same variance (Bartlett, JRSS Suppl. 3, 1936), so that a few
bursts do not drown the rhythm. The strength of a rhythm is the share of the variance of the series
explained by the means of the hours of the day (or of the days of the week), corrected for what the
means of pure noise would explain: the epsilon-squared of Kelley, "An unbiased correlation ratio
measure", PNAS 21, 1935. The strongest period is the peak of the periodogram, tested as in
Fisher, "Tests of significance in harmonic analysis", Proc. R. Soc. A 125, 1929.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US
from gpuplan.analysis.characterize.clock import local_time
from gpuplan.analysis.statistics.chunks import run_lengths

DAY_H, WEEK_H = 24, 168
LONGEST_PERIOD_H = 2 * WEEK_H
LEAST_CYCLES = 3
SIGNIFICANT = 0.01
MAX_HOURS = 1 << 20
"""About 120 years; a longer series is a broken clock and not worth its memory."""
FEW_HOURS = 10_000
"""A longer series is analyzed only if it has a job a day: otherwise, as with one job decades away
from the rest, nearly all hours are empty and show nothing."""


def most_hours(jobs: int) -> int:
    """Return the length of the longest hourly series to analyze for this many jobs."""
    return min(MAX_HOURS, max(FEW_HOURS, DAY_H * jobs))


@dataclass(frozen=True, slots=True)
class Seasonality:
    """Rhythm of the arrivals; None where the trace is too short or its hours do not vary.

    Attributes:
        hours: whole hours in the trace.
        daily_strength: share of the variance of the series that the hour of the day explains,
            0 to 1; known from two days on.
        weekly_strength: the same for the day of the week; from two weeks on.
        peak_period_s: period of the highest peak of the periodogram, of at least three cycles
            and at most two weeks; None where noise explains it (p above 0.01) or where it
            is at the longest period, as with a trend.
        peak_share: share of the variance at that period.
        peak_p: bound on the probability of so high a peak in white noise.
    """

    hours: int
    daily_strength: float | None = None
    weekly_strength: float | None = None
    peak_period_s: float | None = None
    peak_share: float | None = None
    peak_p: float | None = None


def seasonality(submit_us: IntArray, zone: str | None) -> Seasonality:
    """Return the rhythm of ascending submissions, at least one.

    Args:
        submit_us: microseconds since 1970-01-01 UTC; shape (n,).
        zone: an offset or IANA name for the clock on the wall; None counts days and weeks from
            the first whole hour, for a source without a calendar.
    """
    _, hours = _full_hours(submit_us)
    hourly = hourly_series(submit_us, zone)
    if hourly is None:
        return Seasonality(hours=max(hours, 0))
    series, hour_of_day, weekday = hourly
    long = hours >= 2 * WEEK_H
    period_h, share, p = find_peak(series)
    return Seasonality(
        hours=hours,
        daily_strength=max(0.0, explained(series, hour_of_day)),
        weekly_strength=max(0.0, explained(series, weekday)) if long else None,
        peak_period_s=None if period_h is None else HOUR_S * period_h,
        peak_share=share,
        peak_p=p,
    )


def hourly_series(
    submit_us: IntArray, zone: str | None
) -> tuple[FloatArray, IntArray, IntArray] | None:
    """Return the root of the submissions in each whole hour, its hour of the day, its weekday.

    None for less than two days, for more than `most_hours`, or if all hours are equal.
    """
    first, hours = _full_hours(submit_us)
    if hours < 2 * DAY_H or hours > most_hours(submit_us.size):
        return None
    hour, jobs = run_lengths(submit_us, HOUR_US, first * HOUR_US)
    inside = slice(*np.searchsorted(hour, [0, hours]))
    series = np.zeros(hours)
    series[hour[inside]] = np.sqrt(jobs[inside])
    return None if np.ptp(series) == 0 else (series, *_labels(first, hours, zone))


def explained(values: FloatArray, labels: IntArray) -> float:
    """Return the share of the variance that the means by label explain, corrected for noise.

    With T values, k labels, the sums of squares W around the means by label and S around the
    mean: ``1 - (W / (T - k)) / (S / (T - 1))``, which is below 0 for about half of all noise.
    """
    size = np.bincount(labels)
    total = np.bincount(labels, values)
    seen = size > 0
    between = float((total[seen] ** 2 / size[seen]).sum()) - values.sum() ** 2 / values.size
    overall = float(((values - values.mean()) ** 2).sum())
    within = max(overall - between, 0.0) / (values.size - np.count_nonzero(seen))
    return float(1 - within / (overall / (values.size - 1)))


def find_peak(series: FloatArray) -> tuple[float | None, float | None, float | None]:
    """Return the period of the periodogram's peak in hours, its share of the variance, and p.

    With m ordinates in the band, of which the largest holds the share g of their sum, noise has so
    large a one with a probability of at most ``m (1 - g)^(m - 1)``, the first term of Fisher's
    series. The peak is then located between the ordinates by padding the series with zeros.
    """
    hours = series.size
    residual = series - series.mean()
    power = np.abs(np.fft.rfft(residual)) ** 2
    low = max(LEAST_CYCLES, -(-hours // LONGEST_PERIOD_H))
    band = power[low : (hours + 1) // 2]  # the Nyquist frequency has half the freedom
    if band.size < 3 or not band.any():
        return None, None, None
    peak = low + int(band.argmax())
    g = float(power[peak] / band.sum())
    p = min(1.0, band.size * (1 - g) ** (band.size - 1))
    if p > SIGNIFICANT or peak == low:
        return None, None, p
    size = 1 << (min(8 * hours, max(hours, MAX_HOURS)) - 1).bit_length()
    fine = np.abs(np.fft.rfft(residual, size))
    end = min((peak + 1) * size // hours + 1, fine.size)  # at the shortest period it ends there
    near = np.arange((peak - 1) * size // hours + 1, end)
    best = int(near[fine[near].argmax()])
    share = 2 * float(power[peak]) / (hours * float(residual @ residual))
    return size / best, share, p


def _full_hours(submit_us: IntArray) -> tuple[int, int]:
    """Return the first whole hour of a trace, and how many there are (below 0 for none)."""
    first = -(-int(submit_us[0]) // HOUR_US)
    return first, int(submit_us[-1]) // HOUR_US - first


def _labels(first: int, hours: int, zone: str | None) -> tuple[IntArray, IntArray]:
    """Return hour of the day and day of the week (Monday 0) of successive hours."""
    hour = np.arange(first, first + hours)
    if zone is None:
        return (hour - first) % DAY_H, (hour - first) // DAY_H % 7
    local = local_time(pl.Series(hour * HOUR_US), zone).dt
    return local.hour().to_numpy().astype(np.int64), local.weekday().to_numpy().astype(np.int64) - 1
