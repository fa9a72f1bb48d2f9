"""Small sites of Kueue, as objects that kubectl prints and as YAML, and dumps of workloads."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

GPU = "nvidia.com/gpu"
BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
ANYONE = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def cluster_queue(name, nominal=8, cohort="all", *, flavors=None, limit=None, lend=None, **spec):
    """Return a ClusterQueue; ``flavors`` are nominal quotas by flavor in place of ``nominal``."""

    def quota(amount):
        return {
            "name": GPU, "nominalQuota": str(amount),
            **({} if limit is None else {"borrowingLimit": str(limit)}),
            **({} if lend is None else {"lendingLimit": str(lend)}),
        }  # fmt: skip

    group = {
        "coveredResources": [GPU],
        "flavors": [
            {"name": flavor, "resources": [quota(amount)]}
            for flavor, amount in (flavors or {"default": nominal}).items()
        ],
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {**({"cohortName": cohort} if cohort else {}), "resourceGroups": [group], **spec},
    }


def local_queue(namespace, queue, name="main"):
    """Return a LocalQueue of a namespace."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": queue},
    }


def cohort(name, parent=None, weight=None):
    """Return a Cohort."""
    spec = {"parentName": parent} if parent else {}
    if weight is not None:
        spec["fairSharing"] = {"weight": weight}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort",
            "metadata": {"name": name}, "spec": spec}  # fmt: skip


def fair_sharing():
    """Return the ConfigMap of a controller with fair sharing."""
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfairSharing: {}\n"
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"},
            "data": {"controller_manager_config.yaml": text}}  # fmt: skip


def stamp(second):
    """Return an instant so many seconds after `BEGIN`, as Kubernetes writes it."""
    return (BEGIN + timedelta(seconds=int(second))).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(
    name, namespace, submit, start=None, end=None, *, gpus=1, count=1, priority=0, queue="main",
    cluster_queue=None, flavor="default", evictions=(), reason="Succeeded", **spec,
):  # fmt: skip
    """Return a Workload with the conditions of its times, seconds after `BEGIN`."""
    conditions = []
    if start is not None:
        conditions += [condition("QuotaReserved", start), condition("Admitted", start)]
    if end is not None:
        conditions.append(condition("Finished", end, reason))
    pods = {"name": "main", "count": count, "template": {"spec": {"containers": [
        {"name": "c", "resources": {"requests": {GPU: str(gpus)}}}]}}}  # fmt: skip
    status = {"conditions": conditions}
    if start is not None:
        status["admission"] = {
            "clusterQueue": cluster_queue or f"{namespace}-cq",
            "podSetAssignments": [{"name": "main", "count": count, "flavors": {GPU: flavor},
                                   "resourceUsage": {GPU: str(gpus * count)}}],
        }  # fmt: skip
    if evictions:
        status["schedulingStats"] = {
            "evictions": [{"reason": why, "count": times} for why, times in evictions]
        }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{namespace}-{name}",
                     "creationTimestamp": stamp(submit)},
        "spec": {"queueName": queue, "active": True, "priority": priority, "podSets": [pods],
                 **spec},
        "status": status,
    }  # fmt: skip


def condition(kind, second, reason=None, status="True", message=""):
    """Return a condition of a Workload."""
    return {"type": kind, "status": status, "reason": reason or kind, "message": message,
            "lastTransitionTime": stamp(second)}  # fmt: skip


def write_list(path, objects):
    """Write objects as ``kubectl get -o json`` prints them; returns the path."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return path


def write_yaml(path, objects):
    """Write objects as documents of YAML (JSON is YAML too); returns the path."""
    import yaml

    path.write_text("---\n".join(yaml.safe_dump(one) for one in objects))
    return path


def teams(fair=False):
    """Return the queues of three teams in one cohort; two borrow without limit."""
    strict = {"preemption": ANYONE, "queueingStrategy": "StrictFIFO"}
    return [
        cluster_queue("team-a-cq", 16, preemption=ANYONE),
        cluster_queue("team-b-cq", 16, limit=8, preemption=ANYONE),
        cluster_queue("team-c-cq", 8, **strict),
        *(local_queue(f"team-{name}", f"team-{name}-cq") for name in "abc"),
        *([fair_sharing()] if fair else []),
    ]


def replayed_dump(path, site, *, n=400, seed=0, gap=420.0, level=None, extra=()):
    """Write a dump of workloads that Kueue's rules themselves admitted; returns the path.

    ``level`` names the rules that counted; None for all. ``extra`` are more objects.
    """
    import numpy as np
    from support_quota_state import as_jobs

    from gpuplan.analysis.quota.kueue_site import read_quota_site
    from gpuplan.planner.quota.model import quota_model
    from gpuplan.planner.quota_twin.cases import replay_level
    from gpuplan.planner.quota_twin.levels import FAIR
    from gpuplan.simkit.quota.site import PodSet

    model = quota_model(read_quota_site(write_list(path, site)))
    rng = np.random.default_rng(seed)
    team = rng.choice(list("abc"), n, p=[0.4, 0.4, 0.2])
    submit = np.cumsum(rng.exponential(gap, n)).astype(int)
    sizes = [1, 2, 4, 8]
    gpus = rng.choice(sizes, n, p=[0.4, 0.2, 0.2, 0.2])
    run = rng.lognormal(7.6, 1.2, n).astype(int) + 30
    priority = rng.choice([0, 100], n, p=[0.8, 0.2])
    queue = [model.number[f"team-{name}-cq"] for name in team]
    columns = {"queue": queue, "priority": priority, "submit": submit, "created": submit,
               "run": run, "pods": np.searchsorted(sizes, gpus), "uid": np.arange(n)}  # fmt: skip
    jobs = as_jobs(columns, [(PodSet({GPU: size}),) for size in sizes])
    told = replay_level(model.site, jobs, level or FAIR).run
    last, evictions = {}, np.zeros(n, int)
    rows = zip(told.job, told.start_s, told.end_s, told.reason, strict=True)
    for job, start, end, reason in rows:
        last[int(job)] = int(start), int(end)
        evictions[job] += reason >= 0
    workloads = [
        workload(
            f"job-{i}", f"team-{team[i]}", submit[i], *last[i], gpus=int(gpus[i]),
            priority=int(priority[i]),
            evictions=[("Preempted", int(evictions[i]))] if evictions[i] else (),
        )
        for i in sorted(last)
    ]  # fmt: skip
    return write_list(path, [*workloads, *site, *extra])
