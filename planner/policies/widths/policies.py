"""Every job on one number of GPUs, rented when it comes: those it held, or the same for all.

Source of ``fixed-width``: BOA, section 6.1.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from gpuplan.planner.policies.policy import Baseline
from gpuplan.planner.policies.scaled_jobs import RELEASE, ScaledJobs, scaled_policy
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.simkit.run import Run

WIDTHS = (1.0, 2.0, 4.0, 8.0)


def widths(workload: ClassWorkload) -> tuple[float, ...]:
    """Return the widths 1, 2, 4 and 8 as far as some class may have so many."""
    widest = max(float(c.widths.max()) for c in workload.classes)
    return tuple(width for width in WIDTHS if width <= widest) or (widest,)


def _run_recorded(jobs: ScaledJobs) -> Run:
    from gpuplan.planner.policies.widths.replay import recorded_gpus, run_gpus

    gpus = recorded_gpus(jobs.workload)
    jobs.check_fits(ceil(gpus.max()))
    return run_gpus(jobs.workload, jobs.cluster, gpus)


def _replay_recorded(workload: ClassWorkload, cluster: RentedCluster, _: float) -> PlanReplay:
    from gpuplan.planner.policies.widths.replay import recorded_gpus, replay_gpus

    return replay_gpus(workload, cluster, recorded_gpus(workload))


def _run_width(jobs: ScaledJobs) -> Run:
    from gpuplan.planner.policies.widths.replay import nearest_gpus, run_gpus

    width = jobs.values["width"]
    return run_gpus(jobs.workload, jobs.cluster, nearest_gpus(jobs.workload, width))


def _replay_width(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
    from gpuplan.planner.policies.widths.replay import nearest_gpus, replay_gpus

    return replay_gpus(workload, cluster, nearest_gpus(workload, gpus))


POLICIES = (
    scaled_policy(
        "recorded",
        "every job on the GPUs it held when it was recorded",
        "the trace",
        run=_run_recorded,
        own=RELEASE,
        is_scaled=False,
        baseline=Baseline("", lambda _: (0.0,), _replay_recorded),
    ),
    scaled_policy(
        "fixed-width",
        "every job on the same number of GPUs, or the nearest its class may have",
        "BOA, section 6.1",
        run=_run_width,
        own={"width": Setting("count", "GPUs of every job", at_least=1, default=1), **RELEASE},
        baseline=Baseline("GPUs per job", widths, _replay_width),
    ),
)
