"""The quotas of GPUs in the settings of a site of Kueue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from gpuplan.analysis.kubernetes.gpus import is_gpu
from gpuplan.analysis.quota.amounts import gpus_of, quantity
from gpuplan.analysis.quota.kueue_site import QuotaDocument


def gpu_quotas(document: QuotaDocument) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the owner, the flavor and the quota of each GPU resource of queues and cohorts.

    The settings may be amid a change: nothing but these quotas is read.
    """
    for table in ("clusterqueue", "cohort"):
        for owner, spec in document.tables.get(table, {}).items():
            for group in spec.get("resourceGroups", ()):
                for flavor in group.get("flavors", ()):
                    for resource in flavor.get("resources", ()):
                        if is_gpu(resource["name"]):
                            yield owner, flavor["name"], resource


def nominal_gpus(quota: Mapping[str, Any]) -> Fraction:
    """Return the GPUs of a nominal quota."""
    return quantity(quota.get("nominalQuota", 0)) * gpus_of(quota["name"])


def quota_gpus(document: QuotaDocument) -> dict[str, Fraction]:
    """Return the GPUs of all nominal quotas by flavor, of each with a quota of GPUs."""
    totals: dict[str, Fraction] = {}
    for _, flavor, quota in gpu_quotas(document):
        totals[flavor] = totals.get(flavor, Fraction(0)) + nominal_gpus(quota)
    return totals
