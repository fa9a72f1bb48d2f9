"""Rules of FOCUS 1.2 that a bill's rows keep, by the names of the specification's model.

Source: FinOps Open Cost and Usage Specification 1.2, requirements model 1.2.0.1. Where a rule of
the model has lost its condition (`CommitmentDiscountStatus-C-004-C`, `ConsumedQuantity-C-006-C`),
this is the rule as the text has it. A product may differ from a cost by the rounding of its parts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

DIGITS = re.compile(r"-?\d+(\.\d+)?")
NUMBERS = (
    *("BilledCost", "EffectiveCost", "ListCost", "ContractedCost", "PricingQuantity"),
    *("ListUnitPrice", "ContractedUnitPrice", "ConsumedQuantity", "CommitmentDiscountQuantity"),
)
TIMES = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
NEVER_NULL = (
    *("BilledCost-C-003-M", "BillingAccountId-C-001-M", "BillingAccountName-C-003-C"),
    *(
        "BillingCurrency-C-004-M",
        "PricingCurrency-C-004-M",
        "BillingPeriodEnd-C-003-M",
        "BillingPeriodStart-C-003-M",
    ),
    *("ChargeCategory-C-002-M", "ChargeDescription-C-003-O", "ChargeFrequency-C-002-M"),
    *("ChargePeriodEnd-C-003-M", "ChargePeriodStart-C-003-M", "ContractedCost-C-003-M"),
    *("EffectiveCost-C-003-M", "InvoiceIssuerName-C-003-M", "ListCost-C-003-M"),
    *("ProviderName-C-003-M", "PublisherName-C-003-M", "ServiceCategory-C-002-M"),
    *("ServiceName-C-003-M", "ServiceSubcategory-C-002-M"),
)
IN_USE_AND_PURCHASES = (
    *("ContractedUnitPrice-C-006-C", "ListUnitPrice-C-005-C", "PricingCategory-C-004-C"),
    *("PricingQuantity-C-005-C", "SkuId-C-005-C", "SkuPriceId-C-005-C"),
)
TOGETHER = {
    "BillingAccountType-C-005-C": "BillingAccountId",
    "CommitmentDiscountCategory-C-004-C": "CommitmentDiscountId",
    "CommitmentDiscountName-C-006-C": "CommitmentDiscountId",
    "CommitmentDiscountQuantity-C-005-C": "CommitmentDiscountId",
    "CommitmentDiscountType-C-005-C": "CommitmentDiscountId",
    "CommitmentDiscountUnit-C-006-C": "CommitmentDiscountQuantity",
    "ConsumedUnit-C-006-C": "ConsumedQuantity",
    "PricingUnit-C-006-C": "PricingQuantity",
    "RegionName-C-005-C": "RegionId",
    "ResourceType-C-005-C": "ResourceId",
    "SkuMeter-C-005-C": "SkuId",
    "SubAccountName-C-005-C": "SubAccountId",
    "SubAccountType-C-005-C": "SubAccountId",
}
"""Rule -> the column that its own column is null with."""
ALLOWED = {
    "ChargeCategory-C-003-M": {"Usage", "Purchase"},
    "ChargeClass-C-005-C": set[str](),  # nothing is corrected
    "ChargeFrequency-C-003-M": {"Recurring", "Usage-Based"},
    "CommitmentDiscountCategory-C-005-M": {"Usage"},
    "CommitmentDiscountStatus-C-005-M": {"Used", "Unused"},
    "PricingCategory-C-007-M": {"Standard", "Dynamic", "Committed"},
    "ServiceCategory-C-003-M": {"Compute"},
    "ServiceSubcategory-C-003-M": {"Other (Compute)"},
    "BillingCurrency-C-003-M": {"USD"},
    "PricingCurrency-C-003-M": {"USD"},
}
"""Rule -> the values of its column that a bill of GPUs has."""
HALF = 0.5e-9
"""A digit behind the last one, rounded."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that rows break, and how many do."""

    rule: str
    rows: int


def read_rows(path: Path) -> pl.DataFrame:
    """Read the rows of a CSV file as texts; what is empty is null."""
    return pl.read_csv(path, infer_schema=False)


def broken(rows: pl.DataFrame) -> list[Broken]:
    """Return the rules that rows break; none for rows as they should be."""
    texts = {f"{name}-C-decimal": _other_than(DIGITS, rows[name]) for name in NUMBERS}
    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
    texts |= {f"{name}-C-time": _other_than(stamp, rows[name]) for name in TIMES}
    if any(texts.values()):
        return [Broken(rule, count) for rule, count in texts.items() if count]
    typed = rows.with_columns(pl.col(*NUMBERS).cast(pl.Float64))
    wrong = {rule: typed.filter(is_wrong).height for rule, is_wrong in _of_a_row().items()}
    wrong |= _of_all_rows(typed, rows)
    return [Broken(rule, count) for rule, count in wrong.items() if count]


def _other_than(form: re.Pattern[str], texts: pl.Series) -> int:
    return sum(text is not None and not form.fullmatch(text) for text in texts)


def _column(rule: str) -> pl.Expr:
    return pl.col(rule.partition("-")[0])


