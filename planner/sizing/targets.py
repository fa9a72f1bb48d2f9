"""Targets that a cluster size must meet: on waits, and on slowdowns.

A target is met where a sum over the jobs is at most 0, so that it is judged in resamples by sums:

    mean <= L        sum of x - L
    P95 <= L         jobs with x > L, less 5% of all: at most so many may exceed the limit
    share over T     jobs with x > T, less the share of all
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from gpuplan.analysis.base.amounts import NO_LIMIT, parse_duration, parse_share, parse_time
from gpuplan.analysis.base.errors import UsageError, shortened
from gpuplan.simkit.arrays import FloatArray

WAIT, SLOWDOWN = "wait", "slowdown"
MEAN, PERCENTILE, OVER = "mean", "percentile", "over"
ROUNDING = 1e-9
TARGET = re.compile(
    r"\s*(?:(?P<statistic>mean|median|max|p\d{1,2}(?:\.\d+)?|p100)_)?(?P<quantity>wait|slowdown)"
    r"(?:_over_(?P<over>[\w.]+?))?(?P<seconds>_s)?"
    r"(?:\[\s*(?P<by>\w+)\s*=\s*(?P<group>[^\]]+?)\s*\])?\s*<=\s*(?P<limit>\S.*?)\s*"
)
FORMS = (
    "p95_wait <= 1h, mean_wait <= 2m, wait_over_10m <= 5% (share of jobs that wait longer), "
    "mean_slowdown <= 2"
)


@dataclass(frozen=True, slots=True)
class Target:
    """One target.

    Attributes:
        text: as given.
        quantity: ``wait`` in seconds, or ``slowdown``, JCT over run time.
        statistic: ``mean``, ``percentile``, or ``over``: the share of jobs above a value.
        at: the percentile, or the value; 0 for a mean.
        limit: most that the statistic may be; a share for ``over``.
        group: whose jobs count, such as ``("account", "vision")``; None for all jobs.
    """

    text: str
    quantity: str
    statistic: str
    at: float
    limit: float
    group: tuple[str, str] | None = None

    @property
    def least(self) -> float:
        """The statistic where no job waits."""
        ideal = 0.0 if self.quantity == WAIT else 1.0
        return float(ideal > self.at) if self.statistic == OVER else ideal

    def value(self, values: FloatArray) -> float:
        """Return the statistic of the values of all jobs; of none the `least`."""
        if not values.size:
            return self.least
        if self.statistic == MEAN:
            return float(values.mean())
        if self.statistic == PERCENTILE:
            return float(np.percentile(values, self.at))
        return float((values > self.at).mean())

    def text_of(self, value: float) -> str:
        """Return a value of the statistic with its unit."""
        if self.statistic == OVER:
            return f"{value:.1%}"
        if self.quantity == SLOWDOWN or value < 120:
            return f"{value:.3g}" if self.quantity == SLOWDOWN else f"{value:.3g} s"
        return f"{value / 3600:.3g} h" if value >= 7200 else f"{value / 60:.3g} min"

    def is_met(self, value: float) -> bool:
        """Return whether a value of the statistic meets the target."""
        return value <= self.limit

    def excess(self, values: FloatArray) -> FloatArray:
        """Return a number per job; the target is met where their sum is at most 0.

        A percentile is met where at most the remaining share of the jobs exceeds the limit, without
        the interpolation between two jobs that `value` makes.
        """
        excess: FloatArray
        if self.statistic == MEAN:
            excess = values - self.limit
        elif self.statistic == PERCENTILE:
            excess = (values > self.limit).astype(np.float64) - (1 - self.at / 100)
        else:
            excess = (values > self.at).astype(np.float64) - self.limit
        return excess


def parse_target(text: str) -> Target:
    """Return the target of ``p95_wait <= 1h``.

    Raises:
        UsageError: the text is not a target, or its limit cannot be read.
    """
    match = TARGET.fullmatch(text)
    option = f"--target {shortened(text)!r}"
    if match is None:
        raise UsageError(f"{option}: expected a target such as {FORMS}")
    statistic, quantity, over = match["statistic"], match["quantity"], match["over"]
    limit, is_in_s = match["limit"], match["seconds"] is not None
    group = None if match["by"] is None else (match["by"], match["group"])
    if over is not None:
        if statistic is not None:
            raise UsageError(f"{option}: a share of jobs has no {statistic}; write {quantity}_over")
        at = _amount(over, quantity, option, is_in_s)
        return Target(text.strip(), quantity, OVER, at, parse_share(limit, option), group)
    if statistic is None and quantity == WAIT:
        raise UsageError(f"{option}: say which wait: mean_wait, p95_wait, or wait_over_10m")
    most = _amount(limit, quantity, option, is_in_s)
    if statistic in (None, "mean"):
        return Target(text.strip(), quantity, MEAN, 0.0, most, group)
    at = {"median": 50.0, "max": 100.0}.get(statistic) or float(statistic[1:])
    if quantity not in (WAIT, SLOWDOWN) or not 0 < at <= 100:
        raise UsageError(f"{option}: expected a percentile above 0")
    return Target(text.strip(), quantity, PERCENTILE, at, most, group)


def _amount(text: str, quantity: str, option: str, is_in_s: bool) -> float:
    """Return seconds for a wait, which needs a unit if it is not in seconds; else a ratio."""
    if quantity == "wait":
        if text.strip().lower() in NO_LIMIT:
            raise UsageError(f"{option}: expected a duration such as 90s, 45m, 48h or 2d")
        return (parse_duration if is_in_s else parse_time)(text, option)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{option}: expected a number, such as mean_slowdown <= 2")
    return value


def whole_multiple(gpus: float, step: int, *, up: bool = True) -> int:
    """Return the multiple of a step at or above a number of GPUs, or at or below it; >= step."""
    count = ceil(gpus / step - ROUNDING) if up else floor(gpus / step + ROUNDING)
    return max(1, count) * step
