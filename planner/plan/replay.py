"""Replay the jobs of a plan as assigned: waits, and dollars by market, for any part of the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.money.gpus_in_use import GpusInUse, gpus_in_use
from gpuplan.planner.plan.assignment import AssignedJobs
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.jobs import ServiceLoad, TimeBins
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.refusals import least_cluster
from gpuplan.planner.plan.routes import SERVERLESS, SPOT, RouteSettings
from gpuplan.planner.plan.spot_record import joined
from gpuplan.planner.plan.targets import TIMES_OF_RESULTS, TimeTarget
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.metrics import percentile
from gpuplan.simkit.plan.losses import draw_losses
from gpuplan.simkit.plan.policies import FIRST_FIT
from gpuplan.simkit.plan.simulator import JointCluster, JointJobs, JointRun, run_plan
from gpuplan.simkit.time import FOREVER, MICROS, TimeOverflow, to_micros

LASTS_AT_MOST = 8.0
"""Losses of a gang are drawn for this many times its run time."""


class TooWideError(InfeasibleError):
    """A job is wider than a commitment above which nothing can be rented."""


@dataclass(frozen=True, slots=True)
class RentingTerms:
    """How GPUs on demand are had, and what is drawn.

    Attributes:
        provision_s: from an order until a lease joins.
        release_s: after which an idle lease is returned.
        billing_s: a lease is billed in steps of this, rounded up.
        seed: of the losses of spot gangs.
        policy: of the queue, one of `gpuplan.simkit.plan.policies.QUEUE_POLICIES`.
    """

    provision_s: float = 90.0
    release_s: float = 30.0
    billing_s: float = 1.0
    seed: int = 0
    policy: str = FIRST_FIT


@dataclass(frozen=True, slots=True)
class SpotStress:
    """What is worse, or better, for spot GPUs than the plan assumes.

    Attributes:
        hazard_times: losses, times those assumed.
        gone_s: from when to when there are no spot GPUs, seconds after the first submission.
    """

    hazard_times: float = 1.0
    gone_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class TypeReplay:
    """The replay of one GPU type.

    Attributes:
        gpu_type: its name.
        market: its prices.
        committed: GPUs committed to, beyond those owned.
        run: what happened to them, and to services among them.
    """

    gpu_type: str
    market: GpuMarkets
    committed: float
    run: JointRun

    def usd_per_h(self, begin_s: float, end_s: float, *, drains: bool = False) -> dict[str, float]:
        """Return dollars an hour in a part of the time, by market.

        With ``drains`` what is paid after it, until the jobs end, counts too, as if it were within.
        """
        begin_us, end_us = (int(to_micros(time_s)) for time_s in (begin_s, end_s))
        lasting_us = end_us - begin_us
        paid = 1.0
        if drains:
            last_us = max(end_us, int(self.run.finish_us.max(initial=0)))
            paid, end_us = (last_us - begin_us) / lasting_us, FOREVER
        outside = self._gpu_us_outside(begin_us, end_us)
        rented = self.run.billed_gpu_us(begin_us, end_us)
        market = self.market
        return {
            "committed": paid
            * (market.held_usd_per_h + self.committed * (market.committed_usd or 0.0)),
            "on_demand": rented / lasting_us * (market.on_demand_usd or 0.0),
            SPOT: outside[SPOT] / lasting_us * (market.spot_usd or 0.0),
            SERVERLESS: outside[SERVERLESS] / lasting_us * (market.serverless_usd or 0.0),
        }

    def _gpu_us_outside(self, begin_us: int, end_us: int) -> dict[str, float]:
        outside = self.run.gpu_us_outside(begin_us, end_us)
        is_spot = self.run.jobs.spot_us >= 0
        return {SPOT: float(outside[is_spot].sum()), SERVERLESS: float(outside[~is_spot].sum())}

    def outside_gpus(self, window_s: float) -> dict[str, float]:
        """Return the mean GPUs of spot and serverless in the window."""
        window_us = int(to_micros(window_s))
        gpu_us = self._gpu_us_outside(0, window_us)
        return {name: used / window_us for name, used in gpu_us.items()}

    def pool_gpus(self, window_s: float) -> GpusInUse:
        """Return the GPUs of the pool and of leases in use over the window, also by services."""
        window_us, run = int(to_micros(window_s)), self.run
        on_pool = run.is_on_pool
        begin_us, end_us = (
            np.clip(us[on_pool], 0, window_us) for us in (run.pool_start_us, run.finish_us)
        )
        return gpus_in_use(begin_us, end_us, run.jobs.pool_gpus[on_pool], window_us)

    def idle_usd_per_h(self, window_s: float) -> float:
        """Return the dollars an hour of GPUs on demand that hold no job in the window.

        They wait for a job or for their return, or for the rest of a gang's.
        """
        window_us, held = int(to_micros(window_s)), self.pool_gpus(window_s)
        used = held.levels.gpu_us() - held.levels.gpu_us(Fraction(self.run.cluster.fixed))
        idle_us = self.run.billed_gpu_us(0, window_us) - float(used)
        return idle_us / window_us * (self.market.on_demand_usd or 0.0)


@dataclass(frozen=True, slots=True)
class PlanRun:
    """The replay of all GPU types; arrays of the jobs of the plan, shape (n,).

    Attributes:
        columns, assigned, committed, terms, caps: as in `replay_plan`.
        types: the replay of each GPU type.
        wait_s: for GPUs of the pool, on demand, or spot.
        time_s: from submission to the end.
    """

    columns: RouteColumns
    assigned: AssignedJobs
    committed: FloatArray
    terms: RentingTerms
    caps: Mapping[str, float] | None
    types: tuple[TypeReplay, ...]
    wait_s: FloatArray
    time_s: FloatArray

    def again(self, caps: Mapping[str, float] | None, stress: SpotStress | None = None) -> PlanRun:
        """Return the replay of the same plan under other caps, or with other spot GPUs."""
        return replay_plan(
            self.columns, self.assigned, self.committed, self.terms, caps=caps, stress=stress
        )

    @property
    def is_planned(self) -> BoolArray:
        """Which jobs are not deferred: their times count."""
        return ~self.columns.jobs.is_deferred

    def usd_per_month(
        self, begin_s: float = 0.0, end_s: float | None = None, *, drains: bool = False
    ) -> float:
        """Return dollars a month between two times; an end of None is that of the window.

        With ``drains`` what is paid after it counts too: under a cap jobs may end much later.
        """
        end_s = self.columns.bins.window_s if end_s is None else end_s
        by_type = (sum(of.usd_per_h(begin_s, end_s, drains=drains).values()) for of in self.types)
        return sum(by_type) * MONTH_H

    def measured_s(
        self, target: TimeTarget, begin_s: float = 0.0, among: BoolArray | None = None
    ) -> float:
        """Return what jobs submitted from some time on came to, as a target measures it.

        Args:
            target: its measure.
            begin_s: seconds after the first submission.
            among: jobs that count; None for all that are not deferred; shape (n,).
        """
        among = self.is_planned if among is None else among
        counted = among & (self.columns.jobs.submit_s >= begin_s)
        times = (self.wait_s if target.is_of_waits else self.time_s)[counted]
        if not times.size:
            return 0.0
        return float(times.mean()) if target.percent is None else percentile(times, target.percent)

    def means_s(self, begin_s: float = 0.0, among: BoolArray | None = None) -> dict[str, float]:
        """Return mean time, mean wait and P95 of waits, as results name them; see `measured_s`."""
        return {
            name: self.measured_s(target, begin_s, among)
            for name, target in TIMES_OF_RESULTS.items()
        }

    @property
    def peak_leased(self) -> int:
        """Most GPUs on demand at once, of each type by itself."""
        return sum(of.run.peak_leased for of in self.types)


def replay_plan(
    columns: RouteColumns,
    assigned: AssignedJobs,
    committed: FloatArray,
    terms: RentingTerms,
    *,
    caps: Mapping[str, float] | None = None,
    stress: SpotStress | None = None,
) -> PlanRun:
    """Replay jobs as they are assigned to routes.

    Args:
        columns: the routes, with the jobs.
        assigned: the route of each job; one without a route runs as recorded, or is deferred.
        committed: GPUs committed to, by type.
        terms: how GPUs on demand are had.
        caps: most GPUs owned, committed and on demand, by type; None for those of the markets.
        stress: of spot GPUs; None for what the plan assumes.

    Raises:
        InfeasibleError: a job is wider than what can be had; `TooWideError` where that is only a
            commitment.
        UsageError: times are too long for 64 bits.
    """
    jobs, stress = columns.jobs, stress or SpotStress()
    is_spot = assigned.is_on(SPOT)
    wait_s, time_s = np.zeros((2, jobs.size))
    types = []
    for number, gpu_type, market, of_type in columns.by_type():
        rows = np.flatnonzero(of_type)
        joint = _joint_jobs(columns, assigned, rows, is_spot, market, stress, terms.seed)
        fixed = market.standing + float(committed[number])
        joint, is_job = with_services(joint, columns.services.get(gpu_type), columns.bins)
        cap = market.cap if caps is None else caps.get(gpu_type)
        cluster = _cluster(market, fixed, cap, terms, columns.settings, stress)
        try:
            run = run_plan(joint, cluster, f"plan {gpu_type}".strip())
        except TimeOverflow as error:
            raise UsageError(f"the plan cannot be replayed: {error}") from error
        except ValueError as error:
            if caps is not None:
                of_gpus = f" for {gpu_type}" if gpu_type else ""
                raise InfeasibleError(f"{error} under its cap{of_gpus}") from error
            what = f"{gpu_type or 'the plan'} cannot be replayed: {error}"
            if market.on_demand_usd is None:
                raise TooWideError(f"{what}\n  next: --on-demand USD") from error
            none = "" if cap else " (types that --cluster does not name have none)"
            raise InfeasibleError(
                f"--cluster: {what}{none if gpu_type else ''}\n"
                f"  next: --cluster {least_cluster(columns)} or more, or --where to leave such "
                "jobs out"
            ) from error
        wait_s[rows], time_s[rows] = run.waited_us[is_job] / MICROS, run.jct_us[is_job] / MICROS
        types.append(TypeReplay(gpu_type, market, float(committed[number]), run))
    return PlanRun(columns, assigned, committed, terms, caps, tuple(types), wait_s, time_s)


def deferred_start_s(
    columns: RouteColumns, assigned: AssignedJobs, committed: FloatArray
) -> FloatArray:
    """Return when jobs start if GPUs on demand are had and returned at once.

    A deferred job starts when it fits the idle GPUs of the pool, or when it is due; all others
    start when they are submitted. Seconds after the first submission; shape (n,).

    Args:
        columns: the routes, with the jobs.
        assigned: the route of each job.
        committed: GPUs committed to, by type.
    """
    jobs = columns.jobs
    start_s = jobs.submit_s.copy()
    elsewhere = assigned.is_on(SPOT)
    for number, gpu_type, market, of_type in columns.by_type():
        rows = np.flatnonzero(of_type & ~elsewhere)
        later = jobs.is_deferred[rows]
        if not later.any():
            continue
        joint = _joint_jobs(columns, assigned, rows, elsewhere, market, SpotStress(), 0)
        joint, is_job = with_services(joint, columns.services.get(gpu_type), columns.bins)
        fixed = market.standing + float(committed[number])
        run = run_plan(joint, JointCluster(fixed), f"deferred {gpu_type}".strip())
        start_s[rows[later]] = run.start_us[is_job][later] / MICROS
    return start_s


def _cluster(
    market: GpuMarkets,
    fixed: float,
    cap: float | None,
    terms: RentingTerms,
    settings: RouteSettings,
    stress: SpotStress,
) -> JointCluster:
    if market.on_demand_usd is None:
        cap = fixed
    gone = [] if stress.gone_s is None else [stress.gone_s]
    if market.spot_record is not None:
        gone = list(joined([*gone, *market.spot_record.gone_s]))
    return JointCluster(
        fixed=fixed,
        most=cap,
        node=market.step,
        provision_us=int(to_micros(terms.provision_s)),
        release_us=int(to_micros(terms.release_s)),
        billing_us=max(1, int(to_micros(terms.billing_s))),
        checkpoint_us=int(to_micros(settings.spot_checkpoint_s)),
        restart_us=int(to_micros(settings.spot_restart_s)),
        gone_us=to_micros(np.array(gone, np.float64).reshape(-1, 2)),
        policy=terms.policy,
    )


def _joint_jobs(
    columns: RouteColumns,
    assigned: AssignedJobs,
    rows: IntArray,
    is_spot: BoolArray,
    market: GpuMarkets,
    stress: SpotStress,
    seed: int,
) -> JointJobs:
    """Return the jobs of one type as the simulator takes them."""
    jobs, settings = columns.jobs, columns.settings
    submit_s, run_s, gpus = jobs.submit_s[rows], jobs.run_s[rows], jobs.gpus[rows]
    on_spot, deferred = is_spot[rows], jobs.is_deferred[rows]
    time_s = assigned.time_s[rows]
    outside_s = np.where(on_spot, 0.0, assigned.outside_s[rows])
    on_pool = ~on_spot & ((outside_s == 0) | (time_s > outside_s))
    on_pool &= ~((assigned.pool_from_s[rows] > 0) & (time_s <= assigned.pool_from_s[rows]))
    none = np.full(rows.size, -1)
    submit_us, tau_us = to_micros(submit_s), np.full(rows.size, FOREVER)
    mean_us = np.full(rows.size, np.inf)
    lasting_us = to_micros(LASTS_AT_MOST * (run_s + settings.spot_restart_s))
    per_us = settings.hazard_per_s * stress.hazard_times / MICROS
    if on_spot.any():
        tau_us = np.where(on_spot, to_micros(assigned.tau_s[rows]), tau_us)
        if per_us > 0 and market.spot_record is None:
            nodes = np.ceil(gpus / market.gpus_per_node)
            mean_us = np.where(on_spot, 1 / (per_us * nodes), np.inf)
    due_us = to_micros(submit_s + columns.within_s) if deferred.any() else none
    loss_us, first_loss = draw_losses(rows, submit_us, submit_us + lasting_us, mean_us, seed)
    return JointJobs(
        submit_us=submit_us,
        gpus=gpus,
        outside_us=to_micros(outside_s),
        pool_us=np.where(on_pool, to_micros(time_s - outside_s), none),
        pool_gpus=assigned.pool_gpus[rows],
        due_us=np.where(deferred, due_us, none),
        spot_us=np.where(on_spot, to_micros(run_s), none),
        tau_us=np.maximum(1, tau_us),
        loss_us=loss_us,
        first_loss=first_loss,
    )


def with_services(
    jobs: JointJobs, load: ServiceLoad | None, bins: TimeBins
) -> tuple[JointJobs, BoolArray]:
    """Return jobs with services among them, before jobs of the same instant, and which are jobs.

    Services hold whole GPUs, as many in a bin as its mean rounded up.
    """
    if load is None:
        return jobs, np.ones(jobs.size, bool)
    begin_s, end_s, gpus = load.intervals(bins)
    count = begin_s.size
    held = gpus.astype(np.float64)
    none, nothing = np.full(count, -1), np.zeros(count, np.int64)
    services = {
        "submit_us": to_micros(begin_s),
        "gpus": held,
        "outside_us": nothing,
        "pool_us": to_micros(end_s - begin_s),
        "pool_gpus": held,
        "due_us": none,
        "spot_us": none,
        "tau_us": np.full(count, FOREVER),
    }
    both = {name: np.append(values, getattr(jobs, name)) for name, values in services.items()}
    order = np.argsort(both["submit_us"], kind="stable")
    lost = np.append(nothing, np.diff(jobs.first_loss))[order]
    mixed = {name: values[order] for name, values in both.items()}
    first_loss = np.append(0, np.cumsum(lost))
    return JointJobs(loss_us=jobs.loss_us, first_loss=first_loss, **mixed), order >= count
