"""What the settings of a site, or an option, say of its GPUs and limits."""

from __future__ import annotations

from collections.abc import Iterable

from gpuplan.analysis.job_table.gpu_names import match_types
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.waits.pools import StatedCluster
from gpuplan.analysis.waits.summary import LimitOf
from gpuplan.planner.twin.settings import site_of
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.twin.site import SiteCluster, SiteQos

LIMITS = {
    "QOSMaxGRESPerUser": "user_gpus",
    "QOSGrpGRES": "grp_gpus",
    "QOSMaxGRESPerJob": "job_gpus",
}
"""Slurm's reason -> the limit of a QOS, in GPUs, that it names."""
ACCOUNT_GPUS = "AssocGrpGRES"


def cluster_of_option(shape: ClusterShape, kinds: Iterable[str]) -> StatedCluster:
    """Return what ``--cluster`` says; ``kinds`` are the GPU types of the log.

    Raises:
        UsageError: it names a type that the log does not have, or one that may be several.
    """
    of_type = {pool.gpu_type: pool.gpus or 0 for pool in shape.pools}
    if None in of_type:
        return StatedCluster("--cluster", of_type)
    named = match_types([name for name in of_type if name], list(kinds), "--cluster")
    gpus = {kind: of_type[name] for kind, name in named.items() if name is not None}
    return StatedCluster("--cluster", gpus)


def cluster_of_site(document: SiteDocument, kinds: Iterable[str]) -> StatedCluster:
    """Return the GPUs, nodes and partitions of a site's settings.

    Args:
        document: the settings.
        kinds: GPU types of the log, or its partitions where it names no types.

    Raises:
        UsageError: a value cannot be used.
    """
    site = site_of(document)
    of_node, by_type = site.gpus_of_node, site.gpus_of_type
    gpus: dict[str | None, int] = {}
    partitions = {part.name: frozenset(part.nodes) for part in site.partitions}
    kinds = list(kinds)
    named = match_types(list(by_type), kinds, "--twin", apart=True) if by_type else {}
    for kind in kinds:
        name = named.get(kind)
        if name is not None:
            gpus[kind] = by_type[name]
        elif kind in partitions:
            gpus[kind] = sum(of_node[node] for node in partitions[kind])
        elif len(kinds) == 1:
            gpus[kind] = site.gpus
    return StatedCluster("--twin", gpus, of_node, partitions)


def limits_of_site(document: SiteDocument) -> LimitOf:
    """Return the limits of a site in GPUs, by Slurm's reason and whose they are."""
    site: SiteCluster = site_of(document)
    of_qos: dict[str, SiteQos] = {qos.name: qos for qos in site.qos}
    of_account = {row.account: row.grp_gpus for row in site.assocs if not row.user}

    def limit(reason: str, of: str) -> int | None:
        if reason == ACCOUNT_GPUS:
            return of_account.get(of)
        if reason not in LIMITS or of not in of_qos:
            return None
        gpus: int | None = getattr(of_qos[of], LIMITS[reason])
        return gpus

    return limit
