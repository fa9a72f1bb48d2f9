"""Options of commands that run many scenarios: where, and how many at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gpuplan.planner.engine import Engine

ENGINE_PANEL = "Where it runs"


class EngineName(StrEnum):
    """What runs scenarios side by side."""

    threads = "threads"
    processes = "processes"
    dask = "dask"
    ray = "ray"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Where scenarios run; the result does not depend on it."""

    engine: Annotated[
        EngineName,
        typer.Option(
            help="What runs replays in parallel. dask and ray need an extra: pip install "
            "'gpuplan\\[dask]'. Results are the same.",
            rich_help_panel=ENGINE_PANEL,
        ),
    ] = EngineName.threads
    address: Annotated[
        str | None,
        typer.Option(
            help="Dask scheduler (tcp://host:8786) or Ray head (host:6379) to use. "
            "Default: start workers on this machine.",
            rich_help_panel=ENGINE_PANEL,
            show_default=False,
        ),
    ] = None
    parallel: Annotated[
        int | None,
        typer.Option(
            help="Replays at a time on this machine. Default: one per core. Results are the same.",
            min=1,
            rich_help_panel=ENGINE_PANEL,
            show_default=False,
        ),
    ] = None

    def build(self) -> Engine:
        """Return the library's form of these options. Raises `UsageError` on a bad combination."""
        from gpuplan.planner.engine import Engine

        return Engine(self.engine.value, self.parallel, self.address)
