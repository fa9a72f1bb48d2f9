"""What a plan is to reach: a mean time, or waits that only a replay can tell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, floor, log10

from gpuplan.analysis.base.amounts import parse_time
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_S

MEAN_TIME, MEAN_WAIT = "mean_jct", "mean_wait"
PERCENTILES = (50, 90, 95, 99)
MEASURES = (MEAN_TIME, MEAN_WAIT, *(f"p{percent}_wait" for percent in PERCENTILES))
NOW = "now"
MINUTE_S = 60.0
TARGET = re.compile(r"\s*(?P<measure>\w+)\s*<=\s*(?P<limit>\S+)\s*")


@dataclass(frozen=True, slots=True)
class TimeTarget:
    """A bound on times.

    Attributes:
        measure: one of `MEASURES`.
        limit_s: the bound; None for the mean time as recorded.
    """

    measure: str
    limit_s: float | None

    @property
    def is_of_waits(self) -> bool:
        """Whether only a replay tells it."""
        return self.measure != MEAN_TIME

    @property
    def percent(self) -> float | None:
        """The percentile; None for a mean."""
        return None if self.measure in (MEAN_TIME, MEAN_WAIT) else float(self.measure[1:-5])

    def limit(self, now_s: float) -> float:
        """Return the bound, seconds, where the mean time as recorded is ``now_s``."""
        return now_s if self.limit_s is None else self.limit_s


MEAN_TIME_TARGET = TimeTarget(MEAN_TIME, None)
MEAN_WAIT_TARGET = TimeTarget(MEAN_WAIT, None)
TIMES_OF_RESULTS = {
    "mean_time_s": MEAN_TIME_TARGET,
    "mean_wait_s": MEAN_WAIT_TARGET,
    "p95_wait_s": TimeTarget("p95_wait", None),
}
"""Name in results -> what it measures."""


def parse_target(text: str, flag: str = "--target") -> TimeTarget:
    """Return the target of ``mean_jct <= 3h`` or ``p95_wait <= 1h``. Raises `UsageError`."""
    match = TARGET.fullmatch(text)
    if match is None or match["measure"] not in MEASURES:
        raise UsageError(
            f"{flag} {text!r}: expected 'mean_jct <= now', or a bound on {', '.join(MEASURES)}, "
            "such as 'p95_wait <= 1h'"
        )
    measure, limit = match["measure"], match["limit"]
    if limit != NOW:
        return TimeTarget(measure, parse_time(limit, f"{flag} {measure}"))
    if measure != MEAN_TIME:
        raise UsageError(f"{flag} {text!r}: only mean_jct can be compared with now; give a time")
    return TimeTarget(measure, None)


def time_text(seconds: float) -> str:
    """Return a time as people say it, and as an option takes it: ``45 s``, ``1 min``, ``2.5 h``."""
    for size_s, unit in ((HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= size_s:
            return f"{seconds / size_s:.4g} {unit}"
    return f"{seconds:.3g} s"


def time_above(seconds: float) -> str:
    """Return a time of three digits that is no shorter, as an option takes it: ``2.51h``."""
    size_s, unit = next(
        ((size_s, unit) for size_s, unit in ((HOUR_S, "h"), (MINUTE_S, "m")) if seconds >= size_s),
        (1.0, "s"),
    )
    amount = seconds / size_s
    step = 10.0 ** (floor(log10(amount)) - 2) if amount > 0 else 1.0
    return f"{ceil(amount / step * (1 - 1e-9)) * step:.6g}{unit}"


def write_target(target: TimeTarget | None) -> str | None:
    """Return ``mean_jct <= 10800s``, as JSON has it."""
    if target is None:
        return None
    limit = NOW if target.limit_s is None else f"{target.limit_s:.10g}s"
    return f"{target.measure} <= {limit}"
