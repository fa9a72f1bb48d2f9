"""What the kernels of Kueue read and change, as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuplan.simkit.heap import Queues
from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col
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
    """The rules of each queue and of all; columns in `gpuplan.simkit.quota.columns`.

    Attributes:
        queues: by queue. Strict: whether it is StrictFIFO. Within, reclaim: whom it may evict: in
            the queue, in the cohort. Borrow evicts: whether it may evict while it borrows; the
            threshold is the highest priority of such victims. Borrow next, preempt next: whether
            the next flavor is tried where this one would need to borrow, to evict. Preempt last:
            whether borrowing is worse than evicting.
        group_first, group_flavor: ``group_flavor[group_first[g]:group_first[g + 1]]`` are the
            flavors of resource group ``g``, in order.
        fair: whether fair sharing is on. ``final_first``: whether its first rule compares shares
            after an eviction. ``initial_second``: whether there is a second rule.
        by_priority: whether priority counts between queues.
        recompute: whether a workload whose victims were taken looks again.
        most_flavors: of a group.
    """

    queues: Any
    group_first: Any
    group_flavor: Any
    fair: bool
    final_first: bool
    initial_second: bool
    by_priority: bool
    recompute: bool
    most_flavors: int


class WorkloadTable(NamedTuple):
    """Workloads and their shapes; columns in `gpuplan.simkit.quota.columns`.

    A shape has pod sets, and a slot per pod set and resource.

    Attributes:
        works: by workload. Created: when, for policies that evict newer ones. Order: its rank in a
            queue: by priority, creation, uid. Age: by creation, uid. Uid: its rank by uid. Pod at,
            slot at: where its pod sets and slots begin in the state.
        starts: where the pod sets and slots of each shape begin, with a last row for ends.
        pods: by pod set: pods wanted, and the fewest that it takes.
        slots: by slot, by pod set, then group: the pod set within the shape, the group, -1 for
            none, the resource, and what each pod requests.
        eligible: whether a pod set may run on a flavor; (pod set, flavor).
    """

    works: Any
    starts: Any
    pods: Any
    slots: Any
    eligible: Any


class QuotaState(NamedTuple):
    """What changes during a replay; columns in `gpuplan.simkit.quota.columns`.

    Attributes:
        works: by workload. Reserved, end, rest: time of its quota reservation, its end, and how
            long it still has to run. Evictions: how often. Row: its last in the table of runs.
            Tried epoch: the epoch of its tree for which its flavors tried hold. Hidden: whether it
            is left out of a search. Taken: whether it is a victim in this cycle.
        pods: pods admitted, by pod set of a workload.
        slots: by slot of a workload: what it takes, and the mode and height of that; the last
            flavor tried.
        lists: by place. Running: workloads of each queue, in sections, in the order in which they
            would be evicted. Cand: candidates of each queue, in the same sections; kept: those that
            a rule passed over. Taken list: victims of this cycle. Chosen: victims found, and why.
        queues: by queue. Section: where its lists begin. Counts of running workloads, and of those
            that are leaving. Candidates: where the next and the last are, and where those begin
            that are not leaving. Kind: how a search reached it. Head: its workload in a cycle, what
            that needs, and its victims in ``arenas``; heads: queues in the order of a cycle.
            Sticky: the workload that waits for its victims; -1 for none.
        nodes: by node. Epoch: of each root. Mark, kind at, pruned: of a search. Winner: of the
            order of a cycle. Parked: shapes of each root. Dirty: roots in which something changed.
        request: what a search is for, and the mode and height of the flavor that is looked at.
        arenas, holds: victims of heads, and usage that only this cycle knows.
        levels: of the order of a cycle, by (queue, depth).
        pending, shapes: heaps of the workloads of a shape, and of the shapes of a queue;
            ``place`` and ``shape_place`` are their tables.
        parking: by shape, whether it is parked, and lists of those by root.
        count: see the numbers above.
    """

    works: Any
    pods: Any
    slots: Any
    lists: Any
    queues: Any
    nodes: Any
    request: Any
    arenas: Any
    holds: Any
    levels: Any
    pending: Queues
    shapes: Queues
    place: Any
    shape_place: Any
    parking: Any
    count: Any


@borrowing_helper
def slots_of(jobs: Any, w: int) -> tuple[int, int]:
    """Return where the slots of a workload begin and end in the state."""
    shape, begin = jobs.works[w, col.W_SHAPE], jobs.works[w, col.W_SLOT_AT]
    count = jobs.starts[shape + 1, col.SLOT_FIRST] - jobs.starts[shape, col.SLOT_FIRST]
    return begin, begin + count


@borrowing_helper
def take_quota(tree: Any, jobs: Any, state: Any, w: int) -> None:
    """Add the usage of a workload to the tree."""
    queue = jobs.works[w, col.W_QUEUE]
    begin, end = slots_of(jobs, w)
    for slot in range(begin, end):
        if state.slots[slot, col.SLOT_FR] >= 0:
            use(tree, queue, state.slots[slot, col.SLOT_FR], state.slots[slot, col.SLOT_AMOUNT])


@borrowing_helper
def give_quota(tree: Any, jobs: Any, state: Any, w: int) -> None:
    """Take the usage of a workload from the tree."""
    queue = jobs.works[w, col.W_QUEUE]
    begin, end = slots_of(jobs, w)
    for slot in range(begin, end):
        if state.slots[slot, col.SLOT_FR] >= 0:
            release(tree, queue, state.slots[slot, col.SLOT_FR], state.slots[slot, col.SLOT_AMOUNT])


@borrowing_helper
def is_victim_before(jobs: Any, state: Any, w: int, other: int) -> bool:
    """Return whether a running workload would be evicted before another of no other rank."""
    if jobs.works[w, col.W_PRIORITY] != jobs.works[other, col.W_PRIORITY]:
        return jobs.works[w, col.W_PRIORITY] < jobs.works[other, col.W_PRIORITY]  # type: ignore[no-any-return]
    if state.works[w, col.RESERVED] != state.works[other, col.RESERVED]:
        return state.works[w, col.RESERVED] > state.works[other, col.RESERVED]  # type: ignore[no-any-return]
    return jobs.works[w, col.W_UID] < jobs.works[other, col.W_UID]  # type: ignore[no-any-return]


@borrowing_helper
def join_running(jobs: Any, state: Any, w: int) -> None:
    """Add a workload to the running ones of its queue."""
    queue = jobs.works[w, col.W_QUEUE]
    first = state.queues[queue, col.SECTION]
    low, high = first, first + state.queues[queue, col.RUNNING_COUNT]
    at = high
    while low < high:
        middle = (low + high) >> 1
        if is_victim_before(jobs, state, w, state.lists[middle, col.RUNNING]):
            high = middle
        else:
            low = middle + 1
    while at > low:
        state.lists[at, col.RUNNING] = state.lists[at - 1, col.RUNNING]
        at -= 1
    state.lists[low, col.RUNNING] = w
    state.queues[queue, col.RUNNING_COUNT] += 1


@borrowing_helper
def leave_running(jobs: Any, state: Any, w: int) -> None:
    """Take a workload out of the running ones of its queue."""
    queue = jobs.works[w, col.W_QUEUE]
    first = state.queues[queue, col.SECTION]
    low, high = first, first + state.queues[queue, col.RUNNING_COUNT] - 1
    while low < high:
        middle = (low + high) >> 1
        if is_victim_before(jobs, state, state.lists[middle, col.RUNNING], w):
            low = middle + 1
        else:
            high = middle
    last = first + state.queues[queue, col.RUNNING_COUNT] - 1
    while low < last:
        state.lists[low, col.RUNNING] = state.lists[low + 1, col.RUNNING]
        low += 1
    state.queues[queue, col.RUNNING_COUNT] -= 1
