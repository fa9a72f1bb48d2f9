"""What a policy lets the user set, described so that a front end can read it from text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from gpuplan.analysis.base.errors import UsageError, brief
from gpuplan.analysis.base.time_units import CENTURY_S
from gpuplan.simkit.limits import MOST_GPUS
from gpuplan.simkit.renting.market import MOST_USD

UNITS = {"duration": "s", "durations": "s", "usd": "USD"}
MOST = {"duration": CENTURY_S, "durations": CENTURY_S, "usd": MOST_USD, "count": MOST_GPUS}
"""The greatest value by kind, where a setting has no other; prices are of a GPU-hour."""
LISTS = ("numbers", "durations")
"""Kinds of several values, which ascend."""

FEWER_JOBS = (
    "leave the longest and the widest jobs out with --where, or shorten all with --scale-duration"
)
LOWER = "set {} lower"
"""What to do about times that are too long: those of jobs, and one that is set."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter of a policy: what it is, its default, and which values it may have.

    Attributes:
        kind: ``duration`` (seconds), ``usd`` (US dollars), ``number``, ``durations`` and
            ``numbers`` (tuples of them), ``count`` (a whole number), ``flag`` (a bool), ``text``,
            ``choice`` or ``cluster`` (a `ClusterShape`).
        about: what it is, for people.
        choices: the words a ``choice`` may have.
        unlimited: whether ``none`` stands for no limit (for a duration: ``inf``).
        at_most: the greatest value where it is not that of `MOST`.
        optional: whether ``none`` stands for nothing said.
        default: the value where it is not set.
        at_least: the least value.
        above: what a value must exceed, in place of ``at_least``.
        multiple_of: what a value must be a multiple of.
        looked_up_in: where it is looked up before a run, which refuses what is left of it.
    """

    kind: str
    about: str
    choices: tuple[str, ...] = ()
    unlimited: bool = False
    at_most: float | None = None
    optional: bool = False
    _: KW_ONLY
    default: Any = None
    at_least: float = 0.0
    above: float | None = None
    multiple_of: float | None = None
    looked_up_in: str = ""

    @property
    def most(self) -> float | None:
        """The greatest value it may have; None where only the policy knows."""
        return MOST.get(self.kind) if self.at_most is None else self.at_most

    @property
    def unit(self) -> str | None:
        """The unit of its values; None for plain numbers and words."""
        return UNITS.get(self.kind)

    @property
    def range(self) -> str:
        """Which values it may have, in words."""
        if self.kind == "choice":
            return " or ".join(self.choices)
        limits = [] if self.multiple_of is None else [f"a multiple of {self.multiple_of:g}"]
        if self.above is not None:
            limits.append(f"above {self.above:g}")
        elif self.at_least > -math.inf:
            limits.append(f"at least {self.at_least:,.10g}")
        if self.most is not None:
            limits.append(f"at most {self.most:,.10g}")
        limits += ["ascending"] if self.kind in LISTS else []
        limits = limits or ["a number"]
        *first, last = limits
        return f"{', '.join(first)} and {last}" if first else last

    def error(self, name: str, value: Any) -> SettingError | None:
        """Return the error of a value out of range; None for a value that it may have."""
        if value is None or self.kind in ("flag", "text", "cluster"):
            return None
        if self.kind == "choice":
            problem = f"{name} must be {self.range}, got {value!r}"
            return None if value in self.choices else SettingError([name], problem)
        values = tuple(value) if self.kind in LISTS else (value,)
        fitting = sorted({number for number in values if self._fits(number)})
        if fitting == list(values):
            return None
        hint = f"set {name}={_listed(fitting)}" if self.kind in LISTS and fitting else None
        return SettingError([name], f"{name} must be {self.range}, got {_listed(values)}", hint)

    def _fits(self, number: float) -> bool:
        if number == math.inf:
            return self.unlimited
        least = number >= self.at_least if self.above is None else number > self.above
        multiple = self.multiple_of is None or number % self.multiple_of == 0
        return least and multiple and (self.most is None or number <= self.most)


def _listed(numbers: Iterable[float]) -> str:
    return "/".join(f"{number:.10g}" for number in numbers)


def with_defaults(
    settings: Mapping[str, Setting], defaults: Mapping[str, Any]
) -> dict[str, Setting]:
    """Return settings, some with other defaults."""
    return {
        name: replace(setting, default=defaults[name]) if name in defaults else setting
        for name, setting in settings.items()
    }


def defaults_of(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the value of each setting where it is not set."""
    return {name: setting.default for name, setting in settings.items()}


def check_values(settings: Mapping[str, Setting], values: Mapping[str, Any]) -> None:
    """Raise `SettingError` for a value that its setting cannot have in a run.

    Values of other names are left to those who know them.
    """
    for name, value in values.items():
        setting = settings.get(name)
        if setting is None or value is None:
            continue
        if setting.looked_up_in:
            raise SettingError([name], f"needs {setting.looked_up_in}")
        if error := setting.error(name, value):
            raise error


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

    def given_as(self, option_of: Mapping[str, str], row: str = "") -> SettingError:
        """Return the error with the options that were typed, and which of several rows is meant.

        Args:
            option_of: setting -> the option that gave it, where one did.
            row: label of the row.
        """
        if self.options:
            return self
        typed = dict.fromkeys(option_of[name] for name in self.names if name in option_of)
        options = " and ".join(typed) or f"--set {' and '.join(self.names)}".rstrip()
        if row and row not in options:
            options += f" (for {row})"
        return SettingError(self.names, self.problem, self.hint, options)


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
