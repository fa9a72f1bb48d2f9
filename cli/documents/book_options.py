"""Which study takes which option of a price book that is given once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.cli.documents.studies import study_options

REPLAYS = ("simulate", "compare", "sweep")
"""Where ``[prices] gpu`` is a setting of policies, not an option."""

NOT_TAKEN = {"size": ("commit", "on_demand")}
"""Command -> options of its own that have the name of one of ``[prices]`` and another meaning."""

OF_TABLE = {"provider": ("prices",), "reference": ("prices",)}
ONLY_WITH = {
    "characterize": {
        "gpu": ("prices", "price", "contracts", "commit", "owned", "on_demand"), **OF_TABLE,
    },
}  # fmt: skip
"""Command -> an option that it refuses -> without one of these others; else those of a table."""


def takes_price(command: str, option: str, value: Any) -> bool:
    """Return whether a study takes an option of the price book."""
    known = study_options(command).get(option)
    if known is None or option in NOT_TAKEN.get(command, ()):
        return False
    # Several GPUs are a mix, for a command that plans for one.
    return known.multiple or not isinstance(value, list | dict)


def usable(command: str, handed: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that a study refuses for want of another.

    Args:
        command: the study.
        handed: what all studies are given.
        own: its own options.
    """
    needed, left = ONLY_WITH.get(command, OF_TABLE), dict(handed)
    for _ in needed:  # one may need another that is left out
        there = left.keys() | own.keys()
        left = {
            key: value
            for key, value in left.items()
            if not there.isdisjoint(needed.get(key, (key,)))
        }
    return left


def book_options(command: str, prices: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a study takes of a price book, by the names of its options."""
    taken = {key: value for key, value in prices.items() if takes_price(command, key, value)}
    taken = usable(command, taken, own)
    settings = gpu_setting(command, {**taken, **own}, prices)
    return {**taken, "set": settings} if settings and "set" not in own else taken


def gpu_setting(command: str, options: Mapping[str, Any], prices: Mapping[str, Any]) -> list[str]:
    """Return the setting of a replay that chooses the GPU of a price table, if it takes one."""
    gpu = prices.get("gpu")
    is_chosen = command in REPLAYS and options.get("prices") and isinstance(gpu, str)
    return [f"gpu={gpu}"] if is_chosen else []
