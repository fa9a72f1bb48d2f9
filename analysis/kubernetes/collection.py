"""The newest version of every object of several files, by kind."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpuplan.analysis.kubernetes.objects import (
    UNREADABLE,
    KubeObject,
    ObjectFile,
    ObjectKey,
    newest,
    versions,
)
from gpuplan.analysis.reading.batch import CUT_OFF, Refused

T = TypeVar("T")
WHERE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<key>.*)`", re.DOTALL)
STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
MOST_QUOTED = 40
"""Letters of a value that are quoted. Lists and objects, and what stands in place of one, are not:
they may hold secrets."""


@dataclass(slots=True)
class ObjectsByKind:
    """The newest version of every object of all sources, by kind.

    Attributes:
        several: key of an object that has several versions -> these, in order.
        by_kind: kind -> the newest version of each object.
        counts: kind -> how many objects there are.
        refused: position of the source, and what is no object there.
    """

    several: dict[ObjectKey, list[KubeObject]] = field(default_factory=dict)
    by_kind: dict[str, list[KubeObject]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[int, Refused]] = field(default_factory=list)

    def of(self, kind: str) -> Sequence[KubeObject]:
        """Return the objects of a kind."""
        return self.by_kind.get(kind, ())

    def drained(self, kind: str) -> Iterator[KubeObject]:
        """Yield the objects of a kind, and keep none of them."""
        return drained(self.by_kind.get(kind, []))

    def forget(self) -> None:
        """Keep no object: the text of the files is not needed any more."""
        self.by_kind.clear()
        self.several.clear()

    def versions_of(self, item: KubeObject) -> Sequence[KubeObject]:
        """Return all versions of an object, in order."""
        return self.several.get(item.key) or (item,)

    def refuse(self, item: KubeObject, error: Exception) -> None:
        """Set an object aside that cannot be read, without what it holds."""
        self.refused.append(
            (item.source, Refused(item.number, "unreadable", None, located(item, error),
                             f"a {item.kind} of Kubernetes", item.shown()))
        )  # fmt: skip

    def read(
        self, items: Iterable[KubeObject], reader: Callable[[KubeObject], T]
    ) -> Iterator[tuple[KubeObject, T]]:
        """Yield objects and what a reader makes of them; refuse those that it cannot read."""
        for item in items:
            try:
                value = reader(item)
            except UNREADABLE as error:
                self.refuse(item, error)
            else:
                yield item, value

    def other_kinds_note(self, read: Collection[str]) -> list[str]:
        """Return a note with the kinds of objects besides those that are read as jobs."""
        listed = ", ".join(
            f"{kind} {count:,}" for kind, count in sorted(self.counts.items()) if kind not in read
        )
        notes = [f"objects that are no jobs: {listed}"] if listed else []
        if any(row.reason == CUT_OFF for _, row in self.refused):
            notes.append("the log ends in the middle of an object: it was cut there")
        return notes


def collected(files: Iterable[ObjectFile]) -> ObjectsByKind:
    """Return the newest objects of some files, and what is no object there."""
    objects = ObjectsByKind()
    everything: list[KubeObject] = []
    for file in files:
        objects.refused += [(file.source, row) for row in file.refused]
        everything += file.objects
    for kept in versions(everything):
        last = newest(kept)
        objects.by_kind.setdefault(last.kind, []).append(last)
        if len(kept) > 1:
            objects.several[last.key] = kept
    objects.counts.update({kind: len(items) for kind, items in objects.by_kind.items()})
    return objects


def drained(items: list[T]) -> Iterator[T]:
    """Yield the items of a list in order, and empty it: what is done is not kept in memory."""
    items.reverse()
    while items:
        yield items.pop()


def located(item: KubeObject, error: Exception) -> str:
    """Return what a decoder says of an object: the key, the value there, and the problem."""
    match = WHERE.fullmatch(str(error))
    if match is None:
        return str(error)
    key, problem = match["key"] or "the object", match["what"].replace("`", "")
    try:
        value = _value(item.plain(), match["key"])
    except (LookupError, TypeError, ValueError, RecursionError):
        return f"{key}: {problem}"
    expects_more = "object" in problem or "array" in problem
    if isinstance(value, list | dict) or (expects_more and value is not None):
        return f"{key}: {problem}"
    expected = problem.partition(", got ")[0]
    return f"{key}: found {json.dumps(value)[:MOST_QUOTED]}, {expected[:1].lower()}{expected[1:]}"


def _value(value: Any, key: str) -> Any:
    """Return what is at a key such as ``spec.podSets[0].count``."""
    for name, place in STEP.findall(key):
        value = value[int(place)] if place else value[name]
    return value
