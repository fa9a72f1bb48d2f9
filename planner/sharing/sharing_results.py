"""The results of ``gpuplan share``, as JSON has them: instances placed, or services under load."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """Instances placed under one policy at one gamma.

    Attributes:
        name: the policy.
        policy: the policy.
        gamma: most that the limits on a GPU add up to, in GPUs.
        max_gpus: most GPUs in use.
        mean_gpus: mean over the time from the first to the last event.
        sm_fragmentation: share of the SMs of GPUs in use that no request holds, mean over time.
        memory_fragmentation: share of the memory of GPUs in use that is free, mean over time.
        saved_vs_exclusive_gpus: GPUs fewer than if every instance had whole GPUs.
        saved_vs_exclusive_share: the same over those GPUs.
        saved_usd_per_month: what the saved GPUs cost; null without a price.
    """

    name: str
    policy: str
    gamma: float
    max_gpus: int
    mean_gpus: float
    sm_fragmentation: float
    memory_fragmentation: float
    saved_vs_exclusive_gpus: int
    saved_vs_exclusive_share: float
    saved_usd_per_month: float | None


@dataclass(frozen=True, slots=True)
class PlacementResults:
    """Instances placed under several policies.

    Attributes:
        instances: instances placed.
        cluster_gpus: GPUs of the cluster.
        exclusive_gpus: most GPUs in use if every instance had whole GPUs.
        policies: one row per policy and gamma.
    """

    instances: int
    cluster_gpus: int
    exclusive_gpus: int
    policies: tuple[PlacementRow, ...]


@dataclass(frozen=True, slots=True)
class FunctionOutcome:
    """What a service saw under a policy.

    Attributes:
        name: the service.
        requests: requests that arrived.
        unfinished: requests not done at the end.
        violation_rate: share of the requests that are late, or unfinished and too old.
        p50_s, p95_s: latency of the finished requests; null without any.
        slo_s: most that a request may take; of an LLM times its mean number of tokens.
        cold_starts: instances launched.
        instance_s: time of all instances from launch to removal.
        quota_s: the same times the share of a GPU requested.
        peak_demand_over_capacity: most requests per second over the registered capacity.
        headroom: limit over request: what vertical scaling can give.
        longest_overload_s: seconds in a row in which demand is above the registered capacity.
        p95_over_slo: P95 latency over the SLO; null without any finished request.
    """

    name: str
    requests: int
    unfinished: int
    violation_rate: float
    p50_s: float | None
    p95_s: float | None
    slo_s: float
    cold_starts: int
    instance_s: float
    quota_s: float
    peak_demand_over_capacity: float
    headroom: float
    longest_overload_s: int
    p95_over_slo: float | None


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """A training job under a policy.

    Attributes:
        name: the job.
        kept_share: its speed over that on whole GPUs.
    """

    name: str
    kept_share: float


@dataclass(frozen=True, slots=True)
class CoscalingRow:
    """Services and training jobs under one policy.

    Attributes:
        name: the policy.
        policy: the policy.
        cold_start_s: time until a new instance is ready.
        max_gpus: most GPUs with an instance.
        mean_gpus: mean over time.
        gpu_h: GPU-hours of GPUs with an instance.
        worst_violation_rate: violation rate of the worst service; 0 without services.
        cold_starts: instances launched.
        training_kept_share: mean speed of training jobs over that on whole GPUs; null without any.
        functions: one entry per service.
        training: one entry per training job.
    """

    name: str
    policy: str
    cold_start_s: float
    max_gpus: int
    mean_gpus: float
    gpu_h: float
    worst_violation_rate: float
    cold_starts: int
    training_kept_share: float | None
    functions: tuple[FunctionOutcome, ...]
    training: tuple[TrainingOutcome, ...]


@dataclass(frozen=True, slots=True)
class ColdStartPolicy:
    """A policy at one cold start.

    Attributes:
        policy: its name.
        max_gpus: most GPUs with an instance.
        worst_violation_rate: violation rate of the worst service.
    """

    policy: str
    max_gpus: int
    worst_violation_rate: float


@dataclass(frozen=True, slots=True)
class ColdStartVerdict:
    """Which policies are best at a cold start.

    Attributes:
        cold_start_s: time until a new instance is ready.
        fewest_violations: the policies with the least violation rate of the worst service.
        least_worst_violation_rate: that rate.
        fewest_gpus: the policies with the fewest GPUs.
        least_max_gpus: most GPUs that these have in use.
        policies: one entry per policy.
    """

    cold_start_s: float
    fewest_violations: tuple[str, ...]
    least_worst_violation_rate: float
    fewest_gpus: tuple[str, ...]
    least_max_gpus: int
    policies: tuple[ColdStartPolicy, ...]


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One setting of Dilu, or one policy to compare.

    Attributes:
        policy: its name.
        gamma: most that the limits on a GPU add up to, in GPUs.
        capacity_factor: registered capacity over the profiled one.
        max_gpus: most GPUs with an instance.
        mean_gpus: mean over time.
        worst_violation_rate: violation rate of the worst service.
        efficient: whether no other point is at least as good in both and better in one.
    """

    policy: str
    gamma: float
    capacity_factor: float
    max_gpus: int
    mean_gpus: float
    worst_violation_rate: float
    efficient: bool = False


@dataclass(frozen=True, slots=True)
class CoscalingResults:
    """Services and training jobs under several policies.

    Attributes:
        requests: requests of all services.
        horizon_s: length of the run.
        exclusive_gpus: most GPUs in use if every instance had whole GPUs.
        policies: one row per policy, at the first cold start.
        verdicts: one entry per cold start.
        frontier: GPUs against the worst service; empty where it is not requested.
    """

    requests: int
    horizon_s: float
    exclusive_gpus: int
    policies: tuple[CoscalingRow, ...]
    verdicts: tuple[ColdStartVerdict, ...]
    frontier: tuple[FrontierPoint, ...]
