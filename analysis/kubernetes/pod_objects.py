"""What is read of a Pod, of its claims for devices, and of the group that it is in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.kubernetes.gpus import Claim, PodSpec
from gpuplan.analysis.kubernetes.objects import UNREADABLE, KubeObject
from gpuplan.analysis.kubernetes.times import StatusCondition, latest


class Owner(Struct, gc=False):
    """What made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


NO_OWNER = Owner()


class PodMeta(Struct, gc=False):
    """What an object is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    created: datetime | None = member(name="creationTimestamp", default=None)
    deleted: datetime | None = member(name="deletionTimestamp", default=None)
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[Owner] | None = member(name="ownerReferences", default=None)

    @property
    def owner(self) -> Owner:
        """The controller; one without name where there is none."""
        return next((owner for owner in self.owners or () if owner.controller), NO_OWNER)


class _ContainerTimes(Struct, gc=False):
    started: datetime | None = member(name="startedAt", default=None)
    finished: datetime | None = member(name="finishedAt", default=None)


class _ContainerState(Struct, gc=False):
    terminated: _ContainerTimes | None = None
    running: _ContainerTimes | None = None


class _ContainerStatus(Struct, gc=False):
    state: _ContainerState | None = None
    last: _ContainerState | None = member(name="lastState", default=None)


class PodStatus(Struct, gc=False):
    """What became of a pod."""

    phase: str = ""
    reason: str | None = None
    conditions: list[StatusCondition] | None = None
    started: datetime | None = member(name="startTime", default=None)
    containers: list[_ContainerStatus] | None = member(name="containerStatuses", default=None)
    inits: list[_ContainerStatus] | None = member(name="initContainerStatuses", default=None)
    claims: list[Claim] | None = member(name="resourceClaimStatuses", default=None)

    @property
    def states(self) -> list[_ContainerState]:
        """The present ones of all containers."""
        return [item.state for item in self._of_containers if item.state is not None]

    @property
    def last_states(self) -> list[_ContainerState]:
        """Those before the last restart of each container."""
        return [item.last for item in self._of_containers if item.last is not None]

    @property
    def _of_containers(self) -> list[_ContainerStatus]:
        return [*(self.containers or ()), *(self.inits or ())]


class Pod(Struct, gc=False):
    """A pod, without what it runs."""

    metadata: PodMeta
    spec: PodSpec = member(default_factory=PodSpec)
    status: PodStatus | None = None


AS_POD = msgspec.json.Decoder(Pod)


class _Named(Struct):
    metadata: PodMeta


_AS_NAMED = msgspec.json.Decoder(_Named)


def labels_of(item: KubeObject) -> Mapping[str, str]:
    """Return the labels of an object. Raises ValueError where it cannot be read."""
    return item.read(_AS_NAMED).metadata.labels or {}


class _Heartbeat(Struct):
    at: datetime | None = member(name="lastHeartbeatTime", default=None)


class _Heartbeats(Struct):
    conditions: list[_Heartbeat] | None = None


class _Beating(Struct):
    status: _Heartbeats | None = None


_AS_BEATING = msgspec.json.Decoder(_Beating)


def heartbeat_of(item: KubeObject) -> float | None:
    """Return when a node last reported, seconds after 1970; None where it does not tell.

    A node reports every few minutes, so that is how long before a dump the last report was.
    """
    try:
        status = item.read(_AS_BEATING).status
    except UNREADABLE:
        return None
    conditions = (status.conditions if status is not None else None) or ()
    return latest(condition.at for condition in conditions)


DRIVER = "gpu."
"""How the names of dynamic allocation's drivers for GPUs start."""


class _Result(Struct):
    driver: str = ""


class _Devices(Struct):
    results: list[_Result] | None = None


class _Allocation(Struct):
    devices: _Devices | None = None


class _ClaimState(Struct):
    allocation: _Allocation | None = None


class _ResourceClaim(Struct):
    status: _ClaimState | None = None


_AS_CLAIM = msgspec.json.Decoder(_ResourceClaim)


def gpus_of_claim(item: KubeObject) -> int:
    """Return the GPUs allocated to a ResourceClaim. Raises ValueError where it cannot be read."""
    status = item.read(_AS_CLAIM).status
    allocation = status and status.allocation
    devices = allocation and allocation.devices
    results = (devices and devices.results) or ()
    return sum(result.driver.startswith(DRIVER) for result in results)


PREEMPTIBLE = {"preemptible": True, "non-preemptible": False}
"""Word of a PodGroup of KAI -> whether its pods may be preempted; it may also say nothing."""


class GroupSpec(Struct):
    """What a group of pods of Volcano or KAI wants; it holds no history."""

    queue: str | None = None
    preemptibility: str | None = None


class _PodGroup(Struct):
    spec: GroupSpec | None = None


_AS_GROUP = msgspec.json.Decoder(_PodGroup)


def group_spec(item: KubeObject) -> GroupSpec | None:
    """Return what a PodGroup wants. Raises ValueError where it cannot be read."""
    return item.read(_AS_GROUP).spec
