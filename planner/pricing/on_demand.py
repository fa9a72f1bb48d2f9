"""A price for each GPU type of a log, from the offers of a price table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.bill import GpuPrices
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.prices.book import PriceBook
from gpuplan.analysis.prices.catalogue import CATALOGUE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.offers import Offer
from gpuplan.analysis.prices.quote import quote
from gpuplan.planner.pricing.price_selection import provider_of


def on_demand_prices(
    gpu_types: Collection[str | None], offers: Sequence[Offer], unnamed: str | None = None
) -> GpuPrices:
    """Return the median on-demand price of each type that is offered.

    Args:
        gpu_types: types of the log; None stands for jobs that name none.
        offers: what sources ask.
        unnamed: the type of jobs that name none; None leaves those without a price.
    """
    found: dict[str, float] = {}
    named = [name for name in gpu_types if name is not None]
    for name in named:
        try:
            found[name] = quote(offers, name).usd_per_gpu_h
        except UsageError:  # no on-demand offer
            continue
    # A named type without an offer must not get the price of unnamed GPUs.
    if unnamed is not None and len(found) == len(named) < len(gpu_types):
        found[""] = quote(offers, unnamed).usd_per_gpu_h
    return GpuPrices(found)


def conventional_prices(
    gpu_types: Collection[str | None],
    planned: str | None,
    usd_per_gpu_h: float,
    book: PriceBook | None = None,
) -> GpuPrices:
    """Return the conventional price of each type, chosen as the replayed type's is.

    A type without an on-demand offer costs as much as the replayed one.

    Args:
        gpu_types: types of the log; None stands for jobs that name none.
        planned: the type that a replay rents; None where its prices are set by hand, which then
            hold for every type.
        usd_per_gpu_h: what a GPU of that type costs.
        book: the prices of other types; None for the built-in list.
    """
    found = {"": usd_per_gpu_h}
    if planned is None:
        return GpuPrices(found)
    for name in gpu_types:
        if name is None or same_gpu(planned, name):
            continue
        if offered := _on_demand(name, book):
            found[name] = offered[provider_of(None, offered, "conventional_provider")]
    return GpuPrices(found)


def _on_demand(gpu_type: str, book: PriceBook | None) -> Mapping[str, float]:
    """Return the on-demand price of a type by provider."""
    gpu = gpu_name(gpu_type)
    if book is not None:
        hourly = hourly_prices(book, gpu)
        return {one.provider: one.mean for one in hourly if one.kind == "on_demand"}
    return {
        one.provider: one.typical
        for one in CATALOGUE
        if one.kind == "on_demand" and same_gpu(gpu, one.gpu_type) and one.typical is not None
    }
