"""Write values as TOML, each with the text that reads back as the same value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(name: str) -> str:
    """Return a key, in quotes where it needs them."""
    return name if BARE.fullmatch(name) else _text(name)


def toml_value(value: Any) -> str:
    """Return a value on one line; a mapping is an inline table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{toml_key(key)} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return _text(str(value))


def toml_pairs(pairs: Mapping[str, Any]) -> Iterable[str]:
    """Return a line for each value that is not None."""
    return (
        f"{toml_key(key)} = {toml_value(value)}"
        for key, value in pairs.items()
        if value is not None
    )


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'
    )
