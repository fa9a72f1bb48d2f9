"""What holds the jobs of a site and the model of a twin lacks, by what the log tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.simkit.twin.site import SiteCluster

LEAST_SHARE = 0.01
"""Share of the jobs or of the wait hours below which nothing is said."""
SLACK = 1.01
REASONS = {
    "licenses": r"^Licenses",
    "array task limits (%N)": r"^JobArrayTaskLimit",
    "limits on CPUs, memory or nodes": r"^(?:QOS|Assoc).*(?:Cpu|CPU|Mem|Node|Billing)",
    "limits on used minutes (GrpTRESMins)": r"^(?:QOS|Assoc).*Min(?:ute)?s",
}
"""What the model lacks -> pattern of the reasons of Slurm that name it."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that the site has and the model lacks.

    Attributes:
        name: what it is.
        jobs: jobs that it touches.
        job_share: these, of all jobs.
        wait_share: their waits from submission, of those of all jobs.
    """

    name: str
    jobs: int
    job_share: float
    wait_share: float

    def __str__(self) -> str:
        """Return it for a sentence."""
        jobs = "1 job" if self.jobs == 1 else f"{self.jobs:,} jobs"
        share = "under 1%" if self.job_share < 0.005 else f"{self.job_share:.0%}"
        waits = f" with {self.wait_share:.0%} of the wait hours" if self.wait_share >= 0.005 else ""
        return f"{self.name}, {jobs} ({share}){waits}"


def lacks_of(log: SiteLog, document: SiteDocument, site: SiteCluster) -> tuple[Lack, ...]:
    """Return what the model lacks and touches over 1% of the jobs or waits, the most waits first.

    Preemption counts by states, licenses and limits by Slurm's last Reason, CPUs and memory by jobs
    that take a larger share of them than of the GPUs of a node, and by CPU jobs in GPU partitions.
    """
    jobs = (
        log.jobs.with_columns(wait=(pl.col("start") - pl.col("submit")).fill_null(0))
        .group_by("job_id", maintain_order=True)
        .agg(
            pl.col("wait", "reason", "partition", "gpus", "cpus", "memory_mb").first(),
            (pl.col("state") == "preempted").any().alias("preempted"),
        )
    )
    reason = pl.col("reason").fill_null("")
    touched = {name: reason.str.contains(pattern) for name, pattern in REASONS.items()}
    touched = {"preemption": pl.col("preempted"), **touched}
    for name, column, most in (
        ("CPUs", "cpus", _per_gpu(document, site, 0)),
        ("memory", "memory_mb", _per_gpu(document, site, 1)),
    ):
        if most:
            here = pl.col("partition").replace_strict(most, default=None, return_dtype=pl.Float64)
            touched[f"{name} beyond the share of a job's GPUs"] = pl.col(
                column
            ) > SLACK * here * pl.col("gpus")
    total = float(jobs["wait"].sum())
    lacks = []
    for name, expression in touched.items():
        rows = jobs.filter(expression.fill_null(False))
        waits = float(rows["wait"].sum()) / total if total > 0 else 0.0
        lacks.append(Lack(name, rows.height, rows.height / jobs.height, waits))
    share = log.cpu_jobs / (jobs.height + log.cpu_jobs)
    lacks.append(Lack("CPU jobs in GPU partitions", log.cpu_jobs, share, 0.0))
    lacks = [lack for lack in lacks if max(lack.job_share, lack.wait_share) > LEAST_SHARE]
    return tuple(sorted(lacks, key=lambda lack: (-lack.wait_share, -lack.job_share)))


def lacks_text(lacks: Iterable[Lack]) -> str | None:
    """Return one sentence on what the model lacks; None for nothing."""
    named = "; ".join(map(str, lacks))
    return f"the site has what the model lacks: {named}" if named else None


def _per_gpu(document: SiteDocument, site: SiteCluster, which: int) -> dict[str, float]:
    """Return the CPUs (0) or megabytes (1) per GPU of the richest node of each partition.

    A partition is left out where a node does not tell them.
    """
    gpus = site.gpus_of_node
    most: dict[str, float] = {}
    for partition in site.partitions:
        shares = []
        for host in partition.nodes:
            capacity = document.capacities.get(host)
            amount = None if capacity is None else capacity[which]
            shares.append(None if not amount else amount / gpus[host])
        stated = [share for share in shares if share is not None]
        if stated and len(stated) == len(shares):
            most[partition.name] = max(stated)
    return most
