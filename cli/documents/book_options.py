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
BOOK = ("prices", "price", "gpu", "contracts", "commit", "owned", "on_demand")
ONLY_WITH: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "characterize": {
        "gpu": ("prices", "price", "contracts", "commit", "owned", "on_demand"), **OF_TABLE,
    },
    "forecast": {**dict.fromkeys(BOOK, ("spend",)), "provider": ("prices",)},
}  # fmt: skip
"""Command -> an option that it refuses -> without one of these others; else those of a table."""


def takes_price(command: str, name: str, value: Any) -> bool:
    """Return whether a study takes an option of the price book."""
    option = study_options(command).get(name)
    if option is None or name in NOT_TAKEN.get(command, ()):
        return False
    # Several GPUs are a mix, for a command that plans for one.
    return option.multiple or not isinstance(value, list | dict)


def usable(command: str, shared: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that a study refuses for want of another.

    Args:
        command: the study.
        shared: what all studies are given.
        options: those of this study alone.
    """
    needs, usable_options = ONLY_WITH.get(command, OF_TABLE), dict(shared)
    for _ in needs:  # one may need another that is left out
        names = usable_options.keys() | options.keys()
        usable_options = {
            name: value
            for name, value in usable_options.items()
            if not names.isdisjoint(needs.get(name, (name,)))
        }
    return usable_options


def book_options(
    command: str, prices: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a study takes of a price book, by the names of its options."""
    shared = {name: value for name, value in prices.items() if takes_price(command, name, value)}
    shared = usable(command, shared, options)
    settings = gpu_setting(command, {**shared, **options}, prices)
    return {**shared, "set": settings} if settings and "set" not in options else shared


def gpu_setting(command: str, options: Mapping[str, Any], prices: Mapping[str, Any]) -> list[str]:
    """Return the setting of a replay that chooses the GPU of a price table, if it takes one."""
    gpu = prices.get("gpu")
    is_chosen = command in REPLAYS and options.get("prices") and isinstance(gpu, str)
    return [f"gpu={gpu}"] if is_chosen else []
