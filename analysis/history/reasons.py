"""Why jobs wait: the groups of Slurm's and Kueue's reasons (``wait_reasons.toml``)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

NO_REASON = "None"
"""What sacct writes where nothing but priority or resources ever held a job."""
QUEUED = ("queue", "quota", "pending")
"""Groups of reasons that free GPUs and quotas would end."""
NOT_SAID = "Pending"
"""What Kueue says of a workload that it has not looked at, or not said more about."""
NOT_SCHEDULED = "NotScheduled"
"""Stands for the wait of a pod of which the log does not say why it is not scheduled."""
ADMISSION = "AdmissionChecks"
"""Stands for the time from the reservation of quota to the admission of a workload."""
LIMITS, QUEUE, DEPENDENCY, ARRAY, HELD, BEGIN, UNKNOWN = (
    "limits", "queue", "dependency", "array", "held", "begin", "unknown",
)  # fmt: skip
NOT_ELIGIBLE = "NotEligible"
"""Stands for the time before a job is eligible where the log does not say why: a dependency, a
hold or a begin time."""


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """A group of reasons.

    Attributes:
        key: its name in the table.
        title: its name in answers.
        names: reasons in it.
        beginnings: of reasons in it.
    """

    key: str
    title: str
    names: frozenset[str]
    beginnings: tuple[str, ...]


@cache
def reason_groups() -> dict[str, ReasonGroup]:
    """Return the groups by key, in the order of the table."""
    groups = {}
    for key, entry in _table().items():
        if key == "limit_names":
            continue
        patterns: list[str] = entry["reasons"]
        names = frozenset(each.lower() for each in patterns if not each.endswith("*"))
        beginnings = tuple(each[:-1].lower() for each in patterns if each.endswith("*"))
        groups[key] = ReasonGroup(key, entry["title"], names, beginnings)
    return groups


@cache
def group_of(reason: str) -> ReasonGroup:
    """Return the group of a reason: by its name, else by the longest beginning."""
    text, groups = reason.strip().lower(), reason_groups().values()
    for group in groups:
        if text in group.names:
            return group
    fits = [
        (len(beginning), group)
        for group in groups
        for beginning in group.beginnings
        if text.startswith(beginning)
    ]
    return max(fits, key=lambda fit: fit[0])[1]


def limit_name(reason: str) -> str | None:
    """Return what people call a limit; None where the table does not say."""
    name: str | None = _table()["limit_names"].get(reason)
    return name


@cache
def _table() -> dict[str, Any]:
    text = Path(__file__).with_name("wait_reasons.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
