"""Allpass in plain Python with heapq: what one would write without compiling, as a yardstick.

The rules of docs/allpass.md with either ``scale_out``, ``scaling`` ``bounded`` or ``literal``, any
threshold, controller and prices, and the other settings at their defaults; every tick sums the work
of the serverful tier in one pass over its jobs.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from gpuplan.simkit.allpass.parameters import Allpass, Draws
from gpuplan.simkit.time import to_micros
from gpuplan.simkit.workload import Workload

(
    FINISH_SERVERLESS,
    FINISH_SERVERFUL,
    DEMOTE,
    WORKER_READY,
    CHECKPOINT_DONE,
    SUBMIT,
    CONTAINER_READY,
    DISPATCH,
    TICK,
) = range(9)
MINUTE = 60_000_000


class Pool:
    """The workers: which are idle, in both orders of price, and which offers are free."""

    def __init__(self, rules: Allpass, draws: Draws) -> None:
        self.prices = [*rules.marketplace_prices, rules.conventional_price]
        self.free = list(range(len(rules.marketplace_prices)))
        self.starts = (draws.marketplace_us.tolist(), draws.conventional_us.tolist())
        self.rented = [0, 0]
        self.offer: list[int] = []
        self.request: list[int] = []
        self.release: list[int] = []
        self.is_idle: list[bool] = []
        self.cheapest: list[tuple[float, int]] = []
        self.most_expensive: list[tuple[float, int]] = []
        self.ready = self.starting = self.idle = 0

    def rent(self, now: int) -> int:
        """Return when the new worker, the last one, is ready."""
        offer = heappop(self.free) if self.free else -1
        kind = int(offer < 0)
        delay = self.starts[kind][self.rented[kind] % len(self.starts[kind])]
        self.rented[kind] += 1
        self.offer.append(offer)
        self.request.append(now)
        self.release.append(-1)
        self.is_idle.append(False)
        self.starting += 1
        return now + int(delay)

    def put(self, worker: int) -> None:
        self.is_idle[worker] = True
        self.idle += 1
        price = self.prices[self.offer[worker]]
        heappush(self.cheapest, (price, worker))
        heappush(self.most_expensive, (-price, -worker))

    def take(self, order: list[tuple[float, int]]) -> int:
        while True:
            worker = abs(heappop(order)[1])
            if self.is_idle[worker]:  # else taken by the other order
                self.is_idle[worker] = False
                self.idle -= 1
                return worker

    def let_go(self, now: int) -> None:
        worker = self.take(self.most_expensive)
        self.release[worker] = now
        self.ready -= 1
        if self.offer[worker] >= 0:
            heappush(self.free, self.offer[worker])


def replay(workload: Workload, rules: Allpass, draws: Draws) -> tuple[list[int], list[int]]:
    """Return when each job ends and when each worker is released, microseconds."""
    submit, service = workload.submit_us.tolist(), workload.service_us.tolist()
    gpus, deadline = workload.gpus.tolist(), workload.deadline_us.tolist()
    startup = draws.container_us.tolist()
    checkpoint, restore = int(to_micros(rules.checkpoint_s)), int(to_micros(rules.restore_s))
    tick, window = int(to_micros(rules.tick_s)), int(to_micros(rules.window_s))
    threshold = int(to_micros(rules.threshold_s))
    bounded, serve_queue = rules.scaling == "bounded", rules.scale_out == "queue"
    jobs = left = len(submit)
    start, finish, remaining = [0] * jobs, [0] * jobs, [0] * jobs
    inside = [False] * jobs
    held_by: dict[int, list[int]] = {}
    active: dict[int, int] = {}  # job of the serverful tier -> its end, 0 while it queues
    pool = Pool(rules, draws)
    events: list[tuple[int, int, int]] = [(tick, TICK, 0)]
    running: list[tuple[int, int]] = []
    queue: list[tuple[int, int]] = []
    coming = now = all_width = 0
    changed = False

    while left:
        event = events[0]
        if coming < jobs and (submit[coming], SUBMIT, coming) < event:
            event = (submit[coming], SUBMIT, coming)
        while running and not inside[running[0][1]]:
            heappop(running)
        if running:
            leaves = (max(now, running[0][0] + threshold), DEMOTE, running[0][1])
            event = min(event, leaves)
        if changed and (event[0] > now or event[1] == TICK):
            event = (now, DISPATCH, 0)
        elif event is events[0]:
            heappop(events)
        now, kind, number = event

        if kind == SUBMIT:
            coming += 1
            heappush(events, (now + startup[number], CONTAINER_READY, number))
        elif kind == CONTAINER_READY:
            start[number], inside[number] = now, True
            heappush(events, (now + service[number], FINISH_SERVERLESS, number))
            heappush(running, (now, number))
        elif kind == FINISH_SERVERLESS:
            if inside[number]:
                inside[number], finish[number] = False, now
                left -= 1
        elif kind == DEMOTE:
            heappop(running)
            inside[number] = False
            remaining[number] = restore + service[number] - (now - start[number])
            heappush(events, (now + checkpoint, CHECKPOINT_DONE, number))
        elif kind == CHECKPOINT_DONE:
            heappush(queue, (deadline[number], number))
            active[number] = 0
            all_width += gpus[number]
            changed = True
        elif kind == WORKER_READY:
            pool.starting -= 1
            pool.ready += 1
            pool.put(number)
            changed = True
        elif kind == FINISH_SERVERFUL:
            finish[number] = now
            left -= 1
            del active[number]
            all_width -= gpus[number]
            for worker in held_by.pop(number):
                pool.put(worker)
            changed = True
        elif kind == DISPATCH:
            changed = False
            while queue and gpus[queue[0][1]] <= pool.idle:
                job = heappop(queue)[1]
                held_by[job] = [pool.take(pool.cheapest) for _ in range(gpus[job])]
                active[job] = now + remaining[job]
                heappush(events, (active[job], FINISH_SERVERFUL, job))
        else:
            due = [0] * (window // MINUTE + 1)
            width = 0
            for job, end in active.items():
                minute = max(1, -((now - deadline[job]) // MINUTE))
                if minute < len(due):
                    due[minute] += gpus[job] * (end - now if end else remaining[job])
                    width += gpus[job]
            pressure, work = 0.0, 0
            for minute in range(1, len(due)):
                work += due[minute]
                if work:
                    room = pool.ready * minute * MINUTE
                    ratio = work / room if room else rules.max_pressure
                    pressure = max(pressure, min(ratio, rules.max_pressure))
            if rules.controller == "adaptive":
                if pressure > 1:
                    change = min(rules.limit_up_s, rules.gain_up_s * (pressure - 1))
                else:
                    change = -min(rules.limit_down_s, rules.gain_down_s * (1 - pressure))
                threshold += int(np.floor(change * 1e6 + 0.5))
                threshold = max(threshold, int(to_micros(rules.least_threshold_s)))
                threshold = min(threshold, int(to_micros(rules.max_threshold_s)))
            held = pool.ready + pool.starting
            usable = min(work, width * window) if bounded else work
            wanted = -((held * window - usable) // window) if pressure > 1 else 0
            spare = (held * window - usable) // window if pressure < 1 else 0
            if bounded:
                spare = max(spare, held - all_width)
            if queue and serve_queue:
                wanted, spare = max(wanted, all_width - held), 0
            elif queue and queue[0][0] <= now + window:
                wanted, spare = max(wanted, gpus[queue[0][1]] - held), 0
            for _ in range(wanted):
                at = pool.rent(now)
                heappush(events, (at, WORKER_READY, len(pool.offer) - 1))
            for _ in range(min(spare, pool.idle)):
                pool.let_go(now)
            heappush(events, (now + tick, TICK, 0))
    return finish, [now if at < 0 else at for at in pool.release]
