"""A price for each GPU type of a log, from the offers of a price table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpuplan.analysis.bill import GpuPrices
from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.prices.offers import Offer
from gpuplan.analysis.prices.quote import quote


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
        except UsageError:  # nobody offers it on demand
            continue
    # A named type without an offer must not get the price of unnamed GPUs.
    if unnamed is not None and len(found) == len(named) < len(gpu_types):
        found[""] = quote(offers, unnamed).usd_per_gpu_h
    return GpuPrices(found)
