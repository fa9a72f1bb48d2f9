"""How deep a document may be nested: what people write has a few levels, Python allows some."""

from __future__ import annotations

from typing import Any

DEEPEST = 50
"""Levels; a scenario has five, and what gpuplan writes about ten."""


def check_depth(document: Any) -> None:
    """Raise ValueError where dicts and lists are nested deeper than `DEEPEST`."""
    level = [document]
    for _ in range(DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    if level:
        raise ValueError(f"it is more than {DEEPEST} levels deep")
