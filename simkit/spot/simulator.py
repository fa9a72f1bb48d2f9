"""Run high-priority and spot tasks on one pool: check, call the kernel, return what happened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.spot import tasks as table
from gpuplan.simkit.spot.kernel import replay
from gpuplan.simkit.spot.parameters import Rules, SpotScheduler
from gpuplan.simkit.spot.pool import FREE_MILLI, MILLI, MOST_CARDS, Pool
from gpuplan.simkit.spot.queue import Queue
from gpuplan.simkit.spot.runs import COUNTERS, NODE_COUNT, RUN_COUNT, TICK_COUNT

RUN_ENDS = ("finish", "evict", "lease")
"""Why a run ended, by number; ``lease`` is an eviction that loses nothing."""

MOST_RUNS = 1 << 26
MOST_TICKS = 1 << 18  # room at first; more is made where a run takes longer


class TooManyRuns(Exception):
    """Tasks are evicted without end."""


@dataclass(frozen=True, slots=True)
class SpotWorkload:
    """Tasks of one pool in the order of submission; arrays of shape (n,).

    Attributes:
        submit_s, duration_s: whole seconds; durations >= 1.
        hp: whether the task has high priority.
        pods: pods of its gang, which start together; >= 1.
        pod_milli: milli-GPU of a pod: below 1,000, or whole GPUs.
    """

    submit_s: IntArray
    duration_s: IntArray
    hp: BoolArray
    pods: IntArray
    pod_milli: IntArray

    def __post_init__(self) -> None:
        n = self.submit_s.size
        for name in ("submit_s", "duration_s", "hp", "pods", "pod_milli"):
            if getattr(self, name).shape != (n,):
                raise ValueError(f"{name} must have shape ({n},), got {getattr(self, name).shape}")
        if n == 0:
            raise ValueError("at least one task is needed")
        if (np.diff(self.submit_s) < 0).any() or self.submit_s[0] < 0:
            raise ValueError("tasks must be in the order of submission, from second 0 on")
        if (self.duration_s < 1).any() or (self.pods < 1).any() or (self.pod_milli < 1).any():
            raise ValueError("durations, pods and pod_milli must be at least 1")
        if ((self.pod_milli > MILLI) & (self.pod_milli % MILLI != 0)).any():
            raise ValueError("a pod of more than one GPU must hold whole GPUs")

    @property
    def size_milli(self) -> IntArray:
        """What each task holds, milli-GPU; shape (n,)."""
        return self.pods * self.pod_milli


@dataclass(frozen=True, slots=True)
class SpotRun:
    """What happened to every task of a pool; times in whole seconds.

    Attributes:
        workload: the tasks, in whose order all arrays of shape (n,) are.
        first_start_s, finish_s: -1 where it did not come to that before the horizon.
        evictions: how often each was evicted.
        wait_s: all its waits, grace periods of its victims included.
        wasted_milli_s: lost work and start-ups, milli-GPU seconds.
        run_task, run_start_s, run_stop_s, run_end: each run that ended and why (`RUN_ENDS`);
            shape (k,).
        run_nodes: the node of each pod of each run, one run after the other.
        running: tasks that still run at the horizon; ``running_since_s`` and ``running_nodes`` go
            with it.
        tick_s, longest_wait_s, quota_milli, spot_milli, idle_milli, hp_milli, hp_waiting,
            spot_waiting, lendable_gpus, eviction_rate, eta: state after each tick; shape (t,).
            ``quota_milli`` is -1 where there is none.
        end_s: the last event, or the horizon.
    """

    workload: SpotWorkload
    first_start_s: IntArray
    finish_s: IntArray
    evictions: IntArray
    wait_s: IntArray
    wasted_milli_s: IntArray
    run_task: IntArray
    run_start_s: IntArray
    run_stop_s: IntArray
    run_end: IntArray
    run_nodes: IntArray
    running: IntArray
    running_since_s: IntArray
    running_nodes: IntArray
    tick_s: IntArray
    longest_wait_s: IntArray
    quota_milli: IntArray
    spot_milli: IntArray
    idle_milli: IntArray
    hp_milli: IntArray
    hp_waiting: IntArray
    spot_waiting: IntArray
    lendable_gpus: FloatArray
    eviction_rate: FloatArray
    eta: FloatArray
    end_s: int


def never_fits(cards: IntArray, workload: SpotWorkload) -> BoolArray:
    """Return which tasks do not fit into the empty pool; shape (n,)."""
    g, pods = workload.pod_milli, workload.pods
    misfits = np.zeros(g.size, np.bool_)
    for size in np.unique(g):
        per_node = cards * (MILLI // size) if size < MILLI else cards // (size // MILLI)
        misfits |= (g == size) & (pods > per_node.sum())
    return misfits


def touched_nodes(cards: IntArray, pods: int) -> IntArray:
    """Return the nodes of a pool that so many pods in all can come to; the others stay idle.

    With a full node for every pod nothing is ever evicted, and of idle nodes of one size a pod
    takes the first. The last node may be smaller, and then stays.
    """
    if cards.size <= pods + 1 or (cards[:-1] != cards[0]).any() or cards[-1] > cards[0]:
        return cards
    return np.append(cards[:pods], cards[-1])


def simulate_spot(
    cards: IntArray,
    workload: SpotWorkload,
    scheduler: SpotScheduler,
    *,
    lendable_gpus: FloatArray | None = None,
    horizon_s: int,
    seed: int = 0,
) -> SpotRun:
    """Run all tasks of a pool under one scheduler.

    Args:
        cards: GPUs of each node, shape (nodes,), 1 to 62.
        workload: tasks that all fit into the empty pool.
        scheduler: its rules.
        lendable_gpus: GPUs that the forecast of HP demand leaves, by hour from second 0 on; shape
            (hours,), the last counts from then on. Needed for the quota ``forecast``.
        horizon_s: where the run stops.
        seed: of random choices (``victims="random"``).

    Raises:
        ValueError: an argument is out of range.
        TooManyRuns: there would be more than 67 million runs.
    """
    if cards.size == 0 or cards.min() < 1 or cards.max() > MOST_CARDS:
        raise ValueError(f"a node must have 1 to {MOST_CARDS} GPUs")
    if never_fits(cards, workload).any():
        raise ValueError("a task does not fit into the empty pool")
    if scheduler.quota == "forecast" and lendable_gpus is None:
        raise ValueError("the quota needs lendable_gpus")
    n, pods = workload.submit_s.size, int(workload.pods.sum())
    capacity = MILLI * int(cards.sum())
    rules = Rules.of(scheduler, capacity, seed)
    g = workload.pod_milli
    sizes = np.unique(g[g >= MILLI] // MILLI)
    shares, weights = np.unique(g, return_counts=True)
    lendable = np.zeros(1) if lendable_gpus is None else np.asarray(lendable_gpus, np.float64)
    touched = touched_nodes(cards, pods)
    gpus, spot = int(touched.sum()), ~workload.hp
    shared = int(workload.pods[spot & (g < MILLI)].sum())
    spot_cards = gpus + min(shared, MILLI * gpus)  # one pod holds a whole card, `MILLI` share one
    per_node = min(int(cards.max()) * MILLI, int(np.count_nonzero(spot)))
    most, nodes, blocked = 5 * n + 1024, 5 * pods + 1024, 5 * (pods + spot_cards) + 1024
    expected = (horizon_s - int(workload.submit_s[0])) // scheduler.tick_s + 2
    ticks = min(max(expected, 1), MOST_TICKS)
    while True:
        if most > MOST_RUNS:
            raise TooManyRuns("spot tasks are evicted more than 67 million times")
        pool = Pool.of(touched, sizes, pods, int(cards.sum() - touched.sum()))
        queue, bucket = Queue.of(workload.hp, g, workload.pods, sizes)
        tasks = np.zeros((table.STATE + 1, n), np.int64)
        tasks[table.PRIORITY], tasks[table.PODS] = workload.hp, workload.pods
        tasks[table.POD_MILLI], tasks[table.SUBMIT] = g, workload.submit_s
        tasks[table.DURATION], tasks[table.SIZE] = workload.duration_s, workload.size_milli
        tasks[table.FIRST_POD] = np.concatenate([[0], np.cumsum(workload.pods)[:-1]])
        tasks[table.BUCKET] = bucket
        tasks[table.FIRST_START] = tasks[table.FINISH] = tasks[table.STOP] = -1
        tasks[table.STATE] = -1
        milestones = (*scheduler.milestones, *scheduler.milestones_s)
        scratch = table.Scratch.of(pods, int(cards.max()), per_node, rules.seed, milestones)
        records = table.Records.of(most, nodes, blocked, ticks)
        count = np.zeros(COUNTERS, np.int64)
        state = table.PoolState(
            tasks=tasks,
            task_of=np.repeat(np.arange(n), workload.pods),
            pool=pool,
            queue=queue,
            rules=rules,
            weights=np.stack([shares, weights]).astype(np.int64),
            growth=np.full((2, touched.size, shares.size), -1, np.int64),
            scratch=scratch,
            records=records,
            count=count,
            capacity=int(pool.totals[FREE_MILLI]),
            first_tick=int(tasks[table.SUBMIT, 0]) // rules.tick_s * rules.tick_s,
        )
        if replay(state, lendable, spot_cards, horizon_s):
            return _result(workload, tasks, scratch, records, count)
        most, nodes, blocked, ticks = 2 * most, 2 * nodes, 2 * blocked, 4 * ticks


def _result(
    workload: SpotWorkload, tasks: IntArray, scratch: table.Scratch, records: table.Records,
    count: IntArray,
) -> SpotRun:  # fmt: skip
    runs = records.runs[:, : count[RUN_COUNT]]
    ticks = records.ticks[:, : count[TICK_COUNT]]
    rates = records.rates[:, : count[TICK_COUNT]]
    state = tasks[table.STATE]
    running = np.flatnonzero((state == table.RUNNING) | (state == table.ENDING))
    pods = [
        scratch.places[table.NODE, first : first + many]
        for first, many in tasks[[table.FIRST_POD, table.PODS]][:, running].T
    ]
    last = max(int(runs[table.RUN_STOP].max(initial=0)), int(ticks[table.TIME].max(initial=0)))
    return SpotRun(
        workload=workload,
        first_start_s=tasks[table.FIRST_START],
        finish_s=tasks[table.FINISH],
        evictions=tasks[table.EVICTIONS],
        wait_s=tasks[table.WAIT],
        wasted_milli_s=tasks[table.WASTED],
        run_task=runs[table.RUN_TASK],
        run_start_s=runs[table.RUN_START],
        run_stop_s=runs[table.RUN_STOP],
        run_end=runs[table.RUN_WHY],
        run_nodes=records.run_nodes[: count[NODE_COUNT]],
        running=running,
        running_since_s=tasks[table.START, running],
        running_nodes=np.concatenate([np.empty(0, np.int64), *pods]),
        tick_s=ticks[table.TIME],
        longest_wait_s=ticks[table.LONGEST],
        quota_milli=ticks[table.QUOTA],
        spot_milli=ticks[table.SPOT_USED],
        idle_milli=ticks[table.IDLE],
        hp_milli=ticks[table.HP_HELD],
        hp_waiting=ticks[table.HP_WAITING],
        spot_waiting=ticks[table.SPOT_WAITING],
        lendable_gpus=rates[table.BOUND],
        eviction_rate=rates[table.EVICTION_RATE],
        eta=rates[table.ETA],
        end_s=last,
    )
