"""The tables of tasks, pods and runs that the spot kernel reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# Rows of the table of tasks, one column per task. What the workload says:
PRIORITY, PODS, POD_MILLI, SUBMIT, DURATION, SIZE, FIRST_POD, BUCKET = range(8)
# and what happens; SAVED is useful time kept, STOP the end of a victim's grace period.
QUEUED, START, RESTART, SAVED, END, STOP, FIRST_START, FINISH, EVICTIONS, WAIT, WASTED, RUNS = (
    range(8, 20)
)
STATE = 20
WAITING, RUNNING, ENDING, DONE = range(4)  # states; ENDING is a victim in its grace period

NODE, NODE_MASK = range(2)  # rows of the table of places, one column per pod

FINISHED, EVICTED, LEASE_ENDED = range(3)  # why a run ended
RUN_TASK, RUN_START, RUN_STOP, RUN_WHY, RUN_PLACE = range(5)  # rows of the table of runs

# The time line, one column per tick; the quota is -1 where there is none.
TIME, LONGEST, QUOTA, SPOT_USED, IDLE, HP_HELD, HP_WAITING, SPOT_WAITING = range(8)
BOUND, EVICTION_RATE, ETA = range(3)  # its columns that are not whole: f(t) in GPUs, e, eta


class Scratch(NamedTuple):
    """Space for the choice of victims, and the places of all pods.

    Attributes:
        places: node and mask of the cards of each pod, shape (2, pods).
        free, owner, order, keys, spared, victims: for one node.
        random: state of the generator, shape (1,).
        milestones: checkpoints of every task, below 1 parts of its duration, else seconds of its
            work; empty where checkpoints are regular. Here, as small functions take the rules.
    """

    places: Any
    free: Any
    owner: Any
    order: Any
    keys: Any
    spared: Any
    victims: Any
    random: Any
    milestones: Any

    @classmethod
    def of(
        cls, pods: int, cards: int, per_node: int, seed: int, milestones: Sequence[float]
    ) -> Scratch:
        """Return empty space for nodes of at most ``cards`` cards and ``per_node`` spot pods."""
        return cls(
            places=np.full((2, pods), -1, np.int64),
            free=np.zeros(cards, np.int64),
            owner=np.zeros(per_node, np.int64),
            order=np.zeros(per_node, np.int64),
            keys=np.zeros(per_node, np.int64),
            spared=np.zeros(per_node, np.bool_),
            victims=np.zeros(per_node, np.int64),
            random=np.array([seed], np.int64),
            milestones=np.array(milestones, np.float64),
        )


class Records(NamedTuple):
    """What a run of the kernel writes, with room for a number of runs.

    Attributes:
        runs: shape (5, k); ``run_nodes``: the nodes of their pods, one after the other.
        ticks, rates: the time line, shapes (8, k) and (3, k).
        ends: heap of ends of runs, `gpuplan.simkit.heap`.
        stops: victims in the order in which their grace periods end, shape (2, k).
        blocked: time, node, mask and share of what is blocked, shape (4, k).
        evictions, finishes: times at which spot runs were evicted, and ended in any way.
        waits: spot waits that may yet be the longest of the window, shape (2, k).
        queued: spot tasks in the order in which they began to wait, shape (2, k).
        hot: time and node of evictions, shape (2, k).
    """

    runs: Any
    run_nodes: Any
    ticks: Any
    rates: Any
    ends: Any
    stops: Any
    blocked: Any
    evictions: Any
    finishes: Any
    waits: Any
    queued: Any
    hot: Any

    @classmethod
    def of(cls, runs: int, nodes: int, blocked: int, ticks: int) -> Records:
        """Return empty tables for so many runs, nodes of runs, blocked cards, and ticks."""
        ends = np.empty((runs + 2, 2), np.int64)
        ends[0] = 0
        return cls(
            runs=np.empty((RUN_PLACE + 1, runs), np.int64),
            run_nodes=np.empty(nodes, np.int64),
            ticks=np.empty((SPOT_WAITING + 1, ticks), np.int64),
            rates=np.empty((ETA + 1, ticks), np.float64),
            ends=ends,
            stops=np.empty((2, runs), np.int64),
            blocked=np.empty((4, blocked), np.int64),
            evictions=np.empty(runs, np.int64),
            finishes=np.empty(runs, np.int64),
            waits=np.empty((2, runs), np.int64),
            queued=np.empty((2, runs), np.int64),
            hot=np.empty((2, nodes), np.int64),
        )


class PoolState(NamedTuple):
    """All that a replay reads and changes.

    Attributes:
        tasks: see the module, in the order of submission.
        task_of: the task of each pod.
        pool, queue: `gpuplan.simkit.spot.pool.Pool` and `gpuplan.simkit.spot.queue.Queue`.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
        weights, growth: for `gpuplan.simkit.spot.place.kept_growth`.
        scratch, records: buffers, and what is recorded.
        count: how much of each record is in use; shape (21,).
        capacity: of the pool, milli-GPU.
        first_tick: when the quota is first updated, seconds.
    """

    tasks: Any
    task_of: Any
    pool: Any
    queue: Any
    rules: Any
    weights: Any
    growth: Any
    scratch: Any
    records: Any
    count: Any
    capacity: int
    first_tick: int
