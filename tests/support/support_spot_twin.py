"""A slow, readable twin of the spot scheduler: plain Python, one class, no shortcuts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

MILLI = 1000
TICK_S = 300
ORDERED = (
    "gfs",
    "chronus",
)  # orders of the queue: largest first; all others: first come first served


@dataclass(eq=False)
class Task:
    rank: int
    hp: bool
    pods: int
    g: int  # milli-GPU of a pod
    submit: int
    duration: int
    queued: int = -1  # when its present wait began
    start: int = -1  # of the present run
    restart: int = 0
    saved: int = 0  # useful seconds kept
    stop_at: int = -1  # end of the grace period
    places: list = field(default_factory=list)  # (node, card, milli)
    first_start: int = -1
    finish: int = -1
    evictions: int = 0
    wait: int = 0
    wasted: int = 0
    runs: list = field(default_factory=list)
    counts_from: int = -1  # alive: the decision that started the run

    @property
    def size(self):
        return self.pods * self.g

    @property
    def whole(self):
        return self.g >= MILLI

    def end(self):
        return self.start + self.restart + self.duration - self.saved

    def useful(self, now):
        return min(self.duration, self.saved + max(0, now - self.start - self.restart))

    def kept(self, useful, every, milestones):
        """Return what a checkpoint keeps of the useful seconds of a run: every so often, or at
        milestones, which are parts of the duration below 1 and seconds from 1 on."""
        if not milestones:
            return useful // every * every
        reached = [math.floor(one * self.duration) if one < 1 else int(one) for one in milestones]
        reached = [at for at in reached if at <= self.saved + useful]
        return max([self.saved, *reached]) - self.saved

    def last_checkpoint(self, now, every, milestones):
        kept = self.kept(max(0, now - self.start - self.restart), every, milestones)
        return self.start + self.restart * (kept > 0) + kept


class SpotTwin:
    """One pool under one policy."""

    def __init__(
        self,
        cards,
        tasks,
        policy,
        forecast=None,
        *,
        hours=1,
        checkpoint_s=3600,
        grace_s=30,
        eta_rule="target",
        p=0.9,
        eta_min=0.05,
        eta_max=2.0,
        theta_s=3600,
        beta=0.5,
        horizon_s=5 * 86400,
        blocking=False,
        aggregate="sum",
        static_share=0.25,
        milestones=(),
        falls_above=1.5,
        rises_below=0.5,
        heat_limit=504,
    ):
        self.policy, self.tasks, self.forecast = policy, tasks, forecast
        self.cards = [[MILLI] * count for count in cards]
        self.hours, self.checkpoint_s, self.grace_s = hours, checkpoint_s, grace_s
        self.eta_rule, self.p, self.eta_min, self.eta_max = eta_rule, p, eta_min, eta_max
        self.theta_s, self.beta, self.horizon_s, self.blocking = theta_s, beta, horizon_s, blocking
        self.aggregate, self.static_share = aggregate, static_share
        self.milestones, self.heat_limit = milestones, heat_limit
        self.falls_above, self.rises_below = falls_above, rises_below
        self.gfs = policy.startswith("gfs")
        self.avoids_heat = self.gfs and policy not in ("gfs-s", "gfs-sp")
        if policy == "chronus":
            self.grace_s = 0
        self.capacity = sum(cards) * MILLI
        self.weights = Counter(task.g for task in tasks)
        self.blocked = []  # (until, node, card, milli)
        self.heat_events = [[] for _ in cards]
        self.running, self.queue = set(), set()
        self.evicted_at, self.spot_ends, self.waits = [], [], []  # of spot runs
        self.F = self.G = 0
        self.eta = 1.0
        self.quota = math.inf
        self.quota_rows = []

    # --- one instant -------------------------------------------------------------------------
    def run(self):
        arrivals = sorted(self.tasks, key=lambda task: (task.submit, task.rank))
        self.first_tick = arrivals[0].submit // TICK_S * TICK_S
        tick, place = self.first_tick, 0
        if self.policy == "static":
            self.quota = math.floor(self.static_share * self.capacity)
        while True:
            times = [task.end() for task in self.running]
            times += [task.stop_at for task in self.running if task.stop_at >= 0]
            times += [until for until, *_ in self.blocked]
            if place < len(arrivals):
                times.append(arrivals[place].submit)
            if not times and not self.queue:
                break
            now = min([*times, tick])
            if now > self.horizon_s:
                break
            event = False
            for task in self.by_rank(task for task in self.running if task.end() == now):
                if task.start <= now:
                    self.end_run(task, now, "finish")
                    event = True
            for task in self.by_rank(task for task in self.running if task.stop_at == now):
                self.end_run(task, now, "evict")
                event = True
            for kept in [kept for kept in self.blocked if kept[0] == now]:
                self.blocked.remove(kept)
                self.cards[kept[1]][kept[2]] += kept[3]
                event = True
            while place < len(arrivals) and arrivals[place].submit == now:
                task = arrivals[place]
                task.queued = now
                self.queue.add(task.rank)
                place += 1
                event = True
            if now == tick:
                if self.gfs:
                    self.update_quota(now)
                tick += TICK_S
                event = True
            elif self.policy == "chronus":
                continue
            if event and self.queue:
                self.schedule(now)
        return self

    def by_rank(self, tasks):
        return sorted(tasks, key=lambda task: task.rank)

    def end_run(self, task, now, why):
        self.running.discard(task)
        for node, card, milli in task.places:
            self.cards[node][card] += milli
        nodes = dict.fromkeys(task.was_on)
        task.runs.append((task.start, now, why, task.was_on))
        if why == "finish":
            task.finish = now
            task.wasted += task.size * task.restart
            if not task.hp:
                self.G += 1
        else:
            useful = task.useful(now)
            kept = (
                useful
                if why == "lease"
                else task.saved + task.kept(useful - task.saved, self.checkpoint_s, self.milestones)
            )
            restart = min(task.restart, now - task.start)
            task.wasted += task.size * (useful - kept + restart)
            task.saved = kept
            task.queued = now
            self.queue.add(task.rank)
        if not task.hp:
            self.spot_ends.append(now)
            if why == "evict":
                task.evictions += 1
                self.F += 1
                self.evicted_at.append(now)
                for node in nodes:
                    self.heat_events[node].append(now)
        task.places, task.stop_at, task.start = [], -1, -1

    # --- quota ---------------------------------------------------------------------------------
    def update_quota(self, now):
        window = 3600 * self.hours
        alive = sum(1 for task in self.running if not task.hp)
        evictions = sum(1 for at in self.evicted_at if now - window < at <= now)
        ends = sum(1 for at in self.spot_ends if now - window < at <= now)
        e = evictions / (ends + alive) if ends + alive else 0.0
        longest = max(
            [wait for at, wait in self.waits if now - window < at <= now]
            + [now - self.tasks[rank].queued for rank in self.queue if not self.tasks[rank].hp]
            + [0]
        )
        q = self.p if self.eta_rule == "literal" else 1 - self.p
        eta = self.eta
        if self.policy != "gfs-d" and self.eta_rule != "fixed":
            if e > self.falls_above * q:
                eta *= q / e
            elif e < self.rises_below * q and longest > self.theta_s:
                eta *= 1 + self.rises_below - e / q
            eta = min(max(eta, self.eta_min), self.eta_max)
        self.eta = eta
        mu, sigma, z = (self.forecast[name] for name in ("mu", "sigma", "z"))
        k = min(now // 3600, len(mu) - 1)
        if self.policy == "gfs-pool" or self.aggregate == "pool":
            bound = max(
                sum(m[h] for m in mu[k]) + z * math.sqrt(sum(s[h] ** 2 for s in sigma[k]))
                for h in range(self.hours)
            )
        else:
            bound = sum(
                max(max(0, m[h] + z * s[h]) for h in range(self.hours))
                for m, s in zip(mu[k], sigma[k], strict=True)
            )
        f = max(0.0, self.capacity / MILLI - bound)
        idle = sum(map(sum, self.cards))
        used = self.spot_used()
        self.quota = min(math.floor(f * eta * MILLI), idle + used)
        self.quota_rows.append((now, f, e, longest, eta, self.quota, used, idle))

    def spot_used(self):
        return sum(t.size for t in self.running if not t.hp and t.stop_at < 0)

    # --- one pass ------------------------------------------------------------------------------
    def schedule(self, now):
        failed = []
        blocked = set()
        order = self.queue_order(hp=True)
        while order:
            task = self.tasks[order.pop(0)]
            if task.rank not in self.queue:
                continue
            if not self.blocked_by(task, failed, blocked):
                if not self.try_start(task, now):
                    failed.append(task)
                    blocked.add(task.hp)
        for rank in self.queue_order(hp=False):
            task = self.tasks[rank]
            if not self.blocked_by(task, failed, blocked):
                if not self.try_start(task, now):
                    failed.append(task)
                    blocked.add(task.hp)

    def blocked_by(self, task, failed, blocked):
        if self.blocking and task.hp in blocked:
            return True
        return any(
            task.hp == other.hp
            and task.whole == other.whole
            and task.g >= other.g
            and task.pods >= other.pods
            for other in failed
        )

    def queue_order(self, hp):
        queued = [self.tasks[rank] for rank in self.queue if self.tasks[rank].hp == hp]
        if self.policy.startswith(ORDERED):
            return [t.rank for t in sorted(queued, key=lambda t: (-t.g, -t.pods, t.submit, t.rank))]
        return [t.rank for t in sorted(queued, key=lambda t: (t.submit, t.rank))]

    def try_start(self, task, now):
        if not task.hp and self.spot_used() + task.size > self.quota:
            return False
        places = self.place(task, now)
        victims = []
        if places is None and task.hp:
            places, victims = self.place_by_eviction(task, now)
        if places is None:
            return False
        begin = now
        if victims:
            begin = now + self.grace_s
            for victim in victims:
                self.evict(victim, now)
        for node, card, milli in places:
            self.cards[node][card] -= milli
        if victims and self.grace_s:
            self.block(victims, now)
        self.queue.discard(task.rank)
        task.places = places
        task.was_on = self.nodes_of(task, places)
        task.start = begin
        task.restart = 0
        if not task.hp and task.runs:
            task.restart = 60 if task.size > 8 * MILLI else 40
        task.wait += begin - task.queued
        if not task.hp:
            self.waits.append((now, begin - task.queued))
        if task.first_start < 0:
            task.first_start = begin
        self.running.add(task)
        return True

    def nodes_of(self, task, places):
        per_pod = max(1, task.g // MILLI)
        return [places[pod * per_pod][0] for pod in range(task.pods)]

    def evict(self, victim, now):
        """Take the victim's cards; it works on until the end of the grace period."""
        for node, card, milli in victim.places:
            self.cards[node][card] += milli
        victim.released, victim.places = victim.places, []
        if self.grace_s:
            victim.stop_at = now + self.grace_s
        else:
            self.end_run(victim, now, "lease" if self.policy == "chronus" else "evict")

    def block(self, victims, now):
        """Hold what the victims had and the new task has not taken until the grace period ends."""
        for victim in victims:
            for node, card, milli in victim.released:
                left = min(milli, self.cards[node][card])
                if left:
                    self.cards[node][card] -= left
                    self.blocked.append((now + self.grace_s, node, card, left))

    # --- Algorithm 1 ---------------------------------------------------------------------------
    def place(self, task, now):
        free = [list(node) for node in self.cards]
        kinds = self.node_kinds()
        places = []
        for _ in range(task.pods):
            best = None
            for node, cards in enumerate(free):
                if not self.fits(cards, task.g):
                    continue
                if (
                    self.avoids_heat
                    and not task.hp
                    and task.whole
                    and self.heat(node, now) >= self.heat_limit
                ):
                    continue
                if self.policy == "lyra" and not task.hp and kinds[node][0]:
                    continue
                key = self.key(node, cards, task, now, kinds)
                if best is None or key > best[0]:
                    best = key, node
            if best is None:
                return None
            node = best[1]
            for card, milli in self.pick(free[node], task.g):
                free[node][card] -= milli
                places.append((node, card, milli))
                kinds[node][0 if task.hp else 1] += milli
        return places

    def node_kinds(self):
        """Return the milli-GPU that HP and spot hold on each node."""
        held = [[0, 0] for _ in self.cards]
        for task in self.running:
            for node, _, milli in task.places:
                held[node][0 if task.hp else 1] += milli
        return held

    def fits(self, cards, g):
        if g >= MILLI:
            return sum(free == MILLI for free in cards) >= g // MILLI
        return any(free >= g for free in cards)

    def pick(self, cards, g):
        if g >= MILLI:
            idle = [card for card, free in enumerate(cards) if free == MILLI]
            return [(card, MILLI) for card in idle[: g // MILLI]]
        card = min(
            (card for card, free in enumerate(cards) if free >= g), key=lambda c: (cards[c], c)
        )
        return [(card, g)]

    def heat(self, node, now):
        e1 = sum(1 for at in self.heat_events[node] if now - 3600 < at <= now)
        e24 = sum(1 for at in self.heat_events[node] if now - 86400 < at <= now)
        return 96 * e1 + e24

    def key(self, node, cards, task, now, kinds):
        idle = sum(free == MILLI for free in cards)
        size = len(cards)
        packing = -idle / size
        shared = ()
        if not task.whole:
            ((card, _),) = self.pick(cards, task.g)
            shared = (1, -cards[card]) if cards[card] < MILLI else (0, 0)
        if self.policy in ("gfs", "gfs-pool", "gfs-d", "gfs-e"):
            heat = self.heat(node, now)
            own = kinds[node][0 if task.hp else 1] / (size * MILLI)
            return (*shared, packing, own, min(heat, self.heat_limit) if task.hp else -heat)
        if self.policy in ("gfs-s", "yarn-cs", "chronus"):
            return (*shared, packing)
        if self.policy == "lyra":
            calm = () if not task.hp else (0 if kinds[node][1] else 1,)
            return (*calm, *shared, packing)
        if self.policy == "fgd":
            return (-self.growth(cards, task.g),)
        return ()

    def growth(self, cards, g):
        after = list(cards)
        for card, milli in self.pick(cards, g):
            after[card] -= milli
        return self.fragmentation(after) - self.fragmentation(cards)

    def fragmentation(self, cards):
        idle = sum(free == MILLI for free in cards)
        total = sum(cards)
        found = 0
        for g, count in self.weights.items():
            if g >= MILLI:
                unusable = total if idle < g // MILLI else total - idle * MILLI
            elif not any(free >= g for free in cards):
                unusable = total
            else:
                unusable = sum(free for free in cards if free < g)
            found += count * unusable
        return found

    # --- Algorithm 2 ---------------------------------------------------------------------------
    def waste(self, task, now):
        return task.size * (now - task.last_checkpoint(now, self.checkpoint_s, self.milestones))

    def place_by_eviction(self, task, now):
        free = [list(node) for node in self.cards]
        on_node = [[] for _ in free]
        for spot in self.by_rank(t for t in self.running if not t.hp and t.stop_at < 0):
            for node in dict.fromkeys(node for node, _, _ in spot.places):
                on_node[node].append(spot)
        places, victims = [], []
        for _ in range(task.pods):
            best = None
            for node, cards in enumerate(free):
                here = [spot for spot in on_node[node] if spot not in victims]
                if self.fits(cards, task.g):
                    chosen, after = [], cards
                else:
                    chosen = here
                    if not self.fits(self.without(cards, node, chosen), task.g):
                        continue
                    for spot in self.spare_order(here, node, now):
                        others = [other for other in chosen if other is not spot]
                        if self.fits(self.without(cards, node, others), task.g):
                            chosen = others
                    after = self.without(cards, node, chosen)
                key = self.victim_key(chosen, after, task, now, node)
                if best is None or key < best[0]:
                    best = key, node, chosen
            if best is None:
                return None, []
            _, node, chosen = best
            for spot in chosen:
                victims.append(spot)
                for at, card, milli in spot.places:
                    free[at][card] += milli
            for card, milli in self.pick(free[node], task.g):
                free[node][card] -= milli
                places.append((node, card, milli))
        return places, victims

    def without(self, cards, node, spots):
        cards = list(cards)
        for spot in spots:
            for at, card, milli in spot.places:
                if at == node:
                    cards[card] += milli
        return cards

    def spare_order(self, here, node, now):
        def share(spot):
            return sum(milli for at, _, milli in spot.places if at == node)

        if self.gfs:
            return sorted(here, key=lambda spot: (-self.waste(spot, now), spot.rank))
        if self.policy in ("yarn-cs", "static", "first-fit"):
            return sorted(here, key=lambda spot: (spot.start, spot.rank))
        if self.policy in ("lyra", "chronus"):
            return sorted(here, key=lambda spot: (share(spot), spot.rank))
        return self.by_rank(here)

    def victim_key(self, chosen, after, task, now, node):
        idle = sum(free == MILLI for free in after)
        if self.gfs:
            n, waste = len(chosen), sum(self.waste(spot, now) for spot in chosen)
            rate = (self.F + n) / (self.G + self.F + n) if self.G + self.F + n else 0.0
            lasted = max(1, now - self.first_tick)
            return rate + self.beta * waste / (self.capacity * lasted), idle
        if self.policy == "yarn-cs":
            return (idle,)
        if self.policy in ("lyra", "chronus"):
            return len(chosen), sum(spot.size for spot in chosen), idle
        if self.policy == "fgd":
            return (self.growth(after, task.g),)
        return ()
