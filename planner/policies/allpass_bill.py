"""What Allpass and its variants are charged within the window of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.simkit.allpass.allpass_run import AllpassRun
from gpuplan.simkit.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class AllpassBill:
    """The bill of a run, US dollars.

    A rental or a container that lasts beyond the window counts by the share of its time within.

    Attributes:
        serverless_usd: containers, by job; shape (n,).
        rental_usd: workers, by rental; shape (k,).
        if_serverless_usd: containers had every job stayed in its own; shape (n,).
        jobs_usd: containers plus a share of all rentals in proportion to worker time; shape (n,).
        container_us: time that each container counts; shape (n,).
        worker_us: time that each rental counts; shape (k,).
    """

    serverless_usd: FloatArray
    rental_usd: FloatArray
    if_serverless_usd: FloatArray
    jobs_usd: FloatArray
    container_us: FloatArray
    worker_us: FloatArray

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
        container_us=containers * in_container,
        worker_us=held * on_worker,
    )


def _share_before(begin_us: IntArray, lasting_us: IntArray, end_us: int) -> FloatArray:
    """Return the share of each interval before an instant; one of no length is in or out."""
    before = np.clip(end_us - begin_us, 0, lasting_us).astype(np.float64)
    is_in = (begin_us <= end_us).astype(np.float64)
    share: FloatArray = np.divide(before, lasting_us, out=is_in, where=lasting_us > 0)
    return share
