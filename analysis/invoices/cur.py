"""AWS Cost and Usage Report 2.0, and the older one of the same columns: CSV or Parquet.

Effective cost is the amortized one: that of a savings plan or reservation where it covers a row. A
recurring fee becomes two charges: the purchase, which is billed, and what of it was not used, which
is effective. Negations and discounts belong to the usage that they name, without quantity. Source:
AWS Data Exports user guide, CUR 2.0 table dictionary.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.invoices.charges import (
    ADJUSTMENT,
    AMOUNT,
    COMMITTED,
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
from gpuplan.analysis.reading.batch import ROW

ITEM, COST = "line_item_line_item_type", "line_item_unblended_cost"
START, END = "line_item_usage_start_date", "line_item_usage_end_date"
BILLING, BILLING_END = "bill_billing_period_start_date", "bill_billing_period_end_date"
USAGE_TYPE, AMOUNT_USED = "line_item_usage_type", "line_item_usage_amount"
PLAN, RESERVATION = "savings_plan_savings_plan_a_r_n", "reservation_reservation_a_r_n"
PLAN_COST = "savings_plan_savings_plan_effective_cost"
PLAN_TOTAL = "savings_plan_total_commitment_to_date"
PLAN_USED = "savings_plan_used_commitment"
RESERVED_COST = "reservation_effective_cost"
UNUSED_UPFRONT = "reservation_unused_amortized_upfront_fee_for_billing_period"
UNUSED_FEE = "reservation_unused_recurring_fee"
NEEDED = (ITEM, COST, START)
TEXTS = (USAGE_TYPE, "product_instance_type", "product", "line_item_line_item_description")
COLUMNS = (
    *NEEDED,
    *TEXTS,
    END,
    BILLING,
    BILLING_END,
    AMOUNT_USED,
    PLAN,
    RESERVATION,
    PLAN_COST,
    PLAN_TOTAL,
    PLAN_USED,
    RESERVED_COST,
    UNUSED_UPFRONT,
    UNUSED_FEE,
    "pricing_unit",
    "line_item_product_code",
    "product_product_family",
    "line_item_currency_code",
)
DISCOUNTS = (
    "BundledDiscount",
    "Discount",
    "EdpDiscount",
    "PrivateRateDiscount",
    "RiVolumeDiscount",
    "SppDiscount",
)
NEGATION = "SavingsPlanNegation"
FEES = ("SavingsPlanRecurringFee", "RIFee")
"""Line items whose effective cost is what was not used."""
BOUGHT = (*FEES, "SavingsPlanUpfrontFee")
ITEMS = {
    **dict.fromkeys(("Usage", "SavingsPlanCoveredUsage", "DiscountedUsage", NEGATION), USAGE),
    **dict.fromkeys(DISCOUNTS, USAGE),
    **dict.fromkeys(BOUGHT, PURCHASE),
    "Fee": USAGE,
    "Tax": TAX,
    "Credit": CREDIT,
    "Refund": ADJUSTMENT,
}
COVERED = ("SavingsPlanCoveredUsage", "DiscountedUsage", NEGATION)
UNUSED_BOX = r"(^|-)Unused(Box|Ded)"


def cur_charges(cells: InvoiceCells) -> pl.DataFrame:
    """Return the charges of a file in the columns of CUR 2.0. Raises `InputError`."""
    cells.need(*NEEDED)
    kind = cells.word(ITEM, ITEMS)
    cells.need_cells(ITEM, kind, f"one of {', '.join(ITEMS)}")
    periods = cells.periods(START, END, BILLING, BILLING_END)
    item = cells.word(ITEM, {name: name for name in ITEMS})
    usage_type = cells.text(USAGE_TYPE).fill_null("")
    reservation, plan = cells.text(RESERVATION), cells.text(PLAN)
    is_bought = item.is_in(BOUGHT) | ((item == "Fee") & reservation.is_not_null())
    is_covered = item.is_in(COVERED)
    rows = pl.DataFrame(
        {
            "item": item,
            "kind": kind.set(is_bought, PURCHASE),
            "is_unused": usage_type.str.contains(UNUSED_BOX),
            "is_covered": is_covered,
            "is_bought": is_bought,
            "is_spot": usage_type.str.contains("SpotUsage", literal=True),
            "has_hours": item.is_in(("Usage", "SavingsPlanCoveredUsage", "DiscountedUsage")),
            "billed": cells.amount(COST),
            "plan": cells.amount(PLAN_COST),
            "reserved": cells.amount(RESERVED_COST),
            "quantity": cells.amount(AMOUNT_USED),
        }
    ).with_columns(
        pl.when((pl.col("kind") == USAGE) & pl.col("is_unused"))
        .then(pl.lit(UNUSED_CAPACITY))
        .otherwise("kind")
        .alias("kind"),
        pl.when(pl.col("is_bought") | (pl.col("item") == NEGATION))
        .then(_zero())
        .when(pl.col("item") == "SavingsPlanCoveredUsage")
        .then("plan")
        .when(pl.col("item") == "DiscountedUsage")
        .then("reserved")
        .otherwise("billed")
        .alias("effective"),
        pl.when("has_hours").then("quantity").otherwise(_zero()).alias("quantity"),
        pl.when("is_covered")
        .then(pl.lit(COMMITTED))
        .when("is_spot")
        .then(pl.lit(DYNAMIC))
        .otherwise(pl.lit(STANDARD))
        .alias("pricing"),
    )
    commitment = plan.zip_with(plan.is_not_null(), reservation)
    charges = cells.frame(
        {
            **{name: rows[name] for name in ("kind", "billed", "effective", "quantity", "pricing")},
            **periods,
            "unit": cells.text("pricing_unit").fill_null("Hrs"),
            "commitment": commitment,
            "sku": cells.text(USAGE_TYPE),
            "service": cells.text("line_item_product_code"),
            "service_category": cells.text("product_product_family"),
            "texts": cells.select_texts(TEXTS),
            "details": cells.text("product"),
            "currency": cells.text("line_item_currency_code"),
        }
    )
    return pl.concat([charges, _unused(cells, charges, item)])


def _unused(cells: InvoiceCells, charges: pl.DataFrame, item: pl.Series) -> pl.DataFrame:
    """Return what of recurring fees was not used, as charges that are effective alone."""
    total, used, upfront, fee = (
        cells.amount(name).fill_null(0)
        for name in (PLAN_TOTAL, PLAN_USED, UNUSED_UPFRONT, UNUSED_FEE)
    )
    unused = (total - used).zip_with(item == FEES[0], upfront + fee).cast(AMOUNT)
    return (
        charges.with_columns(
            pl.lit(UNUSED).alias("kind"),
            _zero().alias("billed"),
            unused.alias("effective"),
            pl.lit(None).cast(AMOUNT).alias("quantity"),
        )
        .filter(item.is_in(FEES) & (unused != 0))
        .select(ROW, *charges.columns[1:])
    )


def _zero() -> pl.Expr:
    return pl.lit(0).cast(AMOUNT)


CUR = InvoiceFormat.of_columns(
    "aws-cur",
    description="AWS Cost and Usage Report 2.0, CSV or Parquet; amortized",
    source="AWS Data Exports",
    columns=COLUMNS,
    needed=NEEDED,
    charges=cur_charges,
)
