"""Times and conditions of objects of Kubernetes, in seconds after 1970 in UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec import field as member

TRUE, FALSE = "True", "False"


class StatusCondition(Struct, gc=False):
    """A condition of an object: its latest transition."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    at: datetime | None = member(name="lastTransitionTime", default=None)


def seconds(moment: datetime | None) -> float | None:
    """Return seconds after 1970; None for no time: programs write the year 1970, Go the year 1."""
    if moment is None:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    at = aware.timestamp()
    return at if at > 0 else None


def earliest(moments: Iterable[datetime | None]) -> float | None:
    """Return the earliest time, if there is any."""
    return min((at for moment in moments if (at := seconds(moment)) is not None), default=None)


def latest(moments: Iterable[datetime | None]) -> float | None:
    """Return the latest time, if there is any."""
    return max((at for moment in moments if (at := seconds(moment)) is not None), default=None)


def condition(conditions: Iterable[StatusCondition] | None, kind: str) -> StatusCondition | None:
    """Return the condition of a type; None where the object has none."""
    for item in conditions or ():
        if item.type == kind:
            return item
    return None


def true_at(
    conditions: Iterable[StatusCondition] | None, kind: str, status: str = TRUE
) -> float | None:
    """Return since when a condition has a status; None where it has not."""
    item = condition(conditions, kind)
    return seconds(item.at) if item is not None and item.status == status else None
