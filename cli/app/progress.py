"""The bar of work that takes a while: its share, its rate, and the time that remains."""

from __future__ import annotations

from datetime import timedelta
from math import ceil

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text


class Pace(ProgressColumn):
    """The share of the work done in a second or a minute, and the time that remains."""

    def render(self, task: Task) -> Text:
        """Return both as text; empty until they are known."""
        if not task.speed or not task.total or task.time_remaining is None:
            return Text("")
        share = 100 * task.speed / task.total
        rate = f"{share:.3g}%/s" if share >= 1 else f"{60 * share:.3g}%/min"
        return Text(f"{rate}, {timedelta(seconds=ceil(task.time_remaining))} left")


def new_progress() -> Progress:
    """Return a bar on standard error that disappears at the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Pace(),
        TextColumn("after"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
