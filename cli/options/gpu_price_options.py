"""The option ``--price``: what an hour of an owned GPU costs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.analysis.base.amounts import parse_usd
from gpuplan.cli.app.option_text import COMMON

if TYPE_CHECKING:
    from gpuplan.analysis.bill import GpuPrices


@dataclass(frozen=True, slots=True)
class GpuPriceChoice:
    """What owned GPUs cost."""

    price: Annotated[
        list[str] | None,
        COMMON,
        typer.Option(
            metavar="USD|TYPE=USD,...",
            help="Dollars per GPU-hour of owned GPUs: 1.29 for every GPU, or by GPU type: "
            "H100=3.5,A100=2. May be repeated.",
            show_default=False,
        ),
    ] = None

    def prices(self) -> GpuPrices | None:
        """Return the prices; None where none is given. Raises `UsageError`."""
        from gpuplan.analysis.bill import GpuPrices

        found = parse_usd(self.price or [], "--price")
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
            help="Time that is charged. log: from the first submission to the last submission or "
            "end of a run, the same for all policies. run: to each policy's own last finish."
        ),
    ] = BillingWindow.log
