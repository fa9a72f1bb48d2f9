"""Read TOML and know the line of every key, so that a mistake can be shown where it stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.plain import DEEPEST, check_plain
from gpuplan.analysis.storage.files import read_small

Keys = tuple[str, ...]
"""The path of a value: ``("study", "budget", "command")``."""

MOST_BYTES = 1 << 20  # a file that people write has a few thousand
QUOTED = re.compile(r"""(['"])(.*?)\1""")
NAMES = re.compile(r"""\((?:(['"]).*?\1,? ?)+\)""")  # of a table, as Python writes them
TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?(?:"""+|\\?\Z)|"(?:[^"\\\n]|\\.)*(?:"|)|'''
    r"""'''.*?(?:'''+|\Z)|'[^'\n]*(?:'|)|"""
    r"#[^\n]*|[\[\]{}]|\n",
    re.DOTALL,
)
"""A string, ended or not; a comment; a bracket; a line break."""
NO_NUMBER = re.compile(
    r"\s*(?P<key>[\w-]+)\s*=\s*(?P<value>\$\s*\d[\d.,]*|\d[\d.]*(?:,\d+)+(?:\.\d+)?)\s*(?:#.*)?$"
)
"""A key with a number that has a comma or a currency."""
PARTS_THOUSANDS = re.compile(r"^[1-9]\d*,\d{3}$")
KEYS_ON_A_LINE = re.compile(
    r"""\s*(?:\[\[?[\w-]+\]\]?\s*|[\w-]+\s*=\s*(?:"[^"]*"|[\w.:+-]+)[\s,]+)[\w-]+\s*="""
)
"""A header or a key with its value, and one more key behind it."""
PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read_toml(path: Path, parse_float: Callable[[str], Any] = float) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and what it says.

    Args:
        path: of the file.
        parse_float: makes a number with a point of its text.

    Raises:
        InputError: no such file, or it is not TOML.
    """
    return parse_toml(path, read_small(path, MOST_BYTES), parse_float)


def parse_toml(
    path: Path,
    written: bytes,
    parse_float: Callable[[str], Any] = float,
    expected: str | None = None,
    hint: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and what it says, of its bytes.

    Args:
        path: what messages call it.
        written: its bytes.
        parse_float: makes a number with a point of its text.
        expected: which file is meant, for the messages; None for any TOML.
        hint: the next step where it is not TOML; None for how TOML is written.

    Raises:
        InputError: it is not TOML.
    """
    try:
        text = written.decode("utf-8-sig").replace("\r\n", "\n")
        data = _parsed(text, parse_float)
        check_plain(data)
    except UnicodeDecodeError as error:
        raise InputError(
            path, f"byte {error.start} is not UTF-8", expected=expected or "TOML", hint=hint
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, text, str(error), expected, hint) from error
    except (ValueError, ArithmeticError, RecursionError) as error:  # a value without measure
        why = "a number that is too large" if isinstance(error, ArithmeticError) else reason(error)
        problem = f"TOML that cannot be used: {why}"
        raise InputError(path, problem, expected=expected, hint=hint) from error
    return text, deepcopy(data)


@lru_cache(maxsize=8)
def _parsed(text: str, parse_float: Callable[[str], Any]) -> dict[str, Any]:
    """Return what a text says; the settings of a site are read by each part of a study."""
    return tomllib.loads(text, parse_float=parse_float)


def reason(error: Exception) -> str:
    """Return why text that may be TOML is not read."""
    if isinstance(error, RecursionError):
        return f"it is more than {DEEPEST} levels deep"
    return str(error).partition(";")[0]


def _no_toml(
    path: Path, text: str, message: str, expected: str | None, next_step: str | None
) -> InputError:
    place = PLACE.search(message)
    row = int(place[1]) if place and place[1] else None
    if place and row is None:  # at its end
        row = text.rstrip("\n").count("\n") + 1
    hint: str | None = next_step
    if row is not None and (twice := _duplicate_key(text, row)):
        return InputError(path, f"not TOML: {twice}", row=row, hint="keep one of the two")
    if row is not None and (number := NO_NUMBER.match(text.split("\n")[row - 1])):
        key, value = number.group("key", "value")
        hint = f"write {key} = {plain_number(value)}"
        return InputError(path, f"not TOML: {key}: found {value}", row=row, hint=hint)
    if row is not None and KEYS_ON_A_LINE.match(text.split("\n")[row - 1]):
        hint = "each key = value stands on a line of its own, under its [[header]]"
        return InputError(path, "not TOML: several keys on one line", row=row, hint=hint)
    problem = NAMES.sub(lambda names: repr(".".join(_quoted(names[0]))), PLACE.sub("", message))
    if hint is None and re.match("Invalid value|Expected|Unbalanced|Invalid statement", problem):
        hint = 'texts stand in quotes: key = "text"; a table begins with [name]'
    problem = f"not TOML: {problem[:1].lower()}{problem[1:]}"
    return InputError(path, problem, row=row, expected=expected, hint=hint)


def _quoted(names: str) -> list[str]:
    return [name for _, name in QUOTED.findall(names)]


def plain_number(value: str) -> str:
    """Return ``2,40`` or ``$1,234.50`` as TOML writes it; before three digits a comma is dropped
    where it may part thousands.
    """
    digits = value.removeprefix("$").strip()
    is_decimal = digits.count(",") == 1 and "." not in digits and not PARTS_THOUSANDS.search(digits)
    return digits.replace(",", "." if is_decimal else "")


def _duplicate_key(text: str, row: int) -> str:
    """Return what the statement that ends on a line sets a second time; empty if nothing."""
    seen: dict[Keys, int] = {}
    for first, last, table, paths, is_header in statements(text):
        if first > row:
            break
        if last >= row:
            for keys in paths[-1:] if is_header else paths:
                if (full_keys := keys if is_header else table + keys) in seen:
                    name = ".".join(full_keys)
                    name = f"[{name}]" if is_header else repr(name)
                    return f"{name} is given twice, first on line {seen[full_keys]}"
            break
        if is_header and table in seen:  # one more entry of an array, with keys of its own
            seen = {keys: line for keys, line in seen.items() if keys[: len(table)] != table}
        for keys in paths:
            seen.setdefault(keys if is_header else table + keys, first)
    return ""


def lines(text: str) -> Iterator[tuple[Keys, int]]:
    """Give every key with its first line. The text is known to be TOML."""
    seen: set[Keys] = set()
    for first, _, table, paths, is_header in statements(text):
        for keys in paths[-1:] if is_header else paths:
            full_keys = keys if is_header else table + keys
            for end in range(1, len(full_keys) + 1):
                if full_keys[:end] not in seen:
                    seen.add(full_keys[:end])
                    yield full_keys[:end], first


def statements(text: str) -> Iterator[tuple[int, int, Keys, list[Keys], bool]]:
    """Give the first and last line of each statement, its table, its keys, whether it is a header.

    A statement is the header of a table, or one key with its value. It ends with the first line
    break outside of strings and brackets, so that the text is scanned once.
    """
    table: Keys = ()
    number, first, begin, depth = 1, 1, 0, 0
    for token in TOKEN.finditer(text + "\n"):
        mark = token[0]
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
        elif mark == "\n" and depth <= 0:
            paths = _keys_set(statement := text[begin : token.end()])
            is_header = statement.lstrip().startswith("[")
            if paths:
                table = paths[-1] if is_header else table
                yield first, number, table, paths, is_header
            first, begin, depth = number + 1, token.end(), 0
        number += mark.count("\n")


def _keys_set(statement: str) -> list[Keys]:
    """Return the path of every key that a statement sets; empty if it is not TOML."""
    try:
        return list(paths_in(tomllib.loads(statement))) if statement.strip() else []
    except (ValueError, RecursionError):  # nested deeper than Python follows, or a long integer
        return []


def paths_in(value: Any) -> Iterator[Keys]:
    """Give the path of every key inside a value, outer ones first, however deep."""
    yield from (path for path, _ in values_in(value) if path)


def values_in(value: Any) -> Iterator[tuple[Keys, Any]]:
    """Give every value of a table with its path, outer ones first, however deep."""
    waiting: list[tuple[Keys, Any]] = [((), value)]
    while waiting:
        path, inner = waiting.pop()
        yield path, inner
        if isinstance(inner, dict):
            waiting += (((*path, key), more) for key, more in reversed(inner.items()))
