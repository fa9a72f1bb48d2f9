"""Hourly demand: the most GPUs that each group asks for at once in every hour."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_US

PARTS_PER_GPU = 1_000_000
DAY_H, WEEK_H = 24, 168
MOST_HOURS = 200_000
"""Of a history, 22 years: models of a longer one take minutes."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_WEEKDAY = 3  # a Thursday
OTHERS = "(others)"
NO_NAME = "(none)"


@dataclass(frozen=True, slots=True)
class DemandSeries:
    """GPUs asked for in consecutive hours.

    Attributes:
        names: of the series.
        gpus: highest demand within each hour, shape (series, hours), >= 0.
        first_hour: number of the first hour, since 1970 in UTC where the source has a calendar.
        has_calendar: whether hours are of a calendar.
    """

    names: tuple[str, ...]
    gpus: FloatArray
    first_hour: int
    has_calendar: bool

    @property
    def hours(self) -> int:
        """Number of hours."""
        return int(self.gpus.shape[1])

    @property
    def hour_of_week(self) -> int:
        """Hour of the week of the first value; 0 is Monday at midnight."""
        return (self.first_hour + (DAY_H * EPOCH_WEEKDAY if self.has_calendar else 0)) % WEEK_H

    def holiday_hours(self, days: Collection[date], steps: int) -> BoolArray:
        """Return whether each hour, and each of some steps beyond, is of a day; of a calendar."""
        numbers = [(day - EPOCH.date()).days for day in days]
        hours = self.first_hour + np.arange(self.hours + steps)
        found: BoolArray = np.isin(hours // DAY_H, numbers)
        return found

    def before(self, hour: int) -> DemandSeries:
        """Return the hours before an hour."""
        count = hour - self.first_hour
        return DemandSeries(self.names, self.gpus[:, :count], self.first_hour, self.has_calendar)


def time_of_hour(hour: int) -> datetime:
    """Return the beginning of an hour of the calendar, in UTC."""
    return EPOCH + timedelta(hours=hour)


def demand_of_jobs(
    submit_us: IntArray,
    asked_us: IntArray,
    gpus: FloatArray,
    names: pl.Series,
    *,
    has_calendar: bool,
    until_hour: int,
    most: int,
) -> DemandSeries:
    """Return the demand of the jobs of each name, up to an hour.

    A job asks for its GPUs from its submission until it ends: while it waits and while it runs.

    Args:
        submit_us: submissions, microseconds since 1970, ascending; shape (n,).
        asked_us: how long each job asks for its GPUs, its wait and its run; shape (n,).
        gpus: of each job; shape (n,).
        names: the group of each; null for none.
        has_calendar: whether submissions are of a calendar.
        until_hour: the first hour that is left out, after that of the first submission.
        most: series; the smallest groups beyond make one of their own.
    """
    first = int(submit_us[0] // HOUR_US)
    hours = until_hour - first
    work = pl.DataFrame({"name": names.cast(pl.String).fill_null(NO_NAME), "work": gpus * asked_us})
    order = (
        work.group_by("name")
        .agg(pl.col("work").sum())
        .sort(["work", "name"], descending=[True, False])
    )
    known = order["name"].to_list()
    kept = known if len(known) <= most else known[: most - 1]
    codes = (
        work["name"]
        .replace_strict(kept, list(range(len(kept))), default=len(kept), return_dtype=pl.Int64)
        .to_numpy()
    )
    parts = np.rint(gpus * PARTS_PER_GPU).astype(np.int64)
    labels = [*kept, *([OTHERS] if len(kept) < len(known) else [])]
    found = np.stack(
        [
            peaks(submit_us[own], asked_us[own], parts[own], first, hours)
            for own in (codes == code for code in range(len(labels)))
        ]
    )
    return DemandSeries(tuple(labels), found / PARTS_PER_GPU, first, has_calendar)


def peaks(
    begin_us: IntArray, duration_us: IntArray, amount: IntArray, first_hour: int, hours: int
) -> IntArray:
    """Return the highest sum of amounts in each hour; shape (hours,).

    What ends as something else begins makes room for it.
    """
    time = np.concatenate((begin_us + duration_us, begin_us))
    step = np.concatenate((-amount, amount))
    order = np.lexsort((step, time))
    time, level = time[order], np.cumsum(step[order])
    hour = time // HOUR_US - first_hour
    found = np.zeros(hours, np.int64)
    edges = (first_hour + np.arange(hours)) * HOUR_US
    before = np.searchsorted(time, edges, side="left")
    found = np.where(before > 0, level[np.maximum(before - 1, 0)], 0)
    # What ends at the very beginning of an hour is no demand of that hour.
    at_edge = np.searchsorted(time, edges, side="right")
    ended = (at_edge > before) & (at_edge > 0)
    found[ended] = np.minimum(found, level[np.maximum(at_edge - 1, 0)])[ended]
    inside = (hour >= 0) & (hour < hours)
    np.maximum.at(found, hour[inside], _settled(time, level)[inside])
    return found


def _settled(time: IntArray, level: IntArray) -> IntArray:
    """Return at every event the level after all events of its instant."""
    last = np.searchsorted(time, time, side="right") - 1
    found: IntArray = level[last]
    return found
