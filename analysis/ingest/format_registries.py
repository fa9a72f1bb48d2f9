"""All formats of files that users bring, by the command that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.analysis.invoices.registry import INVOICE_FORMATS
from gpuplan.analysis.log_formats.registry import FORMATS
from gpuplan.analysis.plugins import Registry
from gpuplan.analysis.price_formats.registry import PRICE_FORMATS

FORMAT_REGISTRIES: Mapping[str, Registry[Any]] = {
    "ingest": FORMATS,
    "prices": PRICE_FORMATS,
    "bill": INVOICE_FORMATS,
}
"""Command -> what it reads."""
