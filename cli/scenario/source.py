"""Read TOML and know the line of every key, so that a mistake can be shown where it stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError, UsageError, shortened
from gpuplan.analysis.base.plain import DEEPEST, check_depth
from gpuplan.analysis.storage.files import read_small

Keys = tuple[str, ...]
"""The path of a value: ``("study", "budget", "command")``."""

MOST_BYTES = 1 << 20  # a scenario has a few thousand
QUOTED = re.compile(r"""(['"])(.*?)\1""")
NAMES = re.compile(r"""\((?:(['"]).*?\1,? ?)+\)""")  # of a table, as Python writes them
TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?(?:"""+|\\?\Z)|"(?:[^"\\\n]|\\.)*(?:"|)|'''
    r"""'''.*?(?:'''+|\Z)|'[^'\n]*(?:'|)|"""
    r"#[^\n]*|[\[\]{}]|\n",
    re.DOTALL,
)
"""A string, ended or not; a comment; a bracket; a line break."""
PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


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
    written = read_small(path, MOST_BYTES)
    try:
        text = written.decode("utf-8-sig").replace("\r\n", "\n")
        data = tomllib.loads(text)
        check_depth(data)
    except UnicodeDecodeError as error:
        raise InputError(path, f"byte {error.start} is not UTF-8", expected="TOML") from error
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, text, str(error)) from error
    except (ValueError, RecursionError) as error:  # a number or a value without measure
        raise InputError(path, f"TOML that cannot be used: {_reason(error)}") from error
    places = {keys: f"{path}:{line}" for keys, line in _lines(text)}
    overridden = set()
    _check_texts(path, data, places)
    for override in overrides:
        keys, value = _read_override(override)
        _put(data, keys, value, override)
        for inside in [keys, *((*keys, *more) for more in _paths(value))]:
            places[inside] = f"--set {override}"
        for end in range(1, len(keys)):  # tables that only this makes
            places.setdefault(keys[:end], f"--set {override}")
        overridden.add(keys)
    return ScenarioSource(path, data, places, frozenset(overridden))


def _check_texts(path: Path, data: dict[str, Any], places: Mapping[Keys, str]) -> None:
    """Raise `InputError` for a key or text with a NUL character, which no file or message takes."""
    for keys, value in _values(data):
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


def _reason(error: Exception) -> str:
    """Return why text that may be TOML is not read."""
    if isinstance(error, RecursionError):
        return f"it is more than {DEEPEST} levels deep"
    return str(error).partition(";")[0]


def _no_toml(path: Path, text: str, message: str) -> InputError:
    found = PLACE.search(message)
    row = int(found[1]) if found and found[1] else None
    if row is not None and (twice := _given_twice(text, row)):
        return InputError(path, f"not TOML: {twice}", row=row, hint="keep one of the two")
    problem = NAMES.sub(lambda names: repr(".".join(_quoted(names[0]))), PLACE.sub("", message))
    hint = None
    if re.match("Invalid value|Expected|Unbalanced|Invalid statement", problem):
        hint = 'texts stand in quotes: key = "text"; a table begins with [name]'
    return InputError(path, f"not TOML: {problem[:1].lower()}{problem[1:]}", row=row, hint=hint)


def _quoted(names: str) -> list[str]:
    return [name for _, name in QUOTED.findall(names)]


def _given_twice(text: str, row: int) -> str:
    """Return what the statement that ends on a line sets a second time; empty if nothing."""
    seen: dict[Keys, int] = {}
    for first, last, table, paths, is_header in _statements(text):
        if last >= row:
            for keys in paths[-1:] if is_header else paths:
                if (whole := keys if is_header else table + keys) in seen:
                    name = ".".join(whole)
                    name = f"[{name}]" if is_header else repr(name)
                    return f"{name} is given twice, first on line {seen[whole]}"
            break
        for keys in paths:
            seen.setdefault(keys if is_header else table + keys, first)
    return ""


def _lines(text: str) -> Iterator[tuple[Keys, int]]:
    """Give every key with its first line. The text is known to be TOML."""
    seen: set[Keys] = set()
    for first, _, table, paths, is_header in _statements(text):
        for keys in paths[-1:] if is_header else paths:
            whole = keys if is_header else table + keys
            for end in range(1, len(whole) + 1):
                if whole[:end] not in seen:
                    seen.add(whole[:end])
                    yield whole[:end], first


def _statements(text: str) -> Iterator[tuple[int, int, Keys, list[Keys], bool]]:
    """Give the first and last line of each statement, its table, its keys, whether it is a header.

    A statement is the header of a table, or one key with its value. It ends with the first line
    break outside of strings and brackets, so that the text is scanned once.
    """
    table: Keys = ()
    number, first, begin, depth = 1, 1, 0, 0
    for token in TOKEN.finditer(text + "\n"):
        found = token[0]
        if found in "[{":
            depth += 1
        elif found in "]}":
            depth -= 1
        elif found == "\n" and depth <= 0:
            paths = _keys_set(statement := text[begin : token.end()])
            is_header = statement.lstrip().startswith("[")
            if paths:
                table = paths[-1] if is_header else table
                yield first, number, table, paths, is_header
            first, begin, depth = number + 1, token.end(), 0
        number += found.count("\n")


def _keys_set(statement: str) -> list[Keys]:
    """Return the path of every key that a statement sets; empty if it is not TOML."""
    try:
        return list(_paths(tomllib.loads(statement))) if statement.strip() else []
    except tomllib.TOMLDecodeError:
        return []


def _paths(value: Any) -> Iterator[Keys]:
    """Give the path of every key inside a value, outer ones first, however deep."""
    yield from (path for path, _ in _values(value) if path)


def _values(value: Any) -> Iterator[tuple[Keys, Any]]:
    """Give every value of a table with its path, outer ones first, however deep."""
    waiting: list[tuple[Keys, Any]] = [((), value)]
    while waiting:
        path, inner = waiting.pop()
        yield path, inner
        if isinstance(inner, dict):
            waiting += (((*path, key), more) for key, more in reversed(inner.items()))


def _read_override(text: str) -> tuple[Keys, Any]:
    """Return the path and the value; a value that is not TOML is text."""
    name, found, given = text.partition("=")
    try:
        paths = list(_paths(_loaded(f"{name} = 0")))
    except ValueError:
        paths = []
    if not (found and paths and "\n" not in name):
        raise UsageError(
            f"--set {shortened(text)!r}: expected key=value, for example study.pareto.budget=1.5x"
        )
    try:
        value: Any = _loaded(f"value = {given}")
    except tomllib.TOMLDecodeError:
        return paths[-1], given
    except ValueError as error:
        raise UsageError(f"--set {shortened(text)!r}: {_reason(error)}") from error
    return paths[-1], value["value"] if len(value) == 1 else given


def _loaded(text: str) -> dict[str, Any]:
    """Return TOML as it is read. Raises ValueError, also where it is too deep."""
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(_reason(error)) from error
    check_depth(found)
    return found


def _put(data: dict[str, Any], keys: Keys, value: Any, override: str) -> None:
    for position, key in enumerate(keys[:-1]):
        inner = data.setdefault(key, {})
        if not isinstance(inner, dict):
            raise UsageError(f"--set {override!r}: {'.'.join(keys[: position + 1])} is not a table")
        data = inner
    data[keys[-1]] = value
