"""Plans and Pollux with autoscaling at equal GPUs rented, on nodes of four with delays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.docs_tables import markdown
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay
from gpuplan.planner.frontier.model.exact import Frontier
from gpuplan.planner.frontier.replay.plans import replay_plan

CLUSTER = RentedCluster(node_gpus=4, provision_s=90, release_s=60)


@dataclass(frozen=True)
class Pair:
    """Pollux with autoscaling, and the plan that rents as many GPUs on average."""

    target: float
    theirs: PlanReplay
    ours: PlanReplay
    same_jct_gpus: float  # that the plan rents for Pollux' mean completion time

    @property
    def ratio(self) -> float:
        return self.theirs.mean_jct_s / self.ours.mean_jct_s

    @property
    def p95_ratio(self) -> float:
        return p95_s(self.theirs) / p95_s(self.ours)

    @property
    def saving(self) -> float:
        return self.theirs.rented_gpus / self.same_jct_gpus


def p95_s(run: PlanReplay) -> float:
    return float(np.percentile(run.jct_s, 95))


def where(
    frontier: Frontier, run: Callable[[float], PlanReplay], enough: Callable[[PlanReplay], bool]
) -> PlanReplay:
    """Return the replay at the least budget that is enough, by bisection."""
    low, high = frontier.min_budget, frontier.saturation_budget
    best = run(high)
    for _ in range(16):
        middle = (low + high) / 2
        found = run(middle)
        if enough(found):
            high, best = middle, found
        else:
            low = middle
    return best


def against(workload: ClassWorkload, frontier: Frontier, target: float, theirs: PlanReplay) -> Pair:
    """Find the plans that rent as much as ``theirs``, and that take as long."""

    def run(budget: float) -> PlanReplay:
        return replay_plan(workload, frontier.at_budget(budget), CLUSTER)

    ours = where(frontier, run, lambda r: r.rented_gpus >= theirs.rented_gpus)
    as_quick = where(frontier, run, lambda r: r.mean_jct_s <= theirs.mean_jct_s)
    return Pair(target, theirs, ours, as_quick.rented_gpus)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Print a table as Markdown, and return it."""
    text = markdown(head, rows)
    print(f"\n{text}")
    return text
