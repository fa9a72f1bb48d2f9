"""The options of replays that lend GPUs as spot: which jobs are spot, and what spot pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.options.replays import Spot
from gpuplan.cli.options.shared_options import PRICES_PANEL

if TYPE_CHECKING:
    from gpuplan.planner.studies.replay import ReplayRequest


@dataclass(frozen=True, slots=True)
class LendingChoice:
    """Which jobs are spot, and what they pay."""

    spot: Spot = None
    spot_price: Annotated[
        float | None,
        typer.Option(
            "--spot-price",
            help="What an hour of a spot GPU earns, in dollars. Default: 30% of the GPU's price.",
            min=0.0,
            metavar="USD",
            rich_help_panel=PRICES_PANEL,
            show_default=False,
        ),
    ] = None

    def marked(self, request: ReplayRequest) -> ReplayRequest:
        """Return a request whose spot jobs are those of ``--spot``."""
        return replace(request, jobs=replace(request.jobs, spot=self.spot))

    def settings(self, policies: Sequence[str], given: Sequence[str] | None) -> list[str]:
        """Return the texts of ``--set`` with the price.

        Raises `UsageError` where ``--spot`` or the price is given and no policy lends.

        Args:
            policies: as typed.
            given: texts of ``--set``.
        """
        if self.spot_price is None and self.spot is None:
            return list(given or [])
        from gpuplan.analysis.base.errors import UsageError
        from gpuplan.planner.policies.spot.settings import lends
        from gpuplan.planner.registry import BESIDE_LENDING, find_policy

        named = [find_policy(text.partition(":")[0].strip()) for text in policies]
        if not any(lends(one.settings) for one in named):
            option = "--spot" if self.spot_price is None else "--spot-price"
            who = f"{policies[0]} lends" if len(policies) == 1 else f"{', '.join(policies)} lend"
            instead = next((BESIDE_LENDING.get(one.name) for one in named), None) or "gfs"
            raise UsageError(f"{option}: {who} no GPUs\n  next: --policy {instead}")
        if self.spot_price is None:
            return list(given or [])
        return [*(given or []), f"spot_usd_per_gpu_h={self.spot_price!r}"]
