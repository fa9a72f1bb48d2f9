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
            help="What runs replays side by side; dask and ray need the extra of that name, for "
            "example pip install 'gpuplan\\[dask]'. The result does not depend on it.",
            rich_help_panel=ENGINE_PANEL,
        ),
    ] = EngineName.threads
    address: Annotated[
        str | None,
        typer.Option(
            help="A running Dask scheduler (tcp://host:8786) or Ray head (host:6379) to use; "
            "otherwise workers are started on this machine.",
            rich_help_panel=ENGINE_PANEL,
            show_default=False,
        ),
    ] = None
    parallel: Annotated[
        int | None,
        typer.Option(
            help="Replays at a time on this machine. Default: one per core. The result does not "
            "depend on it.",
            min=1,
            rich_help_panel=ENGINE_PANEL,
            show_default=False,
        ),
    ] = None

    def build(self) -> Engine:
        """Return the library's form of these options. Raises `UsageError` on a bad combination."""
        from gpuplan.planner.engine import Engine

        return Engine(self.engine.value, self.parallel, self.address)
