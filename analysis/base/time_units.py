"""Lengths of time in seconds, hours and microseconds; those of `gpuplan.simkit.time` are floats.

A month has 730.5 hours.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

HOUR_S = 3600
DAY_S = 86_400
WEEK_S = 7 * DAY_S
CENTURY_S = 100 * 365.25 * DAY_S
MONTH_H = 730.5

MICROS = 1_000_000
HOUR_US = HOUR_S * MICROS
DAY_US = DAY_S * MICROS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_SUBMIT = datetime(1, 1, 2, tzinfo=UTC)
LAST_SUBMIT = datetime(9798, 12, 31, tzinfo=UTC)
"""Submissions lie between, a day after the begin of the calendar and two centuries before its end:
every time zone can write them, and when their jobs end.
"""


def time_of(micros: int, zone: tzinfo = UTC) -> datetime:
    """Return microseconds since 1970 as a time in a time zone."""
    return (EPOCH + timedelta(microseconds=micros)).astimezone(zone)


def micros_of(time: datetime) -> int:
    """Return the microseconds from 1970 to a time with a zone."""
    return (time - EPOCH) // timedelta(microseconds=1)


def instant(micros: int) -> str:
    """Return microseconds since 1970 as a time in UTC, ``2026-01-31T00:00:00Z``."""
    return time_of(micros).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_utc(time: datetime) -> datetime:
    """Return an instant with a zone; one without is of UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def scaled_to_month(usd: float, window_s: float) -> float | None:
    """Return the bill of a window as dollars per month; None where no time passes."""
    return usd * (MONTH_H / (window_s / HOUR_S)) if window_s > 0 else None


def written_utc(time: datetime | None) -> str | None:
    """Return an instant as it is given on a command line, in UTC and without a zone."""
    if time is None:
        return None
    return (time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)).isoformat()
