"""Read amounts as people write them: ``48h``, ``2%``, ``1.29``, ``A100=2.5,T4=1``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import CENTURY_S

SECONDS_PER = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
NO_LIMIT = ("none", "inf", "unlimited")
DURATION = re.compile(r"^\s*((?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)\s*$")


def check_finite(text: str, option: str) -> None:
    """Raise `UsageError` for a number that is not finite: ``nan``, ``inf`` or ``1e400``."""
    try:
        is_finite = math.isfinite(float(text))
    except ValueError:  # other messages say what is expected instead of this text
        return
    if not is_finite:
        raise UsageError(f"{option} must be a finite number, got {text.strip()!r}")


def parse_duration(text: str, option: str, most_s: float = CENTURY_S) -> float:
    """Return seconds for ``90``, ``90s``, ``45m``, ``48h`` or ``2d``.

    Raises:
        UsageError: the text is not a duration, or above ``most_s``; the message names ``option``.
    """
    match = DURATION.match(text.lower())
    endless = text.strip().lower() in NO_LIMIT
    if not endless and (match is None or (match[2] and match[2] not in SECONDS_PER)):
        raise UsageError(f"{option} {text!r}: expected a duration such as 90s, 45m, 48h or 2d")
    seconds = float(match[1]) * SECONDS_PER.get(match[2] or "s", 1.0) if match else math.inf
    if seconds > most_s:
        raise UsageError(
            f"{option} {text!r}: expected a duration of at most {most_s / SECONDS_PER['d']:.6g}d"
        )
    return seconds


def parse_time(text: str, option: str) -> float:
    """Return seconds for ``90s``, ``45m``, ``48h``, ``2d`` or 0, for what may be meant in hours.

    Raises:
        UsageError: as `parse_duration` does, and for another number without a unit.
    """
    seconds = parse_duration(text, option)
    if seconds and text.strip()[-1:] in "0123456789.":
        raise UsageError(f"{option} {text!r}: a time needs a unit, such as {text}h or {text}m")
    return seconds


def parse_share(text: str, option: str) -> float:
    """Return a fraction of 1 for ``2%`` or ``0.02``.

    Raises:
        UsageError: the text is not a share from 0 to 1; the message names ``option``.
    """
    number, size = (text[:-1], 100) if text.endswith("%") else (text, 1)
    check_finite(number, option)
    try:
        share = float(number) / size
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"{option} {text!r}: expected a share from 0 to 1, such as 0.1% or 0.001")
    return share


def parse_by_type(
    texts: Sequence[str], option: str, default: float | None = None
) -> dict[str, float]:
    """Return a number above 0 by GPU type from ``A100=2.5`` or ``A100=2.5,T4=1``.

    Args:
        texts: the values of the option.
        option: its name, for the messages.
        default: the number of a type without one; None where each needs one.

    Raises:
        UsageError: a text is not such a pair, a number is not above 0, or a type is repeated.
    """
    values: dict[str, float] = {}
    for text in _parts(texts):
        name, equals, number = (part.strip() for part in text.partition("="))
        check_finite(number, option)
        try:
            value = float(number) if equals else default
        except ValueError:
            value = None
        if not name or value is None or not 0 < value < float("inf"):
            raise UsageError(f"{option} {text!r}: expected TYPE=NUMBER above 0, such as A100=2.5")
        once(values, name, option)
        values[name] = value
    return values


def parse_usd(texts: Sequence[str], option: str) -> dict[str, float]:
    """Return dollars per GPU-hour from ``1.29``, ``A100=2.5`` and ``A100=2.5,T4=1``.

    The empty name is every type.

    Raises:
        UsageError: a text is not such a price, or a type is repeated.
    """
    prices: dict[str, float] = {}
    for text in _parts(texts):
        name, _, number = (part.strip() for part in text.rpartition("="))
        check_finite(number, option)
        try:
            usd = float(number)
        except ValueError:
            usd = -1.0
        if not 0 < usd < float("inf") or "=" in name or ("=" in text and not name):
            raise UsageError(
                f"{option} {text!r}: expected dollars per GPU-hour above 0, such as 1.29, or "
                "TYPE=USD such as A100=2.5,T4=1"
            )
        once(prices, name, option)
        prices[name] = usd
    return prices


def _parts(texts: Sequence[str]) -> list[str]:
    """Return what is between commas; a text of commas and blanks only stays as it is."""
    return [part for text in texts for part in [p for p in text.split(",") if p.strip()] or [text]]


def once(values: dict[str, float] | dict[str, int], name: str, option: str) -> None:
    """Raise `UsageError` where an option names something twice."""
    if name in values:
        raise UsageError(f"{option}: {name!r} is given twice" if name else f"{option}: given twice")
