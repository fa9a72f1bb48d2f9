"""A workload to submit to a site of Kueue: what a user does not say is what such ones were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.quota.amounts import gpus_of
from gpuplan.planner.quota.model import QuotaModel
from gpuplan.planner.quota_twin.instant import QuotaInstant
from gpuplan.planner.quota_twin.start_replays import NewWorkload
from gpuplan.planner.site.new_job import (
    FEWER_GPUS,
    PARTS,
    Alternative,
    JobWish,
    NewJob,
    most_common,
)
from gpuplan.simkit.quota.site import PodSet

QUEUE, PRIORITY = "queue", "priority"
USUAL_GPUS_PER_POD = 8


@dataclass(frozen=True, slots=True)
class QuotaSubmitter:
    """Makes workloads for a site from what a dump tells of an instant.

    Attributes:
        model: the site.
        instant: what is known.
    """

    model: QuotaModel
    instant: QuotaInstant

    def job(self, wish: JobWish) -> tuple[NewJob, list[str]]:
        """Return the workload that a user means, and what was assumed, one sentence each.

        Raises:
            UsageError: a name is unknown, or the workload can never have its quota.
        """
        assumed = []
        queue = None if wish.partition is None else self._queue(wish)
        namespace = wish.account
        if namespace is None:
            jobs = self.instant.jobs
            of_queue = jobs if queue is None else jobs.filter(pl.col("queue") == queue)
            namespace = most_common(of_queue, "namespace") or most_common(jobs, "namespace") or ""
            assumed.append(
                f"namespace {namespace}: the one with the most workloads; --account names another"
            )
        else:
            self._check_namespace(namespace)
        if queue is None:
            queue = self._usual_queue(namespace, wish.gpus)
            assumed.append(f"queue {queue}: --partition names another")
        rows = self._of(namespace, queue)
        name = wish.qos
        if name is None:
            name = most_common(rows, "class") or "0"
            if self.instant.jobs["class"].n_unique() > 1:
                assumed.append(f"priority {name}: --qos names another class, or a number")
        job = NewJob("", namespace, queue, name, wish.nodes, wish.gpus, None)
        self.priority(job)
        pods, model_workload = self._pods(job)
        job = replace(job, nodes=sum(each.count for each in pods))
        if model_workload:
            assumed.append(f"pods like those of {model_workload}")
        self._check_fits(job, pods)
        return job, assumed

    def workload(self, job: NewJob) -> NewWorkload:
        """Return a workload as the simulator takes it. Raises `UsageError`."""
        return NewWorkload(
            self.model.number[job.partition], self.priority(job), self._pods(job)[0]
        )  # fmt: skip

    def priority(self, job: NewJob) -> int:
        """Return the number of a class of priority. Raises `UsageError`."""
        numbers = self._classes()
        if job.qos in numbers:
            return numbers[job.qos]
        try:
            return int(job.qos)
        except ValueError:
            raise UsageError(
                f"--qos {job.qos}: no workload of the dump has this class of priority"
                f"{perhaps(job.qos, numbers)}; expected a number or one of "
                f"{listed(sorted(numbers)[:20]) or 'none'}"
            ) from None

    def alternatives(self, job: NewJob) -> list[Alternative]:
        """Return other ways to submit a workload, the mildest of each kind first."""
        return [each for each in self._alternatives(job) if self._fits(each.job)]

    def _alternatives(self, job: NewJob) -> Iterator[Alternative]:
        for part in PARTS:
            if job.gpus % part == 0:
                fewer = replace(job, gpus=job.gpus // part, nodes=None)
                yield Alternative(FEWER_GPUS, counted(fewer.gpus, "GPU"), fewer)
        used = self.instant.jobs.filter(pl.col("namespace") == job.account)
        queues = self.model.of_namespace.get(job.account, frozenset()) | set(used["queue"])
        for queue in sorted(queues - {job.partition}):
            yield Alternative(QUEUE, f"queue {queue}", replace(job, partition=queue))
        priority, numbers = self.priority(job), self._classes()
        names = sorted(set(used["class"]), key=lambda name: (numbers[name], name))
        for name in names:
            if numbers[name] > priority:
                yield Alternative(PRIORITY, f"priority {name}", replace(job, qos=name))

    def _classes(self) -> dict[str, int]:
        rows = self.instant.jobs.select("class", "priority").unique(maintain_order=True)
        return dict(rows.sort("class", "priority").iter_rows())

    def _of(self, namespace: str, queue: str) -> pl.DataFrame:
        """Return the workloads of a namespace in a queue; of the queue where there are none."""
        of_queue = self.instant.jobs.filter(pl.col("queue") == queue)
        of_both = of_queue.filter(pl.col("namespace") == namespace)
        return of_queue if of_both.is_empty() else of_both

    def _check_namespace(self, namespace: str) -> None:
        names = {*self.instant.jobs["namespace"], *self.model.of_namespace}
        if namespace not in names:
            raise UsageError(
                f"--account {namespace}: no such namespace in the dump"
                f"{perhaps(namespace, names)}; expected one of {listed(sorted(names)[:20])}"
            )

    def _queue(self, wish: JobWish) -> str:
        """Return the ClusterQueue that ``--partition`` means. Raises `UsageError`."""
        name = wish.partition or ""
        if name in self.model.number:
            return name
        local = f"{wish.account}/{name}"
        for key in (name, local):
            if key in self.model.of_local:
                return self.model.of_local[key]
        names = self.model.queues
        raise UsageError(
            f"--partition {name}: no such ClusterQueue or LocalQueue{perhaps(name, names)}; "
            f"expected one of {listed(names[:20])}"
        )

    def _usual_queue(self, namespace: str, gpus: int) -> str:
        """Return the queue that such workloads of a namespace go to most. Raises `UsageError`."""
        jobs = self.instant.jobs.filter(pl.col("namespace") == namespace)
        queue = most_common(jobs.filter(pl.col("gpus") >= gpus), "queue")
        leads = self.model.of_namespace.get(namespace, frozenset())
        queue = queue or most_common(jobs, "queue") or min(leads, default=None)
        if queue is None:
            raise UsageError(
                f"--account {namespace}: has no LocalQueue and no workload; give --partition QUEUE"
            )
        return queue

    def _pods(self, job: NewJob) -> tuple[tuple[PodSet, ...], str]:
        """Return the pod sets of a workload, and the workload that has the same; empty for none.

        Raises `UsageError`.
        """
        work = self.instant.work
        rows = self._of(job.account, job.partition).filter(pl.col("gpus") == job.gpus)
        same = self.instant.jobs["job_id"].is_in(rows["job_id"].to_list()).to_numpy()
        same &= work.quota.queue == self.model.number[job.partition]
        counts: dict[int, int] = {}
        for number in work.quota.pods[same].tolist():
            pods = work.quota.shapes[number]
            if job.nodes in (None, sum(each.count for each in pods)):
                counts[number] = counts.get(number, 0) + 1
        if counts:
            number = max(counts, key=lambda number: (counts[number], -number))
            first = int((same & (work.quota.pods == number)).argmax())
            return work.quota.shapes[number], str(self.instant.jobs["job_id"][first])
        count = job.nodes or -(-job.gpus // USUAL_GPUS_PER_POD)
        if job.nodes is None and job.gpus % count:
            count = 1
        if job.gpus % count:
            raise UsageError(
                f"--gpus {job.gpus} on {counted(count, 'pod')}: every pod holds as many GPUs; "
                "expected --gpus to be a multiple of --nodes"
            )
        resources = self.model.gpu_resources[job.partition]
        whole_gpu_names = [name for name in resources if gpus_of(name) == 1] or list(resources)
        if not whole_gpu_names:
            raise UsageError(f"--partition {job.partition}: the queue has no quota of GPUs")
        return (PodSet({whole_gpu_names[0]: job.gpus // count}, count),), ""

    def _fits(self, job: NewJob) -> bool:
        try:
            self._check_fits(job, self._pods(job)[0])
        except UsageError:
            return False
        return True

    def _check_fits(self, job: NewJob, pods: tuple[PodSet, ...]) -> None:
        """Refuse a workload that can never have its quota. Raises `UsageError`."""
        queue = self.model.number[job.partition]
        if all(self.model.fits(queue, pod_set) for pod_set in pods):
            return
        resources = self.model.gpu_resources[job.partition]
        most = {
            flavor: amount
            for (at, flavor, resource), amount in self.model.potential.items()
            if at == queue and resource in resources
        }
        room = ", ".join(f"{amount} of {flavor}" for flavor, amount in sorted(most.items()))
        raise UsageError(
            f"--gpus {job.gpus}: this workload would never have its quota: queue {job.partition} "
            f"can have at most {room or 'no GPUs'}, all that it may borrow included\n"
            "  next: fewer --gpus, another --partition QUEUE, or other quotas: gpuplan whatif --set"
        )
