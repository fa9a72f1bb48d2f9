"""How many jobs, with how many GPU-hours, run longer at the widths of a plan than recorded.

Run times are compared without starts and changes of width, since a recorded run has its own, and
without waits. A job that held g GPUs and runs on k of the plan takes s(g) / s(k) times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.paths import time_per_work
from gpuplan.planner.frontier.model.plan import Assignment, ClassPlan, Plan
from gpuplan.simkit.arrays import FloatArray, IntArray

TIMES = (1.0, 1.25, 1.5, 2.0)
MUCH = 1.5
EQUAL = 1e-9  # relative; a run this little longer is as long
Totals = tuple[int, float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class LongerRuns:
    """Jobs that run longer than so many times their recorded run.

    Attributes:
        times: so many.
        jobs: on average, where a class is split over two widths.
        gpu_h: GPU-hours that they held as recorded.
        job_share, gpu_h_share: of all jobs with a recorded run, and of their GPU-hours.
    """

    times: float
    jobs: float
    gpu_h: float
    job_share: float
    gpu_h_share: float


@dataclass(frozen=True, slots=True)
class ClassSlowdown:
    """The jobs of a class that run longer than recorded.

    Attributes:
        job_class: the class.
        jobs: with a recorded run.
        gpu_h: GPU-hours that they held as recorded.
        slower_jobs, slower_gpu_h: of those that run longer than recorded.
        much_slower_jobs, much_slower_gpu_h: of those that run over 1.5 times as long.
        most_times: the longest run, in times of its recorded run.
    """

    job_class: str
    jobs: int
    gpu_h: float
    slower_jobs: float
    slower_gpu_h: float
    much_slower_jobs: float
    much_slower_gpu_h: float
    most_times: float


@dataclass(frozen=True, slots=True)
class WidthSlowdown:
    """The jobs that held a number of GPUs; attributes as those of `ClassSlowdown`.

    Attributes:
        num_gpus: that they held as recorded.
    """

    num_gpus: float
    jobs: int
    gpu_h: float
    slower_jobs: float
    slower_gpu_h: float
    much_slower_jobs: float
    much_slower_gpu_h: float
    most_times: float


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What a plan does to run times as recorded.

    Attributes:
        jobs: with a recorded run.
        gpu_h: GPU-hours that they held.
        most_times: the longest run, in times of its recorded run.
        longer: those beyond 1, 1.25, 1.5 and 2 times their recorded run.
        classes: the same by class, in the order of the classes.
        num_gpus: the same by the GPUs that jobs held.
    """

    jobs: int
    gpu_h: float
    most_times: float
    longer: tuple[LongerRuns, ...]
    classes: tuple[ClassSlowdown, ...]
    num_gpus: tuple[WidthSlowdown, ...]

    def beyond(self, times: float) -> LongerRuns:
        """Return the jobs beyond one of `TIMES`."""
        return next(runs for runs in self.longer if runs.times == times)


