"""The option ``--site``: the rules that policies of a site replay, and GPUs for the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuplan.analysis.base.option import Opt
from gpuplan.planner.requests.clusters import ClusterRequest
from gpuplan.planner.requests.settings import OptionSetting, option_settings

SITE = Opt(
    "The site whose rules policies replay: for twin, the twin.toml of gpuplan calibrate; for kueue "
    "and kai, what kubectl get clusterqueues,cohorts,localqueues,resourceflavors -A -o json "
    "prints, YAML, or a folder of it. Other policies get as many GPUs.",
    key=None,
    metavar="FILE|FOLDER",
)
SIZES = ("gpus", "cluster")


def site_settings(
    site: Path | None,
    policies: Sequence[str],
    settings: Sequence[str],
    cluster: ClusterRequest | None,
) -> list[OptionSetting]:
    """Return the settings that ``--site`` stands for: the site, and its GPUs for other policies.

    Args:
        site: the file or folder; None for none.
        policies: as typed.
        settings: texts of ``--set``.
        cluster: the size of the cluster, where options may give it.

    Raises:
        InputError: the site cannot be read.
        UsageError: there is no such policy.
    """
    if site is None:
        return []
    from gpuplan.planner.policies.sites import gpus_of_site
    from gpuplan.planner.registry import find_policy

    made = option_settings(("--site", "site", site))
    is_sized = cluster is not None and bool(cluster.cluster or cluster.gpus)
    is_sized |= any(text.partition("=")[0].strip() in SIZES for text in settings)
    takers = [find_policy(text.partition(":")[0].strip()) for text in policies]
    gpus = gpus_of_site(site, {policy.name for policy in takers})
    if gpus and not is_sized and any("gpus" in policy.settings for policy in takers):
        size = OptionSetting(f"gpus={gpus}")
        size.option = f"--site {site}"
        made.append(size)
    return made
