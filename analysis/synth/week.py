"""The week of a source: the hour of the week of a time, and time scaled by its rates.

Zones change their offset a few times a year. Between two changes the week repeats itself, so all
that depends on the hour of the week is found from 168 numbers, however long the time is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US, MICROS
from gpuplan.analysis.characterize.clock import local_time

DAY_H, WEEK_H = 24, 168
WEEK_S = WEEK_H * HOUR_S
KEPT_DAYS = 64
EPOCH_H = 3 * DAY_H  # 1970-01-01 was a Thursday; weeks begin on Monday


@dataclass(frozen=True, slots=True)
class Clock:
    """The stretches of time in which a zone keeps its offset.

    Attributes:
        start_s: their starts, seconds since 1970-01-01 UTC, whole hours; shape (k,), ascending.
        phase_s: second of the local week at each start; shape (k,), whole hours.
    """

    start_s: FloatArray
    phase_s: FloatArray

    def stretch(self, real_s: FloatArray) -> IntArray:
        """Return the stretch that each instant is in; the ends reach beyond."""
        positions: IntArray = np.searchsorted(self.start_s[1:], real_s, side="right")
        return positions

    def slots(self, real_s: FloatArray) -> IntArray:
        """Return the hour of the local week, 0 to 167, that each instant is in."""
        at = self.stretch(real_s)
        passed_h = (self.phase_s[at] + (real_s - self.start_s[at])) // HOUR_S
        slots: IntArray = passed_h.astype(np.int64) % WEEK_H
        return slots

    def watched_s(self, first_s: float, last_s: float) -> FloatArray:
        """Return the time spent in each hour of the week between two times; shape (7, 24)."""
        inside = (self.start_s > first_s) & (self.start_s < last_s)
        begin = np.concatenate([[first_s], self.start_s[inside]])
        at = self.stretch(begin)
        begin_s = self.phase_s[at] + (begin - self.start_s[at])
        lasting = np.diff(begin, append=last_s)
        return (_slots_until(begin_s + lasting) - _slots_until(begin_s)).reshape(7, DAY_H)


def _slots_until(week_s: FloatArray) -> FloatArray:
    """Return the sum over some instants of the time in each hour of the week up to them."""
    weeks, rest = np.divmod(week_s, WEEK_S)
    part = np.clip(rest[:, None] - HOUR_S * np.arange(WEEK_H), 0.0, HOUR_S)
    total: FloatArray = part.sum(axis=0) + HOUR_S * weeks.sum()
    return total


def clock_of(zone: str, first_s: float, last_s: float) -> Clock:
    """Return the clock of a zone that `is_zone` knows over some time, and a little beyond it."""
    part_s = KEPT_DAYS * DAY_H * HOUR_S  # so that paths of one process share a clock
    first, last = int(first_s // part_s), int(last_s // part_s) + 1
    return _clock(zone, first * KEPT_DAYS * DAY_H, last * KEPT_DAYS * DAY_H)


@lru_cache(maxsize=64)
def _clock(zone: str, first_h: int, last_h: int) -> Clock:
    """Find the changes of the offset: between which days, then in which hour."""
    days = np.append(np.arange(first_h, last_h, DAY_H), last_h)
    shift = _shift(days, zone)
    start, kept = [first_h], [int(shift[0])]
    for day in np.flatnonzero(np.diff(shift)):
        hours = np.arange(days[day], days[day + 1] + 1)
        within = _shift(hours, zone)
        for change in np.flatnonzero(np.diff(within)) + 1:
            start.append(int(hours[change]))
            kept.append(int(within[change]))
    starts = np.array(start)
    phase_h = (starts + np.array(kept) + EPOCH_H) % WEEK_H
    return Clock(HOUR_S * starts.astype(np.float64), HOUR_S * phase_h.astype(np.float64))


def _shift(hours: IntArray, zone: str) -> IntArray:
    """Return by how many whole hours local time is ahead at whole UTC hours, rounded down."""
    local = local_time(pl.Series(hours * HOUR_US), zone)
    wall_s = local.dt.replace_time_zone(None).dt.epoch("s").to_numpy()
    ahead: IntArray = wall_s // HOUR_S - hours
    return ahead


@dataclass(frozen=True, slots=True)
class Busy:
    """Busy time from an instant on: real time weighted by the rate of the hour of the week.

    Attributes:
        clock: position of the local week.
        upto_s: busy seconds since Monday at each whole hour; shape (169,), ascending from 0.
        begin_s: busy seconds at the start of each stretch of the clock; shape (k,), ascending.
    """

    clock: Clock
    upto_s: FloatArray
    begin_s: FloatArray

    def into(self, real_s: FloatArray) -> FloatArray:
        """Return busy time at real times."""
        at = self.clock.stretch(real_s)
        phase_s = self.clock.phase_s[at]
        passed = self._since_monday(phase_s + (real_s - self.clock.start_s[at]))
        result: FloatArray = self.begin_s[at] + passed - self._since_monday(phase_s)
        return result

    def back(self, busy_s: FloatArray) -> FloatArray:
        """Return real time at busy times."""
        at = np.searchsorted(self.begin_s[1:], busy_s, side="right")
        phase_s = self.clock.phase_s[at]
        since = busy_s - self.begin_s[at] + self._since_monday(phase_s)
        weeks, rest = np.divmod(since, self.upto_s[-1])
        knots = HOUR_S * np.arange(WEEK_H + 1.0)
        passed = WEEK_S * weeks + np.interp(rest, self.upto_s, knots)
        result: FloatArray = self.clock.start_s[at] + passed - phase_s
        return result

    def _since_monday(self, week_s: FloatArray) -> FloatArray:
        weeks, rest = np.divmod(week_s, WEEK_S)
        within = np.interp(rest, HOUR_S * np.arange(WEEK_H + 1.0), self.upto_s)
        result: FloatArray = weeks * self.upto_s[-1] + within
        return result


def busy_time(clock: Clock, rates: FloatArray, first_s: float) -> Busy:
    """Return the busy time from an instant on.

    Args:
        clock: of the source.
        rates: relative rate of each hour of the week, > 0; shape (7, 24).
        first_s: where busy time is 0, seconds since 1970-01-01 UTC.
    """
    upto_s = np.concatenate([[0.0], np.cumsum(rates.ravel() * float(HOUR_S))])
    flat = Busy(clock, upto_s, np.zeros(clock.start_s.size))
    lasting = np.diff(clock.start_s)
    passed = flat._since_monday(clock.phase_s[:-1] + lasting) - flat._since_monday(
        clock.phase_s[:-1]
    )
    begin_s = np.concatenate([[0.0], np.cumsum(passed)])
    busy = Busy(clock, upto_s, begin_s)
    return Busy(clock, upto_s, begin_s - busy.into(np.array([first_s])))


def local_hours(hours: IntArray, zone: str) -> tuple[IntArray, IntArray]:
    """Return hour of the day and day of the week (Monday 0) at whole UTC hours since 1970."""
    local = local_time(pl.Series(hours * HOUR_US), zone)
    hour, weekday = local.dt.hour().to_numpy(), local.dt.weekday().to_numpy() - 1
    return hour.astype(np.int64), weekday.astype(np.int64)


def local_midnight_s(day: str, zone: str | None) -> int:
    """Return the start of a local day in seconds since 1970-01-01 UTC."""
    midnight = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    second = wall = int(midnight.timestamp())
    for _ in range(2):  # the second time with the offset that holds there
        second = wall - (_wall_s(second, zone) - second)
    return second


def local_day(second: float, zone: str | None) -> str:
    """Return the local day, ``YYYY-MM-DD``, of an instant."""
    wall = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=_wall_s(int(second), zone))
    return wall.date().isoformat()


def _wall_s(second: int, zone: str | None) -> int:
    """Return the local time of a zone, as seconds since 1970-01-01 there."""
    local = local_time(pl.Series([second * MICROS]), zone or "UTC")
    return int(local.dt.replace_time_zone(None).dt.epoch("s").item())
