"""Jobs of a site that can never start, and which of its rules forbids it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.priority import Associations
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster
from gpuplan.simkit.twin.state import NO_LIMIT

REASONS = (
    "", "PartitionTimeLimit", "PartitionNodeLimit", "QOSMaxGRESPerJob",
    "QOSMaxWallDurationPerJobLimit", "shape", "QOSGrpGRES", "QOSGrpJobsLimit", "QOSMaxGRESPerUser",
    "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit", "AssocGrpGRES", "cancelled", "never",
    "elsewhere",
)  # fmt: skip
"""Why a job never started, by code."""
CANCELLED, UNSTARTED, ELSEWHERE = map(REASONS.index, ("cancelled", "never", "elsewhere"))


def limit_value(value: int | None) -> int:
    """Return a limit as the kernel has it."""
    return NO_LIMIT if value is None else value


def refusals(
    site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig, table: Any, site_table: Any,
    limits: Any, class_gpus: Sequence[IntArray], assocs: Associations,
) -> IntArray:  # fmt: skip
    """Return why each job can never start, by code of `REASONS`; 0 where it can.

    Args:
        table, site_table, limits: of `gpuplan.simkit.twin.tables`; ``table`` has the partition,
            shape, QOS, QOS of the partition and association of each job.
        class_gpus: GPUs of the nodes of each class.
    """
    gpus = jobs.total_gpus
    reasons = np.zeros(gpus.size, np.int64)

    def refuse(reason: str, broken: Any) -> None:
        reasons[(reasons == 0) & broken] = REASONS.index(reason)

    shape_count = [
        int((class_gpus[c] >= g).sum())
        for c, g in zip(site_table.shape_class, site_table.shape_gpus, strict=True)
    ]
    nodes_like = np.array(shape_count, np.int64)[table.shape]
    refuse("shape", nodes_like == 0)
    max_time = np.array([limit_value(p.max_time) for p in site.partitions], np.int64)
    max_nodes = np.array([limit_value(p.max_nodes) for p in site.partitions], np.int64)
    refuse("PartitionTimeLimit", jobs.limit > max_time[table.part])
    refuse("PartitionNodeLimit", jobs.nodes > max_nodes[table.part])

    def of(quality: str, which: IntArray) -> IntArray:
        values = [limit_value(getattr(q, quality)) for q in site.qos] + [NO_LIMIT]
        return np.array(values, np.int64)[which]

    def either(quality: str) -> IntArray:
        least: IntArray = np.minimum(of(quality, table.part_qos), of(quality, table.qos))
        return least

    def first_set(quality: str) -> IntArray:
        """Return the limit of the partition's QOS where it sets one, else that of the job's."""
        first = of(quality, table.part_qos)
        limit: IntArray = np.where(first < NO_LIMIT, first, of(quality, table.qos))
        return limit

    if config.limits:
        refuse("QOSMaxGRESPerJob", gpus > first_set("job_gpus"))
        refuse("QOSMaxWallDurationPerJobLimit", jobs.limit > first_set("max_wall"))
    refuse("shape", nodes_like < jobs.nodes)
    if config.limits:
        refuse("QOSGrpGRES", gpus > either("grp_gpus"))
        refuse("QOSGrpJobsLimit", either("grp_jobs") == 0)
        refuse("QOSMaxGRESPerUser", gpus > first_set("user_gpus"))
        refuse("QOSMaxJobsPerUserLimit", first_set("user_jobs") == 0)
        without = first_set("user_jobs") == NO_LIMIT
        refuse("AssocMaxJobsLimit", without & (limits.assoc_jobs[table.assoc] == 0))
        least = limits.assoc_gpus.copy()
        for k in range(1, least.size):
            least[k] = min(least[k], least[assocs.parent[k]])
        refuse("AssocGrpGRES", gpus > least[table.assoc])
    # A pinned job starts whatever the rules say, where the nodes could hold it.
    unplaced = np.where(nodes_like < jobs.nodes, REASONS.index("shape"), 0)
    return np.where(jobs.pinned >= 0, unplaced, reasons)
