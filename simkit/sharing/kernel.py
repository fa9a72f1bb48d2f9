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
from gpuplan.simkit.sharing.fleet import TRAINING
from gpuplan.simkit.sharing.lifecycle import (
    append_request,
    end_instance,
    launch,
    next_ready,
    wake_gpus,
)
from gpuplan.simkit.sharing.state import (
    ABSENT,
    NEVER,
    PERIOD_S,
    PERIODS_PER_S,
    READY,
    STARTING,
)
from gpuplan.simkit.sharing.vertical import issue_tokens, next_expiry, set_shares

FITS = -1


@kernel
def batch_time(one: int, functions: Any, instances: Any, held: Any, curves: Any) -> float:
    """Return the time of the batch that runs, at the shares of now: the mean of its stages."""
    function = instances.function[one]
    total = 0.0
    for part in range(held.parts[one]):
        share = instances.share[one, part]
        total += exec_time(curves, function, instances.batch_size[one], share)
    return functions.work[function] * total / held.parts[one]  # type: ignore[no-any-return]


@kernel
def gang_rate(one: int, functions: Any, instances: Any, held: Any, curves: Any) -> float:
    """Return the rate of a training job relative to whole GPUs: that of its slowest worker."""
    function = instances.function[one]
    batch = functions.batch[function]
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
    most = functions.batch[instances.function[one]]
    while True:
        if instances.batch_size[one] == 0:
            request = instances.head[one]
            if request < 0:
                break
            at = max(at, arrival_s[request])
            if at >= end:
                break
            instances.batch_head[one] = request
            size = 0
            while request >= 0 and size < most and arrival_s[request] <= at:
                size += 1
                request = following[request]
            instances.head[one] = request
            instances.batch_size[one] = size
            instances.left[one] = 1.0
            instances.began_s[one] = at
            instances.whole_s[one] = -1.0
        if instances.whole_s[one] < 0:
            instances.whole_s[one] = batch_time(one, functions, instances, held, curves)
        whole = instances.whole_s[one]
        needs = whole * instances.left[one]
        spent = min(needs, end - at)
        busy += spent
        if needs > end - at:
            instances.left[one] -= spent / whole
            break
        at += needs
        instances.last_s[one] = at - instances.began_s[one]
        if instances.least_s[one] == 0.0 or instances.last_s[one] < instances.least_s[one]:
            instances.least_s[one] = instances.last_s[one]
        instances.fresh[one] = True
        request = instances.batch_head[one]
        for _ in range(instances.batch_size[one]):
            finish_s[request] = at
            request = following[request]
        instances.batch_size[one] = 0
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
        load: see `Load`.
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
    arrival_s = load.arrival_s
    finish_s = np.full(arrival_s.size, np.nan)
    following = np.full(arrival_s.size, -1, np.int64)
    next_arrival = load.offset[:services].copy()
    waiting = load.offset[:services].copy()  # the first request that waits at its function
    launched = np.zeros(services, np.int64)
    living = np.zeros(services, np.int64)  # instances that do not drain
    turn = np.zeros(services, np.int64)
    running = np.zeros(instances.function.size, np.int64)  # instances with work
    is_running = np.zeros(instances.function.size, np.bool_)
    starting = np.zeros(instances.function.size, np.int64)
    draining = np.zeros(instances.function.size, np.int64)
    ended = np.zeros(instances.function.size, np.int64)  # batches ended in the last period
    busy = np.zeros(instances.function.size)
    training = np.zeros(jobs.done_s.size, np.int64)
    most = max(held.gpus.shape[1], fleet.node_gpus)
    into, parts_gb = np.zeros(most, np.int64), np.zeros(most)
    timeline = np.zeros((2 * instances.function.size + 1, 2), np.int64)
    run_count = start_count = drain_count = end_count = train_count = 0
    next_change = next_job = lines = rows = 0
    total_gpus = fleet.instances.size
    active_head = total_gpus
    period = 0
    while period < periods:
        while next_job < jobs.done_s.size and functions.start[services + next_job] <= period:
            function = services + next_job
            one = functions.first[function]
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
            instances.status[one] = READY
            training[train_count] = next_job
            train_count += 1
            jobs.since[next_job] = period
            next_job += 1

        while (
            next_change < load.changes.shape[0]
            and load.changes[next_change, 0] * PERIODS_PER_S <= period
        ):
            function, count = load.changes[next_change, 1], load.changes[next_change, 2]
            next_change += 1
            while living[function] < count:
                one = functions.first[function] + launched[function]
                ready = period if period == 0 else period + functions.cold[function]
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
                launched[function] += 1
                living[function] += 1
                starting[start_count] = one
                start_count += 1
            while living[function] > count:
                one = functions.first[function] + launched[function] - 1
                while instances.draining[one] or instances.status[one] == ABSENT:
                    one -= 1
                instances.draining[one] = True
                living[function] -= 1
                draining[drain_count] = one
                drain_count += 1

        kept = 0
        for at in range(start_count):
            one = starting[at]
            if instances.ready[one] > period:
                starting[kept] = one
                kept += 1
            elif instances.status[one] == STARTING:
                instances.status[one] = READY
                wake_gpus(one, period, held, gpus)
        start_count = kept

        for function in range(services):
            last = load.offset[function + 1]
            while next_arrival[function] < last and (
                load.period[next_arrival[function]] <= period
            ):
                next_arrival[function] += 1
            while waiting[function] < next_arrival[function]:
                one = next_ready(function, turn, functions, instances)
                if one < 0:
                    break
                append_request(waiting[function], one, following, instances)
                waiting[function] += 1
                if not is_running[one]:
                    is_running[one] = True
                    running[run_count] = one
                    run_count += 1
                    wake_gpus(one, period, held, gpus)

        changed = False
        soonest = NEVER
        gpu = fleet.links[0, active_head]
        while gpu != active_head:
            if gpus.wake[gpu] <= period:
                again = False
                if not rules.static:
                    again = issue_tokens(gpu, period, functions, instances, gpus, rules)
                changed = set_shares(gpu, functions, instances, gpus) or changed
                gpus.wake[gpu] = NEVER
                if again:
                    gpus.wake[gpu] = period + 1
                elif not rules.static:
                    gpus.wake[gpu] = next_expiry(gpu, period, instances, gpus, rules)
            soonest = min(soonest, gpus.wake[gpu])
            gpu = fleet.links[0, gpu]
        for at in range(end_count):
            instances.fresh[ended[at]] = False
        end_count = 0

        if lines == 0 or timeline[lines - 1, 1] != fleet.totals[0]:
            timeline[lines, 0], timeline[lines, 1] = period, int(fleet.totals[0])
            lines += 1

        kept = 0
        for at in range(run_count):
            one = running[at]
            busy[one] = run_batches(
                one, period, arrival_s, following, finish_s, functions, instances, held, curves
            )
            if instances.used[one] < period - 1:
                wake_gpus(one, period + 1, held, gpus)
                soonest = period + 1
            instances.used[one] = period
            if instances.fresh[one]:
                ended[end_count] = one
                end_count += 1
                wake_gpus(one, period + 1, held, gpus)
                soonest = period + 1
            if instances.batch_size[one] or instances.head[one] >= 0:
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
            one = functions.first[function]
            if instances.used[one] != NEVER:
                instances.used[one] = NEVER  # from now on it always computes
                wake_gpus(one, period + 1, held, gpus)
                soonest = period + 1
            if changed or jobs.since[job] == period:
                rate = gang_rate(one, functions, instances, held, curves)
                if rate != jobs.rate[job]:
                    jobs.done_s[job] += jobs.rate[job] * (period - jobs.since[job]) * PERIOD_S
                    jobs.rate[job], jobs.since[job] = rate, period
                    left = (functions.total_s[function] - jobs.done_s[job]) / (rate * PERIOD_S)
                    due = NEVER if left > 1e15 else period + max(int(np.ceil(left - 1e-9)), 1) - 1
                    jobs.due[job] = due
            if period >= jobs.due[job]:
                jobs.done_s[job] = functions.total_s[function]
                jobs.rate[job] = 0.0
                end_instance(one, period, functions, instances, gpus, fleet, held)
                soonest = period + 1
            else:
                training[kept] = job
                kept += 1
                soonest = min(soonest, jobs.due[job])
        train_count = kept

        kept = 0
        for at in range(drain_count):
            one = draining[at]
            if instances.batch_size[one] == 0 and instances.head[one] < 0:
                end_instance(one, period, functions, instances, gpus, fleet, held)
                soonest = period + 1
            else:
                draining[kept] = one
                kept += 1
        drain_count = kept

        period += 1
        if run_count == 0 and log.shape[0] == 0 and drain_count == 0:  # nothing may happen yet
            ahead = min(soonest, periods)
            if next_job < jobs.done_s.size:
                ahead = min(ahead, functions.start[services + next_job])
            if next_change < load.changes.shape[0]:
                ahead = min(ahead, load.changes[next_change, 0] * PERIODS_PER_S)
            for at in range(start_count):
                ahead = min(ahead, instances.ready[starting[at]])
            for function in range(services):
                if next_arrival[function] < load.offset[function + 1]:
                    ahead = min(ahead, load.period[next_arrival[function]])
            period = max(period, ahead)
    for at in range(train_count):
        job = training[at]
        jobs.done_s[job] += jobs.rate[job] * (periods - jobs.since[job]) * PERIOD_S
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
            if instances.status[one] != READY or rows == log.shape[0]:
                continue
            share = instances.share[one, part]
            used = 0.0
            if functions.kind[instances.function[one]] == TRAINING:
                used = share
            elif instances.used[one] == period:
                used = share * busy[one] / held.parts[one]
            log[rows, 0], log[rows, 1], log[rows, 2] = period, gpu, gpus.state[gpu]
            log[rows, 3], log[rows, 4], log[rows, 5] = one, instances.quota[one, part], share
            log[rows, 6] = used
            rows += 1
    return rows
