"""Numbers with units and digits: ``2.1 h``; `gpuplan.analysis.base.amounts` reads those typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil, floor, log10

from gpuplan.analysis.base.words import price_text

UNIT_SUFFIX = re.compile(r"_(s|h|usd|gpus|gpu_h)$")
STATISTIC = re.compile(r"mean|median|min|max|value|low|high|p\d+")
"""Names with the unit of their group, as in ``duration_s.p95``."""

SHARE = re.compile(
    r"(\w+_)?share(_\w+)?|under_\d+s|gini|utilization|saving|variation|daily_volatility"
    r"|(daily|weekly)_strength|\w+_over_one_gpu|efficiency|error|within|\w+_wait_growth"
)
"""Names of fractions of 1, which may be compared with a percentage."""

WORDS = {
    "gpu_h": re.compile(r"(\w+_)?gpu_hours"),
    "h": re.compile(r"hours"),
    "d": re.compile(r"(\w+_)?days"),
    "workers": re.compile(r"workers(_\w+)?|\w+_workers|capacity"),
    "gpus": re.compile(r"width"),
    "usd": re.compile(r"months|totals"),  # of a forecast of spend: their low and high
}
"""Unit -> names that contain it as a word."""

BY_NAME = ("used_gpus",)
"""Groups of one number for each name from the input, all in the unit of the group."""


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
    """Return a fraction as a percentage; a share that is about none has no sign."""
    return f"{round(100 * value, 1) + 0.0:.1f}%"


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
    rounded = float(f"{size:.3g}")
    for limit, unit in ((1e9, "B"), (1e6, "M")):
        if limit <= rounded < 1000 * limit:
            return f"{sign}${rounded / limit:.3g}{unit}"
    return f"{sign}${rounded:,.0f}"


def show_price(usd: float) -> str:
    """Return the price of a GPU-hour with its dollar sign, as `price_text`."""
    return f"${price_text(usd)}"


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
"""How a number is shown, by its unit as `unit_of` names it."""


def unit_of(path: str) -> str:
    """Return the unit of a field; empty for a number without one.

    It is ``s``, ``h``, ``d``, ``usd``, ``gpus``, ``gpu_h``, ``workers`` or ``share``.
    """
    group, _, name = path.rpartition(".")
    last = group.rpartition(".")[2]
    if last in BY_NAME or STATISTIC.fullmatch(name):
        name = last
    if SHARE.fullmatch(name):
        return "share"
    for unit, words in WORDS.items():
        if words.fullmatch(name):
            return unit
    # Dollars per GPU-hour are dollars: the unit is before "per" or "at".
    match = UNIT_SUFFIX.search("_" + re.split(r"_?per_|_at_", name)[0])
    return match[1] if match else ""


@cache
def show_named(name: str) -> Callable[[float], str]:
    """Return what shows a number in a column of this name, whose header says the unit."""
    if name.endswith("usd_per_month"):
        return show_about_usd
    if name.endswith("usd_per_gpu_h"):
        return show_number
    unit = unit_of(name)
    return SHOWN[unit] if unit in ("s", "usd", "share") else show_number


def show_in(unit: str) -> Callable[[float], str]:
    """Return what shows a number of this unit."""
    return SHOWN.get(unit, show_number)


def show_distinct(first: float, second: float, show: Callable[[float], str]) -> tuple[str, str]:
    """Return two values, with all their digits where they differ and would not look so."""
    texts = show(first), show(second)
    if first == second or texts[0] != texts[1]:
        return texts
    return f"{first!r}", f"{second!r}"


def show_threshold(seconds: float) -> str:
    """Return a limit on a run time as a duration, whole seconds below 2 minutes; inf is none."""
    return "none" if seconds == float("inf") else show_duration(round(seconds))


FEW_JOBS = 100
"""Fewer jobs than this are too few for a mean with three digits."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The digits that a number of jobs can carry.

    Attributes:
        jobs: jobs behind the numbers.
    """

    jobs: int

    @property
    def is_rough(self) -> bool:
        """Whether the jobs are few."""
        return self.jobs < FEW_JOBS

    @property
    def digits(self) -> int:
        """Significant digits."""
        return 2 if self.is_rough else 3

    def duration(self, seconds: float) -> str:
        """Return a duration: ``2.29 h``, or ``2.3 h`` of few jobs."""
        return show_duration(seconds, self.digits)

    def gpus(self, gpus: float) -> str:
        """Return average GPUs, rounded up, so that a plan for them fits: ``18.3``, ``194``."""
        if not gpus > 0:
            return "0"
        places = self.digits - 1 - floor(log10(gpus))
        if not self.is_rough:
            places = max(places, 0)
        rounded = ceil(gpus * 10.0**places * (1 - 1e-12)) / 10.0**places
        return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"

    def gpus_text(self, gpus: float) -> str:
        """Return average GPUs with the word: ``1 GPU``, ``18.3 GPUs``."""
        shown = self.gpus(gpus)
        return f"{shown} GPU{'' if shown == '1' else 's'}"

    def usd(self, usd: float) -> str:
        """Return dollars: ``$615,000``, ``$1.03M``."""
        rounded = significant(abs(usd), self.digits)
        return f"-{tick_usd(rounded)}" if usd < 0 and rounded else tick_usd(rounded)

    @property
    def caution(self) -> str:
        """What to say where the jobs are few; else empty."""
        if not self.is_rough:
            return ""
        return f"only {self.jobs:,} job{'' if self.jobs == 1 else 's'}"
