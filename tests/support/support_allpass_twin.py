"""Allpass once more, slow and plain: the oracle of the kernel.

Rules as in docs/allpass.md, written with objects, a heapq of events and fresh sums at each tick.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from gpuplan.simkit.allpass.allpass_run import overheads_us
from gpuplan.simkit.renting.market import NANOS, Market
from gpuplan.simkit.time import FOREVER, to_micros

ORDER = [
    "finish serverless",
    "finish serverful",
    "demote",
    "worker ready",
    "checkpoint done",
    "submit",
    "container ready",
    "lease",
    "market",
    "tick",
]


def micros(seconds):
    return int(to_micros(seconds))


def nanos(usd):
    return math.floor(usd * NANOS + 0.5)


@dataclass
class Job:
    number: int
    submit: int
    service: int
    gpus: int
    deadline: int
    startup: int
    checkpoint: int
    restore: int
    place: str = "nowhere"  # container, checkpoint, queue, workers, done
    admitted_threshold: int = 0
    start: int = -1
    finish: int = -1
    serverless: int = 0
    queue: int = 0
    waits_since: int = 0
    demoted: bool = False
    left: int = 0  # service on workers that is still to be done
    began: int = -1  # its stay on the present workers
    vain: int = 0
    workers: list = field(default_factory=list)


@dataclass
class Worker:
    number: int
    offer: int
    asked: int  # billionths of a dollar
    price: int
    request: int
    ready: int
    release: int = -1
    busy: int = 0
    job: Job | None = None
    up: bool = False
    priced: int = 0
    bill: float = 0.0
    reclaimed: bool = False

    def charge(self, now):
        self.bill += float(self.price) * float(now - self.priced)
        self.priced = now


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
                    *overheads_us(workload, p),
                    strict=True,
                )
            )
        ]
        self.draws = {"market": list(draws.marketplace_us), "cloud": list(draws.conventional_us)}
        self.counts = {"market": 0, "cloud": 0}
        self.threshold = micros(p.threshold_s)
        moves = [(job.checkpoint + job.restore) / 1e6 for job in self.jobs]
        lowest = min(sum(moves) / len(moves), p.threshold_s, p.max_threshold_s)
        self.lowest = micros(lowest if p.min_threshold_s is None else p.min_threshold_s)
        market = p.market or Market.constant(p.marketplace_prices)
        ladders = np.split(market.price, np.cumsum(market.offers)[:-1])
        self.ladders = [[nanos(price) for price in ladder] for ladder in ladders]
        self.starts, self.period = market.start_us.tolist(), market.period_us
        self.step = self.rounds = 0
        self.holder = {}  # place among the offers -> worker
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
        self.at_next_market()
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
                    if self.finish_serverful(self.jobs[subject]):
                        left -= 1
                        changed = True
                case "demote":
                    self.demote(self.jobs[subject])
                case "worker ready":
                    self.workers[subject].up = self.workers[subject].release < 0
                    changed = True
                case "checkpoint done":
                    job = self.jobs[subject]
                    self.containers -= job.gpus
                    job.place, job.waits_since = "queue", self.now
                    job.left = job.service - job.serverless
                    self.queue_up(job)
                    self.serverful[job.number] = job
                    changed = True
                case "submit":
                    self.waiting.append(self.jobs[subject])
                case "container ready":
                    self.begin(self.jobs[subject])
                case "lease":
                    if self.workers[subject].release < 0:
                        changed |= self.take_away(self.workers[subject])
                case "market":
                    changed |= self.change_market()
                case "tick":
                    self.tick()
            self.admit()
        for worker in self.workers:
            if worker.release < 0:
                worker.charge(self.now)
                worker.release = self.now
        return self

    def at_next_market(self):
        following = [*self.starts[1:], self.period][self.step]
        if following < FOREVER:
            self.at(self.rounds * self.period + following, "market", 0)

    def change_market(self):
        self.step += 1
        if self.step == len(self.starts):
            self.step, self.rounds = 0, self.rounds + 1
        self.at_next_market()
        ladder = self.ladders[self.step]
        stopped = False
        for place, worker in sorted(self.holder.items()):
            if place < len(ladder):
                if self.p.pricing == "in-force" and worker.price != ladder[place]:
                    worker.charge(self.now)
                    worker.price = ladder[place]
            elif self.p.reclaim:
                worker.reclaimed = True
                stopped |= self.take_away(worker, micros(self.p.grace_s))
        return stopped

    def take_away(self, worker, notice=math.inf):
        """End a rental, at a notice; return whether a job stops."""
        job = worker.job
        if job is not None:
            self.stop(job, is_saved=notice > 0 and job.checkpoint <= notice)
        worker.up = False
        self.give_back(worker)
        return job is not None

    def stop(self, job, *, is_saved):
        """Take a job off its workers: what it did since it was last saved is lost."""
        ran = self.now - job.began
        kept = max(0, ran - job.restore)
        every = micros(self.p.save_every_s)
        kept = kept // every * every if every else kept
        if is_saved:
            kept = max(kept, ran - job.restore - job.checkpoint)
        job.left -= kept
        job.vain += ran - kept
        for worker in job.workers:
            worker.busy -= job.finish - self.now
            worker.job = None
        job.place, job.finish, job.workers, job.waits_since = "queue", -1, [], self.now
        self.queue_up(job)

    def queue_up(self, job):
        first = job.deadline if self.p.queue_order == "deadline" else job.submit
        heapq.heappush(self.queue, (first, job.number))

    def give_back(self, worker):
        worker.charge(self.now)
        worker.release = self.now
        del self.held[worker.number]
        if worker.offer >= 0:
            del self.holder[worker.offer]

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
        self.at(self.now + job.checkpoint, "checkpoint done", job.number)

    def finish_serverful(self, job):
        if job.place != "workers" or job.finish != self.now:
            return False  # it was stopped on the way
        job.place, job.vain = "done", job.vain + job.restore
        del self.serverful[job.number]
        for worker in job.workers:
            worker.job = None
        return True

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
            run, job.began = job.restore + job.left, self.now
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
            return job.gpus * (job.restore + job.left)
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
            self.give_back(worker)

        ready = sum(w.up for w in self.held.values())
        state = (
            self.threshold,
            len(self.queue),
            ready,
            len(self.held) - ready,
            len(self.idle()),
            self.containers,
            len(self.holder),
            len(self.ladders[self.step]),
            sum(w.price for w in self.held.values()),
        )
        if not self.timeline or (*self.timeline[-1][1:], self.pressures[-1]) != (*state, pressure):
            self.timeline.append((self.now, *state))
            self.pressures.append(pressure)
        self.at(self.now + micros(p.tick_s), "tick", 0)

    def follow_utilization(self):
        """Kubernetes' autoscaler: how many workers to add, how many to let go."""
        p, held = self.p, len(self.held)
        ready = [w for w in self.held.values() if w.up]
        head = self.head()  # the idle ones, too few for it, are kept for it
        busy = sum(w.job is not None or head is not None for w in ready)
        desired = held
        if ready:
            usage = busy / (p.target_utilization * len(ready))
            if usage > 1:  # those that start are idle soon; at worst everything stays as it is
                usage = max(1.0, busy / (p.target_utilization * held))
            if abs(usage - 1) > p.utilization_tolerance + 1e-9:
                desired = math.ceil(busy / p.target_utilization - 1e-6)
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
        limits = self.lowest, micros(p.max_threshold_s)
        before, self.threshold = self.threshold, min(max(moved, limits[0]), limits[1])
        if p.threshold_rule == "live" and self.threshold != before:
            for job in self.inside.values():
                self.at(max(self.now, job.start + self.allowed(job)), "demote", job.number)

    def rent(self):
        ladder = self.ladders[self.step]
        free = [place for place in range(len(ladder)) if place not in self.holder]
        offer, price = (
            (free[0], ladder[free[0]]) if free else (-1, nanos(self.p.conventional_price))
        )
        kind = "market" if offer >= 0 else "cloud"
        delay = int(self.draws[kind][self.counts[kind] % len(self.draws[kind])])
        self.counts[kind] += 1
        worker = Worker(len(self.workers), offer, price, price, self.now, self.now + delay)
        worker.priced = self.now
        if offer >= 0:
            self.holder[offer] = worker
        self.workers.append(worker)
        self.held[worker.number] = worker
        self.at(worker.ready, "worker ready", worker.number)
        if offer >= 0 and self.p.lease_s < math.inf:
            self.at(self.now + micros(self.p.lease_s), "lease", worker.number)
