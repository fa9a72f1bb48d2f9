"""Today's cluster for policies whose cluster nobody sized, where the log's jobs wait.

Which scheduler is best depends on how short GPUs are. On a cluster so large that no job waits, all
schedulers are alike, whatever they would do on the cluster that the log is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuplan.analysis.base.words import listed
from gpuplan.planner.policies.cluster_replay import size_note
from gpuplan.planner.policies.quota_settings import has_quotas
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.cluster_setting import shape_of
from gpuplan.planner.runs.recorded_waits import LEAST_GAP_S
from gpuplan.planner.site.policies_today import has_cluster
from gpuplan.planner.sizing.targets import whole_multiple

if TYPE_CHECKING:
    from gpuplan.analysis.characterize.today import Today
    from gpuplan.planner.compare import PolicySpec

MOST_NAMED = 5
MOST_HELD = "the most that the log shows held at once"


def on_todays_cluster(
    policies: Sequence[PolicySpec], today: Today | None, widest_gpus: int
) -> tuple[tuple[PolicySpec, ...], tuple[str, ...]]:
    """Return policies with today's cluster where none was set, and notes on it.

    Today's cluster has the most GPUs that the log shows held at once. Nothing changes where jobs
    hardly wait in the log, where a job is wider, and for a policy that rents GPUs, lends them or
    has queues with quotas.

    Args:
        policies: with their settings.
        today: what the log shows; None where unknown.
        widest_gpus: of the widest job that is replayed.
    """
    waits = () if today is None else (today.mean_wait_s or 0.0, today.p95_wait_s or 0.0)
    if today is None or max(waits) < LEAST_GAP_S:
        return tuple(policies), ()
    gpus = whole_multiple(today.usage.peak_gpus, 1)
    free = [policy.label for policy in policies if _has_free_size(policy)]
    if widest_gpus > gpus or not free:
        return tuple(policies), ()
    sized = (
        replace(policy, settings={**policy.settings, "gpus": gpus})
        if policy.label in free
        else policy
        for policy in policies
    )
    of = "" if len(policies) == 1 else f"{listed(free, MOST_NAMED)}: "
    return tuple(sized), (f"{of}{size_note(gpus, MOST_HELD)}",)


def _has_free_size(policy: PolicySpec) -> bool:
    """Return whether a policy runs on a cluster of a size that is not set."""
    registered = find_policy(policy.policy)
    rents = registered.baseline is not None and not registered.baseline.is_standing
    if rents or has_quotas(registered.settings) or not has_cluster(policy):
        return False
    return shape_of(policy.settings) is None
