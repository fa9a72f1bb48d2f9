"""Amounts of resources as Kubernetes writes them: ``8``, ``"8000m"``, ``"32Gi"``, ``1e3``."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

PATTERN = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE])([+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?", re.ASCII
)
POWERS = {name: 1000**i for i, name in enumerate("kMGTPE", 1)} | {
    f"{name}i": 1024**i for i, name in enumerate("KMGTPE", 1)
}
PARTS = {"n": 10**9, "u": 10**6, "m": 1000}
MOST_EXPONENT, MOST_DIGITS = 18, 40
MOST = 1 << 50
"""Amounts above this are refused: of GPUs, thousandths of a CPU, or MiB."""
AN_AMOUNT = "an amount such as 8, 500m or 64Gi"
GPU_RESOURCES = (
    "nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi",
    "nvidia.com/gpu.shared",
)  # fmt: skip
MIG = "nvidia.com/mig-"


def quantity(written: Any) -> Fraction:
    """Return an amount. Raises `ValueError` with what is expected."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(AN_AMOUNT)
    match = PATTERN.fullmatch(str(written).strip())
    if match is None or len(match[1]) > MOST_DIGITS:
        raise ValueError(AN_AMOUNT)
    number = Fraction(match[1])
    if match[2]:
        exponent = int(match[3]) if len(match[3]) < 6 else MOST_EXPONENT + 1
        if abs(exponent) > MOST_EXPONENT:
            raise ValueError(AN_AMOUNT)
        scale = Fraction(10 ** abs(exponent))
        if exponent < 0:
            scale = 1 / scale
        return number * scale
    if match[4] in PARTS:
        return number / PARTS[match[4]]
    return number * POWERS.get(match[4] or "", 1)


def is_gpu(resource: str) -> bool:
    """Return whether a resource is GPUs, whole or parts of them."""
    return resource in GPU_RESOURCES or resource.startswith(MIG)


def gpus_of(resource: str) -> Fraction:
    """Return the GPUs that one unit of a resource is: a seventh for ``mig-1g.10gb``; 0 for none."""
    if resource.startswith(MIG):
        parts = re.match(r"(\d+)g", resource.removeprefix(MIG))
        return Fraction(int(parts[1]), 7) if parts and 1 <= int(parts[1]) <= 7 else Fraction(1)
    return Fraction(1 if resource in GPU_RESOURCES else 0)


def units(amount: Fraction, resource: str, *, rounds_up: bool) -> int:
    """Return an amount in whole units: thousandths of a CPU, MiB of memory, else one each.

    Requests are rounded up, quotas down. Raises `ValueError` where it is too large.
    """
    if resource == "cpu":
        amount = amount * 1000
    elif resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        amount = amount / (1 << 20)
    whole = math.ceil(amount) if rounds_up else math.floor(amount)
    if abs(whole) > MOST:
        raise ValueError(f"an amount up to {MOST:,} units")
    return whole
