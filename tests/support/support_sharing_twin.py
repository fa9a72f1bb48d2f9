"""Sharing of GPUs in plain Python: every 5 ms one step, objects and lists, nothing skipped.

A slow, readable twin of `gpuplan.simkit.sharing`, written from the specification.
"""

from __future__ import annotations

import math

from support_sharing_parts import (
    CONTENTION,
    EMERGENCY,
    NONE,
    PERIOD,
    RECOVERY,
    TwinInstance,
    TwinPart,
    TwinPlacement,
)


class TwinSharing:
    """Placement, horizontal and vertical scaling together, on a grid of 5 ms."""

    def __init__(self, functions, horizon_s, rules):
        self.rules, self.horizon_s = rules, horizon_s
        self.services = sorted((f for f in functions if not f.workers), key=lambda f: f.name)
        self.trainings = [f for f in functions if f.workers]
        self.placement = TwinPlacement(rules)
        self.state = {gpu: NONE for gpu in range(rules.gpus)}
        self.live = []  # in the order of functions, then of launches
        self.waiting = {f.name: [] for f in self.services}
        self.turn = {f.name: 0 for f in self.services}
        self.launches = {f.name: 0 for f in self.services}
        self.cold = {f.name: 0 for f in self.services}
        self.lived_s = {f.name: 0.0 for f in self.services}
        self.served = {f.name: [] for f in self.services}  # (finish, request, latency)
        self.jobs = {}
        self.log = []
        self.gpu_s = 0.0

    def run(self):
        following = {f.name: 0 for f in self.services}
        for period in range(round(self.horizon_s / PERIOD)):
            now = period * PERIOD
            for job in self.trainings:
                if math.ceil(job.start_s / PERIOD - 1e-9) == period:
                    self.launch(job, now, now)
            if period % 200 == 0:
                for f in self.services:
                    self.scale(f, period // 200, now)
            for one in self.live:
                one.ready = one.ready or one.ready_at <= now + 1e-9
            for f in self.services:
                while following[f.name] < len(f.arrivals):
                    at = f.arrivals[following[f.name]]
                    if at >= min(now + PERIOD, (period + 1) * PERIOD):
                        break
                    self.waiting[f.name].append((at, following[f.name]))
                    following[f.name] += 1
                self.hand_out(f)
            for gpu in self.placement.on:
                if self.placement.on[gpu]:
                    self.issue(gpu, period)
            self.progress(period, now)
            count = sum(bool(rows) for rows in self.placement.on.values())
            self.gpu_s += count * PERIOD
            self.drain(now + PERIOD)
        for one in self.live:
            if not one.function.workers:
                self.lived_s[one.function.name] += self.horizon_s - one.launched
        return self

    def launch(self, function, now, ready):
        number = 1
        if not function.workers:
            self.launches[function.name] += 1
            self.cold[function.name] += 1
            number = self.launches[function.name]
        one = TwinInstance(function, number, now, ready)
        parts = self.placement.choose(function)
        if parts is None:
            raise ValueError(f"{function.name} does not fit at {now}")
        self.placement.add(one, parts)
        quota = function.limit if function.workers else function.request
        if self.rules.static:
            quota = getattr(function, self.rules.static)
        one.parts = [TwinPart(one, gpu, memory, quota) for gpu, memory in parts]
        if function.workers:
            one.ready = True
            self.jobs[function.name] = one
        self.live.append(one)
        self.live.sort(key=by_id)

    def scale(self, function, second, now):
        wanted = [n for s, n in ((0, function.first), *function.changes) if s == second]
        alive = [x for x in self.live if x.function is function and not x.draining]
        for count in wanted:
            for _ in range(count - len(alive)):
                self.launch(function, now, now if second == 0 else now + function.cold_s)
            for one in alive[count:]:
                one.draining = True

    def hand_out(self, function):
        ready = [x for x in self.live if x.function is function and x.ready and not x.draining]
        waiting = self.waiting[function.name]
        while waiting and ready:
            self.turn[function.name] = (self.turn[function.name] + 1) % len(ready)
            ready[self.turn[function.name]].queue.append(waiting.pop(0))

    def change(self, one, parts):
        """Return by how much the last batch took longer than the quickest."""
        quiet = all(self.silent(part) for part in parts)
        if (quiet and one.batch is None) or not one.least:
            return 0.0
        return (one.last - one.least) / one.least

    def silent(self, part):
        return not any(part.used[-self.rules.window :])

    def issue(self, gpu, period):
        parts = [p for x in self.live for p in x.parts if p.gpu == gpu and x.ready]
        inference = [p for p in parts if not p.owner.function.workers]
        training = [p for p in parts if p.owner.function.workers]
        rules = self.rules
        if not rules.static:
            self.tokens(gpu, inference, training)
        demands = []
        for part in parts:
            f = part.owner.function
            busy = f.workers or part.owner.batch is not None or part.owner.queue
            demands.append(min(part.quota, f.curve.saturation(f.batch)) if busy else 0.0)
        total = max(1.0, sum(demands))
        for part, demand in zip(parts, demands, strict=True):
            part.share = demand / total
        for part in parts:
            self.log.append([period, gpu, self.state[gpu], part.owner, part.quota, part.share])

    def tokens(self, gpu, inference, training):
        rules, state = self.rules, NONE
        owners = []
        for part in inference:
            f, one = part.owner.function, part.owner
            change = self.change(one, [part])
            others = [p for p in (*inference, *training) if p is not part]
            if change > (rules.violation_llm if f.llm else rules.violation):
                state, part.quota = EMERGENCY, f.limit
                owners.append((one, change))
            elif self.silent(part):
                state, part.quota = RECOVERY, f.request
            elif all(self.silent(p) for p in others):
                state = RECOVERY
                part.quota = min(max(part.quota, f.request) * rules.increase, f.limit)
            else:
                state, part.quota = CONTENTION, f.request
        if owners:
            state = EMERGENCY
        self.state[gpu] = state
        fresh = any(one.fresh for one, _ in owners)
        step = state == CONTENTION and any(part.owner.calm_row for part in inference)
        for part in training:
            f = part.owner.function
            low = rules.floor * f.request
            if state == NONE:
                part.quota = f.limit
            elif state == EMERGENCY and fresh:
                most = max(change for _, change in owners)
                part.quota = max(low, min(f.request, part.quota) / (1 + most))
            elif state == RECOVERY or step:
                part.quota = min(rules.increase * max(part.quota, low), f.limit)

    def progress(self, period, now):
        end = now + PERIOD
        for one in self.live:
            for part in one.parts:
                part.used.append(0.0)
                del part.used[: -self.rules.window]
            one.fresh = one.calm_row = False
            f = one.function
            if f.workers:
                rate = min(
                    f.curve.time(f.batch, 1.0) / f.curve.time(f.batch, p.share) for p in one.parts
                )
                one.done_s += rate * PERIOD
                for part in one.parts:
                    part.used[-1] = part.share
                continue
            at = now
            while True:
                if one.batch is None:
                    if not one.queue:
                        break
                    at = max(at, one.queue[0][0])
                    if at >= end:
                        break
                    here = [r for r in one.queue if r[0] <= at][: f.batch]
                    one.batch, one.queue = here, one.queue[len(here) :]
                    one.left, one.began = 1.0, at
                times = [f.curve.time(len(one.batch), p.share) for p in one.parts]
                whole = f.work * sum(times) / len(times)
                needs = whole * one.left
                spent = min(needs, end - at)
                for part in one.parts:
                    part.used[-1] += part.share / len(one.parts) * spent / PERIOD
                if needs > end - at:
                    one.left -= spent / whole
                    break
                at += needs
                one.last = at - one.began
                one.least = min(one.least or math.inf, one.last)
                one.fresh = True
                one.calm = one.calm + 1 if one.last < 1.2 * one.least else 0
                if one.calm == self.rules.calm:
                    one.calm, one.calm_row = 0, True
                self.served[f.name] += [(at, number, at - came) for came, number in one.batch]
                one.batch = None

    def drain(self, end):
        for one in list(self.live):
            job = one.function.workers and one.done_s >= one.function.total_s - 1e-9
            if job or (one.draining and not one.queue and one.batch is None):
                self.placement.remove(one)
                self.live.remove(one)
                if not one.function.workers:
                    self.lived_s[one.function.name] += end - one.launched


def by_id(one):
    """Return the place of an instance: services by name, then training by start."""
    f = one.function
    return bool(f.workers), f.start_s, f.name, one.number
