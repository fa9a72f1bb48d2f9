"""Allpass once more, slow and plain: the oracle of the kernel.

Rules as in docs/allpass.md, written with objects, a heapq of events and fresh sums at each tick.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace

from gpuplan.simkit.workload import FOREVER, to_micros

ORDER = [
    "finish serverless",
    "finish serverful",
    "demote",
    "worker ready",
    "checkpoint done",
    "submit",
    "container ready",
    "tick",
]


def micros(seconds):
    return int(to_micros(seconds))


@dataclass
class Job:
    number: int
    submit: int
    service: int
    gpus: int
    deadline: int
    startup: int
    place: str = "nowhere"  # container, checkpoint, queue, workers, done
    admitted_threshold: int = 0
    start: int = -1
    finish: int = -1
    serverless: int = 0
    queue: int = 0
    waits_since: int = 0
    demoted: bool = False
    workers: list = field(default_factory=list)


@dataclass
class Worker:
    number: int
    offer: int
    price: float
    request: int
    ready: int
    release: int = -1
    busy: int = 0
    job: Job | None = None
    up: bool = False


class Twin:
    def __init__(self, workload, parameters, draws):
        p = self.p = parameters
        self.jobs = [
            Job(i, *map(int, row))
            for i, row in enumerate(
                zip(
                    workload.submit_us,
                    workload.service_us,
                    workload.gpus,
                    workload.deadline_us,
                    draws.container_us,
                    strict=True,
                )
            )
        ]
        self.draws = {"market": list(draws.marketplace_us), "cloud": list(draws.conventional_us)}
        self.counts = {"market": 0, "cloud": 0}
        self.threshold = micros(p.threshold_s)
        self.checkpoint, self.restore = micros(p.checkpoint_s), micros(p.restore_s)
        self.free_offers = list(enumerate(p.marketplace_prices))
        self.workers, self.held = [], {}  # all that ever were, and those rented now
        self.waiting, self.queue = deque(), []  # for a container; for workers, a heap by deadline
        self.inside, self.serverful = {}, {}  # jobs that run in a container; in the other tier
        self.containers = 0
        self.timeline, self.pressures, self.dispatches = [], [], []
        self.events = []
        self.wishes = []  # (time, workers desired) of every tick so far
        self.now = 0

    def at(self, time, kind, subject):
        heapq.heappush(self.events, (time, ORDER.index(kind), subject))

    def run(self):
        for job in self.jobs:
            self.at(job.submit, "submit", job.number)
        at_once = self.p.scaling == "utilization"
        self.at(0 if at_once else micros(self.p.tick_s), "tick", 0)
        left = len(self.jobs)
        changed = False
        while left:
            time, kind, subject = self.events[0]
            if changed and (time > self.now or ORDER[kind] == "tick"):
                changed = False
                self.dispatch()
                continue
            heapq.heappop(self.events)
            self.now = time
            match ORDER[kind]:
                case "finish serverless":
                    left -= self.finish_serverless(self.jobs[subject])
                case "finish serverful":
                    self.finish_serverful(self.jobs[subject])
                    left -= 1
                    changed = True
                case "demote":
                    self.demote(self.jobs[subject])
                case "worker ready":
                    self.workers[subject].up = True
                    changed = True
                case "checkpoint done":
                    job = self.jobs[subject]
                    self.containers -= job.gpus
                    job.place, job.waits_since = "queue", self.now
                    by_deadline = self.p.queue_order == "deadline"
                    key = job.deadline if by_deadline else job.submit
                    heapq.heappush(self.queue, (key, job.number))
                    self.serverful[job.number] = job
                    changed = True
                case "submit":
                    self.waiting.append(self.jobs[subject])
                case "container ready":
                    self.begin(self.jobs[subject])
                case "tick":
                    self.tick()
            self.admit()
        for worker in self.workers:
            if worker.release < 0:
                worker.release = self.now
        return self

    def admit(self):
        limit = math.inf if self.p.serverless_limit is None else self.p.serverless_limit
        while self.waiting and self.containers + self.waiting[0].gpus <= limit:
            job = self.waiting.popleft()
            self.containers += job.gpus
            job.queue = self.now - job.submit
            job.admitted_threshold = self.threshold
            self.at(self.now + job.startup, "container ready", job.number)

    def allowed(self, job):
        """The run time after which a job leaves its container."""
        if self.p.capacity is not None and job.gpus > self.p.capacity:
            return FOREVER
        live = self.p.threshold_rule == "live"
        return self.threshold if live else job.admitted_threshold

    def begin(self, job):
        job.place, job.start = "container", self.now
        self.inside[job.number] = job
        self.at(self.now + job.service, "finish serverless", job.number)
        self.at(self.now + self.allowed(job), "demote", job.number)

    def finish_serverless(self, job):
        if job.place != "container":
            return 0
        job.place, job.finish, job.serverless = "done", self.now, job.service
        self.containers -= job.gpus
        del self.inside[job.number]
        return 1

    def demote(self, job):
        if job.place != "container" or self.now < job.start + self.allowed(job):
            return  # it is gone, or the threshold rose: another event stands for that
        job.place, job.demoted = "checkpoint", True
        del self.inside[job.number]
        job.serverless = self.now - job.start
        self.at(self.now + self.checkpoint, "checkpoint done", job.number)

    def finish_serverful(self, job):
        job.place, job.finish = "done", self.now
        del self.serverful[job.number]
        for worker in job.workers:
            worker.job = None

    def idle(self):
        return [w for w in self.held.values() if w.up and w.job is None]

    def head(self):
        return self.jobs[self.queue[0][1]] if self.queue else None

    def dispatch(self):
        while (job := self.head()) is not None:
            free = sorted(self.idle(), key=lambda w: (w.price, w.number))[: job.gpus]
            if len(free) < job.gpus:
                return
            heapq.heappop(self.queue)
            self.dispatches.append((self.now, job.number))
            job.place = "workers"
            job.queue += self.now - job.waits_since
            run = self.restore + job.service - job.serverless
            job.workers = free
            for worker in free:
                assert worker.job is None
                assert worker.ready <= self.now
                worker.job = job
                worker.busy += run
            job.finish = self.now + run
            self.at(job.finish, "finish serverful", job.number)

    def remaining(self, job):
        if job.place == "queue":
            return job.gpus * (self.restore + job.service - job.serverless)
        return job.gpus * (job.finish - self.now)

    def tick(self):
        p = self.p
        window = micros(p.window_s)
        serverful = list(self.serverful.values())
        held = len(self.held)
        ready = sum(w.up for w in self.held.values())
        pressure = 0.0
        for minute in range(60_000_000, window + 1, 60_000_000):
            demand = sum(self.remaining(j) for j in serverful if j.deadline <= self.now + minute)
            if demand > 0:
                ratio = float(demand) / (float(ready) * float(minute)) if ready else math.inf
                pressure = max(pressure, min(ratio, p.max_pressure))
        if p.controller == "adaptive":
            self.move_threshold(pressure)

        inside = [job for job in serverful if job.deadline <= self.now + window]
        useful = sum(map(self.remaining, inside))
        if p.scaling == "bounded":
            useful = min(useful, window * sum(job.gpus for job in inside))
        shortfall = max(0, useful - held * window)
        surplus = max(0, held * window - useful)
        add = -(-shortfall // window) if pressure > 1 else 0
        release = surplus // window if pressure < 1 else 0
        if p.scaling == "bounded":
            release = max(release, held - sum(job.gpus for job in serverful))
        head = self.head()
        if p.scaling == "utilization":
            add, release = self.follow_utilization()
        elif head is not None and p.scale_out == "queue":
            add = max(add, sum(job.gpus for job in serverful) - held)
            release = 0
        elif head is not None and head.deadline <= self.now + window:
            add = max(add, head.gpus - held)
            release = 0
        if p.capacity is not None:
            add = min(add, p.capacity - held)
        for _ in range(add):
            self.rent()
        idle = sorted(self.idle(), key=lambda w: (-w.price, -w.number))
        for worker in idle[: max(0, release)]:
            worker.release = self.now
            del self.held[worker.number]
            if worker.offer >= 0:
                self.free_offers.append((worker.offer, worker.price))

        ready = sum(w.up for w in self.held.values())
        state = (
            self.threshold,
            len(self.queue),
            ready,
            len(self.held) - ready,
            len(self.idle()),
            self.containers,
        )
        if not self.timeline or (*self.timeline[-1][1:], self.pressures[-1]) != (*state, pressure):
            self.timeline.append((self.now, *state))
            self.pressures.append(pressure)
        self.at(self.now + micros(p.tick_s), "tick", 0)

    def follow_utilization(self):
        """Kubernetes' autoscaler: how many workers to add, how many to let go."""
        p, held = self.p, len(self.held)
        ready = [w for w in self.held.values() if w.up]
        busy = sum(w.job is not None for w in ready)
        desired = held
        if ready:
            usage = busy / (p.target_utilization * len(ready))
            if usage > 1:  # those that start are idle soon; at worst everything stays as it is
                usage = max(1.0, busy / (p.target_utilization * held))
            if abs(usage - 1) > p.utilization_tolerance + 1e-9:
                desired = math.ceil(busy / p.target_utilization - 1e-6)
        head = self.head()
        desired = max(desired, p.min_workers, head.gpus if head else 0)
        if p.capacity is not None:
            desired = min(desired, p.capacity)
        self.wishes.append((self.now, desired))
        since = self.now - micros(p.stabilization_s)
        return desired - held, held - max(wish for time, wish in self.wishes if time >= since)

    def move_threshold(self, pressure):
        p = self.p
        if pressure > 1:
            change = min(p.limit_up_s, p.gain_up_s * (pressure - 1))
        else:
            change = -min(p.limit_down_s, p.gain_down_s * (1 - pressure))
        moved = self.threshold + math.floor(change * 1_000_000 + 0.5)
        limits = micros(p.min_threshold_s), micros(p.max_threshold_s)
        before, self.threshold = self.threshold, min(max(moved, limits[0]), limits[1])
        if p.threshold_rule == "live" and self.threshold != before:
            for job in self.inside.values():
                self.at(max(self.now, job.start + self.allowed(job)), "demote", job.number)

    def rent(self):
        if self.free_offers:
            offer, price = min(self.free_offers)
            self.free_offers.remove((offer, price))
        else:
            offer, price = -1, self.p.conventional_price
        kind = "market" if offer >= 0 else "cloud"
        delay = int(self.draws[kind][self.counts[kind] % len(self.draws[kind])])
        self.counts[kind] += 1
        worker = Worker(len(self.workers), offer, price, self.now, self.now + delay)
        self.workers.append(worker)
        self.held[worker.number] = worker
        self.at(worker.ready, "worker ready", worker.number)


