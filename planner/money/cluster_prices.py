"""What the GPUs of a cluster cost: those owned and committed in any case, others pay-per-use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuplan.planner.money.bill_today import pools_usd_per_h
from gpuplan.planner.money.price_book import Prices
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.run import Leases
from gpuplan.simkit.time import MICROS_PER_HOUR


@dataclass(frozen=True, slots=True)
class ClusterPrices:
    """The prices of the GPUs that policies run jobs on, as `gpuplan size` pays them.

    Attributes:
        prices: of the time that counts; its pools are paid for whether they are used or not.
        mean_usd: pay-per-use price of a GPU-hour of any type.
        only_type: GPU type of all jobs; None where they have several, or name none.
    """

    prices: Prices
    mean_usd: float
    only_type: str | None = None

    @classmethod
    def of(
        cls, prices: Prices, mean_usd: float, gpu_h: Mapping[str | None, float]
    ) -> ClusterPrices:
        """Return the prices for jobs with GPU-hours by type."""
        return cls(prices, mean_usd, next(iter(gpu_h)) if len(gpu_h) == 1 else None)

    @property
    def anyway_usd_per_h(self) -> float:
        """What GPUs owned and committed cost an hour."""
        return pools_usd_per_h(self.prices)

    def usd(self, gpu_type: str | None) -> float | None:
        """Return the pay-per-use price of a type; None where it has none."""
        return self.mean_usd if gpu_type is None else self.prices.usd(gpu_type)

    def usd_per_h(self, gpus_by_type: Mapping[str | None, int]) -> float:
        """Return what GPUs cost an hour, busy or not; the name None is of GPUs of any type.

        Types without a price have the mean price.
        """
        above_usd = 0.0
        for gpu_type, gpus in gpus_by_type.items():
            usd = self.usd(gpu_type)
            above = max(gpus - self._paid_gpus(gpu_type), 0)
            above_usd += above * (self.mean_usd if usd is None else usd)
        return self.anyway_usd_per_h + above_usd

    def usd_of(self, leases: Leases) -> float:
        """Return what GPUs rented as needed cost from the first lease to the end of the last."""
        if not leases.begin_us.size:
            return 0.0
        hours, gpus = _levels(leases)
        above = np.maximum(gpus - self._paid_gpus(None), 0)
        return float(hours.sum()) * self.anyway_usd_per_h + float(hours @ above) * self.mean_usd

    def _paid_gpus(self, gpu_type: str | None) -> int:
        """Return the GPUs of a type that are paid for in any case; None for any type."""
        name = self.only_type if gpu_type is None else gpu_type
        pools = self.prices.pools_now if name is None else self.prices.pools(name)
        return sum(pool.gpus for pool in pools)


def _levels(leases: Leases) -> tuple[FloatArray, IntArray]:
    """Return the hours between any begin or end of a lease, and the GPUs rented in each."""
    time_us = np.concatenate((leases.begin_us, leases.end_us))
    step = np.concatenate((leases.gpus, -leases.gpus))
    order = np.argsort(time_us, kind="stable")
    hours = np.diff(time_us[order]) / MICROS_PER_HOUR
    return hours, np.cumsum(step[order])[:-1]
