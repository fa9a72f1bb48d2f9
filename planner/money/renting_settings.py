"""The settings by which policies rent GPUs: offers of a marketplace, prices, billing steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuplan.analysis.base.time_units import DAY_US
from gpuplan.planner.runs.settings import Setting, SettingError, with_defaults
from gpuplan.simkit.renting.billing import PRICING_RULES, RentalTerms
from gpuplan.simkit.renting.market import MOST_OFFERS, Market, price_ladder
from gpuplan.simkit.time import FOREVER

LADDER: dict[str, Setting] = {
    "marketplace_offers": Setting(
        "count", "marketplace offers, one GPU each", at_most=MOST_OFFERS, default=50
    ),
    "marketplace_min_usd_per_gpu_h": Setting("usd", "price of the cheapest offers", default=0.38),
    "marketplace_median_usd_per_gpu_h": Setting("usd", "median price of the offers", default=1.08),
    "marketplace_max_usd_per_gpu_h": Setting(
        "usd", "price of the most expensive offers", default=1.66
    ),
}
"""Offers that never change."""

RENTED: dict[str, Setting] = {
    "conventional_usd_per_gpu_h": Setting(
        "usd", "price of a conventional cloud's GPU-hour", default=1.29
    ),
    **LADDER,
    "pricing": Setting(
        "choice", "which price of its offer a rental costs", PRICING_RULES, default="request"
    ),
    "billing_step_s": Setting(
        "duration", "step of time a rental is billed in; 0: as held", default=0.0
    ),
    "minimum_billing_s": Setting("duration", "least time a rental is billed for", default=0.0),
}
"""By which GPUs are rented."""

SERVERLESS: dict[str, Setting] = {
    "serverless_usd_per_gpu_h": Setting("usd", "price of a serverless GPU-hour", default=2.10)
}
"""What GPUs in containers cost."""

OF_PRICES: dict[str, Setting] = {
    name: Setting("text", about, unlimited=True, looked_up_in="--prices FILE or builtin")
    for name, about in (
        ("provider", "marketplace of --prices"),
        ("gpu", "GPU of --prices"),
        ("region", "region of the marketplace of --prices"),
        ("serverless_provider", "serverless provider of --prices"),
        ("conventional_provider", "conventional cloud of --prices"),
    )
}
"""What chooses among prices; `gpuplan.planner.money.price_settings.with_prices` uses it up."""

OF_CLUSTER: dict[str, Setting] = {
    "usd_per_gpu_h": Setting(
        "usd",
        "price of every GPU; none: that of --prices on demand, the conventional one, or of offers",
        unlimited=True,
    ),
    **with_defaults(RENTED, {"marketplace_offers": 0}),
    **{name: setting for name, setting in OF_PRICES.items() if name != "serverless_provider"},
}
"""By which a cluster is paid for: every GPU at the price of the conventional cloud unless set."""

CLUSTER_PRICES = "cluster_prices"
"""Beside ``usd_per_gpu_h``: what GPUs of each type cost, owned and committed ones among them."""


def priced_values(defaults: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every setting: a given price of offers asks for the usual number."""
    asks = "marketplace_offers" not in typed and not LADDER.keys().isdisjoint(typed)
    offers = {"marketplace_offers": LADDER["marketplace_offers"].default} if asks else {}
    return {**defaults, **offers, **typed}


def offers_of(values: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the prices of offers that never change, one each, ascending.

    Raises:
        SettingError: the least, median and greatest price do not ascend.
    """
    number, *ladder = (values.get(name, setting.default) for name, setting in LADDER.items())
    prices = list(LADDER)[1:]
    least, median, most = ladder
    if not least <= median <= most:
        unset = [name for name in prices if name not in values]
        raise SettingError(
            [name for name in prices if name in values],
            "the cheapest, median and most expensive offer must ascend, found "
            f"{least:g}, {median:g} and {most:g} USD per GPU-hour",
            f"set {' and '.join(unset)} too" if unset else None,
        )
    return price_ladder(number, least, median, most)


def terms_of_rental(values: Mapping[str, Any]) -> RentalTerms:
    """Return the terms that the values of `RENTED` make. Raises `SettingError` as `offers_of`."""
    return RentalTerms(
        offers=values.get("market") or Market.constant(offers_of(values)),
        conventional_price=values["conventional_usd_per_gpu_h"],
        pricing=values["pricing"],
        billing_step_s=values["billing_step_s"],
        minimum_billing_s=values["minimum_billing_s"],
    )


def shown_offers(offers: Market) -> dict[str, Any]:
    """Return offers as settings: their prices, or days, steps, numbers and the median price."""
    if offers.period_us == FOREVER:
        prices = [float(price) for price in np.round(offers.price, 6)]
        return {"marketplace_offers": len(prices), "marketplace_usd_per_gpu_h": prices}
    market = {
        "days": offers.period_us / DAY_US,
        "steps": offers.start_us.size,
        "least_offers": int(offers.offers.min()),
        "most_offers": int(offers.offers.max()),
        "median_usd_per_gpu_h": offers.median_usd,
    }
    return {"market": market}


def shown_terms(terms: RentalTerms) -> dict[str, Any]:
    """Return terms as the effective values of `RENTED`."""
    return {
        "conventional_usd_per_gpu_h": terms.conventional_price,
        **shown_offers(terms.offers),
        "pricing": terms.pricing,
        "billing_step_s": terms.billing_step_s,
        "minimum_billing_s": terms.minimum_billing_s,
    }


def idle_of_market(
    terms: RentalTerms, *, reclaim: bool = False, grace_s: float = 0.0
) -> tuple[str, ...]:
    """Return what to say of settings that need offers which change, where these never do."""
    notes = ("grace_s has no effect without reclaim=true",) if grace_s > 0 and not reclaim else ()
    idle = ["reclaim=true"] if reclaim else []
    idle += ["pricing=in-force"] if terms.pricing == "in-force" else []
    if not idle or terms.offers.start_us.size > 1:
        return notes
    change = "has" if len(idle) == 1 else "have"
    return (
        *notes,
        f"{' and '.join(idle)} {change} no effect, because these offers never change; "
        "--prices FILE, a table of gpuplan prices, has offers that do",
    )
