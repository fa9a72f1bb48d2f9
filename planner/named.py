"""Look something up by the name that a user wrote."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from gpuplan.analysis.errors import UsageError

Value = TypeVar("Value")


def find_named(name: str, known: Mapping[str, Value], option: str) -> Value:
    """Return the value of that name.

    Raises:
        UsageError: there is none; the message tells the option, the nearest name and all names.
    """
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower(), known, n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    what = option.lstrip("-")
    raise UsageError(f"{option} {name!r}: no such {what}{meant}; there is {', '.join(known)}")
