"""One cluster: a million jobs under each scheduler, and slices against plain heapq code."""

from benchmarks import plain_cluster
from benchmarks.bench_allpass import first_jobs, least_s, seren_like
from gpuplan.planner.cluster.settings import SCHEDULERS
from gpuplan.simkit.cluster.run import run_cluster

JOBS, SLICE, LOAD = 1_000_000, 20_000, 0.9
BARS = {False: ">= 1,000,000 jobs/s", True: ">= 200,000 jobs/s"}


def run() -> list[dict]:
    work = seren_like(JOBS)
    busy = float((work.service_us.astype(float) * work.gpus).sum())
    gpus = int(busy / work.submit_us[-1] / LOAD) // 8 * 8
    rows = []
    for name, scheduler in SCHEDULERS.items():
        cluster = scheduler.cluster(scheduler.defaults(), gpus)
        run_cluster(first_jobs(work, 100), cluster)  # compile
        ours_s = least_s(lambda cluster=cluster: run_cluster(work, cluster), 3)
        how = "preemptive" if scheduler.preemptive else "not preemptive"
        rows.append(
            {
                "work": f"{name}, {how}: {JOBS:,} jobs on {gpus} GPUs ({JOBS / ours_s:,.0f}/s)",
                "ours_s": ours_s,
                "bar": BARS[scheduler.preemptive],
            }
        )
    part = first_jobs(work, SLICE)
    for name, plain in (("first-fit", plain_cluster.first_fit), ("srtf", plain_cluster.least_left)):
        scheduler = SCHEDULERS[name]
        cluster = scheduler.cluster(scheduler.defaults(), gpus)
        if run_cluster(part, cluster).finish_us.tolist() != plain(part, gpus):
            raise AssertionError(f"the two replays under {name} differ")
        ours_s = least_s(lambda cluster=cluster: run_cluster(part, cluster), 3)
        plain_s = least_s(lambda plain=plain: plain(part, gpus), 1)
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
