"""The tables that the kernel of co-scaling reads: functions, requests, absent instances."""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.sharing.curves import join_curves, saturation
from gpuplan.simkit.sharing.fleet import INFERENCE, LLM, TRAINING
from gpuplan.simkit.sharing.policies import charges
from gpuplan.simkit.sharing.services import (
    BY_LIMIT,
    BY_REQUEST,
    MOST_PERIODS,
    TOKENS,
    WHOLE,
    Service,
    SharingRules,
    TrainingJob,
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
    RequestLoad,
)


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
