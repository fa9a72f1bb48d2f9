"""Which prices are asked for, and the price of a GPU-hour with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar

from gpuplan.analysis.base.amounts import parse_usd
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt

NO_PRICE = (
    "no price: say what a GPU-hour costs\n"
    "  next: --price 1.29, or --prices builtin with the GPU type"
)
MOST_USD_PER_GPU_H = 1_000_000.0
"""A higher price must be a mistake of units."""
NAMED = 6  # offers that a text lists


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
        price = f"${self.usd_per_gpu_h:.4g} per {self.gpu_type or 'GPU'}-hour"
        if not self.offers:
            return f"{price} ({self.source})"
        more = f" and {len(self.offers) - NAMED} more" if len(self.offers) > NAMED else ""
        of = "median of " if len(self.offers) > 1 else ""
        when = "" if self.as_of is None else f", as of {self.as_of:%Y-%m-%d}"
        return f"{price} ({of}{', '.join(self.offers[:NAMED])}{more}; {self.source}{when})"


@dataclass(frozen=True, slots=True)
class PriceRequest:
    """Which prices GPUs have.

    Attributes:
        usd_per_gpu_h: type -> US dollars per GPU-hour; the empty name is every other type.
        prices: a price table or ``builtin``, for types without a price of their own.
        gpu: the type of jobs that name none, to look its price up.
        provider: the provider in that table, such as ``aws`` or ``aws:spot``; None for the median
            over all, on demand.
        option: the option that gave the prices, for messages.
    """

    PANEL: ClassVar[str] = "Prices"

    usd_per_gpu_h: Annotated[
        Mapping[str, float],
        Opt(
            "Dollars per GPU-hour: 1.29 for every GPU, or by GPU type: A100=2,T4=0.5. May be "
            "repeated.",
            flag="--price",
            parse=parse_usd,
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
    option: str = "--price"

    def __post_init__(self) -> None:
        if self.provider is not None and self.prices is None:
            raise UsageError("--provider: needs --prices FILE or builtin")
        for name, usd in self.usd_per_gpu_h.items():
            Price(usd, name, self.option)

    @property
    def is_given(self) -> bool:
        """Whether there is any price."""
        return bool(self.usd_per_gpu_h) or self.prices is not None

    def check_given(self) -> None:
        """Raise `UsageError` where there is no price."""
        if not self.is_given:
            raise UsageError(NO_PRICE)
