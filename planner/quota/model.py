"""From a site's quotas in Kueue's names to the site of the simulator, and what its names mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.kubernetes.gpus import is_gpu
from gpuplan.analysis.quota.amounts import Amount, units
from gpuplan.analysis.quota.gpu_quotas import quota_gpus
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.schema import (
    ClusterQueue,
    ResourceGroup,
    ResourceQuota,
)
from gpuplan.simkit.quota.columns import POTENTIAL
from gpuplan.simkit.quota.site import (
    FINAL,
    INITIAL,
    PodSet,
    Quota,
    QuotaCohort,
    QuotaFlavor,
    QuotaQueue,
    QuotaSite,
)
from gpuplan.simkit.quota.tables import names_of, tree_of

STRATEGIES = {"LessThanOrEqualToFinalShare": FINAL, "LessThanInitialShare": INITIAL}


@dataclass(frozen=True, slots=True)
class QuotaModel:
    """A site as the simulator takes it.

    Attributes:
        site: queues, cohorts and rules.
        number: number of each ClusterQueue.
        of_local: ClusterQueue of each LocalQueue ``namespace/name``.
        of_namespace: ClusterQueues that the LocalQueues of each namespace lead to.
        flavor_types: GPU type of each flavor.
        gpu_resources: GPU resources of each ClusterQueue, in order.
        gpus: GPUs of all nominal quotas.
        gpus_of_type: the same by GPU type.
        gpus_of_flavor: the same by flavor.
        potential: most of a flavor and resource that each queue could ever use.
    """

    site: QuotaSite
    number: Mapping[str, int]
    of_local: Mapping[str, str]
    of_namespace: Mapping[str, frozenset[str]]
    flavor_types: Mapping[str, str]
    gpu_resources: Mapping[str, tuple[str, ...]]
    gpus: int
    gpus_of_type: Mapping[str, int]
    gpus_of_flavor: Mapping[str, Fraction]
    potential: Mapping[tuple[int, str, str], int]

    @property
    def queues(self) -> list[str]:
        """The ClusterQueues in their order."""
        return [queue.name for queue in self.site.queues]

    def flavors_of_type(self, gpu_type: str | None) -> frozenset[str] | None:
        """Return the flavors of a GPU type; None for any, where none is of it or it is unknown."""
        if not gpu_type or gpu_type.lower() == "unknown":
            return None
        flavors = frozenset(
            flavor
            for flavor, kind in self.flavor_types.items()
            if flavor == gpu_type or same_gpu(gpu_type, kind)
        )
        return flavors or None

    def flavors_of(self, queue: int, allowed: Collection[str] | None) -> frozenset[str]:
        """Return the flavors of a queue; of them those that are allowed, None for all."""
        names = {flavor.name for group in self.site.queues[queue].groups for flavor in group}
        return frozenset(names if allowed is None else names & set(allowed))

    def gpus_of_flavors(self, flavors: Collection[str]) -> int:
        """Return the GPUs of all nominal quotas of flavors."""
        quotas = (self.gpus_of_flavor.get(flavor, Fraction(0)) for flavor in flavors)
        return int(sum(quotas, Fraction(0)))

    def fits(self, queue: int, pods: PodSet, count: int | None = None) -> bool:
        """Return whether a pod set, or some of its pods, could be admitted if nothing else ran."""
        count, flavors = pods.count if count is None else count, pods.flavors
        requests = {name: amount * count for name, amount in pods.requests.items()}
        for group in self.site.queues[queue].groups:
            wanted = {name: requests[name] for name in group[0].quotas if name in requests}
            if (
                group
                and wanted
                and not any(
                    all(
                        amount <= self.potential[queue, flavor.name, name]
                        for name, amount in wanted.items()
                    )
                    for flavor in group
                    if flavors is None or flavor.name in flavors
                )
            ):
                return False
        covered = {name for group in self.site.queues[queue].groups for name in group[0].quotas}
        return all(name in covered or not amount for name, amount in requests.items())


def quota_model(document: QuotaDocument) -> QuotaModel:
    """Return the model of a site of Kueue.

    Raises:
        InputError: it has no ClusterQueue.
    """
    settings = document.settings
    if not settings.clusterqueue:
        raise InputError(
            document.path, "has no ClusterQueue", expected="a site of Kueue",
            hint="gpuplan simulate --policy kai replays Queues of KAI",
        )  # fmt: skip
    names = sorted(settings.clusterqueue)
    fair = settings.controller.fairSharing
    is_fair = fair is not None and fair.enable
    strategies = (
        () if fair is None else tuple(STRATEGIES[rule] for rule in fair.preemptionStrategies)
    )
    site = QuotaSite(
        queues=tuple(_queue(name, settings.clusterqueue[name]) for name in names),
        cohorts=tuple(
            QuotaCohort(
                name,
                cohort.parentName or None,
                float(cohort.fairSharing.weight.value),
                {
                    (flavor.name, resource): quota
                    for group in _groups(cohort.resourceGroups)
                    for flavor in group
                    for resource, quota in flavor.quotas.items()
                },
            )
            for name, cohort in sorted(settings.cohort.items())
        ),
        fair_sharing=is_fair,
        fair_strategies=strategies or (FINAL, INITIAL),
    )
    namespaces: dict[str, set[str]] = {}
    of_local = {}
    for name, local in sorted(settings.localqueue.items()):
        if local.clusterQueue in settings.clusterqueue:
            of_local[name] = local.clusterQueue
            namespaces.setdefault(name.partition("/")[0], set()).add(local.clusterQueue)
    flavors = {flavor.name for queue in site.queues for group in queue.groups for flavor in group}
    gpus_of_flavor = {flavor: gpus for flavor, gpus in quota_gpus(document).items() if gpus}
    labels = names_of(site)
    tree = tree_of(site, labels)
    return QuotaModel(
        site=site,
        number={name: at for at, name in enumerate(names)},
        of_local=of_local,
        of_namespace={name: frozenset(queues) for name, queues in namespaces.items()},
        flavor_types={name: document.flavor_type(name) for name in sorted(flavors)},
        gpu_resources={
            name: tuple(
                resource
                for group in settings.clusterqueue[name].resourceGroups
                for resource in group.coveredResources
                if is_gpu(resource)
            )
            for name in names
        },
        gpus=total_gpus(document),
        gpus_of_type=_gpus_of_type(document, gpus_of_flavor),
        gpus_of_flavor=gpus_of_flavor,
        potential={
            (at, flavor.name, resource): int(
                tree.quotas[at, labels.pair(flavor.name, resource), POTENTIAL]
            )
            for at, queue in enumerate(site.queues)
            for group in queue.groups
            for flavor in group
            for resource in flavor.quotas
        },
    )


def total_gpus(document: QuotaDocument) -> int:
    """Return the GPUs of all nominal quotas of ClusterQueues and Cohorts, or of the nodes."""
    settings = document.settings
    quotas = sum(quota_gpus(document).values(), Fraction(0))
    if not settings.clusterqueue:
        nodes = sum(node.gpus for node in settings.node.values())
        if nodes:
            return nodes
        leaves = settings.kaiqueue.keys() - {q.parentQueue for q in settings.kaiqueue.values()}
        quotas = sum(
            (settings.kaiqueue[name].resources.gpu.quota.value or Fraction(0) for name in leaves),
            Fraction(0),
        )
    return int(quotas)


def _gpus_of_type(document: QuotaDocument, by_flavor: Mapping[str, Fraction]) -> dict[str, int]:
    """Return the GPUs of all nominal quotas by GPU type, those of most GPUs first."""
    totals: dict[str, Fraction] = {}
    for flavor, gpus in by_flavor.items():
        kind = document.flavor_type(flavor)
        totals[kind] = totals.get(kind, Fraction(0)) + gpus
    return {kind: int(totals[kind]) for kind in sorted(totals, key=lambda kind: -totals[kind])}


def _queue(name: str, queue: ClusterQueue) -> QuotaQueue:
    preemption, fungibility = queue.preemption, queue.flavorFungibility
    groups = _groups(queue.resourceGroups)
    if queue.stopPolicy != "None":
        groups = tuple(
            tuple(
                QuotaFlavor(flavor.name, {key: Quota(0, 0, quota.lending_limit)
                                          for key, quota in flavor.quotas.items()})
                for flavor in group
            )
            for group in groups
        )  # fmt: skip
    return QuotaQueue(
        name=name,
        groups=groups,
        cohort=queue.cohortName or None,
        weight=float(queue.fairSharing.weight.value),
        strategy=queue.queueingStrategy,
        within_queue=preemption.withinClusterQueue,
        reclaim_within_cohort=preemption.reclaimWithinCohort,
        borrow_policy=preemption.borrowWithinCohort.policy,
        borrow_threshold=preemption.borrowWithinCohort.maxPriorityThreshold,
        when_can_borrow=fungibility.whenCanBorrow,
        when_can_preempt=fungibility.whenCanPreempt,
        preference=fungibility.preference,
    )


def _groups(groups: Iterable[ResourceGroup]) -> tuple[tuple[QuotaFlavor, ...], ...]:
    return tuple(
        tuple(
            QuotaFlavor(
                flavor.name, {resource.name: _quota(resource) for resource in flavor.resources}
            )
            for flavor in group.flavors
        )
        for group in groups
        if group.flavors and group.coveredResources
    )


def _quota(resource: ResourceQuota) -> Quota:
    def whole_units(amount: Amount | None) -> int | None:
        if amount is None:
            return None
        return units(amount.value, resource.name, rounds_up=False)

    return Quota(
        whole_units(resource.nominalQuota) or 0,
        whole_units(resource.borrowingLimit),
        whole_units(resource.lendingLimit),
    )
