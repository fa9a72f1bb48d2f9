"""Which prices GPUs have, as asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from gpuplan.analysis.base.amounts import parse_usd
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt


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
        Opt("Use the --prices of this provider only, such as aws or aws:spot.", metavar="NAME"),
    ] = None
    option: str = "--price"

    def __post_init__(self) -> None:
        if self.provider is not None and self.prices is None:
            raise UsageError("--provider: needs --prices FILE or builtin")
        from gpuplan.analysis.bill import GpuPrices  # reads tables

        GpuPrices(self.usd_per_gpu_h)

    @property
    def is_given(self) -> bool:
        """Whether there is any price."""
        return bool(self.usd_per_gpu_h) or self.prices is not None

    def check_given(self) -> None:
        """Raise `UsageError` where there is no price."""
        if not self.is_given:
            raise UsageError(
                "no price: say what a GPU-hour costs\n"
                "  next: --price 1.29, or --prices builtin with the GPU type"
            )
