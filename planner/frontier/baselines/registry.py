"""The baselines by name, each with the knob that trades GPUs against completion time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from gpuplan.analysis.lookup import find_named
from gpuplan.planner.frontier.baselines import elastic, fixed_width
from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.frontier.replay.replay import PlanReplay

LOADS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)  # cluster sizes
TARGETS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
WIDTHS = (1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A policy to compare plans with.

    Attributes:
        about: what it does, one sentence.
        source: where it comes from.
        knob: what its number is, with the unit; empty where it has none.
        knobs: values of the knob that draw its curve.
        run: replays the jobs at one of them.
    """

    about: str
    source: str
    knob: str
    knobs: Callable[[ClassWorkload], Sequence[float]]
    run: Callable[[ClassWorkload, RentedCluster, float], PlanReplay]


def cluster_sizes(workload: ClassWorkload) -> tuple[float, ...]:
    """Return clusters of 1.1 to 4 times the load, wide enough for every class."""
    load = sum(c.load_gpus for c in workload.classes)
    least = max(ceil(c.widths.min()) for c in workload.classes)
    return tuple(sorted({float(max(least, round(load * multiple))) for multiple in LOADS}))


def widths(workload: ClassWorkload) -> tuple[float, ...]:
    """Return the widths 1, 2, 4 and 8 as far as some class may have so many."""
    widest = max(float(c.widths.max()) for c in workload.classes)
    return tuple(width for width in WIDTHS if width <= widest) or (widest,)


BASELINES: dict[str, Baseline] = {
    "recorded": Baseline(
        "every job on the GPUs it held when it was recorded",
        "the trace",
        "",
        lambda _: (0.0,),
        fixed_width.as_recorded,
    ),
    "fixed": Baseline(
        "every job on the same number of GPUs, or the nearest its class may have",
        "BOA, section 6.1",
        "GPUs per job",
        widths,
        fixed_width.fixed_width,
    ),
    "equal": Baseline(
        "a fixed cluster shared equally, anew every minute",
        "Berg et al., SIGMETRICS 2018 (EQUI)",
        "GPUs of the cluster",
        cluster_sizes,
        elastic.equal_share,
    ),
    "pollux": Baseline(
        "Pollux on a fixed cluster: the best allocation for its fitness every minute",
        "Qiao et al., OSDI 2021",
        "GPUs of the cluster",
        cluster_sizes,
        elastic.pollux,
    ),
    "pollux-autoscaling": Baseline(
        "Pollux on a cluster that grows and shrinks towards a target efficiency",
        "Qiao et al., OSDI 2021; BOA, section 6.1",
        "target efficiency (sum of speedups over GPUs)",
        lambda _: TARGETS,
        elastic.pollux_autoscaled,
    ),
}


def baseline(name: str) -> Baseline:
    """Return a baseline by name; raises `UsageError` on an unknown one, with the nearest."""
    return find_named(name, BASELINES, "--baseline")
