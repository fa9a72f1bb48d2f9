"""A policy on a cluster of a given size, as a search for sizes and a replay of today need it."""

from __future__ import annotations

from dataclasses import replace

from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.registry import find_policy
from gpuplan.planner.runs.cluster_setting import SIZES
from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool


def sized_policy(
    policy: PolicySpec, gpus: int, gpus_per_node: int | None, option: str
) -> PolicySpec:
    """Return a policy on a cluster of so many GPUs; its bill is not used.

    Args:
        policy: with its settings; a size among them is replaced.
        gpus: of the cluster.
        gpus_per_node: of a node; None where nodes do not matter.
        option: that the size comes from, for messages.
    """
    settings = {name: value for name, value in policy.settings.items() if name not in SIZES}
    if gpus_per_node is None:
        settings["gpus"] = gpus
    else:
        settings["cluster"] = ClusterShape((GpuPool(gpus, gpus_per_node),))
    if "usd_per_gpu_h" in find_policy(policy.policy).settings:
        settings["usd_per_gpu_h"] = 1.0  # takes no market
    return replace(
        policy, settings=settings, option_of=dict(policy.option_of) | dict.fromkeys(SIZES, option)
    )
