"""BOA's evaluation again: "paper | here", and the tables behind it, as Markdown.

``python -m benchmarks.reproduce_boa`` needs ../shared: arrivals and T4 measurements published in
the artifacts of Sia and Pollux. It also draws workload-1 beside what is published of it. Plans and
baselines rent nodes of four GPUs, ready 90 s after the request, and pay the measured time of every
restart. Of the paper's figures, those of its abstract (arXiv 2602.01404) and of its overheads
(section 5.4) are compared; curves are in its pictures only. ``--write-docs`` writes the tables of
docs/boa-paper.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.docs_tables import DOCS, OPTION, write
from benchmarks.equal_gpus import CLUSTER, Pair, against, p95_s, table
from benchmarks.reproduce_pollux import (
    PAPER_POLLUX_GPU_H,
    PAPER_POLLUX_S,
    PLAN,
    POLLUX,
    docs_fixed,
    draw,
    show_chosen,
    show_fixed,
    show_shipped,
)
from benchmarks.t4_workloads import HORIZON_H, SHARED, SMALL_TYPES, submissions, t4_workload
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.replay import PlanReplay
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.policies.rounds.replay import autoscaling, replay_rounds
from gpuplan.planner.registry import BASELINES

TARGETS = (0.85, 0.8, 0.7, 0.6, 0.5, 0.4)
BUDGETS = (1.05, 1.2, 1.5, 2.0, 3.0)
SEEDS = 5
BURSTS = ((1.0, 1.0), (0.5, 1.6), (0.2, 4.0), (0.1, 8.0), (0.05, 16.0))  # share of time, rate
CYCLE_H = 8.0


SLOW_BAND, SLOW_ROUNDS = 0.15, 15  # the autoscaler of Pollux' simulator: mean of 15 minutes
IN_DOCS = (
    ("newTrace (960 jobs, 48 h)", (0.85, 0.7, 0.4)),
    ("filterTrace (918 jobs, 48 h)", (0.8,)),
    ("workload-1 (160 jobs, 8 h)", (0.8,)),
    ("85 jobs of workload-1", (0.8,)),
)


def traces() -> dict[str, ClassWorkload]:
    """The workloads of the paper's section 6; sizes and restarts as in Sia's simulator."""
    return {
        "newTrace (960 jobs, 48 h)": t4_workload(submissions("newtrace"), HORIZON_H["newtrace"]),
        "filterTrace (918 jobs, 48 h)": t4_workload(
            submissions("newtrace", SMALL_TYPES), HORIZON_H["newtrace"]
        ),
        "workload-1 (160 jobs, 8 h)": t4_workload(submissions("pollux"), HORIZON_H["pollux"]),
        "85 jobs of workload-1": t4_workload(
            submissions("pollux", SMALL_TYPES), HORIZON_H["pollux"]
        ),
    }


def curve(workload: ClassWorkload, frontier: Frontier) -> list[Pair]:
    return [
        against(workload, frontier, t, BASELINES["pollux-autoscaling"].run(workload, CLUSTER, t))
        for t in TARGETS
    ]


def bursty(
    workload: ClassWorkload, share: float, rate: float, rng: np.random.Generator
) -> ClassWorkload:
    """The jobs in random order, as a Poisson process of two rates at the mean of the trace.

    A share of each cycle has ``rate`` times the mean rate; the rest has what is left.
    """
    arrivals = workload.arrivals
    assert arrivals is not None
    cycles = int(workload.horizon_h / CYCLE_H)
    hot = rng.random(arrivals.size) < share * rate
    begin = rng.uniform(0, CYCLE_H - share * CYCLE_H, cycles)  # of the burst in its cycle
    cycle = rng.integers(0, cycles, arrivals.size)
    within = rng.random(arrivals.size)
    cold_h = within * (1 - share) * CYCLE_H
    cold_h += (cold_h > begin[cycle]) * share * CYCLE_H
    hour = np.where(hot, begin[cycle] + within * share * CYCLE_H, cold_h) + cycle * CYCLE_H
    order = rng.permutation(arrivals.size)
    shuffled = replace(
        arrivals,
        submit_s=np.sort(hour) * 3600,
        job_class=arrivals.job_class[order],
        work_h=arrivals.work_h[order],
        gpus=arrivals.gpus[order],
    )
    return replace(workload, arrivals=shuffled)


def scv(workload: ClassWorkload) -> float:
    assert workload.arrivals is not None
    gaps = np.diff(workload.arrivals.submit_s)
    return float(gaps.var(ddof=1) / gaps.mean() ** 2)


def seconds(work: Callable[[], object]) -> float:
    """CPU time of the second call; the first may compile."""
    work()
    begun = time.process_time()
    work()
    return time.process_time() - begun


def show_curves() -> dict[str, list[Pair]]:
    pairs = {}
    for name, workload in traces().items():
        frontier = solve_frontier(workload.classes)
        pairs[name] = curve(workload, frontier)
        print(f"\n## {name}\n")
        print(
            f"Load {frontier.load_gpus:.1f} GPUs, C^2 of inter-arrival times {scv(workload):.2f}."
        )
        table(
            "budget / load|plan: mean s|GPUs|replay: mean, P95 s|GPUs held|rented".split("|"),
            [
                (
                    f"{multiple:g}",
                    f"{plan.mean_jct_s:,.0f}",
                    f"{plan.used:.1f}",
                    f"{run.mean_jct_s:,.0f}, {p95_s(run):,.0f}",
                    f"{run.held_gpus:.1f}",
                    f"{run.rented_gpus:.1f}",
                )
                for multiple in BUDGETS
                for plan in [frontier.at_budget(multiple * frontier.load_gpus)]
                for run in [replay_plan(workload, plan, CLUSTER)]
            ],
        )
        table(
            "target|GPUs rented|efficiency|Pollux-a mean, P95 s|plan mean, P95 s|ratio of means"
            "|of P95|GPUs for the same mean|restarts a job, Pollux-a and plan".split("|"),
            [
                (
                    p.target,
                    f"{p.theirs.rented_gpus:.1f}",
                    f"{p.theirs.efficiency:.2f}",
                    f"{p.theirs.mean_jct_s:,.0f}, {p95_s(p.theirs):,.0f}",
                    f"{p.ours.mean_jct_s:,.0f}, {p95_s(p.ours):,.0f}",
                    f"{p.ratio:.2f}",
                    f"{p.p95_ratio:.2f}",
                    f"{p.same_jct_gpus:.1f}",
                    f"{p.theirs.rescales.mean():.1f}, {p.ours.rescales.mean():.1f}",
                )
                for p in pairs[name]
            ],
        )
    return pairs


def docs_pairs(pairs: dict[str, list[Pair]]) -> str:
    """Pollux with autoscaling and the plan at equal GPUs, for the documentation."""
    rows = [
        (
            name,
            f"{p.target:g}",
            f"{p.theirs.rented_gpus:.1f}",
            f"{p.theirs.mean_jct_s:,.0f}, {p95_s(p.theirs):,.0f}",
            f"{p.ours.mean_jct_s:,.0f}, {p95_s(p.ours):,.0f}",
            f"{p.ratio:.2f}, {p.p95_ratio:.2f}",
        )
        for name, targets in IN_DOCS
        for p in pairs[name]
        if p.target in targets
    ]
    print("\n## Pollux with autoscaling and the plan at equal GPUs rented")
    return table("trace|target|GPUs|Pollux, mean and P95 JCT, s|plan|ratio".split("|"), rows)


def show_starts() -> str:
    """What it changes that the first job in line starts on the GPUs left while nodes come."""
    rows = []
    for name, workload in list(traces().items())[::2]:
        frontier = solve_frontier(workload.classes)
        for multiple in BUDGETS:
            plan = frontier.at_budget(multiple * frontier.load_gpus)
            runs = [
                replay_plan(workload, plan, replace(CLUSTER, overflow=overflow))
                for overflow in ("whole", "queue")
            ]
            cells = [
                " -> ".join(f"{of(run):{shown}}" for run in runs)
                for shown, of in (
                    (",.1f", lambda run: run.mean_jct_s),
                    (",.0f", p95_s),
                    (".1f", lambda run: run.jqt_s.mean()),
                    (".2f", lambda run: run.rescales.mean()),
                    (".1f", lambda run: run.rented_gpus),
                )
            ]
            rows.append((name, f"{multiple:g}", *cells))
    print("\n## Jobs wait for their whole width -> the first in line starts on what is left")
    head = "trace|budget / load|mean JCT, s|P95 JCT, s|mean wait, s|starts and resizes a job"
    return table(f"{head}|GPUs rented".split("|"), rows)


def fairness() -> list[float]:
    """The lead on newTrace over a Pollux that maximizes the plain mean of speedups (power 1)."""
    workload = t4_workload(submissions("newtrace"), HORIZON_H["newtrace"])
    frontier = solve_frontier(workload.classes)
    found = []
    for target in TARGETS:
        policy = replace(autoscaling(CLUSTER, target), power=1.0)
        theirs = replay_rounds(workload, CLUSTER, policy)
        found.append(against(workload, frontier, target, theirs).ratio)
    return found


def show_bursts() -> list[list[float]]:
    """Two autoscalers: one that acts at once, and one with the habits of Pollux' simulator."""
    base = t4_workload(submissions("newtrace"), HORIZON_H["newtrace"])
    frontier = solve_frontier(base.classes)
    quick = autoscaling(CLUSTER, 0.7)
    policies = (quick, replace(quick, band=SLOW_BAND, window=SLOW_ROUNDS))
    rows: list[tuple[str, ...]] = []
    leads: list[list[float]] = [[], []]
    for share, rate in BURSTS:
        made = [bursty(base, share, rate, np.random.default_rng(seed)) for seed in range(SEEDS)]
        cells = [f"{share:.0%} of the time {rate:g}x", f"{np.mean([scv(w) for w in made]):.1f}"]
        for lead, policy in zip(leads, policies, strict=True):
            runs = [replay_rounds(w, CLUSTER, policy) for w in made]
            pairs = [against(w, frontier, 0.7, r) for w, r in zip(made, runs, strict=True)]
            theirs_s = np.mean([p.theirs.mean_jct_s for p in pairs])
            ours_s = np.mean([p.ours.mean_jct_s for p in pairs])
            lead.append(float(theirs_s / ours_s))
            cells += [
                f"{np.mean([p.theirs.rented_gpus for p in pairs]):.1f}",
                f"{theirs_s:,.0f}",
                f"{ours_s:,.0f}",
                f"{lead[-1]:.2f}, {np.mean([p.p95_ratio for p in pairs]):.2f}",
            ]
        rows.append(tuple(cells))
    print(f"\n## Burstier arrivals: newTrace's jobs, equal mean rate, target 0.7, {SEEDS} seeds\n")
    print("First an autoscaler that acts every minute (band 0.05), then one that acts on the mean")
    print("of 15 minutes (band 0.15), as in Pollux' own simulator.")
    half = ["GPUs rented", "Pollux-a mean s", "plan mean s", "ratio of means, P95"]
    table(["arrivals", "C^2", *half, *half], rows)
    return leads


