"""What a service saw in a run: latencies, violations of its SLO, overload."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray
from gpuplan.simkit.sharing.coscaling import ServiceRun
from gpuplan.simkit.sharing.services import Service


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


def outcome_of(service: Service, run: ServiceRun, horizon_s: float) -> FunctionOutcome:
    """Measure a service: a request violates its SLO if it is late, or unfinished and too old."""
    arrivals = service.arrival_s[service.arrival_s < horizon_s]
    finish_s = run.finish_s[: arrivals.size]
    latency_s = np.sort((finish_s - arrivals)[~np.isnan(finish_s)])
    slo_s = service.slo_s * (service.work if service.llm else 1.0)
    waiting = np.isnan(finish_s)
    late = int((latency_s > slo_s).sum()) + int((horizon_s - arrivals[waiting] > slo_s).sum())
    ends_s = np.where(np.isnan(run.removed_s), horizon_s, run.removed_s)
    lived_s = float((ends_s - run.launched_s).sum())
    seconds = math.ceil(horizon_s)
    requests = np.bincount(arrivals.astype(np.int64), minlength=seconds)[:seconds]
    instances = np.zeros(seconds)
    for second, count in run.changes:
        instances[second:] = count
    capacity = np.maximum(instances, 1) * service.capacity()
    p95_s = _nearest(latency_s, 0.95)
    return FunctionOutcome(
        name=service.name,
        requests=int(arrivals.size),
        unfinished=int(waiting.sum()),
        violation_rate=late / arrivals.size if arrivals.size else 0.0,
        p50_s=_nearest(latency_s, 0.5),
        p95_s=p95_s,
        slo_s=slo_s,
        cold_starts=int(run.launched_s.size),
        instance_s=lived_s,
        quota_s=service.request * lived_s,
        peak_demand_over_capacity=float((requests / capacity).max(initial=0.0)),
        headroom=service.limit / service.request,
        longest_overload_s=_longest(requests > capacity),
        p95_over_slo=None if p95_s is None else p95_s / slo_s,
    )


def overloads(services: Iterable[FunctionOutcome]) -> list[FunctionOutcome]:
    """Return the services whose peak demand exceeds what vertical scaling can give."""
    return [
        service
        for service in services
        if service.peak_demand_over_capacity > service.headroom + 1e-9
    ]


def _nearest(ranked: FloatArray, share: float) -> float | None:
    return float(ranked[math.ceil(share * ranked.size) - 1]) if ranked.size else None


def _longest(above: BoolArray) -> int:
    longest = count = 0
    for is_above in above.tolist():
        count = count + 1 if is_above else 0
        longest = max(longest, count)
    return longest
