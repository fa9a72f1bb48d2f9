"""The levels of the model: each has the rules of the ones before it, and one more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuplan.analysis.site.schema import SiteSettings
from gpuplan.simkit.twin.site import SchedulerConfig

NAMED = ("node", "partition", "qos", "account")
"""Tables of settings with a table per name."""
LEVELS = ("fifo", "easy", "bf", "multifactor", "limits", "events")
ADDED = {
    "fifo": "first in, first out",
    "easy": "EASY backfill",
    "bf": "Slurm's backfill",
    "multifactor": "tiers, priorities, fair share",
    "limits": "QOS and account limits",
    "events": "node events",
}
NEEDED_LEVEL = {
    "backfill": "bf", "SelectTypeParameters": "fifo", "default_queue_depth": "fifo",
    "sched_interval": "fifo", "AccountingStorageEnforce": "limits",
    "partition": "fifo", "partition.QOS": "limits", "PriorityTier": "multifactor",
    "PriorityJobFactor": "multifactor", "priority": "multifactor",
    "qos": "limits", "qos.Priority": "multifactor",
    "account": "limits", "Parent": "multifactor", "Fairshare": "multifactor",
    "RawUsage": "multifactor", "event": "events",
}  # fmt: skip
"""Setting, or else its table -> the first level that uses it; the others need none."""
WEIGHTS = {
    "PriorityMaxAge": "Age", "PriorityFavorSmall": "JobSize", "PriorityJobFactor": "Partition",
    "Priority": "QOS", "PriorityFlags": "Fairshare", "PriorityDecayHalfLife": "Fairshare",
    "FairShareDampeningFactor": "Fairshare", "Fairshare": "Fairshare", "RawUsage": "Fairshare",
}  # fmt: skip
"""Setting -> the priority weight without which it does nothing."""


def why_off(keys: Sequence[str], settings: SiteSettings, level: str) -> str:
    """Return why the replayed rules do not use a setting; empty where they do."""
    table = keys[0]
    at = 4 if "user" in keys[2:3] else 2 if table in NAMED else 1
    key = keys[min(at, len(keys) - 1)]
    needed = next(
        (NEEDED_LEVEL[name] for name in (f"{table}.{key}", key, table) if name in NEEDED_LEVEL),
        LEVELS[0],
    )
    p, b = settings.priority, settings.backfill
    if key == "TRESBillingWeights":
        return "the model does not use it"
    if LEVELS.index(level) < LEVELS.index(needed):
        return f"the replayed rules ({level}) do not use it; --level {needed} does"
    if level == "easy" and key in ("default_queue_depth", "sched_interval"):
        return "the replayed rules (easy) do not use it; --level bf does"
    ranked = needed == "multifactor" and key not in ("PriorityTier", "PriorityType", "Parent")
    if ranked and "basic" in p.PriorityType:
        return "PriorityType is priority/basic; set it to priority/multifactor with --together"
    weight = f"PriorityWeight{WEIGHTS.get(key, '')}"
    if ranked and key in WEIGHTS and not getattr(p, weight):
        return f"{weight} is 0; set it too, with --together"
    if table == "backfill" and key.startswith("bf_") and "builtin" in b.SchedulerType:
        return "SchedulerType is sched/builtin; set it to sched/backfill with --together"
    if needed == "limits" and key != "AccountingStorageEnforce" and not enforces(settings):
        return "AccountingStorageEnforce enforces no limits; set it to limits with --together"
    return ""


def enforces(settings: SiteSettings) -> bool:
    """Return whether the limits of QOS and accounts hold."""
    given = settings.backfill.AccountingStorageEnforce.lower()
    return not given or any(word in given for word in ("limits", "safe", "all", "1"))


def level_config(full: SchedulerConfig, level: str) -> SchedulerConfig:
    """Return the settings of a level, from those of the full model."""
    at = LEVELS.index(level)
    backfill = ("none", "easy", full.backfill)[min(at, 2)]
    return replace(
        full,
        order=full.order if at >= 3 else "fifo",
        tiers=full.tiers and at >= 3,
        backfill=backfill,
        limits=full.limits and at >= 4,
        events=at >= 5,
    )


def shuffled(config: SchedulerConfig, seed: int) -> SchedulerConfig:
    """Return the same rules with job ties, node order, backfill and ticks shifted by a seed."""
    return replace(
        config,
        tie_seed=seed,
        bf_phase=(7919 * seed) % config.bf_interval,
        calc_phase=(104729 * seed) % config.calc_period,
    )
