"""Placement with the ties and the rounding of the authors' simulation, in plain Python.

A slow, readable twin of ``PlacementSettings(reference=True)``, written from the description of that
program: lists of GPUs in the order in which they became active or free, float sums in the order of
events, and nothing cleared when a GPU becomes free.
"""

from gpuplan.simkit.sharing.fleet import LLM, TRAINING

REQUEST, LIMIT, MEMORY = range(3)
OMEGA, GAMMA, GPU_GB = 1.0, 1.5, 40.0


class ReferenceTwin:
    """GPUs of 1,000 nodes of 4 under one policy."""

    def __init__(self, policy):
        self.policy, self.dilu = policy, policy == "dilu"
        self.active, self.free = [], list(range(4000))
        self.sums = {gpu: [0.0, 0.0, 0.0] for gpu in self.free}
        self.guests = {gpu: 0 for gpu in self.free}
        self.parts = {}  # instance -> [(GPU, memory)]

    def has_room(self, gpu, ask):
        request, limit, memory = self.sums[gpu]
        return (
            request + ask[REQUEST] <= OMEGA
            and limit + ask[LIMIT] <= GAMMA
            and memory + ask[MEMORY] <= GPU_GB
        )

    def score(self, gpu, ask):
        request, _, memory = self.sums[gpu]
        free = 1 - (request + ask[REQUEST])
        return 0.6 * free + 0.4 * (1 - (memory + ask[MEMORY]) / GPU_GB) if self.dilu else free

    def best(self, gpus, ask):
        room = [gpu for gpu in gpus if self.has_room(gpu, ask)]
        return min(room, key=lambda gpu: self.score(gpu, ask), default=None)

    def choose(self, kind, gpus, ask):
        """Return [(GPU, memory)] in the order in which the GPUs are charged."""
        memory = ask[MEMORY]
        if self.policy == "exclusive":
            return [(gpu, memory) for gpu in self.free[:gpus]]
        if kind == TRAINING:
            return [(gpu, memory) for gpu in self.gang(gpus, ask)]
        split = kind == LLM and self.dilu
        gpu = self.best(self.active if split else sorted(self.active), ask)
        if gpu is None and split:
            for node in self.by_node(g for g in self.active if self.has_room(g, (*ask[:2], 0))):
                node.sort(key=lambda g: -self.sums[g][MEMORY])
                if sum(GPU_GB - self.sums[g][MEMORY] for g in node) >= memory:
                    return self.fill(node, memory)
        if gpu is None and self.dilu and kind != LLM:
            gpu = self.best(self.free, ask)
        return [(self.free[0] if gpu is None else gpu, memory)]

    def fill(self, node, memory):
        parts = []
        for gpu in node:
            if memory > 0:
                parts.append((gpu, min(GPU_GB - self.sums[gpu][MEMORY], memory)))
                memory -= parts[-1][1]
        return parts

    def gang(self, gpus, ask):
        room = self.by_node(gpu for gpu in self.active if self.has_room(gpu, ask))
        for node in room:
            if len(node) >= gpus:
                return node[:gpus]
        active = {node[0] // 4: node for node in room}
        free = {
            node[0] // 4: node
            for node in self.by_node(g for g in self.free if self.dilu or self.has_room(g, ask))
        }
        for node in range(1000):
            both = active.get(node, []) + free.get(node, [])
            if len(both) >= gpus:
                return both[:gpus]
        raise AssertionError("no node has room")

    @staticmethod
    def by_node(gpus):
        nodes = {}
        for gpu in gpus:
            nodes.setdefault(gpu // 4, []).append(gpu)
        return list(nodes.values())

    def start(self, instance, kind, gpus, ask):
        self.parts[instance] = self.choose(kind, gpus, ask)
        split = self.dilu and kind == LLM and len(self.parts[instance]) > 1
        charged = (ask[REQUEST], ask[REQUEST] if split else ask[LIMIT])
        for gpu, memory in self.parts[instance]:
            if not self.guests[gpu]:
                self.free.remove(gpu)
                self.active.append(gpu)
            self.guests[gpu] += 1
            self.sums[gpu] = [
                a + b for a, b in zip(self.sums[gpu], (*charged, memory), strict=True)
            ]

    def end(self, instance, ask):
        memory = dict(self.parts.pop(instance))
        for gpu in [gpu for gpu in self.active if gpu in memory]:
            taken = (ask[REQUEST], ask[LIMIT], memory[gpu])
            self.sums[gpu] = [a - b for a, b in zip(self.sums[gpu], taken, strict=True)]
            self.guests[gpu] -= 1
            if not self.guests[gpu]:
                self.active.remove(gpu)
                self.free.append(gpu)
