"""Time zones by their names."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from gpuplan.analysis.base.errors import UsageError


def epoch_second(text: str, zone: str) -> int:
    """Return the second after 1970 of a time in ISO 8601, local where it has no offset.

    Raises:
        ValueError: it is no such time.
        OverflowError: it is too far from today.
        UsageError: there is no such zone.
    """
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=zone_named(zone))).timestamp())


def zone_named(name: str | None) -> tzinfo:
    """Return a time zone by its IANA name or its offset, such as ``+02:00``; UTC without one.

    Raises:
        UsageError: there is no such zone.
    """
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, a path, or a folder of zones
        pass
    try:
        zone = datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo
    except ValueError:
        zone = None
    if zone is None:
        raise UsageError(
            f"--time-zone {name}: no such zone\n  next: use an IANA name such as Europe/Berlin"
        )
    return zone
