"""One cluster: a million jobs under each scheduler, and slices against plain heapq code.

Times are CPU seconds of the one thread that a replay uses. The reference of the first rows is one
push and one pop per job on a plain heap.
"""

import time
from collections.abc import Callable
from functools import partial

from benchmarks import plain_cluster
from benchmarks.bars import Row
from benchmarks.bench_allpass import first_jobs, seren_like
from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.cluster_shape import GpuPool
from gpuplan.simkit.heap import new_heap, pop, push
from gpuplan.simkit.jit import kernel

JOBS, SLICE, LOAD = 1_000_000, 20_000, 0.9
BARS = {False: ">= 1,000,000 jobs/s", True: ">= 200,000 jobs/s"}
FREE_STOPS = {"checkpoint_s": 0.0, "restore_s": 0.0}


def least_s(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


@kernel
def ends_alone(end: IntArray, running: int) -> int:
    """Push the end of every job and pop the first of those that run."""
    heap = new_heap()
    last = 0
    for job in range(end.size):
        heap = push(heap, end[job], job)
        if heap[0, 0] > running:
            last = heap[1, 0]
            pop(heap)
    return last


def run() -> list[Row]:
    work = seren_like(JOBS)
    busy = float((work.service_us.astype(float) * work.gpus).sum())
    gpus = int(busy / work.submit_us[-1] / LOAD) // 8 * 8
    ends = work.submit_us + work.service_us
    running = int(work.service_us.mean() / work.submit_us[-1] * JOBS)
    ends_alone(ends[:9], running)
    floor_s = least_s(lambda: ends_alone(ends, running), 3)
    rows = []
    for name, scheduler in SCHEDULERS.items():
        cluster = scheduler.cluster(scheduler.complete(FREE_STOPS), GpuPool(gpus))
        run_cluster(first_jobs(work, 100), cluster)  # compile
        ours_s = least_s(partial(run_cluster, work, cluster), 3)
        how = "preemptive" if scheduler.preemptive else "not preemptive"
        rows.append(
            {
                "work": f"{name}, {how}: {JOBS:,} jobs on {gpus} GPUs ({JOBS / ours_s:,.0f}/s)",
                "ours_s": ours_s,
                "reference_s": floor_s,
                "ratio": ours_s / floor_s,
                "bar": BARS[scheduler.preemptive],
            }
        )
    part = first_jobs(work, SLICE)
    for name, plain in (("first-fit", plain_cluster.first_fit), ("srtf", plain_cluster.least_left)):
        scheduler = SCHEDULERS[name]
        cluster = scheduler.cluster(scheduler.complete(FREE_STOPS), GpuPool(gpus))
        if run_cluster(part, cluster).finish_us.tolist() != plain(part, gpus):
            raise AssertionError(f"the two replays under {name} differ")
        ours_s = least_s(partial(run_cluster, part, cluster), 3)
        plain_s = least_s(partial(plain, part, gpus), 1)
        rows.append(
            {
                "work": f"{name}, the first {SLICE:,} of them, against plain heapq code",
                "ours_s": ours_s,
                "reference_s": plain_s,
                "ratio": plain_s / ours_s,
                "bar": "-",
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
