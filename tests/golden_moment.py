"""Kueue's rules at one moment: the victims of a workload, one cycle, and shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.cycle import cycle
from gpuplan.simkit.quota.pending import enqueue
from gpuplan.simkit.quota.site import QuotaJobs, QuotaSite
from gpuplan.simkit.quota.state import (
    ARENA,
    LEAVING,
    NOW,
    PENDING,
    REQUESTED,
    RUNNING,
    join_running,
    take_quota,
)
from gpuplan.simkit.quota.tables import (
    names_of,
    new_state,
    rules_of,
    run_table,
    tree_of,
    workload_table,
)
from gpuplan.simkit.quota.tree import borrows, dominant_share, share, use
from gpuplan.simkit.quota.victims import find_victims
from gpuplan.simkit.reference import by_reference


@dataclass(frozen=True, slots=True)
class HeldQuota:
    """What a running workload holds: by (flavor, resource) of each pod set, in amounts.

    Attributes:
        usage: by pod set, then (flavor, resource).
        reserved: when its quota was reserved.
        is_evicted: whether it was told to stop.
    """

    usage: tuple[dict[tuple[str, str], int], ...]
    reserved: int = 0
    is_evicted: bool = False


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle did; workloads are numbers.

    Attributes:
        admitted: workload -> (pods, flavor by resource) of each pod set.
        evicted: (workload, reason as a position in `REASONS`) of those newly told to stop.
        parked: pending workloads that wait until quota is released. ``active``: the others.
    """

    admitted: dict[int, list[tuple[int, dict[str, str]]]]
    evicted: list[tuple[int, int]]
    active: list[int]
    parked: list[int]


