"""What an hour of each GPU type costs: as given, or the usual price in a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.bill import GpuPrices
from gpuplan.analysis.prices.quote import quote, read_offers
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.pricing.price_request import PriceRequest


@dataclass(frozen=True, slots=True)
class TypePrice:
    """The price of one GPU type.

    Attributes:
        usd_per_gpu_h: US dollars per GPU-hour.
        source: ``--price``, or the table.
        provider: who asks it: the offers that it is the median of; empty where it was given.
    """

    usd_per_gpu_h: float
    source: str = "--price"
    provider: str = ""


def prices_of(
    request: PriceRequest, gpu_types: Iterable[str | None]
) -> tuple[dict[str | None, TypePrice], tuple[InputFile, ...]]:
    """Return the price of each type, and the price table where one was read.

    Args:
        request: what was given.
        gpu_types: the types in a log; None for jobs that name none.

    Raises:
        InputError: a price table that cannot be used.
        UsageError: a type without a price.
    """
    given = GpuPrices(request.usd_per_gpu_h)
    found: dict[str | None, TypePrice] = {}
    offers, inputs = None, tuple[InputFile, ...]()
    if request.prices is not None:
        offers, book = read_offers(request.prices)
        if book is not None:
            inputs = (InputFile(str(book.path), book.sha256, book.rows),)
    for name in gpu_types:
        called = name if name is not None else request.gpu
        usd = given.of(called)
        if usd is not None:
            found[name] = TypePrice(usd)
        elif offers is None:
            request.check_given()
            raise UsageError(_missing(called, request))
        elif called is None:
            has = ", ".join(dict.fromkeys(one.gpu_type for one in offers))
            raise UsageError(
                "--prices: the jobs do not name their GPU\n"
                f"  next: say which with --gpu, one of {has}"
            )
        else:
            one = quote(offers, called, request.provider, source=request.prices or "")
            found[name] = TypePrice(one.usd_per_gpu_h, one.source, ", ".join(one.offers))
    return found, inputs


def _missing(name: str | None, request: PriceRequest) -> str:
    known = ", ".join(filter(None, request.usd_per_gpu_h))
    of = "jobs that name no GPU type" if name is None else name
    return (
        f"{request.option}: {of} has no price, only {known}\n"
        f"  next: {request.option} {name or 'USD'}{'=USD' if name else ''} as well"
    )
