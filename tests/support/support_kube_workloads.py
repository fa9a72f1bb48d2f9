"""Workloads of Kueue, invented."""

from support_kubernetes import at, container

V2, V1 = "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"


def condition(kind, when, status="True", reason="", message=""):
    return {"type": kind, "status": status, "reason": reason or kind, "message": message,
            "lastTransitionTime": at(when)}  # fmt: skip


def admission(gpus=4, count=1, flavor="h100", queue="cq"):
    return {"clusterQueue": queue, "podSetAssignments": [
        {"name": "main", "count": count, "flavors": {"cpu": flavor, "nvidia.com/gpu": flavor},
         "resourceUsage": {"cpu": "8", "nvidia.com/gpu": str(gpus)}}
    ]}  # fmt: skip


def workload(name="w", *conditions, admitted=None, version=V2, spec=None, status=None, **meta):
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container(4)]}}}
    return {
        "apiVersion": version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}",
                     "creationTimestamp": at(0), **meta},
        "spec": {"queueName": "lq", "priority": 3, "podSets": [pods], **(spec or {})},
        "status": {
            **({} if admitted is None else {"admission": admitted}),
            "conditions": list(conditions),
            **(status or {}),
        },
    }  # fmt: skip


def ran(name="w", start=10, end=100, reason="Succeeded", **more):
    conditions = [condition("QuotaReserved", start - 5), condition("Admitted", start)]
    if end is not None:
        conditions.append(condition("Finished", end, reason=reason))
    return workload(name, *conditions, admitted=more.pop("admitted", admission()), **more)
