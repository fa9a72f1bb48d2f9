"""A synthetic Kubernetes cluster of four teams that share GPUs by Kueue, in three formats.

Jobs are drawn, then admitted as Kueue does where no queue may preempt: in each cycle the first job
of every queue by priority and age, those that borrow least first. So waits exist, quotas bind, and
teams borrow what others do not use. Nothing here was recorded.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

Json = dict[str, Any]

DAYS = 7
DAY_S = 86_400
BEGIN_S = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
END_S = BEGIN_S + DAYS * DAY_S
GPU, CPU = "nvidia.com/gpu", "cpu"
CPUS_PER_GPU, GPUS_PER_NODE = 16, 8
API = "kueue.x-k8s.io/v1beta2"
COHORTS = {"company": None, "research": "company", "product": "company"}
PRODUCTS = {"h100": "NVIDIA-H100-80GB-HBM3", "a100": "NVIDIA-A100-SXM4-80GB"}
HOUR_WEIGHTS = (2, 1, 1, 1, 1, 1, 2, 4, 7, 10, 11, 11, 9, 10, 11, 11, 10, 9, 7, 5, 4, 4, 3, 3)
STEP_S = 3600
KUBE_S = DAY_S
"""How long pods are kept after their end."""


@dataclass(frozen=True, slots=True)
class Team:
    """A team with its cluster queue.

    Attributes:
        name: of the team, of its namespace and of its queue.
        cohort: its cohort.
        flavor: the GPUs that its queue has.
        quota: GPUs of its own.
        borrowing: GPUs that it may borrow at most; None for any number.
        jobs: how many it submits.
        median_h, spread: run times, lognormal.
        widths: GPUs per job -> weight.
    """

    name: str
    cohort: str
    flavor: str
    quota: int
    borrowing: int | None
    jobs: int
    median_h: float
    spread: float
    widths: dict[int, int]


TEAMS = (
    Team("team-a", "research", "h100", 8, 8, 70, 3.4, 1.0, {1: 4, 2: 3, 4: 3, 8: 2}),
    Team("team-b", "research", "h100", 16, None, 50, 4.5, 1.0, {2: 2, 4: 3, 8: 4, 16: 1}),
    Team("team-c", "product", "h100", 24, 16, 45, 4.0, 1.0, {4: 2, 8: 5, 16: 2}),
    Team("team-d", "product", "a100", 16, 0, 60, 5.0, 1.1, {1: 5, 2: 3, 4: 3, 8: 1}),
)


@dataclass(slots=True)
class SampleJob:
    """A job of the site; times in seconds after 1970, None where they have not come yet."""

    number: int
    team: Team
    name: str
    uid: str
    user: str
    priority: int
    pods: int
    gpus_per_pod: int
    submit_s: int
    run_s: int
    failed: bool
    start_s: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs of all its pods."""
        return self.pods * self.gpus_per_pod

    @property
    def end_s(self) -> int | None:
        """When it ended, before the site was looked at."""
        end = None if self.start_s is None else self.start_s + self.run_s
        return end if end is not None and end <= END_S else None


