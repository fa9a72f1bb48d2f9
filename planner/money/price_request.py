"""The price book that options ask for, and the price of a GPU-hour with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import UnsetType

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt, json_parameters
from gpuplan.analysis.base.words import price_text
from gpuplan.analysis.prices.contracts import DatedPrice, PaidPool
from gpuplan.analysis.storage.files import STANDARD_INPUT, existing_file
from gpuplan.planner.money.pool_texts import (
    Dated,
    on_demand_texts,
    parse_on_demand,
    parse_pools,
    parse_prices,
    pool_texts,
    price_steps,
    stated_prices,
)

NO_PRICE = (
    "no price: say what a GPU-hour costs\n"
    "  next: --price 1.29, --contracts FILE.toml, or --prices builtin with the GPU type"
)


class MissingPrice(UsageError):
    """A GPU type has no price."""


class NoServerlessPrice(MissingPrice):
    """GPU types have prices, but none of serverless GPUs."""


MOST_USD_PER_GPU_H = 1_000_000.0
"""A higher price must be a mistake of units."""
NAMED = 6  # offers that a text lists


BOOK_PARAMETERS: Mapping[str, Any] = {
    "contracts": Annotated[str | UnsetType, "the price book"],
    "commit": Annotated[list[str] | UnsetType, "GPUs committed to, TYPE=GPUS@USD"],
    "owned": Annotated[list[str] | UnsetType, "GPUs owned, TYPE=GPUS@USD"],
    "on_demand": Annotated[list[str] | UnsetType, "prices of GPUs above these, TYPE=USD"],
}
"""Keys of JSON ``parameters`` where a request shows its book only if there is one."""


@dataclass(frozen=True, slots=True)
class Price:
    """A price of a GPU-hour.

    Attributes:
        usd_per_gpu_h: the price.
        gpu_type: the GPU as the offers name it; null where only a number was given.
        source: the price table, or ``--price``.
        offers: ``provider:kind`` of each offer that it is the median of.
        as_of: until when the oldest of them is known to hold; null where not known.
    """

    usd_per_gpu_h: float
    gpu_type: str | None = None
    source: str = "--price"
    offers: tuple[str, ...] = ()
    as_of: datetime | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.usd_per_gpu_h <= MOST_USD_PER_GPU_H:
            of = f"{self.gpu_type}=" if self.gpu_type else ""
            raise UsageError(
                f"{self.source} {of}{self.usd_per_gpu_h:g}: must be from 0 to "
                f"{MOST_USD_PER_GPU_H:,.0f} dollars per GPU-hour"
            )

    @property
    def text(self) -> str:
        """The price with where it comes from, for people."""
        price = f"${price_text(self.usd_per_gpu_h)} per {self.gpu_type or 'GPU'}-hour"
        if not self.offers:
            return f"{price} ({self.source})"
        more = f" and {len(self.offers) - NAMED} more" if len(self.offers) > NAMED else ""
        of = "median of " if len(self.offers) > 1 else ""
        when = "" if self.as_of is None else f", as of {self.as_of:%Y-%m-%d}"
        return f"{price} ({of}{', '.join(self.offers[:NAMED])}{more}; {self.source}{when})"


def check_provider(provider: str | None, prices: str | None) -> None:
    """Raise `UsageError` for a provider of no price table."""
    if provider is not None and prices is None:
        raise UsageError("--provider: needs --prices FILE or builtin")


@dataclass(frozen=True, slots=True)
class PriceRequest:
    """What GPUs cost: the one price book, in full or in short.

    A type's price is that of ``contracts`` or ``on_demand``, else its own in ``usd_per_gpu_h``,
    else that of every other type there, else that of ``prices``.

    Attributes:
        usd_per_gpu_h: type -> US dollars per GPU-hour, or these by the date from which they hold;
            the empty name is every other type.
        prices: a price table or ``builtin``.
        gpu: the type of jobs that name none.
        provider: the provider in that table, such as ``aws`` or ``aws:spot``; None for the median
            over all, on demand.
        contracts: a price book.
        commit, owned, on_demand: entries of the book in short.
        option: the option that gave the prices, for messages.
    """

    PANEL: ClassVar[str] = "Prices"

    usd_per_gpu_h: Annotated[
        Mapping[str, float | Dated],
        Opt(
            "Dollars per GPU-hour: 1.29, by type A100=2,T4=0.5, or by date A100=2,2026-04-01:3. "
            "May be repeated.",
            flag="--price",
            parse=parse_prices,
            write=stated_prices,
            metavar="USD|TYPE=USD,...",
            common=True,
            many=True,
        ),
    ] = field(default_factory=dict)
    prices: Annotated[
        str | None,
        Opt(
            "Take the on-demand price of each GPU type from a table made by [bold]gpuplan "
            "prices[/bold] (.parquet), or [bold]builtin[/bold]: the median over providers.",
            metavar="FILE|builtin",
            reads=True,
        ),
    ] = None
    gpu: Annotated[
        str | None,
        Opt("GPU type of jobs that name none, such as A100-80GB.", metavar="NAME"),
    ] = None
    provider: Annotated[
        str | None,
        Opt(
            "Use the --prices of this provider only, such as aws or aws:spot.",
            metavar="NAME[:KIND]",
        ),
    ] = None
    contracts: Annotated[
        Path | None,
        Opt(
            "Price book: GPUs owned, commitments, and prices by date (.toml). Types that it has no "
            "price of take --price or --prices.",
            metavar="FILE.toml",
        ),
    ] = None
    commit: Annotated[
        tuple[PaidPool, ...],
        Opt(
            "GPUs committed to and paid for whether used or not: A100=32@0.90. May be repeated.",
            parse=parse_pools,
            write=pool_texts,
            metavar="TYPE=GPUS@USD",
            many=True,
        ),
    ] = ()
    owned: Annotated[
        tuple[PaidPool, ...],
        Opt(
            "GPUs that you own, in place of those of --contracts: A100=128, at no cost, or at an "
            "amortized rate A100=128@0.35. They take work first. May be repeated.",
            parse=parse_pools,
            write=pool_texts,
            metavar="TYPE=GPUS[@USD]",
            many=True,
        ),
    ] = ()
    on_demand: Annotated[
        tuple[DatedPrice, ...],
        Opt(
            "Price of GPUs above those owned and committed: A100=1.60. May be repeated.",
            parse=parse_on_demand,
            write=on_demand_texts,
            metavar="TYPE=USD",
            many=True,
        ),
    ] = ()
    option: str = "--price"

    def __post_init__(self) -> None:
        check_provider(self.provider, self.prices)
        for name, usd in self.usd_per_gpu_h.items():
            for step in price_steps(usd):
                Price(float(step.usd_per_gpu_h), name, self.option)

    @property
    def has_book(self) -> bool:
        """Whether there is a contracts file, or an entry of one in short."""
        return self.contracts is not None or bool(self.commit or self.owned or self.on_demand)

    @property
    def is_own(self) -> bool:
        """Whether there is a price that is not a table's."""
        return bool(self.usd_per_gpu_h) or self.has_book

    @property
    def is_given(self) -> bool:
        """Whether there is any price."""
        return self.is_own or self.prices is not None

    def check_given(self, log: Path) -> None:
        """Refuse a request without a price.

        Raises:
            InputError: nor is there such a log, which is worth more to know.
            UsageError: there is no price.
        """
        if self.is_given:
            return
        if log != STANDARD_INPUT and not log.exists():
            existing_file(log)
        raise UsageError(NO_PRICE)

    def book_parameters(self) -> dict[str, Any]:
        """Return what JSON has under ``parameters`` of the contracts and pools that are given."""
        shown = json_parameters(self)
        names = ("contracts", "commit", "owned", "on_demand")
        return {name: shown[name] for name in names if shown[name]}
