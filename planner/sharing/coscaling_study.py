"""How many GPUs services and training need if they share cards, and what it does to latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.words import counted
from gpuplan.planner.sharing.service_outcome import FunctionOutcome, outcome_of
from gpuplan.simkit.sharing.coscaling import SharingRun, run_sharing
from gpuplan.simkit.sharing.horizontal import EAGER, HorizontalRules
from gpuplan.simkit.sharing.policies import (
    DILU,
    EXCLUSIVE,
    FAST_GS,
    INFLESS_L,
    INFLESS_R,
    PlacementSettings,
)
from gpuplan.simkit.sharing.services import (
    BY_LIMIT,
    BY_REQUEST,
    DILU_HORIZONTAL,
    DILU_VERTICAL,
    TOKENS,
    WHOLE,
    Service,
    SharingRules,
    TrainingJob,
)
from gpuplan.simkit.sharing.state import VerticalRules

FAST_GS_HORIZONTAL = DILU_HORIZONTAL._replace(way=EAGER, keep_alive_s=6)
INFLESS_HORIZONTAL = DILU_HORIZONTAL._replace(way=EAGER, keep_alive_s=11, least=0, first=0)
COSCALING_POLICIES: dict[str, tuple[str, str, HorizontalRules]] = {
    "dilu": (DILU, TOKENS, DILU_HORIZONTAL),
    "exclusive": (EXCLUSIVE, WHOLE, DILU_HORIZONTAL),
    "fast-gs": (FAST_GS, BY_LIMIT, FAST_GS_HORIZONTAL),
    "infless": (INFLESS_L, BY_LIMIT, INFLESS_HORIZONTAL),
    "infless-l": (INFLESS_L, BY_LIMIT, INFLESS_HORIZONTAL),
    "infless-r": (INFLESS_R, BY_REQUEST, INFLESS_HORIZONTAL),
    "mps-l": (DILU, BY_LIMIT, DILU_HORIZONTAL),
    "mps-r": (DILU, BY_REQUEST, DILU_HORIZONTAL),
}
"""Policy -> placement, quotas, and how instances follow the load."""
COLD_STARTS_S = (10.0, 30.0)
FRONTIER_GAMMAS = (1.0, 1.5, 2.0)
FRONTIER_CAPACITIES = (0.75, 1.0, 1.5)
MARKED = ("dilu", "exclusive", "infless-l", "infless-r")


@dataclass(frozen=True, slots=True)
class SharingRequest:
    """Services and training jobs that are to share GPUs.

    Attributes:
        services: the services, with their requests.
        jobs: the training jobs.
        policies: of `COSCALING_POLICIES`.
        horizon_s: length of the run.
        nodes, node_gpus: the cluster.
        settings: bounds and weights of placement.
        vertical: constants of the tokens.
        cold_starts_s: cold starts to compare; the first is that of the main result. A service keeps
            its own where ``own_cold_starts`` names it.
        own_cold_starts: services whose cold start is known.
        frontier: whether to vary gamma and the registered capacity.
    """

    services: Sequence[Service]
    jobs: Sequence[TrainingJob]
    policies: Sequence[str]
    horizon_s: float
    nodes: int
    node_gpus: int
    settings: PlacementSettings = field(default_factory=PlacementSettings)
    vertical: VerticalRules = DILU_VERTICAL
    cold_starts_s: Sequence[float] = COLD_STARTS_S
    own_cold_starts: frozenset[str] = frozenset()
    frontier: bool = True


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
        run: the run itself.
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
    run: Hidden[SharingRun]


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
        request: what was asked.
        outcomes: by cold start, then by policy.
        exclusive: whole GPUs, at the first cold start.
    """

    requests: int
    horizon_s: float
    exclusive_gpus: int
    policies: tuple[CoscalingRow, ...]
    verdicts: tuple[ColdStartVerdict, ...]
    frontier: tuple[FrontierPoint, ...]
    request: Hidden[SharingRequest]
    outcomes: Hidden[tuple[tuple[CoscalingRow, ...], ...]]
    exclusive: Hidden[CoscalingRow]


def _verdict(outcomes: Sequence[CoscalingRow]) -> ColdStartVerdict:
    """Return which policies have the least violation rate and the fewest GPUs at a cold start."""
    calm = min(row.worst_violation_rate for row in outcomes)
    few = min(row.max_gpus for row in outcomes)
    return ColdStartVerdict(
        cold_start_s=outcomes[0].cold_start_s,
        fewest_violations=tuple(row.policy for row in outcomes if row.worst_violation_rate == calm),
        least_worst_violation_rate=calm,
        fewest_gpus=tuple(row.policy for row in outcomes if row.max_gpus == few),
        least_max_gpus=few,
        policies=tuple(
            ColdStartPolicy(row.policy, row.max_gpus, row.worst_violation_rate) for row in outcomes
        ),
    )


