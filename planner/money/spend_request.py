"""What ``gpuplan forecast --spend`` is asked besides the jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Group, Opt, changed_options, json_parameters
from gpuplan.planner.money.price_request import PriceRequest

MOST_MONTHS, USUAL_MONTHS = 12, 3
AUTO = "auto"
LAST_MONTH, MEAN_OF_3, DRIFT, SEASONAL = "last-month", "mean-of-3", "drift", "seasonal"
SPEND_MODELS = {
    LAST_MONTH: "use as in the last month",
    MEAN_OF_3: "the mean of use as in each of the last three months",
    DRIFT: "use as in the last month, growing as all GPU-hours have",
    SEASONAL: "each day as its weekday in the last 8 weeks",
}
"""What is chosen among, with what each says of a month; of equal ones the first, the simplest."""


@dataclass(frozen=True, slots=True)
class SpendRequest:
    """Whether dollars are forecast, and at which prices.

    Attributes:
        spend: dollars of the next months, not GPUs of the next hours.
        months: whole months ahead; None for the usual number.
        prices: what GPUs cost.
    """

    PANEL: ClassVar[str] = "Spend"

    spend: Annotated[
        bool,
        Opt(
            "Forecast the dollars of the next months, by --by and month, at the prices of "
            "--contracts or --price.",
            flag="--spend",
            key=None,
            common=True,
        ),
    ] = False
    months: Annotated[
        int | None,
        Opt(
            f"With --spend: months ahead. Default: {USUAL_MONTHS}.",
            low=1,
            high=MOST_MONTHS,
            common=True,
        ),
    ] = None
    prices: Annotated[PriceRequest, Group(common=("contracts",), rare=("usd_per_gpu_h",))] = field(
        default_factory=PriceRequest
    )

    def check(self, log: Path) -> None:
        """Check what can be checked before the log is read.

        Raises `UsageError`, and `InputError` where there is neither a price nor a log.
        """
        if not self.spend:
            for name in changed_options(self):
                raise UsageError(f"--{name.replace('_', '-')}: only with --spend")
        else:
            self.prices.check_given(log)
        if not 1 <= self.months_ahead <= MOST_MONTHS:
            raise UsageError(f"--months: expected 1 to {MOST_MONTHS}, got {self.months}")

    @property
    def months_ahead(self) -> int:
        """Whole months ahead, as given or the usual number."""
        return USUAL_MONTHS if self.months is None else self.months

    def parameters(self) -> dict[str, Any]:
        """Return what JSON has of it under ``parameters``."""
        return json_parameters(self) | {"months": self.months_ahead}
