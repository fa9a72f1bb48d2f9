"""Times and conditions of objects of Kubernetes, in seconds after 1970 in UTC.

A DELETED event of a watch stream has no time of its own. An object with finalizers carries
``deletionTimestamp``; of another one the last time that the stream told of before is the earliest
that it can have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.kubernetes.objects import DELETED, UNREADABLE, KubeObject

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


def holds(
    conditions: Iterable[StatusCondition] | None, kind: str, status: str = TRUE
) -> StatusCondition | None:
    """Return the condition of a type if it has a status, else None."""
    item = condition(conditions, kind)
    return item if item is not None and item.status == status else None


def true_at(
    conditions: Iterable[StatusCondition] | None, kind: str, status: str = TRUE
) -> float | None:
    """Return since when a condition has a status; None where it has not."""
    item = holds(conditions, kind, status)
    return None if item is None else seconds(item.at)


class _Created(Struct):
    created: datetime | None = member(name="creationTimestamp", default=None)


class _Conditions(Struct):
    conditions: list[StatusCondition] | None = None


class _Timed(Struct):
    metadata: _Created | None = None
    status: _Conditions | None = None


_AS_TIMED = msgspec.json.Decoder(_Timed)


class StreamTimes:
    """The last time that each event of some streams, or one before it, tells of.

    Made of the objects of each file, in order; read only when it is asked of a deletion.
    """

    def __init__(self, files: Sequence[Sequence[KubeObject]]) -> None:
        self._files = [
            objects for objects in files if any(item.event == DELETED for item in objects)
        ]
        self._latest: dict[int, float | None] | None = None

    def until(self, event: KubeObject) -> float | None:
        """Return the last time told of until an event, seconds after 1970; None for none."""
        if self._latest is None:
            self._latest = {}
            for objects in self._files:
                last: float | None = None
                for item in objects:
                    item_time = _last_time(item)
                    last = last if item_time is None else max(item_time, last or item_time)
                    self._latest[id(item)] = last
        return self._latest.get(id(event))


def _last_time(item: KubeObject) -> float | None:
    """Return the last transition or creation that an object tells of."""
    try:
        timed = item.read(_AS_TIMED)
    except UNREADABLE:
        return None
    created = None if timed.metadata is None else timed.metadata.created
    conditions = (timed.status.conditions if timed.status is not None else None) or ()
    return latest([created, *(condition.at for condition in conditions)])
