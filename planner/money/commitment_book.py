"""What commitments cost at the end of a log: of options, else of a price book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from fractions import Fraction

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import time_of
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import UNNAMED, match_types, same_gpu
from gpuplan.analysis.prices.contracts import (
    COMMITTED,
    FOREVER_US,
    OWNED,
    Contracts,
    DatedPrice,
    PaidPool,
)
from gpuplan.planner.money.book_types import check_pools, pools_in_force
from gpuplan.planner.money.commitment import CommitmentPlan
from gpuplan.planner.money.commitment_texts import CommitPrice, TermOffer
from gpuplan.planner.money.gpus_in_use import GpusInUse
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import Price


@dataclass(frozen=True)
class CommitmentBook:
    """Prices, owned GPUs and commitments by GPU type, as they are at one instant.

    Attributes:
        prices: of ``--commit``; a type without one may renew the commitments of the book.
        on_demand: of ``--on-demand``; a type without one takes that of the book.
        book: owned GPUs, commitments and dated prices.
        end_us: the instant, the end of the history, microseconds since 1970.
        gpu: the type of jobs that name none.
        zone: in which days begin.
        list_prices: for types without a price on demand in these; None without a price list.
    """

    prices: Sequence[CommitPrice]
    on_demand: Prices
    book: Contracts = field(default_factory=Contracts)
    end_us: int = 0
    gpu: str | None = None
    zone: tzinfo = UTC
    list_prices: Prices | None = None

    def chosen(
        self, gpu_types: Iterable[str | None], *, must: bool = True
    ) -> tuple[str | None, ...]:
        """Return the types of a log that ``--commit`` names, else those with a commitment.

        Raises `UsageError` where there is none and there ``must`` be.
        """
        types = tuple(gpu_types)
        offers = self._prices if self.prices else self.offers
        chosen = tuple(name for name in types if offers(name))
        if not chosen and types and must:
            if self.prices:
                self.committed().of(types[0])  # raises: it has no price
            raise UsageError(
                f"{self.book.option}: no commitment is in force at the end of the log\n"
                f"  next: --commit {types[0] or self.gpu or UNNAMED}=USD"
            )
        return chosen

    def committed(self) -> Prices:
        """Return the first price of each type of ``--commit``."""
        first: dict[str, float] = {}
        for price in self.prices:
            first.setdefault(price.gpu_type, float(price.offer.usd_per_gpu_h))
        return Prices(first, gpu=self.gpu, option="--commit")

    def committed_price(self, gpu_type: str | None) -> Price:
        """Return the price of a committed GPU-hour of a chosen type."""
        source = "--commit" if self._prices(gpu_type) else self.book.option
        return Price(float(self.offers(gpu_type)[0].usd_per_gpu_h), gpu_type, source)

    def on_demand_price(self, gpu_type: str | None, *, must: bool) -> Price | None:
        """Return the price of a GPU-hour on demand; None where nothing gives it.

        Raises `UsageError` where there ``must`` be one.
        """
        price = self.on_demand.get(gpu_type)
        if price is not None:
            return price
        if self._price_at_end(gpu_type) is None:
            listed_price = self._listed(gpu_type)
            if listed_price is not None or not must:
                return listed_price
        return Price(float(self._on_demand(gpu_type)), gpu_type, self.book.option)

    def check_pools(self, gpu_types: Sequence[str | None]) -> None:
        """Raise `UsageError` where a pool may be of several types of the log."""
        types = [name or self.gpu or UNNAMED for name in gpu_types]
        check_pools(self.book, types)

    def plan(
        self,
        gpu_type: str | None,
        name: str,
        use: GpusInUse,
        months: Sequence[tuple[str, int, int]],
    ) -> CommitmentPlan:
        """Return the dollars of commitments on a chosen type.

        Args:
            gpu_type: as the log names it.
            name: for people.
            use: of GPUs of the type.
            months: as `CommitmentPlan` has them.

        Raises:
            UsageError: the type has no price on demand.
        """
        owned = [pool for pool in self.pools(gpu_type) if pool.market == OWNED]
        today, until = self.today(gpu_type)
        is_known = bool(self.book.inputs) or any(
            price.gpus is not None for price in self._prices(gpu_type)
        )
        return CommitmentPlan(
            use=use,
            gpu_type=name,
            offers=self.offers(gpu_type),
            on_demand_usd=self._on_demand(gpu_type),
            owned_gpus=sum(pool.gpus for pool in owned),
            in_force=today if is_known else None,
            in_force_until=until,
            months=months,
        )

    def today(self, gpu_type: str | None) -> tuple[tuple[tuple[int, Fraction], ...], str]:
        """Return GPUs and price of each commitment in force, and the day the last one ends."""
        typed = [price for price in self._prices(gpu_type) if price.gpus is not None]
        if typed:
            return tuple((p.gpus, p.offer.usd_per_gpu_h) for p in typed if p.gpus), ""
        pools = [pool for pool in self.pools(gpu_type) if pool.market == COMMITTED]
        return tuple((pool.gpus, pool.usd_per_gpu_h) for pool in pools), self._last_day(pools)

    def _last_day(self, pools: Sequence[PaidPool]) -> str:
        """Return the day on which the last of some pools ends; empty where one never does."""
        until_us = max((pool.until_us for pool in pools), default=FOREVER_US)
        if until_us == FOREVER_US:
            return ""
        return f"{time_of(until_us, self.zone):%Y-%m-%d}"

    def _prices(self, gpu_type: str | None) -> tuple[CommitPrice, ...]:
        """Return the prices of ``--commit`` of a type: its own, else those of every type."""
        name = self._name_of((price.gpu_type for price in self.prices), gpu_type, "--commit")
        return tuple(price for price in self.prices if price.gpu_type == (name or ""))

    def offers(self, gpu_type: str | None) -> tuple[TermOffer, ...]:
        """Return the prices that are offered: today's are one only where there is no other."""
        prices = self._prices(gpu_type)
        if prices:
            offered = [price for price in prices if price.gpus is None] or prices
            return tuple(price.offer for price in offered)
        committed = [pool for pool in self.pools(gpu_type) if pool.market == COMMITTED]
        return (TermOffer(committed[-1].usd_per_gpu_h),) if committed else ()

    def pools(self, gpu_type: str | None) -> list[PaidPool]:
        """Return the pools of the book in force at the end, in the order in which they fill."""
        return pools_in_force(self.book, gpu_type or self.gpu or UNNAMED, self.end_us - 1)

    def _on_demand(self, gpu_type: str | None) -> Fraction:
        price = self.on_demand.get(gpu_type)
        if price is not None:
            return Fraction(str(price.usd_per_gpu_h))
        dated = self._price_at_end(gpu_type)
        if dated is not None:
            return dated.usd_per_gpu_h
        listed_price = self._listed(gpu_type)
        if listed_price is not None:
            return Fraction(str(listed_price.usd_per_gpu_h))
        if self.on_demand.usd_per_gpu_h:
            self.on_demand.of(gpu_type)  # raises: it has prices of other types
        name = gpu_type or self.gpu or UNNAMED
        raise UsageError(
            f"{self.book.option}: no pay-per-use price of {name} at the end of the log\n"
            f"  next: --on-demand {name}=USD"
        )

    def _listed(self, gpu_type: str | None) -> Price | None:
        """Return the price of the price list; None where it has none."""
        return None if self.list_prices is None else self.list_prices.get(gpu_type)

    def _price_at_end(self, gpu_type: str | None) -> DatedPrice | None:
        names = (price.gpu_type for price in self.book.prices)
        name = self._name_of(names, gpu_type, self.book.option)
        dated = () if name is None else self.book.prices_of(name)
        return next((p for p in reversed(dated) if p.from_us < self.end_us), None)

    def _name_of(self, names: Iterable[str], gpu_type: str | None, option: str) -> str | None:
        """Return which name means a type of the log; jobs that name none are ``unknown``."""
        named = gpu_type or self.gpu or UNNAMED
        return match_types(names, [named], option)[named]


