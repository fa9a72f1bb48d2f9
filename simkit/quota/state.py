"""What the kernels of Kueue read and change, as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuplan.simkit.heap import Queues
from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.tree import release, use

COMING, PENDING, RUNNING, LEAVING, GONE = range(5)  # states; leaving: evicted, holds its quota
NEVER, LOWER_PRIORITY, LOWER_OR_NEWER, ANY = range(4)  # whom a queue may evict
NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)  # what a flavor, or a workload, needs
IN_QUEUE, RECLAMATION, WHILE_BORROWING, FAIR_SHARING = range(4)  # why a victim was chosen

# Cells of `QuotaState.count`.
(
    REQUESTED, CHOSEN, ARENA, ROWS, DIRTY, NOW, NEXT_COMING, SEARCHED, SEARCHED_FR, SEARCHED_AMOUNT,
    STAMP, QUIET, COUNTS,
) = range(13)  # fmt: skip


class QueueRules(NamedTuple):
    """The rules of each queue and of all; what is by queue has its number.

    Attributes:
        strict: whether the queue is StrictFIFO.
        within, reclaim: whom it may evict: in the queue, in the cohort.
        borrow_evicts: whether it may evict while it borrows; ``threshold`` is the highest priority
            of such victims.
        borrow_next, preempt_next: whether the next flavor is tried where this one would need to
            borrow, to evict. ``preempt_last``: whether borrowing is worse than evicting.
        group_first, group_flavor: ``group_flavor[group_first[g]:group_first[g + 1]]`` are the
            flavors of resource group ``g``, in order.
        fair: whether fair sharing is on. ``final_first``: whether its first rule compares shares
            after an eviction. ``initial_second``: whether there is a second rule.
        by_priority: whether priority counts between queues.
        recompute: whether a workload whose victims were taken looks again.
        most_flavors: of a group.
    """

    strict: Any
    within: Any
    reclaim: Any
    borrow_evicts: Any
    threshold: Any
    borrow_next: Any
    preempt_next: Any
    preempt_last: Any
    group_first: Any
    group_flavor: Any
    fair: bool
    final_first: bool
    initial_second: bool
    by_priority: bool
    recompute: bool
    most_flavors: int


class WorkloadTable(NamedTuple):
    """Workloads and their shapes. A shape has pod sets, and a slot per pod set and resource.

    Attributes:
        queue, priority, arrival, runtime: of each workload.
        created: when it was created, for policies that evict newer ones.
        order: its rank in a queue: by priority, creation, uid. ``age``: by creation, uid.
        uid: its rank by uid.
        shape: its shape. ``pod_at``, ``slot_at``: where its pod sets and slots begin in the state.
        pod_first: the pod sets of each shape; ``pod_count``, ``pod_least`` are pods wanted, and
            the fewest that it takes.
        slot_first: the slots of each shape, by pod set, then group; ``slot_pod`` is the pod set
            within the shape, ``slot_group`` the group, -1 for none, ``slot_resource`` and
            ``slot_request`` what each pod requests.
        eligible: whether a pod set may run on a flavor; (pod set, flavor).
    """

    queue: Any
    priority: Any
    arrival: Any
    runtime: Any
    created: Any
    order: Any
    age: Any
    uid: Any
    shape: Any
    pod_at: Any
    slot_at: Any
    pod_first: Any
    pod_count: Any
    pod_least: Any
    slot_first: Any
    slot_pod: Any
    slot_group: Any
    slot_resource: Any
    slot_request: Any
    eligible: Any


class QuotaState(NamedTuple):
    """What changes during a replay.

    Attributes:
        status, reserved, end, rest: of each workload; the time of its quota reservation, its end,
            and how long it still has to run.
        evictions: how often each was evicted. ``row``: its last row in the table of runs.
        pods: pods admitted, by pod set of a workload.
        slot_fr, slot_amount, slot_mode, slot_height: what each slot of a workload takes, and the
            mode and height of that.
        tried, tried_new: the last flavor tried, by slot. ``tried_epoch`` is the epoch of the
            workload's tree for which that holds; ``epoch`` counts by root.
        try_mode, try_height: those of the flavor that is looked at, by slot of a shape.
        running, running_count, leaving_count: running workloads of each queue, in sections that
            begin at ``section``, in the order in which they would be evicted; how many, and how
            many of them are leaving.
        hidden: whether a workload is left out of a search.
        taken: whether it is a victim in this cycle; ``taken_list`` are those.
        cand, cand_at, cand_end, cand_early: candidates of each queue, in sections; where the next
            and the last are, and where those begin that are not leaving. ``kept``, ``kept_end``:
            those that a rule passed over.
        kind: of each queue in a search: how it was reached. ``mark``, ``kind_at``, ``pruned``:
            of nodes in a search.
        chosen, chosen_reason: victims found.
        req_fr, req_amount, req_needed, req_rest: the request of a search.
        head, head_mode, head_height, head_first, head_count: of each queue in a
            cycle: its workload, what it needs, and its victims in ``arena``, ``arena_reason``.
        heads, level_infinite, level_share, level_over, winner: of the order of a cycle.
        held_fr, held_amount, held_queue: usage that only this cycle knows.
        pending, shapes: heaps of the workloads of a shape, and of the shapes of a queue;
            ``place`` and ``shape_place`` are their tables.
        parked, parked_list, parked_first, parked_count: whether a shape is parked; by root.
        sticky: the workload that waits for its victims, by queue; -1 for none.
        dirty, dirty_list: roots in which something changed.
        count: see the numbers above.
    """

    status: Any
    reserved: Any
    end: Any
    rest: Any
    evictions: Any
    row: Any
    pods: Any
    slot_fr: Any
    slot_amount: Any
    slot_mode: Any
    slot_height: Any
    tried: Any
    tried_new: Any
    tried_epoch: Any
    epoch: Any
    try_mode: Any
    try_height: Any
    section: Any
    running: Any
    running_count: Any
    leaving_count: Any
    hidden: Any
    taken: Any
    taken_list: Any
    cand: Any
    cand_at: Any
    cand_end: Any
    cand_early: Any
    kept: Any
    kept_end: Any
    kind: Any
    mark: Any
    kind_at: Any
    pruned: Any
    chosen: Any
    chosen_reason: Any
    req_fr: Any
    req_amount: Any
    req_needed: Any
    req_rest: Any
    head: Any
    head_mode: Any
    head_height: Any
    head_first: Any
    head_count: Any
    heads: Any
    arena: Any
    arena_reason: Any
    level_infinite: Any
    level_share: Any
    level_over: Any
    winner: Any
    held_fr: Any
    held_amount: Any
    held_queue: Any
    pending: Queues
    shapes: Queues
    place: Any
    shape_place: Any
    parked: Any
    parked_list: Any
    parked_first: Any
    parked_count: Any
    sticky: Any
    dirty: Any
    dirty_list: Any
    count: Any


@borrowing_helper
def take_quota(tree: Any, jobs: Any, state: Any, w: int) -> None:
    """Add the usage of a workload to the tree."""
    shape = jobs.shape[w]
    at = jobs.slot_at[w]
    for slot in range(jobs.slot_first[shape + 1] - jobs.slot_first[shape]):
        if state.slot_fr[at + slot] >= 0:
            use(tree, jobs.queue[w], state.slot_fr[at + slot], state.slot_amount[at + slot])


@borrowing_helper
def give_quota(tree: Any, jobs: Any, state: Any, w: int) -> None:
    """Take the usage of a workload from the tree."""
    shape = jobs.shape[w]
    at = jobs.slot_at[w]
    for slot in range(jobs.slot_first[shape + 1] - jobs.slot_first[shape]):
        if state.slot_fr[at + slot] >= 0:
            release(tree, jobs.queue[w], state.slot_fr[at + slot], state.slot_amount[at + slot])


@borrowing_helper
def is_victim_before(jobs: Any, state: Any, w: int, other: int) -> bool:
    """Return whether a running workload would be evicted before another of no other rank."""
    if jobs.priority[w] != jobs.priority[other]:
        return jobs.priority[w] < jobs.priority[other]  # type: ignore[no-any-return]
    if state.reserved[w] != state.reserved[other]:
        return state.reserved[w] > state.reserved[other]  # type: ignore[no-any-return]
    return jobs.uid[w] < jobs.uid[other]  # type: ignore[no-any-return]


@borrowing_helper
def join_running(jobs: Any, state: Any, w: int) -> None:
    """Add a workload to the running ones of its queue."""
    queue = jobs.queue[w]
    first = state.section[queue]
    low, high = first, first + state.running_count[queue]
    at = high
    while low < high:
        middle = (low + high) >> 1
        if is_victim_before(jobs, state, w, state.running[middle]):
            high = middle
        else:
            low = middle + 1
    while at > low:
        state.running[at] = state.running[at - 1]
        at -= 1
    state.running[low] = w
    state.running_count[queue] += 1


@borrowing_helper
def leave_running(jobs: Any, state: Any, w: int) -> None:
    """Take a workload out of the running ones of its queue."""
    queue = jobs.queue[w]
    first = state.section[queue]
    low, high = first, first + state.running_count[queue] - 1
    while low < high:
        middle = (low + high) >> 1
        if is_victim_before(jobs, state, state.running[middle], w):
            low = middle + 1
        else:
            high = middle
    last = first + state.running_count[queue] - 1
    while low < last:
        state.running[low] = state.running[low + 1]
        low += 1
    state.running_count[queue] -= 1