def show_errors() -> list[tuple[float, float]]:
    """Both decide by the goodput model that the artifact fits; the jobs run as measured."""
    jobs, hours = submissions("newtrace"), HORIZON_H["newtrace"]
    truth = t4_workload(jobs, hours)
    model = t4_workload(jobs, hours, curve="speedup_model")
    known, guessed = (solve_frontier(w.classes) for w in (truth, model))
    rows, losses = [], []
    for target in (0.8, 0.7, 0.6):
        policy = autoscaling(CLUSTER, target)
        wrong = replay_rounds(truth, CLUSTER, policy, believed=model.classes)
        right = renting(truth, wrong.rented_gpus)
        pair = against(truth, known, target, wrong)
        blind = against(truth, guessed, target, wrong)
        losses.append(
            (wrong.mean_jct_s / right.mean_jct_s, blind.ours.mean_jct_s / pair.ours.mean_jct_s)
        )
        rows.append(
            (
                f"{wrong.rented_gpus:.1f}",
                f"{right.mean_jct_s:,.0f} at {right.rented_gpus:.1f}",
                f"{wrong.mean_jct_s:,.0f}",
                f"{losses[-1][0]:.2f}",
                f"{pair.ours.mean_jct_s:,.0f}",
                f"{blind.ours.mean_jct_s:,.0f}",
                f"{losses[-1][1]:.2f}",
                f"{blind.ratio:.2f}",
            )
        )
    print("\n## Wrong speedups on newTrace: the fitted goodput model believed, mean JCT in s")
    head = "GPUs|Pollux-a, true speedups|model believed|grows by|plan, true speedups"
    head += "|model believed|grows by|ratio, both believe the model"
    table(head.split("|"), rows)
    return losses


