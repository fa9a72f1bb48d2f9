"""Which study takes which option of a price book that is given once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.cli.documents.studies import study_options
from gpuplan.planner.requests.declaration import NEEDS_TABLE, declaration_of


def takes_price(command: str, name: str, value: Any) -> bool:
    """Return whether a study takes an option of the price book."""
    option, declared = study_options(command).get(name), declaration_of(command)
    if option is None or (declared is not None and name in declared.own_prices):
        return False
    # Several GPUs are a mix, for a command that plans for one.
    return option.multiple or name != "gpu" or not isinstance(value, list | dict)


def usable(command: str, shared: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that a study refuses for want of another.

    Args:
        command: the study.
        shared: what all studies are given.
        options: those of this study alone.
    """
    declared, usable_options = declaration_of(command), dict(shared)
    needs = NEEDS_TABLE if declared is None else declared.book_needs
    left_out = {name for name, value in options.items() if value is False}
    for _ in needs:  # one may need another that is left out
        names = (usable_options.keys() | options.keys()) - left_out
        usable_options = {
            name: value
            for name, value in usable_options.items()
            if name not in needs or not names.isdisjoint(needs[name])
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
    gpu, declared = prices.get("gpu"), declaration_of(command)
    is_setting = declared is not None and declared.gpu_is_setting
    return [f"gpu={gpu}"] if is_setting and options.get("prices") and isinstance(gpu, str) else []
