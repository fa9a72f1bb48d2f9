"""What would start sooner: fewer GPUs, a shorter limit, another partition or QOS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from gpuplan.analysis.base.words import counted
from gpuplan.planner.site.new_job import NewJob, moved, smaller
from gpuplan.simkit.twin.site import SiteCluster

FEWER_GPUS, SHORTER_LIMIT, PARTITION, QOS = "fewer GPUs", "shorter limit", "partition", "QOS"
PARTS = (2, 4)
"""A job may ask for a half and a quarter of its GPUs or of its limit."""
LEAST_LIMIT_S = 1800


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way to ask for a job.

    Attributes:
        kind: what is changed.
        change: the change, in words.
        job: the job then.
    """

    kind: str
    change: str
    job: NewJob


def alternatives(job: NewJob, site: SiteCluster, past: pl.DataFrame) -> list[Alternative]:
    """Return other ways to ask for a job, the mildest of each kind first.

    Args:
        job: as asked for.
        site: the site.
        past: jobs of the log; a QOS counts that its account has used.
    """
    return [each for each in _all(job, site, past) if each.job != job]


def _all(job: NewJob, site: SiteCluster, past: pl.DataFrame) -> Iterator[Alternative]:
    for part in PARTS:
        fewer = smaller(job, site, job.gpus // part) if job.gpus % part == 0 else None
        if fewer is not None:
            yield Alternative(FEWER_GPUS, counted(fewer.gpus, "GPU"), fewer)
    for part in PARTS:
        limit = (job.limit_s or 0) // part
        if limit >= LEAST_LIMIT_S:
            yield Alternative(
                SHORTER_LIMIT, f"limit of {_hours(limit)}", replace(job, limit_s=limit)
            )
    for partition in site.partitions:
        other = moved(job, site, partition.name)
        if other is None:
            continue
        said = f"partition {partition.name}"
        if partition.max_time is not None and partition.max_time < (job.limit_s or 0):
            other = replace(other, limit_s=partition.max_time)
            said += f" with a limit of {_hours(partition.max_time)}"
        yield Alternative(PARTITION, said, other)
    used = set(past.filter(pl.col("account") == job.account)["qos"].drop_nulls())
    for quality in site.qos:
        if quality.name in used:
            yield Alternative(QOS, f"QOS {quality.name}", replace(job, qos=quality.name))


def _hours(seconds: int) -> str:
    return f"{seconds / 3600:.3g} h" if seconds >= 7200 else f"{seconds / 60:.3g} min"
