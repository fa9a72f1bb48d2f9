"""Phrases for messages: ``1 row``, ``2 rows``, ``an openb log``, and 12 names of many."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from gpuplan.analysis.base.errors import shortened
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S

MOST_OF_A_NAME = 40
AN = ("a", "e", "i", "o", "u", "swf")


def counted(number: int, thing: str) -> str:
    """Return a number and a noun, singular for one."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def a_log(format_name: str) -> str:
    """Return ``a sia log``, ``an openb log``; ``swf`` is spelled out."""
    return f"{'an' if format_name.startswith(AN) else 'a'} {format_name} log"


def joined(names: Sequence[str], *, word: str = "and", most: int | None = None) -> str:
    """Return ``a, b and c``, at least one; more than ``most`` as `listed` has them."""
    if most is not None and len(names) > most:
        return listed(names, most)
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return the first of many names as one text, and the number of the others."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shortened(name, MOST_OF_A_NAME) for name in names[:most]) + more


def price_text(usd: float, digits: int = 4) -> str:
    """Return the price of a GPU-hour: cents, more digits where it has them, none if they are 0.

    Args:
        usd: the price.
        digits: that are significant where it is not in whole cents, as a mean is.
    """
    if usd == round(usd):
        return f"{usd:,.0f}"
    rounded = usd if isclose(usd, round(usd, 2)) else float(f"{usd:.{digits}g}")
    if isclose(rounded, round(rounded, 2)):
        return f"{rounded:,.2f}"
    return f"{rounded:,.{digits}g}"


def length_words(seconds: float) -> str:
    """Return a length of time as ``2 h`` under two days, else as ``4.2 days`` or ``116 days``."""
    if seconds < 2 * DAY_S:
        return f"{seconds / HOUR_S:.3g} h"
    days = seconds / DAY_S
    return f"{days:,.0f} days" if days >= 100 else f"{days:.2g} days"
