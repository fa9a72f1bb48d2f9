"""The bar of work that takes a while: its share, its rate, and the time that remains."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Rate(ProgressColumn):
    """The share of the work done in a second or a minute."""

    def render(self, task: Task) -> Text:
        """Return it as text; nothing until it is known."""
        per_s = task.finished_speed or task.speed
        if not per_s or not task.total:
            return Text("")
        share = 100 * per_s / task.total
        text = f"{share:.3g}%/s" if share >= 1 else f"{60 * share:.3g}%/min"
        return Text(text, style="progress.data.speed")


def new_progress() -> Progress:
    """Return a bar on standard error that leaves nothing behind."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Rate(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("after"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
