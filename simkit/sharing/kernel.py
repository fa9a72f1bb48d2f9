"""Co-scaling of shared GPUs on a grid of 5 ms: placement, instances, tokens and progress.

Source: Lv et al., "Dilu", ASPLOS 2025. In a period come, in this order: training jobs that start,
horizontal decisions (at whole seconds), instances that become ready, arrivals, tokens and shares,
progress. Shares hold for the period; batches start and end inside it at their own times. A GPU on
which nothing can change issues no tokens, and periods in which nothing happens are passed over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.sharing.curves import exec_time
from gpuplan.simkit.sharing.fleet import ACTIVE_LIST, NEXT, TRAINING
from gpuplan.simkit.sharing.lifecycle import (
    append_request,
    end_instance,
    launch,
    next_ready,
    wake_gpus,
)
from gpuplan.simkit.sharing.state import (
    ABSENT,
    BATCH,
    BATCH_HEAD,
    BATCH_SIZE,
    BEGAN_S,
    COLD,
    COUNT,
    DRAINING,
    FIRST,
    FRESH,
    FUNCTION,
    HEAD,
    KIND,
    LAST_S,
    LEAST_S,
    LEFT,
    NEVER,
    PERIOD_S,
    PERIODS_PER_S,
    READY,
    READY_AT,
    START,
    STARTING,
    STATUS,
    TOTAL_S,
    USED,
    WHOLE_S,
    WORK,
)
from gpuplan.simkit.sharing.vertical import issue_tokens, next_expiry, set_shares

FITS = -1


@kernel
def batch_time(one: int, functions: Any, instances: Any, held: Any, curves: Any) -> float:
    """Return the time of the batch that runs, at the shares of now: the mean of its stages."""
    function = instances.numbers[one, FUNCTION]
    total = 0.0
    for part in range(held.parts[one]):
        share = instances.share[one, part]
        total += exec_time(curves, function, instances.numbers[one, BATCH_SIZE], share)
    return functions.values[function, WORK] * total / held.parts[one]  # type: ignore[no-any-return]


@kernel
def gang_rate(one: int, functions: Any, instances: Any, held: Any, curves: Any) -> float:
    """Return the rate of a training job relative to whole GPUs: that of its slowest worker."""
    function = instances.numbers[one, FUNCTION]
    batch = functions.numbers[function, BATCH]
    alone = exec_time(curves, function, batch, 1.0)
    rate = np.inf
    for part in range(held.parts[one]):
        rate = min(rate, alone / exec_time(curves, function, batch, instances.share[one, part]))
    return rate


@kernel
def run_batches(
    one: int,
    period: int,
    arrival_s: Any,
    following: Any,
    finish_s: Any,
    functions: Any,
    instances: Any,
    held: Any,
    curves: Any,
) -> float:
    """Let an instance work through a period, and return the part of the period it was busy."""
    now = period * PERIOD_S
    end = now + PERIOD_S
    at = now
    busy = 0.0
    most = functions.numbers[instances.numbers[one, FUNCTION], BATCH]
    while True:
        if instances.numbers[one, BATCH_SIZE] == 0:
            request = instances.numbers[one, HEAD]
            if request < 0:
                break
            at = max(at, arrival_s[request])
            if at >= end:
                break
            instances.numbers[one, BATCH_HEAD] = request
            size = 0
            while request >= 0 and size < most and arrival_s[request] <= at:
                size += 1
                request = following[request]
            instances.numbers[one, HEAD] = request
            instances.numbers[one, BATCH_SIZE] = size
            instances.values[one, LEFT] = 1.0
            instances.values[one, BEGAN_S] = at
            instances.values[one, WHOLE_S] = -1.0
        if instances.values[one, WHOLE_S] < 0:
            instances.values[one, WHOLE_S] = batch_time(one, functions, instances, held, curves)
        whole = instances.values[one, WHOLE_S]
        needs = whole * instances.values[one, LEFT]
        spent = min(needs, end - at)
        busy += spent
        if needs > end - at:
            instances.values[one, LEFT] -= spent / whole
            break
        at += needs
        instances.values[one, LAST_S] = at - instances.values[one, BEGAN_S]
        if (
            instances.values[one, LEAST_S] == 0.0
            or instances.values[one, LAST_S] < instances.values[one, LEAST_S]
        ):
            instances.values[one, LEAST_S] = instances.values[one, LAST_S]
        instances.numbers[one, FRESH] = 1
        request = instances.numbers[one, BATCH_HEAD]
        for _ in range(instances.numbers[one, BATCH_SIZE]):
            finish_s[request] = at
            request = following[request]
        instances.numbers[one, BATCH_SIZE] = 0
    return busy / PERIOD_S


@kernel
def simulate(
    periods: int,
    functions: Any,
    services: int,
    load: Any,
    curves: Any,
    instances: Any,
    gpus: Any,
    jobs: Any,
    fleet: Any,
    held: Any,
    placement: Any,
    rules: Any,
    log: Any,
) -> Any:
    """Run services and training jobs on shared GPUs for a number of periods.

    Args:
        periods: periods of 5 ms.
        functions: see `Functions`; the first ``services`` of them serve requests.
        load: see `RequestLoad`.
        curves: see `Curves`, one per function.
        instances, gpus, jobs: all absent, empty and zero; see their classes.
        fleet, held: free GPUs, and instances that hold nothing.
        placement: see `PlacementRules`.
        rules: see `VerticalRules`.
        log: gets a row per period and part on an active GPU (period, GPU, state, instance, quota,
            share, share used), (L, 7); where it has no rows, nothing is written.

    Returns:
        when each request finished, NaN if it did not, (R,); changes of the active GPUs, rows
        (period, GPUs), ascending; rows of ``log`` in use; the function that fits nowhere, -1 if all
        fit, and the period of that.
    """
    arrival_s, seen, offset, changes = load.arrival_s, load.period, load.offset, load.changes
    numbers, values = instances.numbers, instances.values  # of instances; looked up once
    function_numbers, function_values = functions.numbers, functions.values
    done_s, job_rate, job_since, job_due = jobs.done_s, jobs.rate, jobs.since, jobs.due
    links, totals, wakes = fleet.links, fleet.totals, gpus.wake
    held_parts, held_gpus = held.parts, held.gpus
    job_count = done_s.size
    finish_s = np.full(arrival_s.size, np.nan)
    following = np.full(arrival_s.size, -1, np.int64)
    next_arrival = offset[:services].copy()
    waiting = offset[:services].copy()  # the first request that waits at its function
    launched = np.zeros(services, np.int64)
    living = np.zeros(services, np.int64)  # instances that do not drain
    turn = np.zeros(services, np.int64)
    running = np.zeros(numbers.shape[0], np.int64)  # instances with work
    is_running = np.zeros(numbers.shape[0], np.bool_)
    starting = np.zeros(numbers.shape[0], np.int64)
    draining = np.zeros(numbers.shape[0], np.int64)
    ended = np.zeros(numbers.shape[0], np.int64)  # batches ended in the last period
    busy = np.zeros(numbers.shape[0])
    training = np.zeros(job_count, np.int64)
    most = max(held.gpus.shape[1], fleet.node_gpus)
    into, parts_gb = np.zeros(most, np.int64), np.zeros(most)
    timeline = np.zeros((2 * numbers.shape[0] + 1, 2), np.int64)
    run_count = start_count = drain_count = end_count = train_count = 0
    next_change = next_job = lines = rows = 0
    wake = 0  # the next period in which a GPU issues tokens
    active_head = fleet.instances.size + ACTIVE_LIST
    period = 0
    while period < periods:
        while next_job < job_count and function_numbers[services + next_job, START] <= period:
            function = services + next_job
            one = function_numbers[function, FIRST]
            if not launch(
                one,
                period,
                period,
                functions,
                instances,
                gpus,
                fleet,
                held,
                placement,
                into,
                parts_gb,
            ):
                return finish_s, timeline[:lines], rows, function, period
            numbers[one, STATUS] = READY
            wake = period
            training[train_count] = next_job
            train_count += 1
            job_since[next_job] = period
            next_job += 1

        while next_change < changes.shape[0] and changes[next_change, 0] * PERIODS_PER_S <= period:
            function, count = changes[next_change, 1], changes[next_change, 2]
            next_change += 1
            while living[function] < count:
                one = function_numbers[function, FIRST] + launched[function]
                ready = period if period == 0 else period + function_numbers[function, COLD]
                if not launch(
                    one,
                    period,
                    ready,
                    functions,
                    instances,
                    gpus,
                    fleet,
                    held,
                    placement,
                    into,
                    parts_gb,
                ):
                    return finish_s, timeline[:lines], rows, function, period
                wake = period
                launched[function] += 1
                living[function] += 1
                starting[start_count] = one
                start_count += 1
            while living[function] > count:
                one = function_numbers[function, FIRST] + launched[function] - 1
                while numbers[one, DRAINING] or numbers[one, STATUS] == ABSENT:
                    one -= 1
                numbers[one, DRAINING] = 1
                living[function] -= 1
                draining[drain_count] = one
                drain_count += 1

        kept = 0
        for at in range(start_count):
            one = starting[at]
            if numbers[one, READY_AT] > period:
                starting[kept] = one
                kept += 1
            elif numbers[one, STATUS] == STARTING:
                numbers[one, STATUS] = READY
                wake = period
                wake_gpus(one, period, held_parts, held_gpus, wakes)
        start_count = kept

        for function in range(services):
            last = offset[function + 1]
            while next_arrival[function] < last and (seen[next_arrival[function]] <= period):
                next_arrival[function] += 1
            while waiting[function] < next_arrival[function]:
                first, count = function_numbers[function, FIRST], function_numbers[function, COUNT]
                one = next_ready(function, first, count, turn, numbers)
                if one < 0:
                    break
                append_request(waiting[function], one, following, numbers)
                waiting[function] += 1
                if not is_running[one]:
                    is_running[one] = True
                    running[run_count] = one
                    run_count += 1
                    wake = period
                    wake_gpus(one, period, held_parts, held_gpus, wakes)

        changed = False
        if wake <= period:
            wake = NEVER
            gpu = links[NEXT, active_head]
            while gpu != active_head:
                if wakes[gpu] <= period:
                    again = False
                    if not rules.static:
                        again = issue_tokens(gpu, period, functions, instances, gpus, rules)
                    changed = set_shares(gpu, functions, instances, gpus) or changed
                    wakes[gpu] = NEVER
                    if again:
                        wakes[gpu] = period + 1
                    elif not rules.static:
                        wakes[gpu] = next_expiry(gpu, period, instances, gpus, rules)
                wake = min(wake, wakes[gpu])
                gpu = links[NEXT, gpu]
        for at in range(end_count):
            numbers[ended[at], FRESH] = 0
        end_count = 0

        if lines == 0 or timeline[lines - 1, 1] != totals[0]:
            timeline[lines, 0], timeline[lines, 1] = period, int(totals[0])
            lines += 1

        now = period * PERIOD_S
        end = now + PERIOD_S
        kept = 0
        for at in range(run_count):
            one = running[at]
            whole = values[one, WHOLE_S]
            if numbers[one, BATCH_SIZE] and 0 < end - now < whole * values[one, LEFT]:
                values[one, LEFT] -= (end - now) / whole  # the common case, without a call
                busy[one] = (end - now) / PERIOD_S
                if numbers[one, USED] < period - 1:
                    wake_gpus(one, period + 1, held_parts, held_gpus, wakes)
                    wake = period + 1
                numbers[one, USED] = period
                running[kept] = one
                kept += 1
                continue
            busy[one] = run_batches(
                one, period, arrival_s, following, finish_s, functions, instances, held, curves
            )
            if numbers[one, USED] < period - 1:
                wake_gpus(one, period + 1, held_parts, held_gpus, wakes)
                wake = period + 1
            numbers[one, USED] = period
            if numbers[one, FRESH]:
                ended[end_count] = one
                end_count += 1
                wake_gpus(one, period + 1, held_parts, held_gpus, wakes)
                wake = period + 1
            if numbers[one, BATCH_SIZE] or numbers[one, HEAD] >= 0:
                running[kept] = one
                kept += 1
            else:
                is_running[one] = False
        run_count = kept

        if log.shape[0]:
            rows = write_log(period, rows, log, functions, instances, gpus, fleet, held, busy)

        kept = 0
        for at in range(train_count):
            job = training[at]
            function = services + job
            one = function_numbers[function, FIRST]
            if numbers[one, USED] != NEVER:
                numbers[one, USED] = NEVER  # from now on it always computes
                wake_gpus(one, period + 1, held_parts, held_gpus, wakes)
                wake = period + 1
            if changed or job_since[job] == period:
                rate = gang_rate(one, functions, instances, held, curves)
                if rate != job_rate[job]:
                    done_s[job] += job_rate[job] * (period - job_since[job]) * PERIOD_S
                    job_rate[job], job_since[job] = rate, period
                    left = (function_values[function, TOTAL_S] - done_s[job]) / (rate * PERIOD_S)
                    due = NEVER if left > 1e15 else period + max(int(np.ceil(left - 1e-9)), 1) - 1
                    job_due[job] = due
            if period >= job_due[job]:
                done_s[job] = function_values[function, TOTAL_S]
                job_rate[job] = 0.0
                end_instance(one, period, functions, instances, gpus, fleet, held)
                wake = period + 1
            else:
                training[kept] = job
                kept += 1
        train_count = kept

        kept = 0
        for at in range(drain_count):
            one = draining[at]
            if numbers[one, BATCH_SIZE] == 0 and numbers[one, HEAD] < 0:
                end_instance(one, period, functions, instances, gpus, fleet, held)
                wake = period + 1
            else:
                draining[kept] = one
                kept += 1
        drain_count = kept

        period += 1
        if run_count == 0 and log.shape[0] == 0 and drain_count == 0:  # nothing may happen yet
            ahead = min(wake, periods)
            for at in range(train_count):
                ahead = min(ahead, job_due[training[at]])
            if next_job < job_count:
                ahead = min(ahead, function_numbers[services + next_job, START])
            if next_change < changes.shape[0]:
                ahead = min(ahead, changes[next_change, 0] * PERIODS_PER_S)
            for at in range(start_count):
                ahead = min(ahead, numbers[starting[at], READY_AT])
            for function in range(services):
                if next_arrival[function] < offset[function + 1]:
                    ahead = min(ahead, seen[next_arrival[function]])
            period = max(period, ahead)
    for at in range(train_count):
        job = training[at]
        done_s[job] += job_rate[job] * (periods - job_since[job]) * PERIOD_S
    return finish_s, timeline[:lines], rows, FITS, periods


@kernel
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
            one, part = gpus.parts[gpu, at, 0], gpus.parts[gpu, at, 1]
            if instances.numbers[one, STATUS] != READY or rows == log.shape[0]:
                continue
            share = instances.share[one, part]
            used = 0.0
            if functions.numbers[instances.numbers[one, FUNCTION], KIND] == TRAINING:
                used = share
            elif instances.numbers[one, USED] == period:
                used = share * busy[one] / held.parts[one]
            log[rows, 0], log[rows, 1], log[rows, 2] = period, gpu, gpus.state[gpu]
            log[rows, 3], log[rows, 4], log[rows, 5] = one, instances.quota[one, part], share
            log[rows, 6] = used
            rows += 1
    return rows
