"""The charges of an invoice, added up by month, GPU type and charge period, exact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date
from fractions import Fraction

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.invoices.charges import (
    BELOW,
    COMMITTED,
    DYNAMIC,
    UNUSED,
    USAGE,
    Invoice,
)
from gpuplan.analysis.invoices.gpu_skus import Sku, gpus_of
from gpuplan.analysis.prices.contracts import ON_DEMAND, Contracts
from gpuplan.planner.money.held_runs import midnight_us

SPOT = "spot"
NO_NAME = "(none)"
SKU = ("sku", "service_category", "texts", "details", "unit")
PLACE = "sku_place"


@dataclass(frozen=True, slots=True)
class Charge:
    """Charges of one month, kind, GPU type or SKU, market, price and period.

    Attributes:
        month: of the billing period, ``2026-01``.
        kind: as `gpuplan.analysis.invoices.charges` has it.
        gpu_type: None for what is of no GPUs.
        name: the GPU type, the SKU or the service; empty for what stands below the charges.
        begin_us, end_us: the charge period.
        market: ``committed``, ``on_demand``, ``spot`` or ``marketplace``.
        commitment: id of the commitment; empty without one.
        unit_usd: stated price of a GPU-hour; None without one.
        rows: that are added up.
        gpu_h: GPU-hours; 0 for what is of no GPUs.
        billed, effective: dollars.
    """

    month: str
    kind: str
    gpu_type: str | None
    name: str
    begin_us: int
    end_us: int
    market: str
    commitment: str
    unit_usd: Fraction | None
    rows: int
    gpu_h: Fraction
    billed: Fraction
    effective: Fraction


def invoice_charges(
    invoice: Invoice, types: Sequence[str], named: Mapping[str, str], book: Contracts
) -> tuple[Charge, ...]:
    """Return the charges of an invoice, added up.

    Args:
        invoice: as read.
        types: GPU types of the log and of the price book.
        named: SKU -> type, as the user says.
        book: has the kinds of prices that are not on demand.

    Raises:
        UsageError: a SKU that the user names is not on the invoice.
    """
    _check_named(invoice, named)
    rows = invoice.charges.with_columns(
        pl.when(pl.col("kind").is_in([USAGE, UNUSED])).then("unit").alias("unit"),
        pl.coalesce("sku", "commitment", "service").fill_null(NO_NAME).alias("name"),
        pl.col("commitment").fill_null(""),
    )
    skus = rows.select(SKU).unique(maintain_order=True).with_row_index(PLACE)
    rows = rows.join(skus, on=SKU, how="left", nulls_equal=True, maintain_order="left")
    types_of_skus = {sku.lower(): gpu_type for sku, gpu_type in named.items()}
    gpus = [gpus_of(Sku(**row), types, types_of_skus) for row in skus.drop(PLACE).rows(named=True)]
    keys = ("month", "kind", PLACE, "name", "begin_us", "end_us", "pricing", "commitment")
    summed = rows.group_by(*keys, "unit_usd", maintain_order=True).agg(
        pl.col("billed", "effective").sum(),
        pl.col("quantity").fill_null(pl.lit(0).cast(pl.Decimal(38, 18))).sum(),
        pl.len().alias("rows"),
    )
    charges: dict[tuple[object, ...], Charge] = {}
    for row in summed.rows(named=True):
        sku = gpus[row[PLACE]] if row["kind"] not in BELOW else None
        per_unit = sku.gpu_h if sku else Fraction(0)
        gpu_type = sku.gpu_type if sku else None
        unit_usd = row["unit_usd"]
        name = "" if row["kind"] in BELOW else gpu_type or row["name"]
        charge = Charge(
            month=row["month"],
            kind=row["kind"],
            gpu_type=gpu_type,
            name=name,
            begin_us=row["begin_us"],
            end_us=row["end_us"],
            market=_market(row["pricing"], row["kind"], gpu_type, book),
            commitment=row["commitment"],
            unit_usd=Fraction(unit_usd) / per_unit if sku and unit_usd is not None else None,
            rows=row["rows"],
            gpu_h=Fraction(row["quantity"]) * per_unit,
            billed=Fraction(row["billed"]),
            effective=Fraction(row["effective"]),
        )
        _add(charges, charge)
    return _with_types_of_commitments(charges.values())


def _add(charges: dict[tuple[object, ...], Charge], charge: Charge) -> None:
    """Add a charge to the one of the same month, kind, name, period, market and price."""
    key = (
        charge.month,
        charge.kind,
        charge.name,
        charge.begin_us,
        charge.end_us,
        charge.market,
        charge.commitment,
        charge.unit_usd,
    )
    other = charges.get(key)
    charges[key] = (
        charge
        if other is None
        else replace(
            other,
            rows=other.rows + charge.rows,
            gpu_h=other.gpu_h + charge.gpu_h,
            billed=other.billed + charge.billed,
            effective=other.effective + charge.effective,
        )
    )


def _market(pricing: str | None, kind: str, gpu_type: str | None, book: Contracts) -> str:
    """Return the market of a charge; dynamic prices are of the kind that the book has, or spot."""
    if pricing == COMMITTED or kind == UNUSED:
        return COMMITTED
    if pricing != DYNAMIC:
        return ON_DEMAND
    kinds = {p.kind for p in book.prices if p.gpu_type == gpu_type} - {ON_DEMAND}
    return kinds.pop() if len(kinds) == 1 else SPOT


def _check_named(invoice: Invoice, named: Mapping[str, str]) -> None:
    skus = [sku for sku in invoice.charges["sku"].unique().to_list() if sku]
    lower = {sku.lower() for sku in skus}
    for sku, gpu_type in named.items():
        if sku.lower() not in lower:
            raise UsageError(
                f"--sku {sku}={gpu_type}: no SkuId {sku!r} on the invoice{perhaps(sku, skus)}"
            )


def _with_types_of_commitments(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return charges in which a commitment that covers one GPU type alone is of this type."""
    charges = tuple(charges)
    covered: dict[str, set[str | None]] = defaultdict(set)
    for charge in charges:
        if charge.commitment and charge.kind == USAGE:
            covered[charge.commitment].add(charge.gpu_type)
    typed = []
    for charge in charges:
        types = covered.get(charge.commitment, set())
        if charge.gpu_type is None and len(types) == 1 and charge.kind not in (USAGE, *BELOW):
            (gpu_type,) = types
            if gpu_type is not None:
                typed.append(replace(charge, gpu_type=gpu_type, name=gpu_type))
                continue
        typed.append(charge)
    return tuple(typed)


def billing_months(invoice: Invoice) -> dict[str, tuple[int, int]]:
    """Return month -> begin and end of its billing period; one without an end has a month."""
    ends = {}
    months = invoice.charges.group_by("month").agg(
        pl.col("month_begin_us").min().alias("begin"), pl.col("month_end_us").max().alias("end")
    )
    for month, begin, end in sorted(months.rows()):
        year, number = map(int, month.split("-"))
        following = midnight_us(date(year + number // 12, number % 12 + 1, 1), UTC)
        ends[month] = (begin, max(begin, following if end is None else end))
    return ends
