"""Run services and training jobs on shared GPUs: check, decide, call the kernel, return the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.sharing.curves import exec_time, join_curves, saturation
from gpuplan.simkit.sharing.fleet import INFERENCE, LLM, TRAINING, new_fleet
from gpuplan.simkit.sharing.horizontal import LAZY, HorizontalRules, decide
from gpuplan.simkit.sharing.kernel import simulate
from gpuplan.simkit.sharing.place import new_held
from gpuplan.simkit.sharing.policies import DILU, EXCLUSIVE, PlacementSettings, charges
from gpuplan.simkit.sharing.state import (
    BATCH,
    BATCH_HEAD,
    CHARGED_LIMIT,
    CHARGED_REQUEST,
    COLD,
    COUNT,
    FIRST,
    FUNCTION,
    HEAD,
    KIND,
    LAUNCHED_S,
    LIMIT,
    MEMORY_GB,
    NEVER,
    PERIOD_S,
    PERIODS_PER_S,
    QUOTA,
    REMOVED_S,
    REQUEST,
    SATURATION,
    START,
    TAIL,
    TOTAL_S,
    USED,
    WHOLE_S,
    WORK,
    WORKERS,
    Functions,
    Gpus,
    InstanceTable,
    Jobs,
    RequestLoad,
    VerticalRules,
)

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
        capacity_rps: requests per second that an instance counts for; None for those that it
            serves at its request.
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
        """Return the requests per second that an instance counts for."""
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


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """What happened to a service.

    Attributes:
        finish_s: when each request finished, NaN if it did not; shape (r,).
        changes: decisions, rows (second, instances from then on), from second 0; shape (c, 2).
        launched_s, removed_s: when each instance started, and when it left its GPU, NaN if never.
    """

    finish_s: FloatArray
    changes: IntArray
    launched_s: FloatArray
    removed_s: FloatArray


@dataclass(frozen=True, slots=True)
class SharingRun:
    """What happened on shared GPUs.

    Attributes:
        services: by the order of the services given.
        training_s: work done by each training job, seconds on whole GPUs; shape (t,).
        training_end_s: when each one ended, the horizon if it did not; shape (t,).
        time_s: when the active GPUs change, ascending; shape (k,).
        active_gpus: GPUs with an instance from then on; shape (k,).
        horizon_s: length of the run.
        misfit: the function that fits nowhere, where the run stops; None if all fit.
        misfit_s: when that was.
        log: rows (period, GPU, state, instance, quota, share, share used), if asked for.
        instance_names: names that ``log`` refers to.
    """

    services: tuple[ServiceRun, ...]
    training_s: FloatArray
    training_end_s: FloatArray
    time_s: FloatArray
    active_gpus: IntArray
    horizon_s: float
    misfit: str | None
    misfit_s: float
    log: FloatArray
    instance_names: tuple[str, ...]

    @property
    def gpu_s(self) -> float:
        """GPU-seconds in which a GPU had an instance."""
        ends = np.append(self.time_s[1:], self.horizon_s)
        return float(((ends - self.time_s) * self.active_gpus).sum())


def run_sharing(
    services: Sequence[Service],
    jobs: Sequence[TrainingJob],
    *,
    horizon_s: float,
    rules: SharingRules,
    log: bool = False,
) -> SharingRun:
    """Run services and training jobs side by side for ``horizon_s`` seconds.

    Raises:
        ValueError: values out of range; no function at all.
    """
    order = sorted(range(len(services)), key=lambda at: services[at].name)
    queue = sorted(range(len(jobs)), key=lambda at: (jobs[at].start_s, at))
    ranked = [services[at] for at in order]
    started = [jobs[at] for at in queue]
    _check(ranked, started, horizon_s, rules)
    periods = _periods(horizon_s)
    decisions = [_decisions(one, periods, rules.horizontal) for one in ranked]
    counts = [_launches(changes) for changes in decisions]
    functions, curves = _functions(ranked, started, counts, rules)
    n = int(functions.numbers[:, COUNT].sum())
    load = _load(ranked, decisions)
    parts = rules.node_gpus if any(one.llm for one in ranked) else 1
    parts = max([parts, *(one.workers for one in started)])
    per_gpu = n if rules.placement != EXCLUSIVE else 1
    asked = functions.values[:, CHARGED_REQUEST].min() if n else 1.0
    per_gpu = min(per_gpu, int(rules.settings.omega / asked + 1e-6) + 1)
    instances = _absent(functions, n, parts)
    gpus = _idle(rules.nodes * rules.node_gpus, per_gpu)
    state = Jobs(
        done_s=np.zeros(len(started)),
        rate=np.zeros(len(started)),
        since=np.zeros(len(started), np.int64),
        due=np.full(len(started), NEVER, np.int64),
    )
    rows = periods * n * parts if log else 0
    table = np.zeros((rows, 7))
    fleet, held = new_fleet(rules.nodes, rules.node_gpus), new_held(n, parts)
    finish_s, timeline, used, misfit, period = simulate(
        periods,
        functions,
        len(ranked),
        load,
        curves,
        instances,
        gpus,
        state,
        fleet,
        held,
        rules.settings.rules(rules.placement),
        rules.vertical._replace(static=rules.quotas != TOKENS),
        table,
    )
    names = [
        f"{one.name}-{number}"
        for one, count in zip(ranked, counts, strict=True)
        for number in range(1, count + 1)
    ]
    runs: list[ServiceRun | None] = [None] * len(ranked)
    for at, (mine, changes) in enumerate(zip(order, decisions, strict=True)):
        first, count = functions.numbers[at, FIRST], counts[at]
        runs[mine] = ServiceRun(
            finish_s=finish_s[load.offset[at] : load.offset[at + 1]],
            changes=changes,
            launched_s=instances.values[first : first + count, LAUNCHED_S],
            removed_s=instances.values[first : first + count, REMOVED_S],
        )
    back = np.argsort(np.array(queue, np.int64), kind="stable")
    every: list[Service | TrainingJob] = [*ranked, *started]
    ends = instances.values[functions.numbers[len(ranked) :, FIRST], REMOVED_S]
    return SharingRun(
        services=tuple(run for run in runs if run is not None),
        training_s=state.done_s[back],
        training_end_s=np.where(np.isnan(ends), periods * PERIOD_S, ends)[back],
        time_s=timeline[:, 0] * PERIOD_S,
        active_gpus=timeline[:, 1].copy(),
        horizon_s=periods * PERIOD_S,
        misfit=None if misfit < 0 else every[misfit].name,
        misfit_s=float(period * PERIOD_S),
        log=table[:used],
        instance_names=(*names, *(job.name for job in started)),
    )


def _check(
    services: list[Service], jobs: list[TrainingJob], horizon_s: float, rules: SharingRules
) -> None:
    if not services and not jobs:
        raise ValueError("nothing to run: no service and no training job")
    if not 0 < horizon_s <= MOST_PERIODS * PERIOD_S:
        raise ValueError(f"horizon_s must be above 0, got {horizon_s:g}")
    if rules.quotas not in QUOTAS:
        raise ValueError(f"quotas must be one of {QUOTAS}, got {rules.quotas!r}")
    every: list[Service | TrainingJob] = [*services, *jobs]
    if len({one.name for one in every}) < len(every):
        raise ValueError("functions need different names")
    for one in every:
        if not 0 < one.request <= one.limit <= 1 or not one.memory_gb >= 0:
            raise ValueError(f"{one.name}: needs 0 < request <= limit <= 1 and memory >= 0")
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


def _decisions(service: Service, periods: int, rules: HorizontalRules) -> IntArray:
    """Return all decisions of a service, rows (second, instances), the first at second 0."""
    seconds = -(-periods // PERIODS_PER_S)
    requests = np.bincount(service.arrival_s.astype(np.int64), minlength=seconds)[:seconds]
    changes = decide(requests.astype(np.float64), service.capacity(), rules)
    return np.concatenate([[[0, rules.first]], changes]).astype(np.int64)


def _launches(changes: IntArray) -> int:
    steps = np.diff(changes[:, 1], prepend=0)
    return int(steps[steps > 0].sum())


def _functions(
    services: list[Service], jobs: list[TrainingJob], counts: list[int], rules: SharingRules
) -> tuple[Functions, object]:
    every: list[Service | TrainingJob] = [*services, *jobs]
    tables = [one.profile for one in every]
    curves = join_curves([(one.batch, one.share, one.latency_s) for one in tables])
    batch = np.array(
        [one.batch for one in services] + [int(job.profile.batch.max()) for job in jobs], np.int64
    )
    request = np.array([one.request for one in every], np.float64)
    limit = np.array([one.limit for one in every], np.float64)
    charged_request, charged_limit = charges(rules.placement, request, limit)
    kinds = [LLM if one.llm else INFERENCE for one in services] + [TRAINING] * len(jobs)
    kind = np.array(kinds, np.int64)
    start = np.where(kind == TRAINING, limit, request)
    quota = {TOKENS: start, BY_REQUEST: request, BY_LIMIT: limit, WHOLE: np.ones_like(limit)}
    count = [*counts, *(1 for _ in jobs)]
    values = {
        REQUEST: request,
        LIMIT: limit,
        MEMORY_GB: [one.memory_gb for one in every],
        CHARGED_REQUEST: charged_request,
        CHARGED_LIMIT: charged_limit,
        QUOTA: quota[rules.quotas],
        SATURATION: [saturation(curves, f, size) for f, size in enumerate(batch)],
        WORK: [one.work for one in services] + [1.0] * len(jobs),
        TOTAL_S: [np.inf] * len(services)
        + [np.inf if job.work_s is None else job.work_s for job in jobs],
    }
    numbers = {
        KIND: kind,
        WORKERS: [1] * len(services) + [job.workers for job in jobs],
        BATCH: batch,
        COLD: [_periods(one.cold_start_s) for one in services] + [0] * len(jobs),
        FIRST: [0, *np.cumsum(count)[:-1]],
        COUNT: count,
        START: [0] * len(services) + [_periods(job.start_s) for job in jobs],
    }
    return Functions(
        numbers=np.array([numbers[at] for at in range(len(numbers))], np.int64).T.copy(),
        values=np.array([values[at] for at in range(len(values))], np.float64).T.copy(),
    ), curves


def _periods(seconds: float) -> int:
    """Return the first period at or after a time."""
    return int(np.ceil(seconds / PERIOD_S - 1e-9))


def _load(services: list[Service], decisions: list[IntArray]) -> RequestLoad:
    changes = [
        (int(second), at, int(count)) for at, rows in enumerate(decisions) for second, count in rows
    ]
    offset = np.cumsum([0, *(one.arrival_s.size for one in services)])
    arrival_s = np.concatenate([np.zeros(0), *(one.arrival_s for one in services)])
    return RequestLoad(
        arrival_s=arrival_s,
        period=period_of(arrival_s),
        offset=offset.astype(np.int64),
        changes=np.array(sorted(changes), np.int64).reshape(-1, 3),
    )


def period_of(arrival_s: FloatArray) -> IntArray:
    """Return the first period that ends after each arrival, both ways to round its end."""
    period = np.maximum(np.floor(arrival_s / PERIOD_S).astype(np.int64) - 1, 0)
    for _ in range(3):
        end_s = np.minimum(period * PERIOD_S + PERIOD_S, (period + 1) * PERIOD_S)
        period += arrival_s >= end_s
    return period


def _absent(functions: Functions, n: int, parts: int) -> InstanceTable:
    numbers = np.zeros((n, 10), np.int64)
    count = functions.numbers[:, COUNT]
    numbers[:, FUNCTION] = np.repeat(np.arange(count.size), count)
    numbers[:, (HEAD, TAIL, BATCH_HEAD)] = -1
    numbers[:, USED] = -MOST_PERIODS
    values = np.zeros((n, 7))
    values[:, WHOLE_S] = -1.0
    values[:, (LAUNCHED_S, REMOVED_S)] = np.nan
    return InstanceTable(numbers, values, np.zeros((n, parts)), np.zeros((n, parts)))


def _idle(gpus: int, per_gpu: int) -> Gpus:
    return Gpus(
        parts=np.zeros((gpus, max(per_gpu, 1), 2), np.int64),
        count=np.zeros(gpus, np.int64),
        state=np.zeros(gpus, np.int64),
        wake=np.full(gpus, NEVER, np.int64),
        calm=np.zeros(gpus, np.int64),
    )
