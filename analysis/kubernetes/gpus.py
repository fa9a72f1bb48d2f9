"""The GPUs of a pod: which resources are GPUs, how many of each it holds, and of which type."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.job_table.gpu_names import UNNAMED, gpu_name
from gpuplan.analysis.kubernetes.quantities import Amount, Quantity, device_count, quantity

WHOLE = frozenset(
    {
        "nvidia.com/gpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
    }
)
SHARED = "nvidia.com/gpu.shared"
MIG = re.compile(r"nvidia\.com/mig-(?:\d+c\.)?([1-7])g\.\d+gb(?:\.[a-z.]+)?")
MIG_PREFIX = "nvidia.com/mig-"
MIG_SLICES = 7
HAMI = frozenset({"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"})
"""Resources by which HAMi splits a GPU; how much of it a pod holds is not in the pod."""
FRACTION, FRACTION_DEVICES, MEMORY = "gpu-fraction", "gpu-fraction-num-devices", "gpu-memory"
"""Annotations of KAI for pods with a share of a GPU."""
RESERVATIONS = "kai-resource-reservation"
"""The namespace of the pods by which KAI holds a whole GPU for those with shares of it."""
NODE_REPLICAS, NODE_MEMORY = "nvidia.com/gpu.replicas", "nvidia.com/gpu.memory"
PRODUCT_LABELS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name",
)  # fmt: skip
INSTANCE_LABEL = "node.kubernetes.io/instance-type"
TYPE_SUFFIX = re.compile(r"-(?:SHARED|MIG-.*)$")
ALWAYS = "Always"


class Resources(Struct, gc=False):
    """What a container asks for."""

    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class Container(Struct, gc=False):
    """A container of a pod."""

    resources: Resources | None = None
    restart_policy: str | None = member(name="restartPolicy", default=None)


class Claim(Struct, gc=False):
    """A claim for devices by dynamic allocation."""

    name: str = ""
    claim: str | None = member(name="resourceClaimName", default=None)


class PodSpec(Struct, gc=False):
    """What a pod asks for; arguments and environment are not read."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = member(name="initContainers", default=None)
    overhead: dict[str, Quantity] | None = None
    node_name: str | None = member(name="nodeName", default=None)
    node_selector: dict[str, str] | None = member(name="nodeSelector", default=None)
    priority: int | None = None
    claims: list[Claim] | None = member(name="resourceClaims", default=None)


class UnknownGpusError(ValueError):
    """How many GPUs a pod holds cannot be told.

    Attributes:
        reason: machine word for rejected rows.
        expected: what would tell it.
    """

    def __init__(self, reason: str, problem: str, expected: str) -> None:
        super().__init__(problem)
        self.reason, self.expected = reason, expected


def gpu_fault(error: ValueError) -> tuple[str, str, str, str]:
    """Return why a job without a number of GPUs is refused: reason, column, found, expected."""
    if isinstance(error, UnknownGpusError):
        return error.reason, "gpus", str(error), error.expected
    return "unreadable", "gpus", str(error), "a whole number of devices"


class PodGpus(Struct):
    """GPUs of a pod.

    Attributes:
        gpus: whole GPUs and shares of them.
        notes: what is special about them: ``mig``, ``shared``, ``shared_unknown``, ``fraction``.
    """

    gpus: Amount = 0
    notes: frozenset[str] = frozenset()


def is_gpu(resource: str, more: Collection[str] = ()) -> bool:
    """Return whether a resource is a GPU, or a part of one."""
    return _is_usual_gpu(resource) or resource in more


@lru_cache(maxsize=4096)
def _is_usual_gpu(resource: str) -> bool:
    return resource in WHOLE or resource == SHARED or MIG.fullmatch(resource) is not None


def pod_amounts(spec: PodSpec, more: Collection[str] = ()) -> dict[str, int]:
    """Return GPU resource -> amount that the pod holds. Raises ValueError for a part of a device.

    Init containers run one by one, before the others; those that always restart run on.
    """
    containers, inits = spec.containers or (), spec.init_containers or ()
    amounts: dict[str, int] = {}
    for name in _names(containers, inits, spec.overhead, more):
        sidecars, most = 0, 0
        for init in inits:
            amount = _amount(init, name)
            if init.restart_policy == ALWAYS:
                sidecars += amount
            else:
                most = max(most, amount + sidecars)
        work = sidecars + sum([_amount(container, name) for container in containers])
        extra = device_count(spec.overhead.get(name, 0)) if spec.overhead else 0
        amount = max(work, most) + extra
        if amount:
            amounts[name] = amount
    return amounts


