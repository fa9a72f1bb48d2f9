"""What a plan or a replay has in common with today's bill, so that their dollars compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.money.bill_today import pools_usd_per_h
from gpuplan.planner.money.price_book import Prices


@dataclass(frozen=True, slots=True)
class TodaysBasis:
    """What makes the dollars of budgets and today's bill add up: they have one basis.

    Today's GPUs cost today's bill; GPUs more or fewer cost their price. Where the bill is the price
    times the GPUs, both terms are 0.

    Attributes:
        other_usd_per_h: today's bill less today's GPUs at the price; below 0 where these are paid
            for at a lower rate.
        least_usd_per_h: of GPUs owned and committed, which are paid for in any case.
    """

    other_usd_per_h: float = 0.0
    least_usd_per_h: float = 0.0

    def usd_per_h(self, gpus: float, usd_per_gpu_h: float) -> float:
        """Return what average GPUs cost an hour."""
        return max(self.least_usd_per_h, gpus * usd_per_gpu_h + self.other_usd_per_h)

    def gpus(self, usd_per_h: float, usd_per_gpu_h: float) -> float:
        """Return the average GPUs for dollars an hour; 0 for less than what is paid in any case."""
        if usd_per_h < self.least_usd_per_h:
            return 0.0
        return max(0.0, (usd_per_h - self.other_usd_per_h) / usd_per_gpu_h)


NO_BASIS = TodaysBasis()


def todays_basis(
    now: Today | None, usd_per_gpu_h: float, prices: Prices, gpu_h: Mapping[str | None, float]
) -> TodaysBasis:
    """Return what dollars have in common with today's bill, where that is a ledger's.

    Args:
        now: what the log shows, billed.
        usd_per_gpu_h: of GPUs more or fewer than today's.
        prices: the price book.
        gpu_h: GPU-hours of the log by type.
    """
    if now is None or now.usage.usd_per_month is None or prices.is_flat(gpu_h):
        return NO_BASIS
    usd_per_h = now.usage.usd_per_month / MONTH_H
    other_usd_per_h = usd_per_h - now.usage.mean_gpus * usd_per_gpu_h
    return TodaysBasis(other_usd_per_h, min(pools_usd_per_h(prices), usd_per_h))


def pay_per_use(now: Today, prices: Prices) -> float:
    """Return what the GPUs held today cost a month at the prices of pay-per-use alone."""
    each = ((prices.usd(gpu_type), gpu_h) for gpu_type, gpu_h in now.gpu_h_by_type().items())
    return (
        sum(usd * gpu_h for usd, gpu_h in each if usd is not None) / now.window_s * 3600 * MONTH_H
    )
