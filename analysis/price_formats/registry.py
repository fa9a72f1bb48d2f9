"""The known price formats; a new one is a file in this folder and a line here.

An installed package adds one through an entry point in the group ``gpuplan.price_formats``.
"""

from __future__ import annotations

from types import NoneType

from gpuplan.analysis.base.lookup import find_named
from gpuplan.analysis.plugins import Registry
from gpuplan.analysis.price_formats.availability import AVAILABILITY
from gpuplan.analysis.price_formats.aws import AWS_JSON, AWS_TSV
from gpuplan.analysis.price_formats.canonical import CANONICAL_PRICES
from gpuplan.analysis.price_formats.format import PriceFormat, PricePlan
from gpuplan.analysis.price_formats.prime import PRIME
from gpuplan.analysis.price_formats.skypilot import SKYPILOT
from gpuplan.analysis.price_formats.vast import VAST
from gpuplan.analysis.reading.batch import Rows

PRICE_FORMATS = Registry(
    "gpuplan.price_formats",
    "price format",
    PriceFormat,
    (
        AWS_JSON,
        AWS_TSV,
        CANONICAL_PRICES,
        PRIME,
        SKYPILOT,
        AVAILABILITY,
        VAST,
    ),
    calls={"plan": PricePlan, "open": Rows},
    optional_calls={"recognizes": (str, NoneType)},
)


def price_formats() -> tuple[PriceFormat, ...]:
    """Return all formats that can be used."""
    return tuple(PRICE_FORMATS.values())


def price_format_named(name: str) -> PriceFormat:
    """Return a format by name.

    Raises:
        PluginError: it is of an installed package and cannot be used.
        UsageError: there is none; the message has the known names.
    """
    return find_named(name, PRICE_FORMATS, "--source-format")
