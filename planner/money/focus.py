"""A bill as FOCUS 1.2, the FinOps Open Cost and Usage Specification: exact, by day or month.

A pool is a commitment discount, owned GPUs too: a Purchase row pays for all its hours (billed, not
effective), and Usage rows, Used by label and Unused, spread that cost over the hours (effective,
not billed). Pay-per-use rows are billed as used. So the billed and the effective cost of a month
are the exact dollars of the bill.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import IntArray, distinct
from gpuplan.analysis.base.time_units import DAY_US, HOUR_US, instant
from gpuplan.analysis.prices.contracts import (
    ALWAYS_US,
    ON_DEMAND,
    OWNED,
    DatedPrice,
    PaidPool,
)
from gpuplan.planner.money.bill_table import BilledPeriod
from gpuplan.planner.money.ledger import Ledger, LedgerCell, ledger

DIGITS = 9
TEXT, NUMBER = pl.String(), pl.Decimal(38, DIGITS)
COLUMNS: dict[str, pl.DataType] = {
    "BillingAccountId": TEXT,
    "BillingAccountName": TEXT,
    "BillingAccountType": TEXT,
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
    "PricingCurrency": TEXT,
    "PricingQuantity": NUMBER,
    "PricingUnit": TEXT,
    "PricingCategory": TEXT,
    "ListUnitPrice": NUMBER,
    "ContractedUnitPrice": NUMBER,
    "ConsumedQuantity": NUMBER,
    "ConsumedUnit": TEXT,
    "CommitmentDiscountCategory": TEXT,
    "CommitmentDiscountId": TEXT,
    "CommitmentDiscountName": TEXT,
    "CommitmentDiscountQuantity": NUMBER,
    "CommitmentDiscountStatus": TEXT,
    "CommitmentDiscountType": TEXT,
    "CommitmentDiscountUnit": TEXT,
    "InvoiceId": TEXT,
    "InvoiceIssuerName": TEXT,
    "ProviderName": TEXT,
    "PublisherName": TEXT,
    "RegionId": TEXT,
    "RegionName": TEXT,
    "ResourceId": TEXT,
    "ResourceName": TEXT,
    "ResourceType": TEXT,
    "ServiceCategory": TEXT,
    "ServiceName": TEXT,
    "ServiceSubcategory": TEXT,
    "SkuId": TEXT,
    "SkuMeter": TEXT,
    "SkuPriceDetails": TEXT,
    "SkuPriceId": TEXT,
    "SubAccountId": TEXT,
    "SubAccountName": TEXT,
    "SubAccountType": TEXT,
    "Tags": TEXT,
}
"""Columns in their order -> type; times are texts as ISO 8601 in UTC."""

OWN_CLUSTER = "own cluster"
UNIT = "GPU-Hours"


def focus_rows(
    bill: BilledPeriod,
    *,
    account: str | None,
    issuer: str | None,
    invoice_id: str | None,
    is_daily: bool = True,
) -> pl.DataFrame:
    """Return a bill in the columns `COLUMNS`.

    Args:
        bill: the months asked for, to which rows are cut.
        account: the billing account; None for `OWN_CLUSTER`.
        issuer: who issues the invoice; None for `OWN_CLUSTER`.
        invoice_id: of the invoice; None without one.
        is_daily: whether a row is of a day (UTC), else of a month.
    """
    months = bill.months
    edges = _days(months.edges_us) if is_daily else months.edges_us
    entries = ledger(bill.runs.runs, bill.book, edges)
    names = {
        "BillingAccountId": account or OWN_CLUSTER,
        "BillingAccountName": account or OWN_CLUSTER,
        "InvoiceId": invoice_id,
        **dict.fromkeys(
            ("InvoiceIssuerName", "ProviderName", "PublisherName"), issuer or OWN_CLUSTER
        ),
    }
    rows: list[dict[str, Any]] = []
    of_period: dict[int, list[LedgerCell]] = defaultdict(list)
    for cell in entries.cells:
        of_period[cell.period].append(cell)
    month_of = np.searchsorted(months.edges_us, edges[:-1], side="right") - 1
    places = set(bill.places)
    for period in range(edges.size - 1):
        month = int(month_of[period])
        if month not in places:
            continue
        period_us = int(edges[period]), int(edges[period + 1])
        frame = _Frame(bill, names, months.whole_us[month], period_us)
        rows += frame.rows(entries, of_period[period])
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _days(edges_us: IntArray) -> IntArray:
    """Return the edges of periods and of the days (UTC) within them."""
    first = -(-int(edges_us[0]) // DAY_US) * DAY_US
    midnights = np.arange(first, int(edges_us[-1]), DAY_US)
    return distinct(np.concatenate([edges_us, midnights]))


@dataclass(frozen=True, slots=True)
class _Frame:
    """What all rows of one period share."""

    bill: BilledPeriod
    names: Mapping[str, str | None]
    month_us: tuple[int, int]
    period_us: tuple[int, int]

    def rows(self, entries: Ledger, cells: Sequence[LedgerCell]) -> Iterator[dict[str, Any]]:
        """Yield the rows of the cells of the period, each pool's purchase first."""
        bought: set[PaidPool] = set()
        for cell in cells:
            gpu_type, source = entries.gpu_types[cell.gpu_type], cell.source
            if isinstance(source, PaidPool):
                if source not in bought:
                    bought.add(source)
                    yield self.purchase(gpu_type, source)
                yield self.covered(gpu_type, source, cell)
            else:
                yield self.used(gpu_type, source, cell)

    def purchase(self, gpu_type: str, pool: PaidPool) -> dict[str, Any]:
        """Return the row that pays for all GPUs of a pool in the period."""
        begin = max(pool.from_us, self.period_us[0])
        end = min(pool.until_us, self.period_us[1])
        hours = Fraction(pool.gpus * (end - begin), HOUR_US)
        return {
            **self.common(gpu_type, f"{pool.market}{self.number(pool)}", pool.from_us),
            **self.discount(pool, hours),
            **self.amounts(hours, pool.usd_per_gpu_h, self.list_usd(gpu_type, pool)),
            "ChargeCategory": "Purchase",
            "ChargeDescription": f"{pool.gpus} {gpu_type} {pool.market}",
            "ChargeFrequency": "Recurring",
            "EffectiveCost": Decimal(0),
            "PricingCategory": "Standard",
        }

    def covered(self, gpu_type: str, pool: PaidPool, cell: LedgerCell) -> dict[str, Any]:
        """Return the row of hours of a pool that a label used, or that nobody did."""
        is_used = cell.label is not None
        held = "held by jobs" if is_used else "that no job used"
        return {
            **self.common(gpu_type, f"{pool.market}{self.number(pool)}", pool.from_us),
            **self.discount(pool, cell.gpu_h),
            **self.amounts(cell.gpu_h, pool.usd_per_gpu_h, self.list_usd(gpu_type, pool)),
            **self.payer(cell),
            "ChargeCategory": "Usage",
            "ChargeDescription": f"{gpu_type} hours {held}, {pool.market}",
            "ChargeFrequency": "Usage-Based",
            "BilledCost": Decimal(0),
            "PricingCategory": "Committed",
            "CommitmentDiscountStatus": "Used" if is_used else "Unused",
            **(self.consumed(cell.gpu_h) if is_used else {}),
        }

    def used(self, gpu_type: str, price: DatedPrice, cell: LedgerCell) -> dict[str, Any]:
        """Return the row of pay-per-use hours of a label."""
        usd = price.usd_per_gpu_h
        return {
            **self.common(gpu_type, price.kind, price.from_us),
            **self.amounts(cell.gpu_h, usd, usd),
            **self.payer(cell),
            "ChargeCategory": "Usage",
            "ChargeDescription": f"{gpu_type} hours held by jobs, {price.kind}",
            "ChargeFrequency": "Usage-Based",
            "PricingCategory": "Standard" if price.kind == ON_DEMAND else "Dynamic",
            **self.consumed(cell.gpu_h),
        }

    def common(self, gpu_type: str, kind: str, from_us: int) -> dict[str, Any]:
        """Return what rows of one source share."""
        since = "" if from_us == ALWAYS_US else f"/{instant(from_us)[:10]}"
        return {
            **self.names,
            "BillingAccountType": "cluster",
            "BillingPeriodStart": instant(self.month_us[0]),
            "BillingPeriodEnd": instant(self.month_us[1]),
            "ChargePeriodStart": instant(self.period_us[0]),
            "ChargePeriodEnd": instant(self.period_us[1]),
            "BillingCurrency": "USD",
            "PricingCurrency": "USD",
            "PricingUnit": UNIT,
            "ServiceCategory": "Compute",
            "ServiceName": "GPU cluster",
            "ServiceSubcategory": "Other (Compute)",
            "SkuId": gpu_type,
            "SkuMeter": f"{gpu_type} GPU hours",
            "SkuPriceId": f"{gpu_type}/{kind}{since}",
            "Tags": "{}",
        }

    def amounts(self, hours: Fraction, usd: Fraction, list_usd: Fraction) -> dict[str, Any]:
        """Return costs of hours at a price."""
        cost = _decimal(hours * usd)
        return {
            "BilledCost": cost,
            "EffectiveCost": cost,
            "ContractedCost": cost,
            "ListCost": _decimal(hours * list_usd),
            "PricingQuantity": _decimal(hours),
            "ListUnitPrice": _decimal(list_usd),
            "ContractedUnitPrice": _decimal(usd),
        }

    def list_usd(self, gpu_type: str, pool: PaidPool) -> Fraction:
        """Return what hours of a pool would cost on demand; else its own rate."""
        prices = [p for p in self.bill.book.prices_of(gpu_type) if p.from_us <= self.period_us[0]]
        return prices[-1].usd_per_gpu_h if prices else pool.usd_per_gpu_h

    def number(self, pool: PaidPool) -> str:
        """Return what tells a pool from others of its market, type and begin; empty for the first.

        They have rates or ends of their own.
        """
        key = (pool.market, pool.gpu_type, pool.from_us)
        alike = [p for p in self.bill.book.pools if (p.market, p.gpu_type, p.from_us) == key]
        alike.sort(key=lambda p: (p.usd_per_gpu_h, p.until_us))  # not by their order in a file
        place = alike.index(pool)
        return f"{place + 1}" if place else ""

    def discount(self, pool: PaidPool, hours: Fraction) -> dict[str, Any]:
        """Return the columns of a commitment."""
        since = "" if pool.from_us == ALWAYS_US else f"-{instant(pool.from_us)[:10]}"
        ident = f"{pool.market}{self.number(pool)}-{pool.gpu_type}{since}"
        return {
            "CommitmentDiscountCategory": "Usage",
            "CommitmentDiscountId": ident,
            "CommitmentDiscountName": f"{pool.gpus} {pool.gpu_type} {pool.market}",
            "CommitmentDiscountQuantity": _decimal(hours),
            "CommitmentDiscountType": "Owned" if pool.market == OWNED else "Commitment",
            "CommitmentDiscountUnit": UNIT,
        }

    def consumed(self, hours: Fraction) -> dict[str, Any]:
        """Return the columns of hours that jobs held."""
        return {"ConsumedQuantity": _decimal(hours), "ConsumedUnit": UNIT}

    def payer(self, cell: LedgerCell) -> dict[str, Any]:
        """Return the columns of who pays; none for hours that nobody used."""
        if cell.label is None:
            return {}
        label, by = self.bill.runs.labels[cell.label], self.bill.columns
        return {
            "SubAccountId": label[0],
            "SubAccountName": label[0],
            "SubAccountType": by[0],
            "Tags": json.dumps(dict(zip(by, label, strict=False)), ensure_ascii=False),
        }


def _decimal(amount: Fraction) -> Decimal:
    return Decimal(round(amount * 10**DIGITS)).scaleb(-DIGITS)
