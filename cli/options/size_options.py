"""Read the options of ``gpuplan size``: targets, sizes of a curve, growth."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuplan.analysis.errors import UsageError, shortened
from gpuplan.cli.formats.units import NO_LIMIT, parse_duration, parse_share
from gpuplan.cli.options.market_options import MOST_GPUS

if TYPE_CHECKING:
    from gpuplan.planner.sizing.targets import Target
    from gpuplan.planner.studies.size_request import SizeRange

TARGET = re.compile(
    r"\s*(?:(?P<statistic>mean|median|max|p\d{1,2}(?:\.\d+)?|p100)_)?(?P<quantity>wait|slowdown)"
    r"(?:_over_(?P<over>[\w.]+?))?(?:_s)?\s*<=\s*(?P<limit>\S.*?)\s*"
)
FORMS = (
    "p95_wait <= 1h, mean_wait <= 2m, wait_over_10m <= 5% (share of jobs that wait longer), "
    "mean_slowdown <= 2"
)
MOST_SIZES = 1000


def parse_target(text: str) -> Target:
    """Return the target of ``p95_wait <= 1h``.

    Raises:
        UsageError: the text is not a target, or its limit cannot be read.
    """
    from gpuplan.planner.sizing.targets import MEAN, OVER, PERCENTILE, SLOWDOWN, WAIT, Target

    match = TARGET.fullmatch(text)
    option = f"--target {shortened(text)!r}"
    if match is None:
        raise UsageError(f"{option}: expected a target such as {FORMS}")
    statistic, quantity, over = match["statistic"], match["quantity"], match["over"]
    limit = match["limit"]
    if over is not None:
        if statistic is not None:
            raise UsageError(f"{option}: a share of jobs has no {statistic}; write {quantity}_over")
        at = _amount(over, quantity, option)
        return Target(text.strip(), quantity, OVER, at, parse_share(limit, option))
    if statistic is None and quantity == WAIT:
        raise UsageError(f"{option}: say which wait: mean_wait, p95_wait, or wait_over_10m")
    most = _amount(limit, quantity, option)
    if statistic in (None, "mean"):
        return Target(text.strip(), quantity, MEAN, 0.0, most)
    at = {"median": 50.0, "max": 100.0}.get(statistic) or float(statistic[1:])
    if quantity not in (WAIT, SLOWDOWN) or not 0 < at <= 100:
        raise UsageError(f"{option}: expected a percentile above 0")
    return Target(text.strip(), quantity, PERCENTILE, at, most)


def _amount(text: str, quantity: str, option: str) -> float:
    """Return seconds for a wait, or a ratio for a slowdown."""
    if quantity == "wait":
        if text.strip().lower() in NO_LIMIT:
            raise UsageError(f"{option}: expected a duration such as 90s, 45m, 48h or 2d")
        return parse_duration(text, option)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{option}: expected a number, such as mean_slowdown <= 2")
    return value


def parse_sizes(text: str | None) -> tuple[int, ...] | SizeRange | None:
    """Return the sizes of ``64,128``, or the range of ``64:512:8``: 8 sizes from 64 to 512.

    Raises:
        UsageError: the text is neither, or a number is out of range.
    """
    if text is None:
        return None
    if ":" not in text:
        return tuple(dict.fromkeys(_gpus(part, text) for part in text.split(",")))
    from gpuplan.planner.studies.size_request import SizeRange

    parts = text.split(":")
    if len(parts) != 3:
        raise _bad_sizes(text)
    low, high, count = (_gpus(part, text) for part in parts)
    if low > high or not 2 <= count <= MOST_SIZES:
        raise UsageError(
            f"--gpus {shortened(text)!r}: expected LO:HI:N with LO at most HI, and N from 2 to "
            f"{MOST_SIZES:,}"
        )
    return SizeRange(low, high, count)


def _gpus(part: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", part.strip()) or not 1 <= int(part) <= MOST_GPUS:
        raise _bad_sizes(text)
    return int(part)


def _bad_sizes(text: str) -> UsageError:
    return UsageError(
        f"--gpus {shortened(text)!r}: expected whole numbers of GPUs such as 64,128, or LO:HI:N "
        f"such as 64:512:8, each from 1 to {MOST_GPUS:,}"
    )


def parse_growth(text: str | None) -> float:
    """Return 0.2 for ``20%`` or ``0.2``.

    Raises:
        UsageError: the text is not a number, or a number that must be a percentage.
    """
    if text is None:
        return 0.0
    is_percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%")) / (100 if is_percent else 1)
    except ValueError:
        value = float("nan")
    if value != value or (not is_percent and abs(value) > 5):
        raise UsageError(f"--growth {shortened(text)!r}: expected a percentage such as 20%")
    return value
