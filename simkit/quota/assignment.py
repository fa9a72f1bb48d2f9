"""Which flavors a workload would run on, and what it needs for that."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.state import (
    CHOSEN,
    FIT,
    NEVER,
    NO_CANDIDATES,
    NO_FIT,
    PREEMPT,
    RECLAIM,
    REQUESTED,
    SEARCHED,
    SEARCHED_AMOUNT,
    SEARCHED_FR,
    give_quota,
    slots_of,
    take_quota,
)
from gpuplan.simkit.quota.tree import available, borrowing_height
from gpuplan.simkit.quota.victims import find_victims

WORST = -(1 << 40)
ALMOST_WORST = -(1 << 30)


@borrowing_helper
def needs_of(tree: Any, rules: Any, jobs: Any, state: Any, w: int, fr: int, amount: int) -> int:
    """Return what a workload needs for an amount of one thing, as height x 8 + mode."""
    queue = jobs.works[w, col.W_QUEUE]
    if amount > tree.quotas[queue, fr, col.POTENTIAL]:
        return NO_FIT
    height, is_below = borrowing_height(tree, queue, fr, amount)
    if amount <= max(0, available(tree, queue, fr)):
        return height * 8 + FIT
    if not (
        amount <= tree.quotas[queue, fr, col.SUBTREE]
        or is_below
        or rules.queues[queue, col.BORROW_EVICTS]
        or (rules.fair and rules.queues[queue, col.RECLAIM] != NEVER)
    ):
        return NO_FIT
    state.count[REQUESTED] = 1
    (
        state.request[0, col.REQ_FR],
        state.request[0, col.REQ_AMOUNT],
        state.request[0, col.REQ_NEEDED],
    ) = fr, amount, True
    victims = find_victims(tree, rules, jobs, state, w)
    state.count[SEARCHED] = w
    state.count[SEARCHED_FR], state.count[SEARCHED_AMOUNT] = fr, amount
    if victims == 0:
        return height * 8 + NO_CANDIDATES
    mode = RECLAIM
    for i in range(victims):
        if jobs.works[state.lists[i, col.CHOSEN], col.W_QUEUE] == queue:
            mode = PREEMPT
        give_quota(tree, jobs, state, state.lists[i, col.CHOSEN])
    height, is_below = borrowing_height(tree, queue, fr, amount)
    for i in range(victims):
        take_quota(tree, jobs, state, state.lists[i, col.CHOSEN])
    return height * 8 + mode


@borrowing_helper
def _rank(rules: Any, queue: int, needs: int) -> int:
    """Return how good a flavor is, the best highest."""
    mode, height = needs & 7, needs >> 3
    if mode == NO_FIT:
        return WORST
    if mode == NO_CANDIDATES:
        return ALMOST_WORST - height
    if rules.queues[queue, col.PREEMPT_LAST]:
        return mode - 8 * height
    return (mode << 20) - height


@borrowing_helper
def _goes_on(rules: Any, queue: int, needs: int) -> bool:
    """Return whether the next flavor is tried after one."""
    mode, height = needs & 7, needs >> 3
    if mode <= NO_CANDIDATES:
        return True
    if mode != FIT and rules.queues[queue, col.PREEMPT_NEXT]:
        return True
    return height > 0 and rules.queues[queue, col.BORROW_NEXT]


@borrowing_helper
def _assumed(tree: Any, state: Any, first: int, last: int, fr: int) -> int:
    """Return what earlier slots of a workload take of something."""
    total = 0
    for slot in range(first, last):
        if state.slots[slot, col.SLOT_FR] == fr:
            total += state.slots[slot, col.SLOT_AMOUNT]
    return total


@borrowing_helper
def assign(tree: Any, rules: Any, jobs: Any, state: Any, w: int, pinned: bool) -> int:
    """Choose flavors for the pods in ``state.pods``; returns what the workload needs.

    The choice is in ``state.slot_*``; where ``pinned``, it is the one that is there already.
    Returns `NO_FIT`, `FIT`, or `PREEMPT` for all that needs victims, as height x 8 + mode.
    """
    shape, queue = jobs.works[w, col.W_SHAPE], jobs.works[w, col.W_QUEUE]
    base, flavors = jobs.starts[shape, col.SLOT_FIRST], jobs.eligible.shape[1]
    at = jobs.works[w, col.W_SLOT_AT]
    slots = jobs.starts[shape + 1, col.SLOT_FIRST] - base
    resources = tree.lendable.shape[1]
    continues = (
        state.works[w, col.TRIED_EPOCH] == state.nodes[tree.nodes[queue, col.ROOT], col.EPOCH]
    )
    mode, height = FIT, 0
    state.count[SEARCHED] = -1
    for slot in range(slots):
        state.slots[at + slot, col.TRIED_NEW] = -1
        if not pinned:
            state.slots[at + slot, col.SLOT_FR] = -1
            state.slots[at + slot, col.SLOT_AMOUNT] = 0
    slot = 0
    while slot < slots:
        group, pod = jobs.slots[base + slot, col.SLOT_GROUP], jobs.slots[base + slot, col.SLOT_POD]
        end = slot
        while (
            end < slots
            and jobs.slots[base + end, col.SLOT_POD] == pod
            and jobs.slots[base + end, col.SLOT_GROUP] == group
        ):
            end += 1
        count = state.pods[jobs.works[w, col.W_POD_AT] + pod]
        if group < 0:
            for s in range(slot, end):
                if jobs.slots[base + s, col.SLOT_REQUEST] * count > 0:
                    return NO_FIT
            slot = end
            continue
        first, last = rules.group_first[group], rules.group_first[group + 1]
        start = state.slots[at + slot, col.TRIED] + 1 if continues and not pinned else 0
        best, tried = WORST, -1
        fixed = state.slots[at + slot, col.SLOT_FR] // resources
        for i in range(first + start, last):
            flavor = rules.group_flavor[i]
            if pinned and flavor != fixed:
                continue
            tried = i - first
            if not jobs.eligible[jobs.starts[shape, col.POD_FIRST] + pod, flavor % flavors]:
                continue
            worst, worst_needs = -WORST, 0
            for s in range(slot, end):
                fr = flavor * resources + jobs.slots[base + s, col.SLOT_RESOURCE]
                amount = jobs.slots[base + s, col.SLOT_REQUEST] * count
                amount += _assumed(tree, state, at, at + slot, fr)
                needs = needs_of(tree, rules, jobs, state, w, fr, amount)
                state.request[s, col.TRY_MODE], state.request[s, col.TRY_HEIGHT] = (
                    needs & 7,
                    needs >> 3,
                )
                if _rank(rules, queue, needs) < worst:
                    worst, worst_needs = _rank(rules, queue, needs), needs
            if worst > best:
                best = worst
                for s in range(slot, end):
                    fr = flavor * resources + jobs.slots[base + s, col.SLOT_RESOURCE]
                    state.slots[at + s, col.SLOT_FR] = fr
                    state.slots[at + s, col.SLOT_AMOUNT] = (
                        jobs.slots[base + s, col.SLOT_REQUEST] * count
                    )
                    state.slots[at + s, col.SLOT_MODE] = state.request[s, col.TRY_MODE]
                    state.slots[at + s, col.SLOT_HEIGHT] = state.request[s, col.TRY_HEIGHT]
            if not _goes_on(rules, queue, worst_needs):
                break
        if tried == last - first - 1:
            tried = -1
        for s in range(slot, end):
            state.slots[at + s, col.TRIED_NEW] = tried
        if best == WORST:
            return NO_FIT
        for s in range(slot, end):
            if state.slots[at + s, col.SLOT_MODE] != FIT:
                mode = PREEMPT
            height = max(height, state.slots[at + s, col.SLOT_HEIGHT])
        slot = end
    return height * 8 + mode


@borrowing_helper
def set_request(jobs: Any, state: Any, w: int) -> None:
    """Make the request of a workload from its slots."""
    requested = 0
    begin, end = slots_of(jobs, w)
    for slot in range(begin, end):
        fr = state.slots[slot, col.SLOT_FR]
        if fr < 0:
            continue
        i = 0
        while i < requested and state.request[i, col.REQ_FR] != fr:
            i += 1
        if i == requested:
            (
                state.request[i, col.REQ_FR],
                state.request[i, col.REQ_AMOUNT],
                state.request[i, col.REQ_NEEDED],
            ) = fr, 0, False
            requested += 1
        state.request[i, col.REQ_AMOUNT] += state.slots[slot, col.SLOT_AMOUNT]
        if state.slots[slot, col.SLOT_MODE] != FIT:
            state.request[i, col.REQ_NEEDED] = True
    state.count[REQUESTED] = requested


@borrowing_helper
def _victims_of(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    """Choose the victims of a workload whose flavors are chosen."""
    set_request(jobs, state, w)
    if (
        state.count[REQUESTED] == 1
        and state.count[SEARCHED] == w
        and state.count[SEARCHED_FR] == state.request[0, col.REQ_FR]
        and state.count[SEARCHED_AMOUNT] == state.request[0, col.REQ_AMOUNT]
    ):
        return state.count[CHOSEN]  # type: ignore[no-any-return]
    return find_victims(tree, rules, jobs, state, w)


@borrowing_helper
def _set_pods(jobs: Any, state: Any, w: int, cut: int, spare_pods: int) -> None:
    """Set the pods of a workload between all that it wants and the fewest that it takes."""
    shape = jobs.works[w, col.W_SHAPE]
    for i in range(jobs.starts[shape, col.POD_FIRST], jobs.starts[shape + 1, col.POD_FIRST]):
        less = 0
        if spare_pods > 0:
            less = (jobs.pods[i, col.POD_COUNT] - jobs.pods[i, col.POD_LEAST]) * cut // spare_pods
        state.pods[jobs.works[w, col.W_POD_AT] + i - jobs.starts[shape, col.POD_FIRST]] = (
            jobs.pods[i, col.POD_COUNT] - less
        )


@borrowing_helper
def nominate(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    """Find flavors, counts and victims of a workload; returns what it needs.

    Returns height x 8 + `NO_FIT`, `NO_CANDIDATES`, `PREEMPT` (victims in ``state.chosen``), `FIT`.
    """
    shape = jobs.works[w, col.W_SHAPE]
    spare_pods = 0
    for i in range(jobs.starts[shape, col.POD_FIRST], jobs.starts[shape + 1, col.POD_FIRST]):
        spare_pods += jobs.pods[i, col.POD_COUNT] - jobs.pods[i, col.POD_LEAST]
    needs = _nominate_cut(tree, rules, jobs, state, w, 0, spare_pods)
    if spare_pods == 0 or (needs & 7) >= PREEMPT:
        return needs
    low, high = 0, spare_pods + 1
    while low < high:
        middle = (low + high) >> 1
        if (_nominate_cut(tree, rules, jobs, state, w, middle, spare_pods) & 7) >= PREEMPT:
            high = middle
        else:
            low = middle + 1
    return _nominate_cut(tree, rules, jobs, state, w, low if low <= spare_pods else 0, spare_pods)


@borrowing_helper
def _nominate_cut(
    tree: Any, rules: Any, jobs: Any, state: Any, w: int, cut: int, spare_pods: int
) -> int:
    _set_pods(jobs, state, w, cut, spare_pods)
    return with_victims(tree, rules, jobs, state, w, False)


@borrowing_helper
def with_victims(tree: Any, rules: Any, jobs: Any, state: Any, w: int, pinned: bool) -> int:
    """Find flavors and victims for the pods in ``state.pods``; returns as `nominate` does."""
    state.count[CHOSEN] = 0
    needs = assign(tree, rules, jobs, state, w, pinned)
    if (needs & 7) != PREEMPT:
        state.count[CHOSEN] = 0
        return needs
    if _victims_of(tree, rules, jobs, state, w) == 0:
        return (needs >> 3) * 8 + NO_CANDIDATES
    return needs
