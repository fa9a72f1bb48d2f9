"""What a plan may buy of a GPU type, and at which price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.plan.routes import GPUS_PER_NODE
from gpuplan.planner.plan.spot_record import SpotRecord


@dataclass(frozen=True, slots=True)
class GpuMarkets:
    """The markets of one GPU type; prices are dollars per GPU-hour, None where it has no such one.

    Attributes:
        commit_usd: of a committed GPU, used or not, by term; the cheapest term is bought, as
            nothing else tells terms apart in an hourly bill.
        on_demand_usd: of a GPU rented while it is used.
        spot_usd: of a GPU that may be lost.
        serverless_usd: of a GPU of containers.
        owned: GPUs that are there and cost nothing more.
        cap: most owned and committed GPUs; None for no bound.
        node: GPUs per node; None where GPUs are bought singly.
        held: GPUs committed to before, whose term goes on.
        held_usd: price of an hour of these.
        today: GPUs of commitments in force in the price book; the plan commits anew.
        today_usd: price of an hour of these.
        spot_record: when spot GPUs were there; None where their losses are drawn.
    """

    commit_usd: Mapping[str, float]
    on_demand_usd: float | None = None
    spot_usd: float | None = None
    serverless_usd: float | None = None
    owned: float = 0.0
    cap: float | None = None
    node: int | None = None
    held: float = 0.0
    held_usd: float = 0.0
    today: float = 0.0
    today_usd: float = 0.0
    spot_record: SpotRecord | None = None

    @property
    def standing(self) -> float:
        """GPUs that are there whatever is bought: owned, or committed to before."""
        return self.owned + self.held

    @property
    def held_usd_per_h(self) -> float:
        """Dollars an hour of the commitments that were made before."""
        return self.held * self.held_usd

    @property
    def standing_today(self) -> float:
        """GPUs that are there before the plan: owned, and committed to."""
        return self.owned + (self.held or self.today)

    @property
    def today_usd_per_h(self) -> float:
        """Dollars an hour of the commitments before the plan."""
        return self.held_usd_per_h or self.today * self.today_usd

    @property
    def term(self) -> str | None:
        """The term of the cheapest commitment, of equal ones the first; None without any."""
        return min(self.commit_usd, key=lambda term: self.commit_usd[term], default=None)

    @property
    def committed_usd(self) -> float | None:
        """Price of the cheapest commitment; None without any."""
        return min(self.commit_usd.values(), default=None)

    @property
    def most_committed(self) -> float | None:
        """Most GPUs to commit to; None for no bound."""
        return None if self.cap is None else max(0.0, self.cap - self.standing)

    @property
    def gpus_per_node(self) -> int:
        """GPUs of a node on which a gang runs."""
        return self.node or GPUS_PER_NODE

    @property
    def step(self) -> int:
        """GPUs that are committed to together."""
        return self.node or 1


def check_priced(markets: Mapping[str, GpuMarkets], types: Iterable[str]) -> None:
    """Refuse a GPU type that can neither be committed to nor rented. Raises `UsageError`."""
    for gpu_type in types:
        market = markets[gpu_type]
        if market.committed_usd is None and market.on_demand_usd is None:
            name, example = (gpu_type, f"{gpu_type}=") if gpu_type else ("GPUs without a type", "")
            raise UsageError(
                f"{name}: no price to commit to it and none on demand, so nothing can be planned\n"
                f"  next: --commit {example}USD or --on-demand {example}USD per GPU-hour"
            )
