"""Slurm's host lists: ``n[01-04,7],login`` is n01, n02, n03, n04, n7, login."""

from __future__ import annotations

import re

MOST_HOSTS = 100_000
BRACKETS = re.compile(r"\[([^\]]*)\]")
RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")


def split_hosts(text: str) -> list[str]:
    """Split at the commas that are outside brackets."""
    parts, depth, begin = [], 0, 0
    for i, mark in enumerate(text):
        if mark == "[":
            depth += 1
        elif mark == "]":
            depth -= 1
        elif mark == "," and depth <= 0:
            parts.append(text[begin:i])
            begin = i + 1
    parts.append(text[begin:])
    return [part.strip() for part in parts if part.strip()]


def expand_hosts(text: str) -> list[str]:
    """Return the names of a host list in its order, each once.

    Raises:
        ValueError: a bracket does not close, a range is none, or there are too many names.
    """
    names: dict[str, None] = {}
    for part in split_hosts(text):
        for name in _expand(part):
            names[name] = None
            if len(names) > MOST_HOSTS:
                raise ValueError(f"a host list may name {MOST_HOSTS:,} hosts at most")
    return list(names)


def _expand(part: str) -> list[str]:
    found = BRACKETS.search(part)
    if found is None:
        if "[" in part or "]" in part:
            raise ValueError(f"the brackets of {part!r} do not match")
        return [part]
    middle = []
    for piece in found[1].split(","):
        span = RANGE.fullmatch(piece.strip())
        if span is None:
            raise ValueError(f"{piece!r} in {part!r} is not a number or a range like 01-04")
        first, last = span[1], span[2] or span[1]
        if int(last) < int(first) or int(last) - int(first) > MOST_HOSTS:
            raise ValueError(f"{piece!r} in {part!r} is not a range that ascends")
        width = len(first)
        middle += [str(i).zfill(width) for i in range(int(first), int(last) + 1)]
    tails = _expand(part[found.end() :]) if part[found.end() :] else [""]
    if len(middle) * len(tails) > MOST_HOSTS:
        raise ValueError(f"{part!r} names more than {MOST_HOSTS:,} hosts")
    return [part[: found.start()] + number + tail for number in middle for tail in tails]
