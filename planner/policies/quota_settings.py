"""What may be set of the policies that replay queues with quotas."""

from __future__ import annotations

from collections.abc import Collection

from gpuplan.planner.runs.settings import Setting
from gpuplan.simkit.quota.site import DEFAULT_GRACE_S

SITE = "site"
FLAVORS = ("recorded", "any")
OF_QUOTA: dict[str, Setting] = {
    SITE: Setting(
        "text",
        "the site's queues (--site): what kubectl prints of Kueue's or KAI's objects, YAML, or a "
        "folder of it",
        unlimited=True,
    ),
    "flavor": Setting(
        "choice",
        "whether jobs keep to flavors of the GPU type that they had, or may run on any",
        FLAVORS,
        default="recorded",
    ),
    "grace_s": Setting(
        "duration",
        "how long an evicted job holds its quota",
        default=float(DEFAULT_GRACE_S),
        at_least=1,
        at_most=86_400,
    ),
    "checkpoint_every_s": Setting(
        "duration",
        "run time between checkpoints; what was done since the last one is lost in an eviction. "
        "none: all is lost",
        optional=True,
        at_least=1,
    ),
}


def gpus_elsewhere(settings: Collection[str]) -> tuple[str, str]:
    """Return where a policy that has no cluster takes its GPUs, and what to do instead."""
    if has_quotas(settings):
        return "its GPUs are those of a site", "--twin FILE, which replays the rules of a site"
    return "it rents its GPUs", "a policy of one cluster, such as first-fit (gpuplan list policies)"


def has_quotas(settings: Collection[str]) -> bool:
    """Return whether a policy with these settings replays the queues of a site."""
    return SITE in settings
