"""The levels of the model: each has the rules of the ones before it, and one more."""

from __future__ import annotations

from dataclasses import replace

from gpuplan.simkit.twin.site import SchedulerConfig

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
    "backfill": "bf",
    "priority": "multifactor",
    "qos": "limits",
    "account": "limits",
    "event": "events",
}
"""Table of settings -> the first level that uses it."""


def level_config(full: SchedulerConfig, level: str) -> SchedulerConfig:
    """Return the settings of a level, from those of the full model."""
    at = LEVELS.index(level)
    backfill = ("none", "easy", full.backfill)[min(at, 2)]
    return replace(
        full,
        order=full.order if at >= 3 else "fifo",
        tiers=full.tiers and at >= 3,
        backfill=backfill,
        limits=at >= 4,
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
