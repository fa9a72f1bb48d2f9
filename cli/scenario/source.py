"""Read a scenario and what overrides it, with the place of every key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, UsageError, shortened
from gpuplan.analysis.base.plain import check_plain
from gpuplan.analysis.storage.toml_source import Keys, lines, paths_in, read_toml, reason, values_in


@dataclass(frozen=True, slots=True)
class ScenarioSource:
    """A TOML file with what overrides it.

    Attributes:
        path: the file, as given.
        data: its tables, overrides applied.
        places: where each key was set: ``scenario.toml:12`` or the override.
        overridden: the keys set by overrides.
    """

    path: Path
    data: dict[str, Any]
    places: Mapping[Keys, str]
    overridden: frozenset[Keys]

    def place(self, keys: Keys) -> str:
        """Return where a key was set; for one that was not, where its table was."""
        while keys and keys not in self.places:
            keys = keys[:-1]
        return self.places[keys] if keys else str(self.path)


def read_source(path: Path, overrides: Sequence[str] = ()) -> ScenarioSource:
    """Read a TOML file and set what overrides it, each ``a.b=value``.

    Raises:
        InputError: no such file, or it is not TOML.
        UsageError: an override that is none, or that sets a key within a value.
    """
    text, data = read_toml(path)
    places = {keys: f"{path}:{line}" for keys, line in lines(text)}
    overridden = set()
    _check_texts(path, data, places)
    for override in overrides:
        keys, value = _read_override(override)
        _put(data, keys, value, override)
        for inside in [keys, *((*keys, *more) for more in paths_in(value))]:
            places[inside] = f"--set {override}"
        for end in range(1, len(keys)):  # tables that only this makes
            places.setdefault(keys[:end], f"--set {override}")
        overridden.add(keys)
    return ScenarioSource(path, data, places, frozenset(overridden))


def _check_texts(path: Path, data: dict[str, Any], places: Mapping[Keys, str]) -> None:
    """Raise `InputError` for a key or text with a NUL character, which no file or message takes."""
    for keys, value in values_in(data):
        if _has_nul([*keys, {} if isinstance(value, dict) else value]):
            row = places.get(keys, "").rpartition(":")[2]
            raise InputError(
                path,
                f"{'.'.join(keys)}: has a NUL character".replace("\0", "\\0"),
                row=int(row) if row.isdecimal() else None,
                expected="text without \\u0000",
            )


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return _has_nul([*value, *value.values()])
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def _read_override(text: str) -> tuple[Keys, Any]:
    """Return the path and the value; a value that is not TOML is text."""
    name, equals, value_text = text.partition("=")
    try:
        paths = list(paths_in(_loaded(f"{name} = 0")))
    except ValueError:
        paths = []
    if not (equals and paths and "\n" not in name):
        raise UsageError(
            f"--set {shortened(text)!r}: expected key=value, for example study.pareto.budget=1.5x"
        )
    try:
        value: Any = _loaded(f"value = {value_text}")
    except tomllib.TOMLDecodeError:
        return paths[-1], value_text
    except ValueError as error:
        raise UsageError(f"--set {shortened(text)!r}: {reason(error)}") from error
    return paths[-1], value["value"] if len(value) == 1 else value_text


def _loaded(text: str) -> dict[str, Any]:
    """Return TOML as it is read. Raises ValueError, also where it is too deep."""
    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(reason(error)) from error
    check_plain(data)
    return data


def _put(data: dict[str, Any], keys: Keys, value: Any, override: str) -> None:
    for position, key in enumerate(keys[:-1]):
        inner = data.setdefault(key, {})
        if not isinstance(inner, dict):
            raise UsageError(f"--set {override!r}: {'.'.join(keys[: position + 1])} is not a table")
        data = inner
    data[keys[-1]] = value
