"""The price view: what sources ask, and who is cheapest when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import EPOCH
from gpuplan.analysis.price_formats.schema import KIND_WORDS, KINDS
from gpuplan.analysis.prices.catalogue import AS_OF, BUILT_IN, SOURCE
from gpuplan.analysis.prices.hourly import HourlyPrices, common_means, hourly_prices
from gpuplan.analysis.prices.offers import Offer, listed_offers, offers_of
from gpuplan.analysis.prices.price_table import PriceTable, read_prices
from gpuplan.analysis.prices.supply import Supply, supplies

MAX_NAMES_LISTED = 6


@dataclass(frozen=True, slots=True)
class Lead:
    """A stretch of hours in which one source is the cheapest of those that have a price.

    Attributes:
        start, end: the stretch.
        provider, kind: the source.
        mean_usd_per_gpu_h: its lowest price, mean of these hours.
    """

    start: datetime
    end: datetime
    provider: str
    kind: str
    mean_usd_per_gpu_h: float


@dataclass(frozen=True, slots=True)
class LeadShare:
    """How long a source is the cheapest of its GPU.

    Attributes:
        provider: who rents it.
        kind: of renting.
        share_hours: share of the hours in which it is the cheapest.
    """

    provider: str
    kind: str
    share_hours: float


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest sources of one GPU over time, by their lowest price in each hour.

    Attributes:
        gpu_type: the GPU.
        hours: hours in which some source has a price.
        mean_usd_per_gpu_h: price of the cheapest, mean of these hours.
        shares: how long each source leads, most first.
        leads: intervals in order of time, split where no source has a price.
    """

    gpu_type: str
    hours: int
    mean_usd_per_gpu_h: float
    shares: tuple[LeadShare, ...]
    leads: tuple[Lead, ...]


@dataclass(frozen=True, slots=True)
class PriceView:
    """The offers of GPUs.

    Attributes:
        source: the price table, or ``builtin``.
        references: GPU -> ``provider:kind`` that savings are counted against.
        offers: every source of GPUs, in order of GPU, provider and kind.
        cheapest: who leads, per GPU; none where they are a list.
        supply: availability statistics of each GPU in each region; empty if not recorded.
        hourly: prices of the offers by the hour; none where they are a list.
        notes: where the prices are old, or gpuplan's own.
    """

    source: str
    references: dict[str, str]
    offers: tuple[Offer, ...]
    cheapest: tuple[Cheapest, ...]
    supply: tuple[Supply, ...]
    hourly: Hidden[tuple[HourlyPrices, ...]]
    notes: Hidden[tuple[str, ...]]


def market(
    price_table: PriceTable | None, *, reference: str | None = None, as_of: datetime | None = None
) -> PriceView:
    """Return the offers of a price table, or of the built-in list if it is None.

    Args:
        price_table: the prices.
        reference: ``provider:kind`` to compare savings to; None takes the most expensive on-demand
            source of each GPU.
        as_of: when the prices are used, to mark stale ones.

    Raises:
        UsageError: ``reference`` is not a source of the prices.
    """
    hourly: tuple[HourlyPrices, ...] = ()
    if price_table is None:
        offers = listed_offers(as_of)
        source, notes = BUILT_IN, [f"built-in prices: {SOURCE}, as of {AS_OF:%Y-%m-%d}"]
    else:
        hourly = hourly_prices(price_table)
        offers = offers_of(price_table, hourly, as_of)
        source, notes = str(price_table.path), []
    name = None if reference is None else _reference(reference, offers)
    chosen = {
        gpu: offer_of_reference
        for gpu in dict.fromkeys(offer.gpu_type for offer in offers)
        if (offer_of_reference := _reference_of(gpu, offers, name)) is not None
    }
    saved = tuple(_with_saving(offer, chosen.get(offer.gpu_type), hourly) for offer in offers)
    return PriceView(
        source=source,
        offers=saved,
        hourly=hourly,
        cheapest=cheapest_sources(hourly),
        supply=() if price_table is None else supplies(price_table),
        references={gpu: offer.name for gpu, offer in chosen.items()},
        notes=(*notes, *_age_notes(offers, as_of), *_apart_notes(saved, chosen)),
    )


def read_market(
    prices: str, *, reference: str | None = None, as_of: datetime | None = None
) -> tuple[PriceView, PriceTable | None]:
    """Return the market of a file, or of the built-in list for the word ``builtin``.

    Raises as `market` and `read_prices`.
    """
    price_table = None if prices == BUILT_IN else read_prices(Path(prices))
    return market(price_table, reference=reference, as_of=as_of), price_table


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
    priced = [o for o in offers if o.gpu_type == gpu and o.mean_usd_per_gpu_h is not None]
    if name is not None:
        return next((offer for offer in priced if offer.name == name), None)
    candidates = [o for o in priced if o.kind == "on_demand" and o.mean_usd_per_gpu_h]
    return max(candidates, key=lambda offer: offer.mean_usd_per_gpu_h or 0.0, default=None)


