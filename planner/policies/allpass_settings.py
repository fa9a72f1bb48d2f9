"""The settings of Allpass by name, and the parameters they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from gpuplan.analysis.base.time_units import DAY_US
from gpuplan.planner.runs.settings import (
    OF_PRICES,
    Setting,
    SettingError,
    refuse_choice,
    setting_error,
)
from gpuplan.simkit.allpass.parameters import (
    CONTROLLERS,
    LONGEST_S,
    PRICING_RULES,
    SCALE_OUT_RULES,
    SCALING_RULES,
    THRESHOLD_RULES,
    Allpass,
    StartUp,
    price_ladder,
)
from gpuplan.simkit.renting.market import MOST_OFFERS

LADDER = {
    "marketplace_offers": 50,
    "marketplace_min_usd_per_gpu_h": 0.38,
    "marketplace_median_usd_per_gpu_h": 1.08,
    "marketplace_max_usd_per_gpu_h": 1.66,
}
PROVIDERS = ("serverless", "marketplace", "conventional")
PRICES = {
    "serverless_usd_per_gpu_h": "serverless_price",
    "conventional_usd_per_gpu_h": "conventional_price",
}

SETTINGS: dict[str, Setting] = {
    "controller": Setting("choice", "moves the threshold or leaves it", CONTROLLERS),
    "threshold_s": Setting(
        "duration", "run time after which a job leaves its container; inf: never", unlimited=True
    ),
    "threshold_rule": Setting("choice", "which threshold binds a running job", THRESHOLD_RULES),
    "scale_out": Setting(
        "choice", "rents for all that wait, or for those due in the window", SCALE_OUT_RULES
    ),
    "scaling": Setting("choice", "how far work drives the pool", SCALING_RULES[:2]),
    "capacity": Setting("count", "most workers (GPUs) rented at once", unlimited=True),
    "serverless_limit": Setting("count", "most GPUs in containers at once", unlimited=True),
    "serverless_usd_per_gpu_h": Setting("usd", "price of a serverless GPU-hour"),
    "serverless_billing_step_s": Setting(
        "duration", "step of time a container is billed in; 0: as held"
    ),
    "serverless_minimum_billing_s": Setting("duration", "least time a container is billed for"),
    "conventional_usd_per_gpu_h": Setting("usd", "price of a conventional cloud's GPU-hour"),
    "marketplace_offers": Setting("count", "marketplace offers, one GPU each", at_most=MOST_OFFERS),
    "marketplace_min_usd_per_gpu_h": Setting("usd", "price of the cheapest offers"),
    "marketplace_median_usd_per_gpu_h": Setting("usd", "median price of the offers"),
    "marketplace_max_usd_per_gpu_h": Setting("usd", "price of the most expensive offers"),
    **{
        f"{provider}_startup_{part}s": Setting("duration", f"{word} start-up time, {provider}")
        for provider in PROVIDERS
        for part, word in (("", "mean"), ("sd_", "standard deviation of the"))
    },
    **OF_PRICES,
    "pricing": Setting("choice", "which price of its offer a rental costs", PRICING_RULES),
    "reclaim": Setting("flag", "whether an offer that is gone takes its worker back"),
    "save_every_s": Setting(
        "duration",
        "work after which a job is saved, for when its workers are reclaimed",
        unlimited=True,
    ),
    "grace_s": Setting(
        "duration", "notice before a worker is taken back, in which its job may be saved"
    ),
    "lease_s": Setting(
        "duration", "longest that a marketplace worker is held; inf: no end", unlimited=True
    ),
    "billing_step_s": Setting("duration", "step of time a rental is billed in; 0: as held"),
    "minimum_billing_s": Setting("duration", "least time a rental is billed for"),
    "checkpoint_s": Setting("duration", "time to save a job, in its container"),
    "restore_s": Setting("duration", "time to load it, on its workers"),
    "tick_s": Setting("duration", "time between two decisions of the scalers"),
    "window_s": Setting(
        "duration", "how far ahead deadlines count, a multiple of 1 min", at_most=LONGEST_S
    ),
    "min_threshold_s": Setting(
        "duration", "lower limit of the adaptive threshold; unset: what a move takes"
    ),
    "max_threshold_s": Setting("duration", "upper limit of the adaptive threshold"),
    "gain_up_s": Setting("duration", "rise of the threshold per tick and unit of pressure over 1"),
    "limit_up_s": Setting("duration", "most it rises per tick"),
    "gain_down_s": Setting("duration", "fall of the threshold per tick and unit under 1"),
    "limit_down_s": Setting("duration", "most it falls per tick"),
    "max_pressure": Setting("number", "cap on the pressure"),
}


def parameters_from(values: Mapping[str, Any]) -> Allpass:
    """Return the parameters that named values make; what is not named keeps its default.

    Raises:
        UsageError: values that no run can have, alone or together.
    """
    plain = {field.name for field in fields(Allpass)}
    refuse_choice(values)
    given = {PRICES.get(name, name): value for name, value in values.items()}
    changes = {name: value for name, value in given.items() if name in plain}
    _check(values)
    try:
        if LADDER.keys() & values.keys():
            changes["marketplace_prices"] = price_ladder(
                *(values.get(name, default) for name, default in LADDER.items())
            )
        defaults = Allpass()
        for provider in PROVIDERS:
            usual: StartUp = getattr(defaults, f"{provider}_startup")
            changes[f"{provider}_startup"] = StartUp(
                values.get(f"{provider}_startup_s", usual.mean_s),
                values.get(f"{provider}_startup_sd_s", usual.sd_s),
            )
        return Allpass(**changes)
    except ValueError as error:
        called = {parameter: name for name, parameter in PRICES.items()}
        raise setting_error(error, {**SETTINGS, **values}, called) from error


def _check(values: Mapping[str, Any]) -> None:
    """Raise `SettingError`, which names settings and a next step, before `Allpass` raises."""
    ladder = list(LADDER)[1:]
    least, median, most = (values.get(name, LADDER[name]) for name in ladder)
    if not least <= median <= most:
        others = [name for name in ladder if name not in values]
        raise SettingError(
            [name for name in ladder if name in values],
            "the cheapest, median and most expensive offer must ascend, found "
            f"{least:g}, {median:g} and {most:g} USD per GPU-hour",
            f"set {' and '.join(others)} too" if others else None,
        )
    usual = Allpass()
    controller, first, lowest, highest = (
        values.get(name, getattr(usual, name))
        for name in ("controller", "threshold_s", "min_threshold_s", "max_threshold_s")
    )
    if controller == "adaptive" and not (lowest or 0.0) <= first <= highest:
        name, limit = (
            ("max_threshold_s", highest) if first > highest else ("min_threshold_s", lowest)
        )
        fitting = f"{name}={first:g} too, or " if first < np.inf else ""
        raise SettingError(
            ["threshold_s", name],
            f"the adaptive threshold begins at threshold_s={first:g}, beyond {name}={limit:g}",
            f"set {fitting}controller=fixed"
            if "threshold_s" in values
            else f"set threshold_s={limit:g} too",
        )


def idle_of_market(parameters: Allpass) -> tuple[str, ...]:
    """Return what to say of settings that need offers which change, where these never do."""
    notice = parameters.grace_s > 0 and not parameters.reclaim
    notes = ("grace_s has no effect without reclaim=true",) if notice else ()
    idle = ["reclaim=true"] if parameters.reclaim else []
    idle += ["pricing=in-force"] if parameters.pricing == "in-force" else []
    if not idle or parameters.offers.start_us.size > 1:
        return notes
    change = "has" if len(idle) == 1 else "have"
    return (
        *notes,
        f"{' and '.join(idle)} {change} no effect, because these offers never change; "
        "--prices FILE, a table of gpuplan prices, has offers that do",
    )


def default_settings() -> dict[str, Any]:
    """Return the value that every setting has where it is not set."""
    usual = settings_of(Allpass()) | LADDER
    return {name: usual.get(name) for name in SETTINGS}


def settings_of(parameters: Allpass) -> dict[str, Any]:
    """Return the effective value of every setting; the offers as the list of their prices.

    Offers that change are ``market``: days, steps, how many there are and their median price.
    """
    found = {field.name: getattr(parameters, field.name) for field in fields(parameters)}
    found["min_threshold_s"] = parameters.least_threshold_s
    market = parameters.market
    result: dict[str, Any] = {}
    for name in SETTINGS:
        if name in found:
            result[name] = found[name]
        elif name in PRICES:
            result[name] = found[PRICES[name]]
        elif name == "marketplace_offers" and market is not None:
            result["market"] = {
                "days": market.period_us / DAY_US,
                "steps": market.start_us.size,
                "least_offers": int(market.offers.min()),
                "most_offers": int(market.offers.max()),
                "median_usd_per_gpu_h": market.median_usd,
            }
        elif name == "marketplace_offers":
            result[name] = len(parameters.marketplace_prices)
            result["marketplace_usd_per_gpu_h"] = [
                float(price) for price in np.round(parameters.marketplace_prices, 6)
            ]
    for provider in PROVIDERS:
        startup: StartUp = getattr(parameters, f"{provider}_startup")
        result[f"{provider}_startup_s"] = startup.mean_s
        result[f"{provider}_startup_sd_s"] = startup.sd_s
    return result
