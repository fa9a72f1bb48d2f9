"""A plan for Kueue (v1beta2): flavors by market, and quotas of a ClusterQueue per label.

GPUs that are owned or committed to and those on demand are divided among the labels by what these
hold, and the labels may borrow from each other in one cohort. Spot GPUs and containers have queues
of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

from gpuplan.planner.plan.plan_file import PlanFile
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.planner.plan_exports.class_table import POOL, ClassUses, plain_names
from gpuplan.simkit.apportion import apportion

API = "kueue.x-k8s.io/v1beta2"
COHORT = "gpuplan"
GPU = "nvidia.com/gpu"
PRODUCT, MARKET = "nvidia.com/gpu.product", "gpuplan.io/market"
RUNNING_ON = "gpuplan.io/commitments-that-run-on"
ON_DEMAND, CONTAINERS = "on-demand", "containers"
ROUNDING = 1e-6
Quotas = Mapping[str, int]


def kueue_json(plan: PlanFile, uses: ClassUses) -> str:
    """Return the objects as one list, which ``kubectl apply -f`` takes."""
    items = kueue_objects(plan, uses)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2) + "\n"


def kueue_objects(plan: PlanFile, uses: ClassUses) -> list[dict[str, Any]]:
    """Return flavors, the cohort, and the queues of each label."""
    types = plain_names([each.name for each in plan.types], "gpu")
    labels = plain_names(dict.fromkeys(each.name for each in plan.classes), "none")
    peak = {(each.gpu_type, each.name): each.peak_gpus for each in plan.market}
    flavors: dict[str, dict[str, str]] = {}
    quotas: dict[str, dict[str, int]] = {label: {} for label in labels}
    flavors_of_queue: dict[str, dict[str, int]] = {}
    for each in plan.types:
        held = {
            market: {
                label: sum(
                    float(gpus.mean())
                    for (name, gpu_type, _, used), gpus in uses.held.items()
                    if (gpu_type, used, name) == (each.name, market, label)
                )
                for label in labels
            }
            for market in (POOL, SPOT, SERVERLESS)
        }
        amounts = {
            POOL: each.owned + plan.bought(each.name),
            ON_DEMAND: peak.get((each.name, "on_demand"), 0.0),
            SPOT: peak.get((each.name, SPOT), 0.0),
            CONTAINERS: peak.get((each.name, SERVERLESS), 0.0),
        }
        for market, gpus in amounts.items():
            total = ceil(gpus - ROUNDING)
            if total <= 0:
                continue
            flavor = f"{types[each.name]}-{market}"
            product = {PRODUCT: each.name} if each.name else {}
            flavors[flavor] = {**product, MARKET: market}
            weights = held[{ON_DEMAND: POOL, CONTAINERS: SERVERLESS}.get(market, market)]
            for label, count in _divided(total, weights).items():
                if market in (POOL, ON_DEMAND):
                    quotas[label][flavor] = count
                elif count:
                    flavors_of_queue.setdefault(f"{labels[label]}-{market}", {})[flavor] = count
    objects = [
        _object("ResourceFlavor", name, {"nodeLabels": node_labels})
        for name, node_labels in flavors.items()
    ]
    cohort = _object("Cohort", COHORT, {})
    if running := plan.running_on():
        cohort["metadata"]["annotations"] = {RUNNING_ON: " ".join(running)}
    objects.append(cohort)
    for label, name in labels.items():
        if quotas[label]:
            objects += _queue(name, name, quotas[label], COHORT)
        for market in (SPOT, CONTAINERS):
            queue = f"{name}-{market}"
            if queue in flavors_of_queue:
                objects += _queue(queue, name, flavors_of_queue[queue], None)
    return objects


def _divided(total: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Return a number of GPUs divided by weights, by largest remainder; all alike without any."""
    values = np.array(list(weights.values()), np.float64)
    if not values.size:
        return {}
    share = values / values.sum() if values.sum() > 0 else np.full(values.size, 1 / values.size)
    counts = np.bincount(apportion(share, total), minlength=values.size)
    return {name: int(count) for name, count in zip(weights, counts, strict=True)}


def _queue(name: str, namespace: str, quotas: Quotas, cohort: str | None) -> list[dict[str, Any]]:
    """Return a ClusterQueue and the LocalQueue of its namespace."""
    flavors = [
        {"name": flavor, "resources": [{"name": GPU, "nominalQuota": count}]}
        for flavor, count in quotas.items()
    ]
    spec: dict[str, Any] = {
        **({} if cohort is None else {"cohortName": cohort}),
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
    }
    local = _object("LocalQueue", name, {"clusterQueue": name})
    local["metadata"]["namespace"] = namespace
    return [_object("ClusterQueue", name, spec), local]


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
