"""The settings of Allpass by name, and the parameters they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from gpuplan.planner.money.renting_settings import (
    LADDER,
    OF_PRICES,
    RENTED,
    SERVERLESS,
    offers_of,
    shown_offers,
)
from gpuplan.planner.runs.settings import Setting, SettingError, check_values, with_defaults
from gpuplan.simkit.allpass.parameters import (
    CONTROLLERS,
    LONGEST_S,
    MOST_KEPT,
    QUEUE_ORDERS,
    SCALE_OUT_RULES,
    SCALING_RULES,
    THRESHOLD_RULES,
    WINDOW_STEP_S,
    Allpass,
    StartUp,
)

PROVIDERS = ("serverless", "marketplace", "conventional")
PRICES = {
    "serverless_usd_per_gpu_h": "serverless_price",
    "conventional_usd_per_gpu_h": "conventional_price",
}


def _plain(parameters: Allpass) -> dict[str, Any]:
    """Return the values of all fields, also by the names of their settings."""
    values = {field.name: getattr(parameters, field.name) for field in fields(parameters)}
    values |= {name: values[field] for name, field in PRICES.items()}
    return values | {"min_threshold_s": parameters.least_threshold_s}


def _startups(parameters: Allpass) -> dict[str, float]:
    times = {}
    for provider in PROVIDERS:
        startup: StartUp = getattr(parameters, f"{provider}_startup")
        times[f"{provider}_startup_s"] = startup.mean_s
        times[f"{provider}_startup_sd_s"] = startup.sd_s
    return times


_USUAL = _plain(Allpass()) | _startups(Allpass())
SETTINGS: dict[str, Setting] = {
    "controller": Setting("choice", "moves the threshold or leaves it", CONTROLLERS),
    "threshold_s": Setting(
        "duration",
        "run time after which a job leaves its container; inf: never",
        unlimited=True,
    ),
    "threshold_rule": Setting("choice", "which threshold binds a running job", THRESHOLD_RULES),
    "scale_out": Setting(
        "choice", "rents for all that wait, or for those due in the window", SCALE_OUT_RULES
    ),
    "scaling": Setting("choice", "how far work drives the pool", SCALING_RULES[:2]),
    "capacity": Setting("count", "most workers (GPUs) rented at once", unlimited=True),
    "serverless_limit": Setting(
        "count", "most GPUs in containers at once", unlimited=True, at_least=1
    ),
    **SERVERLESS,
    "serverless_billing_step_s": Setting(
        "duration", "step of time a container is billed in; 0: as held"
    ),
    "serverless_minimum_billing_s": Setting("duration", "least time a container is billed for"),
    "conventional_usd_per_gpu_h": RENTED["conventional_usd_per_gpu_h"],
    **LADDER,
    **{
        f"{provider}_startup_{part}s": Setting("duration", f"{word} start-up time, {provider}")
        for provider in PROVIDERS
        for part, word in (("", "mean"), ("sd_", "standard deviation of the"))
    },
    **OF_PRICES,
    "pricing": RENTED["pricing"],
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
        "duration",
        "longest that a marketplace worker is held; inf: no end",
        unlimited=True,
        at_least=1,
    ),
    "billing_step_s": RENTED["billing_step_s"],
    "minimum_billing_s": RENTED["minimum_billing_s"],
    "checkpoint_s": Setting("duration", "time to save a job, in its container"),
    "restore_s": Setting("duration", "time to load it, on its workers"),
    "tick_s": Setting("duration", "time between two decisions of the scalers", at_least=1),
    "window_s": Setting(
        "duration",
        "how far ahead deadlines count, a multiple of 1 min",
        at_most=LONGEST_S,
        at_least=WINDOW_STEP_S,
        multiple_of=WINDOW_STEP_S,
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
SETTINGS = with_defaults(SETTINGS, _USUAL)


HPA: dict[str, Setting] = {
    "target_utilization": Setting(
        "number", "busy share of the workers aimed at", above=0.0, at_most=1
    ),
    "utilization_tolerance": Setting("number", "how far the share may be off, relative to it"),
    "stabilization_s": Setting(
        "duration", "for how long the most workers desired are kept", at_most=LONGEST_S
    ),
    "min_workers": Setting("count", "fewest workers (GPUs) rented", at_least=1, at_most=MOST_KEPT),
    "queue_order": Setting("choice", "which waiting job takes idle workers first", QUEUE_ORDERS),
}
HPA = with_defaults(HPA, _USUAL)
"""Settings of Kubernetes' horizontal pod autoscaler alone."""


def parameters_from(values: Mapping[str, Any], fixed: Mapping[str, Any] | None = None) -> Allpass:
    """Return the parameters that named values make, besides those that are ``fixed``.

    Raises:
        UsageError: values that no run can have, alone or together.
    """
    check_values(SETTINGS | HPA, values)
    values = {**values, **(fixed or {})}
    _check_thresholds(values)
    plain = {field.name for field in fields(Allpass)}
    named = {PRICES.get(name, name): value for name, value in values.items()}
    changes = {name: value for name, value in named.items() if name in plain}
    changes["marketplace_prices"] = offers_of(values)
    for provider in PROVIDERS:
        changes[f"{provider}_startup"] = StartUp(
            *(
                values.get(name, SETTINGS[name].default)
                for name in (f"{provider}_startup_s", f"{provider}_startup_sd_s")
            )
        )
    return Allpass(**changes)


def _check_thresholds(values: Mapping[str, Any]) -> None:
    """Raise `SettingError` where the threshold and its limits do not fit together."""
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
    if lowest is not None and lowest > highest:
        raise SettingError(
            ["min_threshold_s", "max_threshold_s"],
            f"min_threshold_s must be at most max_threshold_s, got {lowest:g} and {highest:g}",
        )


def settings_of(parameters: Allpass) -> dict[str, Any]:
    """Return the effective value of every setting; the offers as the list of their prices.

    Offers that change are ``market``: days, steps, how many there are and their median price.
    """
    values = _plain(parameters)
    result: dict[str, Any] = {}
    for name in SETTINGS:
        if name == "marketplace_offers":
            result |= shown_offers(parameters.offers)
        elif name in values:
            result[name] = values[name]
    return result | _startups(parameters)
