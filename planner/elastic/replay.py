"""What became of the jobs of a trace in a cluster that rents GPUs by a plan or a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.paths import WidthPath, path_tables
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.elastic.kernel import (
    MOST_LEVELS,
    NARROW,
    SQUEEZE,
    WHOLE,
    ElasticRules,
    Paths,
)
from gpuplan.simkit.elastic.simulator import NO_LIMIT, WidthRun, run_widths
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.renting.billing import billed_gpu_us
from gpuplan.simkit.time import HOUR_S, MICROS, TimeOverflow, to_micros

OUTLASTS = 1.5  # times the horizon
STARTS = {"whole": WHOLE, "queue": NARROW, "squeeze": SQUEEZE}


@dataclass(frozen=True)
class ReplayResults:
    """The jobs of a replay and the GPUs they took.

    Attributes:
        jobs: replayed.
        mean_jct_s, median_jct_s, p95_jct_s, p99_jct_s: completion time, from submission to finish.
        mean_jqt_s: time without GPUs.
        rescales_per_job: starts and changes of width of a job, on average.
        held_gpu_h, rented_gpu_h, billed_gpu_h: GPU-hours that jobs hold, that are rented, and that
            are billed.
        held_gpus, rented_gpus, billed_gpus: the same over the hours in which jobs arrive.
        peak_gpus: most GPUs rented at once.
        efficiency: work done per GPU-hour rented: the sum of the speedups of running jobs over the
            GPUs rented.
    """

    jobs: int
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_jqt_s: float
    rescales_per_job: float
    held_gpu_h: float
    rented_gpu_h: float
    billed_gpu_h: float
    held_gpus: float
    rented_gpus: float
    billed_gpus: float
    peak_gpus: int
    efficiency: float


@dataclass(frozen=True, slots=True)
class PlanReplay:
    """What became of every job and of the cluster, as a simulator measured it.

    Averages over time are GPU-hours per hour of the horizon, including the drain after the last
    arrival, as in a budget of average GPUs.

    Attributes:
        arrivals: the jobs; all arrays of shape (n,) have their order.
        horizon_h: hours over which they arrive.
        jct_s: completion minus submission; shape (n,).
        jqt_s: time before the job first held GPUs, their provisioning included; shape (n,).
        rescales: starts and changes of width; shape (n,).
        held_gpu_h: GPU-hours that jobs held, starts and changes of width included.
        billed_gpu_h: GPU-hours billed.
        time_s: times at which the GPUs rented change, ascending; shape (k,).
        gpus: GPUs rented from then on; the last is 0; shape (k,).
        demand_s: seconds of the horizon in which the jobs in the system needed 0, 1, 2, ... GPUs,
            the last for that many or more; empty if not recorded.

    Raises:
        ValueError: arrays of another shape than the jobs, or a time line that does not ascend, ends
            with rented GPUs, or rents less than the jobs held.
    """

    arrivals: ClassArrivals
    horizon_h: float
    jct_s: FloatArray
    jqt_s: FloatArray
    rescales: IntArray
    held_gpu_h: float
    billed_gpu_h: float
    time_s: FloatArray
    gpus: IntArray
    demand_s: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        shape, time_s, gpus = self.arrivals.submit_s.shape, self.time_s, self.gpus
        for name in ("jct_s", "jqt_s", "rescales"):
            found_shape = getattr(self, name).shape
            if found_shape != shape:
                raise ValueError(
                    f"{name} must have the shape {shape} of the jobs, got {found_shape}"
                )
        if time_s.shape != gpus.shape or not time_s.size or np.any(np.diff(time_s) < 0) or gpus[-1]:
            raise ValueError("the time line must ascend, one GPU count per time, and end with 0")
        if self.held_gpu_h > self.rented_gpu_h * (1 + 1e-9) + 1e-9:
            raise ValueError(
                f"jobs held {self.held_gpu_h:g} GPU-hours of {self.rented_gpu_h:g} rented"
            )

    @property
    def mean_jct_s(self) -> float:
        """Mean completion time."""
        return float(self.jct_s.mean())

    @property
    def rented_gpu_h(self) -> float:
        """GPU-hours rented."""
        return float(np.dot(self.gpus[:-1], np.diff(self.time_s))) / HOUR_S

    @property
    def held_gpus(self) -> float:
        """GPUs that jobs held on average."""
        return self.held_gpu_h / self.horizon_h

    @property
    def rented_gpus(self) -> float:
        """GPUs rented on average."""
        return self.rented_gpu_h / self.horizon_h

    @property
    def billed_gpus(self) -> float:
        """GPUs billed on average."""
        return self.billed_gpu_h / self.horizon_h

    @property
    def peak_gpus(self) -> int:
        """Most GPUs rented at once."""
        return int(self.gpus.max(initial=0))

    @property
    def lasts_h(self) -> float:
        """Hours from the first submission to the return of the last GPU."""
        return float(self.time_s[-1] - self.arrivals.submit_s.min(initial=self.time_s[-1])) / HOUR_S

    @property
    def peak_over_rented(self) -> float | None:
        """The peak over the GPUs rented on average; None where the run far outlasts the horizon.

        In that case GPU-hours per hour of the horizon are not an average over the run, and may
        exceed the peak.
        """
        if self.lasts_h > OUTLASTS * self.horizon_h or not self.rented_gpus:
            return None
        return self.peak_gpus / self.rented_gpus

    @property
    def efficiency(self) -> float:
        """Sum of the speedups of running jobs over the GPUs rented: work done per GPU-hour."""
        rented = self.rented_gpu_h
        return float(self.arrivals.work_h.sum()) / rented if rented else 1.0

    def share_above(self, gpus: float) -> float | None:
        """Return the share of the horizon in which jobs needed more than this number of GPUs.

        None if the demand was not recorded, or for more than a million GPUs.
        """
        first = max(0, int(np.floor(gpus)) + 1)
        if not self.demand_s.size or first > MOST_LEVELS:
            return None
        return float(self.demand_s[first:].sum() / self.demand_s.sum())

    def results(self) -> ReplayResults:
        """Return the numbers as JSON has them."""
        return ReplayResults(
            jobs=self.arrivals.size,
            **distribution(self.jct_s, "jct", "s", (50, 95, 99)),
            mean_jqt_s=float(self.jqt_s.mean()),
            rescales_per_job=float(self.rescales.mean()),
            held_gpu_h=self.held_gpu_h,
            rented_gpu_h=self.rented_gpu_h,
            billed_gpu_h=self.billed_gpu_h,
            held_gpus=self.held_gpus,
            rented_gpus=self.rented_gpus,
            billed_gpus=self.billed_gpus,
            peak_gpus=self.peak_gpus,
            efficiency=self.efficiency,
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per job."""
        return pl.DataFrame(
            {
                "submit_s": self.arrivals.submit_s,
                "class": self.arrivals.job_class,
                "work_gpu_h": self.arrivals.work_h,
                "jct_s": self.jct_s,
                "jqt_s": self.jqt_s,
                "rescales": self.rescales,
            }
        )

    def timeline(self) -> pl.DataFrame:
        """Return the GPUs rented over time, one row per change."""
        return pl.DataFrame({"time_s": self.time_s, "rented_gpus": self.gpus})


