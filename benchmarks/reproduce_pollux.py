"""Pollux' own experiments again: 64 GPUs, sizes not calibrated, 30 s per restart."""

from __future__ import annotations

from benchmarks.equal_gpus import CLUSTER, p95_s, table, where
from benchmarks.t4_workloads import HORIZON_H, shipped_jct_s, submissions, t4_workload
from gpuplan.planner.boa.baselines import elastic
from gpuplan.planner.boa.frontier import solve_frontier
from gpuplan.planner.boa.replay import Cluster, Replay, replay_plan

PAPER_POLLUX_S = 2087.8  # the authors' simulator, unmodified, on 64 GPUs of workload-1
PAPER_POLLUX_GPU_H = 1138
OTHERS = {"Tiresias": (2473.65, 1265), "Optimus": (4087.06, 1273)}  # there, s and GPU-hours
LOADS = {"0.5": "-0.5", "1.0": "", "1.5": "-1.5", "2.0": "-2.0"}


def show_fixed() -> tuple[Replay, Replay]:
    """Pollux' own experiment: workload-1, sizes not calibrated, 30 s per restart, 64 GPUs."""
    workload = t4_workload(
        submissions("pollux"), HORIZON_H["pollux"], calibrated=False, rescale_s=30
    )
    frontier = solve_frontier(workload.classes)
    plan = frontier.at_budget(PAPER_POLLUX_GPU_H / workload.horizon_h)
    at_once = Cluster(provision_s=0, release_s=0)

    def renting_h(gpu_h: float) -> Replay:
        return where(
            frontier,
            lambda budget: replay_plan(workload, frontier.at_budget(budget), CLUSTER),
            lambda run: run.rented_gpu_h >= gpu_h,
        )

    runs = {
        "Pollux, 64 GPUs": elastic.pollux(workload, CLUSTER, 64),
        "equal share, 64 GPUs": elastic.equal_share(workload, CLUSTER, 64),
        "plan, single GPUs at once": replay_plan(workload, plan, at_once),
        "plan, nodes of 4 after 90 s": renting_h(PAPER_POLLUX_GPU_H),
    }
    for name, (_, gpu_h) in OTHERS.items():
        runs[f"plan, as many GPU-hours as {name}"] = renting_h(gpu_h)
    print("\n## workload-1 as Pollux' authors run it: raw sizes, 30 s per restart\n")
    print(f"Their simulator: {PAPER_POLLUX_S} s, P95 5008 s, {PAPER_POLLUX_GPU_H} GPU-hours; ")
    print("; ".join(f"{name} {s} s, {h} GPU-hours" for name, (s, h) in OTHERS.items()) + ".")
    table(
        ("here", "mean, P95 s", "GPU-hours held", "rented", "of 2087.8 s"),
        [
            (
                name,
                f"{r.mean_jct_s:,.1f}, {p95_s(r):,.0f}",
                f"{r.held_gpu_h:,.0f}",
                f"{r.rented_gpu_h:,.0f}",
                f"{r.mean_jct_s / PAPER_POLLUX_S:.2f}",
            )
            for name, r in runs.items()
        ],
    )
    return runs["Pollux, 64 GPUs"], runs["plan, nodes of 4 after 90 s"]


def show_shipped() -> list[float]:
    """Pollux on 64 GPUs, here over shipped, for all samples and loads of its authors."""
    rows, ratios = [], []
    for load, folder in LOADS.items():
        for sample in range(1, 5):
            jobs = submissions("pollux", sample=sample, load=folder)
            workload = t4_workload(jobs, HORIZON_H["pollux"], calibrated=False, rescale_s=30)
            ours_s = elastic.pollux(workload, CLUSTER, 64).mean_jct_s
            theirs_s = shipped_jct_s("pollux", load, sample)
            ratios.append(ours_s / theirs_s)
            rows.append(
                (f"{load}x, {sample}", f"{theirs_s:,.1f}", f"{ours_s:,.1f}", f"{ratios[-1]:.2f}")
            )
    print("\n## Pollux on 64 GPUs: shipped by its authors, and here; mean JCT in s")
    table(("load, sample", "shipped", "here", "ratio"), rows)
    return ratios
