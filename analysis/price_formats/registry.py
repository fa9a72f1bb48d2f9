"""The known price formats; a new one is a file in this folder and a line here."""

from __future__ import annotations

from gpuplan.analysis.lookup import find_named
from gpuplan.analysis.price_formats.availability import AVAILABILITY
from gpuplan.analysis.price_formats.aws import AWS_JSON, AWS_TSV
from gpuplan.analysis.price_formats.canonical import CANONICAL_PRICES
from gpuplan.analysis.price_formats.format import PriceFormat
from gpuplan.analysis.price_formats.prime import PRIME
from gpuplan.analysis.price_formats.skypilot import SKYPILOT
from gpuplan.analysis.price_formats.vast import VAST

PRICE_FORMATS: tuple[PriceFormat, ...] = (
    AWS_JSON,
    AWS_TSV,
    CANONICAL_PRICES,
    PRIME,
    SKYPILOT,
    AVAILABILITY,
    VAST,
)


def price_format_named(name: str) -> PriceFormat:
    """Return a format by name. Raises `UsageError` with the known names."""
    return find_named(name, {known.name: known for known in PRICE_FORMATS}, "--source-format")
