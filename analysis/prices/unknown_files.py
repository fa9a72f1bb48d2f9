"""The error for a source that no price format recognizes."""

from __future__ import annotations

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.log_formats.registry import FORMATS
from gpuplan.analysis.price_formats.canonical import COLUMNS
from gpuplan.analysis.price_formats.registry import PRICE_FORMATS
from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.reading.headers import header_error
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.unreadable import odd_text


def unknown_prices(head: Head) -> InputError:
    """Return the error for a file that no format recognizes: a job log, odd text or any other."""
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
            f"unrecognized price format; it starts with {head.shown()}",
            expected=f"one of {_names()}",
            hint="force a format with --source-format NAME, or write a table with the columns "
            "timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour,available",
        )
    )


def _names() -> str:
    return ", ".join(known.name for known in PRICE_FORMATS)
