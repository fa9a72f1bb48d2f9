"""Typed results as plain values: what JSON, tables and gates read."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from os import fspath
from pathlib import Path
from typing import Any

from msgspec import UNSET

SCALARS = frozenset({bool, float, int, str, type(None)})


def fields_of(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, without those that are `msgspec.UNSET`."""
    kind: Any = type(result)
    found = {name: getattr(result, name) for name in _names(kind)}
    return {name: value for name, value in found.items() if value is not UNSET}


def plain(value: Any) -> Any:
    """Return a result as dicts, lists, texts and numbers, in the order of its fields.

    A dataclass becomes a dict without the fields that are `msgspec.UNSET`, a path or an instant
    its text.
    """
    if type(value) in SCALARS:
        return value
    if is_dataclass(value):
        return {name: plain(found) for name, found in fields_of(value).items()}
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Path):
        return fspath(value)
    return value.isoformat() if isinstance(value, date) else value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
