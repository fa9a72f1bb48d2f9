"""What commitments on GPUs cost, as options give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from gpuplan.analysis.base.amounts import parse_usd
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.prices.contracts import COMMITTED, PaidPool
from gpuplan.planner.money.commitment_texts import CommitPrice, commit_prices, parse_commit
from gpuplan.planner.money.price_request import PriceRequest


@dataclass(frozen=True, slots=True)
class CommitmentRequest:
    """Prices of commitments, besides those of the price book."""

    PANEL: ClassVar[str] = PriceRequest.PANEL

    commit: Annotated[
        tuple[CommitPrice, ...],
        Opt(
            "Price of a committed GPU-hour, such as 0.9: with --on-demand or --contracts, also "
            "find how many GPUs to commit to. A100=0.90:1y,0.75:3y for several terms, A100=24@1.05 "
            "for 24 GPUs committed today. May be repeated.",
            key="commit_usd_per_gpu_h",
            parse=parse_commit,
            write=commit_prices,
            metavar="[TYPE=]USD[:TERM]",
            common=True,
            many=True,
        ),
    ] = ()
    on_demand: Annotated[
        Mapping[str, float],
        Opt(
            "On-demand price of a GPU-hour, next to --commit. TYPE=USD for one type; may be "
            "repeated.",
            key="on_demand_usd_per_gpu_h",
            parse=parse_usd,
            metavar="[TYPE=]USD",
            many=True,
        ),
    ] = field(default_factory=dict)

    @property
    def in_force(self) -> tuple[PaidPool, ...]:
        """The GPUs that are committed to today."""
        return tuple(
            PaidPool(COMMITTED, gpu_name(price.gpu_type), price.gpus, price.offer.usd_per_gpu_h)
            for price in self.commit
            if price.gpus
        )

    def check(self, prices: PriceRequest) -> None:
        """Refuse half of the prices of a commitment, unless a price book or list has the rest."""
        has_book = prices.contracts is not None
        has_rented = bool(self.on_demand or prices.usd_per_gpu_h or prices.prices)
        if has_book or (has_rented if self.commit else not self.on_demand):
            return
        raise UsageError(
            "--commit and --on-demand: a commitment needs both prices\n"
            "  next: the other one, or --contracts FILE.toml"
        )
