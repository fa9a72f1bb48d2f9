"""Run services and training jobs on shared GPUs: check, decide, call the kernel, return the run.

The kernel reads tables: of functions, of requests, and of instances that are absent at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.sharing.curves import join_curves, saturation
from gpuplan.simkit.sharing.fleet import INFERENCE, LLM, TRAINING, new_fleet
from gpuplan.simkit.sharing.horizontal import HorizontalRules, decide
from gpuplan.simkit.sharing.kernel import new_work, simulate
from gpuplan.simkit.sharing.lifecycle import Room
from gpuplan.simkit.sharing.place import HeldGpus, new_held
from gpuplan.simkit.sharing.policies import EXCLUSIVE, charges
from gpuplan.simkit.sharing.services import (
    BY_LIMIT,
    BY_REQUEST,
    MOST_PERIODS,
    TOKENS,
    WHOLE,
    Service,
    SharingRules,
    TrainingJob,
    check_run,
)
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
)


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
    check_run(ranked, started, horizon_s, rules)
    periods = periods_of(horizon_s)
    decisions = [_decisions(service, periods, rules.horizontal) for service in ranked]
    counts = [_launches(changes) for changes in decisions]
    functions, curves = function_table(ranked, started, counts, rules)
    n = int(functions.numbers[:, COUNT].sum())
    load = request_load(ranked, decisions)
    parts = rules.node_gpus if any(service.llm for service in ranked) else 1
    parts = max([parts, *(job.workers for job in started)])
    per_gpu = n if rules.placement != EXCLUSIVE else 1
    least_request = functions.values[:, CHARGED_REQUEST].min() if n else 1.0
    per_gpu = min(per_gpu, int(rules.settings.omega / least_request + 1e-6) + 1)
    instances = absent_instances(functions, n, parts)
    gpus = idle_gpus(rules.nodes * rules.node_gpus, per_gpu)
    state = Jobs(
        done_s=np.zeros(len(started)),
        rate=np.zeros(len(started)),
        since=np.zeros(len(started), np.int64),
        due=np.full(len(started), NEVER, np.int64),
    )
    rows = periods * n * parts if log else 0
    table = np.zeros((rows, 7))
    fleet, held = new_fleet(rules.nodes, rules.node_gpus), _held(functions, instances, parts)
    most = max(parts, rules.node_gpus)
    placing = rules.settings.rules(rules.placement)
    work = new_work(load, len(ranked), n, len(started))
    simulate(
        periods,
        functions,
        len(ranked),
        load,
        curves,
        instances,
        gpus,
        state,
        Room(fleet, held, placing, np.zeros(most, np.int64), np.zeros(most)),
        rules.vertical._replace(static=rules.quotas != TOKENS),
        table,
        work,
    )
    lines, used, misfit, period = map(int, work.outcome)
    timeline = work.timeline[:lines]
    names = [
        f"{service.name}-{number}"
        for service, count in zip(ranked, counts, strict=True)
        for number in range(1, count + 1)
    ]
    runs: list[ServiceRun | None] = [None] * len(ranked)
    for at, (place, changes) in enumerate(zip(order, decisions, strict=True)):
        first, count = functions.numbers[at, FIRST], counts[at]
        runs[place] = ServiceRun(
            finish_s=work.finish_s[load.offset[at] : load.offset[at + 1]],
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


def _decisions(service: Service, periods: int, rules: HorizontalRules) -> IntArray:
    """Return all decisions of a service, rows (second, instances), the first at second 0."""
    seconds = -(-periods // PERIODS_PER_S)
    requests = np.bincount(service.arrival_s.astype(np.int64), minlength=seconds)[:seconds]
    changes = decide(requests.astype(np.float64), service.capacity(), rules)
    return np.concatenate([[[0, rules.first]], changes]).astype(np.int64)


def _launches(changes: IntArray) -> int:
    steps = np.diff(changes[:, 1], prepend=0)
    return int(steps[steps > 0].sum())


def _held(functions: Functions, instances: InstanceTable, parts: int) -> HeldGpus:
    """Return instances that hold nothing."""
    function = instances.numbers[:, FUNCTION].copy()
    return new_held(functions.numbers[function, KIND], function, parts)


def function_table(
    services: list[Service], jobs: list[TrainingJob], counts: list[int], rules: SharingRules
) -> tuple[Functions, object]:
    """Return what functions are, and their curves."""
    every: list[Service | TrainingJob] = [*services, *jobs]
    tables = [function.profile for function in every]
    curves = join_curves(
        [(function.batch, function.share, function.latency_s) for function in tables]
    )
    batch = np.array(
        [function.batch for function in services] + [int(job.profile.batch.max()) for job in jobs],
        np.int64,
    )
    request = np.array([function.request for function in every], np.float64)
    limit = np.array([function.limit for function in every], np.float64)
    charged_request, charged_limit = charges(rules.placement, request, limit)
    kinds = [LLM if function.llm else INFERENCE for function in services] + [TRAINING] * len(jobs)
    kind = np.array(kinds, np.int64)
    start = np.where(kind == TRAINING, limit, request)
    quota = {TOKENS: start, BY_REQUEST: request, BY_LIMIT: limit, WHOLE: np.ones_like(limit)}
    count = [*counts, *(1 for _ in jobs)]
    values = {
        REQUEST: request,
        LIMIT: limit,
        MEMORY_GB: [function.memory_gb for function in every],
        CHARGED_REQUEST: charged_request,
        CHARGED_LIMIT: charged_limit,
        QUOTA: quota[rules.quotas],
        SATURATION: [saturation(curves, f, size) for f, size in enumerate(batch)],
        WORK: [function.work for function in services] + [1.0] * len(jobs),
        TOTAL_S: [np.inf] * len(services)
        + [np.inf if job.work_s is None else job.work_s for job in jobs],
    }
    numbers = {
        KIND: kind,
        WORKERS: [1] * len(services) + [job.workers for job in jobs],
        BATCH: batch,
        COLD: [periods_of(function.cold_start_s) for function in services] + [0] * len(jobs),
        FIRST: [0, *np.cumsum(count)[:-1]],
        COUNT: count,
        START: [0] * len(services) + [periods_of(job.start_s) for job in jobs],
    }
    return Functions(
        numbers=np.array([numbers[at] for at in range(len(numbers))], np.int64).T.copy(),
        values=np.array([values[at] for at in range(len(values))], np.float64).T.copy(),
    ), curves


def periods_of(seconds: float) -> int:
    """Return the first period at or after a time."""
    return int(np.ceil(seconds / PERIOD_S - 1e-9))


def request_load(services: list[Service], decisions: list[IntArray]) -> RequestLoad:
    """Return the requests and decisions of all services."""
    changes = [
        (int(second), at, int(count)) for at, rows in enumerate(decisions) for second, count in rows
    ]
    offset = np.cumsum([0, *(service.arrival_s.size for service in services)])
    arrival_s = np.concatenate([np.zeros(0), *(service.arrival_s for service in services)])
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


def absent_instances(functions: Functions, n: int, parts: int) -> InstanceTable:
    """Return instances that have not been launched."""
    numbers = np.zeros((n, 11), np.int64)
    count = functions.numbers[:, COUNT]
    numbers[:, FUNCTION] = np.repeat(np.arange(count.size), count)
    numbers[:, (HEAD, TAIL, BATCH_HEAD)] = -1
    numbers[:, USED] = -MOST_PERIODS
    values = np.zeros((n, 7))
    values[:, WHOLE_S] = -1.0
    values[:, (LAUNCHED_S, REMOVED_S)] = np.nan
    return InstanceTable(numbers, values, np.zeros((n, parts)), np.zeros((n, parts)))


def idle_gpus(gpus: int, per_gpu: int) -> Gpus:
    """Return GPUs without instances."""
    return Gpus(
        parts=np.zeros((gpus, max(per_gpu, 1), 2), np.int64),
        count=np.zeros(gpus, np.int64),
        state=np.zeros(gpus, np.int64),
        wake=np.full(gpus, NEVER, np.int64),
    )
