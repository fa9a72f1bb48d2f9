"""What burstier arrivals do to a plan: the same jobs at the same mean rate, at growing C^2.

Arrivals are a Poisson process of two rates, a high and a low one, between which a Markov chain
switches (MMPP-2). Source: Fischer and Meier-Hellstern, "The Markov-modulated Poisson process
(MMPP) cookbook", Performance Evaluation 18, 1993, for the law of a gap between arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.elastic.arrivals import ClassArrivals
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.replay.demand import demand_law
from gpuplan.planner.frontier.replay.plans import replay_plan
from gpuplan.planner.frontier.uncertainty.bootstrap_bands import FrontierBand, range_band
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.metrics import percentile
from gpuplan.simkit.time import HOUR_S

SCVS = (1.0, 2.0, 5.0, 10.0, 20.0)
REPLICAS = 5
HIGH_SHARE = 0.1
CYCLES = 12  # of a high and a low rate over the horizon
ROOM = 1.25  # a C^2 below the most that a cycle allows by this factor leaves a low rate above 0
CAP_QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class Mmpp2:
    """A Poisson process that switches between two rates; all per hour.

    Attributes:
        high: arrivals while the rate is high; > 0.
        low: arrivals while it is low; from 0 to ``high``.
        leave_high: changes from high to low, while it is high; > 0.
        leave_low: changes from low to high; > 0.
    """

    high: float
    low: float
    leave_high: float
    leave_low: float

    def __post_init__(self) -> None:
        if not (0 <= self.low <= self.high and self.high > 0):
            raise ValueError(f"rates must be 0 <= low <= high, high > 0, got {self}")
        if not (self.leave_high > 0 and self.leave_low > 0):
            raise ValueError(f"the process must leave both states, got {self}")

    @property
    def high_share(self) -> float:
        """Share of the time at the high rate."""
        return self.leave_low / (self.leave_high + self.leave_low)

    @property
    def rate_per_h(self) -> float:
        """Mean rate."""
        return self.low + self.high_share * (self.high - self.low)

    @property
    def scv(self) -> float:
        """C^2 of the gaps between arrivals, as they are in the long run.

        1 + 2 u v (a - b)^2 / ((u + v)^2 (a b + a v + b u)) for the rates a and b, which the chain
        leaves at the rates u and v; from the first two moments of the gap, p (L - Q)^-k 1 k!, with
        L the rates, Q the generator and p the state that an arrival finds.
        """
        a, b, u, v = self.high, self.low, self.leave_high, self.leave_low
        return 1 + 2 * u * v * (a - b) ** 2 / ((u + v) ** 2 * (a * b + a * v + b * u))

    def draw_h(self, jobs: int, rng: np.random.Generator) -> FloatArray:
        """Return the times of the first arrivals, in hours from a random instant; shape (jobs,)."""
        is_high = bool(rng.random() < self.high_share)
        times: list[FloatArray] = []
        clock, count = 0.0, 0
        while count < jobs:
            rate, leave = (self.high, self.leave_high) if is_high else (self.low, self.leave_low)
            stay = float(rng.exponential(1 / leave))
            times.append(np.sort(clock + stay * rng.random(int(rng.poisson(rate * stay)))))
            clock, count, is_high = clock + stay, count + times[-1].size, not is_high
        return np.concatenate(times)[:jobs]


def mmpp2_of(
    rate_per_h: float, scv: float, cycle_h: float, high_share: float = HIGH_SHARE
) -> Mmpp2:
    """Return the process with a mean rate and a C^2, given how long its bursts are.

    With a share p of the time at the high rate, N arrivals in a cycle and rates of 1 + (1 - p) d
    and 1 - p d times the mean, the C^2 is 1 + 2 p (1 - p) d^2 / (1 + (1 - 2p) d - p (1 - p) d^2 +
    1 / (p (1 - p) N)): a quadratic equation for d.

    Args:
        rate_per_h: mean arrivals per hour; > 0.
        scv: the C^2 of the gaps; at least 1.
        cycle_h: mean time of a stay at the high and one at the low rate; > 0.
        high_share: share of the time at the high rate, strictly between 0 and 1.

    Raises:
        UsageError: a C^2 below 1, or one that so few arrivals in a cycle cannot have; that most is
            1 + 2 N (1 - p)^2, where no job comes at the low rate.
    """
    p, jobs, excess = high_share, rate_per_h * cycle_h, scv - 1
    if not excess >= 0:
        raise UsageError(f"the squared CV of bursty arrivals must be at least 1, got {scv:g}")
    if excess > 2 * jobs * (1 - p) ** 2 * (1 + 1e-12):
        raise UsageError(
            f"a C^2 of {scv:g} is out of reach: with {jobs:.3g} jobs in a cycle of {cycle_h:.3g} h "
            f"two rates give {1 + 2 * jobs * (1 - p) ** 2:.3g} at most\n"
            f"  next: a cycle of at least {cycle_h * excess / (2 * jobs * (1 - p) ** 2):.3g} h"
        )
    q = p * (1 - p)
    slope = excess * (1 - 2 * p)
    root = sqrt(slope**2 + 4 * q * (2 + excess) * excess * (1 + 1 / (q * jobs)))
    d = min((slope + root) / (2 * q * (2 + excess)), 1 / p)
    return Mmpp2(
        high=rate_per_h * (1 + (1 - p) * d),
        low=max(0.0, rate_per_h * (1 - p * d)),
        leave_high=1 / (p * cycle_h),
        leave_low=1 / ((1 - p) * cycle_h),
    )


@dataclass(frozen=True, slots=True)
class BurstPoint:
    """A plan at one burstiness of arrivals: means and ends over the replicas.

    Attributes:
        target_scv: squared CV of the gaps between arrivals, in the long run.
        high_rate_per_h, low_rate_per_h: jobs an hour while many and while few arrive.
        scv: squared CV of the gaps as sampled.
        mean_jct_s: mean completion time.
        p95_jct_s: completion time that 95% of the jobs keep.
        rented_gpus: rented on average.
        peak_gpus: most GPUs rented at once.
        above_cap_share: share of the time in which jobs need more GPUs than the cap, in replays
            without a limit of the cluster.
    """

    target_scv: float
    high_rate_per_h: float
    low_rate_per_h: float
    scv: FrontierBand
    mean_jct_s: FrontierBand
    p95_jct_s: FrontierBand
    rented_gpus: FrontierBand
    peak_gpus: FrontierBand
    above_cap_share: FrontierBand


FIGURES = ("scv", "mean_jct_s", "p95_jct_s", "rented_gpus", "peak_gpus", "above_cap_share")


@dataclass(frozen=True, slots=True)
class BurstSensitivity:
    """A plan under burstier and burstier arrivals; made by `burst_sensitivity`.

    Attributes:
        planned_mean_jct_s: mean completion time by the plan.
        planned_used_gpus: rented on average by the plan.
        cap_gpus: GPUs that demand is compared with.
        cycle_h: mean hours of a period of many and one of few arrivals.
        replicas: samples of the arrivals at each burstiness.
        points: one for each burstiness.
        plan: the plan.
        cluster: how GPUs are rented.
    """

    planned_mean_jct_s: float
    planned_used_gpus: float
    cap_gpus: float
    cycle_h: float
    replicas: int
    points: tuple[BurstPoint, ...]
    plan: Hidden[Plan]
    cluster: Hidden[RentedCluster]

    def to_frame(self) -> pl.DataFrame:
        """Return one row per C^2; ``_least`` and ``_most`` are over the replicas."""
        rows = []
        for point in self.points:
            row: dict[str, float | None] = {"target_scv": point.target_scv}
            for name in FIGURES:
                band: FrontierBand = getattr(point, name)
                row |= {name: band.value, f"{name}_least": band.low, f"{name}_most": band.high}
            rows.append(row)
        return pl.DataFrame(rows, infer_schema_length=None)


def burst_sensitivity(
    workload: ClassWorkload,
    plan: Plan,
    cluster: RentedCluster | None = None,
    *,
    scvs: Sequence[float] = SCVS,
    replicas: int = REPLICAS,
    cap_gpus: float | None = None,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> BurstSensitivity:
    """Replay a plan on its own jobs, in random order, with arrivals of growing C^2.

    Each replica has one order of the jobs for all C^2, and its arrivals are stretched so that all
    jobs come within the horizon: rates and works are those the plan was made for.

    Args:
        workload: the jobs.
        plan: the widths.
        cluster: how GPUs are rented.
        scvs: C^2 of the gaps, each at least 1.
        replicas: draws at each C^2, at least 1.
        cap_gpus: what demand is compared with; None for `RentedCluster.max_gpus`, or without one
            for what is enough in 95% of the time with Poisson arrivals.
        rng: draws orders and arrivals.
        progress: called with the share of the replicas done.

    Raises:
        InfeasibleError, UsageError: see `mmpp2_of` and `replay_plan`.
    """
    cluster, arrivals = cluster or RentedCluster(), workload.arrivals
    if arrivals is None:
        raise ValueError("this workload has no jobs to replay, only classes")
    rate = arrivals.size / workload.horizon_h
    jobs = ROOM * (max(scvs) - 1) / (2 * (1 - HIGH_SHARE) ** 2)  # for the largest C^2
    cycle_h = max(workload.horizon_h / CYCLES, jobs / rate)
    if cap_gpus is None:
        most = cluster.max_gpus
        cap_gpus = demand_law(workload, plan).quantile(CAP_QUANTILE) if most is None else most
    processes = [mmpp2_of(rate, scv, cycle_h) for scv in scvs]
    measured: list[list[list[float | None]]] = [[] for _ in scvs]
    for done, draw in enumerate(rng.spawn(replicas), start=1):
        order = draw.permutation(arrivals.size)
        for process, runs in zip(processes, measured, strict=True):
            time_h = process.draw_h(arrivals.size, draw)
            submit_s = time_h * (workload.horizon_h / float(time_h[-1]) * HOUR_S)
            jobs_then = replace(workload, arrivals=_at(arrivals, order, submit_s))
            replay = replay_plan(jobs_then, plan, cluster)
            wanted = replay
            if cluster.max_gpus is not None:  # as waiting jobs would add to the demand
                wanted = replay_plan(jobs_then, plan, replace(cluster, max_gpus=None))
            above = wanted.share_above(cap_gpus)
            runs.append([_scv(submit_s), *_measures(replay), above])
        if progress is not None:
            progress(done / replicas)
    return BurstSensitivity(
        planned_mean_jct_s=plan.mean_jct_s,
        planned_used_gpus=plan.used,
        plan=plan,
        cluster=cluster,
        cap_gpus=cap_gpus,
        cycle_h=cycle_h,
        replicas=replicas,
        points=tuple(
            BurstPoint(
                *(process.scv, process.high, process.low),
                *(_over(figure) for figure in zip(*runs, strict=True)),
            )
            for process, runs in zip(processes, measured, strict=True)
        ),
    )


def _at(
    arrivals: ClassArrivals, order: np.ndarray[Any, Any], submit_s: FloatArray
) -> ClassArrivals:
    """Return the jobs in another order, at other times."""
    return ClassArrivals(
        submit_s=submit_s,
        job_class=arrivals.job_class[order],
        work_h=arrivals.work_h[order],
        gpus=arrivals.gpus[order],
    )


def _scv(submit_s: FloatArray) -> float:
    gaps = np.diff(submit_s)
    return float(gaps.var() / gaps.mean() ** 2) if gaps.size and gaps.mean() else 1.0


def _measures(replay: PlanReplay) -> list[float | None]:
    return [
        replay.mean_jct_s,
        percentile(replay.jct_s, 95),
        replay.rented_gpus,
        float(replay.peak_gpus),
    ]


def _over(values: Sequence[float | None]) -> FrontierBand:
    numbers = [value for value in values if value is not None]
    return range_band(float(np.mean(numbers)) if len(numbers) == len(values) else None, values)
