"""Dates on the time axis of a picture, where a log has a calendar."""

from __future__ import annotations

from datetime import UTC, datetime

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

DAY_S = 86_400
LAST_YEAR = 9999
"""The last year that Matplotlib can write."""


def date_number(instant: datetime) -> float:
    """Return an instant as Matplotlib counts it: days, in UTC."""
    utc = instant.astimezone(UTC).replace(tzinfo=None)
    return float(date2num(utc))  # type: ignore[no-untyped-call]


def drawable(first: datetime | None, lasting_s: float) -> datetime | None:
    """Return the beginning of a time axis if all of it has dates that can be written."""
    if first is None:
        return None
    end = date_number(datetime(LAST_YEAR, 12, 31, tzinfo=UTC))
    return first if date_number(first) + lasting_s / DAY_S < end else None


def show_dates(axes: Axes) -> None:
    """Mark the horizontal axis, whose values are those of `date_number`, with dates."""
    locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.set_xlabel("date (UTC)")
