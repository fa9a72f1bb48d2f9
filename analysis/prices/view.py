"""The price view: what sources ask, who is cheapest when, and what a trace would have cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.price_formats.schema import KIND_WORDS, KINDS
from gpuplan.analysis.prices.book import PriceBook, read_prices
from gpuplan.analysis.prices.catalogue import AS_OF, SOURCE
from gpuplan.analysis.prices.cheapest import Cheapest, cheapest_sources
from gpuplan.analysis.prices.cost import (
    CheapestBill,
    HourlyDemand,
    SourceBill,
    bills,
    cheapest_bill,
    demands,
)
from gpuplan.analysis.prices.hourly import HourlyPrices, common_means, hourly_prices
from gpuplan.analysis.prices.offers import STALE_DAYS, Offer, listed_offers, offers_of
from gpuplan.analysis.prices.supply import Supply, supplies
from gpuplan.analysis.trace import Trace

BUILT_IN = "builtin"
MAX_NAMES_TOLD = 6


@dataclass(frozen=True, slots=True)
class PriceView:
    """What is asked for GPUs.

    Attributes:
        source: name of the file, or `BUILT_IN`.
        offers: every source of GPUs, in order of GPU, provider and kind.
        hourly: their prices by the hour; none where they are a list.
        cheapest: who leads, per GPU; none where they are a list.
        supply: how each GPU of each region comes and goes; none where that is not recorded.
        references: GPU -> ``provider:kind`` that savings are counted against.
        notes: where the prices are old, or gpuplan's own.
    """

    source: str
    offers: tuple[Offer, ...]
    hourly: tuple[HourlyPrices, ...]
    cheapest: tuple[Cheapest, ...]
    supply: tuple[Supply, ...]
    references: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TraceCost:
    """What a trace would have cost, by GPU type.

    Attributes:
        bills: one per GPU type of the jobs and source that has it, the cheapest first.
        cheapest: one per GPU type that somebody has.
        unpriced_gpu_hours: GPU-hours of a GPU that nobody has, or that is not known.
        notes: what a reader should know.
    """

    bills: tuple[SourceBill, ...]
    cheapest: tuple[CheapestBill, ...]
    unpriced_gpu_hours: float
    notes: tuple[str, ...]


def market(
    book: PriceBook | None, *, reference: str | None = None, as_of: datetime | None = None
) -> PriceView:
    """Return what the sources of a book, or of the built-in list where it is None, ask.

    Args:
        book: the prices.
        reference: ``provider:kind`` to count savings against; None takes the dearest on-demand
            source of each GPU.
        as_of: when the prices are used, to tell those that are old.

    Raises:
        UsageError: ``reference`` is no source of the prices.
    """
    hourly: tuple[HourlyPrices, ...] = ()
    if book is None:
        offers = listed_offers(as_of)
        source, notes = BUILT_IN, [f"built-in prices: {SOURCE}, as of {AS_OF:%Y-%m-%d}"]
    else:
        hourly = hourly_prices(book)
        offers = offers_of(book, hourly, as_of)
        source, notes = str(book.path), []
    name = None if reference is None else _reference(reference, offers)
    chosen = {
        gpu: found
        for gpu in dict.fromkeys(offer.gpu_type for offer in offers)
        if (found := _reference_of(gpu, offers, name)) is not None
    }
    saved = tuple(_with_saving(offer, chosen.get(offer.gpu_type), hourly) for offer in offers)
    return PriceView(
        source=source,
        offers=saved,
        hourly=hourly,
        cheapest=cheapest_sources(hourly),
        supply=() if book is None else supplies(book),
        references={gpu: offer.name for gpu, offer in chosen.items()},
        notes=(*notes, *_age_notes(offers, as_of), *_apart_notes(saved, chosen)),
    )


def read_market(
    prices: str, *, reference: str | None = None, as_of: datetime | None = None
) -> tuple[PriceView, PriceBook | None]:
    """Return the market of a file, or of the built-in list for the word ``builtin``.

    Raises as `market` and `read_prices`.
    """
    book = None if prices == BUILT_IN else read_prices(Path(prices))
    return market(book, reference=reference, as_of=as_of), book


def trace_cost(
    trace: Trace, market: PriceView, *, gpu: str | None = None, include_running: bool = False
) -> TraceCost:
    """Return what a trace would have cost at every source.

    Args:
        trace: read with at least the columns `cost.COLUMNS`.
        market: the prices.
        gpu: the GPU of jobs that name none; None takes the only one of the prices, if it is.
        include_running: count jobs still running with the time they have run so far.

    Raises:
        UsageError: no source has the GPU chosen.
    """
    offered = tuple(dict.fromkeys(offer.gpu_type for offer in market.offers))
    wanted = _chosen(gpu, offered)
    found: list[SourceBill] = []
    cheapest: list[CheapestBill] = []
    notes: list[str] = []
    unpriced = 0.0
    for demand in demands(trace, wanted, include_running=include_running):
        mine = () if demand.gpu_type is None else bills(demand, market.offers, market.hourly)
        if not mine:
            unpriced += demand.gpu_hours
            notes.append(_unpriced(demand, offered))
            continue
        least = cheapest_bill(demand, market.offers, market.hourly)
        assert least is not None
        found += _with_savings(mine, market)
        cheapest.append(least)
        notes += _bill_notes(trace, market, mine, least)
    return TraceCost(tuple(found), tuple(cheapest), unpriced, tuple(dict.fromkeys(notes)))


def _reference(text: str, offers: Sequence[Offer]) -> str:
    """Return a reference as ``provider:kind`` of the prices. Raises `UsageError`."""
    provider, colon, word = text.rpartition(":")
    kind = KIND_WORDS.get(word.strip().lower())
    names = sorted({offer.name for offer in offers})
    if not colon or kind is None:
        kinds = ", ".join(KINDS)
        raise UsageError(f"--reference {text}: expected provider:kind, the kind one of {kinds}")
    if f"{provider.strip()}:{kind}" not in names:
        raise UsageError(
            f"--reference {text}: no such prices; there are {', '.join(names) or 'none'}"
        )
    return f"{provider.strip()}:{kind}"


def _reference_of(gpu: str, offers: Sequence[Offer], name: str | None) -> Offer | None:
    if name is not None:
        known = [o for o in offers if o.gpu_type == gpu and o.name == name and o.mean is not None]
        return known[0] if known else None
    known = [o for o in offers if o.gpu_type == gpu and o.kind == "on_demand" and o.mean]
    return max(known, key=lambda offer: offer.mean or 0.0, default=None)


def _with_saving(offer: Offer, reference: Offer | None, hourly: Sequence[HourlyPrices]) -> Offer:
    if reference is None or offer.mean is None or not reference.mean:
        return offer
    mean, full = offer.mean, reference.mean
    if hourly:  # prices of different times say nothing of each other
        of = {(one.provider, one.gpu_type, one.kind): one for one in hourly}
        common = common_means(*(of[o.provider, o.gpu_type, o.kind] for o in (offer, reference)))
        if common is None:
            return offer
        mean, full = common
    return replace(offer, saving=1 - mean / full)


def _with_savings(mine: Sequence[SourceBill], market: PriceView) -> Iterator[SourceBill]:
    by_source = {(bill.gpu_type, f"{bill.provider}:{bill.kind}"): bill.cost_usd for bill in mine}
    apart = {(o.gpu_type, o.provider, o.kind) for o in market.offers if o.saving is None}
    for bill in mine:
        full = by_source.get((bill.gpu_type, market.references.get(bill.gpu_type, "")))
        if (
            full
            and bill.cost_usd is not None
            and (bill.gpu_type, bill.provider, bill.kind) not in apart
        ):
            yield replace(bill, saving=1 - bill.cost_usd / full)
        else:
            yield bill


def _chosen(gpu: str | None, offered: Sequence[str]) -> str | None:
    if gpu is None:
        return offered[0] if len(offered) == 1 else None
    name = gpu_name(gpu)
    if not any(same_gpu(name, one) for one in offered):
        hint = "--gpu with one of them" if offered else "give a table with prices, or builtin"
        raise UsageError(
            f"--gpu {gpu}: the prices have none of it, only "
            f"{', '.join(offered) or 'availability'}\n  next: {hint}"
        )
    return name


def _age_notes(offers: Sequence[Offer], as_of: datetime | None) -> Iterator[str]:
    if as_of is None:
        return
    stale = [offer for offer in offers if offer.is_stale]
    if stale:
        ages = _span([offer.age_days or 0.0 for offer in stale])
        yield (
            f"stale prices: {len(stale)} of {len(offers)} end {ages} days before "
            f"{as_of:%Y-%m-%d}, more than {STALE_DAYS:.0f}: {_names(stale)}"
        )
    later = [offer for offer in offers if offer.begins_after_days]
    if later:
        days = _span([offer.begins_after_days or 0.0 for offer in later])
        yield (
            f"later prices: {len(later)} of {len(offers)} begin {days} days after "
            f"{as_of:%Y-%m-%d}: {_names(later)}"
        )


def _apart_notes(offers: Sequence[Offer], references: dict[str, Offer]) -> Iterator[str]:
    apart = [o for o in offers if o.saving is None and o.mean and o.gpu_type in references]
    if apart:
        yield (
            f"no saving is told of {len(apart)} of {len(offers)} offers: they have no price in an "
            f"hour in which the reference of their GPU has one: {_names(apart)}"
        )


def _span(days: Sequence[float]) -> str:
    least, most = f"{min(days):,.0f}", f"{max(days):,.0f}"
    return least if least == most else f"{least} to {most}"


def _names(offers: Sequence[Offer]) -> str:
    names = list(dict.fromkeys(offer.name for offer in offers))
    return ", ".join(names[:MAX_NAMES_TOLD]) + (", ..." if len(names) > MAX_NAMES_TOLD else "")


def _unpriced(demand: HourlyDemand, offered: Sequence[str]) -> str:
    some = ", ".join(offered[:MAX_NAMES_TOLD]) + (", ..." if len(offered) > MAX_NAMES_TOLD else "")
    if not offered:
        return (
            f"the table has availability without prices, so {demand.gpu_hours:,.0f} GPU-hours are "
            "not billed"
        )
    if demand.gpu_type is None:
        return (
            f"{demand.jobs:,} jobs do not name their GPU, so nothing says what they would have "
            f"cost; choose one of the prices' with --gpu: {some}"
        )
    return f"no prices of {demand.gpu_type} ({demand.gpu_hours:,.0f} GPU-hours), only of {some}"


def _bill_notes(
    trace: Trace, market: PriceView, mine: Sequence[SourceBill], least: CheapestBill
) -> Iterator[str]:
    if trace.provenance.relative_time:
        yield "the trace has no calendar: it is billed at the mean price of each source"
    elif not market.hourly:
        yield "the prices have no history: the trace is billed at one price throughout"
    elif least.hourly_share < 1:
        yield (
            f"{1 - least.hourly_share:.0%} of the GPU-hours of {least.wanted_gpu} lie outside of "
            "the prices' time: they are billed at the mean price of each source"
        )
    others = sorted({bill.gpu_type for bill in mine} - {least.wanted_gpu})
    if others:
        yield f"jobs on {least.wanted_gpu} are billed at the prices of {', '.join(others)} too"
