"""Quantities of Kubernetes: ``8``, ``"8000m"``, ``"64Gi"``, ``"1e3"``."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from gpuplan.analysis.job_table.schema import MAX_GPUS

Quantity = str | int | float
Amount = int | Fraction
"""An exact amount; of whole devices an int, which takes less time and memory than a Fraction."""
NUMBER = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,3})|([a-zA-Z]*))")
SUFFIXES = {
    "": Fraction(1),
    **{name: Fraction(1, 1000**power) for power, name in enumerate("mun", 1)},
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", 1)},
}
MOST_LETTERS = 60
MOST_PODS = 10**6
"""No cluster runs more pods of one workload."""
MOST = 10**100
"""Amounts from here on are refused: Kubernetes itself has none above 2^63 - 1."""
MOST_QUOTED = 30


@lru_cache(maxsize=4096)
def _of_text(text: str) -> Fraction:
    match = NUMBER.fullmatch(text) if len(text) <= MOST_LETTERS else None
    if match is None or (match[3] or "") not in SUFFIXES:
        raise ValueError(f"the quantity {text[:MOST_QUOTED]!r}")
    factor = Fraction(10) ** int(match[2]) if match[2] else SUFFIXES[match[3] or ""]
    amount = Fraction(match[1]) * factor
    if abs(amount) >= MOST:
        raise ValueError(f"the quantity {text[:MOST_QUOTED]!r}")
    return amount


def quantity(value: Quantity) -> Fraction:
    """Return a quantity exactly. Raises ValueError for anything else."""
    return _of_text(value if isinstance(value, str) else repr(value))


def pod_count(count: int) -> int:
    """Return a number of pods. Raises ValueError for one below 0 or over `MOST_PODS`."""
    if not 0 <= count <= MOST_PODS:
        raise ValueError(f"found {str(count)[:MOST_QUOTED]} pods, expected 0 to {MOST_PODS:,}")
    return count


@lru_cache(maxsize=4096)
def device_count(value: Quantity) -> int:
    """Return a number of devices. Raises ValueError where it is not whole, or below 0."""
    count = quantity(value)
    if count.denominator != 1 or not 0 <= count <= MAX_GPUS:
        raise ValueError(f"the quantity {str(value)[:MOST_QUOTED]!r} of a device")
    return int(count)
