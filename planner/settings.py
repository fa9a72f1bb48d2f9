"""What a policy lets the user set, described so that a front end can read it from text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.schema import CENTURY_S
from gpuplan.simkit.allpass.market import MOST_USD
from gpuplan.simkit.workload import MOST_GPUS

UNITS = {"duration": "s", "durations": "s", "usd": "USD"}
MOST = {"duration": CENTURY_S, "durations": CENTURY_S, "usd": MOST_USD, "count": MOST_GPUS}
"""The greatest value by kind, where a setting has no other; prices are of a GPU-hour."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter of a policy.

    Attributes:
        kind: ``duration`` (seconds), ``usd`` (US dollars), ``number``, ``durations`` and
            ``numbers`` (tuples of them), ``count`` (a whole number), ``flag`` (a bool), ``text`` or
            ``choice``.
        about: what it is, for people.
        choices: the words a ``choice`` may have.
        unlimited: whether ``none`` stands for no limit (for a duration: ``inf``).
        at_most: the greatest value where it is not that of `MOST`.
    """

    kind: str
    about: str
    choices: tuple[str, ...] = ()
    unlimited: bool = False
    at_most: float | None = None

    @property
    def most(self) -> float | None:
        """The greatest value it may have; None where only the policy knows."""
        return MOST.get(self.kind) if self.at_most is None else self.at_most

    @property
    def unit(self) -> str | None:
        """The unit of its values; None for plain numbers and words."""
        return UNITS.get(self.kind)


OF_PRICES = {
    name: Setting("text", about, unlimited=True)
    for name, about in (
        ("provider", "marketplace of --prices"),
        ("gpu", "GPU of --prices"),
        ("region", "region of the marketplace of --prices"),
        ("serverless_provider", "serverless provider of --prices"),
        ("conventional_provider", "conventional cloud of --prices"),
    )
}
"""What chooses among prices; `gpuplan.planner.allpass.prices.with_prices` uses it up."""


def refuse_choice(values: Mapping[str, Any]) -> None:
    """Raise `UsageError` where settings still choose among prices: there are none."""
    for name in OF_PRICES:
        if values.get(name) is not None:
            raise UsageError(f"--set {name}: needs --prices FILE or builtin")
