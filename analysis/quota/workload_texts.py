"""What the twin reads of a Workload of Kueue besides what a trace has: where its pods may run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

import msgspec
from msgspec import Struct

from gpuplan.analysis.kubernetes.gpus import ALWAYS, Container, PodSpec
from gpuplan.analysis.kubernetes.quantities import MOST_QUOTED, Quantity
from gpuplan.analysis.kubernetes.workload_objects import KueuePodSet, KueueWorkload, WorkloadSpec
from gpuplan.analysis.quota.amounts import quantity
from gpuplan.analysis.quota.schema import Toleration


class LabelRequirement(Struct):
    """A requirement on a label of nodes."""

    key: str = ""
    operator: str = "In"
    values: list[str] | None = None


class LabelTerm(Struct):
    """Requirements that hold together."""

    expressions: list[LabelRequirement] | None = msgspec.field(
        name="matchExpressions", default=None
    )


class LabelTerms(Struct):
    """Terms of which one must hold."""

    terms: list[LabelTerm] | None = msgspec.field(name="nodeSelectorTerms", default=None)


class NodeAffinity(Struct):
    """The affinity of a pod to nodes."""

    required: LabelTerms | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class PodAffinity(Struct):
    """The affinity of a pod."""

    node: NodeAffinity | None = msgspec.field(name="nodeAffinity", default=None)


class PodText(PodSpec):
    """What a pod asks for, and the nodes that it may run on."""

    tolerations: list[Toleration] | None = None
    affinity: PodAffinity | None = None


class PodTemplate(Struct):
    """The template of a pod set."""

    spec: PodText = msgspec.field(default_factory=PodText)


class PodSetText(KueuePodSet):
    """A pod set of a Workload."""

    least: int | None = msgspec.field(name="minCount", default=None)
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)  # type: ignore[assignment]


class PriorityName(Struct):
    """The class of a Workload's priority."""

    name: str = ""


class WorkloadSpecText(WorkloadSpec):
    """The specification of a Workload."""

    priority_class: str | None = msgspec.field(name="priorityClassName", default=None)
    priority_ref: PriorityName | None = msgspec.field(name="priorityClassRef", default=None)
    pod_sets: list[PodSetText] | None = msgspec.field(  # type: ignore[assignment]
        name="podSets", default=None
    )


class WorkloadText(KueueWorkload):
    """A Workload as kubectl prints it."""

    spec: WorkloadSpecText = msgspec.field(default_factory=WorkloadSpecText)


def requests_of(spec: PodSpec) -> dict[str, Fraction]:
    """Return what a pod requests: its containers, or an init container that needs more."""
    always: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    for container in spec.init_containers or ():
        wanted = _of_container(container)
        if container.restart_policy == ALWAYS:
            always = _sum((always, wanted))
            continue
        for name, amount in _sum((always, wanted)).items():
            most[name] = max(most.get(name, Fraction(0)), amount)
    total = _sum((always, *(_of_container(container) for container in spec.containers or ())))
    for name, amount in most.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
    overhead = {name: _amount(name, amount) for name, amount in (spec.overhead or {}).items()}
    return _sum((total, overhead))


def _of_container(container: Container) -> dict[str, Fraction]:
    if container.resources is None:
        return {}
    limits, requests = container.resources.limits or {}, container.resources.requests or {}
    return {name: _amount(name, amount) for name, amount in (limits | requests).items()}


def _amount(name: str, amount: Quantity) -> Fraction:
    """Return an amount of a resource. Raises `ValueError` with its name and what was found."""
    try:
        return quantity(amount)
    except ValueError as error:
        quoted = str(amount)[:MOST_QUOTED]
        raise ValueError(f"requests {quoted!r} of {name}, expected {error}") from None


def _sum(parts: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total
