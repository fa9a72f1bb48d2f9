"""Policies that give every job one width for all its life: as recorded, or the same for all."""

from __future__ import annotations

import numpy as np

from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.model.paths import WidthPath
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.frontier.replay.replay import PlanReplay, jobs_of, replay_paths


def as_recorded(workload: ClassWorkload, cluster: RentedCluster, knob: float = 0.0) -> PlanReplay:
    """Run every job on the GPUs it held when it was recorded; ``knob`` is not used.

    Raises:
        InfeasibleError: a job held more than ``cluster.max_gpus``.
        UsageError: a class has widths of several GPU types.
    """
    return _replay(workload, cluster, jobs_of(workload).gpus)


def fixed_width(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
    """Run every job on ``gpus``, or on the nearest width that its class has; raises as above."""
    nearest = np.array([c.widths[np.abs(c.widths - gpus).argmin()] for c in workload.classes])
    return _replay(workload, cluster, nearest[jobs_of(workload).job_class])


def _replay(workload: ClassWorkload, cluster: RentedCluster, gpus: np.ndarray) -> PlanReplay:
    pairs = np.stack([jobs_of(workload).job_class.astype(np.float64), gpus], axis=1)
    kinds, path_of = np.unique(pairs, axis=0, return_inverse=True)
    paths = [
        WidthPath(int(number), (float(width),) * workload.classes[int(number)].work_h.size)
        for number, width in kinds
    ]
    return replay_paths(workload, paths, path_of.ravel().astype(np.int64), cluster)
