"""Notes of a replay without ``--prices`` about the prices it uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuplan.cli.formats.units import show_count
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.money.price_settings import USUAL_GPU
from gpuplan.planner.money.renting_settings import LADDER, priced_values

TIERS = {
    "serverless": ("serverless_usd_per_gpu_h",),
    "marketplace": tuple(LADDER),
    "conventional": ("conventional_usd_per_gpu_h",),
}
"""Tier -> the settings that are its prices."""
ASSUMED = "assumed prices"
"""Begins the note of prices that were not given."""


def price_notes(
    specs: Iterable[PolicySpec], *, are_scaled: bool = False, has_price: bool = False
) -> tuple[str, ...]:
    """Return a note of the prices in force, of the tiers that these policies pay, if any.

    Args:
        specs: with their settings.
        are_scaled: whether ``--price-ratio`` scales those of rented GPUs.
        has_price: whether ``--price`` prices owned GPUs.
    """
    texts: dict[str, dict[str, None]] = {tier: {} for tier in TIERS}
    were_set = set()
    owns, types = False, ()
    for spec in specs:
        values = spec.effective()
        is_cluster = "usd_per_gpu_h" in values
        if is_cluster and (has_price or values["usd_per_gpu_h"] is not None):
            continue
        owns |= is_cluster
        shape = values.get("cluster")
        if is_cluster and shape is not None and len(shape.gpu_types) > 1:
            types = shape.gpu_types
        rents = not is_cluster or bool(priced_values(values, spec.settings)["marketplace_offers"])
        for tier, names in TIERS.items():
            if names[0] in values and (rents or tier != "marketplace"):
                texts[tier][_tier(names, priced_values(values, spec.settings))] = None
                were_set |= {name in spec.settings for name in names}
    parts = [f"{tier} {' or '.join(prices)}" for tier, prices in texts.items() if prices]
    if not parts:
        return ()
    whose = f"{ASSUMED}, of an {USUAL_GPU}"
    if True in were_set:
        whose = "prices as set" + (f", else of an {USUAL_GPU}" if False in were_set else "")
    scaled = ", before --price-ratio" if are_scaled else ""
    for_others = "(for others: --prices FILE, or --prices builtin --set gpu=NAME)"
    if owns:
        more = " with --set serverless_usd_per_gpu_h=USD" if texts["serverless"] else ""
        for_others = f"(--price USD{more} for others)"
    if types:
        for_others = f"for all of {', '.join(types)} (--price TYPE=USD for each)"
    return (f"{whose}: {', '.join(parts)} per GPU-hour{scaled} {for_others}",)


def _tier(names: tuple[str, ...], values: Mapping[str, Any]) -> str:
    if len(names) == 1:
        return _usd(values[names[0]])
    offers, least, median, most = (values[name] for name in names)
    if not offers:
        return "none"
    return f"{show_count(offers)} offers of {_usd(least)} to {_usd(most)} (median {_usd(median)})"


def _usd(value: float) -> str:
    """Return a price; more digits than those of cents where it has them."""
    return f"${value:,.2f}" if round(value, 2) == value else f"${value:g}"
