"""Policies that give every job one width for all its life: as recorded, or the same for all."""

from __future__ import annotations

import numpy as np

from gpuplan.planner.boa.paths import WidthPath
from gpuplan.planner.boa.renting import Cluster
from gpuplan.planner.boa.replay import Replay, jobs_of, replay_paths
from gpuplan.planner.boa.workload import Workload


def as_recorded(workload: Workload, cluster: Cluster, knob: float = 0.0) -> Replay:
    """Run every job on the GPUs it held when it was recorded; ``knob`` is not used.

    Raises:
        InfeasibleError: a job held more than ``cluster.max_gpus``.
        UsageError: a class has widths of several GPU types.
    """
    return _replay(workload, cluster, jobs_of(workload).gpus)


def fixed_width(workload: Workload, cluster: Cluster, gpus: float) -> Replay:
    """Run every job on ``gpus``, or on the nearest width that its class has; raises as above."""
    nearest = np.array([c.widths[np.abs(c.widths - gpus).argmin()] for c in workload.classes])
    return _replay(workload, cluster, nearest[jobs_of(workload).job_class])


def _replay(workload: Workload, cluster: Cluster, gpus: np.ndarray) -> Replay:
    pairs = np.stack([jobs_of(workload).job_class.astype(np.float64), gpus], axis=1)
    kinds, path_of = np.unique(pairs, axis=0, return_inverse=True)
    paths = [
        WidthPath(int(number), (float(width),) * workload.classes[int(number)].work_h.size)
        for number, width in kinds
    ]
    return replay_paths(workload, paths, path_of.ravel().astype(np.int64), cluster)
