"""The one price of a GPU-hour that a plan counts with, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuplan.analysis.errors import UsageError

NAMED = 6  # offers that a text lists

MOST_QUOTED_USD = 1_000_000
"""What costs more an hour is a mistake of units."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A price of a GPU for an hour.

    Attributes:
        usd_per_gpu_h: the price, > 0.
        gpu_type: the GPU as the offers name it; empty where only a number was given.
        source: the price table, or ``--price``.
        offers: ``provider:kind`` of each offer that it is the median of.
        as_of: until when the oldest of them is known to hold; None where not known.
    """

    usd_per_gpu_h: float
    gpu_type: str = ""
    source: str = "--price"
    offers: tuple[str, ...] = ()
    as_of: datetime | None = None

    def __post_init__(self) -> None:
        if not 0 < self.usd_per_gpu_h <= MOST_QUOTED_USD:
            raise UsageError(
                f"--price must be above 0 and at most {MOST_QUOTED_USD:,} dollars per GPU-hour, "
                f"got {self.usd_per_gpu_h:g}"
            )

    @property
    def text(self) -> str:
        """The price with where it comes from, for people."""
        price = f"${self.usd_per_gpu_h:.4g} per {self.gpu_type or 'GPU'}-hour"
        if not self.offers:
            return f"{price} ({self.source})"
        more = f" and {len(self.offers) - NAMED} more" if len(self.offers) > NAMED else ""
        of = "median of " if len(self.offers) > 1 else ""
        when = "" if self.as_of is None else f", as of {self.as_of:%Y-%m-%d}"
        return f"{price} ({of}{', '.join(self.offers[:NAMED])}{more}; {self.source}{when})"

    def summary(self) -> dict[str, Any]:
        """Return the price and its origin; keys are stable and carry their unit."""
        return {
            "usd_per_gpu_h": self.usd_per_gpu_h,
            "gpu_type": self.gpu_type or None,
            "source": self.source,
            "offers": list(self.offers),
            "as_of": self.as_of and self.as_of.isoformat(),
        }