def _with_saving(offer: Offer, reference: Offer | None, hourly: Sequence[HourlyPrices]) -> Offer:
    if reference is None:
        return offer
    mean, full = offer.mean_usd_per_gpu_h, reference.mean_usd_per_gpu_h
    if mean is None or not full:
        return offer
    if hourly:  # prices of different times are not comparable
        of = {series.source: series for series in hourly}
        common = common_means(of[offer.source], of[reference.source])
        if common is None:
            return offer
        mean, full = common
    return replace(offer, saving=1 - mean / full)


def _age_notes(offers: Sequence[Offer], as_of: datetime | None) -> Iterator[str]:
    if as_of is None:
        return
    stale = [offer for offer in offers if offer.stale]
    if stale:
        ages = _span([offer.age_days or 0.0 for offer in stale])
        yield (
            f"{len(stale)} of {len(offers)} prices are stale, last seen {ages} days before "
            f"{as_of:%Y-%m-%d}: {_names(stale)}"
        )
    later = [offer for offer in offers if offer.begins_after_days]
    if later:
        days = _span([offer.begins_after_days or 0.0 for offer in later])
        first = as_of + timedelta(days=min(offer.begins_after_days or 0.0 for offer in later))
        if len(later) == len(offers):
            yield f"prices are from {first:%Y-%m-%d} on, {days} days after {as_of:%Y-%m-%d}"
        else:
            yield (
                f"{len(later)} of {len(offers)} prices are from {first:%Y-%m-%d} on, {days} days "
                f"after {as_of:%Y-%m-%d}: {_names(later)}"
            )


def _apart_notes(offers: Sequence[Offer], references: dict[str, Offer]) -> Iterator[str]:
    compared = [o for o in offers if o.mean_usd_per_gpu_h and o.gpu_type in references]
    without_saving = [offer for offer in compared if offer.saving is None]
    if without_saving:
        yield (
            f"no saving for {len(without_saving)} of {len(offers)} offers: they have no price in "
            f"an hour in which the reference of their GPU has one: {_names(without_saving)}"
        )


def _span(days: Sequence[float]) -> str:
    least, most = f"{min(days):,.0f}", f"{max(days):,.0f}"
    return least if least == most else f"{least} to {most}"


def _names(offers: Sequence[Offer]) -> str:
    names = list(dict.fromkeys(offer.name for offer in offers))
    return ", ".join(names[:MAX_NAMES_LISTED]) + (", ..." if len(names) > MAX_NAMES_LISTED else "")


def cheapest_sources(hourly: Sequence[HourlyPrices]) -> tuple[Cheapest, ...]:
    """Return who is the cheapest for each GPU, in order of GPUs; ties go to the first by name."""
    gpus = sorted({source.gpu_type for source in hourly})
    return tuple(
        _cheapest(gpu, [source for source in hourly if source.gpu_type == gpu]) for gpu in gpus
    )


def _cheapest(gpu: str, series: list[HourlyPrices]) -> Cheapest:
    first = min(source.first_hour for source in series)
    last = max(source.first_hour + source.lowest.size for source in series)
    best = np.full(last - first, np.inf)
    leader = np.full(last - first, -1)
    for number, source in enumerate(series):
        here = slice(source.first_hour - first, source.first_hour - first + source.lowest.size)
        better = np.zeros(last - first, np.bool_)
        # A price must be lower by more than rounding to take the lead.
        better[here] = np.where(source.cover > 0, source.lowest, np.inf) < best[here] * (1 - 1e-9)
        best[better] = source.lowest[better[here]]
        leader[better] = number
    is_led = leader >= 0
    counts = np.bincount(leader[is_led], minlength=len(series))
    hours = int(is_led.sum())
    shares = sorted(
        (-int(n), source.provider, source.kind)
        for n, source in zip(counts, series, strict=True)
        if n
    )
    return Cheapest(
        gpu_type=gpu,
        hours=hours,
        mean_usd_per_gpu_h=float(best[is_led].mean()),
        shares=tuple(LeadShare(provider, kind, -n / hours) for n, provider, kind in shares),
        leads=tuple(_leads(first, leader, best, series)),
    )


def _leads(
    first: int,
    leader: np.ndarray[Any, np.dtype[np.int64]],
    best: np.ndarray[Any, np.dtype[np.float64]],
    series: list[HourlyPrices],
) -> Iterator[Lead]:
    edges = np.flatnonzero(np.diff(leader)) + 1
    for part in np.split(np.arange(leader.size), edges):
        number = int(leader[part[0]])
        if number >= 0:
            yield Lead(
                EPOCH + timedelta(hours=first + int(part[0])),
                EPOCH + timedelta(hours=first + int(part[-1]) + 1),
                series[number].provider,
                series[number].kind,
                float(best[part].mean()),
            )
