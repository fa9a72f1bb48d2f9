"""What an hour of each GPU type costs: as given, or the median of the offers of a price table.

Every study that names dollars asks one `Prices`, built once from a `PriceRequest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from statistics import median

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import UNNAMED, gpu_name, match_types, same_gpu
from gpuplan.analysis.prices.catalogue import BUILT_IN, SOURCE
from gpuplan.analysis.prices.hourly import hourly_prices
from gpuplan.analysis.prices.offers import Offer, listed_offers, offers_of
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.money.dated_prices import dated_usd, kind_of_provider, usual_kind
from gpuplan.planner.money.price_request import NO_PRICE, Price, PriceRequest

USUAL_KIND = "on_demand"


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour of a GPU costs, by type.

    The price given for a type comes first, then that for every other type, then the median of the
    offers.

    Attributes:
        usd_per_gpu_h: type -> US dollars per GPU-hour; the empty name is every other type.
        offers: of a price table.
        table: the table, or ``builtin``; None without one.
        provider: whose offers count, such as ``aws`` or ``aws:spot``; None for all, on demand.
        gpu: the type of jobs that name none.
        option: the option that gave the prices, for messages.
        inputs: the files read.
    """

    usd_per_gpu_h: Mapping[str, float] = field(default_factory=dict)
    offers: Sequence[Offer] = ()
    table: str | None = None
    provider: str | None = None
    gpu: str | None = None
    option: str = "--price"
    inputs: tuple[InputFile, ...] = ()

    def __post_init__(self) -> None:
        for name, usd in self.usd_per_gpu_h.items():
            Price(usd, name, self.option)

    @classmethod
    def read(cls, request: PriceRequest) -> Prices:
        """Return the prices of a request. Raises `InputError` where its table cannot be used."""
        offers, inputs = ((), ()) if request.prices is None else read_offers(request.prices)
        return cls(
            *(request.usd_per_gpu_h, offers, request.prices, request.provider, request.gpu),
            *(request.option, inputs),
        )

    def of(self, gpu_type: str | None, time: datetime | None = None) -> Price:
        """Return the price of a type at a time.

        Args:
            gpu_type: in any spelling; None for jobs that name none.
            time: prices are the same at all times so far.

        Raises:
            UsageError: the type has no price; the message says which option gives one.
        """
        named = self._named(gpu_type)
        price = self._given(named)
        if price is not None:
            return price
        if self.table is None:
            raise UsageError(self._missing(named))
        if named == UNNAMED:
            raise UsageError(
                "--prices: the jobs do not name their GPU\n  next: say which with --gpu, one of "
                + ", ".join(dict.fromkeys(offer.gpu_type for offer in self.offers))
            )
        return median_price(self.offers, named, self.provider, table=self.table)

    def get(self, gpu_type: str | None, time: datetime | None = None) -> Price | None:
        """Return the price of a type at a time, as `of`; None where nothing gives it."""
        named = self._named(gpu_type)
        price = self._given(named)
        if price is not None or self.table is None or named == UNNAMED:
            return price
        try:
            return median_price(self.offers, named, self.provider, table=self.table)
        except UsageError:  # no such offer
            return None

    def dated(self, gpu_type: str | None) -> Sequence[tuple[int, Fraction]]:
        """Return when each price of a type in the table begins; empty where it has no history."""
        named = self._named(gpu_type)
        if self.table is None or self._given(named) is not None:
            return ()
        return dated_usd(self.table, named, self.provider)

    def usd(self, gpu_type: str | None) -> float | None:
        """Return the dollars of a GPU-hour of a type; None where nothing gives them."""
        price = self.get(gpu_type)
        return None if price is None else price.usd_per_gpu_h

    def mean(self, gpu_h: Mapping[str | None, float]) -> float | None:
        """Return the mean price of GPU-hours by type; None where a type has no price."""
        priced = [(self.usd(gpu_type), hours) for gpu_type, hours in gpu_h.items() if hours > 0]
        if not priced:
            return self.usd_per_gpu_h.get("")
        if any(usd is None for usd, _ in priced):
            return None
        rates = {usd for usd, _ in priced}
        if len(rates) == 1:
            return rates.pop()
        total = sum(hours for _, hours in priced)
        return sum(usd * hours for usd, hours in priced if usd is not None) / total

    def unmatched_note(self, gpu_types: Iterable[str | None]) -> tuple[str, ...]:
        """Return one sentence on the prices of types that are not among these, if there are any.

        Raises:
            UsageError: all prices are of other types.
        """
        every = set(gpu_types)
        types = sorted(name for name in every if name is not None)
        unmatched = [
            name
            for name in self.usd_per_gpu_h
            if name and not any(same_gpu(name, gpu_type or UNNAMED) for gpu_type in every)
        ]
        if not unmatched:
            return ()
        have = f"the GPU types are {listed(types, 6)}" if types else "no GPU type is named"
        if types and len(unmatched) == len(self.usd_per_gpu_h):
            raise UsageError(
                f"{self.option}: prices only of {listed(unmatched, 6)}; {have}\n"
                f"  next: {self.option} {types[0]}=USD"
            )
        return (f"{self.option}: the price of {listed(unmatched, 6)} is not used; {have}",)

    def _named(self, gpu_type: str | None) -> str:
        return self.gpu or UNNAMED if gpu_type is None or gpu_type == UNNAMED else gpu_type

    def _given(self, gpu_type: str) -> Price | None:
        name = match_types(self.usd_per_gpu_h, [gpu_type], self.option)[gpu_type] or ""
        usd = self.usd_per_gpu_h.get(name)
        if not name and gpu_type != UNNAMED:
            name = gpu_type
        return None if usd is None else Price(usd, name or None, self.option)

    def _missing(self, gpu_type: str) -> str:
        if not self.usd_per_gpu_h:
            return NO_PRICE
        priced = ", ".join(self.usd_per_gpu_h)
        is_named = gpu_type != UNNAMED
        return (
            f"{self.option}: {gpu_type if is_named else 'jobs that name no GPU type'} has no "
            f"price, only {priced}\n"
            f"  next: {self.option} {f'{gpu_type}=USD' if is_named else 'USD'} as well"
        )