def draw_jobs(rng: np.random.Generator) -> list[SampleJob]:
    """Return the jobs of all teams, in order of submission."""
    weights = np.tile(HOUR_WEIGHTS, DAYS).astype(float)
    weights *= np.repeat([1.0, 1.1, 1.1, 1.0, 0.9, 0.35, 0.3], 24)[: weights.size]
    edges = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
    jobs: list[SampleJob] = []
    for team in TEAMS:
        users = [f"u{_code(rng, 3)}" for _ in range(4)]
        widths = list(team.widths)
        levels = np.cumsum(list(team.widths.values())) / sum(team.widths.values())
        for _ in range(team.jobs):
            at = float(np.interp(rng.random(), edges, np.arange(edges.size))) * 3600
            normal = sum(rng.random(12)) - 6.0
            gpus = widths[int(np.searchsorted(levels, rng.random(), "right"))]
            pods = max(1, gpus // GPUS_PER_NODE)
            run_s = max(90, round(team.median_h * 3600 * float(np.exp(team.spread * normal))))
            jobs.append(
                SampleJob(
                    0, team, "", _uid(rng),
                    users[int(rng.random() * len(users))],
                    100 if rng.random() < 0.15 else 0,
                    pods, gpus // pods, BEGIN_S + int(at), run_s, bool(rng.random() < 0.08),
                )
            )  # fmt: skip
    jobs.sort(key=lambda job: (job.submit_s, job.uid))
    for number, job in enumerate(jobs, 1):
        job.number = number
        job.name = f"{'ddp' if job.pods > 1 else 'train'}-{number:03}"
    return jobs


def admit(jobs: Sequence[SampleJob]) -> None:
    """Set when each job starts, by the rules of Kueue without preemption, at whole seconds."""
    used: dict[str, int] = defaultdict(int)
    waiting: dict[str, list[SampleJob]] = {team.name: [] for team in TEAMS}
    ends: list[tuple[int, int]] = []
    by_number = {job.number: job for job in jobs}
    arrivals = [*jobs]
    parked: set[int] = set()
    while arrivals or ends:
        now = min([*(job.submit_s for job in arrivals[:1]), *(end for end, _ in ends[:1])])
        while ends and ends[0][0] == now:
            done = by_number[heapq.heappop(ends)[1]]
            used[done.team.name] -= done.gpus
            parked.clear()
        while arrivals and arrivals[0].submit_s == now:
            job = arrivals.pop(0)
            waiting[job.team.name].append(job)
        while heads := _heads(waiting, parked):
            for job in _cycle(heads, used, parked):
                waiting[job.team.name].remove(job)
                job.start_s = now
                heapq.heappush(ends, (now + job.run_s, job.number))


def _heads(waiting: dict[str, list[SampleJob]], parked: set[int]) -> list[SampleJob]:
    """Return the first job of each queue, by priority and age, that is not parked."""
    active = ([job for job in jobs if job.number not in parked] for jobs in waiting.values())
    return [min(jobs, key=_age) for jobs in active if jobs]


def _age(job: SampleJob) -> tuple[int, int, str]:
    return -job.priority, job.submit_s, job.uid


def _cycle(
    heads: Sequence[SampleJob], used: dict[str, int], parked: set[int]
) -> Iterator[SampleJob]:
    """Yield the heads that are admitted: those that borrow least come first.

    One that did not fit when the cycle began is parked until a job ends. If it needs only what its
    cohort has, it keeps that for itself until the cycle ends.
    """
    held = dict(used)
    kept: dict[str, int] = defaultdict(int)
    plans = [(_height(job, held), _age(job), _fits(job, held), job) for job in heads]
    for height, _, fitted, job in sorted(plans, key=lambda plan: plan[:2]):
        name, limit = job.team.name, _limit(job.team)
        taken = {team.name: used[team.name] + kept[team.name] for team in TEAMS}
        if fitted and _fits(job, taken):
            used[name] += job.gpus
            yield job
        elif not fitted:
            parked.add(job.number)
            most = limit if height else job.team.quota
            if height < 2:
                kept[name] = max(0, min(job.gpus, most - used[name]))


def _fits(job: SampleJob, held: dict[str, int]) -> bool:
    """Return whether a job is within the limit of its queue and the GPUs of its flavor."""
    same = [team for team in TEAMS if team.flavor == job.team.flavor]
    free = sum(team.quota - held.get(team.name, 0) for team in same)
    return job.gpus <= free and held.get(job.team.name, 0) + job.gpus <= _limit(job.team)


def _limit(team: Team) -> int:
    """Return the most GPUs that a queue may hold."""
    everything = sum(other.quota for other in TEAMS if other.flavor == team.flavor)
    return everything if team.borrowing is None else team.quota + team.borrowing


def _height(job: SampleJob, held: dict[str, int]) -> int:
    """Return 0 for a job within the quota of its queue, 1 within its cohort's, else 2."""
    team = job.team
    if held.get(team.name, 0) + job.gpus <= team.quota:
        return 0
    kin = [other for other in TEAMS if (other.cohort, other.flavor) == (team.cohort, team.flavor)]
    free = sum(other.quota - held.get(other.name, 0) for other in kin)
    return 1 if job.gpus <= free else 2


def _by_flavor(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for flavor, gpus in pairs:
        total[flavor] += gpus
    return total


def _code(rng: np.random.Generator, letters: int) -> str:
    return "".join("0123456789abcdef"[int(16 * draw)] for draw in rng.random(letters))


def _uid(rng: np.random.Generator) -> str:
    first, second, third, fourth, last = (_code(rng, letters) for letters in (8, 4, 3, 3, 12))
    return f"{first}-{second}-4{third}-8{fourth}-{last}"


def written(seconds: int) -> str:
    """Return an instant as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _listed(items: Iterable[Json]) -> str:
    """Return a List, with an object a line."""
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"apiVersion":"v1","kind":"List","items":[\n{lines}\n]}}\n'


def workloads_json(jobs: Sequence[SampleJob]) -> str:
    """Return the dump of Kueue: workloads, and the configuration of the queues."""
    kept = [job for job in jobs if job.submit_s <= END_S]
    return _listed([*configuration(), *map(workload_of, kept)])


def configuration() -> Iterator[Json]:
    """Yield flavors, cohorts, cluster queues and local queues."""
    for flavor, product in PRODUCTS.items():
        labels = {"nvidia.com/gpu.product": product}
        yield {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": flavor},
               "spec": {"nodeLabels": labels}}  # fmt: skip
    for cohort, parent in COHORTS.items():
        spec = {} if parent is None else {"parentName": parent}
        yield {"apiVersion": API, "kind": "Cohort", "metadata": {"name": cohort}, "spec": spec}
    for team in TEAMS:
        gpus: Json = {"name": GPU, "nominalQuota": str(team.quota)}
        if team.borrowing is not None:
            gpus["borrowingLimit"] = str(team.borrowing)
        cpus = {"name": CPU, "nominalQuota": "4096"}
        flavors = [{"name": team.flavor, "resources": [cpus, gpus]}]
        yield {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": team.name},
            "spec": {
                "cohortName": team.cohort,
                "queueingStrategy": "BestEffortFIFO",
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
                "resourceGroups": [{"coveredResources": [CPU, GPU], "flavors": flavors}],
            },
        }
    for team in TEAMS:
        metadata = {"name": "default", "namespace": team.name}
        yield {"apiVersion": API, "kind": "LocalQueue", "metadata": metadata,
               "spec": {"clusterQueue": team.name}}  # fmt: skip


def _requests(job: SampleJob, pods: int = 1) -> dict[str, str]:
    gpus = job.gpus_per_pod * pods
    return {CPU: str(gpus * CPUS_PER_GPU), GPU: str(gpus)}


def workload_of(job: SampleJob) -> Json:
    """Return the Workload of a job as it is when the site is looked at."""
    kind = "PyTorchJob" if job.pods > 1 else "Job"
    container = {"name": "main", "resources": {"requests": _requests(job)}}
    flavors = {CPU: job.team.flavor, GPU: job.team.flavor}
    is_admitted = job.start_s is not None and job.start_s <= END_S
    status: Json = {}
    if is_admitted:
        status["admission"] = {
            "clusterQueue": job.team.name,
            "podSetAssignments": [
                {"name": "main", "count": job.pods, "flavors": flavors,
                 "resourceUsage": _requests(job, job.pods)}
            ],
        }  # fmt: skip
    return {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {
            "name": f"{kind.lower()}-{job.name}",
            "namespace": job.team.name,
            "uid": job.uid,
            "resourceVersion": str(1000 + job.number),
            "creationTimestamp": written(job.submit_s),
            "labels": {"user": job.user},
            "ownerReferences": [{"kind": kind, "name": job.name, "controller": True}],
        },
        "spec": {
            "queueName": "default",
            "active": True,
            "priority": job.priority,
            "podSets": [
                {"name": "main", "count": job.pods,
                 "template": {"spec": {"containers": [container]}}}
            ],
        },
        "status": {**status, "conditions": list(_conditions(job))},
    }  # fmt: skip


def _conditions(job: SampleJob) -> Iterator[Json]:
    if job.start_s is None or job.start_s > END_S:
        yield {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota",
               "lastTransitionTime": written(job.submit_s)}  # fmt: skip
        return
    for kind in ("QuotaReserved", "Admitted"):
        yield {"type": kind, "status": "True", "reason": kind,
               "lastTransitionTime": written(job.start_s)}  # fmt: skip
    if job.end_s is not None:
        yield {"type": "Finished", "status": "True",
               "reason": "Failed" if job.failed else "Succeeded",
               "lastTransitionTime": written(job.end_s)}  # fmt: skip


def _recent(jobs: Sequence[SampleJob]) -> list[SampleJob]:
    """Return the jobs whose pods are still there when the site is looked at."""
    return [
        job for job in jobs
        if job.submit_s <= END_S and (job.end_s is None or job.end_s > END_S - KUBE_S)
    ]  # fmt: skip


def nodes() -> Iterator[tuple[str, str]]:
    """Yield nodes with the flavor of their GPUs."""
    for flavor, gpus in _by_flavor((team.flavor, team.quota) for team in TEAMS).items():
        yield from ((f"{flavor}-{i}", flavor) for i in range(gpus // GPUS_PER_NODE))


def pods_of(job: SampleJob) -> Iterator[tuple[str, str, str]]:
    """Yield name, uid and node of each pod of a job."""
    able = [name for name, flavor in nodes() if flavor == job.team.flavor]
    for i in range(job.pods):
        name = f"{job.name}-worker-{i}" if job.pods > 1 else f"{job.name}-{job.uid[:5]}"
        yield name, f"{job.uid[:-2]}{i:02}", able[(job.number + i) % len(able)]


def kube_json(jobs: Sequence[SampleJob]) -> str:
    """Return pods and nodes as kubectl prints them, of the jobs of the last day."""
    labelled = [
        {"apiVersion": "v1", "kind": "Node",
         "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": PRODUCTS[flavor]}}}
        for name, flavor in nodes()
    ]  # fmt: skip
    return _listed([*labelled, *(pod for job in _recent(jobs) for pod in _pod_objects(job))])


def _pod_objects(job: SampleJob) -> Iterator[Json]:
    is_gang = job.pods > 1
    kind = "PyTorchJob" if is_gang else "Job"
    labels = {"user": job.user, "kueue.x-k8s.io/queue-name": "default"}
    key = "training.kubeflow.org/job-name" if is_gang else "batch.kubernetes.io/job-name"
    is_started = job.start_s is not None and job.start_s <= END_S
    for i, (name, uid, node) in enumerate(pods_of(job)):
        replica = {"training.kubeflow.org/replica-index": str(i)} if is_gang else {}
        spec: Json = {
            "priority": job.priority,
            "containers": [{"name": "main", "resources": {"requests": _requests(job)}}],
        }
        if is_started:
            spec["nodeName"] = node
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": job.team.name,
                "uid": uid,
                "creationTimestamp": written(job.submit_s),
                "labels": {**labels, key: job.name, **replica},
                "ownerReferences": [{"kind": kind, "name": job.name, "uid": job.uid,
                                     "controller": True}],
            },
            "spec": spec,
            "status": _pod_status(job),
        }  # fmt: skip


def _pod_status(job: SampleJob) -> Json:
    if job.start_s is None or job.start_s > END_S:
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                 "lastTransitionTime": None}  # fmt: skip
        return {"phase": "Pending", "conditions": [gated]}
    scheduled = {"type": "PodScheduled", "status": "True",
                 "lastTransitionTime": written(job.start_s)}  # fmt: skip
    started = {"startedAt": written(job.start_s + 8)}
    state: Json = {"running": started}
    if job.end_s is not None:
        state = {"terminated": {**started, "finishedAt": written(job.end_s)}}
    return {
        "phase": _phase(job),
        "conditions": [scheduled],
        "startTime": written(job.start_s + 1),
        "containerStatuses": [{"name": "main", "state": state}],
    }


def _phase(job: SampleJob) -> str:
    if job.end_s is None:
        return "Running"
    return "Failed" if job.failed else "Succeeded"


def metrics_json(jobs: Sequence[SampleJob]) -> str:
    """Return the range answer of Prometheus on the pods of the last day and their nodes."""
    series = [
        {"metric": {"__name__": "kube_node_labels", "node": name,
                    "label_nvidia_com_gpu_product": PRODUCTS[flavor]},
         "values": [[END_S, "1"]]}
        for name, flavor in nodes()
    ]  # fmt: skip
    series += [part for job in _recent(jobs) for part in _pod_series(job)]
    lines = ",\n".join(json.dumps(part, separators=(",", ":")) for part in series)
    return f'{{"status":"success","data":{{"resultType":"matrix","result":[\n{lines}\n]}}}}\n'


def _pod_series(job: SampleJob) -> Iterator[Json]:
    gone = END_S if job.end_s is None else min(END_S, job.end_s + 2 * STEP_S)
    first = max(-(-job.submit_s // STEP_S) * STEP_S, END_S - 2 * DAY_S)
    times = range(first, gone + 1, STEP_S)
    kind = "PyTorchJob" if job.pods > 1 else "Job"
    start = job.start_s if job.start_s is not None and job.start_s <= END_S else None
    for name, uid, node in pods_of(job):
        labels = {"namespace": job.team.name, "pod": name, "uid": uid}

        def series_of(
            metric: str, value: int, since: int, more: Json, pod_labels: Json = labels
        ) -> Json:
            values = [[at, str(value)] for at in times if at >= since]
            return {"metric": {"__name__": metric, **pod_labels, **more}, "values": values}

        parts = [series_of("kube_pod_created", job.submit_s, 0, {})]
        owner = {"owner_kind": kind, "owner_name": job.name, "owner_is_controller": "true"}
        parts.append(series_of("kube_pod_owner", 1, 0, owner))
        request = {"container": "main", "resource": "nvidia_com_gpu", "unit": "integer"}
        if start is not None:
            request["node"] = node
            parts.append(series_of("kube_pod_status_scheduled_time", start, start, {}))
        parts.append(
            series_of("kube_pod_container_resource_requests", job.gpus_per_pod, start or 0, request)
        )
        if job.end_s is not None:
            parts.append(series_of("kube_pod_completion_time", job.end_s, job.end_s, {}))
            parts.append(series_of("kube_pod_status_phase", 1, job.end_s, {"phase": _phase(job)}))
        else:
            phase = "Pending" if start is None else "Running"
            parts.append(series_of("kube_pod_status_phase", 1, start or 0, {"phase": phase}))
        yield from (part for part in parts if part["values"])


def site_jobs(rng: np.random.Generator) -> list[SampleJob]:
    """Return the jobs of the site, and when each started."""
    jobs = draw_jobs(rng)
    admit(jobs)
    return jobs


def site_files(jobs: Sequence[SampleJob]) -> dict[str, str]:
    """Return the files of the site by name."""
    return {
        "kueue/workloads.json": workloads_json(jobs),
        "kube/kube.json": kube_json(jobs),
        "kube/kube_metrics.json": metrics_json(jobs),
    }
