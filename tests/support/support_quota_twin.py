"""A plain replay under Kueue's rules: slow and readable.

Usage of cohorts and their quotas are worked out by recursion whenever they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)
IN_QUEUE, RECLAMATION, WHILE_BORROWING, FAIR_SHARING = range(4)
INFINITE = float("inf")


@dataclass(eq=False)
class Work:
    """A workload of the plain replay."""

    number: int
    uid: int
    queue: object
    priority: int
    submit: int
    run: int
    pods: tuple
    usage: dict = field(default_factory=dict)
    state: str = "coming"
    reserved: int = 0
    since: int = 0
    rest: int = 0
    tried: dict = field(default_factory=dict)
    evictions: int = 0

    @property
    def shape(self):
        pods = tuple(
            (tuple(sorted(p.requests.items())), p.count, p.least, p.flavors) for p in self.pods
        )
        return self.queue.name, pods, self.priority


class PlainKueue:
    """The site, what runs on it, and the rules."""

    def __init__(self, site):
        self.site = site
        self.queues = {queue.name: queue for queue in site.queues}
        self.cohorts = {cohort.name: cohort for cohort in site.cohorts}
        self.parents = {("q", q.name): self._node(q.cohort) for q in site.queues}
        for cohort in site.cohorts:
            self.parents["c", cohort.name] = self._node(cohort.parent)
        for node in list(self.parents.values()):
            if node is not None:
                self.parents.setdefault(node, None)
        self.used = {queue.name: {} for queue in site.queues}

    def _node(self, name):
        return None if name is None else ("c", name)

    @cache  # noqa: B019
    def children(self, node):
        return [child for child, parent in self.parents.items() if parent == node]

    @cache  # noqa: B019
    def path(self, node):
        above = []
        while node is not None:
            above.append(node)
            node = self.parents[node]
        return above

    def root(self, node):
        return self.path(node)[-1]

    @cache  # noqa: B019
    def quota(self, node, fr):
        """Return the quota of a node itself, or None."""
        kind, name = node
        if kind == "c":
            cohort = self.cohorts.get(name)
            return cohort.quotas.get(fr) if cohort else None
        for group in self.queues[name].groups:
            for flavor in group:
                if flavor.name == fr[0]:
                    return flavor.quotas.get(fr[1])
        return None

    @cache  # noqa: B019
    def subtree(self, node, fr):
        quota = self.quota(node, fr)
        total = quota.nominal if quota else 0
        return total + sum(
            self.subtree(child, fr) - self.local(child, fr) for child in self.children(node)
        )

    @cache  # noqa: B019
    def local(self, node, fr):
        quota = self.quota(node, fr)
        if quota is None or quota.lending_limit is None:
            return 0
        return max(0, self.subtree(node, fr) - quota.lending_limit)

    def usage(self, node, fr):
        if node[0] == "q":
            return self.used[node[1]].get(fr, 0)
        return sum(
            max(0, self.usage(child, fr) - self.local(child, fr)) for child in self.children(node)
        )

    @cache  # noqa: B019
    def limit(self, node, fr):
        quota = self.quota(node, fr)
        return INFINITE if quota is None or quota.borrowing_limit is None else quota.borrowing_limit

    def local_free(self, node, fr):
        return max(0, self.local(node, fr) - self.usage(node, fr))

    def available(self, node, fr):
        parent = self.parents[node]
        if parent is None:
            return self.subtree(node, fr) - self.usage(node, fr)
        local, usage = self.local(node, fr), self.usage(node, fr)
        own = self.subtree(node, fr) - local - max(0, usage - local) + self.limit(node, fr)
        return self.local_free(node, fr) + min(self.available(parent, fr), own)

    @cache  # noqa: B019
    def potential(self, node, fr):
        parent = self.parents[node]
        if parent is None:
            return self.subtree(node, fr)
        most = self.local(node, fr) + self.potential(parent, fr)
        return min(most, self.subtree(node, fr) + self.limit(node, fr))

    @cache  # noqa: B019
    def height(self, node):
        children = self.children(node)
        if node[0] == "q" or not children:
            return 0
        return 1 + max(self.height(child) for child in children)

    def over(self, node, fr, more=0):
        return self.usage(node, fr) + more > self.subtree(node, fr)

    @cache  # noqa: B019
    def pairs(self):
        pairs = {
            (flavor.name, resource)
            for queue in self.site.queues
            for group in queue.groups
            for flavor in group
            for resource in flavor.quotas
        }
        return sorted(pairs | {pair for c in self.site.cohorts for pair in c.quotas})

    def share(self, node):
        """Return the share as (infinite, number)."""
        parent = self.parents[node]
        if parent is None:
            return False, 0.0
        ratio = 0.0
        for resource in sorted({resource for _, resource in self.pairs()}):
            mine = [pair for pair in self.pairs() if pair[1] == resource]
            over = sum(max(0, self.usage(node, fr) - self.subtree(node, fr)) for fr in mine)
            lendable = sum(self.potential(parent, fr) for fr in mine)
            if over and lendable > 0:
                ratio = max(ratio, 1000.0 * over / lendable)
        kind, name = node
        found = self.queues[name] if kind == "q" else self.cohorts.get(name)
        weight = found.weight if found else 1.0
        if not ratio:
            return False, 0.0
        return (True, ratio) if weight == 0 else (False, ratio / weight)

    def borrows(self, node):
        return any(self.over(node, fr) for fr in self.pairs())

    def add(self, queue, usage, sign=1):
        used = self.used[queue.name]
        for fr, amount in usage.items():
            used[fr] = used.get(fr, 0) + sign * amount

    def fits(self, queue, request, may_borrow=True):
        node = ("q", queue.name)
        for fr, amount in request.items():
            if not may_borrow and self.over(node, fr, amount):
                return False
            if amount > max(0, self.available(node, fr)):
                return False
        return True


def may_evict(policy, work, victim):
    if policy == "Never":
        return False
    if policy == "Any" or victim.priority < work.priority:
        return True
    return (
        policy == "LowerOrNewerEqualPriority"
        and victim.priority == work.priority
        and work.submit < victim.submit
    )


class PlainReplay(PlainKueue):
    """The replay: cycles at every change."""

    def __init__(self, site, jobs, grace, checkpoint=0, most_evictions=1000):
        super().__init__(site)
        self.grace, self.checkpoint, self.most = grace, checkpoint, most_evictions
        self.works = [
            Work(
                i, int(jobs.uid[i]), site.queues[jobs.queue[i]], int(jobs.priority[i]),
                int(jobs.submit[i]), int(jobs.run[i]), jobs.shapes[jobs.pods[i]],
            )
            for i in range(jobs.queue.size)
        ]  # fmt: skip
        for work in self.works:
            work.rest = work.run
        self.parked = set()
        self.sticky = {}
        self.hidden = set()
        self.runs = []
        self.touched = set()
        self.now = 0

    # Victims

    def order_key(self, queue):
        return lambda v: (
            v.state != "leaving", v.queue is queue, v.priority, -v.reserved, v.uid,
        )  # fmt: skip

    def holders(self, root):
        return [
            work
            for work in self.works
            if work.state in ("running", "leaving")
            and self.root(("q", work.queue.name)) == root
            and work not in self.hidden
        ]

    def find_victims(self, work, request, needed):
        """Return [(victim, reason)]; none where they do not suffice."""
        root = self.root(("q", work.queue.name))
        users = [v for v in self.holders(root) if any(v.usage.get(fr) for fr in needed)]
        if self.site.fair_sharing:
            return self.fair(work, request, needed, users)
        return self.classical(work, request, needed, users)

    def fill_back(self, work, request, victims, may_borrow):
        """Spare victims that are not needed, then put all back."""
        for i in range(len(victims) - 2, -1, -1):
            victim = victims[i][0]
            self.add(victim.queue, victim.usage)
            if self.fits(work.queue, request, may_borrow):
                victims[i] = victims[-1]
                victims.pop()
            else:
                self.add(victim.queue, victim.usage, -1)
        for victim, _ in victims:
            self.add(victim.queue, victim.usage)
        return victims

    def classical(self, work, request, needed, users):
        queue, node = work.queue, ("q", work.queue.name)
        groups = {"hier": [], "prio": [], "same": []}
        between = {}
        groups["same"] = [
            v for v in users if v.queue is queue and may_evict(queue.within_queue, work, v)
        ]
        if queue.reclaim_within_cohort != "Never":
            favored = not any(self.over(node, fr, amount) for fr, amount in request.items())
            rest = {fr: amount - self.local_free(node, fr) for fr, amount in request.items()}
            seen = {node}
            for ancestor in self.path(node)[1:]:
                for victim in users:
                    path = self.path(("q", victim.queue.name))
                    if ancestor not in path or seen & set(path):
                        continue
                    below = path[: path.index(ancestor)]
                    lends = all(any(self.over(n, fr) for fr in needed) for n in below)
                    if lends and may_evict(queue.reclaim_within_cohort, work, victim):
                        groups["hier" if favored else "prio"].append(victim)
                        between[victim] = below
                fits = not any(self.over(ancestor, fr, amount) for fr, amount in rest.items())
                favored = favored or fits
                rest = {fr: amount - self.local_free(ancestor, fr) for fr, amount in rest.items()}
                seen.add(ancestor)
        order = []
        for leaving in (True, False):
            for name, members in groups.items():
                part = [(name, v) for v in members if (v.state == "leaving") == leaving]
                order += sorted(part, key=lambda cell: self.order_key(queue)(cell[1]))
        under = all(self.subtree(node, fr) > self.usage(node, fr) for fr in needed)
        spares = queue.borrow_policy == "Never"
        if (not groups["hier"] and not groups["prio"]) or (spares and not under):
            attempts = [True]
        elif spares and not groups["hier"]:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for may_borrow in attempts:
            victims, done = [], False
            for name, victim in order:
                reason = IN_QUEUE
                if name != "same":
                    threshold = queue.borrow_threshold
                    spared = name == "prio" and (
                        spares
                        or victim.priority >= work.priority
                        or (threshold is not None and victim.priority > threshold)
                    )
                    lends = all(any(self.over(n, fr) for fr in needed) for n in between[victim])
                    if (spared and may_borrow) or not lends:
                        continue
                    reason = RECLAMATION if name == "hier" or spared else WHILE_BORROWING
                victims.append((victim, reason))
                self.add(victim.queue, victim.usage, -1)
                if self.fits(queue, request, may_borrow):
                    done = True
                    break
            if done:
                return self.fill_back(work, request, victims, may_borrow)
            for victim, _ in victims:
                self.add(victim.queue, victim.usage)
        return []

    def fair(self, work, request, needed, users):
        queue, node = work.queue, ("q", work.queue.name)
        left = {}
        for victim in sorted(users, key=self.order_key(queue)):
            if victim.queue is queue:
                allowed = may_evict(queue.within_queue, work, victim)
            else:
                allowed = may_evict(queue.reclaim_within_cohort, work, victim) and any(
                    self.over(("q", victim.queue.name), fr) for fr in needed
                )
            if allowed:
                left.setdefault(("q", victim.queue.name), []).append(victim)
        self.add(queue, request)
        victims, kept = [], {}

        def take(victim, reason):
            victims.append((victim, reason))
            self.add(victim.queue, victim.usage, -1)
            self.add(queue, request, -1)
            fits = self.fits(queue, request)
            self.add(queue, request)
            return fits

        def finish():
            self.add(queue, request, -1)
            return self.fill_back(work, request, victims, True)

        within = not any(self.over(node, fr) for fr in needed)
        rules = self.site.fair_strategies
        while (target := self.largest(node, left)) is not None:
            if target == node or within:
                victim = left[target].pop(0)
                if take(victim, IN_QUEUE if target == node else RECLAMATION):
                    return finish()
                continue
            mine, his = self.apart(node, target)
            my_share, his_share = self.share(mine), self.share(his)
            while left[target]:
                victim = left[target].pop(0)
                if rules[0] == "final":
                    self.add(victim.queue, victim.usage, -1)
                    passes = my_share <= self.share(his)
                    self.add(victim.queue, victim.usage)
                else:
                    passes = my_share < his_share
                if passes and not (my_share[0] and not his_share[0]):
                    if take(victim, FAIR_SHARING):
                        return finish()
                    break
                kept.setdefault(target, []).append(victim)
        if len(rules) > 1:
            while (target := self.largest(node, kept)) is not None:
                mine, his = self.apart(node, target)
                if not self.share(mine) < self.share(his):
                    kept[target] = []
                    continue
                if take(kept[target].pop(0), FAIR_SHARING):
                    return finish()
        self.add(queue, request, -1)
        for victim, _ in victims:
            self.add(victim.queue, victim.usage)
        return []

    def apart(self, node, other):
        """Return the children of the lowest common ancestor above two queues."""
        mine, his = self.path(node), self.path(other)
        common = next(n for n in his if n in mine)
        return mine[mine.index(common) - 1], his[his.index(common) - 1]

    def largest(self, node, left):
        """Return the queue to take the next victim from, or None."""
        if self.parents[node] is None:
            return node if left.get(node) else None
        pruned, own = set(), self.path(node)
        at = root = own[-1]
        key = self.order_key(self.queues[node[1]])
        while True:
            children = self.children(at)
            cohorts = [
                c for c in children
                if c[0] == "c" and c not in pruned and (c in own or self.borrows(c))
            ]  # fmt: skip
            queues = [
                c for c in children
                if c[0] == "q" and left.get(c) and (c == node or self.borrows(c))
            ]  # fmt: skip
            if not cohorts and not queues:
                if at == root:
                    return None
                pruned.add(at)
                at = root
                continue
            cohort = max(enumerate(cohorts), key=lambda c: (self.share(c[1]), c[0]), default=None)
            highest = max((self.share(c) for c in queues), default=None)
            best = [c for c in queues if self.share(c) == highest]
            if cohort and (not best or self.share(cohort[1]) >= highest):
                at = cohort[1]
            else:
                return min(best, key=lambda c: key(left[c][0]))

    # Assignment

    def needs(self, work, fr, amount):
        """Return (mode, height)."""
        queue, node = work.queue, ("q", work.queue.name)
        if amount > self.potential(node, fr):
            return NO_FIT, 0
        height, below = self.borrowing_height(node, fr, amount)
        if amount <= max(0, self.available(node, fr)):
            return FIT, height
        if not (
            amount <= self.subtree(node, fr)
            or below
            or queue.borrow_policy != "Never"
            or (self.site.fair_sharing and queue.reclaim_within_cohort != "Never")
        ):
            return NO_FIT, 0
        victims = self.find_victims(work, {fr: amount}, {fr})
        if not victims:
            return NO_CANDIDATES, height
        for victim, _ in victims:
            self.add(victim.queue, victim.usage, -1)
        height, _ = self.borrowing_height(node, fr, amount)
        for victim, _ in victims:
            self.add(victim.queue, victim.usage)
        return (PREEMPT if any(v.queue is queue for v, _ in victims) else RECLAIM), height

    def borrowing_height(self, node, fr, amount):
        if self.parents[node] is None or not self.over(node, fr, amount):
            return 0, self.parents[node] is not None
        rest = amount - self.local_free(node, fr)
        for ancestor in self.path(node)[1:]:
            if not self.over(ancestor, fr, rest):
                return self.height(ancestor), self.parents[ancestor] is not None
            rest -= self.local_free(ancestor, fr)
        return self.height(self.root(node)), False

    def rank(self, queue, needs):
        mode, height = needs
        if mode <= NO_CANDIDATES:
            return (mode, 0, -height) if mode else (0, 0, 0)
        if queue.preference == "PreemptionOverBorrowing":
            return (2, -height, mode)
        return (2, mode, -height)

    def assign(self, work, counts, pinned=None):
        """Return (mode, height, usage, needed, flavors, tried)."""
        queue = work.queue
        usage, needed, flavors, tried = {}, set(), {}, {}
        mode, height = FIT, 0
        for i, pod_set in enumerate(work.pods):
            before = dict(usage)
            covered = set()
            for g, group in enumerate(queue.groups):
                names = {name for flavor in group for name in flavor.quotas}
                requests = {n: a for n, a in pod_set.requests.items() if n in names}
                covered |= names
                if not requests:
                    continue
                start = 0 if pinned else work.tried.get((i, g), -1) + 1
                best, last = None, -1
                for index in range(start, len(group)):
                    name = group[index].name
                    if pinned and pinned[i, g] != name:
                        continue
                    last = index
                    if pod_set.flavors is not None and name not in pod_set.flavors:
                        continue
                    cells = {}
                    for resource in sorted(requests):
                        fr = (name, resource)
                        amount = requests[resource] * counts[i] + before.get(fr, 0)
                        cells[fr] = self.needs(work, fr, amount)
                    worst = min(cells.values(), key=lambda c: self.rank(queue, c))
                    if worst[0] != NO_FIT and (
                        best is None or self.rank(queue, worst) > self.rank(queue, best[1])
                    ):
                        best = (name, worst, cells)
                    goes_on = (
                        worst[0] <= NO_CANDIDATES
                        or (worst[0] != FIT and queue.when_can_preempt == "TryNextFlavor")
                        or (worst[1] > 0 and queue.when_can_borrow == "TryNextFlavor")
                    )
                    if not goes_on:
                        break
                tried[i, g] = -1 if last == len(group) - 1 else last
                if best is None:
                    return NO_FIT, 0, {}, set(), {}, tried
                flavors[i, g] = best[0]
                for fr, (cell_mode, cell_height) in best[2].items():
                    usage[fr] = usage.get(fr, 0) + requests[fr[1]] * counts[i]
                    height = max(height, cell_height)
                    if cell_mode != FIT:
                        mode = PREEMPT
                        needed.add(fr)
            if any(a * counts[i] for n, a in pod_set.requests.items() if n not in covered):
                return NO_FIT, 0, {}, set(), {}, tried
        return mode, height, usage, needed, flavors, tried

    def nominate(self, work, counts=None, pinned=None):
        """Return what a workload needs, with its victims."""
        full = [pod_set.count for pod_set in work.pods]

        def attempt(counts):
            found = self.assign(work, counts, pinned)
            mode, victims = found[0], []
            if mode == PREEMPT:
                victims = self.find_victims(work, found[2], found[3])
                mode = PREEMPT if victims else NO_CANDIDATES
            return mode, found, victims, counts

        result = attempt(counts or full)
        spare = [p.count - (p.count if p.least is None else p.least) for p in work.pods]
        whole = sum(spare)
        if counts or result[0] >= PREEMPT or not whole:
            return result
        low, high = 0, whole + 1
        while low < high:
            middle = (low + high) // 2
            cut = [c - d * middle // whole for c, d in zip(full, spare, strict=True)]
            if attempt(cut)[0] >= PREEMPT:
                high = middle
            else:
                low = middle + 1
        if low > whole:
            return attempt(full)
        return attempt([c - d * low // whole for c, d in zip(full, spare, strict=True)])

    # Cycles

    def head(self, queue):
        waiting = [
            w for w in self.works
            if w.queue is queue and w.state == "pending" and w.shape not in self.parked
        ]  # fmt: skip
        sticky = self.sticky.get(queue.name)
        if sticky in waiting:
            return sticky
        return min(waiting, key=lambda w: (-w.priority, w.submit, w.uid), default=None)

    def earlier(self, work):
        return (-work.priority if self.site.priority_sorting else 0, work.submit, work.uid)

    def next_entry(self, entries):
        if not self.site.fair_sharing:
            return min(entries, key=lambda w: (entries[w][1][1], self.earlier(w)))
        for work in entries:
            if entries[work][0] == NO_FIT:
                return work
        any_work = next(iter(entries))
        root = self.root(("q", any_work.queue.name))
        return self.tournament(root, entries)

    def tournament(self, node, entries):
        if node[0] == "q":
            return next((w for w in entries if w.queue.name == node[1]), None)
        contenders = {}
        for child in self.children(node):
            work = self.tournament(child, entries)
            if work is not None:
                usage = entries[work][1][2]
                self.add(work.queue, usage)
                over = any(self.over(child, fr) for fr in usage)
                contenders[work] = (over, self.share(child), self.earlier(work))
                self.add(work.queue, usage, -1)
        return min(contenders, key=contenders.get, default=None)

    def cycle(self, root):
        """Run one cycle of a tree; returns 2 where it changed anything, 1 only flavors left."""
        heads = [
            w
            for q in self.site.queues
            if self.root(("q", q.name)) == root and (w := self.head(q)) is not None
        ]
        entries = {work: self.nominate(work) for work in heads}
        taken, held, changed = [], [], 0
        while entries:
            work = self.next_entry(entries)
            mode, found, victims, counts = entries.pop(work)
            queue = work.queue
            if self.site.recompute_overlapping and any(v in taken for v, _ in victims):
                for victim in taken:
                    self.add(victim.queue, victim.usage, -1)
                self.hidden = set(taken)
                mode, found, victims, _ = self.nominate(work, counts, found[4])
                self.hidden = set()
                for victim in taken:
                    self.add(victim.queue, victim.usage)
                if mode == FIT:
                    self.add(queue, found[2])
                    held.append((queue, found[2]))
                    work.tried = {}
                    continue
            usage = found[2]
            if mode <= NO_CANDIDATES:
                if mode == NO_CANDIDATES and queue.reclaim_within_cohort != "Any":
                    back = {}
                    for fr, amount in usage.items():
                        room = self.subtree(("q", queue.name), fr) - self.usage(
                            ("q", queue.name), fr
                        )
                        if found[1] > 0:
                            room += self.limit(("q", queue.name), fr)
                        back[fr] = max(0, min(amount, room))
                    self.add(queue, back)
                    held.append((queue, back))
                work.tried = found[5]
                if any(index >= 0 for index in work.tried.values()):
                    changed = max(changed, 1)
                elif queue.strategy == "BestEffortFIFO":
                    self.parked.add(work.shape)
                    changed = 2
                continue
            gone = [*taken, *(v for v, _ in victims if v not in taken)]
            for victim in gone:
                self.add(victim.queue, victim.usage, -1)
            fits = self.fits(queue, usage)
            for victim in gone:
                self.add(victim.queue, victim.usage)
            if any(v in taken for v, _ in victims) or not fits:
                work.tried = {}
                continue
            self.add(queue, usage)
            work.tried = {}
            if mode == FIT:
                work.usage, work.state, work.reserved = usage, "running", self.now
                if self.sticky.get(queue.name) is work:
                    del self.sticky[queue.name]
                self.runs.append([work.number, self.now, self.now + work.rest, -1])
                changed = 2
                continue
            held.append((queue, usage))
            for victim, reason in victims:
                taken.append(victim)
                if victim.state == "running":
                    self.evict(victim, reason)
                    changed = 2
            if queue.strategy == "BestEffortFIFO" and self.sticky.get(queue.name) is not work:
                self.sticky[queue.name] = work
                changed = 2
        for queue, usage in held:
            self.add(queue, usage, -1)
        return changed

    def evict(self, victim, reason):
        row = next(row for row in reversed(self.runs) if row[0] == victim.number)
        row[2:] = [self.now, reason]
        victim.state, victim.since = "leaving", self.now
        victim.evictions += 1
        if self.checkpoint:
            ran = self.now - victim.reserved
            victim.rest -= ran // self.checkpoint * self.checkpoint

    def stop(self, work):
        """Release the quota of a workload."""
        self.add(work.queue, work.usage, -1)
        again = work.state == "leaving" and work.evictions < self.most
        work.state = "pending" if again else "gone"
        root = self.root(("q", work.queue.name))
        self.touched.add(root)
        for other in self.works:
            if self.root(("q", other.queue.name)) == root:
                self.parked.discard(other.shape)
                other.tried = {}

    def replay(self):
        """Return rows (workload, start, end, reason), by workload and start."""
        while True:
            times = [w.submit for w in self.works if w.state == "coming"]
            times += [w.reserved + w.rest for w in self.works if w.state == "running"]
            times += [w.since + self.grace for w in self.works if w.state == "leaving"]
            if not times:
                return sorted(self.runs)
            self.now = min(times)
            self.touched = set()
            for work in self.works:
                if work.state == "running" and work.reserved + work.rest == self.now:
                    self.stop(work)
            for work in self.works:
                if work.state == "leaving" and work.since + self.grace == self.now:
                    self.stop(work)
            for work in self.works:
                if work.state == "coming" and work.submit == self.now:
                    work.state = "pending"
                    if self.head(work.queue) is work:
                        self.touched.add(self.root(("q", work.queue.name)))
            most = max(len(g) for q in self.site.queues for g in q.groups)
            for root in self.touched:
                quiet = 0
                while changed := self.cycle(root):
                    quiet = 0 if changed == 2 else quiet + 1
                    if quiet > most:
                        break
