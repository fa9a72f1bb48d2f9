"""Options of a replay on two tiers: prices over time, checkpoints by class, the time line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.cli import talk
from gpuplan.cli.report import Input

if TYPE_CHECKING:
    from gpuplan.simkit.allpass.run import AllpassRun


@dataclass(frozen=True, slots=True)
class MarketPrices:
    """Settings with prices filled in.

    Attributes:
        settings: by name.
        inputs: the files they come from.
        notes: where the prices come from.
        parameters: what goes under ``parameters`` in the JSON output.
    """

    settings: Mapping[str, Any]
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MarketChoice:
    """What a marketplace asks, what it takes to move a job, and where the time line goes."""

    prices: Annotated[
        str | None,
        typer.Option(
            help="A price table of [bold]gpuplan prices[/bold] (.parquet) whose offers the "
            "marketplace follows over time, or [bold]builtin[/bold] for the list that comes with "
            "gpuplan; for example with --set gpu=A100-80GB --set provider=vast.",
            metavar="FILE|builtin",
            show_default=False,
        ),
    ] = None
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            help="What it takes to save and load jobs, by class: a CSV of job_class and "
            "checkpoint_s, restore_s (seconds), or state_gb, gb_per_s; class * is every other.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    timeline: Annotated[
        Path | None,
        typer.Option(
            help="Write the state at every tick to this file (.parquet): threshold, pressure, "
            "queue, workers by provider, offers, price paid.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None

    def check(self, policy: str, known: Mapping[str, Any]) -> None:
        """Refuse options that a policy of these settings has no use for. Raises `UsageError`."""
        for option, given, needed in (
            ("--prices", self.prices, "provider"),
            ("--checkpoints", self.checkpoints, "threshold_s"),
            ("--timeline", self.timeline, "serverless_usd_per_gpu_h"),
        ):
            if given is not None and needed not in known:
                raise UsageError(f"{option}: {policy} has no use for it; see gpuplan list policies")
        if self.timeline is not None and self.timeline.suffix.lower() != ".parquet":
            raise UsageError(f"--timeline {self.timeline}: expected a name that ends in .parquet")

    def fill_in(self, settings: Mapping[str, Any], first_submit_us: int | None) -> MarketPrices:
        """Return settings with the prices chosen, for a run that begins at this time.

        Raises `InputError` or `UsageError` where the prices cannot be used.
        """
        from gpuplan.analysis.files import sha256_of
        from gpuplan.planner.allpass.settings import OF_PRICES

        parameters = {
            "prices": self.prices,
            "price_choice": {name: settings[name] for name in OF_PRICES if settings.get(name)},
            "checkpoints": self.checkpoints and str(self.checkpoints),
        }
        inputs: tuple[Input, ...] = ()
        notes: tuple[str, ...] = ()
        if self.checkpoints is not None:
            from gpuplan.analysis.checkpoints import read_checkpoints

            rows = len(read_checkpoints(self.checkpoints))
            inputs = (Input(str(self.checkpoints), sha256_of(self.checkpoints), rows),)
        if self.prices is not None:
            from gpuplan.analysis.prices.book import read_prices
            from gpuplan.analysis.prices.view import BUILT_IN
            from gpuplan.planner.allpass.prices import with_prices

            book = None if self.prices == BUILT_IN else read_prices(Path(self.prices))
            found = with_prices(settings, book, first_submit_us)
            settings, notes = found.settings, found.notes
            if book is not None:
                inputs = (*inputs, Input(str(book.path), book.sha256, book.rows))
        return MarketPrices(settings, inputs, notes, parameters)

    def write(self, run: AllpassRun) -> None:
        """Write the time line where one is asked for. Raises `OutputError`."""
        if self.timeline is None:
            return
        from gpuplan.analysis.files import atomic_output
        from gpuplan.analysis.parquet import write_parquet
        from gpuplan.planner.allpass.run import timeline_frame

        with atomic_output(self.timeline) as temporary:
            write_parquet(timeline_frame(run), temporary)
        talk.note(f"wrote {self.timeline}")
