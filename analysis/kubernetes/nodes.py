"""The GPUs of a cluster by the Node objects of a dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.kubernetes.gpus import SHARED, in_gpus, is_gpu, type_of_labels
from gpuplan.analysis.kubernetes.objects import UNREADABLE, newest, read_objects, versions
from gpuplan.analysis.kubernetes.pod_objects import PodMeta
from gpuplan.analysis.kubernetes.quantities import Quantity
from gpuplan.analysis.reading.source import opened_file

NODE = "Node"


class _GpusOfNode(Struct):
    capacity: dict[str, Quantity] | None = None
    allocatable: dict[str, Quantity] | None = None


class _GpuNode(Struct):
    metadata: PodMeta
    status: _GpusOfNode = member(default_factory=_GpusOfNode)


_AS_NODE = msgspec.json.Decoder(_GpuNode)


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of the nodes of a dump.

    Attributes:
        gpus: node -> GPUs that pods may hold (``allocatable``, else ``capacity``).
        types: node -> their type; None where its labels do not tell.
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, str | None] = field(default_factory=dict)


def read_node_gpus(path: Path, instances: Mapping[str, str]) -> NodeGpus:
    """Return the GPUs of the nodes of a dump; none where it has no nodes that tell of GPUs.

    Nodes that cannot be read, or that share GPUs, tell nothing of the size of a cluster: then none
    do.

    Args:
        path: the dump.
        instances: instance type in lower case -> GPU model.

    Raises:
        InputError: the file cannot be read.
    """
    with opened_file(path) as stream:
        kept = versions(read_objects(stream).objects)
    gpus: dict[str, int] = {}
    types: dict[str, str | None] = {}
    for item in (newest(same) for same in kept if same[-1].kind == NODE):
        try:
            node = item.read(_AS_NODE)
            amounts = node.status.allocatable or node.status.capacity or {}
            devices = {name: amount for name, amount in amounts.items() if is_gpu(name)}
            count = in_gpus(devices, {}).gpus
        except UNREADABLE:
            return NodeGpus()
        if count and (SHARED in devices or count != int(count)):
            return NodeGpus()
        if count:
            gpus[item.name] = int(count)
            types[item.name] = type_of_labels(node.metadata.labels or {}, instances)
    return NodeGpus(gpus, types)
