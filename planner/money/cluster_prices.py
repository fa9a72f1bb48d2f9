"""What the GPUs of a cluster cost: those owned and committed in any case, others pay-per-use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.planner.money.bill_today import pools_usd_per_h
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import NO_PRICE, MissingPrice
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.run import Leases
from gpuplan.simkit.time import MICROS_PER_HOUR


@dataclass(frozen=True, slots=True)
class ClusterPrices:
    """The prices of the GPUs that policies run jobs on, as `gpuplan size` pays them.

    Attributes:
        prices: of the time that counts; its pools are paid for whether they are used or not.
        gpu_h: GPU-hours of the jobs by type, by which a GPU of any type has the mean price.
    """

    prices: Prices
    gpu_h: Mapping[str | None, float]

    @property
    def has_pools(self) -> bool:
        """Whether GPUs are owned or committed to."""
        return bool(self.prices.pools_now)

    @property
    def mean_pool_usd(self) -> float:
        """What an hour of a GPU owned or committed to costs; 0 without any."""
        gpus = sum(pool.gpus for pool in self.prices.pools_now)
        return pools_usd_per_h(self.prices) / gpus if gpus else 0.0

    def usd_per_h(self, gpus_by_type: Mapping[str | None, int]) -> float:
        """Return what GPUs cost an hour, busy or not; the name None is of GPUs of any type.

        Types without a price of their own have the mean price.

        Raises:
            UsageError: GPUs above those owned and committed have no price.
        """
        usd = pools_usd_per_h(self.prices)
        for gpu_type, gpus in gpus_by_type.items():
            if (above := gpus - self._pool_gpus(gpu_type)) > 0:
                usd += above * self._pay_per_use_usd(gpu_type)
        return usd

    def leases_usd(self, leases: Leases, window_us: PeriodUs) -> float:
        """Return what GPUs rented as needed cost in a window, and beyond it where they last.

        Raises as `usd_per_h`.
        """
        begin_us = min(window_us[0], int(leases.begin_us.min(initial=window_us[0])))
        end_us = max(window_us[1], int(leases.end_us.max(initial=window_us[1])))
        usd = pools_usd_per_h(self.prices) * (end_us - begin_us) / MICROS_PER_HOUR
        hours, gpus = _levels(leases)
        above_gpu_h = float(hours @ np.maximum(gpus - self._pool_gpus(None), 0))
        if above_gpu_h:
            usd += above_gpu_h * self._pay_per_use_usd(None)
        return usd

    def unpriced(self, gpus_by_type: Mapping[str | None, int]) -> list[str]:
        """Return the types of which GPUs have the mean price, as they have none of their own."""
        return [
            name
            for name, gpus in gpus_by_type.items()
            if name and gpus > self._pool_gpus(name) and self.prices.usd(name) is None
        ]

    def _pay_per_use_usd(self, gpu_type: str | None) -> float:
        usd = None if gpu_type is None else self.prices.usd(gpu_type)
        usd = self.prices.mean(self.gpu_h) if usd is None else usd
        if usd is None:
            self.prices.check(self.gpu_h)
            raise MissingPrice(NO_PRICE)
        return usd

    def _pool_gpus(self, gpu_type: str | None) -> int:
        """Return the GPUs of a type that are owned or committed to; None for those of the jobs."""
        types = self.gpu_h if gpu_type is None else (gpu_type,)
        names = {pool.gpu_type for name in types for pool in self.prices.pools(name)}
        return sum(pool.gpus for pool in self.prices.pools_now if pool.gpu_type in names)


def _levels(leases: Leases) -> tuple[FloatArray, IntArray]:
    """Return the hours between any begin or end of a lease, and the GPUs rented in each."""
    time_us = np.concatenate((leases.begin_us, leases.end_us))
    step = np.concatenate((leases.gpus, -leases.gpus))
    order = np.argsort(time_us, kind="stable")
    hours = np.diff(time_us[order]) / MICROS_PER_HOUR
    return hours, np.cumsum(step[order])[:-1]
