"""What a run of Allpass or a variant measures, and what it is charged within a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.planner.policies.cluster_replay import RentedParts
from gpuplan.planner.runs.simulation import job_times
from gpuplan.planner.runs.window import share_within
from gpuplan.simkit.allpass.allpass_run import AllpassRun
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.steps import peak_overlap, time_average
from gpuplan.simkit.time import MICROS


@dataclass(frozen=True, slots=True)
class AllpassBill:
    """The bill of a run, US dollars.

    A rental or a container that lasts beyond the window counts by the share of its time within.

    Attributes:
        serverless_usd: containers, by job; shape (n,).
        rental_usd: workers, by rental; shape (k,).
        if_serverless_usd: containers had every job stayed in its own; shape (n,).
        jobs_usd: containers plus a share of all rentals in proportion to worker time; shape (n,).
        paid_s: GPU time that counts, in containers and on workers, in GPU x seconds.
    """

    serverless_usd: FloatArray
    rental_usd: FloatArray
    if_serverless_usd: FloatArray
    jobs_usd: FloatArray
    paid_s: float

    @property
    def usd(self) -> float:
        """All of it."""
        return float(self.serverless_usd.sum()) + float(self.rental_usd.sum())


def bill_of_allpass(run: AllpassRun, window_us: PeriodUs | None = None) -> AllpassBill:
    """Return the bill within a window; None charges everything."""
    rentals = run.rentals
    containers, services = run.container_us, run.workload.service_us
    held = rentals.release_us - rentals.request_us
    end_us = run.end_us if window_us is None else window_us[1]
    in_container = _share_before(run.start_us, containers, end_us)
    if_in_container = _share_before(run.start_us, services, end_us)
    on_worker = _share_before(rentals.request_us, held, end_us)
    if window_us is None:
        in_container[:] = if_in_container[:] = on_worker[:] = 1.0
    serverless = run.serverless_usd * in_container
    rented = run.rental_usd * on_worker
    shares = run.worker_us.astype(np.float64)
    if not shares.any():  # no job ever used a worker
        shares = np.ones(shares.size)
    return AllpassBill(
        serverless_usd=serverless,
        rental_usd=rented,
        if_serverless_usd=run.if_serverless_usd * if_in_container,
        jobs_usd=serverless + rented.sum() * shares / shares.sum(),
        paid_s=float((_seconds(containers * in_container) * run.workload.billed_gpus).sum())
        + float(_seconds(held * on_worker).sum()),
    )


def _share_before(begin_us: IntArray, lasting_us: IntArray, end_us: int) -> FloatArray:
    """Return the share of each interval before an instant; one of no length is in or out."""
    before = np.clip(end_us - begin_us, 0, lasting_us).astype(np.float64)
    is_in = (begin_us <= end_us).astype(np.float64)
    share: FloatArray = np.divide(before, lasting_us, out=is_in, where=lasting_us > 0)
    return share


@dataclass(frozen=True, kw_only=True)
class TwoTierResults(RentedParts):
    """What Allpass and its variants measure; each is without what says nothing of it.

    Attributes:
        mean_startup_s: start-up of containers.
        mean_container_queue_s: wait for containers under a limit, part of the queue.
        mean_demotion_s: checkpoints and restores of jobs that leave their containers.
        cost_if_serverless_usd: the bill had every job stayed in its container.
        cost_serverless_usd: the part of the bill that is for containers.
        finished_serverless_share: jobs that ended in their containers.
        never_demotable_jobs: jobs wider than the capacity, which stay in their containers.
        mean_threshold_s: run time after which a job leaves its container, mean over time; null
            where it is infinite.
        workers_peak, workers_mean: rented GPUs from request to release, most at once and mean.
        worker_busy_share: share of the time of rented GPUs in which jobs use them.
        reclaimed_workers: workers that the marketplace took back.
        mean_marketplace_usd_per_gpu_h: mean price of marketplace GPUs; null without any.
    """

    mean_startup_s: float | UnsetType = UNSET
    mean_container_queue_s: float | UnsetType = UNSET
    mean_demotion_s: float | UnsetType = UNSET
    cost_if_serverless_usd: float | UnsetType = UNSET
    cost_serverless_usd: float | UnsetType = UNSET
    finished_serverless_share: float | UnsetType = UNSET
    never_demotable_jobs: int | UnsetType = UNSET
    mean_threshold_s: float | UnsetType = UNSET
    workers_peak: int | UnsetType = UNSET
    workers_mean: float | UnsetType = UNSET
    worker_busy_share: float | UnsetType | None = UNSET
    reclaimed_workers: int | UnsetType = UNSET
    mean_marketplace_usd_per_gpu_h: float | UnsetType | None = UNSET


def two_tier_results(run: AllpassRun, bill: AllpassBill) -> TwoTierResults:
    """Return what a run measured, charged as its bill says.

    Waiting is split into ``startup`` (of containers), ``queue`` (for containers under a limit,
    ``container_queue``, and for workers) and ``demotion`` (checkpoint and restore); JQT is the
    first two. Means are over all jobs, workers are counted from request to release.
    """
    work, rentals, capacity = run.workload, run.rentals, run.parameters.capacity
    market = rentals.offer >= 0
    held_s = _seconds(rentals.release_us - rentals.request_us)
    end_s = float(_seconds(run.end_us))
    return TwoTierResults(
        mean_startup_s=_mean_s(run.startup_us),
        mean_container_queue_s=_mean_s(run.start_us - work.submit_us - run.startup_us),
        mean_demotion_s=_mean_s(run.demotion_us),
        cost_if_serverless_usd=float(bill.if_serverless_usd.sum()),
        cost_serverless_usd=float(bill.serverless_usd.sum()),
        cost_marketplace_usd=float(bill.rental_usd[market].sum()),
        cost_conventional_usd=float(bill.rental_usd[~market].sum()),
        finished_serverless_share=float(1 - run.demoted.mean()),
        never_demotable_jobs=0 if capacity is None else int((work.gpus > capacity).sum()),
        mean_threshold_s=mean_threshold_s(run),
        workers_peak=peak_overlap(rentals.request_us, rentals.release_us),
        workers_mean=float(held_s.sum() / end_s) if end_s else 0.0,
        worker_busy_share=_share(_seconds(rentals.busy_us).sum(), held_s.sum()),
        reclaimed_workers=int(rentals.reclaimed.sum()),
        mean_marketplace_usd_per_gpu_h=_share(
            rentals.metered_usd[market].sum(), held_s[market].sum() / 3600
        ),
    )


def measure(run: AllpassRun, window_us: PeriodUs | None = None) -> dict[str, Any]:
    """Return the numbers of a run that a sweep compares; a window of None charges everything."""
    work, bill = run.workload, bill_of_allpass(run, window_us)
    tiers = two_tier_results(run, bill)
    gpu_s, paid_s = float((_seconds(work.service_us) * work.billed_gpus).sum()), bill.paid_s
    return {
        **job_times(run, work),
        **fields_of(tiers),
        "mean_service_s": _mean_s(work.service_us),
        "mean_jqt_s": _mean_s(run.waited_us),
        "mean_queue_s": _mean_s(run.queue_us),
        "cost_usd": bill.usd,
        "gpu_h": gpu_s / 3600,
        "utilization": _share(gpu_s * share_within(run, window_us), paid_s),
        "paid_gpu_h": paid_s / 3600,
    }


def mean_threshold_s(run: AllpassRun) -> float:
    """Return the time average of the threshold, seconds; inf where it is."""
    first = run.parameters.threshold_s
    if run.parameters.controller == "fixed" or run.timeline.time_us.size == 0:
        return first
    time_s = np.concatenate(([0.0], _seconds(run.timeline.time_us)))
    value_s = np.concatenate(([first], _seconds(run.timeline.threshold_us)))
    return time_average(time_s, value_s, float(_seconds(run.end_us)))


def _seconds(micros: Any) -> Any:
    return np.asarray(micros) / MICROS


def _mean_s(micros: Any) -> float:
    return float(micros.mean() / MICROS)


def _share(part: Any, total: Any) -> float | None:
    return float(part / total) if total else None
