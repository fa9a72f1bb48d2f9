"""Not written yet."""

import typer


def register(app: typer.Typer) -> None:
    """Add nothing yet."""
