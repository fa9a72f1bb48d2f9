"""The price view: what sources ask, and who is cheapest when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.price_formats.schema import KIND_WORDS, KINDS
from gpuplan.analysis.prices.book import PriceBook, read_prices
from gpuplan.analysis.prices.catalogue import AS_OF, BUILT_IN, SOURCE
from gpuplan.analysis.prices.cheapest_source import Cheapest, cheapest_sources
from gpuplan.analysis.prices.hourly import HourlyPrices, common_means, hourly_prices
from gpuplan.analysis.prices.offers import Offer, listed_offers, offers_of
from gpuplan.analysis.prices.supply import Supply, supplies

MAX_NAMES_LISTED = 6


@dataclass(frozen=True, slots=True)
class PriceView:
    """The offers of GPUs.

    Attributes:
        source: name of the file, or `BUILT_IN`.
        offers: every source of GPUs, in order of GPU, provider and kind.
        hourly: their prices by the hour; none where they are a list.
        cheapest: who leads, per GPU; none where they are a list.
        supply: availability statistics of each GPU in each region; empty if not recorded.
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


def market(
    book: PriceBook | None, *, reference: str | None = None, as_of: datetime | None = None
) -> PriceView:
    """Return the offers of a book, or of the built-in list if it is None.

    Args:
        book: the prices.
        reference: ``provider:kind`` to compare savings to; None takes the most expensive on-demand
            source of each GPU.
        as_of: when the prices are used, to mark stale ones.

    Raises:
        UsageError: ``reference`` is not a source of the prices.
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
    if hourly:  # prices of different times are not comparable
        of = {(one.provider, one.gpu_type, one.kind): one for one in hourly}
        common = common_means(*(of[o.provider, o.gpu_type, o.kind] for o in (offer, reference)))
        if common is None:
            return offer
        mean, full = common
    return replace(offer, saving=1 - mean / full)


def _age_notes(offers: Sequence[Offer], as_of: datetime | None) -> Iterator[str]:
    if as_of is None:
        return
    stale = [offer for offer in offers if offer.is_stale]
    if stale:
        ages = _span([offer.age_days or 0.0 for offer in stale])
        yield (
            f"{len(stale)} of {len(offers)} prices are stale, last seen {ages} days before "
            f"{as_of:%Y-%m-%d}: {_names(stale)}"
        )
    later = [offer for offer in offers if offer.begins_after_days]
    if later:
        days = _span([offer.begins_after_days or 0.0 for offer in later])
        first = as_of + timedelta(days=min(one.begins_after_days or 0.0 for one in later))
        if len(later) == len(offers):
            yield f"prices are from {first:%Y-%m-%d} on, {days} days after {as_of:%Y-%m-%d}"
        else:
            yield (
                f"{len(later)} of {len(offers)} prices are from {first:%Y-%m-%d} on, {days} days "
                f"after {as_of:%Y-%m-%d}: {_names(later)}"
            )


def _apart_notes(offers: Sequence[Offer], references: dict[str, Offer]) -> Iterator[str]:
    apart = [o for o in offers if o.saving is None and o.mean and o.gpu_type in references]
    if apart:
        yield (
            f"no saving for {len(apart)} of {len(offers)} offers: they have no price in an "
            f"hour in which the reference of their GPU has one: {_names(apart)}"
        )


def _span(days: Sequence[float]) -> str:
    least, most = f"{min(days):,.0f}", f"{max(days):,.0f}"
    return least if least == most else f"{least} to {most}"


def _names(offers: Sequence[Offer]) -> str:
    names = list(dict.fromkeys(offer.name for offer in offers))
    return ", ".join(names[:MAX_NAMES_LISTED]) + (", ..." if len(names) > MAX_NAMES_LISTED else "")
