"""What commitments on GPUs cost, and which GPUs are there already, as options give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from gpuplan.analysis.base.amounts import parse_usd
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.option import Opt
from gpuplan.analysis.prices.contracts import PaidPool
from gpuplan.planner.money.commitment_texts import CommitPrice, commit_prices, parse_commit
from gpuplan.planner.money.pool_texts import parse_pools, pool_texts
from gpuplan.planner.money.price_request import PriceRequest


@dataclass(frozen=True, slots=True)
class CommitmentRequest:
    """Prices of commitments, and today's GPUs.

    Attributes:
        contracts: a price book, for what commitments cost and which are there today.
        commit, on_demand: prices to choose a commitment by; those of the book where not given.
        owned: GPUs that take work first, in place of those of the book.
    """

    PANEL: ClassVar[str] = PriceRequest.PANEL

    contracts: Annotated[
        Path | None,
        Opt(
            "Price book (.toml): GPUs owned, commitments and prices by date, as in gpuplan bill. "
            "Commitments are compared with those in force at the end of the log.",
            metavar="FILE.toml",
            omitted=True,
        ),
    ] = None
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
    owned: Annotated[
        tuple[PaidPool, ...],
        Opt(
            "GPUs that you own, in place of those in the price book: A100=8. They take work before "
            "committed GPUs. May be repeated.",
            parse=parse_pools,
            write=pool_texts,
            metavar="TYPE=GPUS",
            many=True,
        ),
    ] = ()

    @property
    def given(self) -> list[str]:
        """The options that are given."""
        return [name for name in ("commit", "contracts", "owned") if getattr(self, name)]

    def check(self) -> None:
        """Refuse half of the prices of a commitment. Raises `UsageError`."""
        if self.contracts is None and bool(self.commit) != bool(self.on_demand):
            raise UsageError(
                "--commit and --on-demand: a commitment needs both prices\n"
                "  next: the other one, or --contracts FILE.toml"
            )
