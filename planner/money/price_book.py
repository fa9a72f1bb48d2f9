"""What an hour of each GPU type costs, by date: contracts, prices as given, or a price table.

Every study that names dollars asks one `Prices`, built once from a `PriceRequest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from fractions import Fraction
from functools import lru_cache

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_zones import zone_named
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.analysis.job_table.gpu_names import (
    UNNAMED,
    match_types,
    same_gpu,
)
from gpuplan.analysis.prices.contracts import (
    FOREVER_US,
    ON_DEMAND,
    Contracts,
    DatedPrice,
    PaidPool,
    make_contracts,
    read_contracts,
)
from gpuplan.analysis.prices.offers import Offer
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.money.book_types import check_pools, pools_in_force, with_options
from gpuplan.planner.money.dated_prices import dated_usd
from gpuplan.planner.money.listed_price import (
    median_price,
    offers_used,
    provider_named,
    read_offers,
)
from gpuplan.planner.money.pool_texts import Dated, price_steps
from gpuplan.planner.money.price_request import NO_PRICE, MissingPrice, Price, PriceRequest

NO_BOOK = Contracts(option="--price")


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour of a GPU costs, by type and date.

    The price of the book comes first, then the one given for a type, then that for every other
    type, then the median of the offers.

    Attributes:
        usd_per_gpu_h: type -> US dollars per GPU-hour, or these by date; the empty name is every
            other type.
        offers: of a price table.
        table: the table, or ``builtin``; None without one.
        provider: whose offers count, such as ``aws`` or ``aws:spot``; None for all, on demand.
        gpu: the type of jobs that name none.
        option: the option that gave the prices, for messages.
        inputs: the files read.
        book: contracts: pools, and prices by date.
        zone: time zone of dates.
        at_us: the time of a single price, microseconds since 1970: the last one by default.
    """

    usd_per_gpu_h: Mapping[str, float | Dated] = field(default_factory=dict)
    offers: Sequence[Offer] = ()
    table: str | None = None
    provider: str | None = None
    gpu: str | None = None
    option: str = "--price"
    inputs: tuple[InputFile, ...] = ()
    book: Contracts = NO_BOOK
    zone: tzinfo = UTC
    at_us: int = FOREVER_US

    def __post_init__(self) -> None:
        for name, usd in self.usd_per_gpu_h.items():
            for step in price_steps(usd, self.zone, name, self.option):
                Price(float(step.usd_per_gpu_h), name, self.option)

    @classmethod
    def read(cls, request: PriceRequest, time_zone: str | None = None) -> Prices:
        """Return the prices of a request; dates are of a time zone, UTC by default.

        Raises:
            InputError: a table or a book that cannot be used.
            UsageError: two prices of one type and date.
        """
        offers, inputs = ((), ()) if request.prices is None else read_offers(request.prices)
        book = Contracts(option=request.option)
        if request.contracts is not None:
            book = read_contracts(request.contracts, time_zone)
        book = with_options(book, request)
        provider = request.provider
        if provider is not None and request.prices is not None:
            provider = provider_named(offers, provider, request.prices)
        return cls(
            *(request.usd_per_gpu_h, offers, request.prices, provider, request.gpu),
            *(request.option, (*inputs, *book.inputs), book, zone_named(time_zone)),
        )

    def at(self, at_us: int) -> Prices:
        """Return the same prices, of which single ones are those in force at a time."""
        return replace(self, at_us=at_us)

    def of(self, gpu_type: str | None) -> Price:
        """Return the pay-per-use price of a type in force at `at_us`.

        Args:
            gpu_type: in any spelling; None for jobs that name none.

        Raises:
            UsageError: the type has no price; the message says which option gives one.
        """
        named = self._named(gpu_type)
        price = self._stated(named)
        if price is not None:
            return price
        if self.table is None:
            raise MissingPrice(self._missing([named]))
        if named == UNNAMED:
            raise MissingPrice(
                "--prices: the jobs do not name their GPU\n  next: say which with --gpu, one of "
                + ", ".join(dict.fromkeys(offer.gpu_type for offer in self.offers))
            )
        price = median_price(self.offers, named, self.provider, table=self.table)
        steps = self._table_steps(named)
        begun = [step for step in steps if step.from_us <= self.at_us] or steps[:1]
        if len(steps) < 2:
            return price
        return replace(price, usd_per_gpu_h=float(begun[-1].usd_per_gpu_h))

    def get(self, gpu_type: str | None) -> Price | None:
        """Return the price of a type, as `of`; None where nothing gives it."""
        named = self._named(gpu_type)
        price = self._stated(named)
        if price is not None or self.table is None or named == UNNAMED:
            return price
        try:
            return self.of(gpu_type)
        except UsageError:  # no such offer
            return None

    def check(self, gpu_types: Iterable[str | None]) -> None:
        """Raise `UsageError` where types have no price; the message names all of them.

        Raises as `check_pools` too.
        """
        types = {gpu_type: self._named(gpu_type) for gpu_type in gpu_types}
        check_pools(self.book, list(types.values()))
        in_book = match_types(self.book.gpu_types, types.values(), self.book.option)
        lacking = [
            gpu_type
            for gpu_type, named in types.items()
            if in_book[named] is None and self.get(gpu_type) is None
        ]
        if len(lacking) == 1:
            self.of(lacking[0])
        if lacking:
            raise MissingPrice(self._missing([self._named(gpu_type) for gpu_type in lacking]))

    def check_provider(self, gpu_types: Iterable[str | None]) -> None:
        """Raise `UsageError` where a provider that is named has no price of types, as `check`."""
        if self.provider is not None:
            named = [name for name in gpu_types if self._named(name) != UNNAMED]
            self.check(named)

    def steps(self, gpu_type: str | None) -> tuple[DatedPrice, ...]:
        """Return the pay-per-use prices of a type in order of time, of those not in the book.

        The first one also holds before its date. Raises as `of`.
        """
        named = self._named(gpu_type)
        _, usd = self._option_usd(named)
        if usd is not None:
            return price_steps(usd, self.zone, named, self.option)
        price, dated = self.of(gpu_type), self._table_steps(named)
        usd_first = dated[0].usd_per_gpu_h if dated else Fraction(str(price.usd_per_gpu_h))
        return (DatedPrice(named, ON_DEMAND, usd_first), *dated[1:])

    def offers_of(self, gpu_type: str | None) -> tuple[Offer, ...]:
        """Return the offers of the table whose median is the price of a type."""
        return offers_used(self.offers, self._named(gpu_type), self.provider)

    def table_begins_us(self, gpu_type: str | None) -> int | None:
        """Return when the prices of a type in the table begin; None where it has no history."""
        steps = self._table_steps(self._named(gpu_type))
        return steps[0].from_us if steps else None

    def is_flat(self, gpu_types: Iterable[str | None]) -> bool:
        """Whether each of these types has one price for all time, and no GPUs are paid for idle."""
        if not self.book.is_flat:
            return False
        named = [self._named(gpu_type) for gpu_type in gpu_types]
        in_book = match_types(self.book.gpu_types, named, self.book.option)
        return all(in_book[name] or len(self.steps(name)) == 1 for name in named)

    def change_within(self, gpu_types: Iterable[str | None], period_us: PeriodUs) -> bool:
        """Whether the price of a type, or what is owned or committed to, changes in a period."""
        named = [self._named(gpu_type) for gpu_type in gpu_types]
        in_book = match_types(self.book.gpu_types, named, self.book.option).values()
        dates = [edge for pool in self.book.pools for edge in (pool.from_us, pool.until_us)]
        dates += [price.from_us for price in self.book.prices if price.gpu_type in in_book]
        for name in named:
            is_listed = self._option_usd(name)[1] is not None or self._table_steps(name)
            dates += [step.from_us for step in self.steps(name)] if is_listed else []
        return any(period_us[0] < at_us < period_us[1] for at_us in dates)

    def usd(self, gpu_type: str | None) -> float | None:
        """Return the dollars of a GPU-hour of a type; None where nothing gives them."""
        price = self.get(gpu_type)
        return None if price is None else price.usd_per_gpu_h

    def usd_of_kind(self, gpu_type: str | None, kind: str) -> float | None:
        """Return the price of a kind that the book has of a type; None where it has none."""
        named = self._named(gpu_type)
        name = match_types(self.book.gpu_types, [named], self.book.option)[named]
        price = None if name is None else self.book.price_at(name, self.at_us, kind)
        return None if price is None else float(price.usd_per_gpu_h)

    def mean(self, gpu_h: Mapping[str | None, float]) -> float | None:
        """Return the mean price of GPU-hours by type; None where a type has no price."""
        priced = [(self.usd(gpu_type), hours) for gpu_type, hours in gpu_h.items() if hours > 0]
        if not priced:
            every = self._option_price("")
            return None if every is None else every.usd_per_gpu_h
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
            UsageError: all prices are of other types, and there is no book.
        """
        every = set(gpu_types)
        types = sorted(name for name in every if name is not None)
        unused: tuple[str, ...] = ()
        if self.provider and every and all(self._stated(self._named(name)) for name in every):
            unused = (f"--provider {self.provider} has no effect: all types have another price",)
        unmatched = [
            name
            for name in self.usd_per_gpu_h
            if name and not any(same_gpu(name, gpu_type or UNNAMED) for gpu_type in every)
        ]
        if not unmatched:
            return unused
        have = f"the GPU types are {listed(types, 6)}" if types else "no GPU type is named"
        is_all = len(unmatched) == len(self.usd_per_gpu_h) and not self.book.gpu_types
        if types and is_all:
            raise UsageError(
                f"{self.option}: prices only of {listed(unmatched, 6)}; {have}\n"
                f"  next: {self.option} {types[0]}=USD"
            )
        return (*unused, f"{self.option}: the price of {listed(unmatched, 6)} is not used; {have}")

    @property
    def pools_now(self) -> list[PaidPool]:
        """The GPUs of all types that are owned or committed to."""
        return [pool for pool in self.book.pools if pool.is_paid_at(self.at_us)]

    def pools(self, gpu_type: str | None) -> list[PaidPool]:
        """Return the GPUs of a type that are owned or committed to, in the order they fill."""
        return pools_in_force(self.book, self._named(gpu_type), self.at_us)

    def above_pools(self, gpus_by_type: Mapping[str | None, int]) -> dict[str | None, int]:
        """Return the GPUs of each type that are neither owned nor committed to.

        Raises:
            UsageError: GPUs owned or committed to may be of several of the types.
        """
        check_pools(self.book, [self._named(name) for name in gpus_by_type])
        return {
            name: max(gpus - sum(pool.gpus for pool in self.pools(name)), 0)
            for name, gpus in gpus_by_type.items()
        }

    def of_types(self, gpu_types: Iterable[str | None]) -> Prices:
        """Return these prices with the pools of these types of the log alone."""
        names = [pool.gpu_type for pool in self.book.pools]
        means = match_types(names, [self._named(name) for name in gpu_types], self.book.option)
        pools = [pool for pool in self.book.pools if pool.gpu_type in means.values()]
        book = make_contracts(
            pools, list(self.book.prices), inputs=self.book.inputs, option=self.book.option
        )
        return replace(self, book=book)

    def _named(self, gpu_type: str | None) -> str:
        return self.gpu or UNNAMED if gpu_type is None or gpu_type == UNNAMED else gpu_type

    def _stated(self, gpu_type: str) -> Price | None:
        """Return the price of the book, or the one given."""
        name = match_types(self.book.gpu_types, [gpu_type], self.book.option)[gpu_type]
        price = None if name is None else self.book.price_at(name, self.at_us)
        if price is not None:
            return Price(float(price.usd_per_gpu_h), name, self.book.option)
        return self._option_price(gpu_type)

    def _option_usd(self, gpu_type: str) -> tuple[str, float | Dated | None]:
        """Return what ``--price`` says of a type, and the name that it says it of."""
        name = match_types(self.usd_per_gpu_h, [gpu_type], self.option)[gpu_type] or ""
        return name, self.usd_per_gpu_h.get(name)

    def _option_price(self, gpu_type: str) -> Price | None:
        name, usd = self._option_usd(gpu_type)
        if not name and gpu_type != UNNAMED:
            name = gpu_type
        if usd is None:
            return None
        steps = price_steps(usd, self.zone)
        begun = [step for step in steps if step.from_us <= self.at_us]
        return Price(float(begun[-1].usd_per_gpu_h), name or None, self.option)

    def _table_steps(self, gpu_type: str) -> tuple[DatedPrice, ...]:
        if self.table is None:
            return ()
        version = next((file.sha256 for file in self.inputs if file.path == self.table), "")
        steps = _dated_usd(self.table, version, gpu_type, self.provider)
        return tuple(DatedPrice(gpu_type, ON_DEMAND, usd, at_us) for at_us, usd in steps)

    def _missing(self, gpu_types: Sequence[str]) -> str:
        in_book = tuple(dict.fromkeys(price.gpu_type for price in self.book.prices))
        priced = ", ".join(dict.fromkeys([*in_book, *filter(None, self.usd_per_gpu_h)]))
        if not (priced or self.book.pools or self.table):
            return NO_PRICE
        option = self.book.option if in_book or self.book.pools else self.option
        option = option if priced or self.table is None else f"--prices {self.table}"
        only_of = "" if self.provider is None else f" of {self.provider}"
        names = [name for name in gpu_types if name != UNNAMED]
        only = f"{only_of}, only {priced}" if priced else only_of
        if not names:
            return (
                f"{option}: jobs that name no GPU type have no price{only}\n"
                f"  next: {self.option} {UNNAMED}=USD as well, or --gpu NAME with their type"
            )
        unnamed = ["jobs that name no GPU type"] if len(names) < len(gpu_types) else []
        who = listed([*names, *unnamed], 8)
        hint = ",".join(f"{name}=USD" for name in dict.fromkeys(gpu_types))
        have = "has" if len(gpu_types) == 1 else "have"
        return f"{option}: {who} {have} no price{only}\n  next: {self.option} {hint} as well"


@lru_cache(maxsize=256)
def _dated_usd(
    table: str, version: str, gpu_type: str, provider: str | None
) -> tuple[tuple[int, Fraction], ...]:
    """Return `dated_usd` of a table of this hash; one price may be asked for many times."""
    return tuple(dated_usd(table, gpu_type, provider))
