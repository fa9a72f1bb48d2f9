"""The rows of a bill as FOCUS, the FinOps Open Cost and Usage Specification.

Version 1.2: its 21 mandatory columns, those of quantities, SKUs and sub accounts, and one of our
own (``x_``). One row per group, GPU type and month; costs are of the window, not scaled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from gpuplan.analysis.prices.contracts import COMMITTED, OWNED, Contracts
from gpuplan.planner.money.bill import IDLE, SPREAD, BillCell
from gpuplan.planner.money.held_runs import Months

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


def focus_rows(
    cells: Sequence[BillCell], months: Months, book: Contracts, by: Sequence[str], account: str
) -> pl.DataFrame:
    """Return a bill in the columns `COLUMNS`; ``BilledCost`` adds up to the bill of the period.

    It is split by the type of the sub accounts, of the billing ``account``, such as the log's name.
    """
    edges = months.edges_us.tolist()
    rows: list[dict[str, Any]] = []
    for cell in sorted(cells, key=lambda cell: (cell.period, cell.name == IDLE)):
        begin, end = edges[cell.period], edges[cell.period + 1]
        cost, idle = cell.cents / 100, cell.name == IDLE
        is_pool = cell.market in (OWNED, COMMITTED, SPREAD)
        tags = {} if idle else dict(zip(by, (cell.name, cell.part), strict=False))
        issuer = OWN_CLUSTER if is_pool else cell.market
        unit_usd = float(cell.usd / cell.gpu_h) if cell.gpu_h else None
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
                "ChargeDescription": f"Idle {cell.gpu_type} hours"
                if cell.is_idle
                else f"{cell.gpu_type} hours held by jobs",
                "ChargeFrequency": "Usage-Based",
                "BilledCost": cost,
                "EffectiveCost": cost,
                "ListCost": cost,
                "ContractedCost": cost,
                "BillingCurrency": "USD",
                "PricingQuantity": float(cell.gpu_h),
                "PricingUnit": UNIT,
                "PricingCategory": "Committed" if is_pool else "Standard",
                "ListUnitPrice": unit_usd,
                "ContractedUnitPrice": unit_usd,
                "ConsumedQuantity": float(cell.gpu_h),
                "ConsumedUnit": UNIT,
                "ServiceCategory": "Compute",
                "ServiceName": "GPU cluster",
                "ProviderName": issuer,
                "PublisherName": issuer,
                "InvoiceIssuerName": issuer,
                "SubAccountId": None if idle else cell.name,
                "SubAccountName": None if idle else cell.name,
                "SubAccountType": None if idle else by[0],
                "ResourceType": "GPU",
                "SkuId": cell.gpu_type,
                "SkuPriceId": f"{cell.gpu_type}/{cell.market}",
                "Tags": json.dumps(tags, ensure_ascii=False),
                "x_IdleGpus": "true" if cell.is_idle else "false",
            }
        )
    return pl.DataFrame(rows, schema=COLUMNS)


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
