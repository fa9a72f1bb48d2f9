"""A site of Kueue as plain values: cohorts, queues, flavors, and workloads with their pod sets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuplan.simkit.arrays import IntArray

DEFAULT_GRACE_S = 30
"""Until a pod of Kubernetes that is evicted ends."""
STRICT_FIFO, BEST_EFFORT_FIFO = "StrictFIFO", "BestEffortFIFO"
POLICIES = ("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")
MAY_STOP, TRY_NEXT = "MayStopSearch", "TryNextFlavor"
BORROWING_FIRST, PREEMPTION_FIRST = "BorrowingOverPreemption", "PreemptionOverBorrowing"
FINAL, INITIAL = "final", "initial"
PODS = "pods"


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one flavor and resource; None: no limit.

    Attributes:
        nominal: amount that the node may always use.
        borrowing_limit: most beyond it that comes from others.
        lending_limit: most of it that others may use.
    """

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaFlavor:
    """A flavor of a resource group: its name and its quotas by resource."""

    name: str
    quotas: dict[str, Quota]


@dataclass(frozen=True, slots=True)
class QuotaCohort:
    """A cohort: the one above it, its weight, and its own quotas by (flavor, resource)."""

    name: str
    parent: str | None = None
    weight: float = 1.0
    quotas: dict[tuple[str, str], Quota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaQueue:
    """A ClusterQueue; words and defaults are those of Kueue.

    Attributes:
        groups: resource groups, each with its flavors in order of preference.
        borrow_policy, borrow_threshold: whether it may evict while it borrows, and the highest
            priority of such victims; None: of any lower priority.
    """

    name: str
    groups: tuple[tuple[QuotaFlavor, ...], ...]
    cohort: str | None = None
    weight: float = 1.0
    strategy: str = BEST_EFFORT_FIFO
    within_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_policy: str = "Never"
    borrow_threshold: int | None = None
    when_can_borrow: str = MAY_STOP
    when_can_preempt: str = TRY_NEXT
    preference: str = BORROWING_FIRST


@dataclass(frozen=True, slots=True)
class QuotaSite:
    """Queues, cohorts and the settings of the controller.

    Attributes:
        fair_strategies: rules of victims under fair sharing, in order.
        priority_sorting: whether priority counts between queues.
        recompute_overlapping: whether a workload whose victims another one took looks again.
    """

    queues: tuple[QuotaQueue, ...]
    cohorts: tuple[QuotaCohort, ...] = ()
    fair_sharing: bool = False
    fair_strategies: tuple[str, ...] = (FINAL, INITIAL)
    priority_sorting: bool = True
    recompute_overlapping: bool = True


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one kind.

    Attributes:
        requests: amount of each resource that a pod requests.
        count: pods wanted. ``least``: fewest that the workload takes; None: all.
        flavors: flavors that its selectors and tolerations allow; None: all.
    """

    requests: dict[str, int]
    count: int = 1
    least: int | None = None
    flavors: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class QuotaJobs:
    """Workloads as arrays of shape (n,), times in whole seconds.

    Attributes:
        queue: number of the queue of each, in the order of the site.
        priority: the highest first.
        submit: when each comes. ``created``: when it was created, by which queues are sorted.
        run: how long it runs.
        pods: number of its pod sets in ``shapes``.
        uid: its rank among ties.
        shapes: different pod sets of workloads.
    """

    queue: IntArray
    priority: IntArray
    submit: IntArray
    created: IntArray
    run: IntArray
    pods: IntArray
    uid: IntArray
    shapes: tuple[tuple[PodSet, ...], ...]

    @classmethod
    def of_gpus(
        cls, queue: IntArray, priority: IntArray, submit: IntArray, run: IntArray, gpus: IntArray,
        resource: str = "gpu",
    ) -> QuotaJobs:  # fmt: skip
        """Return workloads of one pod each that want nothing but GPUs; ties go by position."""
        sizes, pods = np.unique(gpus, return_inverse=True)
        shapes = tuple((PodSet({resource: int(size)}),) for size in sizes)
        rank = np.arange(queue.size)
        return cls(queue, priority, submit, submit, run, pods.reshape(-1), rank, shapes)
