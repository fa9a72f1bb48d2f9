"""Jobs that keep one width for all their life, on GPUs rented as they are needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.paths import WidthPath
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay, jobs_of, replay_paths, run_paths
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.elastic.simulator import WidthRun


def recorded_gpus(workload: ClassWorkload) -> FloatArray:
    """Return the GPUs that each job held when it was recorded; shape (n,)."""
    return jobs_of(workload).gpus


def nearest_gpus(workload: ClassWorkload, gpus: float) -> FloatArray:
    """Return ``gpus`` for each job, or the nearest width that its class has; shape (n,)."""
    nearest = np.array([c.widths[np.abs(c.widths - gpus).argmin()] for c in workload.classes])
    gpus_of_jobs: FloatArray = nearest[jobs_of(workload).job_class]
    return gpus_of_jobs


def replay_gpus(workload: ClassWorkload, cluster: RentedCluster, gpus: FloatArray) -> PlanReplay:
    """Run each job on so many GPUs.

    Raises:
        InfeasibleError: more than ``cluster.max_gpus``.
        UsageError: a class has widths of several GPU types.
    """
    return replay_paths(workload, *_paths(workload, gpus), _rigid(cluster))


def run_gpus(workload: ClassWorkload, cluster: RentedCluster, gpus: FloatArray) -> WidthRun:
    """Run each job on so many GPUs and return what the simulator measured; raises as above."""
    return run_paths(workload, *_paths(workload, gpus), _rigid(cluster))


def _rigid(cluster: RentedCluster) -> RentedCluster:
    """Return a cluster on which jobs wait for their GPUs; only ``squeeze`` starts them on less."""
    return replace(cluster, overflow="whole") if cluster.overflow == "queue" else cluster


def _paths(workload: ClassWorkload, gpus: FloatArray) -> tuple[list[WidthPath], IntArray]:
    pairs = np.stack([jobs_of(workload).job_class.astype(np.float64), gpus], axis=1)
    kinds, path_of = np.unique(pairs, axis=0, return_inverse=True)
    paths = [
        WidthPath(int(number), (float(width),) * workload.classes[int(number)].work_h.size)
        for number, width in kinds
    ]
    return paths, path_of.ravel().astype(np.int64)
