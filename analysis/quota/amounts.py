"""Amounts, limits and times of a site's settings, as Kubernetes and Go write them.

Also their whole units, and the GPUs that a unit of a resource is.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from gpuplan.analysis.kubernetes import gpus as kubernetes_gpus
from gpuplan.analysis.kubernetes import quantities as kubernetes_quantities
from gpuplan.analysis.kubernetes.gpus import is_gpu

UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
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
    whole_units = math.ceil(amount) if rounds_up else math.floor(amount)
    if abs(whole_units) > MOST:
        raise ValueError(f"an amount up to {MOST:,} units")
    return whole_units


class Amount:
    """An amount of a resource, as Kubernetes writes it."""

    __slots__ = ("value",)
    expected = AN_AMOUNT

    def __init__(self, value: Fraction) -> None:
        self.value = value

    @classmethod
    def read(cls, written: Any) -> Amount:
        """Return an amount as written. Raises `ValueError` with what is expected."""
        amount = quantity(written)
        if amount < 0:
            raise ValueError(cls.expected)
        return cls(amount)


class AmountLimit:
    """An amount, or None for no limit: ``none``, ``unlimited`` or, of KAI, -1."""

    __slots__ = ("value",)
    expected = f"{AN_AMOUNT}, or none for no limit"

    def __init__(self, value: Fraction | None = None) -> None:
        self.value = value

    @classmethod
    def read(cls, written: Any) -> AmountLimit:
        """Return a limit as written. Raises `ValueError` with what is expected."""
        if str(written).strip().lower() in ("none", "unlimited", "-1", "-1.0"):
            return cls(None)
        try:
            return cls(Amount.read(written).value)
        except ValueError:
            raise ValueError(cls.expected) from None


class Seconds:
    """A time as Go writes it: ``60s``, ``1h30m``; a number is seconds."""

    __slots__ = ("value",)
    expected = "a time such as 60s or 1h30m"

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    @classmethod
    def read(cls, written: Any) -> Seconds:
        """Return a time as written. Raises `ValueError` with what is expected."""
        text = str(written).strip()
        if not isinstance(written, bool) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
            return cls(float(text))
        if not re.fullmatch(r"(\d{1,9}(\.\d{1,9})?(h|ms|m|s))+", text):
            raise ValueError(cls.expected)
        parts = re.findall(r"(\d+(?:\.\d+)?)(h|ms|m|s)", text)
        return cls(sum(float(number) * UNIT_S[unit] for number, unit in parts))
