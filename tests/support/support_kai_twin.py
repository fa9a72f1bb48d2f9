"""A plain replay under KAI's rules: slow and readable.

Where a task holds GPUs and where it is planned to be are kept apart; all else is worked out from
that whenever it is asked for. Every gathered set of victims is tried, every pending job searched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cmp_to_key

CONSOLIDATION, RECLAIM, PREEMPT = range(3)
INFINITE = math.inf


@dataclass(eq=False)
class Task:
    """A task: the node whose GPUs it holds, and that where it is planned to be.

    Running: both are the same. Told to stop: it holds but has no plan. Pending: neither.
    """

    number: int
    rest: int
    holds: int | None = None
    plan: int | None = None
    waits: bool = False  # for GPUs that are being released
    told: bool = False  # to stop, in an earlier round
    alive: bool = False
    started: int = 0
    stops: int = 0
    why: tuple = ()


@dataclass(eq=False)
class Job:
    """A job of the plain replay."""

    number: int
    age: int
    queue: int
    priority: int
    fixed: bool
    size: int
    least: int
    tasks: list
    evictions: int = 0
    tried: bool = False
    fresh: bool = False  # this round placed some of its tasks

    @property
    def active(self):
        return [task for task in self.tasks if task.plan is not None]

    @property
    def running(self):
        return [task for task in self.active if task.holds == task.plan]

    @property
    def pending(self):
        return [t for t in self.tasks if t.alive and t.holds is None and t.plan is None]

    @property
    def fullness(self):
        missing = self.least - len(self.active)
        return 0 if missing > 0 else 1 if missing == 0 else 2

    def wanted(self, waiting):
        """Return how many of the waiting tasks are placed next."""
        return min(max(1, self.least - len(self.active)), len(waiting))

    @property
    def need(self):
        return self.wanted(self.pending) * self.size

    @property
    def is_pending(self):
        alive = sum(task.alive for task in self.tasks)
        together = len(self.active) + len(self.pending)
        return bool(self.pending) and together >= min(self.least, alive)

    @property
    def order(self):
        return -self.priority, self.fullness, self.age


@dataclass
class Gathered:
    """Victims gathered for a job, in batches."""

    batches: list = field(default_factory=list)  # (job, tasks)
    popped: list = field(default_factory=list)  # (queue, GPUs of the victim, with what comes again)

    def tasks_of(self, job):
        return [task for victim, tasks in self.batches if victim is job for task in tasks]

    def size_below(self, queues):
        return sum(size for queue, size in self.popped if queue in queues)

    def order(self, job):
        """Return the order of a victim with what is left of it."""
        missing = job.least - len(job.running) + len(self.tasks_of(job))
        return -job.priority, 0 if missing > 0 else 1 if missing == 0 else 2, job.age


class PlainKai:
    """The site, what runs on it, and the rules of one round."""

    def __init__(self, site, jobs):
        self.site, self.queues = site, site.queues
        position = {queue.name: i for i, queue in enumerate(site.queues)}
        self.parent = [position.get(queue.parent) for queue in site.queues]
        self.fair, self.usage = [0.0] * len(site.queues), [0.0] * len(site.queues)
        ages = sorted(range(jobs.submit.size), key=lambda j: (jobs.submit[j], j))
        self.jobs = [
            Job(
                j, ages.index(j), int(jobs.queue[j]), int(jobs.priority[j]), bool(jobs.fixed[j]),
                int(jobs.size[j]), int(jobs.least[j]),
                [Task(i, int(jobs.run[j])) for i in range(jobs.tasks[j])],
            )
            for j in range(jobs.submit.size)
        ]  # fmt: skip
        self.now = 0

    # Queues.

    def path(self, q):
        """Return a queue and all above it."""
        above = []
        while q is not None:
            above.append(q)
            q = self.parent[q]
        return above

    def children(self, q):
        below = [child for child, parent in enumerate(self.parent) if parent == q]
        return sorted(
            below, key=lambda child: (self.queues[child].created, self.queues[child].name)
        )

    def jobs_of(self, q):
        return [job for job in self.jobs if q in self.path(job.queue)]

    def allocated(self, q, *, fixed=False):
        return sum(job.size * len(job.active) for job in self.jobs_of(q) if job.fixed or not fixed)

    def requested(self, q):
        return sum(job.size * (len(job.active) + len(job.pending)) for job in self.jobs_of(q))

    def deserved(self, q):
        return INFINITE if self.queues[q].deserved < 0 else self.queues[q].deserved

    def limit(self, q):
        return INFINITE if self.queues[q].limit < 0 else self.queues[q].limit

    def allocatable(self, q):
        if self.deserved(q) == INFINITE:
            return self.limit(q)
        return min(self.limit(q), max(self.deserved(q), self.fair[q]))

    def divide(self, q=None, total=None):
        """Set the fair shares of the queues below one, then of those below each of them."""
        level = self.children(q)
        if total is None:
            total = sum(self.site.node_gpus)
        most = {c: min(self.limit(c), self.requested(c)) for c in level}
        share = {c: min(total if self.deserved(c) == INFINITE else self.deserved(c), most[c])
                 for c in level}  # fmt: skip
        left = total - sum(share.values())
        fraction = dict.fromkeys(level, 0.0)
        priorities = sorted({self.queues[c].priority for c in level}, reverse=True)
        for priority in priorities:
            again = True
            while again and left > 0:
                again = False
                members = [
                    c for c in level
                    if self.queues[c].priority == priority
                    and share[c] < most[c]
                    and self.queues[c].over_quota_weight > 0
                ]  # fmt: skip
                weights = sum(self.queues[c].over_quota_weight for c in members)
                factor = {}
                for c in members:
                    weight = self.queues[c].over_quota_weight / weights
                    factor[c] = max(0.0, weight + self.site.usage_weight * (weight - self.usage[c]))
                if sum(factor.values()) <= 0:
                    break
                amount = left
                for c in members:
                    part = amount * factor[c] / sum(factor.values())
                    wants = most[c] - share[c]
                    if wants <= part:
                        again = again or wants < part
                        give, fraction[c] = wants, 0.0
                    else:
                        give = math.floor(part)
                        fraction[c] = part - give
                    give = min(give, left)
                    share[c] += give
                    left -= give
        for priority in priorities:
            members = [c for c in level if self.queues[c].priority == priority and fraction[c] > 0]
            for c in sorted(members, key=lambda c: -fraction[c]):
                give = max(0, min(1, left, most[c] - share[c]))
                share[c] += give
                left -= give
        for c in level:
            self.fair[c] = share[c]
            self.divide(c, share[c])

    def compare(self, q, need, popped, other, other_need, other_popped):
        """Return below 0 where a queue comes before another, each with its next job."""

        def keys(q, need, popped):
            held, most = self.allocated(q), self.allocatable(q)

            def dominant(amount):
                if most == 0:
                    return amount * 1000.0
                return amount / (sum(self.site.node_gpus) if most == INFINITE else most)

            return (
                held + need > self.deserved(q),
                -self.queues[q].priority,
                most == 0 and held + need > 0,
                dominant(held + need - popped),
                dominant(held),
                most,
                self.queues[q].created,
                self.queues[q].name,
            )

        first, second = keys(q, need, popped), keys(other, other_need, other_popped)
        return -1 if first < second else 1

    def next_job(self, jobs, need, gathered=None, below=None):
        """Return the first of some jobs by the order of queues; the last for victims."""
        best = {}
        for q in self.children(below):
            inside = [job for job in jobs if q in self.path(job.queue)]
            if not inside:
                continue
            if self.children(q):
                best[q] = self.next_job(inside, need, gathered, q)
            elif gathered is None:
                best[q] = min(inside, key=lambda job: job.order)
            else:
                best[q] = max(inside, key=gathered.order)
        if not best:
            return None

        def before(q, other):
            cells = []
            for c in (q, other):
                job, popped = best[c], 0
                if gathered is not None:
                    below_c = [x for x in range(len(self.queues)) if c in self.path(x)]
                    left = len(job.running) - len(gathered.tasks_of(job))
                    popped = gathered.size_below(below_c) + left * job.size
                cells += [c, need(job), popped]
            return self.compare(*cells)

        order = sorted(best, key=cmp_to_key(before))
        return best[order[0] if gathered is None else order[-1]]

    # Nodes.

    def free_now(self, node):
        tasks = [(job.size, task) for job in self.jobs for task in job.tasks]
        return self.site.node_gpus[node] - sum(
            size for size, t in tasks
            if t.holds == node or (t.plan == node and not t.waits)
        )  # fmt: skip

    def free_later(self, node):
        tasks = [(job.size, task) for job in self.jobs for task in job.tasks]
        return self.site.node_gpus[node] - sum(size for size, t in tasks if t.plan == node)

    def free_in_sum(self):
        return sum(self.free_later(node) for node in range(len(self.site.node_gpus)))

    def fits_queues(self, job, need):
        return all(
            self.allocated(q) + need <= self.limit(q)
            and (not job.fixed or self.allocated(q, fixed=True) + need <= self.deserved(q))
            for q in self.path(job.queue)
        )

    def place_task(self, job, task):
        nodes = range(len(self.site.node_gpus))
        later = [n for n in nodes if self.free_later(n) >= job.size]
        at_once = [n for n in later if self.free_now(n) >= job.size]
        if at_once:
            node = min(at_once, key=lambda n: (self.free_now(n), n))
        elif later:
            node = min(later, key=lambda n: (self.free_later(n), n))
        else:
            return False
        task.waits = not at_once and node != task.holds
        task.plan = node
        return True

    def place(self, job, waiting):
        """Place the next of some tasks that have no place, all or none."""
        tasks = waiting[: job.wanted(waiting)]
        if not tasks or not self.fits_queues(job, len(tasks) * job.size):
            return False
        if not all([self.place_task(job, task) for task in tasks]):
            for task in tasks:
                task.plan, task.waits = None, False
            return False
        if any(task.waits for task in tasks):
            for task in tasks:
                task.waits = task.plan != task.holds
        return True

    # Actions.

    def next_pending(self):
        jobs = [job for job in self.jobs if job.is_pending and not job.tried]
        return self.next_job(jobs, lambda job: job.need)

    def round(self):
        """Decide one round."""
        for job in self.jobs:
            job.fresh = False
        self.divide()
        for action in (None, CONSOLIDATION, RECLAIM, PREEMPT):
            for job in self.jobs:
                job.tried = False
            while (job := self.next_pending()) is not None:
                if action is not None:
                    job.tried = True
                    if self.may_search(job, action):
                        self.search(job, action)
                elif self.place(job, job.pending):
                    job.fresh = True
                else:
                    job.tried = True

    def may_search(self, job, action):
        need = job.need
        if action == CONSOLIDATION:
            return not job.fixed and need <= self.free_in_sum()
        if action == RECLAIM:
            fixed = self.allocated(job.queue, fixed=True) + need
            return self.allocated(job.queue) + need <= self.fair[job.queue] and (
                not job.fixed or fixed <= self.deserved(job.queue)
            )
        return (
            not job.fixed
            or self.fits_queues(job, need)
            or all(
                self.allocated(q, fixed=True) + need <= self.deserved(q)
                for q in self.path(job.queue)
            )
        )

    def apart(self, q, other):
        """Return the first ancestors from the root that differ."""
        first, second = self.path(q)[::-1], self.path(other)[::-1]
        return next((a, b) for a, b in zip(first, second, strict=False) if a != b)

    def may_lose(self, q, other, need):
        a, b = self.apart(q, other)
        if self.allocated(a) + need <= self.deserved(a):
            return self.allocated(b) >= self.deserved(b)
        return self.allocated(b) > self.allocatable(b)

    def shield(self, q, action):
        """Return for how long after their start jobs of a queue are not evicted."""
        for above in self.path(q):
            queue = self.queues[above]
            seconds = {RECLAIM: queue.reclaim_min_runtime, PREEMPT: queue.preempt_min_runtime}
            if seconds.get(action) is not None:
                return seconds[action]
        return 0

    def is_victim(self, victim, job, action):
        if victim is job or victim.fixed or victim.fresh or not victim.running:
            return False
        started = min(task.started for task in victim.running)
        if self.now - started < self.shield(victim.queue, action):
            return False
        if action == RECLAIM:
            return victim.queue != job.queue and self.may_lose(job.queue, victim.queue, job.need)
        if action == PREEMPT:
            return victim.queue == job.queue and victim.priority < job.priority
        return True

    def search(self, job, action):
        """Gather victims until a choice of them is valid; it is carried out."""
        victims = [victim for victim in self.jobs if self.is_victim(victim, job, action)]
        gathered = Gathered()
        while True:
            left = [v for v in victims if len(gathered.tasks_of(v)) < len(v.running)]
            victim = self.next_job(left, lambda _: 0, gathered)
            if victim is None:
                return
            seen = {v.number for v, _ in gathered.batches} | {victim.number}
            if action == CONSOLIDATION and 0 <= self.site.most_moved < len(seen):
                return
            tasks = [t for t in victim.running if t not in gathered.tasks_of(victim)]
            gathered.popped.append((victim.queue, len(tasks) * victim.size))
            gathered.batches.append((victim, tasks[-1:] if len(tasks) > victim.least else tasks))
            if self.try_nodes(job, action, gathered):
                return

    def try_nodes(self, job, action, gathered):
        freed = {}
        for victim, tasks in gathered.batches:
            for task in tasks[::-1]:
                freed[task.holds] = freed.get(task.holds, 0) + victim.size
        order = sorted(freed, key=lambda node: -(self.free_later(node) + freed[node]))  # stable
        room = self.free_in_sum() - sum(map(self.free_later, order))
        used = 0
        while used < len(order) and (used == 0 or room < job.need):
            room += self.free_later(order[used]) + freed[order[used]]
            used += 1
        step = 1
        while not self.attempt(job, action, gathered, set(order[:used])):
            if used == len(order):
                return False
            used, step = min(len(order), used + step), step * 2
        return True

    def attempt(self, job, action, gathered, nodes):
        """Take the batches on some nodes out, place all again; keep that where it is valid."""
        everything = [task for each in self.jobs for task in each.tasks]
        before = [(task.plan, task.waits) for task in everything]
        held = [self.allocated(q) for q in range(len(self.queues))]
        need = job.need
        out = [batch for batch in gathered.batches if any(t.holds in nodes for t in batch[1])]
        for _, tasks in out:
            for task in tasks:
                task.plan = None
        is_valid = self.place(job, job.pending)
        if is_valid:
            self.place_again(out)
            if action == CONSOLIDATION:
                is_valid = all(task.plan is not None for _, tasks in out for task in tasks)
            elif action == RECLAIM:
                is_valid = self.may_reclaim(job, need, held, out)
        if not is_valid:
            for task, (plan, waits) in zip(everything, before, strict=True):
                task.plan, task.waits = plan, waits
            return False
        job.fresh = True
        for victim, tasks in out:
            for task in tasks:
                if task.plan != task.holds:
                    task.why = action, job.number
                    victim.fresh = victim.fresh or task.plan is not None
        return True

    def place_again(self, out):
        """Place victims again where there is room, in the order of pending jobs."""
        victims = {job.number: job for job, _ in out}

        def lost(job):
            tasks = [t for victim, batch in out for t in batch if victim is job and t.plan is None]
            return [task for task in job.tasks if task in tasks]

        while True:
            left = [job for job in victims.values() if lost(job)]
            job = self.next_job(left, lambda job: job.wanted(lost(job)) * job.size)
            if job is None:
                return
            if not self.place(job, lost(job)):
                del victims[job.number]

    def may_reclaim(self, job, need, held, out):
        after = list(held)
        for victim, tasks in out:
            lost = sum(task.plan is None for task in tasks)
            if lost == 0:
                continue
            a, b = self.apart(job.queue, victim.queue)
            starved = held[a] + need <= self.deserved(a) and after[b] > self.deserved(b)
            if after[b] <= self.allocatable(b) and not starved:
                return False
            for q in self.path(victim.queue):
                after[q] -= lost * victim.size
        for q in self.path(job.queue):
            amount = after[q] + need
            share = amount / self.fair[q] if self.fair[q] > 0 else INFINITE if amount else 0.0
            for other in self.children(self.parent[q]):
                if other == q or after[other] == held[other] or self.fair[other] <= 0:
                    continue
                if share > 1 and share >= after[other] / self.fair[other]:
                    return False
        return True


class PlainKaiReplay(PlainKai):
    """Rounds at every change; evicted tasks hold their GPUs for the grace time."""

    def __init__(self, site, jobs, grace, checkpoint, most_evictions):
        super().__init__(site, jobs)
        self.submit = jobs.submit.tolist()
        self.grace, self.checkpoint, self.most_evictions = grace, checkpoint, most_evictions
        self.rows, self.held = [], []

    def replay(self):
        """Return rows (job, start, end, reason, cause) of all runs of tasks, sorted."""
        coming = set(range(len(self.jobs)))
        rounds, changed = -1, False
        while True:
            times = [
                task.stops for job in self.jobs for task in job.tasks if task.holds is not None
            ]
            times += [self.submit[j] for j in coming]
            if any(job.is_pending for job in self.jobs):
                times += [self.now + 1] if changed else []
                times += self.shields_end()
            if not times:
                return sorted(self.rows)
            self.now = min(times)
            self.stop()
            for j in [j for j in coming if self.submit[j] == self.now]:
                coming.remove(j)
                for task in self.jobs[j].tasks:
                    task.alive = True
            is_late = rounds == self.now  # the next round is a second later
            changed = is_late
            if not is_late and any(job.is_pending for job in self.jobs):
                rounds = self.now
                self.use()
                self.round()
                changed = self.carry_out()
            self.held.append((self.now, [self.allocated(q) for q in range(len(self.queues))]))

    def shields_end(self):
        """Return when running jobs may become victims."""
        times = []
        for job in self.jobs:
            if job.running and not job.fixed:
                started = min(task.started for task in job.running)
                times += [started + self.shield(job.queue, action) for action in (RECLAIM, PREEMPT)]
        return [time for time in times if time > self.now]

    def stop(self):
        """Let tasks end, and let evicted ones wait again."""
        for job in self.jobs:
            for task in job.tasks:
                if task.holds is None or task.stops > self.now:
                    continue
                task.alive = task.told and job.evictions < self.most_evictions
                if not task.told:
                    self.rows.append((job.number, task.started, self.now, -1, -1))
                task.holds = task.plan = None
                task.told = False

    def use(self):
        """Set the past use of each queue over the capacity; only without decay."""
        if not self.held:
            return
        window = self.site.window_s
        begin = max(self.held[0][0], self.now - window if window else 0)
        ends = [time for time, _ in self.held[1:]] + [self.now]
        spans = [max(0, end - max(begin, time))
                 for (time, _), end in zip(self.held, ends, strict=True)]  # fmt: skip
        capacity = sum(self.site.node_gpus) * (self.now - begin)
        for q in range(len(self.queues)):
            used = sum(span * held[q] for span, (_, held) in zip(spans, self.held, strict=True))
            self.usage[q] = used / capacity if capacity else 0.0

    def carry_out(self):
        """Start and stop what the round decided; what waits or moves has no plan any more."""
        changed = False
        for job in self.jobs:
            moves = [t for t in job.active if t.holds is not None and t.holds != t.plan]
            waits = [t for t in job.active if t.holds is None and t.waits]
            if moves and len(job.active) - len(moves) < job.least:  # a gang stops whole
                for task in job.running:
                    task.plan, task.why = None, moves[-1].why
            for task in moves + waits:
                task.plan, task.waits = None, False
            stopped = [
                t for t in job.tasks if t.holds is not None and t.plan is None and not t.told
            ]
            for task in stopped:
                self.rows.append((job.number, task.started, self.now, *task.why))
                if self.checkpoint:
                    done = (self.now - task.started) // self.checkpoint * self.checkpoint
                    task.rest -= done
                task.told, task.stops = True, self.now + self.grace
            started = [task for task in job.active if task.holds is None]
            for task in started:
                task.holds, task.started, task.stops = task.plan, self.now, self.now + task.rest
            job.evictions += bool(stopped)
            changed = changed or bool(stopped) or bool(started)
        return changed
