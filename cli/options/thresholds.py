"""Read the options of a sweep that are lists, ranges or bounds."""

from __future__ import annotations

import math
import re

from gpuplan.analysis.base.amounts import NO_LIMIT, parse_duration
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.simkit.limits import MOST_GPUS

FORMS = "a list such as 30,60,5m, or a range LOW:HIGH:COUNT such as 30s:30m:8"
MOST = 10_000
MOST_DIGITS = 9  # of a number of workers; Python converts no more than 4,300
DIGITS = 6
"""Decimals of a threshold in seconds: a replay counts whole microseconds."""


def parse_thresholds(text: str) -> list[float]:
    """Return seconds, in the order of the text; ``none`` is inf. Raises `UsageError`."""
    found: list[float] = []
    for item in text.split(","):
        parts = item.strip().split(":")
        if item.strip().lower() in NO_LIMIT:
            found.append(math.inf)
        elif len(parts) == 3:
            found += _range(item.strip(), *parts)
        elif len(parts) == 1 and parts[0]:
            found.append(parse_duration(parts[0], "--threshold"))
        else:
            raise UsageError(f"--threshold {text!r}: expected {FORMS}")
    return [round(threshold_s, DIGITS) for threshold_s in found]


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


def parse_capacities(text: str) -> list[int | None]:
    """Return numbers of workers, None for no limit. Raises `UsageError`."""
    found: list[int | None] = []
    for item in (part.strip().lower() for part in text.split(",")):
        if item in NO_LIMIT:
            found.append(None)
        elif item.isdecimal() and (len(item) > MOST_DIGITS or int(item) > MOST_GPUS):
            raise UsageError(
                f"--capacity {shortened(text)!r}: expected at most {MOST_GPUS:,} workers, or none "
                "for no limit"
            )
        elif item.isdecimal():
            found.append(int(item))
        else:
            raise UsageError(
                f"--capacity {text!r}: expected whole numbers or none, such as 10,20,none"
            )
    return found


def parse_numbers(text: str, option: str, *, most: float, above: bool = False) -> list[float]:
    """Return numbers of at least, or above, 0 from ``0.3,0.5,1``. Raises `UsageError`."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [math.nan]
    if not all(0 <= number <= most and (number or not above) for number in found):
        bounds = f"{'above 0' if above else 'of at least 0'} and at most {most:,.10g}"
        raise UsageError(f"{option} {text!r}: expected numbers {bounds}, such as 0.3,0.5,1")
    return found
