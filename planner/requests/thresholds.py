"""Read the options of a sweep that are lists, ranges or bounds."""

from __future__ import annotations

import math
import re

from gpuplan.analysis.base.amounts import NO_LIMIT, check_finite, parse_duration
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.simkit.limits import MOST_GPUS

FORMS = "a list such as 30,60,5m, or a range LOW:HIGH:COUNT such as 30s:30m:8"
MOST = 10_000  # thresholds of a range
MOST_DIGITS = 9  # of a number of workers; Python converts no more than 4,300
DIGITS = 6
"""Decimals of a threshold in seconds: a replay counts whole microseconds."""


def parse_thresholds(text: str, flag: str = "--threshold") -> tuple[float, ...]:
    """Return seconds, in the order of the text; ``none`` is inf. Raises `UsageError`."""
    thresholds: list[float] = []
    for item in text.split(","):
        parts = item.strip().split(":")
        if item.strip().lower() in NO_LIMIT:
            thresholds.append(math.inf)
        elif len(parts) == 3:
            thresholds += _range(item.strip(), *parts)
        elif len(parts) == 1 and parts[0]:
            thresholds.append(parse_duration(parts[0], flag))
        else:
            raise UsageError(f"{flag} {text!r}: expected {FORMS}")
    return tuple(dict.fromkeys(round(threshold_s, DIGITS) for threshold_s in thresholds))


def parse_mark(text: str) -> float:
    """Return one threshold in seconds; ``none`` is inf. Raises `UsageError`."""
    plain = text.strip().lower()
    return math.inf if plain in NO_LIMIT else round(parse_duration(plain, "--mark"), DIGITS)


def _range(item: str, low_text: str, high_text: str, count_text: str) -> list[float]:
    low, high = (parse_duration(part, "--threshold") for part in (low_text, high_text))
    if (
        not re.fullmatch(r"[0-9]{1,9}", count_text)
        or not 2 <= int(count_text) <= MOST
        or not low < high
    ):
        raise UsageError(
            f"--threshold {item!r}: a range runs from low to high in 2 to {MOST:,} points"
        )
    count = int(count_text)
    return [low + (high - low) * i / (count - 1) for i in range(count - 1)] + [high]


def parse_capacities(text: str, flag: str = "--capacity") -> tuple[int | None, ...]:
    """Return numbers of workers, None for no limit. Raises `UsageError`."""
    capacities: list[int | None] = []
    for item in (part.strip().lower() for part in text.split(",")):
        if item in NO_LIMIT:
            capacities.append(None)
        elif item.isdecimal() and (len(item) > MOST_DIGITS or int(item) > MOST_GPUS):
            raise UsageError(
                f"{flag} {shortened(text)!r}: expected at most {MOST_GPUS:,} workers, or none "
                "for no limit"
            )
        elif item.isdecimal():
            capacities.append(int(item))
        else:
            raise UsageError(f"{flag} {text!r}: expected whole numbers or none, such as 10,20,none")
    return tuple(capacities)


def parse_numbers(text: str, flag: str, *, most: float, above: bool = False) -> tuple[float, ...]:
    """Return numbers of at least, or above, 0 from ``0.3,0.5,1``. Raises `UsageError`."""
    for part in text.split(","):
        check_finite(part, flag)
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = (math.nan,)
    if not all(0 <= number <= most and (number or not above) for number in numbers):
        bounds = f"{'above 0' if above else 'of at least 0'} and at most {most:,.10g}"
        raise UsageError(f"{flag} {text!r}: expected numbers {bounds}, such as 0.3,0.5,1")
    return numbers
