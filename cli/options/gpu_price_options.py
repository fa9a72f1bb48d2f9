"""The option ``--price``: what an hour of a GPU of one's own costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.errors import UsageError, shortened
from gpuplan.cli.app.option_text import COMMON

if TYPE_CHECKING:
    from gpuplan.analysis.bill import GpuPrices


@dataclass(frozen=True, slots=True)
class GpuPriceChoice:
    """What GPUs of one's own cost."""

    price: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            metavar="USD|TYPE=USD",
            help="Dollars per GPU-hour of one's own GPUs: 1.29, or H100=3.5 for one GPU type. "
            "May be repeated.",
            show_default=False,
        ),
    ] = None

    def prices(self) -> GpuPrices | None:
        """Return the prices; None where none is given. Raises `UsageError`."""
        return read_prices(self.price or ())


def read_prices(texts: Sequence[str]) -> GpuPrices | None:
    """Return prices from ``1.29`` or ``H100=3.5``; None for no text. Raises `UsageError`."""
    from gpuplan.analysis.bill import GpuPrices

    found: dict[str, float] = {}
    for text in texts:
        name, _, number = (part.strip() for part in text.rpartition("="))
        try:
            usd = float(number)
        except ValueError:
            usd = float("nan")
        if usd != usd or ("=" in text and not name):
            raise UsageError(
                f"--price must be dollars per GPU-hour such as 1.29, or TYPE=USD, got "
                f"{shortened(text)!r}"
            )
        if name in found:
            raise UsageError(f"--price: {name or 'the price of every GPU'} is given twice")
        found[name] = usd
    return GpuPrices(found) if found else None


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
            help="Time that is charged. log: from the first submission to the last recorded end, "
            "the same for all policies. run: to each policy's own last finish."
        ),
    ] = BillingWindow.log