def check_names(
    options: Mapping[str, Sequence[str]], log_types: Sequence[str | None], gpu: str | None
) -> None:
    """Refuse names in options that are no GPU type of a log, or one type that is named twice.

    Args:
        options: each with the names that it gives; the empty name is every type.
        log_types: as the log has them.
        gpu: the type of jobs that name none.

    Raises:
        UsageError: such a name; the message has the types of the log.
    """
    types = [name or gpu for name in log_types]
    named = [name for name in types if name]
    for option, names in options.items():
        meant = set(match_types(names, types, option).values())
        unknown = [name for name in dict.fromkeys(names) if name and name not in meant]
        if not unknown:
            continue
        if not named:
            raise UsageError(
                f"{option} {unknown[0]}: the log names no GPU types\n"
                f"  next: --gpu {unknown[0]} as well"
            )
        twice = next((name for name in named if same_gpu(unknown[0], name)), None)
        if twice is not None:
            raise UsageError(
                f"{option} {unknown[0]}: may be the {twice} of the log, which {option} names too\n"
                f"  next: keep one of the two"
            )
        raise UsageError(
            f"{option} {unknown[0]}: no job of the log is on {listed(unknown, 6)}\n"
            f"  next: a GPU type of the log: {listed(named, 6)}"
        )
