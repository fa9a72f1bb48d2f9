"""Pollux' own experiments again: 64 GPUs, sizes not calibrated, 30 s per restart.

``python -m benchmarks.reproduce_pollux`` draws workload-1 to docs/images/workload-1.svg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.docs_tables import markdown
from benchmarks.equal_gpus import CLUSTER, p95_s, table, where
from benchmarks.t4_workloads import HORIZON_H, MOST, SHARED, shipped_jct_s, submissions, t4_workload
from gpuplan.cli.figures.frontier import draw_scene
from gpuplan.cli.figures.frontier_scene import Scene
from gpuplan.cli.figures.style import save
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.policies.rounds.replay import INTERVAL_S
from gpuplan.planner.registry import BASELINES

PAPER_POLLUX_S = 2087.8  # the authors' simulator, unmodified, on 64 GPUs of workload-1
PAPER_POLLUX_P95_S = 5008
PAPER_POLLUX_GPU_H = 1138
OTHERS = {"Tiresias": (2473.65, 1265), "Optimus": (4087.06, 1273)}  # there, s and GPU-hours
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "workload-1.svg"
RESCALE_S = 30.0  # per restart, as its authors have it
BUDGETS = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5)  # times the load
TARGETS = (0.8, 0.75, 0.7, 0.6, 0.5)  # efficiencies aimed at
POLLUX, EQUAL = "Pollux, 64 GPUs", "equal share, 64 GPUs"
PLAN, PLAN_AT_ONCE = "plan, nodes of 4 after 90 s", "plan, single GPUs at once"
LOADS = {"0.5": "-0.5", "1.0": "", "1.5": "-1.5", "2.0": "-2.0"}


def raw_workload() -> ClassWorkload:
    """The jobs of workload-1 as Pollux' authors run them."""
    jobs = submissions("pollux")
    return t4_workload(jobs, HORIZON_H["pollux"], calibrated=False, rescale_s=RESCALE_S)


def scene() -> Scene:
    """Plans, their replays, our Pollux and the published points on workload-1.

    All stand at GPU-hours per hour of arrivals: held on a cluster of 64 GPUs, as published, rented
    where nodes are.
    """
    workload = raw_workload()
    frontier, hours = solve_frontier(workload.classes), workload.horizon_h
    plans = [frontier.at_budget(multiple * frontier.load_gpus) for multiple in BUDGETS]
    points = [(plan.used, float(plan.mean_jct_s)) for plan in plans]
    runs = [replay_plan(workload, plan, CLUSTER) for plan in plans]
    scaled = [BASELINES["pollux-autoscaling"].run(workload, CLUSTER, target) for target in TARGETS]
    fixed = BASELINES["pollux"].run(workload, CLUSTER, 64)
    equal = BASELINES["equal"].run(workload, CLUSTER, 64)
    knee = frontier.knee()
    published = {"Pollux": (PAPER_POLLUX_S, PAPER_POLLUX_GPU_H), **OTHERS}
    return Scene(
        title="workload-1 on T4 GPUs: plans, policies here, and (stars) as published",
        unit="GPU-hours per hour of arrivals",
        show=lambda gpus: f"{gpus:.0f} GPUs",
        frontier=frontier,
        ends=(),
        name="measured",
        points=points,
        by_request=False,
        knee=(knee.budget, float(knee.mean_jct_s)),
        replayed=[
            (at, (run.rented_gpus, run.mean_jct_s)) for at, run in zip(points, runs, strict=True)
        ],
        curves=[
            ("pollux-autoscaling", [(run.rented_gpus, run.mean_jct_s) for run in scaled]),
            ("pollux", [(fixed.held_gpus, fixed.mean_jct_s)]),
            ("equal", [(equal.held_gpus, equal.mean_jct_s)]),
        ],
        references=[(name, (gpu_h / hours, jct_s)) for name, (jct_s, gpu_h) in published.items()],
    )


def show_chosen(more: Sequence[tuple[str, object]] = ()) -> str:
    """Print what is chosen for the replays, and not measured or stated by a paper."""
    rows: list[tuple[str, object]] = [
        ("GPUs of a node; ready after, returned after, s",
         f"{CLUSTER.node_gpus}; {CLUSTER.provision_s:g}, {CLUSTER.release_s:g}"),
        ("most GPUs a job", MOST),
        ("s between decisions of Pollux", f"{INTERVAL_S:g}"),
        ("s per restart on Pollux' own workloads; elsewhere", f"{RESCALE_S:g}; as measured"),
        ("budgets of the picture over the load", BUDGETS),
        ("targets of the picture", TARGETS),
        *more,
    ]  # fmt: skip
    print("\n## Chosen values")
    return table(("value", "chosen"), rows)