def renting(workload: ClassWorkload, gpus: float) -> PlanReplay:
    """Pollux with autoscaling at the target at which it rents so many GPUs, by bisection."""
    low, high = 0.2, 0.99
    for _ in range(9):
        middle = (low + high) / 2
        run = BASELINES["pollux-autoscaling"].run(workload, CLUSTER, middle)
        if run.rented_gpus > gpus:
            low = middle
        else:
            high = middle
    return run


def chosen() -> list[tuple[str, object]]:
    """What the paper leaves open, or is chosen otherwise here."""
    rules = autoscaling(CLUSTER, 0.5)
    return [
        ("budgets over the load", BUDGETS),
        ("targets of Pollux with autoscaling", TARGETS),
        ("its band around the target; minutes averaged", f"{rules.band:g}; {rules.window}"),
        ("the same of the slow autoscaler", f"{SLOW_BAND:g}; {SLOW_ROUNDS}"),
        ("exponent of Pollux' mean of speedups", f"{rules.power:g}"),
        ("bursts: share of the time, rate over the mean", BURSTS),
        ("length of their cycle, h; seeds", f"{CYCLE_H:g}; {SEEDS}"),
        ("wrong speedups", "the artifact's fitted goodput model"),
    ]


def main(*, write_docs: bool = False) -> None:
    if not SHARED.is_dir():
        print("skipped: the published arrivals and measurements (../shared) are not here")
        return
    print("# BOA's evaluation, reproduced")
    tables = {"boa-chosen": show_chosen(chosen()), "boa-starts": show_starts()}
    pairs = show_curves()
    draw()
    runs = show_fixed()
    tables["boa-fixed"] = docs_fixed(runs)
    shipped = show_shipped()
    quick, slow = show_bursts()
    losses = show_errors()
    plain = fairness()

    workload = traces()["newTrace (960 jobs, 48 h)"]
    counts = ", ".join(str(w.jobs) for w in traces().values())
    solve_s = seconds(lambda: solve_frontier(workload.classes))
    rounds = workload.horizon_h * 60
    decide_ms = 1000 * seconds(lambda: BASELINES["pollux"].run(workload, CLUSTER, 140)) / rounds
    scale_ms = (
        1000 * seconds(lambda: BASELINES["pollux-autoscaling"].run(workload, CLUSTER, 0.7)) / rounds
    )
    ratios = {name: [p.ratio for p in found] for name, found in pairs.items()}
    large = [r for name, found in ratios.items() if "85" not in name for r in found]
    small = ratios["85 jobs of workload-1"]
    every = [p for found in pairs.values() for p in found]
    tables["boa-pollux"] = docs_pairs(pairs)
    print("\n## Paper and here")
    tables["boa-paper"] = table(
        ("", "paper", "here"),
        [
            ("jobs of the four traces", "960, 918, 160, 85", counts),
            (
                "Pollux with autoscaling over plan, mean JCT at equal GPUs, small trace",
                "up to 1.6x (on AWS)",
                f"{min(small):.2f}x to {max(small):.2f}x",
            ),
            ("the same, large traces", "up to 2x", f"{min(large):.2f}x to {max(large):.2f}x"),
            (
                "the same, newTrace, if Pollux took the plain mean of speedups (power 1)",
                "-",
                f"{min(plain):.2f}x to {max(plain):.2f}x",
            ),
            (
                "plan ahead at every GPU usage, in mean and in P95",
                "yes",
                f"mean {sum(p.ratio > 1 for p in every)} of {len(every)}, "
                f"P95 {sum(p.p95_ratio > 1 for p in every)} of {len(every)}",
            ),
            (
                "budget saved at equal mean JCT",
                "-",
                f"{min(p.saving for p in every):.2f}x to {max(p.saving for p in every):.2f}x",
            ),
            ("the lead grows with C^2 of arrivals", "yes", " -> ".join(f"{r:.2f}x" for r in quick)),
            (
                "the same, with an autoscaler as slow as Pollux' simulator",
                "-",
                " -> ".join(f"{r:.2f}x" for r in slow),
            ),
            (
                "mean JCT under wrong speedups, Pollux with autoscaling and plan",
                "grows, hardly changes",
                "; ".join(f"{a:.2f}x, {b:.2f}x" for a, b in losses),
            ),
            (
                "Pollux on 64 GPUs, workload-1 as its authors run it",
                f"{PAPER_POLLUX_S} s",
                f"{runs[POLLUX].mean_jct_s:,.1f} s",
            ),
            (
                "Pollux here over shipped, 16 samples at 0.5 to 2 times the load",
                "1",
                f"{min(shipped):.2f} to {max(shipped):.2f}",
            ),
            (
                f"plan that rents about {PAPER_POLLUX_GPU_H} GPU-hours there",
                "-",
                f"{runs[PLAN].mean_jct_s:,.1f} s",
            ),
            ("widths for newTrace, all epochs", "about 500 s, one budget", f"{solve_s:.3f} s, all"),
            ("a decision of Pollux, one minute", "4.39 s", f"{decide_ms:.2f} ms"),
            ("with autoscaling", "23.58 s when it scales", f"{scale_ms:.2f} ms on average"),
        ],
    )
    if write_docs:
        write(DOCS / "boa-paper.md", tables)


if __name__ == "__main__":
    main(write_docs=OPTION in sys.argv[1:])
