"""What may be set of the policies that lend GPUs as spot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.planner.money.renting_settings import OF_CLUSTER
from gpuplan.planner.policies.cluster_settings import SHARED
from gpuplan.planner.runs.cluster_setting import SIZES
from gpuplan.planner.runs.settings import Setting, SettingError, with_defaults
from gpuplan.simkit.spot.parameters import BOUNDS, ETA_RULES, SCHEDULERS, SpotScheduler

FORECASTS = ("auto", "last-value", "orglinear", "last-week-peak", "exact")
"""What high-priority demand may be bounded by."""

GFS = "Duan et al., GFS, ASPLOS 2026"
ABOUT: dict[str, tuple[str, str]] = {
    "gfs": ("lends what a forecast leaves idle", GFS),
    "gfs-e": ("GFS with last week's peak in place of the forecast", GFS),
    "gfs-d": ("GFS with a quota that does not follow evictions", GFS),
    "gfs-s": ("GFS that only packs: nodes are not kept apart by priority and evictions", GFS),
    "gfs-p": ("GFS with random nodes and victims of evictions", GFS),
    "gfs-sp": ("GFS that only packs, with random victims", GFS),
    "yarn-cs": ("evicts the newest runs", "Hadoop capacity scheduler"),
    "lyra": (
        "spot and high priority on nodes of their own; evicts the fewest",
        "after Li et al., Lyra, EuroSys 2023",
    ),
    "fgd": (
        "least growth of fragmentation, for placement and eviction",
        "Weng et al., FGD, ATC 2023",
    ),
    "chronus": (
        "spot holds leases of 5 minutes that are not renewed where others need the GPUs",
        "after Gao et al., Chronus, SoCC 2021 (greedy)",
    ),
    "static-quota": ("first fit; spot may hold a fixed share of the GPUs", "textbook"),
    "spot-first-fit": ("first come, first served, on the first node that fits", "textbook"),
}
"""Policy -> what it does, and where it comes from."""

KERNEL_NAMES = {"spot-first-fit": "first-fit"}
"""Policies that `SCHEDULERS` calls otherwise."""

RENAMED = {"checkpoint_s": "checkpoint_every_s"}
"""Field of `SpotScheduler` -> the setting, where that is called otherwise."""
FIELDS = fields(SpotScheduler)

LONGEST_S, LONGEST_STOP_S = 12_000 * DAY_S, 12 * DAY_S
"""Longest wait or time between checkpoints, and longest stop."""

OF_QUOTA: dict[str, Setting] = {
    "forecast": Setting(
        "choice",
        "what high-priority demand is bounded by: auto (the best model in validation, fitted to "
        "the hours before), last-value, orglinear, last-week-peak, or exact (the future itself)",
        FORECASTS,
        default="auto",
    ),
    "p": Setting(
        "number",
        "probability with which demand stays below its bound",
        at_least=0.5,
        at_most=0.9999,
    ),
    "aggregate": Setting(
        "choice", "bound of the pool's demand, or the sum of the bounds of all groups", BOUNDS
    ),
    "eta_rule": Setting(
        "choice",
        "how the quota follows evictions: towards the rate 1 - p (target), towards p (literal), "
        "or not (fixed)",
        ETA_RULES,
    ),
    "eviction_target": Setting(
        "number",
        "share of spot runs evicted that the quota is steered to; none: 1 - p, or p",
        above=0.0,
        at_most=1,
        unlimited=True,
    ),
    "eta_falls_above": Setting(
        "number",
        "the quota falls above this many times the target of evictions",
        at_least=1,
        at_most=1e6,
    ),
    "eta_rises_below": Setting(
        "number", "the quota may rise below this many times the target of evictions", at_most=1
    ),
    "eta_min": Setting("number", "least factor of the quota", at_most=100),
    "eta_max": Setting("number", "greatest factor of the quota", at_most=100),
    "longest_wait_s": Setting(
        "duration", "spot waits above this raise the quota", at_most=LONGEST_S
    ),
}
STEERED = (
    "eviction_target",
    "longest_wait_s",
    *(name for name in OF_QUOTA if name.startswith("eta_")),
)
"""Settings of a quota that follows evictions."""

OF_ALL: dict[str, Setting] = {
    "guarantee_h": Setting(
        "count", "hours for which a spot run is guaranteed", at_least=1, at_most=24
    ),
    "blocking": Setting("flag", "whether a job that does not fit holds up those behind it"),
    "checkpoint_every_s": Setting(
        "duration", "run time between checkpoints of a spot job", at_least=1, at_most=LONGEST_S
    ),
    "milestones": Setting(
        "numbers",
        "parts of a spot job's run time at which it saves a checkpoint, in place of "
        "checkpoint_every_s; such as 0.25/0.5/0.75",
        optional=True,
        at_least=1e-6,
        at_most=0.999999,
    ),
    "milestones_s": Setting(
        "durations",
        "the same in seconds of its work, such as 30m/2h",
        optional=True,
        at_least=1,
        at_most=LONGEST_S,
    ),
    "grace_s": Setting("duration", "how long an evicted job works on", at_most=LONGEST_STOP_S),
    "restart_s": Setting(
        "duration", "start-up after an eviction, up to 8 GPUs", at_most=LONGEST_STOP_S
    ),
    "restart_gang_s": Setting(
        "duration", "start-up after an eviction above 8 GPUs", at_most=LONGEST_STOP_S
    ),
    "tick_s": Setting("duration", "time between updates of the quota", at_least=1, at_most=86_400),
    "drain_s": Setting(
        "duration",
        "how long after the last submission jobs may still finish",
        default=30.0 * DAY_S,
    ),
    "spot_usd_per_gpu_h": Setting(
        "usd", "what spot jobs pay (--spot-price); none: 30% of the GPUs' price", unlimited=True
    ),
}
SPOT_PRICE_SHARE = 0.3
"""What spot costs, of the price of a GPU, where nobody says; assumed."""


def lends(settings: Collection[str]) -> bool:
    """Return whether a policy with these settings lends GPUs as spot."""
    return "spot_usd_per_gpu_h" in settings


def scheduler_of(policy: str) -> SpotScheduler:
    """Return the rules of a policy as they are unless set."""
    return SCHEDULERS[KERNEL_NAMES.get(policy, policy)]


def settings_of(policy: str) -> dict[str, Setting]:
    """Return what may be set of a policy, by name."""
    usual = scheduler_of(policy)
    settings = dict(OF_ALL)
    if usual.quota == "forecast":
        settings = {**OF_QUOTA, **settings}
        if policy == "gfs-d":
            settings = {name: setting for name, setting in settings.items() if name not in STEERED}
    elif usual.quota == "share":
        settings = {"quota_share": Setting("number", "share of the GPUs", at_most=1), **settings}
    if usual.victims == "gfs":
        settings["beta"] = Setting(
            "number", "weight of wasted work against the eviction rate", at_most=1e6
        )
    if usual.avoids_heat:
        settings["heat_limit"] = Setting(
            "count",
            "heat from which a node takes no spot pods of whole GPUs; an eviction there counts 96 "
            "for an hour and 1 for a day",
            at_least=1,
        )
    if usual.leases:  # they end on a checkpoint, and nothing is evicted within one
        for name in ("grace_s", "checkpoint_every_s", "milestones", "milestones_s"):
            del settings[name]
    if policy == "gfs-e":
        settings = with_defaults(settings, {"forecast": "last-week-peak"})
    values = {RENAMED.get(field.name, field.name): _of(usual, field.name) for field in FIELDS}
    size = {name: SHARED[name] for name in SIZES}
    return {**size, **with_defaults(settings, values), **OF_CLUSTER}


def _of(scheduler: SpotScheduler, field: str) -> Any:
    """Return a field as a setting: nothing for no milestones."""
    value = getattr(scheduler, field)
    return None if value == () else value


def scheduler_with(policy: str, values: Mapping[str, Any]) -> SpotScheduler:
    """Return the rules of a policy under settings.

    Raises:
        SettingError: the limits of eta do not fit together.
    """
    usual, settings = scheduler_of(policy), settings_of(policy)
    if "eta_min" in settings and values["eta_min"] > values["eta_max"]:
        raise SettingError(
            ["eta_min", "eta_max"],
            f"eta_min must be at most eta_max, got {values['eta_min']:g} and {values['eta_max']:g}",
        )
    changes: dict[str, Any] = {}
    for field in FIELDS:
        name, default = RENAMED.get(field.name, field.name), getattr(usual, field.name)
        if name not in settings:
            continue
        value = values[name]
        if isinstance(default, bool):
            value = bool(value)
        elif isinstance(default, int):
            value = round(value)
        changes[field.name] = () if value is None and default == () else value
    return replace(usual, **changes)
