"""Options of replays: prices over time, checkpoints by class, the time line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.app.option_text import COMMON
from gpuplan.cli.options.outputs import WriteFile
from gpuplan.cli.options.shared_options import OUTPUT_PANEL, Output

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class MarketChoice:
    """What GPUs cost, and what it takes to move or stop a job."""

    prices: Annotated[
        str | None,
        COMMON,
        typer.Option(
            help="GPU prices: a table made by [bold]gpuplan prices[/bold] (.parquet), "
            "followed over time, or [bold]builtin[/bold] for gpuplan's own list. "
            "Choose with --set gpu=A100-80GB --set provider=vast.",
            metavar="FILE|builtin",
            show_default=False,
        ),
    ] = None
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            help="Time to save and load jobs, by class: a CSV of job_class, checkpoint_s, "
            "restore_s (seconds), or of job_class, state_gb, gb_per_s. Class * stands "
            "for all others.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ReplayOutput(Output):
    """Where and how a replay shows its result, with what happened over time."""

    timeline: Annotated[
        Path | None,
        typer.Option(
            help="Write a time line to this file (.parquet). Policies that rent: "
            "threshold, pressure, queue, workers by provider, offers, and price paid "
            "at every tick. Policies of one cluster: GPUs in use and jobs waiting.",
            metavar="FILE",
            rich_help_panel=OUTPUT_PANEL,
            show_default=False,
        ),
    ] = None


def timeline_file(made: Callable[[], pl.DataFrame], path: Path) -> tuple[Path, WriteFile]:
    """Return the file of a time line and the function that writes it."""

    def write(temporary: Path) -> None:
        from gpuplan.analysis.storage.parquet import write_parquet

        write_parquet(made(), temporary)

    return path, write
