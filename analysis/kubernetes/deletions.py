"""When an object of a watch stream was deleted that does not say so itself.

A DELETED event has no time of its own. An object with finalizers carries ``deletionTimestamp``;
for another one the last time that the stream told of before is the earliest that it can have been.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.kubernetes.objects import DELETED, UNREADABLE, KubeObject
from gpuplan.analysis.kubernetes.times import StatusCondition, latest


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
                    told = _last_time(item)
                    last = last if told is None else max(told, last or told)
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
