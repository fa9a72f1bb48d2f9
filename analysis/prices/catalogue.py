"""Prices that come with gpuplan: the clouds of Allpass, Tables 2 and 3, as observed in 2025.

A file of prices replaces all of it. GPU names are those of the paper, which omits their memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

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

_SERVERLESS = {
    "modal": {
        **{"L4": 0.80, "L40": 1.95, "T4": 0.59, "A10": 1.10, "A100": 2.10, "H100": 3.96},
    },
    "runpod": {"RTX4090": 0.34, "L4": 0.44, "L40": 0.69, "A100": 1.39, "H100": 2.69},
}
_MARKETPLACE = {  # median, least, most
    "vast.ai": {
        "RTX4090": (0.42, 0.17, 0.92),
        "L4": (0.38, 0.38, 0.39),
        "L40": (0.68, 0.60, 0.72),
        "T4": (0.14, 0.14, 0.15),
        "V100": (0.21, 0.11, 0.26),
        "A10": (0.26, 0.25, 0.26),
        "A100": (1.08, 0.38, 1.66),
        "H100": (2.05, 1.53, 2.62),
    },
    "datacrunch": {
        "L40": (0.91, 0.58, 0.97),
        "V100": (0.13, 0.11, 0.14),
        "A100": (0.71, 0.64, 0.86),
        "H100": (1.99, 1.83, 2.12),
    },
}
_CONVENTIONAL: dict[str, dict[str, tuple[float, ...]]] = {  # on demand, least and most of spot
    "lambda": {"V100": (0.55,), "A10": (0.75,), "A100": (1.29,), "H100": (2.49,)},
    "aws": {
        "L4": (0.81, 0.39, 0.66),
        "L40": (1.86, 0.67, 1.65),
        "T4": (0.53, 0.26, 0.41),
        "V100": (1.53, 0.35, 0.98),
        "A10": (1.01, 0.44, 0.52),
        "A100": (2.74, 0.32, 2.04),
        "H100": (6.88, 1.65, 6.88),
    },
    "gcp": {
        "L4": (1.10, 0.27, 0.28),
        "T4": (0.38, 0.14, 0.14),
        "V100": (1.77, 0.99, 0.99),
        "A100": (3.67, 0.47, 1.46),
        "H100": (11.06, 1.52, 4.39),
    },
    "azure": {
        "T4": (0.52, 0.12, 0.28),
        "V100": (2.75, 0.49, 0.61),
        "A10": (0.91, 0.37, 0.48),
        "A100": (3.67, 0.61, 1.08),
        "H100": (6.98, 4.29, 8.38),
    },
}


def _list_prices() -> Iterator[ListPrice]:
    for provider, fixed in _SERVERLESS.items():
        for gpu, usd in fixed.items():
            yield ListPrice(provider, "serverless", gpu, "serverless", usd, usd, usd)
    for provider, offers in _MARKETPLACE.items():
        for gpu, (median, least, most) in offers.items():
            yield ListPrice(provider, "marketplace", gpu, "marketplace", median, least, most)
    for provider, prices in _CONVENTIONAL.items():
        for gpu, (on_demand, *spot) in prices.items():
            yield ListPrice(
                provider, "conventional", gpu, "on_demand", on_demand, on_demand, on_demand
            )
            if spot:
                least, most = spot
                typical = least if least == most else None
                yield ListPrice(provider, "conventional", gpu, "spot", typical, least, most)


CATALOGUE: tuple[ListPrice, ...] = tuple(_list_prices())
"""Every price of the table."""
