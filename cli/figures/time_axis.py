"""A time axis: dates where the log has a calendar, else time after its first submission."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

DAY_S, HOUR_S = 86_400, 3_600
LONG_H = 96.0
"""Longer times are counted in days."""
LAST_YEAR = 9999
"""The last year that Matplotlib can write."""


def date_number(instant: datetime) -> float:
    """Return an instant as Matplotlib counts it: days, in UTC."""
    utc = instant.astimezone(UTC).replace(tzinfo=None)
    return float(date2num(utc))  # type: ignore[no-untyped-call]


def drawable(first: datetime | None, lasting_s: float) -> datetime | None:
    """Return the beginning of a time axis of dates.

    None without a calendar, where a date cannot be written, and below a second: the numbers of
    dates have steps of microseconds.
    """
    if first is None or lasting_s < 1:
        return None
    end = date_number(datetime(LAST_YEAR, 12, 31, tzinfo=UTC))
    return first if date_number(first) + lasting_s / DAY_S < end else None


LEAST_DATES, MOST_DATES = 3, 8
"""Marks of a time axis. Between these, Matplotlib has an interval for every length of time."""


def date_ticks(axes: Axes, *, has_offset: bool = True) -> None:
    """Mark the horizontal axis with a few dates, and what they share beside them."""
    locator = AutoDateLocator(minticks=LEAST_DATES, maxticks=MOST_DATES)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator, show_offset=has_offset)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)


def keep_dates(axes: Axes) -> None:
    """Cut a margin of the horizontal axis that no date can name."""
    days = datetime(1, 1, 1, tzinfo=UTC), datetime(LAST_YEAR, 12, 31, tzinfo=UTC)
    least, most = (date_number(day) for day in days)
    low, high = axes.get_xlim()
    if low < least or high > most:
        axes.set_xlim(max(low, least), min(high, most))


def name_dates(axes: Axes, first: datetime, last: datetime, form: str) -> None:
    """Name the horizontal axis by its first and its last date."""
    ends = dict.fromkeys(date.strftime(form) for date in (first, last))
    axes.set_xlabel(f"{' to '.join(ends)} (UTC)")


def show_dates(axes: Axes, zone: str = "UTC") -> None:
    """Mark the horizontal axis, whose values are those of `date_number`, with dates of a zone.

    What is drawn is on it already.
    """
    keep_dates(axes)
    date_ticks(axes)
    axes.set_xlabel(f"date ({zone})")


def time_axis(axes: Axes, hours: Sequence[float], first: datetime | None) -> list[float]:
    """Scale and name the x axis; return where to draw hours after the first submission, ascending.

    Without a ``first`` the log has no calendar.
    """
    first = drawable(first, hours[-1] * HOUR_S)
    if first is None:
        unit, per = ("days", 24.0) if hours[-1] > LONG_H else ("hours", 1.0)
        axes.set_xlabel(f"{unit} after the first submission")
        return [hour / per for hour in hours]
    begin = first.astimezone(UTC).replace(tzinfo=None)
    date_ticks(axes, has_offset=False)
    low, high = (begin + timedelta(hours=hour) for hour in (hours[0], hours[-1]))
    name_dates(axes, low, high, "%Y" if hours[-1] > LONG_H else "%Y-%m-%d")
    day = float(date2num(begin))  # type: ignore[no-untyped-call]
    return [day + hour / 24 for hour in hours]
