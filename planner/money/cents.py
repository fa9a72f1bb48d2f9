"""Round dollars to cents so that every table adds up."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor


def whole_cents(usd: Fraction) -> int:
    """Return dollars as cents, half a cent rounded up."""
    return floor(usd * 100 + Fraction(1, 2))


def split_cents(total: int, parts: Sequence[Fraction]) -> list[int]:
    """Return cents for each part that add up to ``total``.

    Method of the largest remainder (Hamilton): every part is rounded down, and the cents left go to
    the parts that lost most.

    Args:
        total: cents, >= 0; of the sum of the parts, rounded.
        parts: dollars, each >= 0. Of equal remainders the first part gets the cent.

    Raises:
        ValueError: the total is not that of the parts.
    """
    cents = [floor(usd * 100) for usd in parts]
    left = total - sum(cents)
    if not 0 <= left <= len(cents):
        raise ValueError(f"expected a total of these parts, got {total} for {sum(cents)} and up")
    lost = sorted(range(len(cents)), key=lambda part: cents[part] - parts[part] * 100)
    for part in lost[:left]:
        cents[part] += 1
    return cents
