"""What is read of a Workload of Kueue: its pod sets, what it was given, and its conditions."""

from __future__ import annotations

from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.kubernetes.controllers import Template
from gpuplan.analysis.kubernetes.pod_objects import PodMeta
from gpuplan.analysis.kubernetes.quantities import Quantity
from gpuplan.analysis.kubernetes.times import StatusCondition

ADMITTED, RESERVED, EVICTED, FINISHED = "Admitted", "QuotaReserved", "Evicted", "Finished"
PREEMPTED = "Preempted"
PREVIOUSLY = "Previously:"
SLICE = "WorkloadSliceReplaced"
FINISHED_STATES = {
    "Succeeded": "completed",
    "JobFinished": "completed",
    SLICE: "completed",
    "Failed": "failed",
    "OutOfSync": "cancelled",
    "OwnerNotFound": "cancelled",
}
"""Reason of the condition Finished -> state of the job."""


class KueuePodSet(Struct):
    """Pods of a workload that are alike."""

    name: str = ""
    count: int = 1
    template: Template = member(default_factory=Template)


class WorkloadSpec(Struct):
    """What a workload wants."""

    queue: str | None = member(name="queueName", default=None)
    active: bool | None = None
    priority: int | None = None
    pod_sets: list[KueuePodSet] | None = member(name="podSets", default=None)


class PodSetAssignment(Struct):
    """What a pod set was given."""

    name: str = ""
    count: int | None = None
    flavors: dict[str, str] | None = None
    usage: dict[str, Quantity] | None = member(name="resourceUsage", default=None)


class WorkloadAdmission(Struct):
    """What a workload was given."""

    cluster_queue: str | None = member(name="clusterQueue", default=None)
    assignments: list[PodSetAssignment] | None = member(name="podSetAssignments", default=None)


class EvictionCount(Struct):
    """How often a workload was evicted for a reason."""

    reason: str = ""
    count: int = 0


class WorkloadStatistics(Struct):
    """What a workload keeps of its past."""

    evictions: list[EvictionCount] | None = None


class WorkloadStatus(Struct):
    """What became of a workload."""

    admission: WorkloadAdmission | None = None
    conditions: list[StatusCondition] | None = None
    stats: WorkloadStatistics | None = member(name="schedulingStats", default=None)
    past_s: float | None = member(name="accumulatedPastExecutionTimeSeconds", default=None)
    past_misspelled_s: float | None = member(
        name="accumulatedPastExexcutionTimeSeconds", default=None
    )


class KueueWorkload(Struct):
    """A Workload, without what its pods run."""

    metadata: PodMeta
    spec: WorkloadSpec = member(default_factory=WorkloadSpec)
    status: WorkloadStatus | None = None