def study_coscaling(
    request: SharingRequest, progress: Callable[[float], None] | None = None
) -> CoscalingResults:
    """Run every policy at every cold start, whole GPUs beside them, and the frontier.

    Raises:
        InfeasibleError: an instance or a training job does not fit; the message names it.
    """
    points = len(FRONTIER_GAMMAS) * len(FRONTIER_CAPACITIES) + len(MARKED)
    total = len(request.policies) * len(request.cold_starts_s) + 1
    total += points if request.frontier else 0
    done = 0

    def run(policy: str, cold_s: float, changed: SharingRequest) -> CoscalingRow:
        nonlocal done
        row = run_policy(policy, cold_s, changed)
        done += 1
        if progress is not None:
            progress(min(done / total, 1.0))
        return row

    outcomes = tuple(
        tuple(run(policy, cold_s, request) for policy in request.policies)
        for cold_s in request.cold_starts_s
    )
    of_policy = {row.policy: row for row in outcomes[0]}
    first_s = request.cold_starts_s[0]
    exclusive = of_policy.get(EXCLUSIVE) or run(EXCLUSIVE, first_s, request)
    of_policy[EXCLUSIVE] = exclusive
    frontier: list[FrontierPoint] = []
    if request.frontier:
        gamma = request.settings.gamma
        for policy in MARKED:
            row = of_policy.get(policy) or run(policy, first_s, request)
            frontier.append(_point(row, gamma, 1.0))
        for gamma in FRONTIER_GAMMAS:
            for factor in FRONTIER_CAPACITIES:
                if gamma == request.settings.gamma and factor == 1:
                    continue
                changed = _varied(request, gamma, factor)
                if changed is not None:
                    frontier.append(_point(run(DILU, first_s, changed), gamma, factor))
    return CoscalingResults(
        requests=sum(service.arrival_s.size for service in request.services),
        horizon_s=exclusive.run.horizon_s,
        exclusive_gpus=exclusive.max_gpus,
        policies=outcomes[0],
        verdicts=tuple(_verdict(of_policies) for of_policies in outcomes),
        frontier=_efficient(frontier),
        request=request,
        outcomes=outcomes,
        exclusive=exclusive,
    )


def run_policy(policy: str, cold_start_s: float, request: SharingRequest) -> CoscalingRow:
    """Run one policy at one cold start.

    Raises:
        InfeasibleError: an instance or a training job does not fit.
    """
    placement, quotas, horizontal = COSCALING_POLICIES[policy]
    services = [
        service
        if service.name in request.own_cold_starts
        else replace(service, cold_start_s=cold_start_s)
        for service in request.services
    ]
    rules = SharingRules(
        placement=placement,
        settings=request.settings,
        quotas=quotas,
        vertical=request.vertical,
        horizontal=horizontal,
        nodes=request.nodes,
        node_gpus=request.node_gpus,
    )
    run = run_sharing(services, request.jobs, horizon_s=request.horizon_s, rules=rules)
    if run.misfit is not None:
        gpus = request.nodes * request.node_gpus
        raise InfeasibleError(
            f"{policy}: {run.misfit} does not fit at {run.misfit_s:,.0f} s in a cluster of "
            f"{counted(request.nodes, 'node')} of {counted(request.node_gpus, 'GPU')} "
            f"({counted(gpus, 'GPU')})\n"
            "  next: more GPUs, by --cluster or --gpus"
        )
    elapsed = [
        max(end_s - job.start_s, 1e-9)
        for job, end_s in zip(request.jobs, run.training_end_s, strict=True)
    ]
    kept = [
        float(min(work_s / span_s, 1.0))
        for work_s, span_s in zip(run.training_s, elapsed, strict=True)
    ]
    functions = tuple(
        outcome_of(service, of_service, run.horizon_s)
        for service, of_service in zip(services, run.services, strict=True)
    )
    return CoscalingRow(
        name=policy,
        policy=policy,
        cold_start_s=cold_start_s,
        max_gpus=int(run.active_gpus.max(initial=0)),
        mean_gpus=run.gpu_s / run.horizon_s,
        gpu_h=run.gpu_s / 3600,
        worst_violation_rate=max((part.violation_rate for part in functions), default=0.0),
        cold_starts=sum(part.cold_starts for part in functions),
        training_kept_share=float(np.mean(kept)) if kept else None,
        functions=functions,
        training=tuple(
            TrainingOutcome(job.name, share) for job, share in zip(request.jobs, kept, strict=True)
        ),
        run=run,
    )


def _varied(request: SharingRequest, gamma: float, factor: float) -> SharingRequest | None:
    """Return the request at another gamma and registered capacity; None above a limit."""
    limits = [service.limit for service in request.services] + [job.limit for job in request.jobs]
    if max(limits, default=0.0) > gamma + 1e-9:
        return None
    services = [
        replace(service, capacity_rps=factor * service.capacity()) for service in request.services
    ]
    settings = replace(request.settings, gamma=gamma)
    return replace(request, services=services, settings=settings)


def run_point(results: CoscalingResults, point: FrontierPoint) -> CoscalingRow:
    """Return the run of a point of a frontier, at the first cold start."""
    request = _varied(results.request, point.gamma, point.capacity_factor)
    is_as_given = (point.gamma, point.capacity_factor) == (results.request.settings.gamma, 1.0)
    first_s = results.request.cold_starts_s[0]
    at_point = results.request if request is None or is_as_given else request
    return run_policy(point.policy, first_s, at_point)


def _point(row: CoscalingRow, gamma: float, factor: float) -> FrontierPoint:
    worst = row.worst_violation_rate
    return FrontierPoint(row.policy, gamma, factor, row.max_gpus, row.mean_gpus, worst)


def _efficient(points: Sequence[FrontierPoint]) -> tuple[FrontierPoint, ...]:
    def dominated(point: FrontierPoint) -> bool:
        return any(
            other.max_gpus <= point.max_gpus
            and other.worst_violation_rate <= point.worst_violation_rate
            and (other.max_gpus, other.worst_violation_rate)
            != (point.max_gpus, point.worst_violation_rate)
            for other in points
        )

    return tuple(replace(point, efficient=not dominated(point)) for point in points)
