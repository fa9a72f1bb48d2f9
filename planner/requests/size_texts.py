"""Sizes and growth as ``gpuplan size`` takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.simkit.limits import MOST_GPUS

USUAL_GROWTHS = (-0.2, 0.5)
"""Range of use at which terms break even where none is given."""
Growth = float | tuple[float, float]
"""Of arrivals, or a range of it."""
MOST_SIZES = 1000


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes from ``low`` to ``high`` GPUs in ``count`` equal steps."""

    low: int
    high: int
    count: int


def stripped(texts: Sequence[str], _: str) -> tuple[str, ...]:
    """Return texts without blanks around them."""
    return tuple(text.strip() for text in texts)


def parse_sizes(text: str, _: str = "--gpus") -> tuple[int, ...] | SizeRange:
    """Return the sizes of ``64,128``, or the range of ``64:512:8``: 8 sizes from 64 to 512.

    Raises:
        UsageError: the text is neither, or a number is out of range.
    """
    if ":" not in text:
        return tuple(dict.fromkeys(_gpus(part, text) for part in text.split(",")))
    parts = text.split(":")
    if len(parts) != 3:
        raise _bad_sizes(text)
    low, high, count = (_gpus(part, text) for part in parts)
    if low > high or not 2 <= count <= MOST_SIZES:
        raise UsageError(
            f"--gpus {shortened(text)!r}: expected LO:HI:N with LO at most HI, and N from 2 to "
            f"{MOST_SIZES:,}"
        )
    return SizeRange(low, high, count)


def _gpus(part: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", part.strip()) or not 1 <= int(part) <= MOST_GPUS:
        raise _bad_sizes(text)
    return int(part)


def _bad_sizes(text: str) -> UsageError:
    return UsageError(
        f"--gpus {shortened(text)!r}: expected whole numbers of GPUs such as 64,128, or LO:HI:N "
        f"such as 64:512:8, each from 1 to {MOST_GPUS:,}"
    )


MOST_GROWTH = 10.0


def parse_growth(text: str, flag: str = "--growth") -> float:
    """Return 0.2 for ``20%`` or ``0.2``.

    Raises:
        UsageError: the text is not a number, a number that must be a percentage, or too large.
    """
    is_percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%")) / (100 if is_percent else 1)
    except ValueError:
        value = float("nan")
    if value != value or (not is_percent and abs(value) > 5):
        raise UsageError(f"{flag} {shortened(text)!r}: expected a percentage such as 20%")
    if value > MOST_GROWTH:
        raise UsageError(f"{flag} {shortened(text)!r}: expected at most {MOST_GROWTH:,.0%}")
    return value


def parse_growths(text: str, flag: str = "--growth") -> Growth:
    """Return 0.2 for ``20%``, and the two ends of a range such as ``-20%:50%``.

    Raises:
        UsageError: a text is not a number, or the range descends.
    """
    low, colon, high = text.partition(":")
    if not colon:
        return parse_growth(text, flag)
    ends = parse_growth(low, flag), parse_growth(high, flag)
    if ends[0] > ends[1]:
        raise UsageError(f"{flag} {shortened(text)!r}: expected LOW:HIGH, such as -20%:50%")
    return ends


def written_growth(growth: Growth) -> float | list[float]:
    """Return growth as JSON has it: of a range its ends."""
    return list(growth) if isinstance(growth, tuple) else growth


def size_list(sizes: tuple[int, ...] | SizeRange) -> list[int]:
    """Return sizes as JSON has them: of a range its ends and their number."""
    if isinstance(sizes, SizeRange):
        return [sizes.low, sizes.high, sizes.count]
    return list(sizes)
