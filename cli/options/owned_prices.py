"""Options that say what an hour of a GPU costs, for commands that charge owned or rented GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.amounts import parse_usd
from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.shared_options import PRICES_PANEL

if TYPE_CHECKING:
    from gpuplan.planner.pricing.price_request import PriceRequest


@dataclass(frozen=True, slots=True)
class OwnedPriceChoice:
    """What an hour of a GPU costs."""

    price: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            help="Dollars per GPU-hour: 1.29 for every GPU, or by GPU type: A100=2,T4=0.5. May be "
            "repeated.",
            metavar="USD|TYPE=USD,...",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    prices: Annotated[
        str | None,
        typer.Option(
            help="Take the on-demand price of each GPU type from a table made by [bold]gpuplan "
            "prices[/bold] (.parquet), or [bold]builtin[/bold]: the median over providers.",
            metavar="FILE|builtin",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    gpu: Annotated[
        str | None,
        typer.Option(
            help="GPU type of jobs that name none, such as A100-80GB.",
            metavar="NAME",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None
    provider: Annotated[
        str | None,
        typer.Option(
            help="Use the --prices of this provider only, such as aws or aws:spot.",
            metavar="NAME",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None

    def request(self) -> PriceRequest:
        """Return the library's form of these options. Raises `UsageError` on a bad value."""
        from gpuplan.planner.pricing.price_request import PriceRequest

        return PriceRequest(
            parse_usd(self.price or [], "--price"), self.prices, self.gpu, self.provider
        )
