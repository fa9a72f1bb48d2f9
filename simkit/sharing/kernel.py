"""Co-scaling of shared GPUs on a grid of 5 ms: placement, instances, tokens and progress.

Source: Lv et al., "Dilu", ASPLOS 2025. In a period come, in this order: training jobs that start,
horizontal decisions (at whole seconds), instances that become ready, arrivals, tokens and shares,
progress. Shares hold for the period; batches start and end inside it at their own times. A GPU on
which nothing can change issues no tokens, and periods in which nothing happens are passed over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.sharing.batches import gang_rate, run_batches, write_log
from gpuplan.simkit.sharing.fleet import ACTIVE_LIST, NEXT
from gpuplan.simkit.sharing.lifecycle import (
    append_request,
    end_instance,
    launch,
    next_ready,
    wake_gpus,
)
from gpuplan.simkit.sharing.state import (
    ABSENT,
    BATCH_SIZE,
    COLD,
    COUNT,
    DRAINING,
    FIRST,
    FRESH,
    HEAD,
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
    RequestLoad,
)
from gpuplan.simkit.sharing.vertical import issue_tokens, next_expiry, set_shares

FITS = -1


class Work(NamedTuple):
    """The result of a run, and what the loop needs beside the state.

    Attributes:
        finish_s: when each request finished, NaN if it did not; (R,).
        timeline: changes of the active GPUs, rows (period, GPUs), ascending.
        outcome: rows of ``timeline`` in use, rows of the log in use, the function that fits
            nowhere, -1 if all fit, and the period of that.
        following: the request behind each in its queue.
        next_arrival, waiting: of each service, the next request to come, and the first that waits.
        launched, living, turn: of each service, instances so far, those that do not drain, and
            whose turn it is.
        running, is_running: instances with work, and which those are.
        starting, draining, ended: instances that start, that drain, and that ended a batch in the
            last period.
        busy: share of the period in which each instance worked.
        training: jobs that run.
    """

    finish_s: Any
    timeline: Any
    outcome: Any
    following: Any
    next_arrival: Any
    waiting: Any
    launched: Any
    living: Any
    turn: Any
    running: Any
    is_running: Any
    starting: Any
    draining: Any
    ended: Any
    busy: Any
    training: Any


def new_work(load: RequestLoad, services: int, instances: int, jobs: int) -> Work:
    """Return the buffers of a run."""

    def zeros(*shape: int) -> IntArray:
        return np.zeros(shape, np.int64)

    first = load.offset[:services]
    return Work(
        np.full(load.arrival_s.size, np.nan), zeros(2 * instances + 1, 2), zeros(4),
        np.full(load.arrival_s.size, -1, np.int64), first.copy(), first.copy(), zeros(services),
        zeros(services), zeros(services), zeros(instances), np.zeros(instances, np.bool_),
        zeros(instances), zeros(instances), zeros(instances), np.zeros(instances), zeros(jobs),
    )  # fmt: skip


@borrowing_helper
def stopped(outcome: Any, lines: int, rows: int, function: int, period: int) -> None:
    """Note where a run ended; see `Work`."""
    outcome[0], outcome[1], outcome[2], outcome[3] = lines, rows, function, period


@borrowing_kernel
def simulate(
    periods: int,
    functions: Any,
    services: int,
    load: Any,
    curves: Any,
    instances: Any,
    gpus: Any,
    jobs: Any,
    room: Any,
    rules: Any,
    log: Any,
    work: Any,
) -> None:
    """Run services and training jobs on shared GPUs for a number of periods.

    Args:
        periods: periods of 5 ms.
        functions: see `Functions`; the first ``services`` of them serve requests.
        load: see `RequestLoad`.
        curves: see `Curves`, one per function.
        instances, gpus, jobs: all absent, empty and zero; see their classes.
        room: free GPUs, instances that hold nothing, and how they are placed; see `Room`.
        rules: see `VerticalRules`.
        log: gets a row per period and part on an active GPU (period, GPU, state, instance, quota,
            share, share used), (L, 7); where it has no rows, nothing is written.
        work: gets the result; see `Work`.
    """
    fleet, held = room.fleet, room.held
    arrival_s, seen, offset, changes = load.arrival_s, load.period, load.offset, load.changes
    numbers, values = instances.numbers, instances.values  # of instances; looked up once
    function_numbers, function_values = functions.numbers, functions.values
    done_s, job_rate, job_since, job_due = jobs.done_s, jobs.rate, jobs.since, jobs.due
    links, totals, wakes = fleet.links, fleet.totals, gpus.wake
    held_parts, held_gpus = held.parts, held.gpus
    job_count = done_s.size
    finish_s, following, timeline = work.finish_s, work.following, work.timeline
    next_arrival, waiting, launched = work.next_arrival, work.waiting, work.launched
    living, turn, running, is_running = work.living, work.turn, work.running, work.is_running
    starting, draining, ended = work.starting, work.draining, work.ended
    busy, training = work.busy, work.training
    run_count = start_count = drain_count = end_count = train_count = 0
    next_change = next_job = lines = rows = 0
    wake = 0  # the next period in which a GPU issues tokens
    active_head = fleet.instances.size + ACTIVE_LIST
    period = 0
    while period < periods:
        while next_job < job_count and function_numbers[services + next_job, START] <= period:
            function = services + next_job
            instance = function_numbers[function, FIRST]
            if not launch(instance, period, period, functions, instances, gpus, room):
                return stopped(work.outcome, lines, rows, function, period)
            numbers[instance, STATUS] = READY
            wake = period
            training[train_count] = next_job
            train_count += 1
            job_since[next_job] = period
            next_job += 1

        while next_change < changes.shape[0] and changes[next_change, 0] * PERIODS_PER_S <= period:
            function, count = changes[next_change, 1], changes[next_change, 2]
            next_change += 1
            while living[function] < count:
                instance = function_numbers[function, FIRST] + launched[function]
                ready = period if period == 0 else period + function_numbers[function, COLD]
                if not launch(instance, period, ready, functions, instances, gpus, room):
                    return stopped(work.outcome, lines, rows, function, period)
                wake = period
                launched[function] += 1
                living[function] += 1
                starting[start_count] = instance
                start_count += 1
            while living[function] > count:
                instance = function_numbers[function, FIRST] + launched[function] - 1
                while numbers[instance, DRAINING] or numbers[instance, STATUS] == ABSENT:
                    instance -= 1
                numbers[instance, DRAINING] = 1
                living[function] -= 1
                draining[drain_count] = instance
                drain_count += 1

        kept = 0
        for at in range(start_count):
            instance = starting[at]
            if numbers[instance, READY_AT] > period:
                starting[kept] = instance
                kept += 1
            elif numbers[instance, STATUS] == STARTING:
                numbers[instance, STATUS] = READY
                wake = period
                wake_gpus(instance, period, held_parts, held_gpus, wakes)
        start_count = kept

        for function in range(services):
            last = offset[function + 1]
            while next_arrival[function] < last and (seen[next_arrival[function]] <= period):
                next_arrival[function] += 1
            while waiting[function] < next_arrival[function]:
                first, count = function_numbers[function, FIRST], function_numbers[function, COUNT]
                instance = next_ready(function, first, count, turn, numbers)
                if instance < 0:
                    break
                append_request(waiting[function], instance, following, numbers)
                waiting[function] += 1
                if not is_running[instance]:
                    is_running[instance] = True
                    running[run_count] = instance
                    run_count += 1
                    wake = period
                    wake_gpus(instance, period, held_parts, held_gpus, wakes)

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
            instance = running[at]
            batch_s = values[instance, WHOLE_S]
            if numbers[instance, BATCH_SIZE] and 0 < end - now < batch_s * values[instance, LEFT]:
                values[instance, LEFT] -= (end - now) / batch_s  # the common case, without a call
                busy[instance] = (end - now) / PERIOD_S
                if numbers[instance, USED] < period - 1:
                    wake_gpus(instance, period + 1, held_parts, held_gpus, wakes)
                    wake = period + 1
                numbers[instance, USED] = period
                running[kept] = instance
                kept += 1
                continue
            busy[instance] = run_batches(
                instance, period, arrival_s, following, finish_s, functions, instances, held,
                curves, rules,
            )  # fmt: skip
            if numbers[instance, USED] < period - 1:
                wake_gpus(instance, period + 1, held_parts, held_gpus, wakes)
                wake = period + 1
            numbers[instance, USED] = period
            if numbers[instance, FRESH]:
                ended[end_count] = instance
                end_count += 1
                wake_gpus(instance, period + 1, held_parts, held_gpus, wakes)
                wake = period + 1
            if numbers[instance, BATCH_SIZE] or numbers[instance, HEAD] >= 0:
                running[kept] = instance
                kept += 1
            else:
                is_running[instance] = False
        run_count = kept

        if log.shape[0]:
            rows = write_log(period, rows, log, functions, instances, gpus, fleet, held, busy)

        kept = 0
        for at in range(train_count):
            job = training[at]
            function = services + job
            instance = function_numbers[function, FIRST]
            if numbers[instance, USED] != NEVER:
                numbers[instance, USED] = NEVER  # from now on it always computes
                wake_gpus(instance, period + 1, held_parts, held_gpus, wakes)
                wake = period + 1
            if changed or job_since[job] == period:
                rate = gang_rate(instance, functions, instances, held, curves)
                if rate != job_rate[job]:
                    done_s[job] += job_rate[job] * (period - job_since[job]) * PERIOD_S
                    job_rate[job], job_since[job] = rate, period
                    left = (function_values[function, TOTAL_S] - done_s[job]) / (rate * PERIOD_S)
                    due = NEVER if left > 1e15 else period + max(int(np.ceil(left - 1e-9)), 1) - 1
                    job_due[job] = due
            if period >= job_due[job]:
                done_s[job] = function_values[function, TOTAL_S]
                job_rate[job] = 0.0
                end_instance(instance, period, functions, instances, gpus, fleet, held)
                wake = period + 1
            else:
                training[kept] = job
                kept += 1
        train_count = kept

        kept = 0
        for at in range(drain_count):
            instance = draining[at]
            if numbers[instance, BATCH_SIZE] == 0 and numbers[instance, HEAD] < 0:
                end_instance(instance, period, functions, instances, gpus, fleet, held)
                wake = period + 1
            else:
                draining[kept] = instance
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
    return stopped(work.outcome, lines, rows, FITS, periods)
