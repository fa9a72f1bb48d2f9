"""The price of a GPU type in a table of offers, or in the built-in list: their median."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.prices.catalogue import BUILT_IN, SOURCE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.offers import Offer, listed_offers, offers_of
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.money.dated_prices import USUAL_KIND, kind_of_provider, usual_kind
from gpuplan.planner.money.price_request import MissingPrice, Price


def read_offers(table: str) -> tuple[tuple[Offer, ...], tuple[InputFile, ...]]:
    """Return the offers of a price table, or of the built-in list for ``builtin``, and the file.

    Raises `InputError` where the table cannot be used.
    """
    if table == BUILT_IN:
        return listed_offers(), ()
    price_table = read_prices(Path(table))
    offers = offers_of(price_table, hourly_prices(price_table))
    return offers, (price_table.input,)


def offers_used(
    offers: Sequence[Offer], gpu: str, provider: str | None = None
) -> tuple[Offer, ...]:
    """Return the offers whose median is the price of a GPU; arguments as of `median_price`."""
    company, kind = kind_of_provider(provider)
    priced = [
        offer
        for offer in offers
        if same_gpu(gpu_name(gpu), offer.gpu_type) and company in (None, offer.provider.lower())
    ]
    priced = [offer for offer in priced if offer.median_usd_per_gpu_h]
    kind = kind or usual_kind(offer.kind for offer in priced)
    return tuple(offer for offer in priced if offer.kind == kind)


def provider_named(offers: Sequence[Offer], provider: str, table: str) -> str:
    """Return a provider, such as ``aws:spot``, by the name that the offers have of it.

    Args:
        offers: of all providers.
        provider: the name, or how it begins, with a kind or without.
        table: where the offers are from.

    Raises:
        UsageError: an unknown kind, or not one provider of that name.
    """
    company, kind = kind_of_provider(provider)
    every = sorted({offer.provider for offer in offers})
    matching = [name for name in every if company in (None, name.lower())] or [
        name for name in every if company and name.lower().startswith(company)
    ]
    if not matching or (company is not None and len(matching) > 1):
        how_many = "several" if matching else "none"
        raise UsageError(
            f"--provider {provider}: --prices {table} has {how_many} of that name"
            f"\n  next: one of {', '.join(matching or every)}"
        )
    return "".join(([] if company is None else matching) + ([] if kind is None else [f":{kind}"]))


def median_price(
    offers: Sequence[Offer], gpu: str, provider: str | None = None, *, table: str = BUILT_IN
) -> Price:
    """Return the median price of a GPU over its offers.

    Args:
        offers: the offers, from `read_offers`.
        gpu: its name, in any spelling.
        provider: ``aws`` or ``aws:spot``; None for all providers. Without a kind it is on demand,
            or else the only kind that there is.
        table: what to name as the origin.

    Raises:
        UsageError: no such offer; the message lists the offers.
    """
    of_gpu = [offer for offer in offers if same_gpu(gpu_name(gpu), offer.gpu_type)]
    if not any(offer.median_usd_per_gpu_h for offer in of_gpu or offers):
        raise MissingPrice(
            f"--gpu {gpu}: {table} has availability without prices\n"
            "  next: give a table with prices, --prices builtin, or the price of a GPU-hour with "
            "--price"
        )
    if not of_gpu:
        every = ", ".join(dict.fromkeys(offer.gpu_type for offer in offers))
        raise MissingPrice(
            f"--prices {table}: no price of {gpu}, only of {every}\n"
            f"  next: --price {gpu}=USD, or another GPU"
        )
    chosen = offers_used(of_gpu, gpu, provider)
    if not chosen:
        company, kind = kind_of_provider(provider)
        priced = (offer.name for offer in of_gpu if offer.median_usd_per_gpu_h)
        names = ", ".join(dict.fromkeys(priced))
        word = (kind or USUAL_KIND).replace("_", "-")
        raise MissingPrice(
            f"no {word} price of {gpu}{f' at {company}' if company else ''}\n"
            f"  next: --provider with one of {names}"
        )
    return Price(
        median(offer.median_usd_per_gpu_h for offer in chosen if offer.median_usd_per_gpu_h),
        ", ".join(dict.fromkeys(offer.gpu_type for offer in chosen)),
        f"{SOURCE} (built in)" if table == BUILT_IN else table,
        tuple(dict.fromkeys(offer.name for offer in chosen)),
        min((offer.last for offer in chosen if offer.last is not None), default=None),
    )
