"""Which flavors a workload would run on, and what it needs for that."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
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
    take_quota,
)
from gpuplan.simkit.quota.tree import available, borrowing_height
from gpuplan.simkit.quota.victims import find_victims

WORST = -(1 << 40)
ALMOST_WORST = -(1 << 30)


@borrowing_helper
def needs_of(tree: Any, rules: Any, jobs: Any, state: Any, w: int, fr: int, amount: int) -> int:
    """Return what a workload needs for an amount of one thing, as height x 8 + mode."""
    queue = jobs.queue[w]
    if amount > tree.potential[queue, fr]:
        return NO_FIT
    height, is_below = borrowing_height(tree, queue, fr, amount)
    if amount <= max(0, available(tree, queue, fr)):
        return height * 8 + FIT
    if not (
        amount <= tree.subtree[queue, fr]
        or is_below
        or rules.borrow_evicts[queue]
        or (rules.fair and rules.reclaim[queue] != NEVER)
    ):
        return NO_FIT
    state.count[REQUESTED] = 1
    state.req_fr[0], state.req_amount[0], state.req_needed[0] = fr, amount, True
    victims = find_victims(tree, rules, jobs, state, w)
    state.count[SEARCHED] = w
    state.count[SEARCHED_FR], state.count[SEARCHED_AMOUNT] = fr, amount
    if victims == 0:
        return height * 8 + NO_CANDIDATES
    mode = RECLAIM
    for i in range(victims):
        if jobs.queue[state.chosen[i]] == queue:
            mode = PREEMPT
        give_quota(tree, jobs, state, state.chosen[i])
    height, is_below = borrowing_height(tree, queue, fr, amount)
    for i in range(victims):
        take_quota(tree, jobs, state, state.chosen[i])
    return height * 8 + mode


@borrowing_helper
def _rank(rules: Any, queue: int, needs: int) -> int:
    """Return how good a flavor is, the best highest."""
    mode, height = needs & 7, needs >> 3
    if mode == NO_FIT:
        return WORST
    if mode == NO_CANDIDATES:
        return ALMOST_WORST - height
    if rules.preempt_last[queue]:
        return mode - 8 * height
    return (mode << 20) - height


@borrowing_helper
def _goes_on(rules: Any, queue: int, needs: int) -> bool:
    """Return whether the next flavor is tried after one."""
    mode, height = needs & 7, needs >> 3
    if mode <= NO_CANDIDATES:
        return True
    if mode != FIT and rules.preempt_next[queue]:
        return True
    return height > 0 and rules.borrow_next[queue]


@borrowing_helper
def _assumed(tree: Any, state: Any, first: int, last: int, fr: int) -> int:
    """Return what earlier slots of a workload take of something."""
    total = 0
    for slot in range(first, last):
        if state.slot_fr[slot] == fr:
            total += state.slot_amount[slot]
    return total


@borrowing_helper
def assign(tree: Any, rules: Any, jobs: Any, state: Any, w: int, pinned: bool) -> int:
    """Choose flavors for the pods in ``state.pods``; returns what the workload needs.

    The choice is in ``state.slot_*``; where ``pinned``, it is the one that is there already.
    Returns `NO_FIT`, `FIT`, or `PREEMPT` for all that needs victims, as height x 8 + mode.
    """
    shape, queue = jobs.shape[w], jobs.queue[w]
    base, flavors = jobs.slot_first[shape], jobs.eligible.shape[1]
    at = jobs.slot_at[w]
    slots = jobs.slot_first[shape + 1] - base
    resources = tree.lendable.shape[1]
    continues = state.tried_epoch[w] == state.epoch[tree.root[queue]]
    mode, height = FIT, 0
    state.count[SEARCHED] = -1
    for slot in range(slots):
        state.tried_new[at + slot] = -1
        if not pinned:
            state.slot_fr[at + slot] = -1
            state.slot_amount[at + slot] = 0
    slot = 0
    while slot < slots:
        group, pod = jobs.slot_group[base + slot], jobs.slot_pod[base + slot]
        end = slot
        while (
            end < slots
            and jobs.slot_pod[base + end] == pod
            and jobs.slot_group[base + end] == group
        ):
            end += 1
        count = state.pods[jobs.pod_at[w] + pod]
        if group < 0:
            for s in range(slot, end):
                if jobs.slot_request[base + s] * count > 0:
                    return NO_FIT
            slot = end
            continue
        first, last = rules.group_first[group], rules.group_first[group + 1]
        start = state.tried[at + slot] + 1 if continues and not pinned else 0
        best, tried = WORST, -1
        fixed = state.slot_fr[at + slot] // resources
        for i in range(first + start, last):
            flavor = rules.group_flavor[i]
            if pinned and flavor != fixed:
                continue
            tried = i - first
            if not jobs.eligible[jobs.pod_first[shape] + pod, flavor % flavors]:
                continue
            worst, worst_needs = -WORST, 0
            for s in range(slot, end):
                fr = flavor * resources + jobs.slot_resource[base + s]
                amount = jobs.slot_request[base + s] * count
                amount += _assumed(tree, state, at, at + slot, fr)
                needs = needs_of(tree, rules, jobs, state, w, fr, amount)
                state.try_mode[s], state.try_height[s] = needs & 7, needs >> 3
                if _rank(rules, queue, needs) < worst:
                    worst, worst_needs = _rank(rules, queue, needs), needs
            if worst > best:
                best = worst
                for s in range(slot, end):
                    fr = flavor * resources + jobs.slot_resource[base + s]
                    state.slot_fr[at + s] = fr
                    state.slot_amount[at + s] = jobs.slot_request[base + s] * count
                    state.slot_mode[at + s] = state.try_mode[s]
                    state.slot_height[at + s] = state.try_height[s]
            if not _goes_on(rules, queue, worst_needs):
                break
        if tried == last - first - 1:
            tried = -1
        for s in range(slot, end):
            state.tried_new[at + s] = tried
        if best == WORST:
            return NO_FIT
        for s in range(slot, end):
            if state.slot_mode[at + s] != FIT:
                mode = PREEMPT
            height = max(height, state.slot_height[at + s])
        slot = end
    return height * 8 + mode


@borrowing_helper
def set_request(jobs: Any, state: Any, w: int) -> None:
    """Make the request of a workload from its slots."""
    shape = jobs.shape[w]
    at = jobs.slot_at[w]
    requested = 0
    for slot in range(at, at + jobs.slot_first[shape + 1] - jobs.slot_first[shape]):
        fr = state.slot_fr[slot]
        if fr < 0:
            continue
        i = 0
        while i < requested and state.req_fr[i] != fr:
            i += 1
        if i == requested:
            state.req_fr[i], state.req_amount[i], state.req_needed[i] = fr, 0, False
            requested += 1
        state.req_amount[i] += state.slot_amount[slot]
        if state.slot_mode[slot] != FIT:
            state.req_needed[i] = True
    state.count[REQUESTED] = requested


@borrowing_helper
def _victims_of(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    """Choose the victims of a workload whose flavors are chosen."""
    set_request(jobs, state, w)
    if (
        state.count[REQUESTED] == 1
        and state.count[SEARCHED] == w
        and state.count[SEARCHED_FR] == state.req_fr[0]
        and state.count[SEARCHED_AMOUNT] == state.req_amount[0]
    ):
        return state.count[CHOSEN]  # type: ignore[no-any-return]
    return find_victims(tree, rules, jobs, state, w)


@borrowing_helper
def _set_pods(jobs: Any, state: Any, w: int, cut: int, whole: int) -> None:
    """Set the pods of a workload between all that it wants and the fewest that it takes."""
    shape = jobs.shape[w]
    for i in range(jobs.pod_first[shape], jobs.pod_first[shape + 1]):
        less = 0
        if whole > 0:
            less = (jobs.pod_count[i] - jobs.pod_least[i]) * cut // whole
        state.pods[jobs.pod_at[w] + i - jobs.pod_first[shape]] = jobs.pod_count[i] - less


@borrowing_helper
def nominate(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    """Find flavors, counts and victims of a workload; returns what it needs.

    Returns height x 8 + `NO_FIT`, `NO_CANDIDATES`, `PREEMPT` (victims in ``state.chosen``), `FIT`.
    """
    shape = jobs.shape[w]
    whole = 0
    for i in range(jobs.pod_first[shape], jobs.pod_first[shape + 1]):
        whole += jobs.pod_count[i] - jobs.pod_least[i]
    needs = _nominate_cut(tree, rules, jobs, state, w, 0, whole)
    if whole == 0 or (needs & 7) >= PREEMPT:
        return needs
    low, high = 0, whole + 1
    while low < high:
        middle = (low + high) >> 1
        if (_nominate_cut(tree, rules, jobs, state, w, middle, whole) & 7) >= PREEMPT:
            high = middle
        else:
            low = middle + 1
    return _nominate_cut(tree, rules, jobs, state, w, low if low <= whole else 0, whole)


@borrowing_helper
def _nominate_cut(
    tree: Any, rules: Any, jobs: Any, state: Any, w: int, cut: int, whole: int
) -> int:
    _set_pods(jobs, state, w, cut, whole)
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
