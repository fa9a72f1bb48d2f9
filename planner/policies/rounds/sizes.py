"""The clusters on which a policy is compared with the plans of a frontier."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload

LOADS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)


def cluster_sizes(workload: ClassWorkload) -> tuple[float, ...]:
    """Return clusters of 1.1 to 4 times the load, wide enough for every class."""
    load = sum(c.load_gpus for c in workload.classes)
    least = max(ceil(c.widths.min()) for c in workload.classes)
    return tuple(sorted({float(max(least, round(load * multiple))) for multiple in LOADS}))
