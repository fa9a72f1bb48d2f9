"""The synthetic Kubernetes cluster as other tools would have recorded it.

A part of its jobs each, so that the files are small: a watch stream of Kueue's Workloads, runs of
dstack, applications of YuniKorn, and what OpenCost says that the GPUs cost. Nothing was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from gpuplan.sample_traces.kubernetes_site import (
    DAY_S,
    END_S,
    GPU,
    GPUS_PER_NODE,
    PRODUCTS,
    Json,
    SampleJob,
    nodes,
    pods_of,
    workload_of,
    written,
)

HOUR_S, NS, MS = 3600, 10**9, 1000
WATCHED, RENTING = "team-a", "team-d"
WATCH_S = 2 * DAY_S
EVICTION_S, AGAIN_S = 300, 60
"""How long pods may take to get ready, and how long an evicted workload waits."""
MEMORY_MIB = {"h100": 81559, "a100": 81920}
INSTANCES = {"h100": "p5.48xlarge", "a100": "p4de.24xlarge"}
USD_PER_GPU_HOUR = {"h100": 2.4, "a100": 1.5}
USD_PER_CPU_HOUR = 0.03
CPUS_PER_GPU = 16


def view_files(jobs: Sequence[SampleJob]) -> dict[str, str]:
    """Return the files by name."""
    return {
        "kueue/watch.json": watch_json(jobs),
        "dstack.json": dstack_json(jobs),
        "yunikorn.json": yunikorn_json(jobs),
        "opencost.json": opencost_json(jobs),
    }


def _line(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


def watch_json(jobs: Sequence[SampleJob]) -> str:
    """Return what ``kubectl get --watch`` prints of the workloads of a team in the last two days.

    The pods of every sixth job were not ready in time: it was evicted, and admitted again. A
    finished workload is deleted an hour later.
    """
    watched = [
        job for job in jobs
        if job.team.name == WATCHED and END_S - WATCH_S <= job.submit_s <= END_S
    ]  # fmt: skip
    events = sorted(
        (event for job in watched for event in _watch_events(job)), key=lambda event: event[0]
    )
    mark = {"kind": "Workload", "apiVersion": "kueue.x-k8s.io/v1beta2",
            "metadata": {"resourceVersion": "9000"}}  # fmt: skip
    lines = [_line({"type": kind, "object": item}) for _, kind, item in events]
    return "\n".join([*lines, _line({"type": "BOOKMARK", "object": mark})]) + "\n"


def _watch_events(job: SampleJob) -> Iterator[tuple[int, str, Json]]:
    """Yield the time, the type and the object of each event of a job."""
    whole = workload_of(job)
    status = whole["status"]
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending",
             "lastTransitionTime": written(job.submit_s)}  # fmt: skip
    states: list[tuple[int, str, Json]] = [(job.submit_s, "ADDED", {"conditions": [waits]})]
    if job.start_s is not None and job.start_s <= END_S:
        held = {"admission": status["admission"]}
        start = job.start_s
        if _is_evicted(job):
            stop, again = start + EVICTION_S, start + EVICTION_S + AGAIN_S
            states.append((start, "MODIFIED", {**held, "conditions": _admitted(start)}))
            evicted = [*_admitted(stop, "False"), _evicted(stop, "True")]
            states.append((stop, "MODIFIED", {"conditions": evicted}))
            start = again
        conditions = _admitted(start)
        if _is_evicted(job):
            conditions.append(_evicted(start, "False"))
        states.append((start, "MODIFIED", {**held, "conditions": conditions}))
        if job.end_s is not None:
            ended = {**held, "conditions": [*conditions, status["conditions"][-1]]}
            states.append((job.end_s, "MODIFIED", ended))
            if job.end_s + HOUR_S <= END_S:
                states.append((job.end_s + HOUR_S, "DELETED", ended))
    for i, (at, kind, state) in enumerate(states):
        metadata = {**whole["metadata"], "resourceVersion": str(10 * job.number + i)}
        yield at, kind, {**whole, "metadata": metadata, "status": state}


def _is_evicted(job: SampleJob) -> bool:
    return job.number % 6 == 0 and job.run_s > 2 * HOUR_S


def _admitted(at: int, status: str = "True") -> list[Json]:
    reason = "Admitted" if status == "True" else "NoReservation"
    return [
        {"type": kind, "status": status, "reason": reason, "lastTransitionTime": written(at)}
        for kind in ("QuotaReserved", "Admitted")
    ]


def _evicted(at: int, status: str) -> Json:
    reason = "PodsReadyTimeout" if status == "True" else "QuotaReserved"
    return {"type": "Evicted", "status": status, "reason": reason,
            "lastTransitionTime": written(at)}  # fmt: skip


def dstack_json(jobs: Sequence[SampleJob]) -> str:
    """Return the jobs of one team as runs of dstack, in a cloud where A100s are rented.

    Every fifth run lost its spot instance after a third of its time, and went on with another one.
    """
    rented = [job for job in jobs if job.team.name == RENTING and job.submit_s <= END_S]
    lines = ",\n".join(_line(_run(job)) for job in rented)
    return f'{{"project":"{RENTING}","runs":[\n{lines}\n]}}\n'


def _run(job: SampleJob) -> Json:
    usd_per_hour = USD_PER_GPU_HOUR[job.team.flavor] * job.gpus
    is_started = job.start_s is not None and job.start_s <= END_S
    intervals = list(_submissions(job)) if is_started else []
    held_s = sum((END_S if end is None else end) - start for start, end, _ in intervals)
    gpu = {"name": "A100", "memory_mib": MEMORY_MIB[job.team.flavor]}
    instance = {"name": f"a100x{job.gpus}", "resources": {"gpus": [gpu] * job.gpus, "spot": True}}
    submissions = [
        {
            "submission_num": number,
            "submitted_at": written(start),
            "finished_at": None if end is None else written(end),
            "status": "running" if end is None else "failed" if why else "done",
            "termination_reason": why,
            "job_provisioning_data": {"backend": "aws", "region": "us-east-1",
                                      "price": usd_per_hour, "instance_type": instance},
        }
        for number, (start, end, why) in enumerate(intervals)
    ]  # fmt: skip
    ended = "failed" if job.failed else "done"
    return {
        "id": job.uid,
        "project_name": job.team.name,
        "user": job.user,
        "submitted_at": written(job.submit_s),
        "status": ended if job.end_s is not None else "running" if is_started else "submitted",
        "cost": round(usd_per_hour * held_s / HOUR_S, 4),
        "run_spec": {"run_name": job.name, "configuration": {"type": "task", "nodes": 1}},
        "jobs": [{"job_submissions": submissions}],
    }


def _submissions(job: SampleJob) -> Iterator[tuple[int, int | None, str | None]]:
    """Yield start, end and reason of each submission of a run."""
    assert job.start_s is not None
    start, lost = job.start_s, job.start_s + job.run_s // 3
    if job.number % 5 == 0 and job.run_s > HOUR_S and lost + 2 * AGAIN_S < END_S:
        yield start, lost, "interrupted_by_no_capacity"
        start = lost + AGAIN_S
    failed = "container_exited_with_error" if job.failed else None
    yield start, job.end_s, failed if job.end_s is not None else None


def yunikorn_json(jobs: Sequence[SampleJob]) -> str:
    """Return the jobs of a cohort that ended in the last three days, as YuniKorn keeps them."""
    kept = [
        job for job in jobs
        if job.team.cohort == "research" and job.end_s is not None
        and job.end_s > END_S - 3 * DAY_S
    ]  # fmt: skip
    lines = ",\n".join(_line(_application(job)) for job in kept)
    return f"[\n{lines}\n]\n"


def _application(job: SampleJob) -> Json:
    assert job.start_s is not None and job.end_s is not None
    word = "Failed" if job.failed else "Completed"
    log = ((job.submit_s, "New"), (job.submit_s, "Accepted"), (job.start_s, "Running"),
           (job.end_s, word))  # fmt: skip
    gpu_s = job.gpus * job.run_s
    return {
        "applicationID": f"{job.team.name}-{job.name}",
        "queueName": f"root.{job.team.cohort}.{job.team.name}",
        "user": job.user,
        "submissionTime": job.submit_s * NS,
        "finishedTime": job.end_s * NS,
        "startTime": job.start_s * MS,
        "applicationState": word,
        "stateLog": [{"time": at * NS, "applicationState": state} for at, state in log],
        "resourceUsage": {
            INSTANCES[job.team.flavor]: {GPU: gpu_s, "vcore": gpu_s * CPUS_PER_GPU * MS}
        },
    }


def opencost_json(jobs: Sequence[SampleJob]) -> str:
    """Return the allocations of the last two days by pod, and what was idle."""
    steps = [dict(_allocations(jobs, END_S - days * DAY_S)) for days in (2, 1)]
    lines = ",\n".join(
        "{" + ",\n".join(f'"{name}":{_line(item)}' for name, item in step.items()) + "}"
        for step in steps
    )
    return f'{{"code":200,"data":[\n{lines}\n]}}\n'


def _allocations(jobs: Iterable[SampleJob], day: int) -> Iterator[tuple[str, Json]]:
    """Yield the allocations of a day under their names."""
    window = {"start": written(day), "end": written(day + DAY_S)}
    held_s = dict.fromkeys(PRODUCTS, 0)
    for job in jobs:
        if job.start_s is None:
            continue
        start = max(job.start_s, day)
        end = min(job.start_s + job.run_s, day + DAY_S)
        if start >= end:
            continue
        held_s[job.team.flavor] += job.gpus * (end - start)
        hours = (end - start) / HOUR_S
        gpu_usd = job.gpus_per_pod * hours * USD_PER_GPU_HOUR[job.team.flavor]
        cpu_usd = job.gpus_per_pod * CPUS_PER_GPU * hours * USD_PER_CPU_HOUR
        for pod, _, node in pods_of(job):
            yield pod, {
                "name": pod,
                "properties": {"cluster": "site", "node": node, "namespace": job.team.name,
                               "pod": pod},
                "window": window,
                "start": written(start),
                "end": written(end),
                "minutes": (end - start) / 60,
                "gpuCount": job.gpus_per_pod,
                "gpuHours": round(job.gpus_per_pod * hours, 6),
                "gpuCost": round(gpu_usd, 6),
                "totalCost": round(gpu_usd + cpu_usd, 6),
            }  # fmt: skip
    owned = {flavor: GPUS_PER_NODE * sum(of == flavor for _, of in nodes()) for flavor in PRODUCTS}
    idle_usd = sum(
        (owned[flavor] * DAY_S - held_s[flavor]) / HOUR_S * USD_PER_GPU_HOUR[flavor]
        for flavor in PRODUCTS
    )
    yield "__idle__", {"name": "__idle__", "properties": {"cluster": "site"}, "window": window,
                       "start": window["start"], "end": window["end"], "minutes": 1440,
                       "gpuHours": None, "gpuCost": round(idle_usd, 6),
                       "totalCost": round(idle_usd, 6)}  # fmt: skip
