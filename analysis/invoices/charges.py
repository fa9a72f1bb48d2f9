"""The charges of an invoice: one row of a format becomes one of these, or two that add up to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from gpuplan.analysis.reading.batch import ROW
from gpuplan.analysis.trace.input_files import InputFile

AMOUNT = pl.Decimal(38, 18)
"""Dollars and quantities, exact to 18 digits after the point."""

USAGE, PURCHASE, UNUSED, UNUSED_CAPACITY = "usage", "purchase", "unused", "unused_capacity"
TAX, CREDIT, ADJUSTMENT, CORRECTION = "tax", "credit", "adjustment", "correction"
BELOW = (TAX, CREDIT, ADJUSTMENT, CORRECTION)
"""What stands below the charges of an invoice: no share is of it."""
STANDARD, DYNAMIC, COMMITTED = "standard", "dynamic", "committed"

CHARGES: Mapping[str, pl.DataType] = {
    ROW: pl.Int64(),
    "kind": pl.String(),
    "month": pl.String(),
    "month_begin_us": pl.Int64(),
    "month_end_us": pl.Int64(),
    "begin_us": pl.Int64(),
    "end_us": pl.Int64(),
    "billed": AMOUNT,
    "effective": AMOUNT,
    "quantity": AMOUNT,
    "unit": pl.String(),
    "unit_usd": AMOUNT,
    "pricing": pl.String(),
    "commitment": pl.String(),
    "sku": pl.String(),
    "service": pl.String(),
    "service_category": pl.String(),
    "texts": pl.String(),
    "details": pl.String(),
    "currency": pl.String(),
}
"""Columns of charges.

``kind`` is one of the words above, ``month`` that of the billing period, whose begin and end follow
(the end null where unknown), then the period of the charge. ``quantity`` is in ``unit``, null where
the row has none; ``unit_usd`` is the price of one. ``pricing`` is `STANDARD`, `DYNAMIC` or
`COMMITTED`, ``commitment`` the id of a discount. ``texts`` are what may name an instance, one a
line, and ``details`` the properties of the SKU, JSON.
"""


@dataclass(frozen=True, slots=True)
class Invoice:
    """The charges of some files.

    Attributes:
        charges: with the columns `CHARGES`, in order of files and rows.
        inputs: the files.
        formats: of the files.
        currency: of all amounts.
        warnings: what changes how the invoice is to be read.
    """

    charges: pl.DataFrame
    inputs: tuple[InputFile, ...]
    formats: tuple[str, ...]
    currency: str
    warnings: tuple[str, ...]
