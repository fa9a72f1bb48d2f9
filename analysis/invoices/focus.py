"""FOCUS 1.0 to 1.3, the FinOps Open Cost and Usage Specification: CSV or Parquet of any provider.

Columns may stand in any order, in any case and with underscores; others are ignored. Source:
https://focus.finops.org, versions 1.0 to 1.3.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.invoices.charges import (
    ADJUSTMENT,
    COMMITTED,
    CORRECTION,
    CREDIT,
    DYNAMIC,
    PURCHASE,
    STANDARD,
    TAX,
    UNUSED,
    UNUSED_CAPACITY,
    USAGE,
)
from gpuplan.analysis.invoices.format import InvoiceCells, InvoiceFormat

COSTS = ("BilledCost", "EffectiveCost")
NEEDED = (*COSTS, "ChargeCategory", "ChargePeriodStart")
TEXTS = ("SkuMeter", "x_UsageType", "ChargeDescription", "SkuPriceId")
"""Columns that may name an instance or a GPU, the most exact one first."""
COLUMNS = (
    *NEEDED,
    *TEXTS,
    "BillingPeriodStart",
    "BillingPeriodEnd",
    "ChargePeriodEnd",
    "ChargeClass",
    "CommitmentDiscountId",
    "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus",
    "CommitmentDiscountUnit",
    "CapacityReservationStatus",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "SkuId",
    "SkuPriceDetails",
    "ServiceCategory",
    "ServiceName",
    "BillingCurrency",
)
CATEGORIES = {
    "Usage": USAGE,
    "Purchase": PURCHASE,
    "Tax": TAX,
    "Credit": CREDIT,
    "Adjustment": ADJUSTMENT,
}
PRICING = {"Standard": STANDARD, "Dynamic": DYNAMIC, "Committed": COMMITTED, "Other": STANDARD}
STATUSES = {"Used": "used", "Unused": "unused"}


def focus_charges(cells: InvoiceCells) -> pl.DataFrame:
    """Return the charges of a file in the columns of FOCUS. Raises `InputError`."""
    cells.need(*COSTS, "ChargePeriodStart")
    periods = cells.periods(
        "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart", "BillingPeriodEnd"
    )
    quantity = _quantity(cells)
    columns = {
        "kind": _kinds(cells),
        **periods,
        "billed": cells.amount("BilledCost"),
        "effective": cells.amount("EffectiveCost"),
        **quantity,
        "unit_usd": cells.amount("ContractedUnitPrice"),
        "pricing": _pricing(cells),
        "commitment": cells.text("CommitmentDiscountId"),
        "sku": cells.text("SkuId"),
        "service": cells.text("ServiceName"),
        "service_category": cells.text("ServiceCategory"),
        "texts": cells.select_texts(TEXTS),
        "details": cells.text("SkuPriceDetails"),
        "currency": cells.text("BillingCurrency"),
    }
    return cells.frame(columns)


def _kinds(cells: InvoiceCells) -> pl.Series:
    """Return what each row is: a status of a commitment or a correction before its category."""
    category = cells.word("ChargeCategory", CATEGORIES)
    if cells.has("ChargeCategory"):
        cells.need_cells("ChargeCategory", category, f"one of {', '.join(CATEGORIES)}")
    category = category.fill_null(USAGE)
    status = cells.word("CommitmentDiscountStatus", STATUSES)
    capacity = cells.word("CapacityReservationStatus", STATUSES)
    is_usage = category == USAGE
    rows = pl.DataFrame({"kind": category})
    correction = cells.text("ChargeClass").str.to_lowercase() == "correction"
    above = category.is_in([USAGE, PURCHASE])
    return rows.select(
        pl.when((correction & above).fill_null(False))
        .then(pl.lit(CORRECTION))
        .when((is_usage & (status == "unused")).fill_null(False))
        .then(pl.lit(UNUSED))
        .when((is_usage & (capacity == "unused")).fill_null(False))
        .then(pl.lit(UNUSED_CAPACITY))
        .otherwise("kind")
    ).to_series()


def _pricing(cells: InvoiceCells) -> pl.Series:
    """Return the pricing of each row: committed where a commitment covers it."""
    pricing = cells.word("PricingCategory", PRICING)
    is_used = (cells.word("CommitmentDiscountStatus", STATUSES) == "used").fill_null(False)
    return pricing.set(is_used, COMMITTED)


def _quantity(cells: InvoiceCells) -> dict[str, pl.Series]:
    """Return the first quantity that a row has, in its unit."""
    names = ("Pricing", "Consumed", "CommitmentDiscount")
    rows = pl.DataFrame(
        {f"{name}Quantity": cells.amount(f"{name}Quantity") for name in names}
        | {f"{name}Unit": cells.text(f"{name}Unit") for name in names}
    )
    priced, consumed = (pl.col(f"{name}Quantity").is_not_null() for name in names[:2])
    unit = pl.when(priced).then("PricingUnit").when(consumed).then("ConsumedUnit")
    return rows.select(
        quantity=pl.coalesce(f"{name}Quantity" for name in names),
        unit=unit.otherwise("CommitmentDiscountUnit"),
    ).to_dict()


FOCUS = InvoiceFormat.of_columns(
    "focus",
    description="FOCUS 1.0 to 1.3, CSV or Parquet; any provider",
    source="focus.finops.org",
    columns=COLUMNS,
    needed=NEEDED,
    charges=focus_charges,
)