def draw(path: Path = PICTURE) -> None:
    """Draw workload-1."""
    save(draw_scene(scene()), path)


def show_fixed() -> dict[str, PlanReplay]:
    """Pollux' own experiment: workload-1, sizes not calibrated, 30 s per restart, 64 GPUs."""
    workload = raw_workload()
    frontier = solve_frontier(workload.classes)
    plan = frontier.at_budget(PAPER_POLLUX_GPU_H / workload.horizon_h)
    at_once = RentedCluster(provision_s=0, release_s=0)

    def renting_h(gpu_h: float) -> PlanReplay:
        return where(
            frontier,
            lambda budget: replay_plan(workload, frontier.at_budget(budget), CLUSTER),
            lambda run: run.rented_gpu_h >= gpu_h,
        )

    runs = {
        POLLUX: BASELINES["pollux"].run(workload, CLUSTER, 64),
        EQUAL: BASELINES["equal"].run(workload, CLUSTER, 64),
        PLAN_AT_ONCE: replay_plan(workload, plan, at_once),
        PLAN: renting_h(PAPER_POLLUX_GPU_H),
    }
    for name, (_, gpu_h) in OTHERS.items():
        runs[f"plan, as many GPU-hours as {name}"] = renting_h(gpu_h)
    print("\n## workload-1 as Pollux' authors run it: raw sizes, 30 s per restart\n")
    print(
        f"Their simulator: {PAPER_POLLUX_S} s, P95 {PAPER_POLLUX_P95_S} s, "
        f"{PAPER_POLLUX_GPU_H} GPU-hours; "
    )
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
    return runs


def docs_fixed(runs: Mapping[str, PlanReplay]) -> str:
    """Return the table of docs/boa-paper.md of Pollux' own experiment, from `show_fixed`."""
    pollux, equal, plan, at_once = (runs[name] for name in (POLLUX, EQUAL, PLAN, PLAN_AT_ONCE))
    return markdown(
        ("", "mean JCT", "P95 JCT", "GPU-hours"),
        [
            ("Pollux, the authors' simulator", f"{PAPER_POLLUX_S:,.1f} s",
             f"{PAPER_POLLUX_P95_S:,} s", f"{PAPER_POLLUX_GPU_H:,}"),
            _held("Pollux, gpuplan", pollux),
            _held("equal share", equal),
            _rented("the plan, for the authors' GPU-hours", plan),
            _rented("the same, single GPUs without delay", at_once),
        ],
    )  # fmt: skip


def _held(name: str, run: PlanReplay) -> tuple[str, str, str, str]:
    jct_s, p95 = f"{run.mean_jct_s:,.1f} s", f"{p95_s(run):,.0f} s"
    return name, jct_s, p95, f"{run.held_gpu_h:,.0f} held"


def _rented(name: str, run: PlanReplay) -> tuple[str, str, str, str]:
    jct_s, p95 = f"{run.mean_jct_s:,.1f} s", f"{p95_s(run):,.0f} s"
    return name, jct_s, p95, f"{run.rented_gpu_h:,.0f} rented"


def show_shipped() -> list[float]:
    """Pollux on 64 GPUs, here over shipped, for all samples and loads of its authors."""
    rows, ratios = [], []
    for load, folder in LOADS.items():
        for sample in range(1, 5):
            jobs = submissions("pollux", sample=sample, load=folder)
            workload = t4_workload(jobs, HORIZON_H["pollux"], calibrated=False, rescale_s=RESCALE_S)
            ours_s = BASELINES["pollux"].run(workload, CLUSTER, 64).mean_jct_s
            theirs_s = shipped_jct_s("pollux", load, sample)
            ratios.append(ours_s / theirs_s)
            rows.append(
                (f"{load}x, {sample}", f"{theirs_s:,.1f}", f"{ours_s:,.1f}", f"{ratios[-1]:.2f}")
            )
    print("\n## Pollux on 64 GPUs: shipped by its authors, and here; mean JCT in s")
    table(("load, sample", "shipped", "here", "ratio"), rows)
    return ratios


if __name__ == "__main__":
    if SHARED.is_dir():
        show_chosen()
        draw()
        print(f"drawn: {PICTURE.name}")
    else:
        print("skipped: the published arrivals and measurements (../shared) are not here")
