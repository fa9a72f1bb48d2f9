"""The replay of a plan on a million jobs, and the law of its demand."""

from functools import partial

import numpy as np

from benchmarks.bars import Row
from benchmarks.bench_boa import median_s
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import Overflow, RentedCluster
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.replay.demand import demand_law
from gpuplan.planner.frontier.replay.plans import replay_plan

JOBS, CLASSES, WIDTHS = 1_000_000, 6, 64
HORIZON_H = 24 * 365.0
RUNS = 5


def workload_of_size(jobs: int, *, epochs: int, rescale_h: float, seed: int = 0) -> ClassWorkload:
    """Poisson arrivals over a year of six classes with exponential sizes and power laws."""
    rng = np.random.default_rng(seed)
    widths = np.arange(1.0, WIDTHS + 1)
    job_class = rng.integers(CLASSES, size=jobs)
    mean_h = rng.uniform(0.5, 8, CLASSES)
    classes = [
        JobClass(
            name=str(i),
            rate_per_h=float((job_class == i).sum() / HORIZON_H),
            work_h=np.full(epochs, mean_h[i] / epochs),
            widths=widths,
            speedup=widths[None, :] ** rng.uniform(0.5, 0.95, (epochs, 1)),
            rescale_h=rescale_h,
        )
        for i in range(CLASSES)
    ]
    arrivals = ClassArrivals(
        submit_s=np.sort(rng.uniform(0, HORIZON_H * 3600, jobs)),
        job_class=job_class,
        work_h=rng.exponential(mean_h[job_class]),
        gpus=np.ones(jobs),
    )
    return ClassWorkload(tuple(classes), HORIZON_H, jobs, "option", (), arrivals=arrivals)


def run() -> list[Row]:
    """Measure, after one warm-up that compiles the kernel."""
    rows = []
    cases: tuple[tuple[int, str, Overflow | None], ...] = (
        (1, "no limit", None),
        (1, "a queue at a hard limit", "queue"),
        (1, "jobs squeezed at a hard limit", "squeeze"),
        (10, "10 epochs, no limit", None),
    )
    for epochs, name, limited in cases:
        workload = workload_of_size(JOBS, epochs=epochs, rescale_h=30 / 3600)
        frontier = solve_frontier(workload.classes)
        plan = frontier.at_budget(1.5 * frontier.load_gpus)
        law = demand_law(workload, plan)
        cluster = RentedCluster(
            node_gpus=4,
            max_gpus=law.quantile(0.95) if limited else None,
            overflow=limited or "queue",
        )
        replay = replay_plan(workload, plan, cluster)
        changes = replay.rescales.mean()
        taken_s = median_s(partial(replay_plan, workload, plan, cluster), RUNS)
        rows.append(
            {
                "work": f"replay of {JOBS:,} jobs, nodes of 4, {name}; {changes:.2f} starts and "
                f"changes a job, {plan.used:,.0f} GPUs on average",
                "ours_s": taken_s,
                "bar": "<= 2 s",
            }
        )
        if epochs == 1 and limited is None:
            law_s = median_s(partial(demand_law, workload, plan), RUNS)
            rows.append(
                {
                    "work": f"law of its demand, {law.pmf.size:,} levels",
                    "ours_s": law_s,
                    "bar": "none",
                }
            )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
