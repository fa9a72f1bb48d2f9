"""What shares GPUs, and how: services, training jobs, the rules of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.sharing.curves import exec_time, join_curves
from gpuplan.simkit.sharing.horizontal import LAZY, HorizontalRules
from gpuplan.simkit.sharing.policies import DILU, PlacementSettings
from gpuplan.simkit.sharing.state import PERIOD_S, VerticalRules

MOST_PERIODS = 1 << 40
BY_REQUEST, BY_LIMIT, WHOLE, TOKENS = "request", "limit", "whole", "tokens"
QUOTAS = (TOKENS, BY_REQUEST, BY_LIMIT, WHOLE)
DILU_VERTICAL = VerticalRules(
    static=False,
    window=20,
    violation=0.2,
    violation_llm=0.2,
    increase=1.3,
    floor=1.0,
    calm=0,
    calm_change=0.2,
)
REFERENCE_VERTICAL = DILU_VERTICAL._replace(
    window=100, violation=0.6, violation_llm=0.3, floor=0.01, calm=5
)
"""The constants of the authors' program."""
DILU_HORIZONTAL = HorizontalRules(LAZY, 40, 20, 30, False, False, 0, 1, 1)


@dataclass(frozen=True, slots=True)
class Profile:
    """Measured execution times of a model; arrays of shape (n,), one measurement each.

    Attributes:
        batch: batch size, >= 1.
        share: share of the SMs, within (0, 1].
        latency_s: seconds of a batch.
    """

    batch: IntArray
    share: FloatArray
    latency_s: FloatArray

    def time_s(self, batch: int, share: float) -> float:
        """Return the seconds of a batch at a share."""
        curves = join_curves([(self.batch, self.share, self.latency_s)])
        return float(exec_time(curves, 0, batch, share))


@dataclass(frozen=True, slots=True)
class Service:
    """A function that serves requests.

    Attributes:
        name: its name; services are considered in the order of their names.
        profile: execution times.
        request, limit: share of the SMs of a GPU; 0 < request <= limit <= 1.
        batch: requests that an instance takes at once.
        slo_s: latency that a request should keep, seconds.
        arrival_s: arrivals, ascending; shape (r,).
        memory_gb: memory of an instance.
        llm: whether it is a language model, which may be split over GPUs.
        work: iterations per request, for an LLM tokens.
        cold_start_s: seconds until a new instance is ready.
        capacity_rps: requests per second that one instance is registered to serve; None for its
            throughput at its request.
    """

    name: str
    profile: Profile
    request: float
    limit: float
    batch: int
    slo_s: float
    arrival_s: FloatArray
    memory_gb: float = 0.0
    llm: bool = False
    work: float = 1.0
    cold_start_s: float = 10.0
    capacity_rps: float | None = None

    def capacity(self) -> float:
        """Return the requests per second that one instance is registered to serve."""
        if self.capacity_rps is not None:
            return self.capacity_rps
        return self.batch / (self.profile.time_s(self.batch, self.request) * self.work)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training job: a gang of workers that starts and ends together.

    Attributes:
        name: its name.
        profile: execution times; those of the largest batch count.
        request, limit: share of the SMs of each GPU; 0 < request <= limit <= 1.
        workers: GPUs, all of one node.
        memory_gb: memory of a worker.
        start_s: when it starts.
        work_s: seconds that it runs on whole GPUs; None if it never ends.
    """

    name: str
    profile: Profile
    request: float
    limit: float
    workers: int = 1
    memory_gb: float = 0.0
    start_s: float = 0.0
    work_s: float | None = None


@dataclass(frozen=True, slots=True)
class SharingRules:
    """How GPUs are shared.

    Attributes:
        placement: policy of placement, one of `PLACEMENT_POLICIES`.
        settings: its bounds and weights.
        quotas: `TOKENS` (Algorithm 2), or fixed: `BY_REQUEST`, `BY_LIMIT` or `WHOLE`.
        vertical: constants of Algorithm 2.
        horizontal: how instances follow the load.
        nodes, node_gpus: the cluster.
    """

    placement: str = DILU
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    quotas: str = TOKENS
    vertical: VerticalRules = DILU_VERTICAL
    horizontal: HorizontalRules = DILU_HORIZONTAL
    nodes: int = 1000
    node_gpus: int = 4


def check_run(
    services: list[Service], jobs: list[TrainingJob], horizon_s: float, rules: SharingRules
) -> None:
    """Refuse what cannot run. Raises ValueError."""
    if not services and not jobs:
        raise ValueError("nothing to run: no service and no training job")
    if not 0 < horizon_s <= MOST_PERIODS * PERIOD_S:
        raise ValueError(f"horizon_s must be above 0, got {horizon_s:g}")
    if rules.quotas not in QUOTAS:
        raise ValueError(f"quotas must be one of {QUOTAS}, got {rules.quotas!r}")
    every: list[Service | TrainingJob] = [*services, *jobs]
    if len({function.name for function in every}) < len(every):
        raise ValueError("functions need different names")
    for function in every:
        if not 0 < function.request <= function.limit <= 1 or not function.memory_gb >= 0:
            raise ValueError(f"{function.name}: needs 0 < request <= limit <= 1 and memory >= 0")
    for service in services:
        if service.batch < 1 or not service.work > 0 or not service.cold_start_s >= 0:
            raise ValueError(f"{service.name}: batch, work or cold start out of range")
        arrival_s = service.arrival_s
        if arrival_s.size and (arrival_s[0] < 0 or (np.diff(arrival_s) < 0).any()):
            raise ValueError(f"{service.name}: arrivals must ascend from 0 or later")
        if not service.capacity() > 0:
            raise ValueError(f"{service.name}: capacity_rps must be above 0")
    for job in jobs:
        if job.workers < 1 or not job.start_s >= 0 or (job.work_s is not None and job.work_s <= 0):
            raise ValueError(f"{job.name}: workers, start or work out of range")
