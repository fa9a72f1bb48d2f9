"""What the GPUs of a run cost within the window: one price for every GPU, or rented offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.planner.money.renting_settings import shown_terms, terms_of_rental
from gpuplan.planner.runs.window import leases_within
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.renting.billing import RentalTerms, hold_leases
from gpuplan.simkit.run import Run
from gpuplan.simkit.time import MICROS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Terms:
    """By what a cluster is paid.

    Attributes:
        usd_per_gpu_h: price of every GPU; None where they are rented.
        rented: offers, prices and billing, where they are.
    """

    usd_per_gpu_h: float | None
    rented: RentalTerms

    def effective(self) -> dict[str, Any]:
        """Return the value of every setting that counts."""
        if self.usd_per_gpu_h is not None:
            return {}
        return shown_terms(self.rented)


def terms_of(values: Mapping[str, Any]) -> Terms:
    """Return the terms in complete settings. Raises `SettingError` where prices do not ascend."""
    return Terms(values["usd_per_gpu_h"], terms_of_rental(values))


@dataclass(frozen=True, slots=True)
class ClusterBill:
    """What a cluster cost, US dollars.

    Attributes:
        whole: all of it.
        parts: by where GPUs are rented, ``marketplace`` and ``conventional``; empty where their
            price is set.
        mean_per_gpu_h: what an hour of a GPU cost on average, as it is metered; None where the
            cluster was rented for no time.
        gpu_us: GPU time that it is for, in GPU x microseconds.
    """

    whole: float
    parts: Mapping[str, float]
    mean_per_gpu_h: float | None
    gpu_us: int = 0

    def summary(self) -> dict[str, Any]:
        """Return the results; keys are stable and carry their unit."""
        parts = {f"cost_{tier}_usd": usd for tier, usd in self.parts.items()}
        return {"cost_usd": self.whole, **parts, "mean_usd_per_gpu_h": self.mean_per_gpu_h}

    def shares(self, run: Run, gpus: IntArray) -> FloatArray:
        """Return each job's share by the GPU time it held; idle GPUs are thus paid by all.

        Where no job held any, by its ``gpus``.
        """
        held = run.held_gpu_us
        if not held.any():
            held = gpus.astype(np.float64)
        shares: FloatArray = self.whole * held / held.sum()
        return shares


def bill_of(
    run: Run, terms: Terms, window_us: PeriodUs | None = None, standing_gpus: int | None = None
) -> ClusterBill:
    """Return the bill for every GPU rented within a window, whether in use or not.

    Args:
        run: what happened.
        terms: prices.
        window_us: begin and end of the window; None for all rentals.
        standing_gpus: GPUs of a cluster that stands throughout the window; None for GPUs that are
            rented as needed.
    """
    leases = leases_within(run, window_us, standing_gpus)
    gpu_us = leases.gpu_us
    gpu_h = gpu_us / MICROS_PER_HOUR
    if terms.usd_per_gpu_h is not None:
        return ClusterBill(gpu_h * terms.usd_per_gpu_h, {}, terms.usd_per_gpu_h, gpu_us)
    marketplace = conventional = metered = 0.0
    for rent in hold_leases(terms.rented, leases, int(run.submit_us[0])):
        marketplace += float(rent.billed_usd[: rent.offers].sum())
        conventional += float(rent.billed_usd[rent.offers :].sum())
        metered += float(rent.metered_usd.sum())
    parts = {"marketplace": marketplace, "conventional": conventional}
    return ClusterBill(sum(parts.values()), parts, metered / gpu_h if gpu_h else None, gpu_us)
