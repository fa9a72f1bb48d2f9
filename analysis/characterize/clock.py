"""Local time of a source: time zones as offsets or IANA names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import polars as pl

OFFSET = re.compile(r"^(?:UTC)?([+-])(\d{2}):?(\d{2})$")


def is_zone(name: str | None) -> bool:
    """Return whether a time zone is an offset such as ``+02:00`` or an IANA name known here."""
    if name is None:
        return False
    if OFFSET.match(name):
        return True
    try:
        pl.Series([datetime(2000, 1, 1, tzinfo=UTC)]).dt.convert_time_zone(name)
    except (pl.exceptions.PolarsError, ValueError):
        return False
    return True


def shown_zone(name: str | None) -> str:
    """Return the zone of times shown: that of the source where it is known here, else UTC."""
    return name if name is not None and is_zone(name) else "UTC"


def in_zone(moment: datetime, zone: str) -> datetime:
    """Return an instant as the naive local time of a zone that `is_zone` knows.

    Args:
        moment: without a zone it is UTC.
        zone: of the local time.
    """
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    moment_us = pl.Series([utc]).dt.epoch("us")
    local: datetime = local_time(moment_us, zone).dt.replace_time_zone(None)[0]
    return local


def local_time(moment_us: pl.Series, zone: str) -> pl.Series:
    """Return microseconds since 1970-01-01 UTC as times in a zone that `is_zone` knows."""
    moment = moment_us.cast(pl.Datetime("us", "UTC"))
    offset = OFFSET.match(zone)
    if offset is None:
        return moment.dt.convert_time_zone(zone)
    minutes = int(offset[2]) * 60 + int(offset[3])
    return moment + timedelta(minutes=-minutes if offset[1] == "-" else minutes)
