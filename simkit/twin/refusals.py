"""Jobs of a site that can never start, and which of its rules forbids it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.shares import Associations
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster

NO_LIMIT = 1 << 60
REASONS = (
    "", "PartitionTimeLimit", "PartitionNodeLimit", "QOSMaxGRESPerJob",
    "QOSMaxWallDurationPerJobLimit", "shape", "QOSGrpGRES", "QOSGrpJobsLimit", "QOSMaxGRESPerUser",
    "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit", "AssocGrpGRES", "cancelled", "never",
)  # fmt: skip
"""Why a job never started, by code."""
CANCELLED, UNSTARTED = REASONS.index("cancelled"), REASONS.index("never")


def limit_value(value: int | None) -> int:
    """Return a limit as the kernel has it."""
    return NO_LIMIT if value is None else value


def refusals(
    site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig, site_table: Any, limits: Any,
    part: IntArray, shape: IntArray, class_gpus: Sequence[IntArray], qos: IntArray,
    part_qos: IntArray, assoc: IntArray, known: Associations,
) -> IntArray:  # fmt: skip
    """Return why each job can never start, by code of `REASONS`; 0 where it can.

    Args:
        site, jobs, config: the site, its jobs and its settings.
        site_table, limits: of `gpuplan.simkit.twin.tables`.
        part, shape: partition and shape of each job.
        class_gpus: GPUs of the nodes of each class.
        qos, part_qos: of each job and of its partition, -1 for none.
        assoc: association of each job.
        known: the associations.
    """
    n, gpus = jobs.id.size, jobs.total_gpus
    found = np.zeros(n, np.int64)

    def refuse(reason: str, broken: Any) -> None:
        found[(found == 0) & broken] = REASONS.index(reason)

    max_time = np.array([limit_value(p.max_time) for p in site.partitions], np.int64)
    max_nodes = np.array([limit_value(p.max_nodes) for p in site.partitions], np.int64)
    refuse("PartitionTimeLimit", jobs.limit > max_time[part])
    refuse("PartitionNodeLimit", jobs.nodes > max_nodes[part])

    def of(quality: str, which: IntArray) -> IntArray:
        values = [limit_value(getattr(q, quality)) for q in site.qos] + [NO_LIMIT]
        return np.array(values, np.int64)[which]

    def either(quality: str) -> IntArray:
        least: IntArray = np.minimum(of(quality, part_qos), of(quality, qos))
        return least

    if config.limits:
        refuse("QOSMaxGRESPerJob", gpus > either("job_gpus"))
        refuse("QOSMaxWallDurationPerJobLimit", jobs.limit > either("max_wall"))
    enough = np.array(
        [
            (class_gpus[c] >= g).sum() >= k
            for c, k, g in zip(
                site_table.shape_class, site_table.shape_nodes, site_table.shape_gpus, strict=True
            )
        ],
        bool,
    )
    if n:
        refuse("shape", ~enough[shape])
    if config.limits:
        refuse("QOSGrpGRES", gpus > either("grp_gpus"))
        refuse("QOSGrpJobsLimit", either("grp_jobs") == 0)
        refuse("QOSMaxGRESPerUser", gpus > _first_set(of, "user_gpus", part_qos, qos))
        refuse("QOSMaxJobsPerUserLimit", _first_set(of, "user_jobs", part_qos, qos) == 0)
        without = _first_set(of, "user_jobs", part_qos, qos) == NO_LIMIT
        refuse("AssocMaxJobsLimit", without & (limits.assoc_jobs[assoc] == 0))
        least = limits.assoc_gpus.copy()
        for k in range(1, least.size):
            least[k] = min(least[k], least[known.parent[k]])
        refuse("AssocGrpGRES", gpus > least[assoc])
    if n:  # a pinned job starts whatever the rules say, where the nodes could hold it
        unplaced = np.where(enough[shape], 0, REASONS.index("shape"))
        found = np.where(jobs.pinned >= 0, unplaced, found)
    return found


def _first_set(of: Any, quality: str, part_qos: IntArray, qos: IntArray) -> IntArray:
    """Return the limit of the partition's QOS where it sets one, else that of the job's."""
    first = of(quality, part_qos)
    found: IntArray = np.where(first < NO_LIMIT, first, of(quality, qos))
    return found
