"""What a change of a site costs a month: GPUs more or fewer, and jobs that run elsewhere."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.site.change_effects import ChangeEffect
from gpuplan.planner.twin.settings import site_of
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.twin.site import SiteCluster

NO_TYPE = "gpu"
"""What a site calls GPUs whose type is not known."""


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """What a change costs more than today.

    Attributes:
        gpus_added: by GPU type; fewer are negative.
        burst_gpu_h_per_month: GPU-hours elsewhere.
        usd_per_month: of both.
    """

    gpus_added: dict[str, int]
    burst_gpu_h_per_month: float
    usd_per_month: float


def change_cost(
    effect: ChangeEffect,
    change: SiteChange,
    document: SiteDocument,
    work: SiteWorkload,
    prices: Prices,
) -> ChangeCost:
    """Return what a change costs; raises `UsageError` where a GPU type has no price."""
    site = site_of(document)
    before, after = site.gpus_of_type, changed_site(document, change).gpus_of_type
    added = {
        kind: gpus
        for kind in {**before, **after}
        if (gpus := after.get(kind, 0) - before.get(kind, 0))
    }
    months = months_of(work)
    burst = burst_gpu_h(work, effect.elsewhere_gpu_s, site)
    per_month = {kind: hours / months for kind, hours in burst.items()} if months else {}
    prices.check([None if kind == NO_TYPE else kind for kind in {**added, **per_month}])
    usd = sum((_usd(prices, kind) * gpus * MONTH_H for kind, gpus in added.items()), 0.0)
    usd += sum(_usd(prices, kind) * hours for kind, hours in per_month.items())
    return ChangeCost(added, sum(per_month.values()), usd)


def changed_site(document: SiteDocument, change: SiteChange) -> SiteCluster:
    """Return the site with a change. Raises `UsageError`."""
    changed = deepcopy(document)
    if change.document is not None:
        change.document(changed)
    site = site_of(changed)
    return site if change.site is None else change.site(site)


def burst_gpu_h(
    work: SiteWorkload, elsewhere_gpu_s: FloatArray, site: SiteCluster
) -> dict[str, float]:
    """Return the GPU-hours of jobs that ran elsewhere, by GPU type.

    A job that names no type has the most common one of its partition.
    """
    jobs, size = work.jobs, {node.name: node for node in site.nodes}
    usual = {}
    for partition in site.partitions:
        kinds: Counter[str] = Counter()
        for name in partition.nodes:
            kinds[size[name].gpu_type] += size[name].gpus
        usual[partition.name] = kinds.most_common(1)[0][0] if kinds else NO_TYPE
    hours: dict[str, float] = {}
    for i in np.flatnonzero(elsewhere_gpu_s):
        kind = jobs.gpu_types[jobs.gpu_type[i]] or usual[jobs.partitions[jobs.partition[i]]]
        hours[kind] = hours.get(kind, 0.0) + float(elsewhere_gpu_s[i]) / HOUR_S
    return dict(sorted(hours.items()))


def months_of(work: SiteWorkload) -> float:
    """Return the months of 730.5 hours in which the scored jobs were submitted."""
    submit = work.jobs.submit
    return max(int(submit.max()) - work.warmup_until, 0) / HOUR_S / MONTH_H if submit.size else 0.0


def _usd(prices: Prices, kind: str) -> float:
    """Return the dollars of a GPU-hour of a type. Raises `UsageError` where nothing gives them."""
    return prices.of(None if kind == NO_TYPE else kind).usd_per_gpu_h