def _names(
    containers: Iterable[Container],
    inits: Iterable[Container],
    overhead: Mapping[str, Quantity] | None,
    more: Collection[str],
) -> list[str]:
    names: dict[str, None] = dict.fromkeys(overhead or ())
    for container in (*containers, *inits):
        if container.resources is not None:
            names |= dict.fromkeys(container.resources.limits or ())
            names |= dict.fromkeys(container.resources.requests or ())
    return [
        name for name in names
        if name in HAMI or is_gpu(name, more) or name.startswith(MIG_PREFIX)
    ]  # fmt: skip


def _amount(container: Container, name: str) -> int:
    resources = container.resources
    if resources is None:
        return 0
    for amounts in (resources.requests, resources.limits):
        if amounts is not None and name in amounts:
            return device_count(amounts[name])
    return 0


def gpus_of(
    spec: PodSpec,
    annotations: Mapping[str, str],
    node: Mapping[str, str],
    more: Collection[str] = (),
) -> PodGpus:
    """Return the GPUs that a pod holds, claims aside.

    Args:
        spec: of the pod.
        annotations: of the pod.
        node: labels of its node; empty where they are not known.
        more: resources that are GPUs at this site.

    Raises:
        UnknownGpusError: they depend on what is not in the input.
        ValueError: an amount is not a whole number.
    """
    amounts = pod_amounts(spec, more)
    if HAMI & amounts.keys():
        raise UnknownGpusError(
            "gpu_share", "a share of a GPU by HAMi (gpumem, gpucores)", "whole GPUs or MIG"
        )
    odd = [name for name in amounts if not is_gpu(name, more)]
    if odd:
        raise UnknownGpusError("unreadable", f"the MIG slice {odd[0]}", "slices of 1 to 7 sevenths")
    count = in_gpus(amounts, node)
    if FRACTION in annotations or MEMORY in annotations:
        count.gpus += _kai_share(annotations, node)
        count.notes |= {"fraction"}
    return count


def in_gpus(amounts: Mapping[str, Quantity], node: Mapping[str, str]) -> PodGpus:
    """Return amounts of GPU resources in GPUs. Raises ValueError for a part of a device."""
    count = PodGpus()
    for name, amount in amounts.items():
        devices = device_count(amount)
        if name in WHOLE:
            count.gpus += devices
        elif (match := MIG.fullmatch(name)) is not None:
            count.gpus += Fraction(devices * int(match[1]), MIG_SLICES)
            count.notes |= {"mig"}
        elif name == SHARED:
            replicas = node.get(NODE_REPLICAS, "")
            is_number = replicas.isascii() and replicas.isdigit() and 0 < int(replicas[:6])
            count.gpus += Fraction(devices, int(replicas[:6]) if is_number else 1)
            count.notes |= {"shared" if is_number else "shared_unknown"}
        else:
            count.gpus += devices
    return count


def _kai_share(annotations: Mapping[str, str], node: Mapping[str, str]) -> Fraction:
    devices = device_count(annotations.get(FRACTION_DEVICES, "1"))
    if FRACTION in annotations:
        share = quantity(annotations[FRACTION])
    elif NODE_MEMORY in node and quantity(node[NODE_MEMORY]) > 0:
        share = quantity(annotations[MEMORY]) / quantity(node[NODE_MEMORY])
    else:
        raise UnknownGpusError(
            "missing",
            "GPUs by memory, on a node whose GPU memory is not in the input: add the nodes",
            f"the node in the input, with the label {NODE_MEMORY}",
        )
    if not 0 <= share <= 1:
        raise ValueError(f"a share of {float(share):g} GPUs")
    return share * devices


def type_of_labels(labels: Mapping[str, str], instances: Mapping[str, str]) -> str | None:
    """Return the GPU type that labels of a node, a pod's node selector or a flavor tell.

    Args:
        labels: the labels.
        instances: instance type in lower case -> GPU model.
    """
    for label in PRODUCT_LABELS:
        if labels.get(label):
            return clean_type(labels[label])
    model = instances.get(labels.get(INSTANCE_LABEL, "").lower())
    return None if model is None else gpu_name(model)


@lru_cache(maxsize=4096)
def clean_type(written: str) -> str | None:
    """Return a GPU type by the name that prices know, without ``-SHARED`` or ``-MIG-1g.10gb``."""
    name = gpu_name(TYPE_SUFFIX.sub("", written))
    return None if name == UNNAMED or not name else name