def read_offers(table: str) -> tuple[tuple[Offer, ...], tuple[InputFile, ...]]:
    """Return the offers of a price table, or of the built-in list for ``builtin``, and the file.

    Raises `InputError` where the table cannot be used.
    """
    if table == BUILT_IN:
        return listed_offers(), ()
    price_table = read_prices(Path(table))
    offers = offers_of(price_table, hourly_prices(price_table))
    return offers, (price_table.input,)


def median_price(
    offers: Sequence[Offer], gpu: str, provider: str | None = None, *, table: str = BUILT_IN
) -> Price:
    """Return the median price of a GPU over its offers.

    Args:
        offers: the offers, from `read_offers`.
        gpu: its name, in any spelling.
        provider: ``aws`` (on demand) or ``aws:spot``; None for all providers, on demand.
        table: what to name as the origin.

    Raises:
        UsageError: no such offer; the message lists the offers.
    """
    company, kind = kind_of_provider(provider)
    of_gpu = [offer for offer in offers if same_gpu(gpu_name(gpu), offer.gpu_type)]
    if not any(offer.median_usd_per_gpu_h for offer in of_gpu or offers):
        raise UsageError(
            f"--gpu {gpu}: {table} has availability without prices\n"
            "  next: give a table with prices, --prices builtin, or the price of a GPU-hour with "
            "--price"
        )
    if not of_gpu:
        every = ", ".join(dict.fromkeys(offer.gpu_type for offer in offers))
        raise UsageError(
            f"--gpu {gpu}: {table} has no price of it, only of {every}\n"
            "  next: choose one of these, or give the price of a GPU-hour with --price"
        )
    if provider is None:
        kind = usual_kind(offer.kind for offer in of_gpu if offer.median_usd_per_gpu_h)
    chosen = [
        offer
        for offer in of_gpu
        if offer.kind == kind and company in (None, offer.provider) and offer.median_usd_per_gpu_h
    ]
    if not chosen:
        priced = (offer.name for offer in of_gpu if offer.median_usd_per_gpu_h)
        names = ", ".join(dict.fromkeys(priced))
        raise UsageError(
            f"no {kind.replace('_', '-')} price of {gpu}{f' at {company}' if company else ''}\n"
            f"  next: --provider with one of {names}"
        )
    return Price(
        median(offer.median_usd_per_gpu_h for offer in chosen if offer.median_usd_per_gpu_h),
        ", ".join(dict.fromkeys(offer.gpu_type for offer in chosen)),
        f"{SOURCE} (built in)" if table == BUILT_IN else table,
        tuple(dict.fromkeys(offer.name for offer in chosen)),
        min((offer.last for offer in chosen if offer.last is not None), default=None),
    )
