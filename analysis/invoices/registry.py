"""The known formats of invoices; a new one is a file in this folder and a line here.

An installed package adds one through an entry point in the group ``gpuplan.invoice_formats``.
"""

from __future__ import annotations

from types import NoneType

import polars as pl

from gpuplan.analysis.invoices.cur import CUR
from gpuplan.analysis.invoices.focus import FOCUS
from gpuplan.analysis.invoices.format import InvoiceFormat
from gpuplan.analysis.invoices.opencost import OPENCOST
from gpuplan.analysis.plugins import Registry

INVOICE_FORMATS = Registry(
    "gpuplan.invoice_formats",
    "invoice format",
    InvoiceFormat,
    (CUR, FOCUS, OPENCOST),
    calls={"charges": pl.DataFrame, "as_named": str},
    optional_calls={"recognizes": (str, NoneType)},
)
