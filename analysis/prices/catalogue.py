"""Prices that come with gpuplan: the clouds of Allpass, Tables 2 and 3, as observed in 2025.

A file of prices replaces all of it. GPU names are those of the paper, which omits their memory.
"""

from __future__ import annotations

from csv import DictReader
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

BUILT_IN = "builtin"
SOURCE = "Allpass, Table 2"
AS_OF = datetime(2025, 10, 25, tzinfo=UTC)
"""On-demand prices are of this day; those of marketplaces of the 30 days, and spot prices of the
year, that end with this week."""


@dataclass(frozen=True, slots=True)
class ListPrice:
    """The price of a GPU at a provider, US dollars per GPU-hour.

    Attributes:
        provider: the company.
        category: serverless, marketplace or conventional.
        gpu_type: the GPU.
        kind: as in a price table.
        typical: the price, on a marketplace the median one; None for a spot price of which only
            the range was published.
        least, most: range observed; the price itself where it has none.
    """

    provider: str
    category: str
    gpu_type: str
    kind: str
    typical: float | None
    least: float
    most: float

    @property
    def is_start_up_tested(self) -> bool:
        """Return whether `STARTUP` has the start-up time of this GPU at this provider."""
        return self.provider in STARTUP and self.gpu_type == "A100"


@dataclass(frozen=True, slots=True)
class StartUpTime:
    """Time from request to use on an A100, over 20 tests, seconds."""

    mean_s: float
    sd_s: float


STARTUP: dict[str, StartUpTime] = {
    "modal": StartUpTime(3.88, 1.84),
    "vast.ai": StartUpTime(36.04, 7.35),
    "lambda": StartUpTime(255.59, 26.26),
}


def _list_prices() -> tuple[ListPrice, ...]:
    with Path(__file__).with_name("list_prices.csv").open(encoding="utf-8", newline="") as lines:
        return tuple(
            ListPrice(
                *(row["provider"], row["category"], row["gpu_type"], row["kind"]),
                typical=float(row["typical"]) if row["typical"] else None,
                least=float(row["least"]),
                most=float(row["most"]),
            )
            for row in DictReader(lines)
        )


CATALOGUE: tuple[ListPrice, ...] = _list_prices()
"""Every price of the table."""
