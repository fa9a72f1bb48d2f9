"""Look something up by the name that a user wrote, or suggest the nearest one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from gpuplan.analysis.base.errors import UsageError

Value = TypeVar("Value")
SAME_WORD = 0.6  # likeness, 0 to 1, from which one name may be another misspelt


def nearest(word: str, names: Iterable[str], likeness: float = SAME_WORD) -> str | None:
    """Return the known name most similar to a word, ignoring case; None if none is similar."""
    from difflib import get_close_matches

    lower = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), lower, n=1, cutoff=likeness)
    return lower[near[0]] if near else None


def perhaps(word: str, names: Iterable[str], likeness: float = SAME_WORD) -> str:
    """Return `` (did you mean x?)`` for the nearest known name, or nothing."""
    near = nearest(word, names, likeness)
    return f" (did you mean {near}?)" if near else ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a hint for an unknown word: the nearest known one, or all of them."""
    names = list(names)
    near = nearest(word, names)
    return f"; did you mean {near!r}?" if near else f"; there is {', '.join(sorted(names))}"


def find_named(
    name: str, values: Mapping[str, Value], option: str, what: str | None = None
) -> Value:
    """Return the value of that name; ``what`` names the kind of thing, by default the option.

    Raises:
        UsageError: unknown name; the message has the option, the nearest name and all names.
    """
    if name in values:
        return values[name]
    what = what or option.lstrip("-").replace("-", " ")
    raise UsageError(
        f"{option} {name!r}: no such {what}{perhaps(name, values)}; there is {', '.join(values)}"
    )
