"""The one price of a GPU-hour that a plan uses, and where it comes from.

From a price table it is the median over the providers that offer the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.price_formats.schema import KIND_WORDS, KINDS
from gpuplan.analysis.prices.book import PriceBook, read_prices
from gpuplan.analysis.prices.catalogue import SOURCE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.offers import Offer, listed_offers, offers_of
from gpuplan.analysis.prices.view import BUILT_IN

NAMED = 6  # offers that a text lists

MOST_QUOTED_USD = 1_000_000
"""A higher price per hour must be a mistake of units."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A price of a GPU for an hour.

    Attributes:
        usd_per_gpu_h: the price, > 0.
        gpu_type: the GPU as the offers name it; empty where only a number was given.
        source: the price table, or ``--price``.
        offers: ``provider:kind`` of each offer that it is the median of.
        as_of: until when the oldest of them is known to hold; None where not known.
    """

    usd_per_gpu_h: float
    gpu_type: str = ""
    source: str = "--price"
    offers: tuple[str, ...] = ()
    as_of: datetime | None = None

    def __post_init__(self) -> None:
        if not 0 < self.usd_per_gpu_h <= MOST_QUOTED_USD:
            raise UsageError(
                f"--price must be above 0 and at most {MOST_QUOTED_USD:,} dollars per GPU-hour, "
                f"got {self.usd_per_gpu_h:g}"
            )

    @property
    def text(self) -> str:
        """The price with where it comes from, for people."""
        price = f"${self.usd_per_gpu_h:.4g} per {self.gpu_type or 'GPU'}-hour"
        if not self.offers:
            return f"{price} ({self.source})"
        more = f" and {len(self.offers) - NAMED} more" if len(self.offers) > NAMED else ""
        of = "median of " if len(self.offers) > 1 else ""
        when = "" if self.as_of is None else f", as of {self.as_of:%Y-%m-%d}"
        return f"{price} ({of}{', '.join(self.offers[:NAMED])}{more}; {self.source}{when})"

    def results(self) -> QuoteResults:
        """Return the price and its origin as JSON has them."""
        kind = self.gpu_type or None
        return QuoteResults(self.usd_per_gpu_h, kind, self.source, self.offers, self.as_of)


@dataclass(frozen=True, slots=True)
class QuoteResults:
    """A price of a GPU-hour, as JSON has it.

    Attributes:
        usd_per_gpu_h: the price.
        gpu_type: the GPU as the offers name it; null where only a number was given.
        source: the price table, or ``--price``.
        offers: ``provider:kind`` of each offer that it is the median of.
        as_of: until when the oldest of them is known to hold; null where not known.
    """

    usd_per_gpu_h: float
    gpu_type: str | None
    source: str
    offers: tuple[str, ...]
    as_of: datetime | None


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
    """Return the median price of a GPU over its offers.

    Args:
        offers: the offers, from `read_offers`.
        gpu: its name, in any spelling.
        provider: ``aws`` (on demand) or ``aws:spot``; None for all providers, on demand.
        source: what to name as the origin.

    Raises:
        UsageError: no such offer; the message lists the offers.
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
