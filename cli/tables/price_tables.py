"""The tables of the price view: offers, availability, who is cheapest, and bills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_count, show_number, show_share, show_usd

if TYPE_CHECKING:
    from gpuplan.analysis.prices.offers import Offer
    from gpuplan.analysis.prices.supply import Supply
    from gpuplan.analysis.prices.view import Cheapest, PriceView
    from gpuplan.planner.money.trace_bill import TraceCost

MAX_LEADERS = 4
MAX_SUPPLIES = 20
SOURCE = (Column("gpu_type", "GPU"), Column("provider", "provider"), Column("kind", "kind"))


def bill_tables(cost: TraceCost, view: PriceView) -> Iterator[Table]:
    """Yield what a trace would have cost, and what the sources of its GPUs ask."""
    used = {bill.gpu_type for bill in cost.bills} or None
    if cost.bills:
        yield cost_table(cost, view)
    yield from market_tables(view, used)


def show_price(value: float) -> str:
    """Return US dollars per GPU-hour: cents, and tenths of them below a dollar."""
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def market_tables(market: PriceView, gpus: Collection[str] | None = None) -> Iterator[Table]:
    """Yield tables of offers, availability and the cheapest sources, for all GPUs or for some."""
    offers = [one for one in market.offers if gpus is None or one.gpu_type in gpus]
    if offers:
        yield _offers(offers)
    if any(one.available or (one.listed_share or 1) < 1 for one in offers):
        yield _availability(offers)
    shown = [one for one in market.supply if _has_dynamics(one, market, gpus)]
    if shown:
        yield _supply(shown)
    choice = Counter(one.gpu_type for one in offers)
    leading = [one for one in market.cheapest if choice[one.gpu_type] > 1]
    if leading:
        yield _cheapest(leading)


def cost_table(cost: TraceCost, market: PriceView) -> Table:
    """Return the cost of a trace, for each GPU type the cheapest hour by hour first.

    Prices without hours have the lowest of their range in its place.
    """
    first = ("cheapest", "each hour") if market.hourly else ("lowest", "listed")
    columns = (
        *SOURCE,
        Column("gpu_hours", "GPU-hours", show_number),
        Column("cost_usd", "cost", show_usd),
        Column("lowest_usd", "at its lowest", show_usd),
        Column("saving", "saving", show_share),
        Column("hourly_share", "by the hour", show_share),
    )
    rows: list[tuple[object, ...]] = []
    for least in cost.cheapest:
        name = (*first, least.gpu_hours, None, least.cost_usd)
        rows.append((least.wanted_gpu, *name, None, least.hourly_share))
        rows += [
            (
                *(bill.gpu_type, bill.provider, _words(bill.kind), bill.gpu_hours),
                *(bill.cost_usd, bill.lowest_usd, bill.saving, bill.hourly_share),
            )
            for bill in cost.bills
            if bill.wanted_gpu == least.wanted_gpu
        ]
    return Table("What the trace would have cost (US dollars)", columns, rows)


def _offers(offers: Sequence[Offer]) -> Table:
    dated = any(one.listed_share is not None for one in offers)
    saved = any(one.saving is not None for one in offers)
    aged = any(one.age_days for one in offers)
    columns = (
        *SOURCE,
        Column("median_usd_per_gpu_h", "median", show_price),
        Column("", "min-max"),
        Column("least_usd_per_gpu_h", ""),
        Column("most_usd_per_gpu_h", ""),
        Column("", "P25-P75" if dated else ""),
        Column("p25_usd_per_gpu_h", ""),
        Column("p75_usd_per_gpu_h", ""),
        Column("mean_usd_per_gpu_h", "mean" if dated else "", show_price),
        Column("daily_volatility", "day vol." if dated else "", show_share),
        Column("saving", "saving" if saved else "", show_share),
        Column("age_days", "age (d)" if aged else "", show_count),
        Column("begins_after_days", "", show_count),
    )
    rows = [
        (
            *(one.gpu_type, one.provider, _words(one.kind), one.median),
            *(_range(one.least, one.most), one.least, one.most),
            *(_range(one.p25, one.p75), one.p25, one.p75),
            *(one.mean, one.daily_volatility, one.saving),
            *(one.age_days, one.begins_after_days),
        )
        for one in offers
    ]
    return Table("Prices (US dollars per GPU-hour)", columns, rows)


def _range(low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    same = show_price(low) == show_price(high)
    return show_price(low) if same else f"{show_price(low)}-{show_price(high)}"


def _availability(offers: Sequence[Offer]) -> Table:
    counted = any(one.available for one in offers)
    columns = (
        *SOURCE,
        Column("listed_share", "listed", show_share),
        Column("mean_available", "mean" if counted else "", show_number),
        Column("least_available", "min" if counted else "", show_count),
        Column("most_available", "max" if counted else "", show_count),
        Column("none_share", "none left" if counted else "", show_share),
    )
    rows = []
    for one in offers:
        has = one.available
        known = (None,) * 4 if has is None else (has.mean, has.least, has.most, has.none_share)
        rows.append((one.gpu_type, one.provider, _words(one.kind), one.listed_share, *known))
    return Table("Availability (listed: share of the hours in which it has a price)", columns, rows)


def _has_dynamics(one: Supply, market: PriceView, gpus: Collection[str] | None) -> bool:
    """Return whether to show availability: if it changes, or if nothing else is known."""
    from gpuplan.analysis.job_table.gpu_names import same_gpu

    if gpus is not None and not any(same_gpu(gpu, one.gpu_type) for gpu in gpus):
        return False
    sources = {(offer.provider, offer.gpu_type, offer.kind) for offer in market.offers}
    is_priced = (one.provider, one.gpu_type, one.kind) in sources
    return one.available_share < 1 or not is_priced


def _supply(shown: Sequence[Supply]) -> Table:
    columns = (
        *SOURCE,
        Column("region", "region"),
        Column("known_days", "known (d)", show_number),
        Column("mean", "mean", show_number),
        Column("available_share", "of time", show_share),
        Column("transitions_per_day", "changes/day", show_number),
        Column("median_available_h", "stays (h)", show_number),
        Column("median_unavailable_h", "away (h)", show_number),
    )
    rows = [
        (
            *(one.gpu_type, one.provider, _words(one.kind), one.region),
            *(one.known_days, one.mean, one.available_share, one.transitions_per_day),
            *(one.median_available_h, one.median_unavailable_h),
        )
        for one in sorted(shown, key=lambda one: -one.known_days)[:MAX_SUPPLIES]
    ]
    rest = len(shown) - len(rows)
    title = "How it comes and goes (stays, away: median stretch with and without any available)"
    return Table(title + (f"; {rest} shorter left out" if rest else ""), columns, rows)


def _cheapest(leading: Sequence[Cheapest]) -> Table:
    columns = (
        *SOURCE,
        Column("share_hours", "of hours", show_share),
        Column("mean_usd_per_gpu_h", "mean of the cheapest", show_price),
    )
    rows: list[tuple[object, ...]] = []
    for one in leading:
        for number, (provider, kind, share) in enumerate(one.shares[:MAX_LEADERS]):
            price = one.mean_usd_per_gpu_h if number == 0 else None
            rows.append((one.gpu_type, provider, _words(kind), share, price))
        if len(one.shares) > MAX_LEADERS:
            others = len(one.shares) - MAX_LEADERS
            name = "1 other" if others == 1 else f"{others} others"
            share = sum(share for *_, share in one.shares[MAX_LEADERS:])
            rows.append((one.gpu_type, name, "", share, None))
    return Table("The cheapest source over time", columns, rows)


def _words(kind: str) -> str:
    return kind.replace("_", "-")
