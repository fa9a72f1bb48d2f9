"""Options that say what an hour of a GPU costs, and which time is charged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.base.amounts import parse_usd
from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.shared_options import PRICES_PANEL, Reference

if TYPE_CHECKING:
    from gpuplan.planner.money.price_book import Prices
    from gpuplan.planner.money.price_request import PriceRequest


def price_option(text: str, metavar: str, panel: str | None = PRICES_PANEL) -> Any:
    """Return an option of prices."""
    return typer.Option(help=text, metavar=metavar, rich_help_panel=panel, show_default=False)


UnnamedGpu = price_option("GPU type of jobs that name none, such as A100-80GB.", "NAME")


@dataclass(frozen=True, slots=True)
class PriceChoice:
    """What an hour of a GPU costs."""

    price: Annotated[
        list[str] | None,
        COMMON,
        price_option(
            "Dollars per GPU-hour: 1.29 for every GPU, or by GPU type: A100=2,T4=0.5. May be "
            "repeated.",
            "USD|TYPE=USD,...",
        ),
    ] = None
    prices: Annotated[
        str | None,
        price_option(
            "Take the on-demand price of each GPU type from a table made by [bold]gpuplan "
            "prices[/bold] (.parquet), or [bold]builtin[/bold]: the median over providers.",
            "FILE|builtin",
        ),
    ] = None
    provider: Annotated[
        str | None,
        price_option(
            "Use the --prices of this provider only, such as aws or aws:spot.", "NAME[:KIND]"
        ),
    ] = None

    def request(self, gpu: str | None = None) -> PriceRequest:
        """Return the library's form of these options; ``gpu`` is that of jobs that name none.

        Raises `UsageError` on a bad value.
        """
        from gpuplan.planner.money.price_request import PriceRequest

        return PriceRequest(
            parse_usd(self.price or [], "--price"), self.prices, gpu=gpu, provider=self.provider
        )


@dataclass(frozen=True, slots=True)
class LogPriceChoice(PriceChoice):
    """What an hour of the GPUs of a log costs."""

    gpu: Annotated[str | None, UnnamedGpu] = None


@dataclass(frozen=True, slots=True)
class OwnedPriceChoice:
    """What owned GPUs cost."""

    price: Annotated[
        list[str] | None,
        COMMON,
        price_option(
            "Dollars per GPU-hour of owned GPUs: 1.29 for every GPU, or by GPU type: "
            "H100=3.5,A100=2. May be repeated.",
            "USD|TYPE=USD,...",
            panel=None,
        ),
    ] = None

    def prices_given(self) -> Prices | None:
        """Return the prices; None where none is given. Raises `UsageError`."""
        from gpuplan.planner.money.price_book import Prices  # imports polars

        usd_per_gpu_h = parse_usd(self.price or [], "--price")
        return Prices(usd_per_gpu_h) if usd_per_gpu_h else None


@dataclass(frozen=True, slots=True)
class MarketPriceChoice(OwnedPriceChoice):
    """What owned GPUs cost, and what all sources of a price table ask."""

    prices: Annotated[
        str | None,
        COMMON,
        price_option(
            "GPU prices: a table made by [bold]gpuplan prices[/bold] (.parquet), or "
            "[bold]builtin[/bold] for gpuplan's own list.",
            "FILE|builtin",
        ),
    ] = None
    gpu: Annotated[str | None, COMMON, UnnamedGpu] = None
    reference: Reference = None

    def request(self) -> PriceRequest:
        """Return the library's form of these options. Raises `UsageError` on a bad value."""
        from gpuplan.planner.money.price_request import PriceRequest

        for name in ("gpu", "reference") if self.prices is None else ():
            if getattr(self, name) is not None:
                raise UsageError(f"--{name}: needs --prices FILE or builtin")
        return PriceRequest(parse_usd(self.price or [], "--price"), self.prices, gpu=self.gpu)


class BillingWindow(StrEnum):
    """What policies are charged for; `gpuplan.planner.studies.replay.WINDOWS`."""

    log = "log"
    run = "run"


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """The time that policies are charged for."""

    window: Annotated[
        BillingWindow,
        typer.Option(
            help="Time that is charged. log: from the first submission to the last submission or "
            "end of a run, the same for all policies. run: to each policy's own last finish."
        ),
    ] = BillingWindow.log
