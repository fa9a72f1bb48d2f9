"""Read ``--set key=value`` by the descriptions a policy gives of its settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.amounts import NO_LIMIT, check_finite, parse_duration
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.planner.requests.shapes import read_shape

if TYPE_CHECKING:
    from gpuplan.planner.runs.settings import Setting

MOST_DIGITS = 15  # of a whole number; Python converts no more than 4,300
LOOSELY = 0.4  # likeness of names of settings, whose parts are often swapped or left out
SIZES = ("capacity", "gpus", "cluster")
"""What the most GPUs held are called: of workers that are rented, and of a cluster."""
LISTS = ("numbers", "durations")  # kinds of several values
UNSET = "none"
REMOVED: Mapping[str, str] = {
    "node_gpus": "--cluster x{0} (as many nodes of {0} GPUs as needed)",
    "include_running": "leave it out: jobs still running count in GPU-hours, not in durations",
    "gpus_per_node": "--cluster 4x{0} (4 nodes of {0} GPUs), or x{0} for as many as needed",
}
"""Former options and settings, with underscores -> what is given today."""
FLAGS = {"true": True, "yes": True, "false": False, "no": False}


class OptionSetting(str):
    """``key=value`` that an option of its own sets, such as ``round_s=5m`` for ``--round 5m``.

    Attributes:
        option: as it could be typed.
    """

    option: str

    @classmethod
    def of(cls, flag: str, key: str, value: Any) -> OptionSetting:
        """Return the setting that an option of this value is."""
        setting = cls(f"{key}={value}")
        setting.option = f"{flag} {value}"
        return setting


def option_settings(*options: tuple[str, str, Any]) -> list[OptionSetting]:
    """Return the settings of options that are given: flag, key and value of each, or None."""
    return [OptionSetting.of(*option) for option in options if option[2] is not None]


def typed(text: str, before: str = "--set ") -> str:
    """Return a setting as it was typed: behind ``--set``, or as the option that sets it."""
    return text.option if isinstance(text, OptionSetting) else f"{before}{text}"


def parse_settings(
    texts: Sequence[str], settings: Mapping[str, Setting], row: str | None = None
) -> dict[str, Any]:
    """Return the values of ``key=value`` texts.

    Args:
        texts: the settings.
        settings: what may be set.
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
        before, (key, equals, value) = key, (part.strip() for part in text.partition("="))
        if not equals:
            example = "for example threshold_s=5m"
            if row is not None and before in settings and settings[before].kind in LISTS:
                example = f"and / between the parts of a list: {before}=100/200"
            raise UsageError(f"{where}{text!r}: expected key=value, {example}")
        if key not in settings:
            raise UsageError(
                f"{where}{text!r}: no setting {key!r}"
                + (
                    removed_hint(key, value)
                    or f"{perhaps_set(key, settings)}\n  next: one of {', '.join(settings)}"
                )
            )
        values[key] = _value(where + key, value, settings[key])
        if error := settings[key].error(key, values[key]):
            typed = f"--set {text}" if row is None else row
            raise error.given_as({key: f"{typed} ({key})" if row and len(texts) > 1 else typed})
    return values


def removed_hint(name: str, value: str = "") -> str:
    """Return the next step where a former option or setting is given, or nothing.

    Args:
        name: as typed.
        value: what it was given.
    """
    replacement = REMOVED.get(name.strip().removeprefix("--").replace("-", "_"))
    each = value if value.isdecimal() and len(value) < 9 and int(value) else "8"
    return f"\n  next: {replacement.format(each)}" if replacement else ""


def perhaps_set(key: str, names: Iterable[str]) -> str:
    """Return `` (did you mean x?)`` for the setting that is meant by another name, or nothing."""
    names = list(names)
    sizes = [size for size in SIZES if size in names]
    return (
        f" (did you mean {sizes[0]}?)" if key in SIZES and sizes else perhaps(key, names, LOOSELY)
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
        key, equals, _ = text.partition("=")
        key = key.strip()
        if equals and key in first:
            both = f"{typed(first[key], before)} and {typed(text, before)}"
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
                is_below = value.startswith("-") and value[1:].isdecimal()
                limits = f", {setting.range}," if is_below and setting.range != "a number" else ""
                hint = " or none" if setting.unlimited else ""
                raise UsageError(f"{option} {value!r}: expected a whole number{limits}{hint}")
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
    check_finite(value, option)
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{option} {value!r}: expected a number") from None
