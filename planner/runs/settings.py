"""What a policy lets the user set, described so that a front end can read it from text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuplan.analysis.base.errors import UsageError, brief
from gpuplan.analysis.base.time_units import CENTURY_S
from gpuplan.simkit.renting.market import MOST_USD
from gpuplan.simkit.workload import MOST_GPUS

UNITS = {"duration": "s", "durations": "s", "usd": "USD"}
MOST = {"duration": CENTURY_S, "durations": CENTURY_S, "usd": MOST_USD, "count": MOST_GPUS}
"""The greatest value by kind, where a setting has no other; prices are of a GPU-hour."""

FEWER_JOBS = (
    "leave the longest and the widest jobs out with --where, or shorten all with --scale-duration"
)
LOWER = "set {} lower"
"""What to do about times that are too long: those of jobs, and one that is set."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter of a policy.

    Attributes:
        kind: ``duration`` (seconds), ``usd`` (US dollars), ``number``, ``durations`` and
            ``numbers`` (tuples of them), ``count`` (a whole number), ``flag`` (a bool), ``text``,
            ``choice`` or ``cluster`` (a `ClusterShape`).
        about: what it is, for people.
        choices: the words a ``choice`` may have.
        unlimited: whether ``none`` stands for no limit (for a duration: ``inf``).
        at_most: the greatest value where it is not that of `MOST`.
        optional: whether ``none`` stands for nothing said.
    """

    kind: str
    about: str
    choices: tuple[str, ...] = ()
    unlimited: bool = False
    at_most: float | None = None
    optional: bool = False

    @property
    def most(self) -> float | None:
        """The greatest value it may have; None where only the policy knows."""
        return MOST.get(self.kind) if self.at_most is None else self.at_most

    @property
    def unit(self) -> str | None:
        """The unit of its values; None for plain numbers and words."""
        return UNITS.get(self.kind)


class SettingError(UsageError):
    """Settings with which no run can be made.

    Attributes:
        names: the settings at fault.
        problem: what is wrong with them.
        hint: the next step; it names settings alone, which each command lets one give otherwise.
        options: how they were given; the default of the library is ``--set`` and their names.
    """

    def __init__(
        self, names: Iterable[str], problem: str, hint: str | None = None, options: str = ""
    ) -> None:
        self.names, self.problem, self.hint = tuple(names), problem, hint
        self.options = options
        super().__init__(self.names, problem, hint, options)  # as a worker's errors are sent back

    def __str__(self) -> str:
        where = self.options or f"--set {' and '.join(self.names)}".rstrip()
        hint = f"\n  next: {self.hint}" if self.hint else ""
        return brief(f"{where}: {self.problem}{hint}")

    def given_as(self, given: Mapping[str, str], row: str = "") -> SettingError:
        """Return the error with the options that were typed, and which of several rows is meant.

        Args:
            given: setting -> the option that gave it, where one did.
            row: label of the row.
        """
        if self.options:
            return self
        typed = dict.fromkeys(given[name] for name in self.names if name in given)
        options = " and ".join(typed) or f"--set {' and '.join(self.names)}".rstrip()
        if row and row not in options:
            options += f" (for {row})"
        return SettingError(self.names, self.problem, self.hint, options)


def setting_error(
    error: ValueError, known: Iterable[str], called: Mapping[str, str]
) -> SettingError:
    """Return what a simulator says of its parameters as an error of settings.

    Args:
        error: of the simulator.
        known: settings; those that it names are at fault.
        called: parameter -> setting, where they are called otherwise.
    """
    said = re.sub(r"\w+", lambda word: called.get(word[0], word[0]), str(error))
    words = set(re.findall(r"\w+", said))
    return SettingError((name for name in known if name in words), said)


def check_widest(
    widest: int, most: int | None, name: str, otherwise: str, least: int | None = None
) -> None:
    """Raise `SettingError` where a setting allows fewer GPUs than the widest job holds at once.

    Args:
        widest: GPUs of that job.
        most: what is allowed; None for any number.
        name: the setting.
        otherwise: what comes of it.
        least: what must be allowed where that is more than the job takes.
    """
    if most is not None and widest > most:
        narrower = f", or leave wide jobs out with --where 'num_gpus <= {most}'" if most else ""
        raise SettingError(
            [name],
            f"the widest job takes {widest} GPUs at once and {otherwise}",
            f"allow at least {least or widest}{narrower}",
        )


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
"""What chooses among prices; `gpuplan.planner.money.price_settings.with_prices` uses it up."""


def refuse_choice(values: Mapping[str, Any]) -> None:
    """Raise `SettingError` where settings still choose among prices: there are none."""
    for name in OF_PRICES:
        if values.get(name) is not None:
            raise SettingError([name], "needs --prices FILE or builtin")