def run_twin(workload, parameters, draws):
    """Return everything that must agree with the kernel, as plain lists."""
    twin = Twin(workload, parameters, draws).run()
    return SimpleNamespace(
        jobs=[(j.start, j.finish, j.serverless, j.queue, j.demoted) for j in twin.jobs],
        rentals=[(w.offer, w.request, w.ready, w.release, w.busy) for w in twin.workers],
        timeline=twin.timeline,
        pressures=twin.pressures,
        dispatches=twin.dispatches,
    )


def as_lists(run):
    """Return what a run of the kernel and `run_twin` must agree on, as plain lists."""
    jobs = (run.start_us, run.finish_us, run.serverless_us, run.queue_us, run.demoted)
    rentals, line = run.rentals, run.timeline
    return {
        "jobs": list(zip(*(c.tolist() for c in jobs), strict=True)),
        "rentals": list(
            zip(
                rentals.offer.tolist(),
                rentals.request_us.tolist(),
                rentals.ready_us.tolist(),
                rentals.release_us.tolist(),
                rentals.busy_us.tolist(),
                strict=True,
            )
        ),
        "timeline": list(
            zip(
                line.time_us.tolist(),
                line.threshold_us.tolist(),
                line.queued.tolist(),
                line.ready.tolist(),
                line.starting.tolist(),
                line.idle.tolist(),
                line.serverless.tolist(),
                strict=True,
            )
        ),
        "pressures": line.pressure.tolist(),
    }
