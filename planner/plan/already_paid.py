"""GPUs that are paid for whatever the plan: owned at a rate, or committed to today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.prices.contracts import COMMITTED, OWNED, PaidPool
from gpuplan.planner.money.commitment_texts import CommitPrice


@dataclass(frozen=True, slots=True)
class AlreadyPaid:
    """What GPUs cost that the plan does not decide on.

    Attributes:
        owned_gpus: in force at the end of the log.
        owned_usd_per_month: at the rate at which they are owned.
        committed_gpus: under a commitment of today; the plan commits anew.
        committed_usd_per_month: that this commitment costs.
    """

    owned_gpus: int
    owned_usd_per_month: float
    committed_gpus: int
    committed_usd_per_month: float

    def check_budget(self, usd_per_h: float | None) -> None:
        """Refuse a budget below what owned GPUs cost. Raises `InfeasibleError`."""
        if usd_per_h is None or usd_per_h * MONTH_H >= self.owned_usd_per_month:
            return
        raise InfeasibleError(
            f"--budget ${usd_per_h * MONTH_H:,.0f}/month: the {self.owned_gpus:,} GPUs owned cost "
            f"${self.owned_usd_per_month:,.0f} a month already\n"
            "  next: a budget above that, or --owned TYPE=GPUS without a rate if they are paid off"
        )

    def notes(self) -> list[str]:
        """Return what the dollars of a plan leave out."""
        notes = []
        if self.owned_usd_per_month:
            notes.append(
                f"the {self.owned_gpus:,} GPUs owned cost ${self.owned_usd_per_month:,.0f} a month "
                "whatever the plan; its dollars leave that out"
            )
        if self.committed_gpus:
            notes.append(
                f"the {self.committed_gpus:,} GPUs committed to today "
                f"(${self.committed_usd_per_month:,.0f} a month) are planned anew, as if their "
                "terms had ended"
            )
        return notes


def already_paid(
    pools: Sequence[PaidPool], prices: Sequence[CommitPrice], end_us: int
) -> AlreadyPaid:
    """Return what is paid for at an instant.

    Args:
        pools: of the price book.
        prices: of commitments; those with GPUs are in force.
        end_us: the instant, microseconds since 1970.
    """
    gpus = {OWNED: 0, COMMITTED: 0}
    usd = {OWNED: 0.0, COMMITTED: 0.0}
    for pool in pools:
        if pool.from_us < end_us <= pool.until_us and pool.market in gpus:
            gpus[pool.market] += pool.gpus
            usd[pool.market] += float(pool.usd_per_gpu_h) * pool.gpus * MONTH_H
    for price in prices:
        if price.gpus:
            gpus[COMMITTED] += price.gpus
            usd[COMMITTED] += float(price.offer.usd_per_gpu_h) * price.gpus * MONTH_H
    return AlreadyPaid(gpus[OWNED], usd[OWNED], gpus[COMMITTED], usd[COMMITTED])
