"""The schedulers of one cluster once more, slow and plain: the oracle of the kernel.

Rules as in docs/policies.md, with objects and lists searched anew at each instant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

from gpuplan.simkit.cluster.simulator import gittins_levels
from gpuplan.simkit.time import MICROS, to_micros
from gpuplan.simkit.workload import Workload


@dataclass
class Job:
    number: int
    submit: int
    service: int
    gpus: int
    deadline: int
    state: str = "coming"
    overhead: int = 0
    left: int = 0
    attained: int = 0
    level: int = 0
    start: int = -1
    finish: int = -1
    ends: int = -1
    begun: int = 0
    took: int = -1
    held: int = 0
    stops: int = 0
    stopped_at: int = -1
    nodes: list = field(default_factory=list)


class Twin:
    def __init__(self, workload, cluster):
        c = self.c = cluster
        columns = (workload.submit_us, workload.service_us, workload.gpus, workload.deadline_us)
        self.jobs = [Job(i, *map(int, row)) for i, row in enumerate(zip(*columns, strict=True))]
        for job in self.jobs:
            job.left = job.service
        own = (workload.checkpoint_us, workload.restore_us)
        for usual, each in zip((c.checkpoint_s, c.restore_s), own, strict=True):
            for job in self.jobs:
                job.overhead += int(to_micros(usual) if each is None else each[job.number])
        self.limits = [int(limit) for limit in to_micros(list(c.limits))]
        self.ranks = list(range(len(self.limits) + 1))
        if c.order == "gittins":
            limits, ranks = gittins_levels(workload.service_us * workload.gpus, c.levels)
            self.limits, self.ranks = limits.tolist(), ranks.tolist()
        self.by_level = c.order in ("attained", "attained_gpu", "gittins")
        each = c.gpus_per_node
        # Nodes by how many GPUs they have free, the last changed at the end.
        self.nodes = {free: [] for free in range((each or 0) + 1)}
        if each:
            self.nodes[each] = list(range(c.gpus // each))[::-1]
        self.now = 0
        self.free = c.gpus
        self.timeline = []
        self.segments = []

    def scale(self, job):
        return job.gpus if self.c.order in ("remaining_gpu", "attained_gpu", "gittins") else 1

    def key(self, job):
        match self.c.order:
            case "arrival":
                return 0
            case "width":
                return job.gpus
            case "duration":
                return job.service
            case "deadline":
                return job.deadline
            case "remaining" | "remaining_gpu":
                if job.state == "running":
                    return (job.ends - self.now) * self.scale(job)
                return (job.left + (job.overhead if job.stops else 0)) * self.scale(job)
            case _:
                return self.ranks[job.level]

    def all(self, state):
        return [job for job in self.jobs if job.state == state]

    def update(self, job):
        left = min(job.left, job.ends - self.now)
        job.attained += (job.left - left) * self.scale(job)
        job.left = left
        job.held += self.now - job.begun
        job.begun = self.now
        while job.level < len(self.limits) and job.attained >= self.limits[job.level]:
            job.level += 1

    def crossing(self, job):
        if not self.by_level or job.level == len(self.limits) or not self.c.preemptive:
            return math.inf
        need = -((job.attained - self.limits[job.level]) // self.scale(job))
        return job.ends - job.left + need if need < job.left else math.inf

    def promotion(self, job):
        if self.c.starvation is None or job.level == 0 or not job.stops:
            return math.inf
        return job.stopped_at + math.ceil(self.c.starvation * (job.service - job.left))

    def room(self, width, nodes):
        each = self.c.gpus_per_node
        if not each:
            return True
        counts = sorted((free for free, some in nodes.items() for _ in some), reverse=True)
        whole, rest = divmod(width, each)
        if counts[:whole] != [each] * whole:
            return False
        return rest == 0 or any(free >= rest for free in counts[whole:])

    def fits(self, job):
        """Return the running jobs to stop so that this one fits, or None."""
        free, gone = self.free, []
        nodes = {count: list(some) for count, some in self.nodes.items()}
        worse = [other for other in self.all("running") if self.key(other) > self.key(job)]
        worse.sort(key=lambda other: (self.key(other), other.number))
        while job.gpus > free or not self.room(job.gpus, nodes):
            if not self.c.preemptive or not worse:
                return None
            other = worse.pop()
            gone.append(other)
            free += other.gpus
            for node, part in other.nodes:
                self.move(nodes, node, part)
        return gone

    def move(self, nodes, node, part):
        free = next(count for count, some in nodes.items() if node in some)
        nodes[free].remove(node)
        nodes[free + part].append(node)

    def give_back(self, job):
        self.segments.append((job.number, job.took, self.now, tuple(job.nodes)))
        self.free += job.gpus
        for node, part in job.nodes:
            self.move(self.nodes, node, part)
        job.nodes = []

    def take(self, job):
        job.took = self.now
        self.free -= job.gpus
        width, each = job.gpus, self.c.gpus_per_node
        while each and width:
            part = min(width, each)
            node = next(some for free, some in self.nodes.items() if free >= part and some)[-1]
            self.move(self.nodes, node, -part)
            job.nodes.insert(0, (node, part))
            width -= part

    def act(self):
        while True:
            waiting = sorted(self.all("waiting"), key=lambda job: (self.key(job), job.number))
            for job in waiting if self.c.skipping else waiting[:1]:
                gone = self.fits(job)
                if gone is not None:
                    break
            else:
                return
            for other in gone:
                self.give_back(other)
                self.update(other)
                other.state = "waiting"
                other.stops += 1
                other.stopped_at = self.now
            self.take(job)
            job.state, job.begun = "running", self.now
            if job.start < 0:
                job.start, job.ends = self.now, self.now + job.left
            elif job.stopped_at == self.now and not self.c.gpus_per_node:
                job.stops -= 1
            else:
                job.ends = self.now + job.overhead + job.left

    def run(self):
        while any(job.state != "done" for job in self.jobs):
            self.now = min(
                [job.submit for job in self.all("coming")]
                + [min(job.ends, self.crossing(job)) for job in self.all("running")]
                + [self.promotion(job) for job in self.all("waiting")]
            )
            for job in self.all("running"):
                if job.ends == self.now:
                    self.update(job)
                    self.give_back(job)
                    job.state, job.finish = "done", self.now
                elif self.crossing(job) == self.now:
                    self.update(job)
            for job in self.all("waiting"):
                if self.promotion(job) == self.now:
                    job.level = job.attained = 0
            for job in self.all("coming"):
                if job.submit == self.now:
                    job.state = "waiting"
            self.act()
            if self.timeline and self.timeline[-1][0] == self.now:
                self.timeline.pop()
            self.timeline.append((self.now, self.c.gpus - self.free, len(self.all("waiting"))))
        return self


def run_twin(workload, cluster):
    """Return everything that must agree with the kernel, as plain lists."""
    if cluster.as_published:
        workload = in_whole_seconds(workload)
        if cluster.order != "arrival":
            return run_published(workload, cluster)[:2]
    twin = Twin(workload, cluster).run()
    jobs = [(job.start, job.finish, job.held, job.stops) for job in twin.jobs]
    return jobs, without_repeats(twin.timeline)


def segments_of(workload, cluster):
    """Return who held GPUs when, as (job, begin, end, ((node, GPUs), ...)); some last no time."""
    if not cluster.as_published:
        return Twin(workload, cluster).run().segments
    whole = in_whole_seconds(workload)
    if cluster.order != "arrival":
        return run_published(whole, cluster)[2]
    return Twin(whole, cluster).run().segments


def in_whole_seconds(workload):
    """Return a workload with its times rounded half up."""
    submit, service, due = (
        [math.floor(time / MICROS + 0.5) for time in times.tolist()]
        for times in (workload.submit_us, workload.service_us, workload.deadline_us)
    )
    return Workload.from_seconds(submit, service, workload.gpus, due)


def run_published(workload, cluster):
    """Run jobs as the published simulator does: at each event empty the cluster and fill it anew.

    Return what `run_twin` does, and what `segments_of` does.
    """
    columns = (workload.submit_us // MICROS, workload.service_us // MICROS, workload.gpus)
    jobs = [Job(i, *map(int, row), 0) for i, row in enumerate(zip(*columns, strict=True))]
    for job in jobs:
        job.left = job.service
    by_gpu = cluster.order in ("remaining_gpu", "attained_gpu")
    in_queues = cluster.order in ("attained", "attained_gpu")
    limits = [int(limit) for limit in cluster.limits]
    queues = [[] for _ in range(len(limits) + 1 if in_queues else 1)]
    keys = {"width": lambda job: job.gpus, "remaining": lambda job: job.left}
    keys["remaining_gpu"] = lambda job: job.left * job.gpus

    timeline, segments = [], []
    now = jobs[0].submit
    while any(job.state != "done" for job in jobs):
        queues[0] += [job for job in jobs if job.state == "coming" and job.submit == now]
        if not in_queues:
            queues[0].sort(key=keys[cluster.order])
        free = cluster.gpus
        there = [job for queue in queues for job in queue]
        for job in there:
            before, fits = job.state, job.gpus <= free
            job.state = "running" if fits else "waiting"
            job.stops += before == "running" and not fits
            free -= job.gpus * fits
            if fits and job.start < 0:
                job.start = now
        if in_queues:
            for queue in queues:
                queue.sort(key=lambda job: job.state != "running")
        running = [job for job in there if job.state == "running"]
        timeline.append((now * MICROS, cluster.gpus - free, len(there) - len(running)))
        events = [job.submit for job in jobs if job.state == "coming" and job.submit > now]
        for job in running:
            events.append(now + job.left)
            if in_queues and job.level < len(limits):
                # The simulator takes seconds from GPU-seconds.
                more = limits[job.level] - (job.service - job.left)
                events.append(now + max(more // job.gpus if by_gpu else more, 1))
        then = min(events)
        for job in sorted(running, key=lambda job: job.number):
            segments.append((job.number, now * MICROS, then * MICROS, ()))
            job.left -= then - now
            attained = (job.service - job.left) * (job.gpus if by_gpu else 1)
            level = max(job.level, sum(attained >= limit for limit in limits)) * in_queues
            if level > job.level or job.left == 0:
                queues[job.level].remove(job)
                job.level = level
                if job.left == 0:
                    job.state, job.finish = "done", then
                else:
                    queues[level].append(job)
        now = then
    found = [
        (job.start * MICROS, job.finish * MICROS, job.service * MICROS, job.stops) for job in jobs
    ]
    return found, without_repeats(timeline), segments


def without_repeats(timeline):
    """Return the instants of a time line at which it changed, each as it was left."""
    lasting = {row[0]: row for row in timeline}.values()
    return [now for last, now in pairwise([(), *lasting]) if last[1:] != now[1:]]
