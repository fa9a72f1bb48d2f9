"""Run fixed-width jobs on rented nodes: check, call the kernel, return the results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.elastic.kernel import (
    FINISH,
    HELD,
    RESCALES,
    SQUEEZE,
    START,
    ElasticRules,
    Paths,
    replay,
)
from gpuplan.simkit.run import Leases, Usage, leases_of, usage_of_gangs
from gpuplan.simkit.time import FOREVER, TimeOverflow

NO_LIMIT = 1 << 40
"""``max_nodes`` of a cluster without a limit."""


@dataclass(frozen=True, slots=True)
class WidthRun:
    """The results for every job and the cluster; times in microseconds.

    Attributes:
        submit_us: submission of each job; shape (n,).
        start_us: when the job first held GPUs; shape (n,).
        finish_us: when it ended; shape (n,).
        rescales: starts and changes of width; shape (n,).
        held_gpu_us: width x time it held; shape (n,).
        time_us: when the GPUs rented change, ascending; shape (k,).
        gpus: GPUs rented from then on, 0 at the end; shape (k,).
        level_us: time within the horizon in which jobs held or waited for 0, 1, 2, ... GPUs.
        capacity: most GPUs that may be rented; None for no limit.
        lease_us, lease_gpus: time held and GPUs of each lease, in the order of their ends; shape
            (leases,); `gpuplan.simkit.renting.billing.billed_gpu_us` bills them.
    """

    submit_us: IntArray
    start_us: IntArray
    finish_us: IntArray
    rescales: IntArray
    held_gpu_us: IntArray
    time_us: IntArray
    gpus: IntArray
    level_us: IntArray
    capacity: int | None
    lease_us: IntArray
    lease_gpus: IntArray

    @property
    def waited_us(self) -> IntArray:
        """Time without GPUs: a job keeps what it has until its next width is there."""
        waited: IntArray = self.start_us - self.submit_us
        return waited

    @property
    def stops(self) -> IntArray:
        """How often each job changed its width."""
        stops: IntArray = np.maximum(self.rescales - 1, 0)
        return stops

    @property
    def usage(self) -> Usage:
        """GPUs in use and jobs waiting over time; a job counts with its mean width, rounded."""
        took = np.maximum(self.finish_us - self.start_us, 1)
        width = np.rint(self.held_gpu_us / took).astype(np.int64)
        return usage_of_gangs(self.submit_us, self.start_us, self.finish_us, width)

    @property
    def rented(self) -> Leases:
        """The GPUs rented; what was rented last goes back first."""
        return leases_of(self.time_us, self.gpus)


def run_widths(
    submit_us: IntArray, path_of: IntArray, work_us: FloatArray, paths: Paths, rules: ElasticRules
) -> WidthRun:
    """Replay jobs that follow paths of widths; see `Paths` and `ElasticRules`.

    Args:
        submit_us: submissions, ascending, >= 0; shape (n,).
        path_of: the path of each job; shape (n,).
        work_us: run time on one GPU; shape (n,), >= 0.
        paths: the paths.
        rules: the cluster.

    Raises:
        ValueError: arrays that do not fit together; a path that cannot run within ``max_nodes``.
        TimeOverflow: times so long that whole microseconds overflow.
    """
    if not submit_us.shape == path_of.shape == work_us.shape or not submit_us.size:
        raise ValueError(
            f"jobs need arrays of one shape (n,), got {submit_us.shape}, {path_of.shape} and "
            f"{work_us.shape}"
        )
    if submit_us[0] < 0 or (np.diff(submit_us) < 0).any() or not (work_us >= 0).all():
        raise ValueError("submit_us must ascend from 0 or later, work_us must be at least 0")
    count, most, widths = paths.time_per_work.shape
    shapes = (paths.width.shape, paths.target.shape, paths.epochs.shape, paths.rescale_us.shape)
    if shapes != ((count, widths), (count, most), (count,), (count,)):
        raise ValueError(f"paths do not fit together: {shapes}")
    if not 0 <= path_of.min() <= path_of.max() < count:
        raise ValueError(f"path_of must be within 0..{count - 1}")
    in_use = np.arange(most) < paths.epochs[:, None]
    aimed = np.where(in_use, np.take_along_axis(paths.width, paths.target, axis=1), 0)
    least = paths.width[:, 0] if rules.start == SQUEEZE else aimed.max(axis=1)
    room = rules.max_nodes * rules.node_gpus
    if least.max() > room or paths.width.min() < 1:
        raise ValueError(f"widths must be within 1..{room} GPUs, got {least.max()}")
    _check_range(submit_us, work_us, paths, rules)
    jobs, timeline, level_us, leases = replay(submit_us, path_of, work_us, paths, rules)
    return WidthRun(
        submit_us=submit_us,
        start_us=jobs[:, START].copy(),
        finish_us=jobs[:, FINISH].copy(),
        rescales=jobs[:, RESCALES].copy(),
        held_gpu_us=jobs[:, HELD].copy(),
        time_us=timeline[:, 0],
        gpus=timeline[:, 1],
        level_us=level_us,
        capacity=None if rules.max_nodes >= NO_LIMIT else room,
        lease_us=leases[:, 1] - leases[:, 0],
        lease_gpus=leases[:, 2] * rules.node_gpus,
    )


def _check_range(
    submit_us: IntArray, work_us: FloatArray, paths: Paths, rules: ElasticRules
) -> None:
    """Refuse times beyond int64, even with all jobs one after the other on the widest width."""
    slowest = float(paths.time_per_work.max()) * float(work_us.sum())
    pauses = float(work_us.size) * float(paths.time_per_work.shape[1] + 1)
    overhead = float(rules.provision_us) + float(rules.release_us)
    each = overhead + float(paths.rescale_us.max())
    gpus = float(paths.width.max()) + rules.node_gpus
    if (float(submit_us[-1]) + slowest + pauses * each) > FOREVER or gpus * (
        slowest + pauses * each
    ) > 4 * FOREVER:
        raise TimeOverflow("the jobs add up to more than 36,000 years of GPU time")
