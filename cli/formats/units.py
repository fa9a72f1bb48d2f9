"""Units at the command line: ``2.1 h``; those given are read by `gpuplan.analysis.base.amounts`."""

from __future__ import annotations

import math
from collections.abc import Callable


def significant(value: float, digits: int) -> float:
    """Return a value rounded to some significant digits."""
    return float(f"{value:.{digits}g}")


def show_duration(seconds: float, digits: int = 3) -> str:
    """Return a duration in the unit a person would choose: ``32 s``, ``12.3 min``, ``2.1 h``."""
    for limit, size, unit in (
        (120.0, 1.0, "s"),
        (7200.0, 60.0, "min"),
        (172800.0, 3600.0, "h"),
    ):
        if abs(seconds) < limit:
            return f"{_digits(seconds / size, digits)} {unit}"
    return f"{_digits(seconds / 86400, digits)} d"


def _digits(value: float, digits: int) -> str:
    """Return a number as `show_number` does, with fewer digits where fewer are wanted."""
    return show_number(value if digits >= 3 else significant(value, digits))


def show_number(value: float) -> str:
    """Return a number with three significant digits or more, thousands separated."""
    if value == 0:
        return "0"
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


def show_count(value: float) -> str:
    """Return a whole number with thousands separated."""
    return f"{value:,.0f}"


def show_jobs(jobs: int, span_s: float | None = None) -> str:
    """Return the number of jobs and the span of submissions: ``1,119 jobs over 13.9 d``."""
    if jobs == 1:
        return "1 job"
    over = "" if span_s is None else f" over {show_duration(span_s)}" if span_s else " at once"
    return f"{jobs:,} jobs{over}"


def show_share(value: float) -> str:
    """Return a fraction as a percentage."""
    return f"{100 * value:.1f}%"


def tick_usd(usd: float, _place: int | None = None) -> str:
    """Write dollars for an axis: $250, $1,500, $2.5M."""
    return f"${usd / 1e6:,g}M" if usd >= 1e6 else f"${usd:,g}"


def show_usd(value: float) -> str:
    """Return dollars: cents below 1,000, whole above."""
    sign = "-" if value < 0 else ""
    return f"{sign}${abs(value):,.2f}" if abs(value) < 1000 else f"{sign}${abs(value):,.0f}"


def show_about_usd(value: float) -> str:
    """Return dollars with three significant digits: ``$1.03M``, ``$241,000``, ``$87.50``."""
    size = abs(value)
    if size < 1000:
        return show_usd(value)
    sign = "-" if value < 0 else ""
    whole = float(f"{size:.3g}")
    for limit, unit in ((1e9, "B"), (1e6, "M")):
        if limit <= whole < 1000 * limit:
            return f"{sign}${whole / limit:.3g}{unit}"
    return f"{sign}${whole:,.0f}"


def show_price(usd: float) -> str:
    """Return the price of a GPU-hour: cents, more digits where it has them, none if they are 0."""
    if usd == round(usd):
        return f"${usd:,.0f}"
    return f"${usd:,.2f}" if math.isclose(usd, round(usd, 2)) else f"${usd:,.4g}"


def show_between(low: float, high: float, show: Callable[[float], str]) -> str:
    """Return two values as a range, a unit that both have written once: ``2.65 to 4.2 h``."""
    first, second = show(low), show(high)
    number, space, unit = first.partition(" ")
    if space and second.endswith(space + unit):
        first = number
    elif first.endswith("%") and second.endswith("%"):
        first = first[:-1]
    return f"{first} to {second}"


def show_ends(low: float | None, high: float | None, show: Callable[[float], str]) -> str:
    """Return a range, ``at least 20`` without an upper end, empty without a lower one."""
    if low is None:
        return ""
    return f"at least {show(low)}" if high is None else show_between(low, high, show)


SHOWN: dict[str, Callable[[float], str]] = {
    "s": show_duration,
    "h": lambda value: f"{show_number(value)} h",
    "d": lambda value: f"{show_number(value)} d",
    "usd": show_usd,
    "gpus": lambda value: f"{show_number(value)} GPUs",
    "gpu_h": lambda value: f"{show_number(value)} GPU-h",
    "workers": lambda value: f"{show_number(value)} workers",
    "share": show_share,
}
"""How a number is shown, by its unit as `gpuplan.cli.gates.fields.unit_of` names it."""


def show_in(unit: str) -> Callable[[float], str]:
    """Return what shows a number of this unit."""
    return SHOWN.get(unit, show_number)


def show_apart(first: float, second: float, show: Callable[[float], str]) -> tuple[str, str]:
    """Return two values, with all their digits where they differ and would not look so."""
    texts = show(first), show(second)
    if first == second or texts[0] != texts[1]:
        return texts
    return f"{first!r}", f"{second!r}"


def show_threshold(seconds: float) -> str:
    """Return a limit on a run time as a duration, whole seconds below 2 minutes; inf is none."""
    return "none" if seconds == float("inf") else show_duration(round(seconds))
