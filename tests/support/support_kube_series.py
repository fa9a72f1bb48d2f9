"""Series of kube-state-metrics of invented pods, as Prometheus answers."""

from support_kubernetes import DAY

HOUR = 3600
END = 48 * HOUR
"""The last sample of the answers."""


def series(metric, values, pod="p", **labels):
    """Return a series; values are (seconds of the day, value)."""
    named = {"__name__": metric, "namespace": "ns", "pod": pod, "uid": f"uid-{pod}", **labels}
    named = {key: value for key, value in named.items() if value is not None}
    return {"metric": named, "values": [[DAY + time, str(value)] for time, value in values]}


def grid(first, last, step=HOUR):
    """Return the times of samples from the first step at or after one, to the last."""
    start = -(-first // step) * step
    return range(start, last + 1, step)


def pod(name="p", *, submit=100, start=200, end=None, phase="Succeeded", last=None, gpus=8,
        owner=None, step=HOUR, **labels):  # fmt: skip
    """Return the series of a pod; ``last`` is its last sample (else an hour after its end)."""
    last = last if last is not None else (END if end is None else end + HOUR)
    times = grid(submit, last, step)
    made = [series("kube_pod_created", [(t, DAY + submit) for t in times], name, **labels)]
    node = {}
    if start is not None:
        made.append(
            series("kube_pod_status_scheduled_time",
                   [(t, DAY + start) for t in times if t >= start], name, **labels)
        )  # fmt: skip
        node = {"node": "n1"}
    made.append(
        series("kube_pod_container_resource_requests", [(t, gpus) for t in times], name,
               container="c", resource="nvidia_com_gpu", **node, **labels)
    )  # fmt: skip
    if end is not None and phase is not None:
        after = [t for t in times if t >= end]
        made.append(series("kube_pod_completion_time", [(t, DAY + end) for t in after], name,
                           **labels))  # fmt: skip
        made.append(series("kube_pod_status_phase", [(t, 1) for t in after], name, phase=phase,
                           **labels))  # fmt: skip
    running = [t for t in times if end is None or t < end]
    if phase is not None:
        made.append(series("kube_pod_status_phase", [(t, 1) for t in running], name,
                           phase="Running" if start else "Pending", **labels))  # fmt: skip
    if owner is not None:
        made.append(series("kube_pod_owner", [(t, 1) for t in times], name, owner_kind=owner[0],
                           owner_name=owner[1], owner_is_controller="true", **labels))  # fmt: skip
    return [item for item in made if item["values"]]


ANCHOR = pod("anchor", submit=0, start=1)
"""A pod that runs until the end, so that the answer has one."""


def answer(*groups, **more):
    result = [item for group in groups for item in group]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}
