"""From a site's queues to those of KAI, and from queues of KAI to ClusterQueues of Kueue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.quota.amounts import Seconds, gpus_of
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.schema import ResourceGroup
from gpuplan.planner.quota.model import quota_model, total_gpus
from gpuplan.simkit.quota.kai_simulator import KaiSite
from gpuplan.simkit.quota.kai_site import KaiQueue

USUAL_NODE = 8
UNLIMITED = -1.0
FLAVOR, RESOURCE = "gpu", "nvidia.com/gpu"
ROOT = "all of KAI"
"""Cohort of the queues at the top of a site of KAI."""


@dataclass(frozen=True, slots=True)
class KaiModel:
    """A site as the simulator of KAI takes it.

    Attributes:
        site: nodes and queues.
        number: number of each queue that takes jobs.
        of_local, of_namespace: as of `QuotaModel`; empty for a site of KAI.
        most: most GPUs that each queue that takes jobs may hold; ``deserved`` those of jobs that
            cannot be evicted.
        notes: how the site was read, one sentence each.
    """

    site: KaiSite
    number: Mapping[str, int]
    of_local: Mapping[str, str]
    of_namespace: Mapping[str, frozenset[str]]
    most: Mapping[int, float]
    deserved: Mapping[int, float]
    notes: tuple[str, ...]

    @property
    def queues(self) -> list[str]:
        """The queues that take jobs."""
        return sorted(self.number)

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(self.site.node_gpus)


def kai_model(document: QuotaDocument, gpus_per_node: int = USUAL_NODE) -> KaiModel:
    """Return the model of a site of KAI; of one of Kueue its queues as KAI would have them.

    Args:
        document: the site.
        gpus_per_node: of a site that tells no nodes.

    Raises:
        InputError: it has no GPUs.
    """
    notes: list[str] = []
    settings = document.settings
    sizes = tuple(settings.node[name].gpus for name in sorted(settings.node))
    sizes = tuple(size for size in sizes if size)
    if not sizes:
        total = total_gpus(document)
        if total < 1:
            raise InputError(
                document.path, "has no nodes, and no quota of GPUs", expected="Nodes with GPUs",
                hint="kubectl get queues.scheduling.run.ai,nodes -o json > kai.json",
            )  # fmt: skip
        full_nodes, rest = divmod(total, gpus_per_node)
        sizes = (gpus_per_node,) * full_nodes + ((rest,) if rest else ())
        notes.append(
            f"the site tells no nodes: {total} GPUs, those of the quotas, are assumed to stand in "
            f"nodes of {gpus_per_node}"
        )
    if settings.kaiqueue:
        queues, of_local, of_namespace = _own_queues(document), dict[str, str](), {}
    else:
        model = quota_model(document)
        queues, of_local = _of_kueue(document), dict(model.of_local)
        of_namespace = dict(model.of_namespace)
        notes.append(
            "queues of KAI are made of those of Kueue: deserved is the nominal quota, a limit is "
            "that plus the borrowing limit, a cohort is the queue above"
        )
    above = {queue.parent for queue in queues}
    number = {queue.name: at for at, queue in enumerate(queues) if queue.name not in above}
    site = KaiSite(sizes, tuple(queues))
    return KaiModel(
        site, number, of_local, of_namespace,
        {at: _least_above(queues, at, "limit", sum(sizes)) for at in number.values()},
        {at: _least_above(queues, at, "deserved", sum(sizes)) for at in number.values()},
        tuple(notes),
    )  # fmt: skip


def _least_above(queues: list[KaiQueue], at: int, name: str, total: int) -> float:
    """Return the least of a limit of a queue and of those above it."""
    position = {queue.name: i for i, queue in enumerate(queues)}
    least, queue = float(total), queues[at]
    while True:
        value = getattr(queue, name)
        least = least if value < 0 else min(least, value)
        if queue.parent is None:
            return least
        queue = queues[position[queue.parent]]


def _own_queues(document: QuotaDocument) -> list[KaiQueue]:
    def number(value: Fraction | None) -> float:
        return UNLIMITED if value is None else float(value)

    def whole_seconds(time: Seconds | None) -> int | None:
        return None if time is None else math.ceil(time.value)

    return [
        KaiQueue(
            name,
            queue.parentQueue or None,
            queue.priority,
            number(queue.resources.gpu.quota.value),
            number(queue.resources.gpu.limit.value),
            float(queue.resources.gpu.overQuotaWeight.value),
            preempt_min_runtime=whole_seconds(queue.preemptMinRuntime),
            reclaim_min_runtime=whole_seconds(queue.reclaimMinRuntime),
        )
        for name, queue in sorted(document.settings.kaiqueue.items())
    ]


def _gpus(groups: list[ResourceGroup], key: str) -> Fraction | None:
    """Return the GPUs of all flavors; None for a limit that one flavor does not have."""
    total = Fraction(0)
    for group in groups:
        for flavor in group.flavors:
            for resource in flavor.resources:
                if not (worth := gpus_of(resource.name)):
                    continue
                amount = getattr(resource, key)
                if amount is None or amount.value is None:
                    return None
                total += amount.value * worth
    return total


def _of_kueue(document: QuotaDocument) -> list[KaiQueue]:
    """Return the queues of a site of Kueue as KAI would have them."""
    settings = document.settings
    parents = {name: cohort.parentName or None for name, cohort in settings.cohort.items()}
    for queue in settings.clusterqueue.values():
        if queue.cohortName:
            parents.setdefault(queue.cohortName, None)
    for parent in [parent for parent in parents.values() if parent]:
        parents.setdefault(parent, None)
    made: list[KaiQueue] = []
    totals = dict.fromkeys(parents, Fraction(0))
    for name, cohort in settings.cohort.items():
        totals[name] += _gpus(cohort.resourceGroups, "nominalQuota") or Fraction(0)
    for name, queue in sorted(settings.clusterqueue.items()):
        nominal = _gpus(queue.resourceGroups, "nominalQuota") or Fraction(0)
        more = _gpus(queue.resourceGroups, "borrowingLimit")
        limit = UNLIMITED if more is None else float(nominal + more)
        limit = limit if queue.cohortName else float(nominal)
        weight = float(queue.fairSharing.weight.value)
        called = name if name not in parents else f"{name} (queue)"
        made.append(KaiQueue(called, queue.cohortName or None, 100, float(nominal), limit, weight))
        above: str | None = queue.cohortName or None
        while above is not None:
            totals[above] += nominal
            above = parents[above]
    for name, over in sorted(parents.items()):
        weight = 1.0
        if name in settings.cohort:
            weight = float(settings.cohort[name].fairSharing.weight.value)
        total = float(totals[name])
        made.append(KaiQueue(name, over, 100, total, total if over is None else UNLIMITED, weight))
    return made


def as_kueue(document: QuotaDocument) -> QuotaDocument:
    """Return a site of KAI as one of Kueue, whose queues reclaim what they lent; else the same.

    A queue that deserves all has no nominal quota of its own and borrows.
    """
    settings = document.settings
    if settings.clusterqueue or not settings.kaiqueue:
        return document
    above = {queue.parentQueue for queue in settings.kaiqueue.values()}
    tables: dict[str, dict[str, object]] = {"clusterqueue": {}, "cohort": {}}
    leaves = Fraction(0)
    for name, queue in sorted(settings.kaiqueue.items()):
        gpu = queue.resources.gpu
        if name in above:
            tables["cohort"][name] = {"parentName": queue.parentQueue or ROOT}
            continue
        nominal = gpu.quota.value or Fraction(0)
        leaves += nominal
        quota = {"name": RESOURCE, "nominalQuota": str(int(nominal))}
        if gpu.limit.value is not None:
            quota["borrowingLimit"] = str(max(0, int(gpu.limit.value) - int(nominal)))
        tables["clusterqueue"][name] = {
            "cohortName": queue.parentQueue or ROOT,
            "resourceGroups": [
                {
                    "coveredResources": [RESOURCE],
                    "flavors": [{"name": FLAVOR, "resources": [quota]}],
                }
            ],
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
            "fairSharing": {"weight": str(float(gpu.overQuotaWeight.value))},
        }
    rest = max(0, sum(node.gpus for node in settings.node.values()) - int(leaves))
    tables["cohort"][ROOT] = {
        "resourceGroups": [
            {
                "coveredResources": [RESOURCE],
                "flavors": [
                    {"name": FLAVOR, "resources": [{"name": RESOURCE, "nominalQuota": str(rest)}]}
                ],
            }
        ]
    }
    note = (
        "queues of Kueue are made of those of KAI: the nominal quota is what is deserved, the "
        "borrowing limit what the limit leaves, and all reclaim what they lent"
    )
    return QuotaDocument(document.path, tables, [*document.notes, note])
