"""What a dump of Kueue tells of workloads that wait now, and its quotas of the GPUs there are."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import polars as pl

from gpuplan.analysis.history.reasons import NOT_SAID, group_of
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.quota.gpu_quotas import quota_gpus
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.analysis.waits.pools import StatedCluster
from gpuplan.analysis.waits.results import NO_REASON, WaitingNow

QUOTAS, QUOTAS_OF_DUMP = "quotas of --twin", "quotas in the dump"


def waiting_now(log: KueueLog) -> tuple[WaitingNow, ...]:
    """Return the workloads that wait at the end of a dump by Kueue's reason, most GPUs first."""
    waited = (log.end - pl.col("waits_since")).clip(lower_bound=0)
    rows = (
        log.waiting.with_columns(
            name=pl.col("reason").replace("", None).fill_null(NO_REASON), waited=waited
        )
        .group_by("name")
        .agg(
            jobs=pl.len(),
            gpus=pl.col("gpus").sum(),
            mean=pl.col("waited").mean(),
            longest=pl.col("waited").max(),
        )
        .sort("gpus", "name", descending=[True, False])
    )
    return tuple(
        WaitingNow(
            name,
            group_of(NOT_SAID if name == NO_REASON else name).title,
            jobs,
            gpus,
            float(mean),
            float(longest),
        )
        for name, jobs, gpus, mean, longest in rows.iter_rows()
    )


def cluster_of_quotas(
    document: QuotaDocument, kinds: Iterable[str], source: str = QUOTAS
) -> StatedCluster:
    """Return the GPUs of all nominal quotas of a site by the GPU types of a log.

    Args:
        document: the site.
        kinds: GPU types of the log, or its queues where it names no types.
        source: where the quotas are.
    """
    gpus: dict[str | None, Fraction] = {}
    quotas = quota_gpus(document)
    kinds = list(kinds)
    for kind in kinds:
        of_kind = [
            flavor for flavor in quotas
            if kind == flavor or same_gpu(kind, document.flavor_type(flavor))
        ]  # fmt: skip
        if not of_kind and len(kinds) == 1:
            of_kind = list(quotas)
        if of_kind:
            gpus[kind] = sum((quotas[flavor] for flavor in of_kind), Fraction(0))
    return StatedCluster(source, {kind: round(count) for kind, count in gpus.items()})
