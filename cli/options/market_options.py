"""Options of replays that rent: prices over time, checkpoints by class, the time line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.formats.report import Input
from gpuplan.cli.options.outputs import WriteFile, check_output, check_suffix
from gpuplan.cli.options.shared_options import Output

if TYPE_CHECKING:
    import polars as pl

    from gpuplan.analysis.prices.book import PriceBook

MOST_GPUS = 1 << 24  # that of gpuplan.simkit.workload, which takes long to import


@dataclass(frozen=True, slots=True)
class MarketFiles:
    """What the files of a `MarketChoice` say.

    Attributes:
        inputs: the files.
        book: the prices; None for the built-in list, or where none were asked for.
        overheads: seconds to save and to load a job by class; None where nobody said.
        parameters: what goes under ``parameters`` in the JSON output.
    """

    inputs: tuple[Input, ...]
    book: PriceBook | None
    overheads: Mapping[str, tuple[float, float]] | None
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MarketChoice:
    """What GPUs cost, and what it takes to move or stop a job."""

    prices: Annotated[
        str | None,
        typer.Option(
            help="What GPUs cost: a price table of [bold]gpuplan prices[/bold] (.parquet), whose "
            "offers the marketplace follows over time, or [bold]builtin[/bold] for the list that "
            "comes with gpuplan; for example with --set gpu=A100-80GB --set provider=vast.",
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

    def open(self) -> MarketFiles:
        """Read the files. Raises `InputError` where one cannot be used."""
        from gpuplan.analysis.files import sha256_of

        inputs: tuple[Input, ...] = ()
        book = overheads = None
        if self.checkpoints is not None:
            from gpuplan.analysis.user_tables.checkpoints import read_checkpoints

            overheads = read_checkpoints(self.checkpoints)
            digest = sha256_of(self.checkpoints)
            inputs = (Input(str(self.checkpoints), digest, len(overheads)),)
        if self.prices is not None:
            from gpuplan.analysis.prices.book import read_prices
            from gpuplan.analysis.prices.view import BUILT_IN

            if self.prices != BUILT_IN:
                book = read_prices(Path(self.prices))
                inputs = (*inputs, Input(str(book.path), book.sha256, book.rows))
        parameters = {
            "prices": self.prices,
            "checkpoints": self.checkpoints and str(self.checkpoints),
        }
        return MarketFiles(inputs, book, overheads, parameters)


def check_checkpoints(policies: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse ``--checkpoints`` where no policy saves and loads jobs under its settings.

    Raises `UsageError`.
    """
    if not any("restore_s" in own and own.get("preemptive", True) for own in policies.values()):
        raise UsageError(
            f"--checkpoints: none of {', '.join(policies)} moves or stops jobs\n  next: a policy "
            "that does (gpuplan list policies), or --set preemptive=true"
        )


def price_choice(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings choose among prices, for the JSON output."""
    from gpuplan.planner.runs.settings import OF_PRICES

    return {name: settings[name] for name in OF_PRICES if settings.get(name)}


@dataclass(frozen=True, slots=True)
class TimelineChoice:
    """Where the time line goes."""

    timeline: Annotated[
        Path | None,
        typer.Option(
            help="Write what happened over time to this file (.parquet). Policies that rent: "
            "at every tick threshold, pressure, queue, workers by provider, offers, price paid; "
            "those of one cluster: GPUs in use and jobs waiting.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None

    def check(self, output: Output, trace: Path, market: MarketChoice) -> None:
        """Refuse outputs of a replay that cannot be written, or that would replace its inputs.

        Raises:
            UsageError: another kind of file than can be written.
            OutputError: as `gpuplan.cli.options.outputs.check_output`.
        """
        check_output(
            output,
            picture=True,
            rows=True,
            inputs=[trace, market.prices, market.checkpoints],
            others=[self.timeline],
        )
        check_suffix("--timeline", self.timeline, ".parquet")

    def files(self, made: Callable[[], pl.DataFrame]) -> list[tuple[Path, WriteFile]]:
        """Return the file of the time line and the function that writes it, if requested."""

        def write(path: Path) -> None:
            from gpuplan.analysis.parquet import write_parquet

            write_parquet(made(), path)

        return [] if self.timeline is None else [(self.timeline, write)]
