"""Amounts of resources in whole units, and the GPUs that a unit of a resource is."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from gpuplan.analysis.kubernetes import gpus as kubernetes_gpus
from gpuplan.analysis.kubernetes import quantities as kubernetes_quantities
from gpuplan.analysis.kubernetes.gpus import is_gpu

MOST = 1 << 50
"""Amounts above this are refused: of GPUs, thousandths of a CPU, or MiB."""
AN_AMOUNT = "an amount such as 8, 500m or 64Gi"


def quantity(written: Any) -> Fraction:
    """Return an amount as it may stand in an object. Raises `ValueError` with what is expected."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(AN_AMOUNT)
    try:
        written = written.strip() if isinstance(written, str) else written
        return kubernetes_quantities.quantity(written)
    except ValueError:
        raise ValueError(AN_AMOUNT) from None


def gpus_of(resource: str) -> Fraction:
    """Return the GPUs that one unit of a resource is: a seventh for ``mig-1g.10gb``; 0 for none."""
    if (part := kubernetes_gpus.MIG.fullmatch(resource)) is not None:
        return Fraction(int(part[1]), kubernetes_gpus.MIG_SLICES)
    return Fraction(1 if is_gpu(resource) else 0)


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
