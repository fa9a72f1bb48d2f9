"""The known price formats; a new one is a file in `formats` and a line here."""

from __future__ import annotations

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.lookup import find_named
from gpuplan.analysis.price_formats.availability import AVAILABILITY
from gpuplan.analysis.price_formats.aws import AWS_JSON, AWS_TSV
from gpuplan.analysis.price_formats.canonical import CANONICAL_PRICES, COLUMNS
from gpuplan.analysis.price_formats.format import PriceFormat
from gpuplan.analysis.price_formats.prime import PRIME
from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.price_formats.skypilot import SKYPILOT
from gpuplan.analysis.price_formats.vast import VAST
from gpuplan.analysis.reading.headers import header_error
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.unreadable import odd_text

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
    from gpuplan.analysis.log_formats.registry import FORMATS  # which asks for the formats here

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