@dataclass(frozen=True, slots=True)
class RecordedRuns:
    """The recorded runs of jobs, those of one class and number of GPUs together; shape (n,).

    Attributes:
        job_class: index of the class.
        num_gpus: GPUs held.
        jobs: how many.
        gpu_h: their GPU-hours.
        run_per_work: hours of run per hour of work on one GPU; 0 where there is no work.
    """

    job_class: IntArray
    num_gpus: FloatArray
    jobs: IntArray
    gpu_h: FloatArray
    run_per_work: FloatArray

    @classmethod
    def of(cls, arrivals: ClassArrivals | None) -> RecordedRuns | None:
        """Return those of jobs that have a recorded run; None without any."""
        if arrivals is None or arrivals.run_h is None:
            return None
        is_known = ~np.isnan(arrivals.run_h)
        if not is_known.any():
            return None
        gpus, run_h = arrivals.gpus[is_known], arrivals.run_h[is_known]
        widths, width_of = np.unique(gpus, return_inverse=True)
        pair = arrivals.job_class[is_known] * widths.size + width_of.reshape(-1)
        distinct, place = np.unique(pair, return_inverse=True)
        place = place.reshape(-1)
        runs = np.bincount(place, run_h)
        work = np.bincount(place, arrivals.work_h[is_known])
        return cls(
            job_class=distinct // widths.size,
            num_gpus=widths[distinct % widths.size],
            jobs=np.bincount(place),
            gpu_h=np.bincount(place, run_h * gpus).astype(np.float64),
            run_per_work=np.divide(runs, work, out=np.zeros_like(runs), where=work > 0),
        )

    def slowdown(self, classes: Sequence[JobClass], plan: Plan) -> Slowdown:
        """Return what a plan for these classes does to the runs."""
        parts = {part.job_class: part for part in plan.classes}
        rows, shares, times = [], [], []
        first = np.searchsorted(self.job_class, np.arange(len(classes) + 1)).tolist()
        for index, job_class in enumerate(classes):
            of_class = np.arange(first[index], first[index + 1])
            for share, time_h in _paths(job_class, parts[job_class.name]):
                rows.append(of_class)
                shares.append(np.full(of_class.size, share))
                recorded = self.run_per_work[of_class]
                longer = np.divide(
                    time_h, recorded, out=np.zeros_like(recorded), where=recorded > 0
                )
                times.append(longer)
        return self._summed(
            classes, np.concatenate(rows), np.concatenate(shares), np.concatenate(times)
        )

    def _summed(
        self, classes: Sequence[JobClass], row: IntArray, share: FloatArray, times: FloatArray
    ) -> Slowdown:
        """Return the totals of runs; each row may have several, with their shares and times."""
        jobs, gpu_h = share * self.jobs[row], share * self.gpu_h[row]
        all_jobs, all_h = int(self.jobs.sum()), float(self.gpu_h.sum())
        longer = []
        for limit in TIMES:
            is_beyond = times > limit * (1 + EQUAL)
            count, hours = float(jobs[is_beyond].sum()), float(gpu_h[is_beyond].sum())
            share_h = hours / all_h if all_h else 0.0
            longer.append(LongerRuns(limit, count, hours, count / all_jobs, share_h))
        widths, width_of = np.unique(self.num_gpus, return_inverse=True)

        def by(key: IntArray, size: int) -> Iterator[Totals]:
            of_run, most = key[row], np.zeros(size)
            np.maximum.at(most, of_run, times)
            totals = [np.bincount(key, self.jobs, size), np.bincount(key, self.gpu_h, size)]
            for limit in (1.0, MUCH):
                is_beyond = times > limit * (1 + EQUAL)
                totals += [
                    np.bincount(of_run, amount * is_beyond, size) for amount in (jobs, gpu_h)
                ]
            for row_of_all in np.stack([*totals, most], axis=1).tolist():
                count, hours, slower, slower_h, much, much_h, longest = row_of_all
                yield int(count), hours, slower, slower_h, much, much_h, longest

        return Slowdown(
            jobs=all_jobs,
            gpu_h=all_h,
            most_times=float(times.max()),
            longer=tuple(longer),
            classes=tuple(
                ClassSlowdown(job_class.name, *totals)
                for job_class, totals in zip(classes, by(self.job_class, len(classes)), strict=True)
            ),
            num_gpus=tuple(
                WidthSlowdown(width, *totals)
                for width, totals in zip(
                    widths.tolist(), by(width_of.reshape(-1), widths.size), strict=True
                )
            ),
        )


def _paths(job_class: JobClass, part: ClassPlan) -> Iterator[tuple[float, float]]:
    """Yield the share of the jobs on each path and its time per work, without changes of width."""
    for share, path in part.paths:
        yield share, sum(_time_per_work(job_class, row) for row in path)


def _time_per_work(job_class: JobClass, row: Assignment) -> float:
    """Return the time of an epoch per time of the whole job on one GPU."""
    gpus = np.array([ceil(row.width)], np.int64)
    return float(time_per_work(job_class, gpus, row.gpu_type)[row.epoch, 0])
