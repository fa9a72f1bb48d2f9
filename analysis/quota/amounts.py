"""Values of a site's settings as Kubernetes and Go write them: amounts, limits, times."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from gpuplan.analysis.quota.quantities import AN_AMOUNT, quantity

UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


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
