"""A slow, readable replay of the twin's rules: plain loops over jobs, nodes and seconds.

It shares nothing with the kernel but the classes of a site.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field

from support_twin_shares import Shares

from gpuplan.simkit.twin.site import SchedulerConfig, SiteQos

INF = 1 << 60


@dataclass
class Outcome:
    start: dict = field(default_factory=dict)
    end: dict = field(default_factory=dict)
    nodes: dict = field(default_factory=dict)
    rejected: dict = field(default_factory=dict)
    usage: dict = field(default_factory=dict)
    main_passes: int = 0
    backfill_passes: int = 0
    jobs_tested: int = 0
    promises: dict = field(default_factory=dict)  # first planned start of each job


class Simulator:
    def __init__(self, site, jobs, config=None):
        self.site, self.c = site, config or SchedulerConfig()
        self.jobs = sorted(jobs, key=lambda j: j.id)
        self.part = {p.name: p for p in site.partitions}
        self.qos = {q.name: q for q in site.qos}
        self.index = {n.name: i for i, n in enumerate(site.nodes)}
        self.shares = Shares(site.assocs, self.jobs)
        self.idle = [n.gpus for n in site.nodes]
        self.running = {}  # id -> job
        self.queue = []
        self.out = Outcome()
        self.priority = {}
        self.factor = {}

    # ---------------------------------------------------------------- what a job may use
    def nodes_for(self, j):
        return [
            self.index[n]
            for n in self.part[j.partition].nodes
            if not j.gpu_type or self.site.nodes[self.index[n]].gpu_type == j.gpu_type
        ]

    def events_of(self, node):
        name = self.site.nodes[node].name
        return [e for e in self.site.events if self.c.events and e.node == name]

    def down(self, node, now):
        return any(e.start <= now < e.end for e in self.events_of(node))

    def down_for_ever(self, node, now):
        """Whether the node is down and nobody knows until when."""
        return any(
            e.start <= now < e.end and (e.announced is None or e.announced > now)
            for e in self.events_of(node)
        )

    def windows(self, node, now):
        """Announced times, begun or not, in which the node is kept free."""
        return [
            (e.start, e.end)
            for e in self.events_of(node)
            if e.announced is not None and e.announced <= now < e.end and e.start < e.end
        ]

    def qos_of(self, j):
        """Its QOS, the partition's first."""
        names = [n for n in (self.part[j.partition].qos, j.qos) if n in self.qos]
        return [self.qos[n] for n in dict.fromkeys(names)]

    def reject(self, j):
        if not any(self.site.nodes[n].gpus >= j.gpus for n in self.nodes_for(j)):
            return "shape"
        p = self.part[j.partition]
        gpus = j.nodes * j.gpus
        if p.max_time is not None and j.limit > p.max_time:
            return "PartitionTimeLimit"
        if p.max_nodes is not None and j.nodes > p.max_nodes:
            return "PartitionNodeLimit"
        if self.c.limits:
            caps = [q.job_gpus for q in self.qos_of(j) if q.job_gpus is not None]
            if caps and gpus > caps[0]:
                return "QOSMaxGRESPerJob"
            walls = [q.max_wall for q in self.qos_of(j) if q.max_wall is not None]
            if walls and j.limit > walls[0]:
                return "QOSMaxWallDurationPerJobLimit"
        if not self.has_shape(j):
            return "shape"
        if self.c.limits:
            for q in self.qos_of(j):
                if q.grp_gpus is not None and gpus > q.grp_gpus:
                    return "QOSGrpGRES"
            for q in self.qos_of(j):
                if q.grp_jobs == 0:
                    return "QOSGrpJobsLimit"
            caps = [q.user_gpus for q in self.qos_of(j) if q.user_gpus is not None]
            if caps and gpus > caps[0]:
                return "QOSMaxGRESPerUser"
            most = self.user_jobs_limit(j)
            if most is not None and most[0] == 0:
                return "QOSMaxJobsPerUserLimit" if most[1] else "AssocMaxJobsLimit"
            for key in self.shares.path((j.account, j.user)):
                row = self.shares.rows.get(key)
                if row and row.grp_gpus is not None and gpus > row.grp_gpus:
                    return "AssocGrpGRES"
        return None

    def has_shape(self, j):
        return sum(self.site.nodes[n].gpus >= j.gpus for n in self.nodes_for(j)) >= j.nodes

    def user_jobs_limit(self, j):
        for q in self.qos_of(j):
            if q.user_jobs is not None:
                return q.user_jobs, q
        row = self.shares.rows[j.account, j.user]
        return None if row.max_jobs is None else (row.max_jobs, None)

    def over_limit(self, j):
        if not self.c.limits:
            return False
        gpus = j.nodes * j.gpus
        live = list(self.running.values())

        def under(q):
            return [r for r in live if q in self.qos_of(r)]

        for q in self.qos_of(j):
            if (
                q.grp_gpus is not None
                and sum(r.nodes * r.gpus for r in under(q)) + gpus > q.grp_gpus
            ):
                return True
            if q.grp_jobs is not None and len(under(q)) + 1 > q.grp_jobs:
                return True
        for q in self.qos_of(j):
            if q.user_gpus is not None:
                mine = sum(r.nodes * r.gpus for r in under(q) if r.user == j.user)
                if mine + gpus > q.user_gpus:
                    return True
                break
        most = self.user_jobs_limit(j)
        if most is not None:
            of = under(most[1]) if most[1] else [r for r in live if r.account == j.account]
            if sum(r.user == j.user for r in of) + 1 > most[0]:
                return True
        for key in self.shares.path((j.account, j.user)):
            row = self.shares.rows.get(key)
            if row and row.grp_gpus is not None:
                used = sum(
                    r.nodes * r.gpus for r in live if key in self.shares.path((r.account, r.user))
                )
                if used + gpus > row.grp_gpus:
                    return True
        return False

    # ---------------------------------------------------------------- order
    def set_priority(self, j, now):
        c = self.c
        if c.order == "fifo":
            self.priority[j.id] = 0
            return
        gpus = j.nodes * j.gpus
        nodes, total = len(self.site.nodes), sum(n.gpus for n in self.site.nodes)
        p = self.part[j.partition]
        size = (j.nodes / nodes + gpus / total) / 2
        top_part = max(q.job_factor for q in self.site.partitions)
        top_qos = max((q.priority for q in self.site.qos), default=0)
        qos = self.qos.get(j.qos, SiteQos(""))
        in_part = sum(self.site.nodes[self.index[n]].gpus for n in p.nodes)
        value = c.w_age * min(1.0, (now - j.ready) / c.max_age)
        value += c.w_fairshare * self.factor.get((j.account, j.user), 0.0)
        value += c.w_size * (1 - size if c.favor_small else size)
        value += c.w_partition * (p.job_factor / top_part if top_part else 0)
        value += c.w_qos * (qos.priority / top_qos if top_qos else 0)
        value += c.w_tres_gpu * (gpus / in_part) - j.nice
        self.priority[j.id] = max(0, math.floor(value + 1e-6))

    def factors(self):
        tree = self.c.fairshare == "tree"
        self.factor = self.shares.tree() if tree else self.shares.classic(self.c.dampening)

    def sort(self):
        self.queue.sort(
            key=lambda j: (
                -self.part[j.partition].tier if self.c.tiers else 0,
                -self.priority[j.id],
                j.ready,
                j.id,
            )
        )

    # ---------------------------------------------------------------- starting
    def by_preference(self, nodes):
        how = self.c.placement

        def key(n):
            idle = {"best-fit": self.idle[n], "first-fit": 0, "least-loaded": -self.idle[n]}[how]
            return self.site.nodes[n].weight, idle, n

        return sorted(nodes, key=key)

    def begin(self, j, nodes, now):
        """Start a job, or let one that is cancelled later leave."""
        if j in self.queue:
            self.queue.remove(j)
        if j.cancel is not None and j.pinned is None and j.runtime == 0:
            self.out.rejected[j.id] = "cancelled"
            return False
        for n in nodes:
            self.idle[n] -= j.gpus
            assert self.idle[n] >= 0
        self.running[j.id] = j
        self.out.start[j.id], self.out.end[j.id] = now, now + j.runtime
        self.out.nodes[j.id] = tuple(nodes)
        self.charged[j.id] = now
        return True

    def main_pass(self, now):
        self.out.main_passes += 1
        full = now - self.last_full >= self.c.sched_interval
        if full:
            self.last_full, self.untested = now, False
        self.untested |= not full and len(self.queue) > self.c.queue_depth
        blocked_parts, blocked_nodes = set(), set()
        for i, j in enumerate(list(self.queue)):
            if not full and i >= self.c.queue_depth:
                break
            if j.partition in blocked_parts or self.over_limit(j):
                continue
            fit = [
                n
                for n in self.nodes_for(j)
                if n not in blocked_nodes
                and self.idle[n] >= j.gpus
                and not self.down(n, now)
                and all(now + j.limit <= s for s, _ in self.windows(n, now))
            ]
            if len(fit) >= j.nodes:
                self.begin(j, self.by_preference(fit)[: j.nodes], now)
            else:
                blocked_parts.add(j.partition)
                blocked_nodes |= {self.index[n] for n in self.part[j.partition].nodes}

    def plan_pass(self, now, mode):
        self.out.backfill_passes += 1
        c = self.c
        resolution = c.bf_resolution if mode == "slurm" else 1

        def up(t):
            return now + -(-(t - now) // resolution) * resolution

        usage = [[] for _ in self.site.nodes]  # (start, end, gpus) planned on each node
        closed = [self.windows(n, now) for n in range(len(usage))]
        ends = set()
        for r in self.running.values():
            end = up(max(self.out.start[r.id] + r.limit, now + 1))
            ends.add(end)
            for n in self.out.nodes[r.id]:
                usage[n].append((now, end, r.gpus))
        ends |= {e for windows in closed for _, e in windows}

        def free(n, start, limit):
            """Least free GPUs from a start on for a limit, rounded up for all but windows."""
            end = up(start + limit)
            if self.down_for_ever(n, now) or any(
                s < start + limit and start < e for s, e in closed[n]
            ):
                return 0
            marks = {start} | {s for s, _, _ in usage[n] if start < s < end}
            return self.site.nodes[n].gpus - max(
                sum(g for s, e, g in usage[n] if s <= m < e) for m in marks
            )

        tested = 0
        by_user, by_part = defaultdict(int), defaultdict(int)
        reserved = set()
        for j in list(self.queue):
            if mode == "slurm":
                if tested >= c.bf_max_job_test:
                    break
                if c.bf_max_job_user is not None and by_user[j.user] >= c.bf_max_job_user:
                    continue
                if c.bf_max_job_part is not None and by_part[j.partition] >= c.bf_max_job_part:
                    continue
            by_user[j.user] += 1
            by_part[j.partition] += 1
            tested += 1
            self.out.jobs_tested += 1
            if self.over_limit(j):
                continue
            times = sorted({now} | ends)
            if mode == "easy" and j.partition in reserved:
                times = [now]
            for t in times:
                end = up(t + j.limit)
                fit = [n for n in self.nodes_for(j) if free(n, t, j.limit) >= j.gpus]
                if len(fit) < j.nodes:
                    continue
                if t == now:
                    chosen = self.by_preference(fit)[: j.nodes]
                    if not self.begin(j, chosen, now):
                        chosen = []
                else:
                    if mode == "slurm" and t > now + c.bf_window:
                        break

                    def key(n, free=free, j=j):
                        return (
                            mode != "slurm" and free(n, now, 1) >= j.gpus,
                            self.site.nodes[n].weight,
                            n,
                        )

                    chosen = sorted(fit, key=key)[: j.nodes]
                    reserved.add(j.partition)
                    self.out.promises.setdefault(j.id, t)
                for n in chosen:
                    usage[n].append((t, end, j.gpus))
                if chosen:
                    ends.add(end)
                break

    # ---------------------------------------------------------------- time
    def tick(self, now):
        c = self.c
        if c.half_life and now > self.last_tick:
            self.shares.decay(0.5 ** ((now - self.last_tick) / c.half_life))
        by_id = {j.id: j for j in self.jobs}
        for i in sorted(self.charged):
            upto = min(now, self.out.end[i])
            j = by_id[i]
            self.shares.charge((j.account, j.user), j.cost * (upto - self.charged[i]))
            self.charged[i] = upto
        self.charged = {i: t for i, t in self.charged.items() if i in self.running}
        self.last_tick = now
        self.factors()
        for j in self.queue:
            self.set_priority(j, now)

    def run(self):
        c = self.c
        todo = sorted(self.jobs, key=lambda j: (j.ready if j.pinned is None else j.pinned, j.id))
        todo = [(j.ready if j.pinned is None else j.pinned, j) for j in todo]
        first = min((t for t, _ in todo), default=0)
        self.last_full, self.last_tick, self.untested = -INF, first, False
        self.charged = {}
        pinned_waiting = []
        next_tick = first + c.calc_phase if c.order == "multifactor" else INF
        next_bf = first + c.bf_phase
        changed = False
        edges = (
            sorted(
                {
                    t
                    for e in self.site.events
                    for t in (e.start, e.end, e.announced)
                    if t is not None
                }
            )
            if c.events
            else []
        )
        self.factors()
        idle_ticks = 0
        while True:
            times = [self.out.end[i] for i in self.running]
            times += [t for t, _ in todo[:1]]
            times += [j.cancel for j in self.queue if j.cancel is not None]
            if not times and not self.queue:
                break
            times += [t for t in edges if t > self.now][:1] if hasattr(self, "now") else edges[:1]
            wakes = bool(self.queue) and changed and c.backfill == "slurm"
            tests_all = bool(self.queue) and self.untested
            if not times:
                idle_ticks += 1
                if idle_ticks > 1000 or not (wakes or tests_all or c.order == "multifactor"):
                    break
            if wakes:
                times.append(max(next_bf, self.now))
            if tests_all:
                times.append(self.last_full + c.sched_interval)
            now = min([*times, next_tick])
            self.now = now
            event = False
            for i in sorted(i for i in self.running if self.out.end[i] == now):
                j = self.running.pop(i)
                for n in self.out.nodes[i]:
                    self.idle[n] += j.gpus
                event = True
            event |= now in edges
            for j in [j for j in self.queue if j.cancel is not None and j.cancel <= now]:
                self.queue.remove(j)
                self.out.rejected[j.id] = "cancelled"
                event = True
            while todo and todo[0][0] == now:
                _, j = todo.pop(0)
                if j.pinned is not None and self.has_shape(j):
                    pinned_waiting.append(j)
                    event = True
                    continue
                reason = self.reject(j) if j.pinned is None else "shape"
                event |= reason is None
                if j.pinned is None and j.cancel is not None and j.cancel <= now:
                    reason = reason or "cancelled"
                if reason is not None:
                    self.out.rejected[j.id] = reason
                else:
                    self.set_priority(j, now)
                    self.queue.append(j)
            if now == next_tick:
                self.tick(now)
                next_tick += c.calc_period
                event = True
            for j in list(pinned_waiting):
                fit = [n for n in self.nodes_for(j) if self.idle[n] >= j.gpus]
                if len(fit) >= j.nodes:
                    pinned_waiting.remove(j)
                    self.begin(j, self.by_preference(fit)[: j.nodes], now)
            changed |= event
            self.sort()
            is_due = tests_all and now - self.last_full >= c.sched_interval
            if (event or is_due) and self.queue and c.backfill in ("none", "slurm"):
                before = len(self.queue)
                self.main_pass(now)
                changed |= len(self.queue) < before
            elif event and self.queue:
                self.plan_pass(now, c.backfill)
            if c.backfill == "slurm" and changed and self.queue and now >= next_bf:
                before = len(self.queue)
                self.plan_pass(now, "slurm")
                next_bf = now + c.bf_interval
                changed = len(self.queue) < before  # what it started is a change too
        for j in self.queue + pinned_waiting:
            self.out.rejected[j.id] = "never"
        self.out.usage = dict(self.shares.usage)
        return self.out


def simulate(site, jobs, config=None):
    return Simulator(site, jobs, config).run()