def replay_paths(
    workload: ClassWorkload,
    paths: Sequence[WidthPath],
    path_of: IntArray,
    cluster: RentedCluster | None = None,
) -> PlanReplay:
    """Run the jobs of a workload, each at the widths of its path.

    For the speedup at a width that is not a candidate of the class see `time_per_work`.

    Args:
        workload: the jobs; each does its own work, in the shares of its class' epochs.
        paths: widths; not every path needs a job.
        path_of: index of the path of each job; shape (n,).
        cluster: how GPUs are rented.

    Raises:
        InfeasibleError: a width above ``cluster.max_gpus``, where jobs wait for their width; with
            ``squeeze``, only if no width of the path is at most that.
        UsageError: times are too long for 64 bits.
    """
    cluster = cluster or RentedCluster()
    arrivals, gpu_us_per_h = jobs_of(workload), HOUR_S * MICROS
    try:
        run = run_paths(workload, paths, path_of, cluster)
    except TimeOverflow as error:
        raise UsageError(
            f"the jobs cannot be replayed: {error}\n  next: shorter delays or billing steps "
            "(--rescale, --provision-delay, --release-delay, --billing), or --no-replay"
        ) from error
    return PlanReplay(
        arrivals,
        workload.horizon_h,
        jct_s=(run.finish_us - run.submit_us) / MICROS,
        jqt_s=run.waited_us / MICROS,
        rescales=run.rescales,
        held_gpu_h=float(run.held_gpu_us.sum()) / gpu_us_per_h,
        time_s=run.time_us / MICROS,
        gpus=run.gpus,
        billed_gpu_h=billed_gpu_us(run.lease_us, run.lease_gpus, int(to_micros(cluster.billing_s)))
        / gpu_us_per_h,
        demand_s=run.level_us / MICROS,
    )


