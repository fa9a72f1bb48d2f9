"""GPUs of quotas and of nodes: whether those exist that a change of quotas hands out."""

from __future__ import annotations

from fractions import Fraction

from gpuplan.analysis.quota.gpu_quotas import gpu_quotas, quota_gpus
from gpuplan.analysis.quota.kueue_site import QuotaDocument


def room_warnings(
    name: str, today: QuotaDocument, changed: QuotaDocument, *, adds_nodes: bool = False
) -> tuple[str, ...]:
    """Return what to know of flavors whose nominal quotas a change raises in sum.

    Args:
        name: what the change is called.
        today: the site of today.
        changed: the site with the change.
        adds_nodes: whether the change brings the nodes of its quotas.
    """
    before, after = quota_gpus(today), quota_gpus(changed)
    warnings = []
    for flavor, gpus in sorted(after.items()):
        if adds_nodes or gpus <= before.get(flavor, 0):
            continue
        rise = f"{name}: the quotas of {flavor} rise from {before.get(flavor, 0)} to {gpus} GPUs"
        nodes = node_gpus(changed, flavor)
        if nodes is None:
            warnings.append(
                f"{rise}; the replay takes these GPUs to exist, but the dump shows no nodes that "
                "have them"
            )
        elif gpus > nodes:
            warnings.append(
                f"{rise}, and its nodes have {nodes}; the replay runs jobs on GPUs that do not "
                "exist, so waits would be longer than it says (--add-nodes adds nodes; --together "
                "takes the quota from another queue in the same change)"
            )
    return tuple(warnings)


def missing_gpus(today: QuotaDocument, changed: QuotaDocument) -> int:
    """Return the GPUs that a change adds to quotas and no node has; without nodes all added."""
    before, after = quota_gpus(today), quota_gpus(changed)
    missing = Fraction(0)
    for flavor, gpus in after.items():
        nodes = node_gpus(changed, flavor)
        has = before.get(flavor, Fraction(0))
        missing += max(gpus - (has if nodes is None else max(has, Fraction(nodes))), Fraction(0))
    return round(missing)


def gpu_resources(document: QuotaDocument) -> list[tuple[str, str]]:
    """Return the flavors and GPU resources that any queue or cohort has a quota for."""
    pairs = ((flavor, quota["name"]) for _, flavor, quota in gpu_quotas(document))
    return list(dict.fromkeys(pairs))


def node_gpus(document: QuotaDocument, flavor: str) -> int | None:
    """Return the GPUs of the nodes of a flavor; None where the site has no such nodes."""
    kind = document.flavor_type(flavor)
    nodes = [node for node in document.settings.node.values() if node.gpus and node.type == kind]
    return sum(node.gpus for node in nodes) if nodes else None
