"""The rows of a bill as FOCUS, the FinOps Open Cost and Usage Specification.

Version 1.2: its 21 mandatory columns, those of quantities, SKUs and sub accounts, and one of our
own (``x_``). One row per group, GPU type and month; costs are of the window, not scaled.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from gpuplan.planner.money.group_bill import GroupBill

VERSION = "1.2"
TEXT, NUMBER = pl.String(), pl.Float64()
COLUMNS: dict[str, pl.DataType] = {
    "BillingAccountId": TEXT,
    "BillingAccountName": TEXT,
    "BillingPeriodStart": TEXT,
    "BillingPeriodEnd": TEXT,
    "ChargePeriodStart": TEXT,
    "ChargePeriodEnd": TEXT,
    "ChargeCategory": TEXT,
    "ChargeClass": TEXT,
    "ChargeDescription": TEXT,
    "ChargeFrequency": TEXT,
    "BilledCost": NUMBER,
    "EffectiveCost": NUMBER,
    "ListCost": NUMBER,
    "ContractedCost": NUMBER,
    "BillingCurrency": TEXT,
    "PricingQuantity": NUMBER,
    "PricingUnit": TEXT,
    "PricingCategory": TEXT,
    "ListUnitPrice": NUMBER,
    "ContractedUnitPrice": NUMBER,
    "ConsumedQuantity": NUMBER,
    "ConsumedUnit": TEXT,
    "ServiceCategory": TEXT,
    "ServiceName": TEXT,
    "ProviderName": TEXT,
    "PublisherName": TEXT,
    "InvoiceIssuerName": TEXT,
    "SubAccountId": TEXT,
    "SubAccountName": TEXT,
    "SubAccountType": TEXT,
    "ResourceType": TEXT,
    "SkuId": TEXT,
    "SkuPriceId": TEXT,
    "Tags": TEXT,
    "x_IdleGpus": TEXT,
}
"""Columns in their order -> type; times are texts as ISO 8601 in UTC."""

OWN_CLUSTER = "own cluster"
UNIT = "GPU-Hours"
ANY_GPU = "GPU"


def focus_rows(bill: GroupBill, by: str, account: str) -> pl.DataFrame:
    """Return a bill in the columns `COLUMNS`; ``BilledCost`` adds up to the bill of the window.

    It is split by the type of the sub accounts, of the billing ``account``, such as the log's name.
    """
    edges = bill.hours.edges_us.tolist()
    rows: list[dict[str, Any]] = []
    for cell in bill.cells:
        kind, price = bill.gpu_types[cell.gpu_type], bill.prices[cell.gpu_type]
        begin, end = edges[cell.period], edges[cell.period + 1]
        sku = kind or ANY_GPU
        cost = cell.cents / 100
        issuer = ", ".join(price.offers) or OWN_CLUSTER
        idle = cell.name is None
        unit_usd = None if bill.is_spread else price.usd_per_gpu_h
        rows.append(
            {
                "BillingAccountId": account,
                "BillingAccountName": account,
                "BillingPeriodStart": _month(begin, ahead=False),
                "BillingPeriodEnd": _month(begin, ahead=True),
                "ChargePeriodStart": _instant(begin),
                "ChargePeriodEnd": _instant(end),
                "ChargeCategory": "Usage",
                "ChargeClass": None,
                "ChargeDescription": f"Idle {sku} hours" if idle else f"{sku} hours held by jobs",
                "ChargeFrequency": "Usage-Based",
                "BilledCost": cost,
                "EffectiveCost": cost,
                "ListCost": cost,
                "ContractedCost": cost,
                "BillingCurrency": "USD",
                "PricingQuantity": cell.gpu_h,
                "PricingUnit": UNIT,
                "PricingCategory": "Standard",
                "ListUnitPrice": unit_usd,
                "ContractedUnitPrice": unit_usd,
                "ConsumedQuantity": cell.gpu_h,
                "ConsumedUnit": UNIT,
                "ServiceCategory": "Compute",
                "ServiceName": "GPU cluster",
                "ProviderName": issuer,
                "PublisherName": issuer,
                "InvoiceIssuerName": issuer,
                "SubAccountId": cell.name,
                "SubAccountName": cell.name,
                "SubAccountType": None if idle else by,
                "ResourceType": "GPU",
                "SkuId": sku,
                "SkuPriceId": f"{sku}:{price.source}",
                "Tags": json.dumps({} if idle else {by: cell.name}, ensure_ascii=False),
                "x_IdleGpus": "true" if idle else "false",
            }
        )
    return pl.DataFrame(rows, schema=COLUMNS)


def month_names(bill: GroupBill, *, has_calendar: bool) -> list[str]:
    """Return a name per period: ``2017-10``, or ``month 1`` where the log has no dates."""
    edges = bill.hours.edges_us.tolist()[:-1]
    if not has_calendar:
        return [f"month {place}" for place in range(1, len(edges) + 1)]
    return [_time(edge).strftime("%Y-%m") for edge in edges]


def _time(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def _instant(us: int) -> str:
    """Return a time to the second, as the specification writes times."""
    return _time(us).strftime("%Y-%m-%dT%H:%M:%SZ")


def _month(us: int, *, ahead: bool) -> str:
    """Return the first instant of the month of a time, or of the next one."""
    at = _time(us)
    year, month = at.year, at.month + ahead
    if month > 12:
        year, month = year + 1, 1
    return f"{year:04d}-{month:02d}-01T00:00:00Z"


def row_name(name: str | None, names: tuple[str, ...]) -> str:
    """Return the name of a row; idle GPUs are ``idle`` where no group is called so."""
    if name is not None:
        return name
    return "(idle)" if "idle" in names else "idle"