def _of_a_row() -> dict[str, pl.Expr]:
    """Return what is true of a row that breaks a rule."""
    category, status = pl.col("ChargeCategory"), pl.col("CommitmentDiscountStatus")
    is_usage, is_purchase = category == "Usage", category == "Purchase"
    pool = pl.col("CommitmentDiscountId").is_not_null()
    is_unused = status.fill_null("") == "Unused"
    is_committed = pl.col("PricingCategory") == "Committed"
    quantity, billed = pl.col("PricingQuantity"), pl.col("BilledCost")
    wrong = {rule: _column(rule).is_null() for rule in NEVER_NULL}
    wrong |= {rule: _column(rule).is_null() for rule in IN_USE_AND_PURCHASES}
    for rule, other in TOGETHER.items():
        wrong[rule] = _column(rule).is_null() != pl.col(other).is_null()
    for rule, values in ALLOWED.items():
        wrong[rule] = _column(rule).is_not_null() & ~_column(rule).is_in(list(values))
    for kind, unit in (("List", "ListUnitPrice"), ("Contracted", "ContractedUnitPrice")):
        room = HALF * (1 + quantity.abs() + pl.col(unit)) + 1e-12 * pl.col(f"{kind}Cost").abs()
        gap = (quantity * pl.col(unit) - pl.col(f"{kind}Cost")).abs()
        wrong[f"{kind}Cost-C-009-C"] = gap > room
        wrong[f"{unit}-C-non-negative"] = pl.col(unit) < 0
    return wrong | {
        "ChargePeriodEnd-C-004-M": pl.col("ChargePeriodEnd") <= pl.col("ChargePeriodStart"),
        "BillingPeriodStart-C-004-M": pl.col("ChargePeriodStart") < pl.col("BillingPeriodStart"),
        "BillingPeriodEnd-C-004-M": pl.col("ChargePeriodEnd") > pl.col("BillingPeriodEnd"),
        "EffectiveCost-C-005-C": is_purchase & (pl.col("EffectiveCost") != 0),
        "DiscountHandling-A-009-C": pool & is_usage & (billed != 0),
        "CommitmentDiscountStatus-C-003-C": ~pool & status.is_not_null(),
        "CommitmentDiscountStatus-C-004-C": pool & is_usage & status.is_null(),
        "DiscountHandling-A-013-C": is_purchase & status.is_not_null(),
        "PricingCategory-C-009-C": is_committed != (pool & is_usage),
        "ConsumedQuantity-C-004-C": (is_purchase | is_unused)
        & pl.col("ConsumedQuantity").is_not_null(),
        "ConsumedQuantity-C-006-C": is_usage & ~is_unused & pl.col("ConsumedQuantity").is_null(),
        "ResourceId-C-004-C": pl.col("ResourceId").is_not_null()
        | pl.col("ResourceName").is_not_null(),
        "SubAccountId-C-005-C": is_usage & ~is_unused & pl.col("SubAccountId").is_null(),
        "SkuPriceDetails-C-006-M": pl.col("SkuPriceDetails").is_not_null(),
        "no empty rows": (quantity == 0) & (pl.col("ListCost") == 0),
    }


def _of_all_rows(typed: pl.DataFrame, rows: pl.DataFrame) -> dict[str, int]:
    """Return how often rows together break a rule."""
    pools = typed.filter(pl.col("CommitmentDiscountId").is_not_null())
    by_pool = pools.group_by("CommitmentDiscountId", "BillingPeriodStart").agg(
        *(
            pl.col(column).filter(pl.col("ChargeCategory") == category).sum().alias(name)
            for category, names in (
                ("Purchase", {"BilledCost": "paid", "CommitmentDiscountQuantity": "bought"}),
                ("Usage", {"EffectiveCost": "spread", "CommitmentDiscountQuantity": "held"}),
            )
            for column, name in names.items()
        ),
        room=HALF * (pl.len() + 1) * 2 + 1e-12 * pl.col("ListCost").abs().sum(),
    )

    def differ(first: str, second: str) -> int:
        return by_pool.filter((pl.col(first) - pl.col(second)).abs() > pl.col("room")).height

    def several(key: str, of: str) -> int:
        counts = rows.drop_nulls(key).group_by(key).agg(pl.col(of).n_unique().alias("kinds"))
        return counts.filter(pl.col("kinds") > 1).height

    return {
        "DiscountHandling-A-011-C": differ("paid", "spread"),
        "CommitmentDiscountQuantity-C-012-C": differ("bought", "held"),
        "CommitmentDiscountUnit-C-008-M": several("CommitmentDiscountId", "CommitmentDiscountUnit"),
        "SkuPriceId-C-012-C": several("SkuPriceId", "SkuId"),
        "SkuPriceId-C-015-C": several("SkuPriceId", "ContractedUnitPrice"),
        "SkuMeter-C-006-O": several("SkuId", "SkuMeter"),
        "Tags-C-003-M": sum(not _is_tags(text) for text in rows["Tags"]),
        "ColumnHandling-A-003-M": sum(
            not re.fullmatch(r"([A-Z][a-z]+)+", name) or len(name) > 50 for name in rows.columns
        ),
        "repeated rows": rows.height - rows.unique().height,
    }


def _is_tags(text: str | None) -> bool:
    """Return whether a text is an object of JSON with texts as values."""
    tags = json.loads(text or "[]")
    return isinstance(tags, dict) and all(isinstance(value, str) for value in tags.values())
