"""Options that say what an hour of a GPU costs, and which time is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

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

        return PriceRequest(parse_usd(self.price or [], "--price"), self.prices, self.provider, gpu)


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


def parse_by_type(
    texts: Sequence[str], option: str, default: float | None = None
) -> dict[str, float]:
    """Return a number above 0 by GPU type from ``A100=2.5`` or ``A100=2.5,T4=1``.

    Args:
        texts: the values of the option.
        option: its name, for the messages.
        default: the number of a type without one; None where each needs one.

    Raises:
        UsageError: a text is not such a pair, a number is not above 0, or a type is repeated.
    """
    found: dict[str, float] = {}
    for text in _parts(texts):
        name, equals, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number) if equals else default
        except ValueError:
            value = None
        if not name or value is None or not 0 < value < float("inf"):
            raise UsageError(f"{option} {text!r}: expected TYPE=NUMBER above 0, such as A100=2.5")
        once(found, name, option)
        found[name] = value
    return found


def parse_usd(texts: Sequence[str], option: str) -> dict[str, float]:
    """Return dollars per GPU-hour from ``1.29``, ``A100=2.5`` and ``A100=2.5,T4=1``.

    The empty name is every type.

    Raises:
        UsageError: a text is not such a price, or a type is repeated.
    """
    found: dict[str, float] = {}
    for text in _parts(texts):
        name, _, number = (part.strip() for part in text.rpartition("="))
        try:
            usd = float(number)
        except ValueError:
            usd = -1.0
        if not 0 < usd < float("inf") or "=" in name or ("=" in text and not name):
            raise UsageError(
                f"{option} {text!r}: expected dollars per GPU-hour above 0, such as 1.29, or "
                "TYPE=USD such as A100=2.5,T4=1"
            )
        once(found, name, option)
        found[name] = usd
    return found


def _parts(texts: Sequence[str]) -> list[str]:
    """Return what is between commas; a text of commas and blanks only stays as it is."""
    return [part for text in texts for part in [p for p in text.split(",") if p.strip()] or [text]]


def once(found: dict[str, float] | dict[str, int], name: str, option: str) -> None:
    """Raise `UsageError` where an option names something twice."""
    if name in found:
        raise UsageError(f"{option}: {name!r} is given twice" if name else f"{option}: given twice")
