"""The newest version of every object of several files, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from gpuplan.analysis.kubernetes.objects import KubeObject, ObjectFile, newest, versions
from gpuplan.analysis.reading.batch import CUT_OFF, Refused


@dataclass(slots=True)
class ObjectsByKind:
    """The newest version of every object of all sources, by kind.

    Attributes:
        versions: key of an object -> all its versions, in order.
        by_kind: kind -> position of the source and object, the newest version of each.
        refused: position of the source, and what is no object there.
    """

    versions: dict[tuple[str, ...], list[KubeObject]] = field(default_factory=dict)
    by_kind: dict[str, list[tuple[int, KubeObject]]] = field(default_factory=dict)
    refused: list[tuple[int, Refused]] = field(default_factory=list)

    def of(self, *kinds: str) -> Iterator[tuple[int, KubeObject]]:
        """Yield the objects of kinds with the position of their source."""
        for kind in kinds:
            yield from self.by_kind.get(kind, ())

    def refuse(self, source: int, item: KubeObject, error: Exception) -> None:
        """Set an object aside that cannot be read, without what it holds."""
        self.refused.append(
            (source, Refused(item.number, "unreadable", None, str(error),
                             f"a {item.kind} of Kubernetes", item.shown()))
        )  # fmt: skip

    def other_kinds_note(self, read: Collection[str]) -> list[str]:
        """Return a note with the kinds of objects besides those that are read as jobs."""
        kinds = Counter({kind: len(items) for kind, items in self.by_kind.items()})
        listed = ", ".join(
            f"{kind} {count:,}" for kind, count in sorted(kinds.items()) if kind not in read
        )
        notes = [f"objects that are no jobs: {listed}"] if listed else []
        if any(row.reason == CUT_OFF for _, row in self.refused):
            notes.append("the log ends in the middle of an object: it was cut there")
        return notes


def collected(files: Sequence[ObjectFile]) -> ObjectsByKind:
    """Return the newest objects of some files, and what is no object there."""
    objects = ObjectsByKind()
    sources: dict[int, int] = {}
    everything: list[KubeObject] = []
    for source, file in enumerate(files):
        objects.refused += [(source, row) for row in file.refused]
        everything += file.objects
        sources |= {id(item): source for item in file.objects}
    objects.versions = versions(everything)
    for kept in objects.versions.values():
        last = newest(kept)
        objects.by_kind.setdefault(last.kind, []).append((sources[id(last)], last))
    return objects
