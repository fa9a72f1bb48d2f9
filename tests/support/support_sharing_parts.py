"""Curves, functions, instances and placement on shared GPUs in plain Python.

Parts of the slow, readable twin of `gpuplan.simkit.sharing`, written from the specification.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

PERIOD = 0.005
NONE, RECOVERY, CONTENTION, EMERGENCY = "NONE", "RECOVERY", "CONTENTION", "EMERGENCY"


class TwinCurve:
    """Execution time over batch and share, from rows (batch, share, latency)."""

    def __init__(self, rows):
        self.rates = {}
        for batch, share, latency in sorted(rows):
            points = self.rates.setdefault(batch, [(0.0, 0.0)])
            points.append((share, max(points[-1][1], 1 / latency)))

    def _rate(self, batch, share):
        points = self.rates[batch]
        at = bisect_right([s for s, _ in points], share)
        if at == len(points):
            return points[-1][1]
        (s0, r0), (s1, r1) = points[at - 1], points[at]
        return r0 + (r1 - r0) * (share - s0) / (s1 - s0)

    def time(self, batch, share):
        known = sorted(self.rates)
        low = max([b for b in known if b <= batch], default=known[0])
        high = min([b for b in known if b >= batch], default=known[-1])
        if not self._rate(low, share) or not self._rate(high, share):
            return math.inf
        first, last = 1 / self._rate(low, share), 1 / self._rate(high, share)
        return first if low == high else first + (last - first) * (batch - low) / (high - low)

    def saturation(self, batch):
        shares = [s for s, _ in self.rates[max(self.rates)][1:]]
        best = 1 / self.time(batch, shares[-1])
        return next(s for s in shares if 1 / self.time(batch, s) >= 0.98 * best)


@dataclass
class TwinFunction:
    """An inference function, or one training job where ``workers`` is set."""

    name: str
    curve: TwinCurve
    request: float
    limit: float
    batch: int
    memory: float = 0.0
    llm: bool = False
    work: float = 1.0
    arrivals: tuple = ()
    changes: tuple = ()  # (second, instances from then on)
    first: int = 1
    cold_s: float = 0.0
    workers: int = 0  # of a training job
    start_s: float = 0.0
    total_s: float = math.inf  # of work on whole GPUs


@dataclass
class TwinPart:
    """An instance, or a worker, or a stage, on one GPU."""

    owner: object
    gpu: int
    memory: float
    quota: float
    used: list = field(default_factory=list)  # share used of past periods
    share: float = 0.0


class TwinInstance:
    """An instance of an inference function, or a whole training gang."""

    def __init__(self, function, number, now, ready):
        self.function, self.number, self.launched, self.ready_at = function, number, now, ready
        self.parts, self.queue, self.batch = [], [], None
        self.ready = self.draining = False
        self.left = self.began = 0.0
        self.last = self.least = 0.0
        self.fresh = self.calm_row = False
        self.calm = 0  # batches without trouble in a row
        self.done_s = 0.0


@dataclass
class TwinRules:
    """Placement and vertical scaling."""

    gpus: int = 4
    node_gpus: int = 4
    memory: float = 40.0
    gamma: float = 1.5
    omega: float = 1.0
    alpha: float = 0.6
    beta: float = 0.4
    window: int = 20
    violation: float = 0.2
    violation_llm: float = 0.2
    increase: float = 1.3
    floor: float = 1.0
    calm: int = 0
    static: str = ""  # "request" or "limit": quotas that never change
    split: bool = True
    affinity: bool = True


class TwinPlacement:
    """Algorithm 1 over parts on GPUs."""

    def __init__(self, rules):
        self.rules = rules
        self.on = {gpu: [] for gpu in range(rules.gpus)}  # (request, limit, memory, instance)

    def sums(self, gpu):
        rows = self.on[gpu]
        return sum(r for r, *_ in rows), sum(x[1] for x in rows), sum(x[2] for x in rows)

    def fits(self, gpu, request, limit, memory):
        r, lim, mem = self.sums(gpu)
        rules = self.rules
        return (
            r + request <= rules.omega + 1e-9
            and lim + limit <= rules.gamma + 1e-9
            and mem + memory <= rules.memory + 1e-9
        )

    def best(self, gpus, request, limit, memory):
        def score(gpu):
            r, _, mem = self.sums(gpu)
            rules = self.rules
            free = 1 - (mem + memory) / rules.memory
            return round(rules.alpha * (1 - r - request) + rules.beta * free, 12)

        room = [gpu for gpu in gpus if self.fits(gpu, request, limit, memory)]
        return min(room, key=lambda gpu: (score(gpu), gpu), default=None)

    def affine(self, function):
        found = set()
        for gpu, rows in self.on.items():
            if not any(row[3].function.name == function.name for row in rows):
                continue
            for row in rows:
                if row[3].function.workers:
                    found |= {other for other in self.on if other != gpu and any(
                        x[3] is row[3] for x in self.on[other])}  # fmt: skip
        return sorted(found)

    def choose(self, function):
        """Return [(gpu, memory), ...], or None where it does not fit."""
        rules = self.rules
        active = [gpu for gpu in self.on if self.on[gpu]]
        free = [gpu for gpu in self.on if not self.on[gpu]]
        ask = (function.request, function.limit, function.memory)
        if function.workers:
            for pool in (active, sorted(active + free)):
                for first in range(0, rules.gpus, rules.node_gpus):
                    node = range(first, first + rules.node_gpus)
                    room = [g for g in node if g in pool and self.fits(g, *ask)]
                    room.sort(key=lambda g: not self.on[g])
                    if len(room) >= function.workers:
                        return [(g, function.memory) for g in room[: function.workers]]
            return None
        gpu = None
        if rules.affinity:
            gpu = self.best(self.affine(function), *ask)
        if gpu is None:
            gpu = self.best(active, *ask)
        if gpu is None and function.llm and rules.split:
            for first in range(0, rules.gpus, rules.node_gpus):
                node = [g for g in range(first, first + rules.node_gpus) if g in active]
                room = [g for g in node if self.fits(g, ask[0], ask[1], 0.0)]
                space = {g: rules.memory - self.sums(g)[2] for g in room}
                left, parts = function.memory, []
                for g in sorted((g for g in room if space[g] > 1e-9), key=lambda g: (-space[g], g)):
                    parts.append((g, min(left, space[g])))
                    left -= parts[-1][1]
                    if left <= 1e-9:
                        return parts
        if gpu is None:
            gpu = next((g for g in free if self.fits(g, *ask)), None)
        return None if gpu is None else [(gpu, function.memory)]

    def add(self, instance, parts):
        f = instance.function
        for gpu, memory in parts:
            self.on[gpu].append((f.request, f.limit, memory, instance))

    def remove(self, instance):
        for gpu in self.on:
            self.on[gpu] = [row for row in self.on[gpu] if row[3] is not instance]
