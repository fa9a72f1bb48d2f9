"""What each queue got from a replay: hours within and above its quota, loans, waits, evictions.

Which queue lends to which is not part of the rules of Kueue or KAI. Here what is borrowed in a
cohort comes from what its members leave unused and may lend, in proportion; what is still missing
comes from the cohort above, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

BLOCK = 8192
"""Instants that are accounted at a time."""
HOUR_S = 3600.0
TINY = 1e-300
LEAST = 1e-9
"""GPUs that are more than rounding."""
ALL_GPUS = 1e9
"""No limit on what is borrowed; finite, so that sums of it can be taken apart."""


@dataclass(frozen=True, slots=True)
class NodeQuotas:
    """Quotas by (node, pair); nodes are queues, then cohorts, as in `QuotaNames`.

    Attributes:
        parent: the node above; -1 for a root.
        queues: how many of the nodes are queues.
        nominal: what each node has by itself.
        lendable: most of it, and of what lies below it, that others may use; inf: all.
        borrowable: most that a node, and what lies below it, may hold of others; inf: no limit.
        usable: whether jobs of each queue may hold a pair at all; (queue, pair).
    """

    parent: IntArray
    queues: int
    nominal: FloatArray
    lendable: FloatArray
    borrowable: FloatArray
    usable: BoolArray


@dataclass(frozen=True, slots=True)
class QuotaHolds:
    """Runs of jobs: one entry per run, and what each holds.

    Attributes:
        queue, submit_s: of each job; shape (n,).
        job, start_s, end_s: the runs. ``until_s``: when each gave back what it held.
        cause: the job for which a run was evicted; -1: it was not.
        pair, amount: what each holds, -1 for none; shape (runs, slots).
    """

    queue: IntArray
    submit_s: IntArray
    job: IntArray
    start_s: IntArray
    end_s: IntArray
    until_s: IntArray
    cause: IntArray
    pair: IntArray
    amount: IntArray


@dataclass(frozen=True, slots=True)
class QuotaAccounts:
    """What a replay gave each queue; hours are amounts (GPUs) x hours.

    Attributes:
        wait_s: time from the submission of each job to its first start; -1: it never started.
        again_s: time that each job waited after evictions, once it had stopped.
        within, above: hours held within and above the quota of a queue; (queue, pair).
        lent: hours that the queue of a column borrowed from the node of a row; (node, queue, pair).
        idle: hours of quota that nobody used; (node, pair). ``idle_wanted``: those that queues
            whose jobs waited, and may hold the pair, could borrow under the limits in force.
        evictions: how often the queue of a row evicted jobs of that of a column.
        lost: hours that the evicted runs of a queue had held when they were told to stop.
        span_s: first submission and end of the last run, or of the window; hours are of this time.
    """

    wait_s: IntArray
    again_s: IntArray
    within: FloatArray
    above: FloatArray
    lent: FloatArray
    idle: FloatArray
    idle_wanted: FloatArray
    evictions: IntArray
    lost: FloatArray
    span_s: tuple[int, int]


def account(quotas: NodeQuotas, runs: QuotaHolds, until_s: int | None = None) -> QuotaAccounts:
    """Return what each queue held, borrowed, lent, waited and lost.

    Args:
        quotas, runs: of one replay.
        until_s: end of the window that hours and evictions are of; None for the end of all runs.
            Waits are whole in any case.
    """
    n, queues = runs.queue.size, quotas.queues
    nodes, pairs = quotas.nominal.shape
    first, last = _span(runs)
    wait, again, waits = _waits(runs, last)
    if until_s is not None:
        last = max(first, min(last, until_s))
        runs, waits = _within(runs, last), _waits_within(waits, last)
    run_queue = runs.queue[runs.job]
    evicted = runs.cause >= 0
    evictions = np.zeros((queues, queues), np.int64)
    np.add.at(evictions, (runs.queue[runs.cause[evicted]], run_queue[evicted]), 1)
    amount = np.where(runs.pair >= 0, runs.amount, 0)
    lost = np.zeros((queues, pairs))
    length = (runs.end_s - runs.start_s) / HOUR_S
    row, slot = np.nonzero((runs.pair >= 0) & evicted[:, None])
    np.add.at(lost, (run_queue[row], runs.pair[row, slot]), amount[row, slot] * length[row])
    accounts = QuotaAccounts(
        wait, again, np.zeros((queues, pairs)), np.zeros((queues, pairs)),
        np.zeros((nodes, queues, pairs)), np.zeros((nodes, pairs)), np.zeros((nodes, pairs)),
        evictions, lost, (first, last),
    )  # fmt: skip
    if n == 0 or last <= first:
        return accounts
    root = np.arange(nodes)
    while (quotas.parent[root] >= 0).any():
        root = np.where(quotas.parent[root] >= 0, quotas.parent[root], root)
    row, slot = np.nonzero(runs.pair >= 0)
    held = (run_queue[row], runs.pair[row, slot], amount[row, slot], runs.start_s[row],
            runs.until_s[row])  # fmt: skip
    for tree in np.unique(root).tolist():
        _account_tree(quotas, np.flatnonzero(root == tree), held, waits, accounts)
    return accounts


def _span(runs: QuotaHolds) -> tuple[int, int]:
    if not runs.queue.size:
        return 0, 0
    first, last = int(runs.submit_s.min()), int(runs.submit_s.max())
    if runs.job.size:
        last = max(last, int(runs.until_s.max()))
    return first, last


def _within(runs: QuotaHolds, last: int) -> QuotaHolds:
    """Return what runs held before an instant; one evicted later was not evicted."""
    began = runs.start_s < last
    end = runs.end_s[began]
    return replace(
        runs,
        job=runs.job[began],
        start_s=runs.start_s[began],
        end_s=np.minimum(end, last),
        until_s=np.minimum(runs.until_s[began], last),
        cause=np.where(end <= last, runs.cause[began], -1),
        pair=runs.pair[began],
        amount=runs.amount[began],
    )


def _waits_within(waits: tuple[IntArray, ...], last: int) -> tuple[IntArray, ...]:
    """Return waits (queue, from, until) up to an instant."""
    queue, begin, end = waits
    began = begin < last
    return queue[began], begin[began], np.minimum(end[began], last)


def _waits(runs: QuotaHolds, last: int) -> tuple[IntArray, IntArray, tuple[IntArray, ...]]:
    """Return the first wait and the later ones of each job, and (queue, from, until) of all."""
    n = runs.queue.size
    order = np.lexsort((runs.start_s, runs.job))
    job, start, until = runs.job[order], runs.start_s[order], runs.until_s[order]
    is_first = np.append(True, job[1:] != job[:-1])[: job.size]
    is_last = np.append(job[1:] != job[:-1], True)[-job.size :] if job.size else is_first
    wait, again = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    wait[job[is_first]] = start[is_first] - runs.submit_s[job[is_first]]
    came = np.where(is_first, runs.submit_s[job], np.append(0, until[:-1])[: job.size])
    came = np.minimum(came, start)  # parts of a job may overlap
    np.add.at(again, job[~is_first], (start - came)[~is_first])
    never = np.flatnonzero(wait < 0)
    stuck = is_last & (runs.cause[order] >= 0)  # evicted and never started again
    return (
        wait,
        again,
        (
            np.concatenate((runs.queue[job], runs.queue[never], runs.queue[job[stuck]])),
            np.concatenate((came, runs.submit_s[never], until[stuck])),
            np.concatenate((start, np.full(never.size + int(stuck.sum()), last))),
        ),
    )


def _account_tree(
    quotas: NodeQuotas,
    members: IntArray,
    held: tuple[IntArray, ...],
    waits: tuple[IntArray, ...],
    accounts: QuotaAccounts,
) -> None:
    """Account one tree, block of instants by block."""
    first, last = accounts.span_s
    pairs = quotas.nominal.shape[1]
    queues = members[members < quotas.queues]
    here = np.full(quotas.parent.size, -1)
    here[queues] = np.arange(queues.size)
    chosen = here[held[0]] >= 0
    queue, pair, amount, start, until = (values[chosen] for values in held)
    cell = here[queue] * pairs + pair
    waiting = here[waits[0]] >= 0
    wait_queue, wait_from, wait_until = (values[waiting] for values in waits)
    width = queues.size * pairs
    time = np.concatenate((start, until, wait_from, wait_until))
    column = np.concatenate((cell, cell, width + here[wait_queue], width + here[wait_queue]))
    ones = np.ones(wait_queue.size, np.int64)
    step = np.concatenate((amount, -amount, ones, -ones))
    order = np.argsort(time, kind="stable")
    time, column, step = time[order], column[order], step[order]
    instants, begins = np.unique(np.concatenate(([first], time)), return_index=True)
    begins = np.searchsorted(time, instants)
    level = np.zeros(width + queues.size, np.int64)
    for block in range(0, instants.size, BLOCK):
        now = instants[block : block + BLOCK]
        after = int(instants[block + BLOCK]) if block + BLOCK < instants.size else last
        hours = np.diff(np.append(now, after)) / HOUR_S
        low = int(begins[block])
        high = int(begins[block + BLOCK]) if block + BLOCK < instants.size else time.size
        table = np.zeros((now.size, level.size), np.int64)
        at = np.searchsorted(now, time[low:high])
        np.add.at(table, (at, column[low:high]), step[low:high])
        table[0] += level
        table = np.cumsum(table, axis=0)
        level = table[-1]
        used = table[:, :width].reshape(now.size, queues.size, pairs)
        for fr in range(pairs):
            waiting = table[:, width:] * quotas.usable[queues, fr]
            _account_pair(quotas, members, used[:, :, fr], waiting > 0, hours, fr, accounts)


def _account_pair(
    quotas: NodeQuotas,
    members: IntArray,
    used: IntArray,
    waiting: BoolArray,
    hours: FloatArray,
    fr: int,
    accounts: QuotaAccounts,
) -> None:
    """Account one pair of flavor and resource of a tree during some instants.

    Args:
        used, waiting: what each queue holds, and whether jobs of it wait; (instant, queue).
    """
    queues = members[members < quotas.queues]
    nominal = quotas.nominal[queues, fr]
    over = np.maximum(used - nominal, 0.0)
    unused = np.maximum(nominal - used, 0.0)
    accounts.within[queues, fr] += hours @ (used - over)
    accounts.above[queues, fr] += hours @ over
    position = {node: i for i, node in enumerate(members.tolist())}
    idle = np.concatenate(
        (unused, np.tile(quotas.nominal[members[queues.size :], fr], (hours.size, 1))), axis=1
    )
    # By node: which queues below want more, which nodes below give, and how much at each instant.
    wants = {int(q): ([i], over[:, [i]]) for i, q in enumerate(queues)}
    gives = {
        int(q): ([i], np.minimum(unused[:, [i]], quotas.lendable[q, fr]))
        for i, q in enumerate(queues)
    }
    # By node: what the queues below whose jobs wait may still borrow from beyond it.
    rooms = {
        int(q): np.where(waiting[:, i], _room(quotas, int(q), fr, over[:, i]), 0.0)
        for i, q in enumerate(queues)
    }
    lent_at_most = np.zeros_like(idle)
    for node in _upwards(quotas.parent, members[queues.size :]):
        below = [child for child in members.tolist() if quotas.parent[child] == node]
        borrowers = [i for child in below for i in wants[child][0]]
        lenders = [i for child in below for i in gives[child][0]] + [position[node]]
        pool = np.full((hours.size, 1), quotas.nominal[node, fr])
        want = np.concatenate([pool[:, :0], *(wants.pop(child)[1] for child in below)], axis=1)
        branch = np.repeat(
            np.arange(len(below) + 1), [*(len(gives[child][0]) for child in below), 1]
        )
        give = np.concatenate([*(gives.pop(child)[1] for child in below), pool], axis=1)
        wanted_sum, given_sum = want.sum(axis=1), give.sum(axis=1)
        moved = np.minimum(wanted_sum, given_sum)
        from_each = moved / np.maximum(given_sum, TINY)
        for_each = moved / np.maximum(wanted_sum, TINY)
        loan = (give * (hours * from_each / np.maximum(wanted_sum, TINY))[:, None]).T @ want
        accounts.lent[np.ix_(members[lenders], queues[borrowers], np.array([fr]))] += loan[
            :, :, None
        ]
        idle[:, lenders] -= give * from_each[:, None]
        left = give * (1 - from_each)[:, None]
        room = np.stack([*(rooms.pop(child) for child in below), 0 * hours], axis=1)
        room_of_all = room.sum(axis=1)
        # What a branch lends within itself is counted further down.
        could = np.minimum(left, (room_of_all[:, None] - room)[:, branch])
        scale = np.minimum(1.0, room_of_all / np.maximum(could.sum(axis=1), LEAST))
        lent_at_most[:, lenders] += could * scale[:, None]
        most = quotas.lendable[node, fr] / np.maximum(left.sum(axis=1), TINY)
        gives[node] = (lenders, left * np.minimum(1.0, most)[:, None])
        wants[node] = (borrowers, want * (1 - for_each)[:, None])
        borrowed = wants[node][1].sum(axis=1)
        rooms[node] = np.minimum(room_of_all, _room(quotas, node, fr, borrowed))
    accounts.idle[members, fr] += hours @ np.maximum(idle, 0.0)
    borrowable = np.minimum(np.maximum(idle, 0.0), lent_at_most)
    accounts.idle_wanted[members, fr] += hours @ borrowable


def _room(quotas: NodeQuotas, node: int, fr: int, borrowed: FloatArray) -> FloatArray:
    """Return what a node may still borrow at each instant."""
    most = min(float(quotas.borrowable[node, fr]), ALL_GPUS)
    return np.maximum(most - borrowed, 0.0)


def _upwards(parent: IntArray, cohorts: IntArray) -> list[int]:
    """Return cohorts, those below others first."""

    def depth(node: int) -> int:
        steps = 0
        while parent[node] >= 0:
            node, steps = int(parent[node]), steps + 1
        return steps

    return sorted(cohorts.tolist(), key=lambda node: -depth(node))
