"""Typed results as plain values: what JSON, tables and gates read; how deep they may be nested."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from os import fspath
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import UNSET

T = TypeVar("T")
Hidden = Annotated[T, "hidden"]
"""The type of a field that JSON, tables and gates do not show, as in ``run: Hidden[Run]``."""
Inlined = Annotated[T, "inlined"]
"""The type of a field whose own fields are shown in its place, as in ``share: Inlined[Share]``."""
SCALARS = frozenset({bool, float, int, str, type(None)})


def fields_of(result: Any) -> dict[str, Any]:
    """Return what is shown of a dataclass by name, without fields that are `msgspec.UNSET`."""
    kind: Any = type(result)
    values: dict[str, Any] = {}
    for name, is_inlined in shown_names(kind):
        value = getattr(result, name)
        if is_inlined:
            values |= fields_of(value)
        elif value is not UNSET:
            values[name] = value
    return values


def plain(value: Any) -> Any:
    """Return a result as dicts, lists, texts and numbers, in the order of its fields.

    A dataclass becomes a dict without the fields that are `Hidden` or `msgspec.UNSET`, a path or an
    instant its text.
    """
    if type(value) in SCALARS:
        return value
    if is_dataclass(value):
        return {name: plain(part) for name, part in fields_of(value).items()}
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, Path):
        return fspath(value)
    return value.isoformat() if isinstance(value, date) else value


@cache
def shown_names(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a dataclass that are not `Hidden`, and whether they are `Inlined`."""
    types = {part.name: str(part.type) for part in fields(kind)}
    shown = {name: text for name, text in types.items() if not text.startswith("Hidden[")}
    return tuple((name, text.startswith("Inlined[")) for name, text in shown.items())


DEEPEST = 50
"""Levels that JSON and TOML may have; a scenario has five, and gpuplan writes about ten."""
MOST_BITS = 14_000
"""Of an integer; Python writes up to 4,300 decimals."""


def check_plain(document: Any) -> None:
    """Raise ValueError where dicts and lists are nested deeper than `DEEPEST`.

    Also for an integer of more than `MOST_BITS`: Python reads one in hexadecimal, but cannot write
    it in decimals.
    """
    level = [document]
    for _ in range(DEEPEST):
        if any(isinstance(value, int) and value.bit_length() > MOST_BITS for value in level):
            raise ValueError(f"an integer of more than {MOST_BITS:,} bits")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise ValueError(f"it is more than {DEEPEST} levels deep")
