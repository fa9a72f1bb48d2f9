"""What the twin reads of a Workload of Kueue: its pod sets, its conditions, what it was given."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import msgspec
from msgspec import Struct

from gpuplan.analysis.quota.quantities import quantity
from gpuplan.analysis.quota.schema import Toleration


class WorkloadCondition(Struct):
    """A condition of a Workload."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    at: str | None = msgspec.field(name="lastTransitionTime", default=None)


class LabelRequirement(Struct):
    """A requirement on a label of nodes."""

    key: str = ""
    operator: str = "In"
    values: list[str] = []


class LabelTerm(Struct):
    """Requirements that hold together."""

    expressions: list[LabelRequirement] = msgspec.field(name="matchExpressions", default=[])


class LabelTerms(Struct):
    """Terms of which one must hold."""

    terms: list[LabelTerm] = msgspec.field(name="nodeSelectorTerms", default=[])


class NodeAffinity(Struct):
    """The affinity of a pod to nodes."""

    required: LabelTerms | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinity(Struct):
    """The affinity of a pod."""

    node: NodeAffinity | None = msgspec.field(name="nodeAffinity", default=None)


class PodResources(Struct):
    """What a container requests."""

    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}


class PodContainer(Struct):
    """A container of a pod."""

    resources: PodResources | None = None
    restart: str | None = msgspec.field(name="restartPolicy", default=None)


class PodText(Struct):
    """What the model reads of a pod."""

    containers: list[PodContainer] = []
    init: list[PodContainer] | None = msgspec.field(name="initContainers", default=None)
    overhead: dict[str, Any] | None = None
    selector: dict[str, str] | None = msgspec.field(name="nodeSelector", default=None)
    tolerations: list[Toleration] | None = None
    affinity: PodAffinity | None = None


class PodTemplate(Struct):
    """The template of a pod set."""

    spec: PodText = msgspec.field(default_factory=PodText)


class PodSetText(Struct):
    """A pod set of a Workload."""

    name: str = "main"
    count: int = 1
    least: int | None = msgspec.field(name="minCount", default=None)
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)


class PriorityName(Struct):
    """The class of a Workload's priority."""

    name: str = ""


class WorkloadSpec(Struct):
    """The specification of a Workload."""

    queue: str = msgspec.field(name="queueName", default="")
    active: bool = True
    priority: int | None = None
    priority_class: str | None = msgspec.field(name="priorityClassName", default=None)
    priority_ref: PriorityName | None = msgspec.field(name="priorityClassRef", default=None)
    pod_sets: list[PodSetText] = msgspec.field(name="podSets", default=[])


class PodSetAssignment(Struct):
    """What a pod set was given."""

    name: str = "main"
    count: int | None = None
    flavors: dict[str, str] = {}
    usage: dict[str, Any] = msgspec.field(name="resourceUsage", default={})


class WorkloadAdmission(Struct):
    """What a Workload was given."""

    cluster_queue: str = msgspec.field(name="clusterQueue", default="")
    assignments: list[PodSetAssignment] = msgspec.field(name="podSetAssignments", default=[])


class EvictionCount(Struct):
    """How often a Workload was evicted for a reason."""

    reason: str = ""
    count: int = 0


class WorkloadStatistics(Struct):
    """What a Workload keeps of its past."""

    evictions: list[EvictionCount] = []


class WorkloadStatus(Struct):
    """The status of a Workload."""

    admission: WorkloadAdmission | None = None
    conditions: list[WorkloadCondition] = []
    statistics: WorkloadStatistics | None = msgspec.field(name="schedulingStats", default=None)


class WorkloadMeta(Struct):
    """Metadata of a Workload."""

    created: str = msgspec.field(name="creationTimestamp", default="")
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)


class WorkloadText(Struct):
    """A Workload as kubectl prints it."""

    metadata: WorkloadMeta = msgspec.field(default_factory=WorkloadMeta)
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus | None = None


def requests_of(spec: PodText) -> dict[str, Fraction]:
    """Return what a pod requests: its containers, or an init container that needs more."""
    always: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    for container in spec.init or ():
        wanted = _of_container(container)
        if container.restart == "Always":
            always = _sum((always, wanted))
            continue
        for name, amount in _sum((always, wanted)).items():
            most[name] = max(most.get(name, Fraction(0)), amount)
    total = _sum((always, *(_of_container(container) for container in spec.containers)))
    for name, amount in most.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
    overhead = {name: quantity(amount) for name, amount in (spec.overhead or {}).items()}
    return _sum((total, overhead))


def _of_container(container: PodContainer) -> dict[str, Fraction]:
    resources = container.resources or PodResources()
    return {
        name: quantity(amount) for name, amount in (resources.limits | resources.requests).items()
    }


def _sum(parts: Iterable[dict[str, Fraction]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total
