"""Which objects of Kubernetes a file starts with, from its first bytes."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.source import Head, opened_file

KUEUE = "kueue.x-k8s.io"
LOG_FORMATS = ("kueue", "kube", "kube-metrics", "yunikorn", "dstack")
"""Formats of logs of clusters of Kubernetes."""
WORKLOADS = (
    "kubectl get workloads.kueue.x-k8s.io,clusterqueues,cohorts,localqueues,resourceflavors -A "
    "-o json > kueue.json"
)
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
WRAPS = frozenset({(), ("items",), ("object",)})
"""Where an object may lie in a text: it is the text, in a list, or in a watch event."""
DEEPEST = 2
"""Members that are told apart on the way to an object; deeper ones are all the same."""
MOST_KINDS = 200

Frame = tuple[tuple[str, ...], dict[str, str]]
"""The members on the way to what is open, and what an object says of itself."""


def kinds_in(head: Head) -> tuple[tuple[str, str], ...]:
    """Return version and kind of the objects in the first bytes; empty for other files.

    The kind of a typed list such as PodList, whose objects may have none, is that of its objects.
    """
    if not head.is_json or b'"metadata"' not in head.data or b'"apiVersion"' not in head.data:
        return ()
    return _kinds(head.data)


def is_of_kueue(head: Head) -> bool:
    """Return whether a file starts with objects of Kueue; a label of Kueue on others is none."""
    return any(version.startswith(f"{KUEUE}/") for version, _ in kinds_in(head))


def refuse_without_workloads(head: Head) -> None:
    """Refuse objects of Kubernetes that are none of Kueue: their queues are not known.

    Raises `InputError`.
    """
    if not head.is_json or b'"apiVersion"' not in head.data or is_of_kueue(head):
        return
    kinds = ", ".join(sorted({kind for _, kind in kinds_in(head) if kind})) or "no objects"
    raise InputError(
        head.path,
        f"has no Workloads of Kueue (it starts with {kinds} of Kubernetes)",
        expected="Workloads and their queues, which calibrate, whatif and eta replay",
        hint=WORKLOADS,
    )


def refuse_other_objects(path: Path) -> None:
    """Refuse a file as `refuse_without_workloads`; raises `InputError`."""
    if path.is_file():
        refuse_without_workloads(head_of(path))


def head_of(path: Path) -> Head:
    """Return the first bytes of a file. Raises `InputError` where it cannot be read."""
    with opened_file(path) as stream:
        return Head(path, stream.head)


@lru_cache(maxsize=8)
def _kinds(data: bytes) -> tuple[tuple[str, str], ...]:
    seen: list[tuple[str, str]] = []
    stack: list[Frame] = []
    key, word, is_value = "", "", False
    for match in TOKEN.finditer(data):
        token = match[0]
        if token in (b"{", b"["):
            path = stack[-1][0] if stack else ()
            stack.append(((*path, key)[:DEEPEST] if is_value and key else path, {}))
            is_value = False
        elif token in (b"}", b"]"):
            if not stack:
                break
            seen += _kind_of(stack.pop())
            is_value = False
        elif token == b":":
            key, is_value = word, True
        elif token == b",":
            is_value = False
        else:
            word = token[1:-1].decode("utf-8", "replace")
            if is_value and stack and key in ("kind", "apiVersion"):
                stack[-1][1][key] = word
        if len(seen) >= MOST_KINDS:
            break
    for frame in stack:  # what the first bytes do not end: a long list or object
        seen += _kind_of(frame)
    return tuple(seen)


def _kind_of(frame: Frame) -> list[tuple[str, str]]:
    """Return version and kind of what a frame holds, if it is an object of Kubernetes."""
    path, properties = frame
    if path not in WRAPS or "apiVersion" not in properties:
        return []
    kind = properties.get("kind", "").removesuffix("List")
    return [] if properties.get("kind") == "List" else [(properties["apiVersion"], kind)]
