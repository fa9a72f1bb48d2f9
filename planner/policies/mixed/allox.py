"""AlloX: jobs matched with places in the queues of GPU types, without preemption.

`match` solves an assignment of the waiting jobs to (slot, k-th from its end), where a job costs k
times its duration, plus the time until its slot is free. `tail` is what FFT's evaluation runs: a
job joins the queue in which it would end first, and stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.planner.policies.mixed.mixed_policy import Decided, mixed_policy
from gpuplan.planner.policies.mixed.round_state import always, where_all_run
from gpuplan.planner.runs.settings import Setting, SettingError

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_state import RoundState
    from gpuplan.simkit.arrays import FloatArray, IntArray

RULES = ("match", "tail")
MOST_CELLS = 2_000_000
"""Size of an assignment; above it places are left out that are far from the end of a queue."""


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], _: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    if values["rule"] == "tail":
        return Decided(_tail(jobs), lasts=always)
    widths = np.unique(jobs.gpus)
    if widths.size > 1:
        listed = ", ".join(map(str, widths[:8]))
        raise SettingError(
            ["rule"],
            f"match takes jobs with the same number of GPUs, found {listed}",
            "set rule=tail, or choose the jobs with --where 'num_gpus = 1'",
        )
    return Decided(_match(int(widths[0])), lasts=where_all_run)


def _tail(jobs: RatedJobs) -> Any:
    queue = np.full(jobs.gpus.size, -1, np.int64)

    def choose(state: RoundState) -> IntArray:
        running, rate, width, gpus = state.running, state.rate, state.width, state.gpus
        with np.errstate(divide="ignore"):
            takes = state.left[:, None] / rate  # rounds on each type
        load = np.zeros(gpus.size)
        on = queue[running]
        here = np.flatnonzero(on >= 0)
        np.add.at(load, on[here], width[here] * takes[here, on[here]])
        for j in np.flatnonzero(on < 0).tolist():
            ends = np.where((rate[j] > 0) & (width[j] <= gpus), load / gpus + takes[j], np.inf)
            on[j] = queue[running[j]] = int(ends.argmin())
            load[on[j]] += width[j] * takes[j, on[j]]
        kind, free = state.now_on.copy(), gpus.copy()
        runs = kind >= 0
        np.subtract.at(free, kind[runs], width[runs])
        for i in range(gpus.size):
            for j in np.flatnonzero((on == i) & ~runs).tolist():
                if width[j] > free[i]:
                    break  # the head of the queue waits, and all behind it
                kind[j] = i
                free[i] -= width[j]
        return kind

    return choose


def _match(width: int) -> Any:
    def choose(state: RoundState) -> IntArray:
        kind = state.now_on.copy()
        runs = kind >= 0
        waiting = np.flatnonzero(~runs)
        slots = state.gpus // width
        idle = slots - np.bincount(kind[runs], minlength=slots.size)
        able = (state.rate[waiting] > 0).any(axis=0)
        if not waiting.size or not (idle[able] > 0).any():
            return kind
        with np.errstate(divide="ignore"):
            takes = state.left[:, None] / state.rate
        types, until = [], []
        for i, count in enumerate(slots.tolist()):
            on = np.flatnonzero(kind == i)
            unused = min(count - on.size, waiting.size)  # more of a type change nothing
            types += [i] * (on.size + unused)
            until.append(np.concatenate((np.sort(takes[on, i]), np.zeros(unused))))
        for job, slot in _matched(takes[waiting], np.array(types), np.concatenate(until)):
            if idle[types[slot]] > 0:
                kind[waiting[job]] = types[slot]
                idle[types[slot]] -= 1
        return kind

    return choose


def _matched(takes: FloatArray, kind: IntArray, until: FloatArray) -> list[tuple[int, int]]:
    """Return the first job of each slot that is free, as (job, slot)."""
    from scipy.optimize import linear_sum_assignment

    jobs, slots = takes.shape[0], kind.size
    deep = jobs
    if jobs * jobs * slots > MOST_CELLS:
        deep = min(jobs, max(MOST_CELLS // (jobs * slots), 2 * -(-jobs // slots)))
    place = np.arange(1, deep + 1)
    each = takes[:, kind]
    cost = (place[None, None, :] * each[:, :, None] + until[None, :, None]).reshape(jobs, -1)
    cost = np.where(np.isfinite(cost), cost, 1e12)
    rows, columns = linear_sum_assignment(cost)
    first: dict[int, tuple[int, int]] = {}
    for job, column in zip(rows.tolist(), columns.tolist(), strict=True):
        slot, k = divmod(column, deep)
        if until[slot] == 0 and np.isfinite(each[job, slot]):
            first[slot] = max(first.get(slot, (-1, -1)), (k, job))
    return [(job, slot) for slot, (_, job) in sorted(first.items())]


POLICY = mixed_policy(
    "allox",
    "several GPU types: jobs matched with queues, no preemption",
    "Le et al., AlloX, EuroSys 2020",
    prepare,
    own={
        "rule": Setting(
            "choice",
            "match (the published matching; jobs with the same number of GPUs) or tail (the queue "
            "in which a job would end first)",
            RULES,
            default="tail",
        ),
    },
)
