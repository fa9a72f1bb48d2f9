"""Texts of the options of ``gpuplan plan``: read them, and write them as they are typed."""

from __future__ import annotations

import re

from gpuplan.analysis.base.amounts import parse_duration
from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.elastic.class_options import parse_slower
from gpuplan.simkit.plan.policies import QUEUE_POLICIES

COMMITMENT = "commitment"
LEVERS = {
    COMMITMENT: "--commit",
    "widths": "--speedup",
    "spot": "--spot",
    "serverless": "--serverless",
    "deferral": "--defer",
}
"""Levers of a plan -> the option that gives each."""
NEVER_PER_S = 1e-100
HAZARD = re.compile(r"\s*(?P<losses>\d+\.?\d*|\.\d+)\s*/\s*(?P<time>\S+)\s*")


def parse_bound(text: str, flag: str = "--slower") -> float | None:
    """Return the times of ``1.1x``; None for ``none``. Raises `UsageError`."""
    is_none = text.strip().lower() == "none"
    return None if is_none else parse_slower(text, flag, may_be_faster=True)


def parse_hazard(text: str, flag: str = "--spot-hazard") -> float:
    """Return the losses a second of ``1/12h``. Raises `UsageError`."""
    match = HAZARD.fullmatch(text)
    if match is None:
        raise UsageError(f"{flag} {text!r}: expected losses of a node per time, such as 1/12h")
    time_s = parse_duration(match["time"], flag)
    if time_s <= 0:
        raise UsageError(f"{flag} {text!r}: the time must be above 0")
    losses_per_s = float(match["losses"]) / time_s
    return losses_per_s if losses_per_s > NEVER_PER_S else 0.0


def parse_deferral(text: str, flag: str = "--defer") -> tuple[str, float]:
    """Return the condition and the seconds of ``priority = 'spot':6h``. Raises `UsageError`."""
    condition, colon, within = text.rpartition(":")
    if not colon or not condition.strip():
        raise UsageError(
            f"{flag} {text!r}: expected CONDITION:WITHIN, such as \"priority = 'spot':6h\""
        )
    return condition.strip(), parse_duration(within, f"{flag} WITHIN")


def write_deferral(deferral: tuple[str, float] | None) -> str | None:
    """Return the condition with its time, as JSON has it."""
    return None if deferral is None else f"{deferral[0]}:{deferral[1]:.10g}s"


def parse_levers(text: str, flag: str = "--levers") -> tuple[str, ...]:
    """Return the levers of ``commitment,spot``; none for ``none``. Raises `UsageError`."""
    names = [] if text.strip() == "none" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in LEVERS:
            raise UsageError(
                f"{flag}: found {name!r}, expected some of {', '.join(LEVERS)}, or none"
            )
    return tuple(dict.fromkeys(names))


def write_levers(levers: tuple[str, ...] | None) -> str | None:
    """Return levers as they are typed."""
    return None if levers is None else ",".join(levers) or "none"


def parse_policy(text: str, flag: str = "--policy") -> str:
    """Return a policy of the queue under a cap. Raises `UsageError` with those that there are."""
    name = text.strip()
    if name in QUEUE_POLICIES:
        return name
    raise UsageError(
        f"{flag} {name!r}: expected one of {', '.join(QUEUE_POLICIES)}: the replay of a plan stops "
        "no running job, and reserves nothing\n"
        "  next: gpuplan compare, which replays every policy on a cluster of fixed size"
    )
