"""Read ``--set key=value`` by the descriptions a policy gives of its settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.amounts import NO_LIMIT, parse_duration
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.cli.app.option_text import removed_hint
from gpuplan.planner.requests.shapes import read_shape

if TYPE_CHECKING:
    from gpuplan.planner.runs.settings import Setting

MOST_DIGITS = 15  # of a whole number; Python converts no more than 4,300
LOOSELY = 0.4  # likeness of names of settings, whose parts are often swapped or left out
SIZES = ("capacity", "gpus", "cluster")
"""What the most GPUs held are called: of workers that are rented, and of a cluster."""
LISTS = ("numbers", "durations")  # kinds of several values
UNSET = "none"
FLAGS = {"true": True, "yes": True, "false": False, "no": False}


def parse_settings(
    texts: Sequence[str], known: Mapping[str, Setting], row: str | None = None
) -> dict[str, Any]:
    """Return the values of ``key=value`` texts.

    Args:
        texts: the settings.
        known: what may be set.
        row: the option that they stood in together, where they were not given by ``--set``.

    Raises:
        UsageError: a key that is not known (with the nearest one) or comes twice, or a value of
            another kind or out of its range.
    """
    where = "--set " if row is None else f"{row}: "
    check_once(texts, *(() if row is None else ("", where)))
    values: dict[str, Any] = {}
    key = ""
    for text in texts:
        before, (key, found, value) = key, (part.strip() for part in text.partition("="))
        if not found:
            example = "for example threshold_s=5m"
            if row is not None and before in known and known[before].kind in LISTS:
                example = f"and / between the parts of a list: {before}=100/200"
            raise UsageError(f"{where}{text!r}: expected key=value, {example}")
        if key not in known:
            raise UsageError(
                f"{where}{text!r}: no setting {key!r}"
                + (
                    removed_hint(key, value)
                    or f"{perhaps_set(key, known)}\n  next: one of {', '.join(known)}"
                )
            )
        values[key] = _value(where + key, value, known[key])
        if error := known[key].error(key, values[key]):
            typed = f"--set {text}" if row is None else row
            raise error.given_as({key: f"{typed} ({key})" if row and len(texts) > 1 else typed})
    return values


def perhaps_set(key: str, known: Iterable[str]) -> str:
    """Return `` (did you mean x?)`` for the setting that is meant by another name, or nothing."""
    known = list(known)
    sizes = [size for size in SIZES if size in known]
    return (
        f" (did you mean {sizes[0]}?)" if key in SIZES and sizes else perhaps(key, known, LOOSELY)
    )


def check_once(texts: Sequence[str], before: str = "--set ", row: str = "") -> None:
    """Raise `UsageError` where two ``key=value`` texts have one key.

    Args:
        texts: the settings.
        before: what was typed before each.
        row: what was typed before all of them.
    """
    first: dict[str, str] = {}
    for text in texts:
        key, found, _ = text.partition("=")
        key = key.strip()
        if found and key in first:
            both = f"{before}{first[key]} and {before}{text}"
            raise UsageError(f"{row}{both}: give one of the two")
        first[key] = text


def show_setting(value: Any) -> str:
    """Return the text that gives a setting this value."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case tuple():
            return "/".join(map(show_setting, value))
        case _:
            return str(value)


def _value(option: str, value: str, setting: Setting) -> Any:
    most = math.inf if setting.most is None else setting.most
    if setting.optional and value.lower() == UNSET:
        return None
    if setting.unlimited and value.lower() in NO_LIMIT:
        return math.inf if setting.kind == "duration" else None
    match setting.kind:
        case "duration":
            return parse_duration(value, option, most)
        case "count":
            if not value.isdecimal():
                hint = " or none" if setting.unlimited else ""
                raise UsageError(f"{option} {value!r}: expected a whole number{hint}")
            if len(value) > MOST_DIGITS:
                raise UsageError(f"{option} {shortened(value)!r}: expected {setting.range}")
            return int(value)
        case "flag":
            if value.lower() not in FLAGS:
                raise UsageError(f"{option} {value!r}: expected true or false")
            return FLAGS[value.lower()]
        case "text" | "choice":
            return value
        case "cluster":
            return read_shape(value, option)
        case "numbers":
            return tuple(_number(option, part) for part in _parts(value))
        case "durations":
            return tuple(parse_duration(part, option, most) for part in _parts(value))
        case "usd":
            return _number(option, value.removeprefix("$"))
        case _:
            return _number(option, value)


def _parts(value: str) -> list[str]:
    return value.replace(",", "/").split("/")


def _number(option: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{option} {value!r}: expected a number")
    return number
