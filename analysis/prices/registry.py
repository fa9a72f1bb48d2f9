"""The known price formats; a new one is a file in `formats` and a line here."""

from __future__ import annotations

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.ingest.headers import header_error
from gpuplan.analysis.ingest.oddities import odd_text
from gpuplan.analysis.ingest.source import Head
from gpuplan.analysis.named import find_named
from gpuplan.analysis.prices.format import PriceFormat
from gpuplan.analysis.prices.formats.availability import AVAILABILITY
from gpuplan.analysis.prices.formats.aws import AWS_JSON, AWS_TSV
from gpuplan.analysis.prices.formats.canonical import CANONICAL_PRICES, COLUMNS
from gpuplan.analysis.prices.formats.prime import PRIME
from gpuplan.analysis.prices.formats.skypilot import SKYPILOT
from gpuplan.analysis.prices.formats.vast import VAST
from gpuplan.analysis.prices.schema import PRICE

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


def unknown_prices(head: Head) -> InputError:
    """Return the error for a file that no format recognizes: a job log, odd text or any other."""
    from gpuplan.analysis.ingest.registry import FORMATS  # which asks for the formats here

    for log in FORMATS:
        if (sign := log.recognizes(head)) is not None:
            return InputError(
                head.path,
                f"is a job log ({log.name}: {sign}); it has no prices",
                expected="a price list",
                hint=f"gpuplan ingest {head.path} -o trace.parquet",
            )
    known = {"canonical": (*COLUMNS, PRICE)}
    return (
        odd_text(head)
        or header_error(head, known)
        or InputError(
            head.path,
            f"is no known price list; it starts with {head.shown()}",
            expected=f"one of {_names()}",
            hint="force a format with --source-format NAME, or write a table with the columns "
            "timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour,available",
        )
    )


def _names() -> str:
    return ", ".join(known.name for known in PRICE_FORMATS)
