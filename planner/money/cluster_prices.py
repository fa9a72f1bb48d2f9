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
        prices: the book at the end of the log; its pools are paid for whether they are used or not.
        gpu_h: GPU-hours of the jobs by type: they weigh the price of a GPU of no certain type.
        pays_pools: whether pools are counted; else only what is above them.
    """

    prices: Prices
    gpu_h: Mapping[str | None, float]
    pays_pools: bool = True

    @property
    def has_pools(self) -> bool:
        """Whether GPUs are owned or committed to."""
        return bool(self.prices.pools_now)

    @property
    def mean_pool_usd(self) -> float:
        """What an hour of a GPU owned or committed to costs; 0 without any."""
        gpus = sum(pool.gpus for pool in self.prices.pools_now)
        return pools_usd_per_h(self.prices) / gpus if gpus else 0.0

    def usd_per_h(self, gpus_by_type: Mapping[str | None, int], *, or_mean: bool = False) -> float:
        """Return what GPUs cost an hour, busy or not; the name None is of GPUs of any type.

        Args:
            gpus_by_type: GPUs of each type.
            or_mean: whether a type without a price has the mean price.

        Raises:
            UsageError: GPUs above those owned and committed have no price, or a pool may be of
                several of the types.
        """
        above = self.prices.above_pools(_named(gpus_by_type))
        if None in gpus_by_type:
            above[None] = max(gpus_by_type[None] - self._pool_gpus(), 0)
        usd = self._pools_usd_per_h()
        return usd + sum(
            gpus * self._pay_per_use_usd(name, or_mean=or_mean)
            for name, gpus in above.items()
            if gpus
        )

    def mean_usd(self) -> float:
        """Return the mean pay-per-use price of the jobs. Raises `UsageError` where it has none."""
        usd = self.prices.mean(self.gpu_h)
        if usd is None:
            self.prices.check(self.gpu_h)
            raise MissingPrice(NO_PRICE)
        return usd

    def leases_usd(self, leases: Leases, window_us: PeriodUs) -> float:
        """Return what GPUs rented as needed cost in a window, and beyond it where they last.

        Raises as `usd_per_h`.
        """
        begin_us = min(window_us[0], int(leases.begin_us.min(initial=window_us[0])))
        end_us = max(window_us[1], int(leases.end_us.max(initial=window_us[1])))
        usd = self._pools_usd_per_h() * (end_us - begin_us) / MICROS_PER_HOUR
        hours, gpus = _levels(leases)
        above_gpu_h = float(hours @ np.maximum(gpus - self._pool_gpus(), 0))
        if above_gpu_h:
            usd += above_gpu_h * self.mean_usd()
        return usd

    def unpriced(self, gpus_by_type: Mapping[str | None, int]) -> list[str]:
        """Return the types of which GPUs have the mean price, as they have none of their own."""
        above = self.prices.above_pools(_named(gpus_by_type))
        return [name for name in above if name and above[name] and self.prices.usd(name) is None]

    def _pools_usd_per_h(self) -> float:
        return pools_usd_per_h(self.prices) if self.pays_pools else 0.0

    def _pay_per_use_usd(self, gpu_type: str | None, *, or_mean: bool) -> float:
        if gpu_type is None or (or_mean and self.prices.usd(gpu_type) is None):
            return self.mean_usd()
        return self.prices.of(gpu_type).usd_per_gpu_h

    def _pool_gpus(self) -> int:
        """Return the GPUs owned or committed to of the types of the jobs."""
        names = {pool.gpu_type for name in self.gpu_h for pool in self.prices.pools(name)}
        return sum(pool.gpus for pool in self.prices.pools_now if pool.gpu_type in names)


def _named(gpus_by_type: Mapping[str | None, int]) -> dict[str | None, int]:
    return {name: gpus for name, gpus in gpus_by_type.items() if name is not None}


def _levels(leases: Leases) -> tuple[FloatArray, IntArray]:
    """Return the hours between any begin or end of a lease, and the GPUs rented in each."""
    time_us = np.concatenate((leases.begin_us, leases.end_us))
    step = np.concatenate((leases.gpus, -leases.gpus))
    order = np.argsort(time_us, kind="stable")
    hours = np.diff(time_us[order]) / MICROS_PER_HOUR
    return hours, np.cumsum(step[order])[:-1]
