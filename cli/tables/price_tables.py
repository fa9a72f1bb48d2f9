"""The tables of the price view: offers, availability, who is cheapest, and bills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.cli.formats.report import Column, Table, table, value_of
from gpuplan.cli.formats.units import show_count

if TYPE_CHECKING:
    from datetime import datetime

    from gpuplan.analysis.prices.offers import Offer
    from gpuplan.analysis.prices.supply import Supply
    from gpuplan.analysis.prices.view import Cheapest, PriceView
    from gpuplan.planner.money.trace_bill import SourceBill, TraceCost

MAX_LEADERS = 4
MAX_SUPPLIES = 20


def _kind(row: Any) -> str:
    kind: str = value_of(row, "kind")
    return kind.replace("_", "-")


SOURCE = (
    Column("gpu_type", "GPU"),
    Column("provider", "provider"),
    Column("kind", "kind", read=_kind),
)


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
    offers = [offer for offer in market.offers if gpus is None or offer.gpu_type in gpus]
    if offers:
        yield _offers(offers)
    if any(offer.available or (offer.listed_share or 1) < 1 for offer in offers):
        yield _availability(offers)
    supplies = [supply for supply in market.supply if _has_dynamics(supply, market, gpus)]
    if supplies:
        yield _supply(supplies)
    choice = Counter(offer.gpu_type for offer in offers)
    leading = [cheapest for cheapest in market.cheapest if choice[cheapest.gpu_type] > 1]
    if leading:
        yield _cheapest(leading)


def cost_table(cost: TraceCost, market: PriceView) -> Table:
    """Return the cost of a trace, for each GPU type the cheapest hour by hour first.

    Prices without hours have the lowest of their range in its place.
    """
    first = ("cheapest", "each hour") if market.hourly else ("lowest", "listed")
    rows: list[SourceBill | dict[str, Any]] = []
    for least in cost.cheapest_each_hour:
        named = {"gpu_type": least.wanted_gpu, "provider": first[0], "kind": first[1]}
        rows.append({**fields_of(least), **named})
        rows += [bill for bill in cost.bills if bill.wanted_gpu == least.wanted_gpu]
    return table(
        "What the trace would have cost (US dollars)",
        rows,
        *SOURCE,
        {
            "gpu_hours": "GPU-hours",
            "cost_usd": "cost",
            "lowest_usd": "at its lowest",
            "saving": "saving",
            "hourly_share": "by the hour",
        },
    )


def _offers(offers: Sequence[Offer]) -> Table:
    dated = any(offer.listed_share is not None for offer in offers)
    saved = any(offer.saving is not None for offer in offers)
    aged = any(offer.age_days for offer in offers)
    ends = {until for until in map(_mean_until, offers) if until}
    until = f"; means in time until {min(ends)}" if len(ends) == 1 else ""
    quartiles = _quartiles_header(offers) if dated else ""

    def usd(name: str, header: str = "") -> Column:
        return Column(f"{name}_usd_per_gpu_h", header, show_price)

    return table(
        f"Prices (US dollars per GPU-hour{until})",
        offers,
        *SOURCE,
        usd("latest", "latest"),
        Column("", "since" if ends else "", read=lambda offer: _date(offer.latest_from)),
        usd("median"),
        Column("", "min-max", read=lambda offer: _range(offer, "least", "most")),
        usd("least"),
        usd("most"),
        Column("", quartiles, read=lambda offer: _range(offer, "p25", "p75")),
        usd("p25"),
        usd("p75"),
        usd("mean"),
        usd("period_mean", "mean in time" if ends else ""),
        Column("", "mean until" if len(ends) > 1 else "", read=_mean_until),
        {"daily_volatility": "day vol." if dated else "", "saving": "saving" if saved else ""},
        Column("age_days", "age (d)" if aged else "", show_count),
        {"begins_after_days": ""},
    )


def has_changed(offer: Offer) -> bool:
    """Return whether the price of a source was another one before; a list has no history."""
    is_dated = offer.first is not None and offer.first != offer.period_end
    return is_dated and offer.least_usd_per_gpu_h != offer.most_usd_per_gpu_h


def _quartiles_header(offers: Sequence[Offer]) -> str:
    """Return what quartiles are called: they are of the rows of snapshots, and by time else."""
    kinds = {offer.sampling for offer in offers if offer.p25_usd_per_gpu_h is not None}
    of = {"snapshot": "of rows", "change": "in time"}
    return f"P25-P75 {' or '.join(of[kind] for kind in sorted(kinds, reverse=True))}"


def snapshot_note(offers: Sequence[Offer]) -> tuple[str, ...]:
    """Return until when prices of snapshots count, where that is after their last row."""
    later = [
        offer
        for offer in offers
        if offer.sampling == "snapshot" and has_changed(offer) and _is_after_last(offer)
    ]
    if not later:
        return ()
    names = listed(list(dict.fromkeys(offer.gpu_type for offer in later)), 6)
    return (
        f"the last price of {names} is taken to hold after its row, as rows are read as snapshots; "
        "where each row is a change that holds until the next one, --sampling change",
    )


def _is_after_last(offer: Offer) -> bool:
    return offer.last is not None and offer.period_end is not None and offer.period_end > offer.last


def _mean_until(offer: Offer) -> str | None:
    return _date(offer.period_end) if has_changed(offer) else None


def _date(at: datetime | None) -> str | None:
    return None if at is None else f"{at:%Y-%m-%d}"


def _range(offer: Offer, *names: str) -> str | None:
    low, high = (getattr(offer, f"{name}_usd_per_gpu_h") for name in names)
    if low is None or high is None:
        return None
    same = show_price(low) == show_price(high)
    return show_price(low) if same else f"{show_price(low)}-{show_price(high)}"


def _availability(offers: Sequence[Offer]) -> Table:
    counted = any(offer.available for offer in offers)

    def available(name: str, key: str, header: str) -> Column:
        read = partial(value_of, path=f"available.{name}")
        return Column(key, header if counted else "", read=read)

    return table(
        "Availability (listed: share of the hours in which it has a price)",
        offers,
        *SOURCE,
        {"listed_share": "listed"},
        available("mean", "mean_available", "mean"),
        available("least", "least_available", "min"),
        available("most", "most_available", "max"),
        available("none_share", "none_share", "none left"),
    )


def _has_dynamics(supply: Supply, market: PriceView, gpus: Collection[str] | None) -> bool:
    """Return whether to show availability: if it changes, or if nothing else is known."""
    if gpus is not None and not any(same_gpu(gpu, supply.gpu_type) for gpu in gpus):
        return False
    sources = {(offer.provider, offer.gpu_type, offer.kind) for offer in market.offers}
    is_priced = (supply.provider, supply.gpu_type, supply.kind) in sources
    return supply.available_share < 1 or not is_priced


def _supply(supplies: Sequence[Supply]) -> Table:
    longest = sorted(supplies, key=lambda supply: -supply.known_days)[:MAX_SUPPLIES]
    rest = len(supplies) - len(longest)
    title = "How it comes and goes (stays, away: median stretch with and without any available)"
    return table(
        title + (f"; {rest} shorter left out" if rest else ""),
        longest,
        *SOURCE,
        {
            "region": "region",
            "known_days": "known (d)",
            "mean": "mean",
            "available_share": "of time",
            "transitions_per_day": "changes/day",
            "median_available_h": "stays (h)",
            "median_unavailable_h": "away (h)",
        },
    )


def _cheapest(leading: Sequence[Cheapest]) -> Table:
    rows: list[dict[str, Any]] = []
    for cheapest in leading:
        named = {"gpu_type": cheapest.gpu_type}
        mean = {"mean_usd_per_gpu_h": cheapest.mean_usd_per_gpu_h}
        for share in cheapest.shares[:MAX_LEADERS]:
            rows.append({**named, **fields_of(share), **mean})
            mean = {}
        if other_shares := cheapest.shares[MAX_LEADERS:]:
            name = "1 other" if len(other_shares) == 1 else f"{len(other_shares)} others"
            share_hours = sum(share.share_hours for share in other_shares)
            rows.append({**named, "provider": name, "kind": "", "share_hours": share_hours})
    return table(
        "The cheapest source over time",
        rows,
        *SOURCE,
        {"share_hours": "of hours"},
        Column("mean_usd_per_gpu_h", "mean of the cheapest", show_price),
    )
