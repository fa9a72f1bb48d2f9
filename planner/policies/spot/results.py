"""What policies that lend GPUs as spot measure, as JSON has it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What jobs ask of a pool, where GPUs are lent.

    Attributes:
        pool: the GPU type; ``all`` without types.
        gpus: GPUs of the pool.
        hp_demand_over_capacity, spot_demand_over_capacity: GPU time that each kind of jobs
            requests over that of the pool; above 1 where it is more.
    """

    pool: str
    gpus: int
    hp_demand_over_capacity: float
    spot_demand_over_capacity: float

    @property
    def demand_over_capacity(self) -> float:
        """All jobs together."""
        return self.hp_demand_over_capacity + self.spot_demand_over_capacity

    @property
    def text(self) -> str:
        """The load in words."""
        name = "" if self.pool == "all" else f"{self.pool}: "
        return (
            f"{name}jobs request {self.demand_over_capacity:.0%} of {self.gpus:,} GPUs (high "
            f"priority {self.hp_demand_over_capacity:.0%}, spot "
            f"{self.spot_demand_over_capacity:.0%})"
        )


@dataclass(frozen=True, slots=True)
class TenantResults:
    """How high-priority or spot jobs fared; means are over those that finished.

    Attributes:
        jobs: jobs of this kind.
        unfinished: jobs not done at the end.
        mean_jct_s, p50_jct_s, p99_jct_s: completion times; null where none finished.
        mean_jqt_s, p99_jqt_s: time without GPUs; null where none finished.
        gpu_h: GPU-hours held.
    """

    jobs: int
    unfinished: int
    mean_jct_s: float | None
    p50_jct_s: float | None
    p99_jct_s: float | None
    mean_jqt_s: float | None
    p99_jqt_s: float | None
    gpu_h: float


@dataclass(frozen=True, kw_only=True)
class LendingResults:
    """What policies measure that lend GPUs.

    Attributes:
        demand: one entry per pool of GPUs.
        hp: jobs with high priority.
        spot: jobs that run on lent GPUs.
        spot_runs: starts of spot jobs.
        evictions: spot runs that were stopped for other jobs.
        eviction_rate: evictions per spot run; null without any.
        guarantee_success_share: spot runs that finished or lasted the hours guaranteed; null
            without any.
        wasted_gpu_h: GPU-hours of work lost, and of start-ups after evictions.
        allocation_rate: share of the GPU time held from the first submission to the last; null
            where all come at once.
        paying_spot_gpu_h: GPU-hours of spot runs that kept their guarantee, within the window.
        spot_usd_per_gpu_h: price of lent GPUs.
        benefit_usd_per_month: what lending earns.
        mean_eta: mean factor of the quota over time; null without a forecast, as the next two.
        eta_at_min_share, eta_at_max_share: share of the time in which that factor is at a limit.
        starving_jobs: spot jobs larger than the quota for over a week.
    """

    demand: tuple[PoolDemand, ...] | UnsetType = UNSET
    hp: TenantResults | UnsetType = UNSET
    spot: TenantResults | UnsetType = UNSET
    spot_runs: int | UnsetType = UNSET
    evictions: int | UnsetType = UNSET
    eviction_rate: float | UnsetType | None = UNSET
    guarantee_success_share: float | UnsetType | None = UNSET
    wasted_gpu_h: float | UnsetType = UNSET
    allocation_rate: float | UnsetType | None = UNSET
    paying_spot_gpu_h: float | UnsetType = UNSET
    spot_usd_per_gpu_h: float | UnsetType = UNSET
    benefit_usd_per_month: float | UnsetType = UNSET
    mean_eta: float | UnsetType | None = UNSET
    eta_at_min_share: float | UnsetType | None = UNSET
    eta_at_max_share: float | UnsetType | None = UNSET
    starving_jobs: int | UnsetType = UNSET
