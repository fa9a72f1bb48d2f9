"""What instances do in a period: batches of requests, the rate of a training job, the log."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.sharing.curves import exec_time
from gpuplan.simkit.sharing.fleet import TRAINING
from gpuplan.simkit.sharing.state import (
    BATCH,
    BATCH_HEAD,
    BATCH_SIZE,
    BEGAN_S,
    CALM,
    CALM_ROW,
    FRESH,
    FUNCTION,
    HEAD,
    KIND,
    LAST_S,
    LEAST_S,
    LEFT,
    PERIOD_S,
    READY,
    STATUS,
    USED,
    WHOLE_S,
    WORK,
)


@borrowing_helper
def batch_time(instance: int, functions: Any, instances: Any, held: Any, curves: Any) -> float:
    """Return the time of the batch that runs, at the shares of now: the mean of its stages."""
    function = instances.numbers[instance, FUNCTION]
    total = 0.0
    for part in range(held.parts[instance]):
        share = instances.share[instance, part]
        total += exec_time(curves, function, instances.numbers[instance, BATCH_SIZE], share)
    return functions.values[function, WORK] * total / held.parts[instance]  # type: ignore[no-any-return]


@borrowing_helper
def gang_rate(instance: int, functions: Any, instances: Any, held: Any, curves: Any) -> float:
    """Return the rate of a training job relative to whole GPUs: that of its slowest worker."""
    function = instances.numbers[instance, FUNCTION]
    batch = functions.numbers[function, BATCH]
    alone = exec_time(curves, function, batch, 1.0)
    rate = np.inf
    for part in range(held.parts[instance]):
        rate = min(
            rate, alone / exec_time(curves, function, batch, instances.share[instance, part])
        )
    return rate


@borrowing_kernel
def count_calm(instance: int, instances: Any, rules: Any) -> None:
    """Count a batch that ended; ``rules.calm`` in a row without trouble make the count restart."""
    numbers, least = instances.numbers, instances.values[instance, LEAST_S]
    numbers[instance, FRESH] = max(numbers[instance, FRESH], 1)
    if rules.calm:
        calm = (instances.values[instance, LAST_S] - least) / least < rules.calm_change
        numbers[instance, CALM] = numbers[instance, CALM] + 1 if calm else 0
        if numbers[instance, CALM] == rules.calm:
            numbers[instance, CALM], numbers[instance, FRESH] = 0, CALM_ROW


@borrowing_helper
def run_batches(
    instance: int,
    period: int,
    arrival_s: Any,
    following: Any,
    finish_s: Any,
    functions: Any,
    instances: Any,
    held: Any,
    curves: Any,
    rules: Any,
) -> float:
    """Let an instance work through a period, and return the part of the period it was busy."""
    now = period * PERIOD_S
    end = now + PERIOD_S
    at = now
    busy = 0.0
    most = functions.numbers[instances.numbers[instance, FUNCTION], BATCH]
    while True:
        if instances.numbers[instance, BATCH_SIZE] == 0:
            request = instances.numbers[instance, HEAD]
            if request < 0:
                break
            at = max(at, arrival_s[request])
            if at >= end:
                break
            instances.numbers[instance, BATCH_HEAD] = request
            size = 0
            while request >= 0 and size < most and arrival_s[request] <= at:
                size += 1
                request = following[request]
            instances.numbers[instance, HEAD] = request
            instances.numbers[instance, BATCH_SIZE] = size
            instances.values[instance, LEFT] = 1.0
            instances.values[instance, BEGAN_S] = at
            instances.values[instance, WHOLE_S] = -1.0
        if instances.values[instance, WHOLE_S] < 0:
            instances.values[instance, WHOLE_S] = batch_time(
                instance, functions, instances, held, curves
            )
        batch_s = instances.values[instance, WHOLE_S]
        needs = batch_s * instances.values[instance, LEFT]
        spent = min(needs, end - at)
        busy += spent
        if needs > end - at:
            instances.values[instance, LEFT] -= spent / batch_s
            break
        at += needs
        instances.values[instance, LAST_S] = at - instances.values[instance, BEGAN_S]
        if (
            instances.values[instance, LEAST_S] == 0.0
            or instances.values[instance, LAST_S] < instances.values[instance, LEAST_S]
        ):
            instances.values[instance, LEAST_S] = instances.values[instance, LAST_S]
        count_calm(instance, instances, rules)
        request = instances.numbers[instance, BATCH_HEAD]
        for _ in range(instances.numbers[instance, BATCH_SIZE]):
            finish_s[request] = at
            request = following[request]
        instances.numbers[instance, BATCH_SIZE] = 0
    return busy / PERIOD_S


@borrowing_helper
def write_log(
    period: int,
    rows: int,
    log: Any,
    functions: Any,
    instances: Any,
    gpus: Any,
    fleet: Any,
    held: Any,
    busy: Any,
) -> int:
    """Write what holds in a period on every active GPU, and return the rows in use."""
    for gpu in range(fleet.instances.size):
        for at in range(gpus.count[gpu]):
            instance, part = gpus.parts[gpu, at, 0], gpus.parts[gpu, at, 1]
            if instances.numbers[instance, STATUS] != READY or rows == log.shape[0]:
                continue
            share = instances.share[instance, part]
            used = 0.0
            if functions.numbers[instances.numbers[instance, FUNCTION], KIND] == TRAINING:
                used = share
            elif instances.numbers[instance, USED] == period:
                used = share * busy[instance] / held.parts[instance]
            log[rows, 0], log[rows, 1], log[rows, 2] = period, gpu, gpus.state[gpu]
            log[rows, 3], log[rows, 4], log[rows, 5] = (
                instance,
                instances.quota[instance, part],
                share,
            )
            log[rows, 6] = used
            rows += 1
    return rows
