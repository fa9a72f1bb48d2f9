"""Nested tables of a file as typed values; a mistake names its key, what it has, what it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps

WORDS = {
    "datetime": "a date and time such as 2026-01-31T00:00:00Z",
    "int": "a whole number", "float": "a number", "str": "text", "object": "a table",
    "array": "a list", "bool | str": "yes or no",
}  # fmt: skip
MESSAGE = re.compile(r"(?P<text>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)


T = TypeVar("T", bound=msgspec.Struct)
ReadValue = Callable[[Any, Any], Any]
"""Makes a value of a type of the schema that is no plain one; raises `ValueError`."""


def typed_tables(
    tables: Mapping[str, Any], kind: type[T], read_value: ReadValue | None = None
) -> T:
    """Return nested tables as a schema's type; each of its own keys has a default.

    Raises:
        UsageError: one cannot be used; names its key, what was found and what is expected.
    """
    try:
        return _converted(tables, kind, read_value)
    except msgspec.ValidationError as error:
        for keys, value in leaves(tables):
            try:
                _converted(nested(keys, value), kind, read_value)
            except msgspec.ValidationError as of_leaf:
                raise UsageError(_explained(kind, keys, value, str(of_leaf))) from None
        raise UsageError(str(error)) from None  # what only several keys can break


def nested(keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return tables with one value."""
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def leaves(
    table: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the paths and values of nested tables."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def _converted(tables: Mapping[str, Any], kind: type[T], read_value: ReadValue | None) -> T:
    return msgspec.convert(tables, kind, strict=False, dec_hook=read_value)


def _explained(root: type, keys: Sequence[str], value: Any, message: str) -> str:
    match = MESSAGE.fullmatch(message)
    assert match is not None
    text, path = match["text"], re.findall(r"\w+|\[\.\.\.\]", match["path"] or "")
    is_listed = any(part.isdigit() for part in path)
    kind: Any = root
    for at, part in enumerate(path):
        within = part == "[...]" or part.isdigit()
        kind = get_args(kind)[-1] if within else _field_of(kind, part)
        if part.isdigit():
            value = value[int(part)]
        elif any(above.isdigit() for above in path[:at]) and not within:
            value = value[part]
    where = ".".join(part for part in (path if is_listed else keys) if part != "[...]")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL):
        names, depth = _names_of(kind), 0 if is_listed else len(path)
        where = ".".join(keys[: depth + 1]) if depth or not path else f"{where}.{unknown[1]}"
        near = perhaps(unknown[1], names, 0.5)
        return f"{where}: unknown key{near}; expected one of {', '.join(names)}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", text):
        return f"{where}: has no {missing[1]}; expected {', '.join(_names_of(kind))}"
    if kinds := re.fullmatch(r"Expected `(.*?)(?: \| null)?`(?:, got .*)?( [<>]=? .*)?", text):
        text = WORDS.get(kinds[1], kinds[1]) + (kinds[2] or "")
    elif text == "Invalid RFC3339 encoded datetime":
        text = WORDS["datetime"]
    elif text == "Number out of range":
        text = "a smaller number"
    elif matching := re.fullmatch(r"Expected `str` matching regex '(.*)'", text):
        text = f"text of the form {matching[1]}"
    return f"{where}: found {value!r}, expected {text}"


def _names_of(kind: type) -> tuple[str, ...]:
    """Return the keys of a table as files have them."""
    names: tuple[str, ...] = kind.__struct_encode_fields__  # type: ignore[attr-defined]
    return names


def _field_of(kind: type, name: str) -> Any:
    """Return the type of a key of a table."""
    fields = dict(zip(_names_of(kind), kind.__struct_fields__, strict=True))  # type: ignore[attr-defined]
    return get_type_hints(kind)[fields[name]]
