"""Why jobs wait, and whether the cluster is too small, as results."""

from __future__ import annotations

from dataclasses import dataclass

NO_REASON = "none recorded"
"""What a reason is called where the log has none."""


@dataclass(frozen=True, slots=True)
class LimitWait:
    """The waits for the limit of one QOS or account.

    Attributes:
        of: the QOS or the account.
        gpus: the limit; null where no file tells it.
        wait_h: hours waited.
        jobs: jobs that waited for it.
    """

    of: str
    gpus: int | None
    wait_h: float
    jobs: int


@dataclass(frozen=True, slots=True)
class SlurmReasonWait:
    """The waits for one of Slurm's reasons.

    Attributes:
        name: the reason; ``None`` is Priority or Resources.
        wait_h: hours waited.
        share: of all wait hours; null where nobody waited.
        jobs: jobs with it.
        limits: by QOS or account, most hours first, where the reason is a limit of theirs.
    """

    name: str
    wait_h: float
    share: float | None
    jobs: int
    limits: tuple[LimitWait, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasonWait:
    """The waits for one group of reasons.

    Attributes:
        name: the group.
        wait_h: hours waited.
        share: of all wait hours; null where nobody waited.
        jobs: jobs with one of its reasons.
        full_cluster_share: share of these hours in which fewer GPUs were free than the job
            requested; null where it cannot be told.
        slurm_reasons: what is in the group, most hours first.
    """

    name: str
    wait_h: float
    share: float | None
    jobs: int
    full_cluster_share: float | None
    slurm_reasons: tuple[SlurmReasonWait, ...]


@dataclass(frozen=True, slots=True)
class GroupWait:
    """The waits of one group of jobs.

    Attributes:
        by: what groups it: account, partition, qos, gpu_type or size.
        name: the group; ``unknown`` where the log names none.
        jobs: jobs in it.
        wait_h: hours waited.
        share: of all wait hours; null where nobody waited.
        mean_wait_s, p50_wait_s, p95_wait_s: of its jobs.
        full_cluster_share: share of its wait hours in which fewer GPUs were free than requested.
        reasons: group of reasons -> hours waited.
    """

    by: str
    name: str
    jobs: int
    wait_h: float
    share: float | None
    mean_wait_s: float
    p50_wait_s: float
    p95_wait_s: float
    full_cluster_share: float | None
    reasons: dict[str, float]


@dataclass(frozen=True, slots=True)
class TypeUse:
    """How full the GPUs of one type were, from the first to the last submission.

    Attributes:
        gpu_type: the type; ``all`` for all of them, the partition where the log names no types.
        gpus: how many there are.
        source: where that comes from.
        peak_gpus: most held at once.
        full_h: hours in which over 95% were held.
        full_share: of all hours.
        queue_gpu_h: GPU-hours for which eligible jobs waited in these hours.
        wait_h: hours that its jobs waited in all, as in ``reasons``.
    """

    gpu_type: str
    gpus: float
    source: str
    peak_gpus: float
    full_h: float
    full_share: float | None
    queue_gpu_h: float
    wait_h: float


@dataclass(frozen=True, slots=True)
class WaitingNow:
    """The workloads or pods that wait at the end of a dump of Kubernetes, for one reason.

    Attributes:
        name: the reason of the condition ``QuotaReserved`` of a workload or ``PodScheduled`` of a
            pod, as the dump has it.
        meaning: what it means.
        jobs: workloads, or pods.
        gpus: GPUs that they request.
        mean_wait_s, longest_wait_s: how long they have waited so far.
    """

    name: str
    meaning: str
    jobs: int
    gpus: float
    mean_wait_s: float
    longest_wait_s: float


@dataclass(frozen=True, slots=True)
class WaitBin:
    """The hours waited in one bin of the time line.

    Attributes:
        start: of the bin, UTC.
        wait_h: group of reasons -> hours waited in the bin.
    """

    start: str
    wait_h: dict[str, float]


@dataclass(frozen=True, slots=True)
class FreeWait:
    """The hours waited while enough GPUs were free.

    Attributes:
        name: the group of reasons.
        wait_h: hours waited.
    """

    name: str
    wait_h: float


@dataclass(frozen=True, slots=True)
class QuotaFit:
    """How well a replay under the quotas of a site explains the waits, as its calibration found.

    Attributes:
        within: share of the scored jobs that start within 5 min or 20% of their recorded wait.
        explains_waits: whether the calibration calls them explained, by more than the order.
    """

    within: float
    explains_waits: bool


@dataclass(frozen=True)
class WaitSummary:
    """Why jobs wait, and whether the cluster is too small.

    Attributes:
        jobs: jobs with GPUs that started.
        never_started: jobs with GPUs that were cancelled before they started, or still wait.
        waited_jobs: of the jobs, those that waited at all.
        wait_h: hours waited.
        mean_wait_s, p50_wait_s, p95_wait_s: from submission to the first start.
        mean_eligible_wait_s: the mean from when a job was eligible; null where that is unknown.
        mean_reservation_wait_s: the mean until quota was reserved; null where a log does not tell.
        basis: what the reasons come from: ``recorded reasons``, ``free GPUs`` or ``site rules``.
        reasons: most hours first.
        full_cluster_share: share of the wait hours in which fewer of the GPUs that a job may use
            were free than it requested; null where nobody waited.
        full_cluster_wait_h: these hours.
        too_small_share: share of the wait hours in which too few GPUs were free and no limit,
            dependency or other hold is told of; null where nobody waited.
        free_wait_h: hours waited while enough GPUs were free.
        while_free: by group of reasons, the hours waited while enough GPUs were free.
        gpu_types: how full each GPU type was; all of them first where there are several.
    """

    jobs: int
    never_started: int
    waited_jobs: int
    wait_h: float
    mean_wait_s: float
    p50_wait_s: float
    p95_wait_s: float
    mean_eligible_wait_s: float | None
    mean_reservation_wait_s: float | None
    basis: str
    reasons: tuple[ReasonWait, ...]
    full_cluster_share: float | None
    full_cluster_wait_h: float
    too_small_share: float | None
    free_wait_h: float
    while_free: tuple[FreeWait, ...]
    gpu_types: tuple[TypeUse, ...]