class QuotaMoment:
    """A site with what runs and waits on it."""

    def __init__(
        self, site: QuotaSite, jobs: QuotaJobs, held: dict[int, HeldQuota], now: int = 0
    ) -> None:
        """Place running workloads; those that are not in ``held`` wait or are yet to come."""
        self.jobs = jobs
        self.names = names_of(site, jobs.shapes)
        self.tree = tree_of(site, self.names)
        self.rules, group_of = rules_of(site, self.names)
        self.table, self.shape_queue = workload_table(jobs, self.names, group_of)
        self.state = new_state(self.tree, self.table, self.shape_queue)
        self.state.count[NOW] = now
        for w, holding in held.items():
            self._set_slots(w, holding.usage)
            self.state.works[w, col.RESERVED] = holding.reserved
            self.state.works[w, col.STATUS] = LEAVING if holding.is_evicted else RUNNING
            _place(self.tree, self.table, self.state, w)
            if holding.is_evicted:
                self.state.queues[jobs.queue[w], col.LEAVING_COUNT] += 1

    def _set_slots(self, w: int, usage: Any) -> None:
        """Set what each slot of a workload holds."""
        table, state = self.table, self.state
        shape = table.works[w, col.W_SHAPE]
        base = table.starts[shape, col.SLOT_FIRST]
        for slot in range(table.starts[shape + 1, col.SLOT_FIRST] - base):
            resource = self.names.resources[table.slots[base + slot, col.SLOT_RESOURCE]]
            at = table.works[w, col.W_SLOT_AT] + slot
            for (flavor, name), amount in usage[table.slots[base + slot, col.SLOT_POD]].items():
                if name == resource:
                    state.slots[at, col.SLOT_FR] = self.names.pair(flavor, name)
                    state.slots[at, col.SLOT_AMOUNT] = amount

    def victims(self, w: int, usage: Any, needed: set[tuple[str, str]]) -> list[tuple[int, int]]:
        """Return the victims of a workload on chosen flavors, as (workload, reason)."""
        state = self.state
        total: dict[int, int] = {}
        for pod_set in usage:
            for (flavor, resource), amount in pod_set.items():
                pair = self.names.pair(flavor, resource)
                total[pair] = total.get(pair, 0) + amount
        needs = {self.names.pair(*pair) for pair in needed}
        for i, (pair, amount) in enumerate(total.items()):
            (
                state.request[i, col.REQ_FR],
                state.request[i, col.REQ_AMOUNT],
                state.request[i, col.REQ_NEEDED],
            ) = pair, amount, pair in needs
        state.count[REQUESTED] = len(total)
        victims = _victims(self.tree, self.rules, self.table, state, w)
        return [
            (int(state.lists[i, col.CHOSEN]), int(state.lists[i, col.CHOSEN_REASON]))
            for i in range(victims)
        ]

    def cycle(self, pending: list[int]) -> CycleResult:
        """Run one cycle in every tree with these workloads waiting."""
        state, table = self.state, self.table
        for w in pending:
            state.works[w, col.STATUS] = PENDING
            _wait(table, state, w)
        n = len(table.works)
        runs = run_table(n + len(state.queues) + 1, table)
        admitted, evicted = {}, []
        for root in np.unique(self.tree.nodes[:-1, col.ROOT]).tolist():
            log = np.zeros(2 * n + len(state.queues) + 1, np.int64)
            _cycle(self.tree, self.rules, table, state, runs, root, log)
            places = range(state.count[ARENA])
            reasons = {
                int(state.arenas[i, col.ARENA]): int(state.arenas[i, col.ARENA_REASON])
                for i in places
            }
            for w in log[1 : 1 + log[0]].tolist():
                if w >= 0:
                    admitted[w] = self._admission(w)
                else:
                    evicted.append((-1 - w, reasons[-1 - w]))
        parked = [
            w
            for w in pending
            if w not in admitted and state.parking[table.works[w, col.W_SHAPE], col.PARKED]
        ]
        active = [w for w in pending if w not in admitted and w not in parked]
        return CycleResult(admitted, evicted, active, parked)

    def _admission(self, w: int) -> list[tuple[int, dict[str, str]]]:
        """Return pods and flavors of each pod set of an admitted workload."""
        table, state = self.table, self.state
        shape = table.works[w, col.W_SHAPE]
        base = table.starts[shape, col.SLOT_FIRST]
        pods = []
        for pod in range(
            table.starts[shape + 1, col.POD_FIRST] - table.starts[shape, col.POD_FIRST]
        ):
            flavors = {}
            for slot in range(table.starts[shape + 1, col.SLOT_FIRST] - base):
                pair = state.slots[table.works[w, col.W_SLOT_AT] + slot, col.SLOT_FR]
                if table.slots[base + slot, col.SLOT_POD] == pod and pair >= 0:
                    resource = self.names.resources[table.slots[base + slot, col.SLOT_RESOURCE]]
                    flavors[resource] = self.names.flavor_of(pair)
            pods.append((int(state.pods[table.works[w, col.W_POD_AT] + pod]), flavors))
        return pods

    def add_usage(self, queue: int, flavor: str, resource: str, amount: int) -> None:
        """Add usage of a queue that is of no workload."""
        _use(self.tree, queue, self.names.pair(flavor, resource), amount)

    def share(self, node: int) -> tuple[bool, float, str, bool]:
        """Return (infinite, per mille over weight, dominant resource, borrowing) of a node."""
        infinite, number, resource, borrowing = _share(self.tree, node)
        return infinite, number, self.names.resources[resource] if resource >= 0 else "", borrowing


@kernel
def _place(tree: Any, jobs: Any, state: Any, w: int) -> None:
    work, tables = by_reference(jobs), by_reference(state)
    take_quota(by_reference(tree), work, tables, w)
    join_running(work, tables, w)


@kernel
def _wait(jobs: Any, state: Any, w: int) -> None:
    enqueue(by_reference(jobs), by_reference(state), w)


@kernel
def _victims(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    return find_victims(
        by_reference(tree), by_reference(rules), by_reference(jobs), by_reference(state), w
    )


@kernel
def _cycle(tree: Any, rules: Any, jobs: Any, state: Any, runs: Any, root: int, log: Any) -> int:
    return cycle(
        by_reference(tree), by_reference(rules), by_reference(jobs), by_reference(state),
        runs, root, log,
    )  # fmt: skip


@kernel
def _use(tree: Any, queue: int, fr: int, amount: int) -> None:
    use(by_reference(tree), queue, fr, amount)


@kernel
def _share(tree: Any, node: int) -> tuple[bool, float, int, bool]:
    table = by_reference(tree)
    infinite, number = share(table, node)
    _, resource = dominant_share(table, node)
    return infinite, number, resource, borrows(table, node)