def run_paths(
    workload: ClassWorkload,
    paths: Sequence[WidthPath],
    path_of: IntArray,
    cluster: RentedCluster,
) -> WidthRun:
    """Run the jobs as `replay_paths` does and return what the simulator measured.

    Raises:
        InfeasibleError: as there.
        TimeOverflow: times too long to be counted.
    """
    arrivals = jobs_of(workload)
    rules = _rules_of(cluster, workload.horizon_h)
    used, path_of = np.unique(np.asarray(path_of, np.int64), return_inverse=True)
    paths = [paths[index] for index in used.tolist()]
    tables = path_tables(workload.classes, paths, narrow=rules.start != WHOLE)
    _check_widths_fit(workload, paths, tables, cluster)
    work_us = arrivals.work_h * (HOUR_S * MICROS)
    return run_widths(to_micros(arrivals.submit_s), path_of, work_us, tables, rules)


def _rules_of(cluster: RentedCluster, horizon_h: float) -> ElasticRules:
    """Return the rules of a cluster for the kernel."""
    limit = cluster.max_gpus
    return ElasticRules(
        node_gpus=cluster.node_gpus,
        provision_us=int(to_micros(cluster.provision_s)),
        release_us=int(to_micros(cluster.release_s)),
        from_request=cluster.billed_from == "request",
        max_nodes=NO_LIMIT if limit is None else limit // cluster.node_gpus,
        start=STARTS[cluster.overflow],
        horizon_us=int(to_micros(horizon_h * HOUR_S)),
    )


def jobs_of(workload: ClassWorkload) -> ClassArrivals:
    """Return the jobs of a workload; raises ValueError where it has classes only."""
    if workload.arrivals is None:
        raise ValueError("this workload has no jobs to replay, only classes")
    return workload.arrivals


def _check_widths_fit(
    workload: ClassWorkload, paths: Sequence[WidthPath], tables: Paths, cluster: RentedCluster
) -> None:
    """Refuse paths that can never run within the limit."""
    if cluster.max_gpus is None:
        return
    room = cluster.max_gpus // cluster.node_gpus * cluster.node_gpus
    for path, narrowest in zip(paths, tables.width[:, 0].tolist(), strict=True):
        gpus = narrowest if cluster.overflow == "squeeze" else int(path.gpus.max())
        if gpus > room:
            raise InfeasibleError(
                f"jobs of class {workload.classes[path.job_class].name!r} get {gpus} GPUs each, "
                f"but at most {room} can be rented\n"
                "  next: raise --max-gpus, bound the widths with --max-width, or let jobs start on "
                "what is left with --overflow squeeze"
            )
