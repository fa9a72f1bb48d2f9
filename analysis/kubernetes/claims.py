"""Claims for devices, and groups of pods: objects that tell more of pods."""

from __future__ import annotations

import msgspec
from msgspec import Struct

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


class ResourceClaim(Struct):
    """A claim for devices, and what was allocated to it."""

    status: _ClaimState | None = None

    @property
    def gpus(self) -> int:
        """The GPUs allocated."""
        allocation = self.status and self.status.allocation
        devices = allocation and allocation.devices
        results = (devices and devices.results) or ()
        return sum(result.driver.startswith(DRIVER) for result in results)


AS_CLAIM = msgspec.json.Decoder(ResourceClaim)


PREEMPTIBLE = {"preemptible": True, "non-preemptible": False}
"""Word of a PodGroup of KAI -> whether its pods may be preempted; it may also say nothing."""


class GroupSpec(Struct):
    """What a group of pods wants."""

    queue: str | None = None
    preemptibility: str | None = None


class PodGroup(Struct):
    """A group of pods of Volcano or KAI, which holds no history."""

    spec: GroupSpec | None = None


AS_GROUP = msgspec.json.Decoder(PodGroup)
