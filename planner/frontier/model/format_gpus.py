"""Format budgets for people: rounded up, so that the least budget as shown is feasible."""

from __future__ import annotations

from math import ceil, floor, log10

DIGITS = 4  # significant ones
DECIMALS = 2  # at least: budgets near the least one must differ
TINY = 1e-4


def round_up(value: float) -> float:
    """Return a value above 0 with `DIGITS` significant digits, never less than it is."""
    places = _places(value)
    return ceil(value * 10.0**places * (1 - 1e-12)) / 10.0**places


def show_gpus(gpus: float) -> str:
    """Return average GPUs, rounded up: ``2.532``, ``146.69``, ``0.01235``."""
    if not gpus > 0:
        return "0"
    rounded = round_up(gpus)
    if rounded < TINY:
        return f"{rounded:.{DIGITS - 1}e}"
    return f"{rounded:,.{_places(rounded)}f}"


def usd_per_h(value: float) -> str:
    """Return dollars an hour, rounded up, so that the least budget as shown is feasible."""
    return f"${round_up(value):,.2f}/h"


def _places(value: float) -> int:
    return max(DECIMALS, DIGITS - 1 - floor(log10(value)))
