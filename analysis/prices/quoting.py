"""From a price table to the one price of a GPU: the median over those who offer it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.price_formats.schema import KIND_WORDS, KINDS
from gpuplan.analysis.prices.book import PriceBook, read_prices
from gpuplan.analysis.prices.catalogue import SOURCE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.offers import Offer, listed_offers, offers_of
from gpuplan.analysis.prices.quote import Quote
from gpuplan.analysis.prices.view import BUILT_IN

USUAL_KIND = "on_demand"


def read_offers(prices: str) -> tuple[tuple[Offer, ...], PriceBook | None]:
    """Return the offers of a price table, or of the built-in list for the word ``builtin``.

    Raises `InputError` where the table cannot be used.
    """
    if prices == BUILT_IN:
        return listed_offers(), None
    book = read_prices(Path(prices))
    return offers_of(book, hourly_prices(book)), book


def quote(
    offers: Sequence[Offer], gpu: str, provider: str | None = None, *, source: str = BUILT_IN
) -> Quote:
    """Return the median price of a GPU over the offers of it.

    Args:
        offers: what is asked, by `read_offers`.
        gpu: its name, in any spelling.
        provider: ``aws`` or ``aws:spot``; None for all providers. On demand unless it says more.
        source: what to name as the origin.

    Raises:
        UsageError: nobody offers that; the message names what there is.
    """
    wanted = gpu_name(gpu)
    company, kind = _parts(provider)
    alike = [one for one in offers if same_gpu(wanted, one.gpu_type)]
    if not any(one.median for one in alike or offers):
        raise UsageError(
            f"--gpu {gpu}: {source} has availability without prices\n"
            "  next: give a table with prices, --prices builtin, or the price of a GPU-hour with "
            "--price"
        )
    if not alike:
        there = ", ".join(dict.fromkeys(one.gpu_type for one in offers))
        raise UsageError(
            f"--gpu {gpu}: {source} has no price of it, only of {there}\n"
            "  next: choose one of these, or give the price of a GPU-hour with --price"
        )
    found = [
        one for one in alike if one.kind == kind and company in (None, one.provider) and one.median
    ]
    if not found:
        names = ", ".join(dict.fromkeys(one.name for one in alike if one.median))
        raise UsageError(
            f"no {kind.replace('_', '-')} price of {gpu}{f' at {company}' if company else ''}\n"
            f"  next: --provider with one of {names}"
        )
    known = [one.last for one in found if one.last is not None]
    return Quote(
        median(one.median for one in found if one.median),
        ", ".join(dict.fromkeys(one.gpu_type for one in found)),
        f"{SOURCE} (built in)" if source == BUILT_IN else source,
        tuple(dict.fromkeys(one.name for one in found)),
        min(known, default=None),
    )


def _parts(provider: str | None) -> tuple[str | None, str]:
    """Return company and kind of ``aws:spot``. Raises `UsageError` on an unknown kind."""
    if provider is None:
        return None, USUAL_KIND
    company, colon, word = provider.rpartition(":")
    if not colon:
        return provider.strip().lower(), USUAL_KIND
    kind = KIND_WORDS.get(word.strip().lower())
    if kind is None:
        raise UsageError(f"--provider {provider}: a kind is one of {', '.join(KINDS)}")
    return company.strip().lower() or None, kind
