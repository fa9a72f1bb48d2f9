"""Which objects of Kubernetes a file starts with, from its first bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from gpuplan.analysis.reading.source import Head

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
WRAPS = frozenset({(), ("items",), ("object",)})
"""Where an object may lie in a text: it is the text, in a list, or in a watch event."""
MOST_KINDS = 200

Frame = tuple[str, dict[str, str]]
"""The member whose value is open, and what an object says of itself."""


def kinds_in(head: Head) -> tuple[tuple[str, str], ...]:
    """Return version and kind of the objects in the first bytes; empty for other files.

    The kind of a typed list such as PodList, whose objects may have none, is that of its objects.
    """
    if not head.is_json or b'"metadata"' not in head.data or b'"apiVersion"' not in head.data:
        return ()
    return _kinds(head.data)


@lru_cache(maxsize=8)
def _kinds(data: bytes) -> tuple[tuple[str, str], ...]:
    seen: list[tuple[str, str]] = []
    stack: list[Frame] = []
    key, word, is_value = "", "", False
    for match in TOKEN.finditer(data):
        token = match[0]
        if token in (b"{", b"["):
            stack.append((key if is_value else "", {}))
            is_value = False
        elif token in (b"}", b"]"):
            if not stack:
                break
            seen += _kind_of(stack)
            stack.pop()
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
    for depth in range(len(stack)):  # what the first bytes do not end: a long list or object
        seen += _kind_of(stack[: depth + 1])
    return tuple(seen)


def _kind_of(stack: Sequence[Frame]) -> list[tuple[str, str]]:
    """Return version and kind of the last frame, if it is an object of Kubernetes."""
    told = stack[-1][1]
    if tuple(name for name, _ in stack if name) not in WRAPS or "apiVersion" not in told:
        return []
    kind = told.get("kind", "").removesuffix("List")
    return [] if told.get("kind") == "List" else [(told["apiVersion"], kind)]
